//! Which function of a stripped binary calls this exported one, and where?
//!
//! Storage engines are often built with hidden symbols, but what they call in the server is
//! exported, and the table for unwinding (`.eh_frame_hdr`) still says where every function begins.
//! Neighbours: [`lock`](crate::lock) and [`mark`](crate::mark) attach at such calls.
//!
//! Invariant: a call is only ever reported if decoding from the start of its function reaches it;
//! equal bytes elsewhere are not enough. Every number in the file is checked before it is used.

use iced_x86::{Code, Decoder, DecoderOptions};
use object::{Object, ObjectSection};
use waggle_foreign::FileBytes;

use crate::elf::{Binary, FUNCTION_BYTES_MAX, Function};

/// Why the callers of a function cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallersError {
    /// The table for unwinding, or the code, is not there or is damaged.
    #[error("the file does not say where its functions begin")]
    NoFunctions,
    /// Some would be missing.
    #[error("more than {HITS_MAX} places look like calls of it")]
    TooMany,
}

/// Most places with the bytes of a call that are looked at.
const HITS_MAX: usize = 256;
/// Bytes of code read at a time.
const CHUNK: u64 = 1 << 20;
/// A call or a jump with a 32-bit displacement, bytes.
const CALL_BYTES: u64 = 5;
/// Largest code that is looked through, bytes; MySQL has 37 MB, its debug build 60.
const TEXT_BYTES_MAX: u64 = 256 << 20;
/// Largest table of functions that is read, bytes (2 million functions; MySQL has 80,000).
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// Addresses of the instructions in `function` that call `target` directly.
pub fn calls(function: &Function, target: u64) -> Vec<u64> {
    Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
        .iter()
        .filter(|i| i.code() == Code::Call_rel32_64 && i.near_branch_target() == target)
        .map(|i| i.ip())
        .collect()
}

/// Addresses of the instructions in `function` that leave for `target` as its last act: a jump in
/// place of a call and a return.
pub fn tail_calls(function: &Function, target: u64) -> Vec<u64> {
    Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
        .iter()
        .filter(|i| i.code() == Code::Jmp_rel32_64 && i.near_branch_target() == target)
        .map(|i| i.ip())
        .collect()
}

/// The one function that calls `target` directly.
///
/// # Errors
/// There is none, or more than one; or the callers cannot be told.
pub fn only_caller(binary: &Binary, target: u64) -> Result<Function, String> {
    let mut found = callers(binary, &[target]).map_err(|error| error.to_string())?;
    found.retain(|function| !calls(function, target).is_empty());
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (found, others) => {
            let count = others + usize::from(found.is_some());
            Err(format!("{count} functions call it"))
        }
    }
}

/// Every function, named or not, that calls one of `targets` directly or leaves for it, in order
/// of address.
///
/// # Errors
/// The file does not say where functions begin, or there are too many places to look at.
pub fn callers(binary: &Binary, targets: &[u64]) -> Result<Vec<Function>, CallersError> {
    let whole = find_callers(binary, targets).ok_or(CallersError::NoFunctions)?;
    whole.ok_or(CallersError::TooMany)
}

/// `None` if the file cannot be read, `None` in it if there are too many places.
fn find_callers(binary: &Binary, targets: &[u64]) -> Option<Option<Vec<Function>>> {
    let bytes = FileBytes::new(binary.file()).ok()?;
    let elf = bytes.elf().ok()?;
    let text = elf.section_by_name(".text")?;
    let (offset, size) = text.file_range()?;
    if size > TEXT_BYTES_MAX {
        return None;
    }
    let starts = Starts::read(&elf)?;
    let hits = hits(binary, text.address(), offset, size, targets)?;
    if hits.len() > HITS_MAX {
        return Some(None);
    }
    let mut found: Vec<Function> = Vec::new();
    for hit in hits {
        // Bytes before the first function, or in one that begins before the code, are no call.
        let Some((start, end)) = starts.around(hit) else {
            continue;
        };
        let Some(within) = start.checked_sub(text.address()) else {
            continue;
        };
        if found.last().is_some_and(|f| f.address == start) {
            continue;
        }
        let length = (end - start).min(FUNCTION_BYTES_MAX).min(size - within);
        let function = Function {
            name: format!("the function at {start:#x}"),
            address: start,
            file_offset: offset + within,
            code: read(binary, offset + within, length)?,
        };
        let leads = |target: &u64| {
            !calls(&function, *target).is_empty() || !tail_calls(&function, *target).is_empty()
        };
        if targets.iter().any(leads) {
            found.push(function);
        }
    }
    Some(Some(found))
}

