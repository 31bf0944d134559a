//! What does a watched call cost? The programs' time in the process itself, by the kernel's own
//! account; the traps measured on waggle, so that no server is disturbed.
//!
//! The traps' figure is that of a tight loop: caches are warm. In a server the same costs more.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::{CallProbe, NOTHING, ProbeError};
use waggle_symbols::site::Register;
use waggle_symbols::{Site, TrapCost};

/// Calls a round, and rounds: the least of the rounds is taken, as interruptions only add. A round
/// is short, so that on a busy host there are some that nothing interrupts.
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
    let site = own_site(function, bytes, trap)?;
    let bare = least_ns_per_call(function);
    let sites = [site];
    let this = std::process::id();
    let binary = Path::new("/proc/self/exe");
    let _returns = probe.attach_at(this, binary, NOTHING, &sites, true)?;
    let _entries = probe.attach_at(this, binary, NOTHING, &sites, false)?;
    let probed = least_ns_per_call(function);
    Ok((probed - bare).max(0.0))
}

fn least_ns_per_call(function: extern "C" fn()) -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(function)();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Where one of the functions above stands in this program's file.
fn own_site(function: extern "C" fn(), bytes: Vec<u8>, trap: TrapCost) -> Result<Site, ProbeError> {
    let address = function as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").map_err(|source| ProbeError::Io {
        doing: "reading /proc/self/maps".into(),
        source,
    })?;
    let file_offset = maps.lines().find_map(|line| {
        let mut parts = line.split_ascii_whitespace();
        let (start, end) = parts.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let offset = hex(parts.nth(1)?)?;
        (start..end)
            .contains(&address)
            .then(|| address - start + offset)
    });
    Ok(Site {
        function: "waggle's own".into(),
        file_offset: file_offset.unwrap_or(0),
        function_offset: 0,
        bytes,
        instruction: String::new(),
        register: Register(7),
        trap,
    })
}
