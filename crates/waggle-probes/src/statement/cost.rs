//! What does a hit of the probe cost? Measured on waggle itself, with the program that does
//! nothing, so that no server is disturbed.
//!
//! The figure is that of a tight loop: caches are warm. In a server the same trap costs more,
//! which only the lab can measure; reports say which of the two they show.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::{ProbeError, Program, StatementProbe};
use waggle_symbols::site::Register;
use waggle_symbols::{Site, TrapCost};

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
    let site = own_site()?;
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

/// Where [`probed`] stands in this program's file.
fn own_site() -> Result<Site, ProbeError> {
    let address = probed as *const () as u64;
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
        bytes: vec![0x55],
        instruction: "push".into(),
        register: Register(7),
        trap: TrapCost::Emulated,
    })
}
