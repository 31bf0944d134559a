//! Which function does a name, or an address, stand for in this binary?
//!
//! By exported name, mangled or demangled, with or without arguments; or by where the table for
//! unwinding says that a function begins. Neighbours: [`elf`](crate::elf) reads a binary's known
//! names; this looks through all of them. [`boundary`](crate::boundary) says where to attach in
//! what is found here.
//!
//! Invariant: a name that fits two functions is refused with both, never resolved to one of them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use waggle_foreign::{Elf, FileBytes, open_regular};

use crate::callers::Starts;
use crate::elf::{ElfError, FUNCTION_BYTES_MAX, Function, named_symbols};

/// Most names that fit and are told.
const NAMES_TOLD: usize = 4;

/// Why a name stands for no function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// No symbol fits.
    #[error("the file exports no function {0}; a stripped file does not tell its others")]
    Unknown(String),
    /// More than one fits.
    #[error("{name} may be any of: {}", .candidates.join("; "))]
    Ambiguous {
        /// The name.
        name: String,
        /// Some that fit, demangled.
        candidates: Vec<String>,
    },
    /// No function begins there.
    #[error("no function begins at {0:#x}, by the table for unwinding")]
    NoStart(u64),
    /// The code is not in the file.
    #[error("the code at {0:#x} cannot be read")]
    NoCode(u64),
}

#[derive(Debug, Clone)]
struct Symbol {
    name: String,
    address: u64,
    size: u64,
    is_code: bool,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    file_offset: u64,
    file_size: u64,
}

/// A binary with all its names and beginnings of functions.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    file: File,
    symbols: Vec<Symbol>,
    segments: Vec<Segment>,
    starts: Option<Starts>,
    code: Vec<(u64, u64)>,
    notes: Vec<(Vec<u8>, Option<u64>)>,
}

/// Largest section of notes that is read, bytes; MySQL's debug build has 60 kB of them.
const NOTES_BYTES_MAX: u64 = 4 << 20;
/// Most sections of notes that are read; linkers make one.
const NOTES_MAX: usize = 4;

