//! Where does a function of this very program stand in its file?
//!
//! A probe's cost is measured on a function whose every call is known: one of ours, that begins
//! with `push` as compilers make functions begin. Neighbours: `statement::cost`, the tests and the
//! example that measure.
//!
//! Invariant: the bytes are compared when the probe attaches, as for any site; a function that
//! begins otherwise is refused there.

use std::fs;

use waggle_symbols::{Register, Site, TrapCost};

use crate::object::ProbeError;

/// `push %rbp`.
const PUSH_RBP: u8 = 0x55;

/// The start of `function`, which is called `name` in reports, as a site in `/proc/self/exe`.
///
/// # Errors
/// The system does not say where this program is mapped.
pub fn site(name: &str, function: *const ()) -> Result<Site, ProbeError> {
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
    let file_offset =
        file_offset.ok_or_else(|| told(std::io::Error::other("the function is not in it")))?;
    Ok(Site {
        function: name.into(),
        file_offset,
        function_offset: 0,
        bytes: vec![PUSH_RBP],
        instruction: "push".into(),
        register: Register(7),
        trap: TrapCost::Emulated,
    })
}
