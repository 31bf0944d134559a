//! What a test needs that a machine may lack: skipped aloud, or failed when it is required. Every
//! test binary of this crate has it.

use std::io::Write;

/// True if `available`; else says that the test is skipped, or fails it if `WAGGLE_REQUIRE` names
/// the need.
pub(crate) fn need(name: &str, available: bool, why: &str) -> bool {
    if available {
        return true;
    }
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|need| need.trim() == name),
        "{name} is required: {why}"
    );
    // Past the capture of the test harness: a skip must be seen.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
    false
}
