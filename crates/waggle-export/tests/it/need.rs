//! What a test needs that a machine may lack: skipped aloud, or failed when it is required.

use std::io::Write;

/// Says that a test is skipped; fails instead when `WAGGLE_REQUIRE` names the need.
pub(crate) fn skip(need: &str, why: &str) {
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == need),
        "{need} is required: {why}"
    );
    // Past the capture of the test harness: a skip must be seen.
    let _ = writeln!(std::io::stderr(), "skipped: {need}: {why}");
}

/// The first of these programs that can be run.
pub(crate) fn program(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .and_then(|found| found.into_os_string().into_string().ok())
}
