//! Reads words and strings of another process.
//!
//! Invariant: what cannot be read, or is no plain text, is nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Longest name or path that is read, bytes.
const TEXT_MAX: usize = 256;

/// The memory of a process.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of(pid: u32) -> std::io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// The text at `address`, up to its 0.
    pub(super) fn text(&self, address: u64) -> Option<String> {
        let mut bytes = [0; TEXT_MAX];
        let read = self.0.read_at(&mut bytes, address).ok()?;
        let length = bytes[..read].iter().position(|b| *b == 0)?;
        let text = std::str::from_utf8(&bytes[..length]).ok()?;
        let plain = !text.is_empty() && text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        plain.then(|| text.to_owned())
    }
}
