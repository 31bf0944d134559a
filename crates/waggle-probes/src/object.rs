//! How is an object of the kernel half loaded, set, attached and read?
//!
//! What the probes share: they say which programs go where, and what the maps hold. Neighbours:
//! [`kernel`] knows what this kernel can do, `ring` reads events.
//!
//! Invariant: nothing is attached at a place whose bytes are not those that were decoded.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use libbpf_rs::{
    Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, ProgramAttachType, ProgramMut,
    UprobeMultiOpts, UprobeOpts,
};
use waggle_symbols::Site;

use crate::kernel;
use crate::ring::Ring;

/// Why a probe could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel refused the program or a map.
    #[error("the kernel refused the probe: {source}{messages}")]
    Load {
        /// What the kernel said.
        source: libbpf_rs::Error,
        /// libbpf's messages, the verifier's log among them.
        messages: String,
    },
    /// The kernel refused the attachment.
    #[error("cannot attach at {site} of {path}: {source}")]
    Attach {
        /// The binary.
        path: PathBuf,
        /// Function and offset.
        site: String,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// The file does not hold what was decoded.
    #[error(
        "{path} changed since it was read: at {offset:#x} it holds {found:02x?}, \
         not {expected:02x?}; try again"
    )]
    BytesDiffer {
        /// The binary.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Bytes now.
        found: Vec<u8>,
        /// Bytes decoded.
        expected: Vec<u8>,
    },
    /// The ring buffer could not be mapped, or the binary not read.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

pub(crate) fn refused(source: libbpf_rs::Error) -> ProbeError {
    ProbeError::Load {
        source,
        messages: kernel::last_messages(),
    }
}

/// Detaches probes side by side: for each the kernel waits until nothing runs its program any more,
/// some 0.1 s, and these waits can be one.
pub(crate) fn detach_all(links: impl IntoIterator<Item = Link>) {
    thread::scope(|scope| {
        for link in links {
            // Without a thread it is dropped here, with the closure.
            let _ = thread::Builder::new().spawn_scoped(scope, move || drop(link));
        }
    });
}

/// An object in the kernel. Its links are the probes' to keep.
#[derive(Debug)]
pub(crate) struct Loaded(Object);

