//! When do the threads of servers run, wait for a processor, or wait for something else?
//!
//! One object for all servers: the scheduler tells of every switch on the host, and a bitmap passes
//! over what is no server's. What is known of a thread stands in the map `threads`, which the
//! statement probes share ([`crate::statement`]): they split a statement's time by it.
//!
//! Invariant: a thread that is not in the map has no breakdown; it never has a wrong one.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/sched.skel.rs"));
}

mod calls;
mod live;

pub use live::{Doing, LiveThread};

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs, io};

use libbpf_rs::{Link, MapCore, MapFlags};

use crate::kernel;
use crate::object::{Loaded, ProbeError, detach_all, refused, set_initial};
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sched.bpf.o"));
const PROGRAMS: [&str; 3] = ["sched_switch", "sched_process_fork", "sched_process_exit"];

/// Why times cannot be told apart here. The statement probe works without.
#[derive(Debug, thiserror::Error)]
pub enum SchedError {
    /// The kernel does not describe its types, so that its fields cannot be found.
    #[error("the kernel does not describe its types ({path}: {source})")]
    NoTypes {
        /// Where they were looked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused the programs, a map or an attachment.
    #[error("{doing}: {source}{messages}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
        /// The end of libbpf's messages.
        messages: String,
    },
    /// The threads of a process could not be listed: it has ended, or may not be looked at.
    #[error("listing the threads of process {pid}: {source}")]
    Threads {
        /// Whose.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
}

/// What was being done, to an error.
fn told(doing: &'static str) -> impl Fn(ProbeError) -> SchedError {
    move |error| {
        let (source, messages) = match error {
            ProbeError::Load { source, messages } => (source, messages),
            other => (io::Error::other(other.to_string()).into(), String::new()),
        };
        SchedError::Refused {
            doing,
            source,
            messages,
        }
    }
}

/// Most threads of all servers together, if nothing else is asked for; about 500 bytes each.
pub const THREADS_MAX: u32 = 8192;

/// What the kernel half counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times a server's thread left its processor.
    pub switches: u64,
    /// Threads for which there was no room: their statements have no breakdown.
    pub map_full: u64,
}

/// The loaded probe of the scheduler, for all servers.
#[derive(Debug)]
pub struct SchedProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<Link>,
    object: Loaded,
    pids: BTreeSet<u32>,
}

