//! What is a latch without a name of its own called? By the exported object that it is in.
//!
//! Neighbour: `waggle-trace` asks with the addresses that threads sleep on.

use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol};
use waggle_foreign::{FileBytes, open_regular};

use crate::elf::named_symbols;

/// Exported data of a program, by address: what a latch in it is called.
#[derive(Debug, Default)]
pub struct DataSymbols {
    /// Lowest address that is mapped, in the file's address space.
    pub first_address: u64,
    /// Address, bytes, name.
    symbols: Vec<(u64, u64, String)>,
}

impl DataSymbols {
    /// Of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is no ELF file.
    pub fn of(path: &Path) -> Result<Self, String> {
        let file = open_regular(path).map_err(|error| error.to_string())?;
        let bytes = FileBytes::new(&file).map_err(|error| error.to_string())?;
        let elf = bytes.elf()?;
        let mut symbols: Vec<(u64, u64, String)> = named_symbols(&elf, true)
            .filter(|(s, _)| s.kind() == object::SymbolKind::Data && s.size() > 0)
            .map(|(s, name)| (s.address(), s.size(), name.to_owned()))
            .collect();
        symbols.sort_unstable();
        symbols.dedup_by_key(|(address, ..)| *address);
        Ok(Self {
            first_address: elf.segments().map(|s| s.address()).min().unwrap_or(0) & !0xfff,
            symbols,
        })
    }

    /// The object that `address` is in, and how far.
    pub fn around(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.symbols.partition_point(|(at, ..)| *at <= address);
        let (at, size, name) = self.symbols.get(after.checked_sub(1)?)?;
        let within = address - at;
        (within < *size).then_some((name.as_str(), within))
    }
}
