//! Giving up what the kernel lets this process do beyond an ordinary user.
//!
//! Rights belong to threads and pass to those they start: what is done here is done by a process
//! with one thread, before it reads anything. Neighbours: the binary says which verbs need none;
//! `apart` says where scripts run when the process itself needs some.
//!
//! Invariant: what was given up cannot be had back, neither by this process nor by a program that
//! it starts.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// True if this thread has any right beyond an ordinary user's, or could put one into use.
pub fn has_any() -> bool {
    // A kernel that does not answer is not one to trust.
    capabilities(None).map_or(true, |had| {
        !(had.effective | had.permitted | had.inheritable).is_empty()
    })
}

/// Gives up everything, for this process and for programs it starts. A process that has nothing to
/// give up stays as it is.
///
/// # Errors
/// The kernel refuses.
pub fn give_up_all() -> io::Result<()> {
    match has_any() {
        true => keep_only(CapabilitySet::empty()),
        false => Ok(()),
    }
}

/// Keeps these rights at most, and lets programs that it starts have none.
///
/// # Errors
/// The kernel refuses; some may have been given up.
pub fn keep_only(wanted: CapabilitySet) -> io::Result<()> {
    deny_to_programs()?;
    let had = capabilities(None)?;
    let kept = had.permitted & wanted;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// Puts all rights that this thread could use into use, or out of it for a while.
///
/// # Errors
/// The kernel refuses.
pub fn use_permitted(used: bool) -> io::Result<()> {
    let had = capabilities(None)?;
    let effective = match used {
        true => had.permitted,
        false => CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, CapabilitySets { effective, ..had })?)
}

/// Programs that this process starts get no right, whatever their files say.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn deny_to_programs() -> io::Result<()> {
    // Without it, a program with the set-user-ID bit would bring everything back.
    set(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    set(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as _)?;
    empty_bounding_set();
    Ok(())
}

/// Programs that are started can have no right any more. Takes `CAP_SETPCAP`: without it, that no
/// program may gain rights ([`keep_only`]) has to be enough.
fn empty_bounding_set() {
    for right in 0..=63 {
        if set(libc::PR_CAPBSET_DROP, right).is_err() {
            return;
        }
    }
}

fn set(what: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: integers only; the calls used here change the flags of this thread and read no
    // memory.
    match unsafe { libc::prctl(what, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of_thread() -> String {
        std::fs::read_to_string("/proc/thread-self/status").unwrap()
    }

    #[test]
    fn what_was_given_up_is_gone_for_the_thread_alone() {
        let gone = std::thread::spawn(|| {
            give_up_all().unwrap();
            let status = status_of_thread();
            (has_any(), status)
        });
        let (any, status) = gone.join().unwrap();
        assert!(!any);
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let line = format!("{set}:\t0000000000000000\n");
            assert!(status.contains(&line), "{set}: {status}");
        }
    }
}
