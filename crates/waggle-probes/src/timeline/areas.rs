//! By which rows does the kernel half walk a process's stacks?
//!
//! Neighbours: `symbols::mapped` says which files' code is where, `symbols::unwind` reads a file's
//! rows; here both are written into the maps of `bpf/unwind.h`, each file's rows once for all
//! processes.
//!
//! Invariant: a file whose rows did not fit is walked by frame pointers, and is named.

use std::collections::HashMap;
use std::sync::Arc;

use libbpf_rs::{Map, MapCore, MapFlags};
use waggle_symbols::mapped::{self, Mapped};
use waggle_symbols::unwind::{Frames, Row, Rule};

use super::types;

/// Most rows of one file: those of a database server would be ten times as many, and it keeps
/// frame pointers.
pub const ROWS_OF_FILE_MAX: usize = 98_304;

/// A file's rows in the map.
#[derive(Debug, Clone)]
struct Placed {
    first: u32,
    rows: u32,
    /// Its functions keep frame pointers.
    chained: bool,
    frames: Arc<Frames>,
}

/// In `unwind_area::rows`: see `bpf/unwind.h`.
const INTERRUPTED: u32 = 1 << 31;

/// What stands in the maps.
#[derive(Debug)]
pub(crate) struct Areas {
    files: HashMap<(String, u64), Option<Placed>>,
    used: u32,
    by_frame_pointers: Vec<String>,
    rows_of_file_max: usize,
    /// Threads are interrupted anywhere, not only where they make a system call.
    interrupted: bool,
}

impl Default for Areas {
    fn default() -> Self {
        Self {
            files: HashMap::new(),
            used: 0,
            by_frame_pointers: Vec::new(),
            rows_of_file_max: ROWS_OF_FILE_MAX,
            interrupted: false,
        }
    }
}

impl Areas {
    /// For stacks of threads that are interrupted anywhere: also a file that keeps frame pointers
    /// has its rows, for the innermost call.
    pub(crate) fn interrupted(rows_of_file_max: usize) -> Self {
        Self {
            rows_of_file_max,
            interrupted: true,
            ..Self::default()
        }
    }

    /// Files with too many rows, or none.
    pub(crate) fn by_frame_pointers(&self) -> &[String] {
        &self.by_frame_pointers
    }

