//! `cargo +nightly fuzz run packets` in the crate's folder: no packets make the agent panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    waggle_agent::source::packets::fuzzing::traffic(input);
});
