//! What latches, places and threads are called.
//!
//! An InnoDB mutex has a name in the server's own table; a rw-lock is called after the place that
//! made it; a metadata lock after its object. A latch in a program's data is called by its symbol,
//! or by its file and address; one elsewhere after the function that asked for it first.
//!
//! Neighbours: `data` knows the program's symbols, `purpose` what a futex is for.
//!
//! Invariant: names are read once and kept: the server may be gone when they are printed.

mod data;
mod purpose;

pub(super) use purpose::Purpose;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use waggle_foreign::{is_harmful, read_proc};
use waggle_probes::latch::Sleep;
use waggle_server::Flavour;
use waggle_symbols::latch::NameTable;
use waggle_symbols::mapped::{self, Mapped};

use super::memory::Memory;
use super::metadata::metadata_name;
use super::seen::{Kind, LatchId, Request};
use super::table::{Name, THE_REST};
use crate::event::{StackId, Thread};
use crate::stack::Stacks;
use crate::stack::names::Names;
use crate::threads::{role_of, role_of_root};
use data::ProgramData;

/// Most names that are kept.
const NAMES_MAX: usize = 1 << 20;

/// All names.
#[derive(Debug)]
pub struct Naming {
    pid: u32,
    memory: Option<Memory>,
    flavour: Option<Flavour>,
    mutexes: Option<NameTable>,
    data: ProgramData,
    mapped: Vec<Mapped>,
    names: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Name>,
    latches: HashMap<LatchId, Name>,
    by_id: HashMap<u32, Name>,
    files: HashMap<u64, Option<Arc<str>>>,
    requests: Vec<(Arc<str>, u32)>,
    by_request: HashMap<(u64, u32), Request>,
    kinds: HashMap<StackId, Option<Kind>>,
    roles: HashMap<u32, Name>,
    /// What a thread is called that has no name of its own, and what those are for.
    comm: String,
    purposes: HashMap<Thread, Name>,
    symbols: Names,
}

impl Naming {
    /// Of process `pid`, which runs `program`.
    pub(super) fn of(
        pid: u32,
        program: PathBuf,
        flavour: Option<Flavour>,
        mutexes: Option<NameTable>,
    ) -> Self {
        let mut naming = Self {
            pid,
            memory: Memory::of(pid).ok(),
            flavour,
            mutexes,
            data: ProgramData::of(program),
            mapped: Vec::new(),
            names: Vec::new(),
            by_text: HashMap::new(),
            latches: HashMap::new(),
            by_id: HashMap::new(),
            files: HashMap::new(),
            requests: Vec::new(),
            by_request: HashMap::new(),
            kinds: HashMap::new(),
            roles: HashMap::new(),
            comm: read_proc(format!("/proc/{pid}/comm"))
                .map(|comm| comm.trim_end_matches('\n').to_owned())
                .unwrap_or_default(),
            purposes: HashMap::new(),
            symbols: Names::default(),
        };
        naming.look_at_mappings();
        naming
    }

    /// Reads the symbol tables of what the process runs now, so that the first names are as quick
    /// as the others.
    pub(super) fn read_tables(&mut self) {
        for code in &self.mapped {
            self.symbols.of_address(self.pid, code.start);
        }
    }

    /// Takes note of what the process has mapped by now.
    pub(super) fn look_at_mappings(&mut self) {
        let _ = self.symbols.watch(self.pid);
        if let Ok(mapped) = mapped::code_of(self.pid) {
            self.mapped = mapped;
        }
        self.data.look(self.pid);
    }

    fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        if self.names.len() >= NAMES_MAX {
            return THE_REST;
        }
        let name = Name(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = text.into();
        self.names.push(Arc::clone(&text));
        self.by_text.insert(text, name);
        name
    }

    /// A name's text.
    pub fn text(&self, name: Name) -> &str {
        let text = self.names.get(name.0 as usize);
        text.map_or("(the rest)", |text| text)
    }

    /// What the latch is called. `THE_REST` if it has not been seen.
    pub fn latch(&self, latch: LatchId) -> Name {
        self.latches.get(&latch).copied().unwrap_or(THE_REST)
    }

    /// File and line of a request.
    pub fn request(&self, request: Request) -> String {
        let known = self.requests.get(request.0 as usize);
        known.map_or_else(String::new, |(file, line)| format!("{file}:{line}"))
    }

    /// What a thread does, by its name when it was last seen.
    pub fn role(&mut self, tid: u32) -> Name {
        match self.roles.get(&tid) {
            Some(role) => *role,
            None => self.name("(unknown)"),
        }
    }

    /// The calls of a stack, innermost first.
    pub fn stack(&mut self, stacks: &Stacks, id: StackId) -> Vec<String> {
        let names = self.symbols.of_stack(stacks, id);
        names.iter().map(ToString::to_string).collect()
    }

