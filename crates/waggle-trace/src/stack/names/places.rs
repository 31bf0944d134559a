//! Where in the source is an address, and which functions were inlined there?
//!
//! Neighbour: `names` says what the function is called that has the address; here is what only the
//! debug information tells, which of a server takes hundreds of MiB, so that it is asked for.
//!
//! Invariant: without debug information a place is the function's name and file, and nothing else.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

use waggle_foreign::Printable;

use super::{MEMORY_MAX, Module, Names, demangled, resident_bytes};

/// One call at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The function, as [`Names::of_address`] has it.
    pub name: Arc<str>,
    /// The mapped file without its directories; empty if the address is in none.
    pub module: Arc<str>,
    /// The source file, if it was asked for and is known.
    pub file: Option<Arc<str>>,
    /// The line there.
    pub line: Option<u32>,
    /// The compiler has put it into its caller.
    pub inlined: bool,
}

/// What is asked for beside names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detail {
    /// Source files and lines.
    pub lines: bool,
    /// Functions that were inlined.
    pub inlined: bool,
}

/// Looks up places, each address once.
#[derive(Default)]
pub struct Places {
    detail: Detail,
    symbolizer: Option<Symbolizer>,
    known: HashMap<(u32, u64), Arc<[Place]>>,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places")
            .field("detail", &self.detail)
            .field("known", &self.known.len())
            .finish_non_exhaustive()
    }
}

impl Places {
    /// With so much detail.
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            ..Self::default()
        }
    }

    /// The calls at an address of a process, outermost first: one, and those inlined in it.
    pub fn at(&mut self, names: &mut Names, pid: u32, address: u64) -> Arc<[Place]> {
        if let Some(known) = self.known.get(&(pid, address)) {
            return Arc::clone(known);
        }
        let places: Arc<[Place]> = self.look_up(names, pid, address).into();
        self.known.insert((pid, address), Arc::clone(&places));
        places
    }

    fn look_up(&mut self, names: &mut Names, pid: u32, address: u64) -> Vec<Place> {
        let name = names.of_address(pid, address);
        let mut place = Place {
            name,
            module: Arc::from(""),
            file: None,
            line: None,
            inlined: false,
        };
        let areas = names.mapped.get(&pid).map_or(&[][..], Vec::as_slice);
        let found = areas
            .iter()
            .find(|(m, _)| m.start <= address && address < m.end);
        let Some((mapping, module)) = found else {
            return vec![place];
        };
        place.module = Arc::from(&*Printable::of(mapping.name()));
        let Some(module) = module
            .as_deref()
            .filter(|_| self.detail != Detail::default())
        else {
            return vec![place];
        };
        let offset = mapping.file_offset + (address - mapping.start);
        match module.address_at(offset) {
            Some(address) => self.in_source(module, address, place),
            None => vec![place],
        }
    }

    /// What the debug information says of an address in the file's own address space.
    fn in_source(&mut self, module: &Module, address: u64, mut place: Place) -> Vec<Place> {
        if self.known.len() % 64 == 63 && resident_bytes() > MEMORY_MAX {
            self.symbolizer = None;
        }
        let symbolizer = self.symbolizer.get_or_insert_with(|| {
            Symbolizer::builder()
                .enable_auto_reload(false)
                .enable_code_info(true)
                .enable_inlined_fns(true)
                .enable_demangling(false)
                .build()
        });
        let tables = module.tables();
        if !tables.is_mapped {
            return vec![place];
        }
        let own = || PathBuf::from(format!("/proc/self/fd/{}", module.file.as_raw_fd()));
        let source = Source::Elf(Elf::new(tables.separate.clone().unwrap_or_else(own)));
        let found = symbolizer.symbolize_single(&source, Input::VirtOffset(address));
        let Ok(Symbolized::Sym(symbol)) = found else {
            return vec![place];
        };
        let with_lines = self.detail.lines;
        let set = |place: &mut Place, info: Option<&CodeInfo<'_>>| {
            if let Some(info) = info.filter(|_| with_lines) {
                place.file = Some(Arc::from(&*Printable::of_path(&info.to_path())));
                place.line = info.line;
            }
        };
        set(&mut place, symbol.code_info.as_deref());
        let inlined = symbol.inlined.iter().filter(|_| self.detail.inlined);
        let inlined: Vec<Place> = inlined
            .map(|function| {
                let mut inner = Place {
                    name: Arc::from(demangled(&function.name)),
                    inlined: true,
                    file: None,
                    line: None,
                    ..place.clone()
                };
                set(&mut inner, function.code_info.as_ref());
                inner
            })
            .collect();
        std::iter::once(place).chain(inlined).collect()
    }
}