impl Loaded {
    /// Loads an object, its uprobes as this kernel attaches them best. `set` is lent every map
    /// before, with its name.
    ///
    /// # Errors
    /// The kernel refuses (rights, lockdown, age), or `set` fails.
    pub(crate) fn load(
        object: &[u8],
        mut set: impl FnMut(&str, &mut OpenMapMut<'_>) -> Result<(), ProbeError>,
    ) -> Result<Self, ProbeError> {
        kernel::collect_messages();
        let mut open = ObjectBuilder::default()
            .open_memory(object)
            .map_err(refused)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            set(&name, &mut map)?;
        }
        if kernel::has_uprobe_multi() {
            for mut program in open.progs_mut() {
                if ["uprobe", "uretprobe"]
                    .iter()
                    .any(|kind| program.section() == *kind)
                {
                    program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
                }
            }
        }
        open.load().map(Self).map_err(refused)
    }

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
        let offset = usize::try_from(site.file_offset).unwrap_or(usize::MAX);
        let chosen = self.0.progs_mut().find(|p| p.name() == program);
        let chosen = chosen.expect("the program is in the object");
        let link = if kernel::has_uprobe_multi() {
            let options = UprobeMultiOpts {
                offsets: vec![offset],
                ..Default::default()
            };
            chosen.attach_uprobe_multi_with_opts(pid, binary, "", options)
        } else {
            chosen.attach_uprobe_with_opts(pid, binary, offset, UprobeOpts::default())
        };
        link.map_err(|source| ProbeError::Attach {
            path: binary.to_path_buf(),
            site: format!("{}+{:#x}", site.function, site.function_offset),
            source,
        })
    }

    /// The program of that name.
    pub(crate) fn program(&self, name: &str) -> ProgramMut<'_> {
        let chosen = self.0.progs_mut().find(|p| p.name() == name);
        chosen.expect("the program is in the object")
    }

    /// The map of that name; of data sections, whose names the object's comes before, the end.
    pub(crate) fn map(&self, name: &str) -> Map<'_> {
        let mut maps = self.0.maps();
        let found = maps.find(|map| {
            let found = map.name().to_string_lossy();
            found == name || (name.starts_with('.') && found.ends_with(name))
        });
        found.expect("the map is in the object")
    }

    /// Opens the ring buffer `events` for reading.
    ///
    /// # Errors
    /// It cannot be mapped.
    pub(crate) fn ring(&self) -> Result<Ring, ProbeError> {
        let map = self.map("events");
        Ring::new(map.as_fd(), map.max_entries()).map_err(|source| ProbeError::Io {
            doing: "mapping the ring buffer".into(),
            source,
        })
    }

    /// Writes the only value of a data section or an array.
    ///
    /// # Errors
    /// The map cannot be written.
    pub(crate) fn write(&self, map: &str, value: &[u8]) -> Result<(), ProbeError> {
        self.map(map)
            .update(&0u32.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(refused)
    }

    /// Empties a map. Nothing that writes it may be attached meanwhile.
    ///
    /// # Errors
    /// The map cannot be written.
    pub(crate) fn clear(&self, map: &str) -> Result<(), ProbeError> {
        let map = self.map(map);
        // All first: who deletes while he goes through a table begins again with every key.
        let keys: Vec<Vec<u8>> = map.keys().collect();
        for key in keys {
            match map.delete(&key) {
                Ok(()) => {}
                Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => {}
                Err(error) => return Err(refused(error)),
            }
        }
        Ok(())
    }

    /// The words at these offsets of the map `counters`, each summed over all processors.
    ///
    /// # Errors
    /// The map cannot be read.
    pub(crate) fn sums<const N: usize>(&self, at: [usize; N]) -> Result<[u64; N], ProbeError> {
        let values = self
            .map("counters")
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)?
            .unwrap_or_default();
        let word = |value: &Vec<u8>, at: usize| {
            let word = value.get(at..at + 8).and_then(|b| b.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        Ok(at.map(|at| values.iter().map(|value| word(value, at)).sum()))
    }

    /// The word at this offset of a map's only value, by processor.
    ///
    /// # Errors
    /// The map cannot be read.
    pub(crate) fn by_processor(&self, map: &str, at: usize) -> Result<Vec<u64>, ProbeError> {
        let values = self
            .map(map)
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)?
            .unwrap_or_default();
        let word = |value: &Vec<u8>| {
            let word = value.get(at..at + 8).and_then(|b| b.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        Ok(values.iter().map(word).collect())
    }

    /// The same, summed over all processors; 0 if the map cannot be read.
    pub(crate) fn sum(&self, map: &str, at: usize) -> u64 {
        let words = self.by_processor(map, at).unwrap_or_default();
        words.iter().sum()
    }

    /// Runs and total run time (ns) of `program`, as the kernel counted them while
    /// [`kernel::RunTimeStats`] was held.
    pub(crate) fn run_time(&self, program: &str) -> Option<(u64, u64)> {
        let program = self.0.progs_mut().find(|p| p.name() == program)?;
        kernel::run_time(program.as_fd())
    }

    /// Name and runs of every program that ran, counted likewise.
    pub(crate) fn runs(&self) -> Vec<(String, u64)> {
        let runs = self.0.progs_mut().filter_map(|program| {
            let (runs, _) = kernel::run_time(program.as_fd())?;
            (runs > 0).then(|| (program.name().to_string_lossy().into_owned(), runs))
        });
        runs.collect()
    }
}

/// Sets the bytes at `at` of a map's initial value.
pub(crate) fn set_initial(map: &mut OpenMapMut<'_>, at: usize, bytes: &[u8]) {
    let value = map
        .initial_value_mut()
        .expect("the object has read-only data");
    value[at..at + bytes.len()].copy_from_slice(bytes);
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
