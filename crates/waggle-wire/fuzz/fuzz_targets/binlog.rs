//! `cargo +nightly fuzz run binlog` in the crate's folder: no log makes its reader panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    waggle_wire::fuzzing::binlog(input);
});