fn read(binary: &Binary, offset: u64, length: u64) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    binary.file().read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// Addresses at which the bytes of a call of one of `targets` stand, or of a jump there; one more
/// than [`HITS_MAX`] at most.
fn hits(
    binary: &Binary,
    address: u64,
    offset: u64,
    size: u64,
    targets: &[u64],
) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        // Overlaps the next by what a call at the end would be cut off by.
        let length = (CHUNK + CALL_BYTES - 1).min(size - at);
        let bytes = read(binary, offset + at, length)?;
        for (index, window) in bytes.windows(5).enumerate() {
            let [0xe8 | 0xe9, displacement @ ..] = window else {
                continue;
            };
            let ip = address + at + index as u64;
            let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
            let target = ip
                .wrapping_add(CALL_BYTES)
                .wrapping_add_signed(displacement.into());
            if targets.contains(&target) && found.len() <= HITS_MAX {
                found.push(ip);
            }
        }
        at += CHUNK;
    }
    Some(found)
}

/// Where functions begin, in order.
#[derive(Debug)]
pub(crate) struct Starts(Vec<u64>);

impl Starts {
    /// Reads the sorted table that compilers for x86-64 write: 32-bit offsets from its own start.
    pub(crate) fn read<'a>(elf: &impl Object<'a>) -> Option<Self> {
        let section = elf.section_by_name(".eh_frame_hdr")?;
        if section.size() > TABLE_BYTES_MAX {
            return None;
        }
        Self::parse(section.data().ok()?, section.address())
    }

    fn parse(data: &[u8], address: u64) -> Option<Self> {
        const VERSION_AND_ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let rest = data.strip_prefix(&VERSION_AND_ENCODINGS)?;
        let count = u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?);
        let table = rest.get(8..8 + usize::try_from(count).ok()?.checked_mul(8)?)?;
        let starts: Vec<u64> = table
            .chunks_exact(8)
            .map(|entry| {
                let offset = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                address.wrapping_add_signed(offset.into())
            })
            .collect();
        starts.is_sorted().then_some(Self(starts))
    }

    /// Start of the function that holds `address`, and of the next.
    pub(crate) fn around(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|start| *start <= address);
        let start = *self.0.get(after.checked_sub(1)?)?;
        let end = self.0.get(after).copied();
        Some((start, end.unwrap_or(start + FUNCTION_BYTES_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(offsets: &[i32]) -> Vec<u8> {
        let mut data = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0];
        data.extend((offsets.len() as u32).to_le_bytes());
        for offset in offsets {
            data.extend(offset.to_le_bytes());
            data.extend([0; 4]);
        }
        data
    }

    #[test]
    fn a_function_ends_where_the_next_begins() {
        let starts = Starts::parse(&table(&[-0x1000, -0xf00, 0x10]), 0x4000).unwrap();
        assert_eq!(starts.around(0x3000), Some((0x3000, 0x3100)));
        assert_eq!(starts.around(0x30ff), Some((0x3000, 0x3100)));
        assert_eq!(starts.around(0x3100), Some((0x3100, 0x4010)));
        assert_eq!(starts.around(0x2fff), None);
    }

    #[test]
    fn a_damaged_table_is_refused() {
        let whole = table(&[-0x1000, -0xf00]);
        for length in 0..whole.len() {
            assert!(
                Starts::parse(&whole[..length], 0x4000).is_none(),
                "{length}"
            );
        }
        assert!(Starts::parse(&table(&[5, -5]), 0x4000).is_none());
        let mut huge = whole;
        huge[8..12].fill(0xff);
        assert!(Starts::parse(&huge, 0x4000).is_none());
    }
}
