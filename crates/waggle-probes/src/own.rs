//! Where does a function of this very program stand in its file, and what does a call of it take?
//!
//! A probe's cost is measured on a function whose every call is known: one of ours, that begins
//! with `push` as compilers make functions begin. Neighbours: `statement::cost` and `call::cost`,
//! the tests and the example that measure.
//!
//! Invariant: the bytes are compared when the probe attaches, as for any site; a function that
//! begins otherwise is refused there.

use std::fs;
use std::time::Instant;

use waggle_symbols::{Register, Site, TrapCost};

use crate::object::ProbeError;

/// `push %rbp`.
const PUSH_RBP: u8 = 0x55;

/// The start of `function`, which is called `name` in reports, as a site in `/proc/self/exe`.
///
/// # Errors
/// The system does not say where this program is mapped.
pub fn site(name: &str, function: *const ()) -> Result<Site, ProbeError> {
    Ok(Site {
        function: name.into(),
        file_offset: file_offset(function)?,
        function_offset: 0,
        bytes: vec![PUSH_RBP],
        instruction: "push".into(),
        register: Register(7),
        trap: TrapCost::Emulated,
    })
}

fn file_offset(function: *const ()) -> Result<u64, ProbeError> {
    let address = function as u64;
    let told = |source| ProbeError::Io {
        doing: "reading /proc/self/maps".into(),
        source,
    };
    let maps = fs::read_to_string("/proc/self/maps").map_err(told)?;
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
    file_offset.ok_or_else(|| told(std::io::Error::other("the function is not in it")))
}

/// The time of one call, ns: the least of `rounds` rounds of `calls` calls, as interruptions only
/// add.
pub(crate) fn least_ns_per_call(function: extern "C" fn(), calls: u32, rounds: u32) -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..calls {
            std::hint::black_box(function)();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    };
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}