impl SchedProbe {
    /// Loads the kernel half with room for `threads_max` threads. Attaches nothing.
    ///
    /// # Errors
    /// The kernel does not describe its types or keeps no run-queue delay, or refuses.
    pub fn load(threads_max: u32) -> Result<Self, SchedError> {
        let path = kernel::btf_path();
        fs::metadata(&path).map_err(|source| SchedError::NoTypes {
            path: path.display().to_string(),
            source,
        })?;
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with(".rodata") {
                let mut config = types::sched_config::default();
                calls::fill(&mut config.calls);
                set_initial(map, offset_of!(types::rodata, config), &config.calls);
            } else if name == "threads" {
                map.set_max_entries(threads_max.max(64)).map_err(refused)?;
            }
            Ok(())
        });
        Ok(Self {
            links: Vec::new(),
            object: object.map_err(told("loading the scheduler's probe"))?,
            pids: BTreeSet::new(),
        })
    }

    /// Attaches to the scheduler. Costs next to nothing until a server is watched.
    ///
    /// # Errors
    /// The kernel refuses; nothing is attached then.
    pub fn attach(&mut self) -> Result<(), SchedError> {
        self.links.clear();
        let links = self.object.at_tracepoints(&PROGRAMS);
        self.links = links.map_err(told("attaching to the scheduler"))?;
        Ok(())
    }

    /// Leaves the scheduler alone. Statements end without a breakdown until it is attached again.
    pub fn detach(&mut self) {
        detach_all(self.links.drain(..));
    }

    /// Watches a server's threads, those to come included. Returns how many there are.
    ///
    /// # Errors
    /// The process has ended, or a map cannot be written.
    pub fn watch(&mut self, pid: u32) -> Result<usize, SchedError> {
        self.pids.insert(pid);
        self.object
            .map("servers")
            .update(&pid.to_ne_bytes(), &[1, 0, 0, 0], MapFlags::ANY)
            .map_err(refused)
            .and_then(|()| self.write_bits())
            .map_err(told("telling the kernel half of a server"))?;
        // From here on new threads enter themselves. The others: until no new one shows up.
        let mut known = BTreeSet::new();
        loop {
            let before = known.len();
            for tid in threads_of(pid).map_err(|source| SchedError::Threads { pid, source })? {
                if known.insert(tid) {
                    self.add_thread(pid, tid)?;
                }
            }
            if known.len() == before {
                return Ok(known.len());
            }
        }
    }

    /// Forgets a server and its threads; harmless if it is not watched.
    pub fn unwatch(&mut self, pid: u32) {
        self.pids.remove(&pid);
        let _ = self.object.map("servers").delete(&pid.to_ne_bytes());
        let _ = self.write_bits();
        let mut gone = Vec::new();
        self.each_thread(|thread| gone.extend((thread.pid == pid).then_some(thread.tid)));
        let threads = self.object.map("threads");
        for tid in gone {
            let _ = threads.delete(&tid.to_ne_bytes());
        }
    }

    fn add_thread(&self, pid: u32, tid: u32) -> Result<(), SchedError> {
        let mut state = vec![0u8; size_of::<types::thread_state>()];
        let mut put = |at: usize, value: u32| {
            state[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(offset_of!(types::thread_state, tgid), pid);
        let away = types::departure::AWAY_NOT.0;
        put(offset_of!(types::thread_state, away), away);
        let threads = self.object.map("threads");
        match threads.update(&tid.to_ne_bytes(), &state, MapFlags::NO_EXIST) {
            Ok(()) => Ok(()),
            // It entered itself meanwhile, or there is no room, which shows as its statements
            // having no breakdown.
            Err(error)
                if matches!(
                    error.kind(),
                    libbpf_rs::ErrorKind::AlreadyExists | libbpf_rs::ErrorKind::Other
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(told("adding a server's thread")(refused(error))),
        }
    }

    fn write_bits(&self) -> Result<(), ProbeError> {
        let mut bits = vec![0u8; size_of::<types::server_bits>()];
        for pid in &self.pids {
            let bit = *pid as usize % (bits.len() * 8);
            bits[bit / 8] |= 1 << (bit % 8);
        }
        self.object.write(".data.servers", &bits)
    }

    /// Lends the state of every watched thread to `each`. A hundred threads take some 20 us.
    pub fn each_thread(&self, mut each: impl FnMut(LiveThread)) {
        let map = self.object.map("threads");
        let Ok(batch) = map.lookup_batch(1024, MapFlags::ANY, MapFlags::ANY) else {
            return;
        };
        for (key, value) in batch {
            if let Some(thread) = LiveThread::parse(&key, &value) {
                each(thread);
            }
        }
    }

    /// What the kernel half counted so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Counters, SchedError> {
        use types::sched_counters as in_kernel;
        let places = [
            offset_of!(in_kernel, switches),
            offset_of!(in_kernel, map_full),
        ];
        let sums = self.object.sums("counters", places);
        let [switches, map_full] = sums.map_err(told("reading the scheduler probe's counters"))?;
        Ok(Counters { switches, map_full })
    }

    /// Runs and total run time (ns) of the program at each switch, on the whole host, as the
    /// kernel counted them while [`kernel::RunTimeStats`] was held.
    pub fn run_time(&self) -> Option<(u64, u64)> {
        self.object.run_time(PROGRAMS[0])
    }

    /// The map that the statement probes share.
    pub(crate) fn with_threads<T>(&self, share: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        let map = self.object.map("threads");
        share(map.as_fd())
    }
}

fn threads_of(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::types::wait_class;
    use crate::wait::WaitClass;

    #[test]
    fn classes_are_numbered_as_in_the_kernel_half() {
        let kernel = [
            wait_class::WAIT_ROW_LOCK,
            wait_class::WAIT_METADATA_LOCK,
            wait_class::WAIT_TABLE_LOCK,
            wait_class::WAIT_REDO,
            wait_class::WAIT_BINARY_LOG,
            wait_class::WAIT_DISK_READ,
            wait_class::WAIT_DISK_WRITE,
            wait_class::WAIT_NETWORK_WRITE,
            wait_class::WAIT_NETWORK_READ,
            wait_class::WAIT_LATCH,
            wait_class::WAIT_SLEEP,
            wait_class::WAIT_OTHER,
        ];
        let rust = [
            WaitClass::RowLock,
            WaitClass::MetadataLock,
            WaitClass::TableLock,
            WaitClass::Redo,
            WaitClass::BinaryLog,
            WaitClass::DiskRead,
            WaitClass::DiskWrite,
            WaitClass::NetworkWrite,
            WaitClass::NetworkRead,
            WaitClass::Latch,
            WaitClass::Sleep,
            WaitClass::Other,
        ];
        assert_eq!(kernel.len(), wait_class::WAIT_CLASSES.0 as usize);
        for (c, rust) in kernel.into_iter().zip(rust) {
            assert_eq!(c.0 as usize, rust.index(), "{}", rust.as_str());
            assert_eq!(WaitClass::ALL[rust.index()], rust);
        }
    }
}