impl Program {
    /// Reads what `path` says about its functions.
    ///
    /// # Errors
    /// The file cannot be read, is no ELF file, or is not for x86-64.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        let read = |source| ElfError::Read {
            path: path.to_path_buf(),
            source,
        };
        let malformed = |reason: String| ElfError::Malformed {
            path: path.to_path_buf(),
            reason,
        };
        let file = open_regular(path).map_err(read)?;
        let bytes = FileBytes::new(&file).map_err(read)?;
        let elf = bytes.elf().map_err(malformed)?;
        if elf.architecture() != object::Architecture::X86_64 {
            return Err(ElfError::Architecture {
                path: path.to_path_buf(),
                architecture: format!("{:?}", elf.architecture()),
            });
        }
        let symbols = symbols(&elf);
        let segments = elf.segments().map(|segment| {
            let (file_offset, file_size) = segment.file_range();
            Segment {
                address: segment.address(),
                file_offset,
                file_size,
            }
        });
        let code = elf
            .sections()
            .filter(|s| s.kind() == object::SectionKind::Text)
            .map(|s| (s.address(), s.address().saturating_add(s.size())));
        let base = elf.section_by_name(".stapsdt.base").map(|s| s.address());
        let notes = elf
            .sections()
            .filter(|s| s.name() == Ok(".note.stapsdt") && s.size() <= NOTES_BYTES_MAX)
            .take(NOTES_MAX)
            .filter_map(|s| Some((s.data().ok()?.to_vec(), base)));
        Ok(Self {
            path: path.to_path_buf(),
            symbols,
            segments: segments.collect(),
            starts: Starts::read(&elf),
            code: code.collect(),
            notes: notes.collect(),
            file,
        })
    }

    /// The file this was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The static probes' notes, with where their base section is.
    pub(crate) fn notes(&self) -> &[(Vec<u8>, Option<u64>)] {
        &self.notes
    }

    /// The function that a name stands for: mangled, or demangled with its arguments, or without
    /// them. A name without a class does not stand for a class' member.
    ///
    /// # Errors
    /// No function fits, or more than one; or its code is not in the file.
    pub fn function(&self, name: &str) -> Result<Function, FunctionError> {
        let exact = self.symbols.iter().find(|s| s.is_code && s.name == name);
        if let Some(symbol) = exact {
            return self.load(symbol);
        }
        let mut fitting: Vec<(&Symbol, String)> = Vec::new();
        let last = last_part(name);
        for symbol in self.symbols.iter().filter(|s| s.is_code) {
            if last.is_empty() || !symbol.name.starts_with("_Z") || !symbol.name.contains(last) {
                continue;
            }
            let Some(demangled) = demangled(&symbol.name) else {
                continue;
            };
            let fits = demangled == name || without_arguments(&demangled) == name;
            if fits && !fitting.iter().any(|(s, _)| s.address == symbol.address) {
                fitting.push((symbol, demangled));
            }
        }
        match &fitting[..] {
            [] => Err(FunctionError::Unknown(name.to_owned())),
            [(symbol, _)] => self.load(symbol),
            several => Err(FunctionError::Ambiguous {
                name: name.to_owned(),
                candidates: several
                    .iter()
                    .take(NAMES_TOLD)
                    .map(|(_, demangled)| demangled.clone())
                    .collect(),
            }),
        }
    }

    /// The address of an exported object or function, by its mangled or demangled name.
    pub fn address(&self, name: &str) -> Option<u64> {
        let exact = self.symbols.iter().find(|s| s.name == name);
        let by_name = || {
            let last = last_part(name);
            let mut fitting = self.symbols.iter().filter(|s| {
                !last.is_empty()
                    && s.name.starts_with("_Z")
                    && s.name.contains(last)
                    && demangled(&s.name).is_some_and(|d| d == name)
            });
            let first = fitting.next()?;
            fitting
                .all(|other| other.address == first.address)
                .then_some(first)
        };
        exact.or_else(by_name).map(|symbol| symbol.address)
    }

    /// True if a symbol says that something begins at this address.
    pub(crate) fn is_exported(&self, address: u64) -> bool {
        self.symbols.iter().any(|s| s.address == address)
    }

    /// The function that begins at `address`, by the table for unwinding.
    ///
    /// # Errors
    /// None begins there, or its code is not in the file.
    pub fn starting_at(&self, address: u64) -> Result<Function, FunctionError> {
        let function = self.around(address)?;
        if function.address == address {
            Ok(function)
        } else {
            Err(FunctionError::NoStart(address))
        }
    }

    /// The function whose code is around `address`: by its symbol if it has one of known size, else
    /// by the table for unwinding.
    ///
    /// # Errors
    /// Neither knows of one, or its code is not in the file.
    pub fn around(&self, address: u64) -> Result<Function, FunctionError> {
        let is_code = |&(start, end): &(u64, u64)| (start..end).contains(&address);
        let Some(&(_, code_end)) = self.code.iter().find(|range| is_code(range)) else {
            return Err(FunctionError::NoStart(address));
        };
        let bounds = self.starts.as_ref().and_then(|s| s.around(address));
        let holds = |s: &&Symbol| s.is_code && address.wrapping_sub(s.address) < s.size;
        let named = self.symbols.iter().find(holds);
        let (start, end) = match (bounds, named) {
            (Some((start, end)), _) => (start, end.min(code_end)),
            (None, Some(symbol)) => return self.load(symbol),
            (None, None) => return Err(FunctionError::NoStart(address)),
        };
        let name = self
            .symbols
            .iter()
            .find(|s| s.is_code && s.address == start);
        self.load(&Symbol {
            name: name.map_or_else(|| format!("the function at {start:#x}"), |s| s.name.clone()),
            address: start,
            size: end.saturating_sub(start),
            is_code: true,
        })
    }

    /// Where in the file the byte of this address stands.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        let (segment, within) = self.segment(address)?;
        segment.file_offset.checked_add(within)
    }

    /// Which address the byte at this offset of the file has.
    pub fn address_at(&self, file_offset: u64) -> Option<u64> {
        let holds = |s: &&Segment| {
            file_offset >= s.file_offset && file_offset - s.file_offset < s.file_size
        };
        let segment = self.segments.iter().find(holds)?;
        segment
            .address
            .checked_add(file_offset - segment.file_offset)
    }

    /// Where a process has this file's address 0, from one of its mappings: `start` to `end` in the
    /// process are the file's bytes from `file_offset` on. `None` if no segment is mapped there.
    pub fn image(&self, start: u64, end: u64, file_offset: u64) -> Option<u64> {
        let length = end.checked_sub(start)?;
        let holds = |s: &&Segment| {
            let from = s.file_offset.max(file_offset);
            let to = s.file_offset.saturating_add(s.file_size);
            s.file_size > 0 && from < to.min(file_offset.saturating_add(length))
        };
        let code = |s: &&Segment| {
            let is_in = |&(from, to): &(u64, u64)| {
                s.address < to && from < s.address.saturating_add(s.file_size)
            };
            self.code.iter().any(is_in)
        };
        let segment = self.segments.iter().filter(code).find(holds)?;
        // The mapping begins at a page; the segment perhaps later.
        let address = segment
            .address
            .wrapping_add(file_offset)
            .wrapping_sub(segment.file_offset);
        Some(start.wrapping_sub(address))
    }

    fn segment(&self, address: u64) -> Option<(&Segment, u64)> {
        let mut segments = self.segments.iter();
        let holds = |s: &&Segment| address >= s.address && address - s.address < s.file_size;
        let segment = segments.find(holds)?;
        Some((segment, address - segment.address))
    }

    fn load(&self, symbol: &Symbol) -> Result<Function, FunctionError> {
        let missing = || FunctionError::NoCode(symbol.address);
        let (segment, within) = self.segment(symbol.address).ok_or_else(missing)?;
        let size = if symbol.size == 0 { 256 } else { symbol.size };
        let length = size.min(segment.file_size - within).min(FUNCTION_BYTES_MAX);
        let file_offset = segment.file_offset.checked_add(within);
        let file_offset = file_offset.ok_or_else(missing)?;
        let mut code = vec![0; usize::try_from(length).map_err(|_| missing())?];
        let read = self.file.read_exact_at(&mut code, file_offset);
        read.map_err(|_| missing())?;
        Ok(Function {
            name: symbol.name.clone(),
            address: symbol.address,
            file_offset,
            code,
        })
    }
}

