//! How is an object of the kernel half loaded and set, and how are its programs and maps had?
//!
//! What the probes share: they say which programs go where, and what the maps hold. Neighbours:
//! `uprobe` attaches in a process, `counters` reads what the programs counted and took; [`kernel`]
//! knows what this kernel can do, `ring` reads events.
//!
//! Invariant: an error has what libbpf said, the verifier's log among it.

mod counters;
mod uprobe;

pub(crate) use uprobe::{Uprobe, check_bytes};

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;

use libbpf_rs::{
    Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, ProgramAttachType, ProgramMut,
};

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

    /// The program of that name.
    pub(crate) fn program(&self, name: &str) -> ProgramMut<'_> {
        let chosen = self.0.progs_mut().find(|p| p.name() == name);
        chosen.expect("the program is in the object")
    }

    /// Attaches each of `programs` at the raw tracepoint that it is called after.
    ///
    /// # Errors
    /// The kernel refuses; nothing is attached then.
    pub(crate) fn at_tracepoints(&self, programs: &[&str]) -> Result<Vec<Link>, ProbeError> {
        let attach = |name: &&str| self.program(name).attach_raw_tracepoint(name);
        let links = programs.iter().map(attach);
        links.collect::<Result<_, _>>().map_err(refused)
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
}

/// Sets the bytes at `at` of a map's initial value.
pub(crate) fn set_initial(map: &mut OpenMapMut<'_>, at: usize, bytes: &[u8]) {
    let value = map
        .initial_value_mut()
        .expect("the object has read-only data");
    value[at..at + bytes.len()].copy_from_slice(bytes);
}
