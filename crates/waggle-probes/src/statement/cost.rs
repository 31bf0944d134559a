//! What does a hit of the probe cost? Measured on waggle itself, with the program that does
//! nothing, so that no server is disturbed.
//!
//! The figure is that of a tight loop: caches are warm. In a server the same trap costs more,
//! which only the lab can measure; reports say which of the two they show.

use std::path::Path;

use super::{ProbeError, Program, StatementProbe};
use crate::own;

/// Calls a round, and rounds.
const CALLS: u32 = 4_000;
const ROUNDS: u32 = 5;

/// Begins with `push`, as most functions do, and does nothing else.
#[unsafe(naked)]
extern "C" fn probed() {
    core::arch::naked_asm!("push rbp", "pop rbp", "ret")
}

/// Time of one breakpoint on an emulated instruction, with an empty program, ns.
///
/// # Errors
/// The probe cannot be attached to this process.
pub fn trap_ns(probe: &mut StatementProbe) -> Result<f64, ProbeError> {
    let site = own::site("waggle's own", probed as *const ())?;
    let pid = std::process::id().cast_signed();
    let bare = own::least_ns_per_call(probed, CALLS, ROUNDS);
    let link = probe.link_at(
        pid,
        Path::new("/proc/self/exe"),
        Program::Empty.name(),
        &site,
    )?;
    let trapped = own::least_ns_per_call(probed, CALLS, ROUNDS);
    drop(link);
    Ok((trapped - bare).max(0.0))
}
