//! Which thread is the owner of a latch, which is known as a `pthread_t`?
//!
//! Neighbour: `code` reads the C library's function. Invariant: the place comes from the library
//! that is mapped, not from what is known of its versions.

use std::path::Path;

use iced_x86::{Code, Mnemonic, Register as Machine};

use super::code::{function, instructions, place};
use crate::elf::Binary;

/// In libc.
const CLOCK_OF_THREAD: &str = "pthread_getcpuclockid";

/// Where a `pthread_t` of the C library at `path` keeps the thread's number, bytes.
///
/// # Errors
/// The file cannot be read, or the function that reads the number is not of the form that is
/// known: `mov reg, [rdi + OFFSET]`, and soon `not reg`.
pub fn thread_number(path: &Path) -> Result<u32, String> {
    let binary = Binary::open(path, |name| name.starts_with(CLOCK_OF_THREAD))
        .map_err(|error| error.to_string())?;
    let clock = function(&binary, CLOCK_OF_THREAD)?;
    let instructions = instructions(&clock);
    let turned = instructions
        .iter()
        .position(|i| i.mnemonic() == Mnemonic::Not);
    let found = turned.and_then(|at| {
        let register = instructions[at].op0_register();
        let load = instructions[..at]
            .iter()
            .rev()
            .find(|i| i.code() == Code::Mov_r32_rm32 && i.op0_register() == register)?;
        place(load).filter(|(base, _)| *base == Machine::RDI)
    });
    let found = found.map(|(_, offset)| offset);
    found.ok_or_else(|| format!("{CLOCK_OF_THREAD} is not of the form that is known"))
}