    /// Takes note of a thread's name; of one without, what it is for by the calls it is in.
    pub(super) fn thread(
        &mut self,
        thread: Thread,
        comm: &[u8; 16],
        stacks: &Stacks,
        stack: Option<StackId>,
    ) {
        let length = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
        let comm = String::from_utf8_lossy(&comm[..length]);
        let plain: String = comm
            .chars()
            .map(|c| if is_harmful(c) { '?' } else { c })
            .collect();
        let purpose = (plain == self.comm).then(|| self.purpose_of(thread, stacks, stack));
        let role = match purpose.flatten() {
            Some(role) => role,
            None => self.name(role_of(&plain)),
        };
        if self.roles.len() < NAMES_MAX {
            self.roles.insert(thread.tid, role);
        }
    }

    /// Looked up once a thread: the first stack tells.
    fn purpose_of(
        &mut self,
        thread: Thread,
        stacks: &Stacks,
        stack: Option<StackId>,
    ) -> Option<Name> {
        if let Some(purpose) = self.purposes.get(&thread) {
            return Some(*purpose);
        }
        let root = self.symbols.root(stacks, stack?)?;
        let purpose = self.name(&role_of_root(&root));
        if self.purposes.len() >= NAMES_MAX {
            self.purposes.clear();
        }
        self.purposes.insert(thread, purpose);
        Some(purpose)
    }

    /// The place that asks, if the record tells one.
    pub(super) fn asks(&mut self, sleep: &Sleep<'_>) -> Option<Request> {
        if sleep.file == 0 {
            return None;
        }
        if let Some(known) = self.by_request.get(&(sleep.file, sleep.line)) {
            return Some(*known);
        }
        let file = self.file(sleep.file)?;
        let request = Request(u32::try_from(self.requests.len()).ok()?);
        self.requests.push((file, sleep.line));
        self.by_request.insert((sleep.file, sleep.line), request);
        Some(request)
    }

    /// The last part of a path in the process's memory.
    fn file(&mut self, address: u64) -> Option<Arc<str>> {
        if let Some(known) = self.files.get(&address) {
            return known.clone();
        }
        let path = self.memory.as_ref().and_then(|memory| memory.text(address));
        let file = path.map(|path| Arc::from(path.rsplit('/').next().unwrap_or(&path)));
        self.files.insert(address, file.clone());
        file
    }

    /// Names an InnoDB latch.
    pub(super) fn innodb(&mut self, sleep: &Sleep<'_>, kind: Kind) -> LatchId {
        let latch = LatchId(sleep.latch);
        if kind == Kind::Mutex {
            let name = match self.by_id.get(&sleep.id) {
                Some(name) => *name,
                None => {
                    let text = self.mutex_name(sleep.id);
                    let name = self.name(&text.unwrap_or_else(|| format!("mutex {}", sleep.id)));
                    self.by_id.insert(sleep.id, name);
                    name
                }
            };
            // Another may stand where it stood.
            self.latches.insert(latch, name);
        } else {
            let made = self.file(sleep.made_file);
            let made = made.map_or_else(
                || "rw-lock".to_owned(),
                |file| format!("made at {file}:{}", sleep.made_line),
            );
            let name = self.name(&made);
            self.latches.insert(latch, name);
        }
        latch
    }

    fn mutex_name(&self, id: u32) -> Option<String> {
        let (memory, table) = (self.memory.as_ref()?, self.mutexes?);
        let array = memory.word(table.array.wrapping_add(self.data.bias()))?;
        let description = memory.word(array.wrapping_add(8 * u64::from(id)))?;
        let name = memory.word(description.wrapping_add(table.name.into()))?;
        memory.text(name)
    }

    /// Names a metadata lock, which is known by its name.
    pub(super) fn metadata(&mut self, sleep: &Sleep<'_>) -> LatchId {
        let text = metadata_name(sleep.name, self.flavour);
        let name = self.name(&text.unwrap_or_else(|| "metadata lock".into()));
        let latch = LatchId(1 << 63 | u64::from(name.0));
        self.latches.insert(latch, name);
        latch
    }

    /// Names a latch by its address, or by who asks for it.
    pub(super) fn plain(
        &mut self,
        sleep: &Sleep<'_>,
        stacks: &Stacks,
        stack: Option<StackId>,
    ) -> LatchId {
        let latch = LatchId(sleep.latch);
        if !self.latches.contains_key(&latch) && self.latches.len() < NAMES_MAX {
            let text = self
                .data
                .name(sleep.latch)
                .or_else(|| self.asker(stacks, stack?).map(|by| format!("of {by}")))
                .unwrap_or_else(|| "unknown".to_owned());
            let name = self.name(&text);
            self.latches.insert(latch, name);
        }
        latch
    }

    /// The first function outside the C library.
    fn asker(&mut self, stacks: &Stacks, id: StackId) -> Option<String> {
        let addresses = stacks.get(id)?.addresses.clone();
        let in_library = |address: u64| {
            let mapping = self
                .mapped
                .iter()
                .find(|m| (m.start..m.end).contains(&address));
            mapping.is_some_and(|m| m.name().starts_with("libc.") || m.name().starts_with("ld-"))
        };
        let (at, address) = addresses
            .iter()
            .enumerate()
            .find(|(_, address)| !in_library(**address))?;
        let name = self
            .symbols
            .of_address(self.pid, address - u64::from(at > 0));
        Some(name.to_string())
    }
}
