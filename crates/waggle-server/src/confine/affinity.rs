//! On which processors a thread may run, and keeping all threads of a process to some.
//!
//! Invariant: a thread starts with the affinity of the one that starts it, so once every thread
//! there is has it, those to come have it too.

use std::fs;
use std::io;
use std::mem;
use std::sync::OnceLock;

/// A set of processors.
#[derive(Clone, Copy)]
pub(super) struct Mask(libc::cpu_set_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.processors()).finish()
    }
}

impl Mask {
    /// These processors.
    pub(super) fn of_processors(cpus: &[u32]) -> Self {
        // SAFETY: a set of processors is plain bits; all zero is the empty one.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as u32) {
            // SAFETY: within the set, as filtered above.
            unsafe { libc::CPU_SET(*cpu as usize, &mut set) };
        }
        Self(set)
    }

    /// Its processors, in order.
    pub(super) fn processors(&self) -> Vec<u32> {
        (0..libc::CPU_SETSIZE as u32)
            // SAFETY: within the set.
            .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &self.0) })
            .collect()
    }
}

/// Where a thread may run; 0 is the calling one.
pub(super) fn of(tid: u32) -> io::Result<Mask> {
    let mut mask = Mask::of_processors(&[]);
    let size = mem::size_of::<libc::cpu_set_t>();
    // SAFETY: the set is writable and as long as told.
    let done = unsafe { libc::sched_getaffinity(tid as libc::pid_t, size, &mut mask.0) };
    match done {
        0 => Ok(mask),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where this process was allowed to run when this was asked first: what it may use, however its
/// threads are kept since.
pub(super) fn at_first() -> io::Result<Mask> {
    static FIRST: OnceLock<Mask> = OnceLock::new();
    match FIRST.get() {
        Some(mask) => Ok(*mask),
        None => of(0).map(|mask| *FIRST.get_or_init(|| mask)),
    }
}

fn keep(tid: u32, mask: &Mask) -> io::Result<()> {
    let size = mem::size_of::<libc::cpu_set_t>();
    // SAFETY: the set is readable and as long as told.
    let done = unsafe { libc::sched_setaffinity(tid as libc::pid_t, size, &mask.0) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The threads of a process; none if it is gone.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().parse().ok();
    entries.flatten().flatten().filter_map(name).collect()
}

/// Keeps all threads of a process to `mask`.
pub(super) fn keep_threads(pid: u32, mask: &Mask) -> io::Result<()> {
    keep_all_but(None, pid, mask)
}

/// Keeps all threads of this process but the calling one to `mask`.
pub(super) fn keep_other_threads(mask: &Mask) -> io::Result<()> {
    // SAFETY: gettid has no arguments and cannot fail.
    let own = unsafe { libc::gettid() } as u32;
    keep_all_but(Some(own), std::process::id(), mask)
}

/// Keeps all threads of a process but its first one to `mask`.
pub(super) fn keep_further_threads(pid: u32, mask: &Mask) -> io::Result<()> {
    keep_all_but(Some(pid), pid, mask)
}

fn keep_all_but(spared: Option<u32>, pid: u32, mask: &Mask) -> io::Result<()> {
    let mut done: Vec<u32> = spared.into_iter().collect();
    loop {
        let new: Vec<u32> = threads(pid)
            .into_iter()
            .filter(|tid| !done.contains(tid))
            .collect();
        // A thread started meanwhile by one that was not kept yet is among the next.
        if new.is_empty() {
            return match done.is_empty() {
                true => Err(io::ErrorKind::NotFound.into()),
                false => Ok(()),
            };
        }
        for tid in new {
            match keep(tid, mask) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                _ => done.push(tid),
            }
        }
    }
}
