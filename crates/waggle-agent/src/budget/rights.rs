//! Which rights the agent keeps once it watches: as few as what it has still to do allows.
//!
//! * A sink's threads keep none.
//! * Those that ask a server over its socket keep `CAP_DAC_OVERRIDE`: it may lie where only the
//!   server may look. Those that ask over TCP keep none.
//! * Watching given servers, the loop keeps `CAP_SYS_PTRACE`: the sessions that block others are
//!   read from the server's memory, and what its process reads and writes from `/proc/PID/io`.
//! * Following servers as they come, it keeps besides `CAP_BPF` and `CAP_PERFMON`, to load and
//!   attach to the next one, and `CAP_DAC_READ_SEARCH`, to read the program of a server of another
//!   user.
//! * In a control group of its own, it keeps `CAP_DAC_OVERRIDE` within reach, to remove the group
//!   at the end.
//!
//! Rights belong to threads: those started before keep theirs. Neighbour: the binary says when.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// What a thread has still to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Deliver what it is given.
    Deliver,
    /// Ask a server over its socket.
    Ask,
    /// Watch the servers it has attached to.
    Watch,
    /// The same, and attach to those that come.
    Follow,
}

impl Task {
    fn needs(self) -> CapabilitySet {
        match self {
            Self::Deliver => CapabilitySet::empty(),
            Self::Ask => CapabilitySet::DAC_OVERRIDE,
            Self::Watch => CapabilitySet::SYS_PTRACE,
            Self::Follow => {
                CapabilitySet::SYS_PTRACE
                    | CapabilitySet::BPF
                    | CapabilitySet::PERFMON
                    | CapabilitySet::DAC_READ_SEARCH
            }
        }
    }
}

/// Gives up every right of this thread, and of threads it starts, that `task` does not need.
/// With `leaves_group`, the right to remove a control group stays within reach, not in use, for
/// `raise`. Returns the names of those that are left.
///
/// # Errors
/// The kernel refuses; nothing was given up.
pub fn keep(task: Task, leaves_group: bool) -> io::Result<Vec<String>> {
    let had = rustix::thread::capabilities(None)?;
    let kept = had.permitted & task.needs();
    // The root of a hierarchy may be written by nobody.
    let later = match leaves_group {
        true => had.permitted & CapabilitySet::DAC_OVERRIDE,
        false => CapabilitySet::empty(),
    };
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept | later,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    let names = (kept | later).iter_names();
    Ok(names.map(|(name, _)| format!("CAP_{name}")).collect())
}

/// Does `work`, the first and only thing of a thread, without any right.
pub fn without_rights<T>(work: impl FnOnce() -> T) -> T {
    // Refused where there are none to give up; then there is nothing to do.
    let _ = keep(Task::Deliver, false);
    work()
}

/// Puts what is within reach into use.
///
/// # Errors
/// The kernel refuses.
pub(super) fn raise() -> io::Result<()> {
    let had = rustix::thread::capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: had.permitted,
            ..had
        },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_gone_and_other_threads_keep_theirs() {
        let before = rustix::thread::capabilities(None)
            .expect("readable")
            .effective;
        let of_thread = std::thread::spawn(|| {
            let watching = keep(Task::Watch, false).expect("a smaller set is always allowed");
            assert!(watching.iter().all(|name| name == "CAP_SYS_PTRACE"));
            // Nothing comes back.
            assert_eq!(
                keep(Task::Follow, false).expect("the same set").len(),
                watching.len()
            );
            assert!(keep(Task::Deliver, false).expect("no set").is_empty());
            rustix::thread::capabilities(None).expect("readable")
        });
        let after = of_thread.join().expect("the thread");
        assert!(after.effective.is_empty() && after.permitted.is_empty());
        let here = rustix::thread::capabilities(None)
            .expect("readable")
            .effective;
        assert_eq!(here, before);
    }
}
