//! What does a watched call cost? The programs' time in the process itself, by the kernel's own
//! account; the traps measured on waggle, so that no server is disturbed.
//!
//! The traps' figure is that of a tight loop: caches are warm. In a server the same costs more.

use std::path::Path;

use super::{CallProbe, NOTHING, ProbeError};
use crate::own;
use waggle_symbols::{Site, TrapCost};

/// Calls a round, and rounds. A round is short, so that on a busy host there are some that nothing
/// interrupts.
const CALLS: u32 = 200;
const ROUNDS: u32 = 100;

/// Runs and time (ns) of each program, while the kernel counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCost {
    /// Where calls begin.
    pub entered: (u64, u64),
    /// Where they return.
    pub returned: (u64, u64),
    /// At every switch of the host.
    pub switched: (u64, u64),
}

/// Begins with `push`, as most functions do, and does nothing else.
#[unsafe(naked)]
extern "C" fn emulated() {
    core::arch::naked_asm!("push rbp", "pop rbp", "ret")
}

/// Begins with what the kernel has to single-step.
#[unsafe(naked)]
extern "C" fn stepped() {
    core::arch::naked_asm!("mov eax, edi", "ret")
}

/// Time of the traps of one call with empty programs, where it begins and where it returns, ns:
/// with an instruction that the kernel emulates, or one that it single-steps.
///
/// # Errors
/// The probe cannot be attached to this process.
pub fn pair_ns(probe: &CallProbe, trap: TrapCost) -> Result<f64, ProbeError> {
    let (function, bytes): (extern "C" fn(), _) = match trap {
        TrapCost::Emulated => (emulated, vec![0x55]),
        TrapCost::SingleStepped => (stepped, vec![0x89, 0xf8]),
    };
    let site = Site {
        bytes,
        instruction: String::new(),
        trap,
        ..own::site("waggle's own", function as *const ())?
    };
    let bare = own::least_ns_per_call(function, CALLS, ROUNDS);
    let sites = [site];
    let this = std::process::id();
    let binary = Path::new("/proc/self/exe");
    let _returns = probe.attach_at(this, binary, NOTHING, &sites, true)?;
    let _entries = probe.attach_at(this, binary, NOTHING, &sites, false)?;
    let probed = own::least_ns_per_call(function, CALLS, ROUNDS);
    Ok((probed - bare).max(0.0))
}
