//! Is there room for the rows at the target, and for the spool here?

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::facts::Facts;
use super::refusal;
use crate::error::Finding;

/// InnoDB's pages after a copy are about as full as before; the sorted builds of keys need their
/// size once more for a while.
const SORT_SHARE: f64 = 1.0;
/// Estimates of servers are that wrong.
const MARGIN: f64 = 1.2;

/// Only of directories of this machine: a server does not say how full its disk is.
pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(directory) = facts
        .target
        .datadir
        .as_deref()
        .filter(|_| !facts.is_resumed)
    {
        let data: u64 = facts.described.iter().map(|table| table.data_bytes).sum();
        let index: u64 = facts.described.iter().map(|table| table.index_bytes).sum();
        let needed = needed_bytes(data, index);
        found.extend(lacking(
            "the target's data directory",
            directory,
            needed,
            "rows and keys",
        ));
    }
    if facts.follows() {
        let most = facts.plan.spool_bytes_max;
        let place = existing(&facts.plan.spool);
        found.extend(lacking(
            "the spool's directory",
            place,
            most,
            "changes kept until applied",
        ));
    }
    found
}

fn needed_bytes(data: u64, index: u64) -> u64 {
    ((data as f64 + index as f64 * (1.0 + SORT_SHARE)) * MARGIN) as u64
}

/// The nearest directory that is there.
fn existing(path: &Path) -> &Path {
    path.ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("."))
}

fn lacking(what: &str, directory: &Path, needed: u64, of: &str) -> Option<Finding> {
    let free = free_bytes(directory)?;
    let mib = |bytes: u64| bytes >> 20;
    (free < needed).then(|| {
        refusal(
            "space",
            format!(
                "{what} {} has {} MiB free, and {of} may take {} MiB",
                directory.display(),
                mib(free),
                mib(needed)
            ),
            "make room, or set a lower --spool-max if it is the spool",
        )
    })
}

/// Bytes that an ordinary process may still write there.
fn free_bytes(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut facts = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a path that ends in NUL and a place for the answer, both alive during the call.
    let done = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) };
    if done != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has filled the answer.
    let facts = unsafe { facts.assume_init() };
    Some(facts.f_bavail.saturating_mul(facts.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        assert_eq!(needed_bytes(100, 50), 240);
        let here = Path::new("/");
        assert!(free_bytes(here).is_some());
        assert_eq!(lacking("x", here, 1, "rows"), None);
        let found = lacking("the disk", here, u64::MAX, "rows").unwrap();
        assert!(found.reason.contains("MiB free"), "{}", found.reason);
        assert_eq!(existing(Path::new("/no/such/place")), Path::new("/"));
    }
}