fn symbols(elf: &Elf<'_>) -> Vec<Symbol> {
    let mut found: Vec<Symbol> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (symbol, name) in named_symbols(elf, true) {
        let is_code = symbol.kind() == object::SymbolKind::Text;
        let is_wanted = is_code || symbol.kind() == object::SymbolKind::Data;
        if is_wanted && !name.is_empty() && seen.insert((name, symbol.address())) {
            found.push(Symbol {
                name: name.to_owned(),
                address: symbol.address(),
                size: symbol.size(),
                is_code,
            });
        }
    }
    found
}

/// A C++ name as people write it; `None` if it is none, or cannot be read.
pub fn demangled(mangled: &str) -> Option<String> {
    /// Longer names are made by templates, and cost more to read than they are worth.
    const BYTES_MAX: usize = 4096;
    if mangled.len() > BYTES_MAX {
        return None;
    }
    demangled_with(mangled, &cpp_demangle::DemangleOptions::new())
}

/// A C++ name as people write it, in this way; `None` if it is none, or cannot be read, or would
/// be very long: what a name says twice it may say by a mark, and of marks again, so that a name
/// of a kilobyte may stand for more than any memory holds.
pub fn demangled_with(mangled: &str, options: &cpp_demangle::DemangleOptions) -> Option<String> {
    let symbol = cpp_demangle::Symbol::new(mangled).ok()?;
    let mut name = Bounded(String::new());
    symbol.structured_demangle(&mut name, options).ok()?;
    Some(name.0)
}

/// Longest demangled name, bytes.
const DEMANGLED_BYTES_MAX: usize = 64 << 10;

/// Text that refuses to become longer than [`DEMANGLED_BYTES_MAX`].
struct Bounded(String);

impl cpp_demangle::DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > DEMANGLED_BYTES_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The last identifier of a demangled name, without arguments: part of the mangled name too.
fn last_part(name: &str) -> &str {
    let plain = without_arguments(name);
    let plain = plain.split('<').next().unwrap_or(plain);
    let last = plain.rsplit("::").next().unwrap_or(plain);
    last.trim_start_matches('~')
}

/// A demangled name up to its arguments.
pub fn without_arguments(demangled: &str) -> &str {
    let mut depth = 0u32;
    for (at, c) in demangled.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && !demangled[at..].starts_with("(anonymous namespace)") => {
                return &demangled[..at];
            }
            _ => {}
        }
    }
    demangled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments_only() {
        assert_eq!(
            without_arguments("log_write_up_to(log_t&, unsigned long, bool)"),
            "log_write_up_to"
        );
        assert_eq!(without_arguments("a<b(int)>::c(d)"), "a<b(int)>::c");
        assert_eq!(
            without_arguments("(anonymous namespace)::f(int)"),
            "(anonymous namespace)::f"
        );
        assert_eq!(without_arguments("main"), "main");
        assert_eq!(
            last_part("MYSQL_BIN_LOG::ordered_commit(THD*)"),
            "ordered_commit"
        );
        assert_eq!(last_part("std::vector<int>::push_back"), "vector");
        assert_eq!(last_part("f"), "f");
    }

    #[test]
    fn names_are_demangled() {
        let name = demangled("_Z15log_write_up_toR5log_tmb").unwrap();
        assert_eq!(without_arguments(&name), "log_write_up_to");
        assert!(demangled("main").is_none());
        assert!(demangled(&format!("_Z{}", "N".repeat(9000))).is_none());
    }
}
