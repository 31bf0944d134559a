//! How many files this process may have open: each connection of a load is one.
//!
//! Sessions usually start with a limit of 1024 and the right to raise it, which the verbs that
//! make load use. Invariant: servers they start before keep the limit of the user's session.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as this user may; a load that needs more fails with the kernel's words.
pub(crate) fn allow_most() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused only where the hard limit is none at all and the kernel's own is lower.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum.map(|maximum| maximum - 1);
        setrlimit(Resource::Nofile, limit).expect("lowering is everybody's right");
        allow_most();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
