//! What are the addresses of a stack called?
//!
//! Names come from symbol tables, by `blazesym`, demangled; source lines are not asked for, since
//! debug information of a server takes hundreds of MiB. Neighbours: `symbols::mapped` opens what is
//! mapped, `symbols::unwind` knows where functions begin.
//!
//! A library maps the files it reads, so that it is only given those that nobody else can cut
//! short; of others, exported names are read, within bounds, and no source lines.
//!
//! Files are opened when a process is first seen and kept open, so that a server that has ended
//! meanwhile, or whose chroot is gone, still has names. What stands in one is read when the first
//! name in it is asked for: a trace begins at once.
//!
//! Invariant: a name that is not exactly that of the function at the address begins with `~`. In a
//! stripped server those are the static functions: `~exported+0x140` is the function that begins
//! 0x140 bytes behind the exported one, most often of the same source file. In a library, whose
//! neighbours have nothing to do with each other, it is where the function begins:
//! `~libc.so.6+0x89ab0`. All addresses in a function have one name.

mod places;

pub use places::{Detail, Place, Places};

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use waggle_foreign::Printable;
use waggle_symbols::mapped::{self, Mapped};

use super::tables::{Tables, demangled};
use super::{Stack, Stacks};
use crate::event::StackId;
use waggle_probes::timeline::StackEnd;

/// Memory that this process may have in use while names are looked up, bytes: what is kept of
/// files is given up beyond, and read again.
pub const MEMORY_MAX: u64 = 256 << 20;
/// Files that are kept open; a server and all its libraries are 60. A program may map as many as
/// it likes, and this process may open 1024 by default.
const FILES_MAX: usize = 512;
/// Names that are kept; beyond, they are looked up again.
const KNOWN_MAX: usize = 1 << 18;
/// After so many new names it is looked how much memory is in use.
const LOOK_EVERY: u32 = 64;

/// Among so many of its outermost calls the purpose of a thread is looked for.
const ROOTS_MAX: usize = 5;
/// How names of calls begin that stand between a thread's beginning and its purpose: those without
/// an exact name, and the wrappers of the C++ library and of the servers.
const BEGINNINGS: [&str; 7] = [
    "~",
    "[",
    "_start",
    "std::",
    "Detached_thread::",
    "Runnable::",
    "pfs_spawn_thread",
];

/// A part of a process's memory, and the file it shows, if that could be opened.
type Part = (Mapped, Option<Arc<Module>>);

/// A mapped file.
struct Module {
    name: String,
    file: File,
    /// It is the program itself, no library.
    is_program: bool,
    tables: Mutex<Option<Arc<Tables>>>,
}

/// Looks up names, each address once.
pub struct Names {
    symbolizer: Symbolizer,
    mapped: HashMap<u32, Vec<Part>>,
    files: HashMap<(String, u64), Option<Arc<Module>>>,
    known: HashMap<(u32, u64), Arc<str>>,
    stacks: HashMap<StackId, Arc<[Arc<str>]>>,
    memory_max: u64,
    /// New names since memory was looked at.
    unlooked: u32,
    /// Times that memory was given up.
    evicted: u32,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names")
            .field("known", &self.known.len())
            .finish_non_exhaustive()
    }
}

impl Default for Names {
    fn default() -> Self {
        Self {
            symbolizer: symbolizer(),
            mapped: HashMap::new(),
            files: HashMap::new(),
            known: HashMap::new(),
            stacks: HashMap::new(),
            memory_max: MEMORY_MAX,
            unlooked: 0,
            evicted: 0,
        }
    }
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_code_info(false)
        .enable_inlined_fns(false)
        .enable_demangling(false)
        .build()
}

impl Names {
    /// Keeps to another bound than [`MEMORY_MAX`], bytes.
    pub fn with_memory_max(bytes: u64) -> Self {
        Self {
            memory_max: bytes,
            ..Self::default()
        }
    }

    /// How often what was kept of files was given up to stay within the bound.
    pub fn evictions(&self) -> u32 {
        self.evicted
    }

    /// Opens what a process has mapped. Called again, takes note of what it has mapped since.
    ///
    /// # Errors
    /// The process has ended, or may not be looked at.
    pub fn watch(&mut self, pid: u32) -> std::io::Result<()> {
        let code = mapped::code_of(pid)?;
        if code.is_empty() {
            // It has ended, but nobody has waited for it; what was known stays.
            return Ok(());
        }
        // A program's own code stands before what it was linked with.
        let program = code[0].file.clone();
        let modules = code.into_iter().map(|mapping| {
            let is_full = self.files.len() >= FILES_MAX;
            let open = || match is_full {
                true => None,
                false => Module::open(pid, &mapping, mapping.file == program).map(Arc::new),
            };
            let module = self.files.entry(mapping.file.clone());
            let module = module.or_insert_with(open).clone();
            (mapping, module)
        });
        let modules = modules.collect();
        self.mapped.insert(pid, modules);
        Ok(())
    }

