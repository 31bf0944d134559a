//! `cargo +nightly fuzz run session` in the crate's folder: no server makes the client panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    waggle_wire::fuzzing::session(input);
});
