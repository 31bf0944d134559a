//! `cargo +nightly fuzz run process` in the crate's folder:
//! no text of a process makes discovery panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    waggle_server::discovery::fuzzing::process(input);
});
