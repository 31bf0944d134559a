//! `cargo +nightly fuzz run run` in the crate's folder: no run directory makes a reader panic.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static PLACE: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a directory"));

fuzz_target!(|input: &[u8]| {
    let files = waggle_report::fuzzing::files(input);
    for (name, body) in &files {
        std::fs::write(PLACE.path().join(name), body).expect("a file");
    }
    waggle_report::fuzzing::read(PLACE.path());
    for (name, _) in &files {
        let _ = std::fs::remove_file(PLACE.path().join(name));
    }
});
