//! What are the addresses of a stack called?
//!
//! Names come from symbol tables, by `blazesym`, demangled; source lines are not asked for, since
//! debug information of a server takes hundreds of MiB. Neighbours: `symbols::mapped` opens what is
//! mapped, `symbols::unwind` knows where functions begin.
//!
//! Files are opened when a process is first seen and kept open, so that a server that has ended
//! meanwhile, or whose chroot is gone, still has names.
//!
//! Invariant: a name that is not exactly that of the function at the address begins with `~`. In a
//! stripped server those are the static functions: `~exported+0x140` is the function that begins
//! 0x140 bytes behind the exported one. All addresses in a function have one name.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use object::{Object, ObjectSymbol, ReadCache};
use waggle_symbols::BuildId;
use waggle_symbols::mapped::{self, Mapped};
use waggle_symbols::unwind::Frames;

use super::{Stack, Stacks};
use crate::event::StackId;
use waggle_probes::timeline::StackEnd;

/// Memory that this process may have in use while names are looked up, bytes: what is kept of
/// files is given up beyond, and read again.
pub const MEMORY_MAX: u64 = 256 << 20;

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
    /// The distribution's file with its symbols, if it is installed.
    separate: Option<PathBuf>,
    frames: Option<Frames>,
    /// Address and mangled name of each exported function, by address.
    exported: Vec<(u64, String)>,
}

/// Looks up names, each address once.
pub struct Names {
    symbolizer: Symbolizer,
    mapped: HashMap<u32, Vec<Part>>,
    files: HashMap<(String, u64), Option<Arc<Module>>>,
    known: HashMap<(u32, u64), Arc<str>>,
    stacks: HashMap<StackId, Arc<[Arc<str>]>>,
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
        let modules = code.into_iter().map(|mapping| {
            let module = self
                .files
                .entry(mapping.file.clone())
                .or_insert_with(|| Module::open(pid, &mapping).map(Arc::new))
                .clone();
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
        if self.known.len() % 256 == 255 && resident_bytes() > MEMORY_MAX {
            self.symbolizer = symbolizer();
            self.evicted += 1;
        }
        self.known.insert((pid, address), Arc::clone(&name));
        name
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
            return format!("[{}]", mapping.name());
        };
        let offset = mapping.file_offset + (address - mapping.start);
        module
            .address_at(offset)
            .and_then(|address| module.name_of(&self.symbolizer, address))
            .unwrap_or_else(|| format!("[{}+{offset:#x}]", module.name))
    }
}

impl Module {
    fn open(pid: u32, mapping: &Mapped) -> Option<Self> {
        let file = mapping.open(pid).ok()?;
        let frames = Frames::read(&file, 0).ok();
        let (exported, build_id) = exported(&file);
        Some(Self {
            name: mapping.name().to_owned(),
            separate: build_id.as_ref().and_then(separate_symbols),
            file,
            frames,
            exported,
        })
    }

    fn address_at(&self, file_offset: u64) -> Option<u64> {
        self.frames.as_ref()?.address_at(file_offset)
    }

    fn name_of(&self, symbolizer: &Symbolizer, address: u64) -> Option<String> {
        let function = self.frames.as_ref().and_then(|f| f.function_of(address));
        if let Some(name) = self.exact(symbolizer, address, function) {
            return Some(name);
        }
        let start = function.map_or(address, |f| f.0);
        let after = self.exported.partition_point(|(at, _)| *at <= start);
        let (at, name) = self.exported.get(after.checked_sub(1)?)?;
        Some(format!("~{}+{:#x}", demangled(name), start - at))
    }

    /// The name, if the symbol that `blazesym` finds begins in the function that the frames say.
    fn exact(
        &self,
        symbolizer: &Symbolizer,
        address: u64,
        function: Option<(u64, u64)>,
    ) -> Option<String> {
        let own = || PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let source = Source::Elf(Elf {
            debug_syms: false,
            ..Elf::new(self.separate.clone().unwrap_or_else(own))
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
        let exported = self
            .exported
            .binary_search_by_key(&symbol.addr, |(at, _)| *at);
        let name = exported.map_or(&*symbol.name, |at| self.exported[at].1.as_str());
        (within || same).then(|| demangled(name))
    }
}

/// Address and mangled name of each function in the dynamic symbol table, and the build id.
fn exported(file: &File) -> (Vec<(u64, String)>, Option<BuildId>) {
    let Ok(file) = file.try_clone() else {
        return Default::default();
    };
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return Default::default();
    };
    let functions = elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text);
    let mut exported: Vec<(u64, String)> = functions
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
        .collect();
    // Of several names for one function, the one that a programmer writes.
    exported.sort_by_key(|(address, name)| {
        let underscores = name.bytes().take_while(|b| *b == b'_').count();
        (*address, underscores, name.len())
    });
    exported.dedup_by_key(|(address, _)| *address);
    let build_id = elf.build_id().ok().flatten().map(BuildId::new);
    (exported, build_id)
}

/// The name as it stands in the source, without its parameters, which would fill a line each.
fn demangled(name: &str) -> String {
    let rust = rustc_demangle::try_demangle(name).map(|name| format!("{name:#}"));
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type();
    rust.ok()
        .or_else(|| {
            let symbol = cpp_demangle::Symbol::new(name).ok()?;
            symbol.demangle_with_options(&options).ok()
        })
        .unwrap_or_else(|| name.to_owned())
}

/// The distribution's file with the symbols that were stripped, if it is installed.
fn separate_symbols(build_id: &BuildId) -> Option<PathBuf> {
    let id = build_id.to_string();
    let (first, rest) = id.split_at_checked(2)?;
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    path.exists().then_some(path)
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