    /// Writes what is mapped in process `pid` by now.
    ///
    /// # Errors
    /// Reading what is mapped fails, or a map cannot be written.
    pub(crate) fn describe(
        &mut self,
        pid: u32,
        rows: &Map<'_>,
        processes: &Map<'_>,
    ) -> Result<(), std::io::Error> {
        let mut value = vec![0u8; size_of::<types::unwind_process>()];
        let mut areas = 0;
        for mapping in mapped::code_of(pid)? {
            if areas == types::unwind_process::default().area.len() {
                let more = "(more mappings)".to_owned();
                if !self.by_frame_pointers.contains(&more) {
                    self.by_frame_pointers.push(more);
                }
                break;
            }
            let area = self.area(pid, &mapping, rows)?;
            put(&mut value, areas, &area);
            areas += 1;
        }
        let count = u32::try_from(areas).unwrap_or(0);
        value[..4].copy_from_slice(&count.to_ne_bytes());
        processes
            .update(&pid.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(std::io::Error::other)
    }

    fn area(
        &mut self,
        pid: u32,
        mapping: &Mapped,
        rows: &Map<'_>,
    ) -> Result<types::unwind_area, std::io::Error> {
        if !self.files.contains_key(&mapping.file) {
            let placed = self.place(pid, mapping, rows)?;
            if placed.as_ref().is_none_or(|p| p.rows == 0) {
                self.by_frame_pointers.push(mapping.name().to_owned());
            }
            self.files.insert(mapping.file.clone(), placed);
        }
        let mut area = types::unwind_area {
            start: mapping.start,
            end: mapping.end,
            ..Default::default()
        };
        if let Some(Some(placed)) = self.files.get(&mapping.file)
            && let Some(address) = placed.frames.address_at(mapping.file_offset)
        {
            area.bias = mapping.start.wrapping_sub(address);
            area.first = placed.first;
            area.rows = placed.rows;
            if self.interrupted && placed.chained && placed.rows > 0 {
                area.rows |= INTERRUPTED;
            }
        }
        Ok(area)
    }

    /// Writes a file's rows behind those that are there; `None` if it has none.
    fn place(
        &mut self,
        pid: u32,
        mapping: &Mapped,
        map: &Map<'_>,
    ) -> Result<Option<Placed>, std::io::Error> {
        let Ok(file) = mapping.open(pid) else {
            return Ok(None);
        };
        let Ok(mut frames) = Frames::read(&file, self.rows_of_file_max) else {
            return Ok(None);
        };
        let mut rows = std::mem::take(&mut frames.rows);
        frames.functions = Vec::new();
        let room = map.max_entries().saturating_sub(self.used) as usize;
        if rows.len() > room {
            rows.clear();
        }
        let first = self.used;
        let keys: Vec<u8> = (first..)
            .take(rows.len())
            .flat_map(u32::to_ne_bytes)
            .collect();
        let values: Vec<u8> = rows.iter().flat_map(packed).collect();
        let count = u32::try_from(rows.len()).unwrap_or(0);
        if count > 0 {
            map.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
                .map_err(std::io::Error::other)?;
        }
        self.used += count;
        Ok(Some(Placed {
            first,
            rows: count,
            chained: keeps_frame_pointers(&rows),
            frames: Arc::new(frames),
        }))
    }
}

/// True if most of the code has a frame pointer at hand: then all functions but leaves keep it.
fn keeps_frame_pointers(rows: &[Row]) -> bool {
    let (mut with, mut all) = (0, 0);
    for (row, next) in rows.iter().zip(rows.iter().skip(1)) {
        let bytes = u64::from(next.address - row.address);
        match row.rule {
            Rule::Frame(_) => with += bytes,
            Rule::Stack(_) => {}
            _ => continue,
        }
        all += bytes;
    }
    2 * with > all
}

fn put(value: &mut [u8], index: usize, area: &types::unwind_area) {
    let at =
        std::mem::offset_of!(types::unwind_process, area) + index * size_of::<types::unwind_area>();
    let words = [area.start, area.end, area.bias];
    for (n, word) in words.iter().enumerate() {
        value[at + 8 * n..at + 8 * n + 8].copy_from_slice(&word.to_ne_bytes());
    }
    value[at + 24..at + 28].copy_from_slice(&area.first.to_ne_bytes());
    value[at + 28..at + 32].copy_from_slice(&area.rows.to_ne_bytes());
}

/// As `struct unwind_row`.
fn packed(row: &Row) -> [u8; 12] {
    use types::unwind_rule as rule;
    let (kind, frame_end) = match row.rule {
        Rule::Chain => (rule::UNWIND_CHAIN, 0),
        Rule::Stack(end) => (rule::UNWIND_STACK, end),
        Rule::Frame(end) => (rule::UNWIND_FRAME, end),
        Rule::Stub => (rule::UNWIND_STUB, 0),
        Rule::Signal => (rule::UNWIND_SIGNAL, 0),
        Rule::End => (rule::UNWIND_END, 0),
        Rule::Unknown => (rule::UNWIND_UNKNOWN, 0),
    };
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&row.address.to_ne_bytes());
    bytes[4..8].copy_from_slice(&frame_end.to_ne_bytes());
    bytes[8..10].copy_from_slice(&row.saved_frame_pointer.to_ne_bytes());
    let kind = u16::try_from(kind.0).unwrap_or(0);
    bytes[10..].copy_from_slice(&kind.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_frame_pointers_if_most_of_its_code_does() {
        let row = |address, rule| Row {
            address,
            rule,
            saved_frame_pointer: 0,
        };
        let enters = [
            row(0, Rule::Stack(8)),
            row(4, Rule::Frame(16)),
            row(90, Rule::Stack(8)),
            row(91, Rule::Chain),
            row(500, Rule::Chain),
        ];
        assert!(keeps_frame_pointers(&enters));
        let omits = [
            row(0, Rule::Stack(8)),
            row(60, Rule::Frame(16)),
            row(90, Rule::Stack(8)),
            row(100, Rule::Chain),
        ];
        assert!(!keeps_frame_pointers(&omits));
        assert!(!keeps_frame_pointers(&[]));
    }

    #[test]
    fn rows_and_areas_are_laid_out_as_in_the_kernel_half() {
        use std::mem::offset_of;
        assert_eq!(size_of::<types::unwind_row>(), 12);
        assert_eq!(offset_of!(types::unwind_row, frame_end), 4);
        assert_eq!(offset_of!(types::unwind_row, saved_frame_pointer), 8);
        assert_eq!(offset_of!(types::unwind_row, rule), 10);
        assert_eq!(size_of::<types::unwind_area>(), 32);
        assert_eq!(offset_of!(types::unwind_area, bias), 16);
        assert_eq!(offset_of!(types::unwind_area, rows), 28);
        assert_eq!(offset_of!(types::unwind_process, areas), 0);
    }
}
