//! What a test needs that a machine may lack: skipped aloud, or failed where it is required.
//!
//! A skip is a line `skipped: <need>: <why>`, which the runner of the tests counts. The needs are
//! named in CONTRIBUTING.md; those in `WAGGLE_REQUIRE=<need>,...` may not be lacking.
//!
//! Neighbours: the tests of all crates, and nothing else. Invariant: a test that returns early for
//! want of something has said so where no test harness hides it.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// True if `available`; else the test is to return, which has been said.
///
/// # Panics
/// It is not available and `WAGGLE_REQUIRE` names it.
#[must_use]
pub fn need(name: &str, available: bool, why: &str) -> bool {
    if !available {
        skip(name, why);
    }
    available
}

/// What a test needs, if it could be had; else the test is to return, which has been said.
///
/// # Panics
/// It could not, and `WAGGLE_REQUIRE` names it.
#[must_use]
pub fn had<T, E: Display>(name: &str, had: Result<T, E>) -> Option<T> {
    match had {
        Ok(had) => Some(had),
        Err(why) => {
            skip(name, &why.to_string());
            None
        }
    }
}

/// Says that a test is skipped for want of `name`.
///
/// # Panics
/// `WAGGLE_REQUIRE` names it.
pub fn skip(name: &str, why: &str) {
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    assert!(!is_among(&required, name), "{name} is required: {why}");
    // Past the capture of the test harness: a skip must be seen.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
}

/// Whether names with commas between have this one.
fn is_among(names: &str, name: &str) -> bool {
    names.split(',').any(|one| one.trim() == name)
}

/// True if probes can be attached here; else the skip is said.
///
/// # Panics
/// They cannot, and `WAGGLE_REQUIRE` names what is lacking: `root` or `bpf`.
#[must_use]
pub fn can_probe() -> bool {
    let has_types = Path::new("/sys/kernel/btf/vmlinux").exists();
    need("root", is_root(), "probes need root") && need("bpf", has_types, "the kernel has no BTF")
}

/// True if there is a C compiler; else the skip is said.
///
/// # Panics
/// There is none, and `WAGGLE_REQUIRE` names `cc`.
#[must_use]
pub fn can_compile() -> bool {
    let cc = Command::new("cc").arg("--version").output();
    let works = cc.is_ok_and(|cc| cc.status.success());
    need("cc", works, "no C compiler")
}

/// True if this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The first of these programs that is on the `PATH`.
pub fn program(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .and_then(|found| found.into_os_string().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::is_among;

    #[test]
    fn needs_are_required_by_their_whole_names() {
        assert!(is_among("mariadb, bpf", "bpf"));
        assert!(is_among("mysql", "mysql"));
        assert!(!is_among("fetch-mysql,mariadb", "mysql"));
        assert!(!is_among("", "mysql"));
    }
}
