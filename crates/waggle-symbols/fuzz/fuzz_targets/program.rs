//! `cargo +nightly fuzz run program` in the crate's folder: no program file makes a reader panic.
#![no_main]

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// A file in memory or on disk that each input replaces.
static PLACE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("program");
    (directory, path)
});

fuzz_target!(|input: &[u8]| {
    let mut file = File::create(&PLACE.1).expect("a file");
    file.write_all(input).expect("written");
    waggle_symbols::fuzzing::program(&PLACE.1);
});
