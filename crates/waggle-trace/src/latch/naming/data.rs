//! What is at an address in the program's data called?
//!
//! Neighbour: `waggle_symbols::latch` reads the symbols of the file. Invariant: an address outside
//! of the data has no name here.

use std::path::PathBuf;

use waggle_foreign::read_maps;
use waggle_symbols::latch::DataSymbols;

/// The data of a process's program.
#[derive(Debug)]
pub(super) struct ProgramData {
    program: PathBuf,
    symbols: DataSymbols,
    /// From its mappings to the end of what follows them.
    area: (u64, u64),
    /// From addresses in the program's file to those in the process.
    bias: u64,
}

impl ProgramData {
    /// Of `program`; where a process has it is not known yet.
    pub(super) fn of(program: PathBuf) -> Self {
        Self {
            symbols: DataSymbols::of(&program).unwrap_or_default(),
            program,
            area: (0, 0),
            bias: 0,
        }
    }

    /// Takes note of where process `pid` has it by now.
    pub(super) fn look(&mut self, pid: u32) {
        let Ok(maps) = read_maps(pid) else {
            return;
        };
        let own = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let (mut begin, mut end, mut of_program) = (0, 0, false);
        for line in maps.lines() {
            let Some((from, to)) = range(line) else {
                continue;
            };
            let path = line.splitn(6, ' ').nth(5).unwrap_or_default().trim_start();
            if !path.is_empty() && own.as_os_str() == path {
                if begin == 0 {
                    begin = from;
                }
                (end, of_program) = (to, true);
            } else if path.is_empty() && of_program && from == end {
                // Data that begins as 0 follows the file's without a gap.
                (end, of_program) = (to, false);
            } else {
                of_program = false;
            }
        }
        self.area = (begin, end);
        self.bias = begin.wrapping_sub(self.symbols.first_address);
    }

    /// From addresses in the program's file to those in the process.
    pub(super) fn bias(&self) -> u64 {
        self.bias
    }

    /// The name of what is at `address`.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let (begin, end) = self.area;
        if !(begin..end).contains(&address) {
            return None;
        }
        let within = address.wrapping_sub(self.bias);
        Some(match self.symbols.around(within) {
            Some((name, 0)) => name.to_owned(),
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => format!("{}:{within:#x}", self.program_name()),
        })
    }

    fn program_name(&self) -> String {
        let link = std::fs::read_link(&self.program);
        let path = link.unwrap_or_else(|_| self.program.clone());
        let name = path.file_name().and_then(|name| name.to_str());
        name.unwrap_or("program").to_owned()
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(from)?, hex(to)?))
}
