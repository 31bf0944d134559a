//! What does a hit of the probe cost? Measured on waggle itself, with the program that does
//! nothing, so that no server is disturbed.
//!
//! The figure is that of a tight loop: caches are warm. In a server the same trap costs more,
//! which only the lab can measure; reports say which of the two they show.

use std::path::Path;
use std::time::Instant;

use super::{ProbeError, Program, StatementProbe};
use crate::own;

/// Calls a round, and rounds: the least of the rounds is taken, as interruptions only add.
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
    let bare = least_ns_per_call();
    let link = probe.link_at(
        pid,
        Path::new("/proc/self/exe"),
        Program::Empty.name(),
        &site,
    )?;
    let probed = least_ns_per_call();
    drop(link);
    Ok((probed - bare).max(0.0))
}

fn least_ns_per_call() -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(probed as extern "C" fn())();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
