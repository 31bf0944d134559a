//! Where in a process does a program run?
//!
//! Neighbours: `waggle_symbols` found the places; [`kernel`] knows by which link they are attached.
//!
//! Invariant: nothing is attached at a site whose bytes are not those that were decoded. Who
//! attaches by [`Loaded::uprobes`] compares them first, by [`check_bytes`].

use std::path::Path;

use libbpf_rs::{Link, UprobeMultiOpts, UprobeOpts};
use waggle_symbols::Site;

use super::{Loaded, ProbeError};
use crate::kernel;

/// A place in a binary.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uprobe {
    /// In the file, bytes.
    pub(crate) offset: u64,
    /// What the program there reads.
    pub(crate) cookie: u64,
    /// In the file: a counter that the kernel raises while somebody is attached; 0: none.
    pub(crate) semaphore: u64,
}

impl Loaded {
    /// Attaches `program` at `site` in process `pid`, whose executable is `binary`.
    ///
    /// # Errors
    /// The bytes at the site are not those that were decoded, or the kernel refuses.
    pub(crate) fn attach(
        &self,
        pid: i32,
        binary: &Path,
        program: &str,
        site: &Site,
    ) -> Result<Link, ProbeError> {
        check_bytes(binary, site.file_offset, &site.bytes)?;
        let place = Uprobe {
            offset: site.file_offset,
            ..Uprobe::default()
        };
        self.uprobes(pid, binary, program, &[place], false)
            .map_err(|source| ProbeError::Attach {
                path: binary.to_path_buf(),
                site: format!("{}+{:#x}", site.function, site.function_offset),
                source,
            })
    }

    /// Attaches `program` by one link at these places, where functions begin, or from where they
    /// return. Only where [`kernel::has_uprobe_multi`] may there be more than one.
    ///
    /// # Errors
    /// The kernel refuses; nothing is attached then.
    pub(crate) fn uprobes(
        &self,
        pid: i32,
        binary: &Path,
        program: &str,
        places: &[Uprobe],
        returns: bool,
    ) -> Result<Link, libbpf_rs::Error> {
        let program = self.program(program);
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        if let ([place], false) = (places, kernel::has_uprobe_multi()) {
            let options = UprobeOpts {
                cookie: place.cookie,
                ref_ctr_offset: number(place.semaphore),
                retprobe: returns,
                ..Default::default()
            };
            return program.attach_uprobe_with_opts(pid, binary, number(place.offset), options);
        }
        let has_semaphores = places.iter().any(|place| place.semaphore != 0);
        let semaphores = places.iter().filter(|_| has_semaphores);
        let options = UprobeMultiOpts {
            offsets: places.iter().map(|place| number(place.offset)).collect(),
            cookies: places.iter().map(|place| place.cookie).collect(),
            ref_ctr_offsets: semaphores.map(|place| number(place.semaphore)).collect(),
            retprobe: returns,
            ..Default::default()
        };
        program.attach_uprobe_multi_with_opts(pid, binary, "", options)
    }
}

/// Compares the file's bytes at `offset` with those that were decoded.
pub(crate) fn check_bytes(binary: &Path, offset: u64, expected: &[u8]) -> Result<(), ProbeError> {
    use std::os::unix::fs::FileExt;
    let mut found = vec![0; expected.len()];
    std::fs::File::open(binary)
        .and_then(|file| file.read_exact_at(&mut found, offset))
        .map_err(|source| ProbeError::Io {
            doing: format!("reading {}", binary.display()),
            source,
        })?;
    if found == expected {
        return Ok(());
    }
    Err(ProbeError::BytesDiffer {
        path: binary.to_path_buf(),
        offset,
        found,
        expected: expected.to_vec(),
    })
}