    /// The names of a stack's calls, innermost first. A stack that does not reach the thread's
    /// beginning ends with `[cut]`; one whose addresses were lost is `[lost]`.
    pub fn of_stack(&mut self, stacks: &Stacks, id: StackId) -> Arc<[Arc<str>]> {
        if let Some(names) = self.stacks.get(&id) {
            return Arc::clone(names);
        }
        let Some(stack) = stacks.get(id) else {
            return Arc::from([Arc::from("[lost]")]);
        };
        let names = self.of_calls(stack);
        self.stacks.insert(id, Arc::clone(&names));
        names
    }

    fn of_calls(&mut self, stack: &Stack) -> Arc<[Arc<str>]> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(stack.addresses.len() + 1);
        for (at, address) in stack.addresses.iter().enumerate() {
            // A caller's address is that of the instruction behind the call.
            names.push(self.of_address(stack.pid, address.saturating_sub(u64::from(at > 0))));
        }
        match stack.end {
            StackEnd::Whole => {}
            StackEnd::TooDeep => names.push(Arc::from("[deeper]")),
            StackEnd::Cut => names.push(Arc::from("[cut]")),
        }
        names.into()
    }

    /// The outermost call of the program itself that has a name and more to tell than that a
    /// thread begins: what the thread is for, where threads have no names of their own. `None` if
    /// the program is not in the stack.
    pub fn root(&mut self, stacks: &Stacks, id: StackId) -> Option<Arc<str>> {
        let stack = stacks.get(id)?;
        // A program's own code stands before what it was linked with.
        let (program, _) = self.mapped.get(&stack.pid)?.first()?;
        let file = program.file.clone();
        let areas = self.mapped.get(&stack.pid)?;
        let is_own = |address: u64| {
            let mut areas = areas.iter();
            areas.any(|(m, _)| m.file == file && m.start <= address && address < m.end)
        };
        let own = stack.addresses.iter().rev().filter(|a| is_own(**a));
        let own: Vec<u64> = own.copied().take(ROOTS_MAX).collect();
        let mut first = None;
        for address in own {
            let name = self.of_address(stack.pid, address - 1);
            if !BEGINNINGS.iter().any(|begin| name.starts_with(begin)) {
                return Some(name);
            }
            first.get_or_insert(name);
        }
        first
    }

    /// The name of the function at an address of a process.
    pub fn of_address(&mut self, pid: u32, address: u64) -> Arc<str> {
        if let Some(name) = self.known.get(&(pid, address)) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.look_up(pid, address).into();
        self.unlooked += 1;
        if self.unlooked >= LOOK_EVERY {
            self.unlooked = 0;
            if resident_bytes() > self.memory_max {
                self.give_up();
            }
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((pid, address), Arc::clone(&name));
        name
    }

    /// Forgets what stands in files; it is read again when it is asked for.
    fn give_up(&mut self) {
        self.symbolizer = symbolizer();
        for module in self.files.values().flatten() {
            *module.tables.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.evicted += 1;
    }

    fn look_up(&self, pid: u32, address: u64) -> String {
        let areas = self.mapped.get(&pid).map_or(&[][..], Vec::as_slice);
        let found = areas
            .iter()
            .find(|(m, _)| m.start <= address && address < m.end);
        let Some((mapping, module)) = found else {
            return "[unknown]".into();
        };
        let Some(module) = module else {
            return format!("[{}]", Printable::of(mapping.name()));
        };
        let offset = mapping.file_offset + (address - mapping.start);
        module
            .address_at(offset)
            .and_then(|address| module.name_of(&self.symbolizer, address))
            .unwrap_or_else(|| format!("[{}+{offset:#x}]", module.name))
    }
}

impl Module {
    fn open(pid: u32, mapping: &Mapped, is_program: bool) -> Option<Self> {
        Some(Self {
            name: Printable::of(mapping.name()).into_string(),
            file: mapping.open(pid).ok()?,
            is_program,
            tables: Mutex::new(None),
        })
    }

    fn tables(&self) -> Arc<Tables> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tables.get_or_insert_with(|| Arc::new(Tables::read(&self.file))))
    }

    fn address_at(&self, file_offset: u64) -> Option<u64> {
        self.tables().frames.as_ref()?.address_at(file_offset)
    }

    fn name_of(&self, symbolizer: &Symbolizer, address: u64) -> Option<String> {
        let tables = self.tables();
        let function = tables.frames.as_ref().and_then(|f| f.function_of(address));
        if let Some(name) = self.exact(&tables, symbolizer, address, function) {
            return Some(name);
        }
        let start = function.map_or(address, |f| f.0);
        if !self.is_program {
            return Some(format!("~{}+{start:#x}", self.name));
        }
        let after = tables.exported.partition_point(|(at, _)| *at <= start);
        let (at, name) = tables.exported.get(after.checked_sub(1)?)?;
        Some(format!("~{}+{:#x}", demangled(name), start - at))
    }

    /// The name, if the symbol that `blazesym` finds begins in the function that the frames say.
    fn exact(
        &self,
        tables: &Tables,
        symbolizer: &Symbolizer,
        address: u64,
        function: Option<(u64, u64)>,
    ) -> Option<String> {
        if !tables.is_mapped {
            // Of anyone's file: by what was read of it, where all its names are.
            let (start, end) = function?;
            let from = tables.exported.partition_point(|(at, _)| *at < start);
            let (at, name) = tables.exported.get(from)?;
            return (*at < end).then(|| demangled(name));
        }
        let own = || PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let source = Source::Elf(Elf {
            debug_syms: false,
            ..Elf::new(tables.separate.clone().unwrap_or_else(own))
        });
        let found = symbolizer
            .symbolize_single(&source, Input::VirtOffset(address))
            .ok()?;
        let Symbolized::Sym(symbol) = found else {
            return None;
        };
        let within = symbol.size.is_some_and(|s| s > 0 && symbol.offset < s);
        let same = function.is_some_and(|f| (f.0..f.1).contains(&symbol.addr));
        // A library's own names for what it exports are nobody else's.
        let exported = &tables.exported;
        let known = exported.binary_search_by_key(&symbol.addr, |(at, _)| *at);
        let name = known.map_or(&*symbol.name, |at| exported[at].1.as_str());
        (within || same).then(|| demangled(name))
    }
}

