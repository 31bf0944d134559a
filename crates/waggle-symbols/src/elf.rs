//! A server binary on disk: build id, exported functions and their bytes.
//!
//! Only the parts asked for are read (a mysqld is 75 MB; the agent has 64 MiB), and every number
//! in the file is checked before it is used: a truncated or hostile file gives an error. A program
//! may be anyone's, so all that is read of it and kept of it is bounded.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use waggle_foreign::{Elf, FileBytes, build_id, open_regular};

/// Longest function body that is decoded, bytes.
pub const FUNCTION_BYTES_MAX: u64 = 64 * 1024;

/// Most symbols of a file that are looked at. MySQL's stripped server has 81,000, with its whole
/// symbol table some 250,000.
const SYMBOLS_MAX: usize = 1 << 19;
/// Most bytes of names that are kept of a file; MySQL's 81,000 have 5.7 MB.
const NAMES_BYTES_MAX: usize = 48 << 20;

/// Why a binary could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not an ELF file, or is damaged.
    #[error("{path} is no usable ELF file: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// The file is for another processor.
    #[error("{path} is for {architecture}; waggle decodes x86-64 only")]
    Architecture {
        /// The file.
        path: PathBuf,
        /// The architecture named in the file.
        architecture: String,
    },
}

/// A GNU build id, printed as lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// A build id from its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An exported function and its code.
#[derive(Debug, Clone)]
pub struct Function {
    /// Mangled name.
    pub name: String,
    /// Virtual address in the file's own address space.
    pub address: u64,
    /// Offset of the first instruction in the file, bytes: what a uprobe is placed by.
    pub file_offset: u64,
    /// The code, at most [`FUNCTION_BYTES_MAX`] bytes.
    pub code: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Symbol {
    name: String,
    address: u64,
    size: u64,
}

/// An opened server binary with the symbols that were asked for.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    build_id: Option<BuildId>,
    symbols: Vec<Symbol>,
    segments: Vec<Segment>,
    file: File,
    stripped: bool,
}

/// The defined symbols of a file with their names, exported ones first, as far as there are no
/// more and no longer ones than in any program: each caller keeps names. Those of the full table
/// only if `both` are wanted.
pub fn named_symbols<'a, 'f>(
    elf: &'f Elf<'a>,
    both: bool,
) -> impl Iterator<Item = (impl ObjectSymbol<'a> + use<'a, 'f>, &'a str)> + use<'a, 'f> {
    let mut bytes = 0_usize;
    elf.dynamic_symbols()
        .chain(both.then(|| elf.symbols()).into_iter().flatten())
        .take(SYMBOLS_MAX)
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            Some((symbol, name))
        })
        .take_while(move |(_, name)| {
            bytes += name.len();
            bytes <= NAMES_BYTES_MAX
        })
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    file_offset: u64,
    file_size: u64,
}

impl Binary {
    /// Opens `path` and keeps the defined function symbols whose mangled name `wanted` accepts.
    ///
    /// # Errors
    /// The file cannot be read, is no ELF file, or is not for x86-64.
    pub fn open(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Self, ElfError> {
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
        let build_id = build_id(&elf).map(BuildId::new);
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut known = HashSet::new();
        for (symbol, name) in named_symbols(&elf, true) {
            let is_function = symbol.kind() == object::SymbolKind::Text;
            if is_function && wanted(name) && known.insert(name) {
                symbols.push(Symbol {
                    name: name.to_owned(),
                    address: symbol.address(),
                    size: symbol.size(),
                });
            }
        }
        let segments = elf
            .segments()
            .map(|segment| {
                let (file_offset, file_size) = segment.file_range();
                Segment {
                    address: segment.address(),
                    file_offset,
                    file_size,
                }
            })
            .collect();
        let stripped = elf.section_by_name(".symtab").is_none_or(|s| s.size() == 0);
        Ok(Self {
            path: path.to_path_buf(),
            build_id,
            symbols,
            segments,
            file,
            stripped,
        })
    }

    /// The file this was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The opened file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The GNU build id, if the file carries one.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// True if the file has no full symbol table, as distributions ship it.
    pub fn is_stripped(&self) -> bool {
        self.stripped
    }

    /// The function with exactly this mangled name.
    pub fn function(&self, name: &str) -> Option<Function> {
        self.load(self.symbols.iter().find(|s| s.name == name)?)
    }

    /// The function whose mangled name begins with `prefix`; the shortest name if there are more
    /// (a longer one is a variant with further arguments).
    pub fn function_by_prefix(&self, prefix: &str) -> Option<Function> {
        let found = self.symbols.iter().filter(|s| s.name.starts_with(prefix));
        self.load(found.min_by_key(|s| s.name.len())?)
    }

    /// Every function that was kept, as far as its code can be read.
    pub fn functions(&self) -> impl Iterator<Item = Function> {
        self.symbols.iter().filter_map(|symbol| self.load(symbol))
    }

    fn load(&self, symbol: &Symbol) -> Option<Function> {
        use std::os::unix::fs::FileExt;
        let segment = self
            .segments
            .iter()
            .find(|s| symbol.address >= s.address && symbol.address - s.address < s.file_size)?;
        let within = symbol.address - segment.address;
        let available = segment.file_size - within;
        let size = if symbol.size == 0 { 256 } else { symbol.size };
        let length = size.min(available).min(FUNCTION_BYTES_MAX);
        let file_offset = segment.file_offset.checked_add(within)?;
        let mut code = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut code, file_offset).ok()?;
        Some(Function {
            name: symbol.name.clone(),
            address: symbol.address,
            file_offset,
            code,
        })
    }
}