/// Resident memory of this process that is no file's, bytes; 0 if it cannot be told.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Vec<u64> = statm.split(' ').filter_map(|p| p.parse().ok()).collect();
    match pages[..] {
        [_, resident, of_files, ..] => resident.saturating_sub(of_files) * 4096,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use waggle_symbols::unwind::Frames;

    use super::*;

    /// Addresses of functions that this program and its libraries export.
    fn addresses(pid: u32) -> Vec<u64> {
        let code = mapped::code_of(pid).expect("this process");
        let mut addresses = Vec::new();
        for mapping in &code {
            let Ok(file) = mapping.open(pid) else {
                continue;
            };
            let Ok(frames) = Frames::read(&file, 0) else {
                continue;
            };
            let Some(first) = frames.address_at(mapping.file_offset) else {
                continue;
            };
            let here = |start: &u64| *start >= first && start - first < mapping.end - mapping.start;
            let starts = frames.functions.iter().map(|f| f.0).filter(here);
            addresses.extend(
                starts
                    .take(100)
                    .map(|start| mapping.start + (start - first)),
            );
        }
        addresses
    }

    #[test]
    fn what_is_kept_of_files_is_given_up_at_the_bound_and_names_stay_the_same() {
        let pid = std::process::id();
        let (mut free, mut bound) = (Names::default(), Names::with_memory_max(1));
        free.watch(pid).expect("this process");
        bound.watch(pid).expect("this process");
        let addresses = addresses(pid);
        assert!(addresses.len() > 128, "{}", addresses.len());
        for address in &addresses {
            assert_eq!(
                free.of_address(pid, *address),
                bound.of_address(pid, *address)
            );
        }
        let times = addresses.len() / LOOK_EVERY as usize;
        assert_eq!(bound.evictions() as usize, times, "at every look");
    }

    #[test]
    fn a_static_function_of_a_library_is_named_by_where_it_begins() {
        let pid = std::process::id();
        let mut names = Names::default();
        names.watch(pid).expect("this process");
        let code = mapped::code_of(pid).expect("this process");
        let library = code.iter().find(|m| m.name().starts_with("libc.so"));
        let library = library.expect("the C library");
        let mut approximate = 0;
        for address in (library.start..library.end).step_by(4099) {
            let name = names.of_address(pid, address);
            if let Some(rest) = name.strip_prefix('~') {
                approximate += 1;
                assert!(rest.starts_with("libc.so"), "{name}");
            }
        }
        println!("{approximate} approximate names");
    }
}
