//! Where a server's threads go to sleep for latches, and what a latch's own memory says.
//!
//! MySQL: every InnoDB mutex and rw-lock that cannot be had at once gets a cell of the wait array
//! (`sync_array_reserve_cell`, with latch, type, file and line), and sleeps in
//! `sync_array_wait_event`, whose calls of `os_event_wait_low` and `sync_array_free_cell` are the
//! sleep's two ends; whoever lets go of a latch with sleepers passes `os_event_set` with its event.
//! Both servers: metadata locks, by the sites of [`crate::lock`]. MariaDB's own latches are words
//! that threads sleep on; they need nothing of the binary.
//!
//! Where a latch keeps its event, its owner and its name is decoded from the functions that use
//! them, and each only counts if the code has the form that is known.
//!
//! Invariant: none of the sites is passed by a thread that gets its latch at once, except
//! `os_event_set`, which all kinds of events share.

use std::fmt;
use std::path::Path;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register as Machine};
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};

use crate::elf::{Binary, ElfError, Function};
use crate::lock::{LockHook, LockLayout, call_site};
use crate::site::{Register, Site};
use crate::trace::trace;

/// What a site reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LatchHook {
    /// A latch cannot be had: latch, type, file, line (`rsi`, `rdx`, `rcx`, `r8`).
    Wanted,
    /// The thread goes to sleep for it: event (`rdi`).
    Sleeps,
    /// It woke.
    Wakes,
    /// Somebody sets an event: event (`rdi`).
    Sets,
    /// The thread goes to sleep for a metadata lock: its wait (`rdi`).
    MetadataSleeps,
    /// It woke.
    MetadataWakes,
    /// A wait for a metadata lock is told its fate: the wait, the fate (`rdi`, `esi`).
    MetadataTold,
}

impl LatchHook {
    /// Every hook.
    pub const ALL: [Self; 7] = [
        Self::Wanted,
        Self::Sleeps,
        Self::Wakes,
        Self::Sets,
        Self::MetadataSleeps,
        Self::MetadataWakes,
        Self::MetadataTold,
    ];

    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wanted => "latch wanted",
            Self::Sleeps => "sleep for a latch",
            Self::Wakes => "end of a sleep for a latch",
            Self::Sets => "latch with sleepers released",
            Self::MetadataSleeps => "sleep for a metadata lock",
            Self::MetadataWakes => "end of a sleep for a metadata lock",
            Self::MetadataTold => "metadata lock granted",
        }
    }
}

impl fmt::Display for LatchHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatchSite {
    /// What it reports.
    pub hook: LatchHook,
    /// Where.
    pub site: Site,
    /// The function has not moved the stack yet: the return address is on top of it.
    pub at_entry: bool,
}

/// An InnoDB mutex, offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MutexLayout {
    /// Of the owner's `pthread_t`; `None` where the word only says that there is one (MySQL 8.0).
    pub owner: Option<u32>,
    /// Of the pointer to its event.
    pub event: u32,
    /// Of the number of its name.
    pub latch_id: Option<u32>,
}

/// An InnoDB rw-lock, offsets in bytes. Its state is the 32-bit word at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RwLockLayout {
    /// Of the `pthread_t` of whoever has it exclusively.
    pub writer: u32,
    /// Of the pointer to the event.
    pub event: u32,
    /// Of the name of the file that made it, a pointer; the line follows.
    pub made_at: u32,
}

/// What a type given to the wait array asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitType {
    /// The number.
    pub number: u8,
    /// How a rw-lock is asked for; `None`: a mutex.
    pub mode: Option<RwMode>,
}

/// How a rw-lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RwMode {
    /// Shared.
    Shared,
    /// Shared with readers, exclusive among its like.
    SharedExclusive,
    /// Exclusive.
    Exclusive,
    /// Exclusive and granted; the readers have to leave first.
    ExclusiveDraining,
}

/// Where a metadata lock's wait leads to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPath {
    /// From the wait: of the pointer to the ticket waited for.
    pub ticket: u32,
    /// From the ticket: of the pointer to the lock.
    pub lock: u32,
    /// From the lock: of the key's bytes; their number stands at the lock's start, in 16 bits.
    pub key: u32,
}

/// Where names of mutexes are, in the file's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameTable {
    /// Of the pointer to the array of pointers to descriptions, one a latch id.
    pub array: u64,
    /// In a description: of the pointer to the name.
    pub name: u32,
}

/// Every place of one build.
#[derive(Debug, Clone, Default)]
pub struct LatchLayout {
    /// What was found.
    pub sites: Vec<LatchSite>,
    /// What was not, and why.
    pub missing: Vec<(String, String)>,
    /// InnoDB's mutexes.
    pub mutex: Option<MutexLayout>,
    /// InnoDB's rw-locks.
    pub rw_lock: Option<RwLockLayout>,
    /// What the wait array's types mean.
    pub types: Vec<WaitType>,
    /// Names of mutexes.
    pub names: Option<NameTable>,
    /// Keys of metadata locks.
    pub key: Option<KeyPath>,
}

const RESERVE: &str = "_Z23sync_array_reserve_cellP12sync_array_tPv";
const WAIT: &str = "_Z21sync_array_wait_eventP12sync_array_t";
const FREE: &str = "_Z20sync_array_free_cellP12sync_array_t";
const EVENT_WAIT: &str = "_Z17os_event_wait_lowP8os_event";
const EVENT_SET: &str = "_Z12os_event_setP8os_event";
const EVENT_CREATE: &str = "_Z15os_event_createv";
const MUTEX_EXIT: &str = "_ZN14TTASEventMutexI13GenericPolicyE4exitEv";
const MUTEX_WAIT: &str = "_ZN14TTASEventMutexI13GenericPolicyE4waitE";
const MUTEX_INIT: &str = "_Z10mutex_initI11PolicyMutexI14TTASEventMutexI13GenericPolicyEEE";
const RW_CREATE: &str = "_Z19rw_lock_create_funcP9rw_lock_t";
const RW_MOVE: &str = "_Z29rw_lock_x_lock_move_ownershipP9rw_lock_t";
const RW_S: &str = "_Z19rw_lock_s_lock_spinP9rw_lock_t";
const RW_SX: &str = "_Z20rw_lock_sx_lock_funcP9rw_lock_t";
const RW_X: &str = "_Z19rw_lock_x_lock_funcP9rw_lock_t";
const VISIT_CONTEXT: &str = "_ZN11MDL_context14visit_subgraphEP26MDL_wait_for_graph_visitor";
const TICKET_ACCEPT: &str = "_ZN10MDL_ticket14accept_visitorEP26MDL_wait_for_graph_visitor";
/// In libc.
const CLOCK_OF_THREAD: &str = "pthread_getcpuclockid";

fn wanted(name: &str) -> bool {
    [
        RESERVE,
        WAIT,
        FREE,
        EVENT_WAIT,
        EVENT_SET,
        EVENT_CREATE,
        MUTEX_EXIT,
        MUTEX_WAIT,
        MUTEX_INIT,
        RW_CREATE,
        RW_MOVE,
        RW_S,
        RW_SX,
        RW_X,
        VISIT_CONTEXT,
        TICKET_ACCEPT,
    ]
    .iter()
    .any(|wanted| name.starts_with(wanted))
}

impl LatchLayout {
    /// Finds every place of the server binary at `path`. A binary that is no server has none.
    ///
    /// # Errors
    /// The file cannot be read, or is not for x86-64.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        let binary = Binary::open(path, wanted)?;
        let mut layout = Self::default();
        layout.find_metadata(&binary, &LockLayout::open(path)?);
        if binary.function_by_prefix(RESERVE).is_some() {
            layout.find_innodb(&binary);
        }
        Ok(layout)
    }

    /// The site of `hook`, if there is one.
    pub fn site(&self, hook: LatchHook) -> Option<&LatchSite> {
        self.sites.iter().find(|s| s.hook == hook)
    }

    fn find_innodb(&mut self, binary: &Binary) {
        let sites = innodb_sites(binary).and_then(|sites| {
            let types = wait_types(binary).ok_or("the wait array's types were not recognised")?;
            Ok((sites, types))
        });
        match sites {
            Ok((sites, types)) => {
                self.sites.extend(sites);
                self.types = types;
            }
            Err(why) => return self.miss("InnoDB's mutexes and rw-locks", &why),
        }
        self.mutex = mutex(binary);
        self.rw_lock = rw_lock(binary);
        self.names = names(binary);
        if self.mutex.is_none_or(|m| m.owner.is_none()) {
            self.miss(
                "owner's word of a mutex",
                "its exit is not of the form that is known",
            );
        }
        if self.names.is_none() || self.mutex.is_none_or(|m| m.latch_id.is_none()) {
            self.miss(
                "names of mutexes",
                "their making is not of the form that is known",
            );
        }
        if self.rw_lock.is_none() {
            self.miss(
                "owner and origin of a rw-lock",
                "their making is not of the known form",
            );
        }
    }

    fn find_metadata(&mut self, binary: &Binary, locks: &LockLayout) {
        let pairs = [
            (LatchHook::MetadataSleeps, LockHook::MetadataBegin),
            (LatchHook::MetadataWakes, LockHook::MetadataEnd),
            (LatchHook::MetadataTold, LockHook::MetadataVerdict),
        ];
        let sites = pairs.map(|(hook, lock)| (hook, locks.site(lock).cloned()));
        if sites.iter().any(|(_, site)| site.is_none()) {
            let why = locks
                .missing
                .iter()
                .find(|(hook, _)| pairs.iter().any(|(_, lock)| lock == hook));
            let why = why.map_or_else(String::new, |(_, why)| why.clone());
            return self.miss("metadata locks", &why);
        }
        for (hook, site) in sites {
            let at_entry = hook != LatchHook::MetadataWakes;
            self.sites.extend(site.map(|site| LatchSite {
                hook,
                site,
                at_entry,
            }));
        }
        self.key = key_path(binary, locks);
        if self.key.is_none() {
            self.miss(
                "names of metadata locks",
                "the way to a wait's key was not recognised",
            );
        }
    }

    fn miss(&mut self, what: &str, why: &str) {
        self.missing.push((what.to_owned(), why.to_owned()));
    }
}

fn function(binary: &Binary, prefix: &str) -> Result<Function, String> {
    let found = binary.function_by_prefix(prefix);
    found.ok_or_else(|| format!("{prefix} is not exported"))
}

fn innodb_sites(binary: &Binary) -> Result<Vec<LatchSite>, String> {
    let wait = function(binary, WAIT)?;
    let inside = |hook, target: &str| {
        Ok::<_, String>(LatchSite {
            hook,
            site: call_site(&wait, &function(binary, target)?)?,
            at_entry: false,
        })
    };
    Ok(vec![
        entry(
            LatchHook::Wanted,
            &function(binary, RESERVE)?,
            &[1, 2, 3, 4],
        )?,
        inside(LatchHook::Sleeps, EVENT_WAIT)?,
        inside(LatchHook::Wakes, FREE)?,
        entry(LatchHook::Sets, &function(binary, EVENT_SET)?, &[0])?,
    ])
}

/// The cheapest site of `function` with these arguments in the registers they were passed in.
fn entry(hook: LatchHook, function: &Function, arguments: &[u8]) -> Result<LatchSite, String> {
    /// `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
    const PASSED: [Register; 6] = [
        Register(7),
        Register(6),
        Register(2),
        Register(1),
        Register(8),
        Register(9),
    ];
    let (site, registers) =
        Site::find_holding(function, arguments).map_err(|error| error.to_string())?;
    let passed = arguments.iter().map(|a| PASSED[usize::from(*a)]);
    if !passed.eq(registers) {
        return Err(format!("{} moves its arguments at once", function.name));
    }
    let at_entry = site.is_before_stack_moves(function);
    Ok(LatchSite {
        hook,
        site,
        at_entry,
    })
}

fn instructions(function: &Function) -> Vec<Instruction> {
    Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// The offset of a memory operand `[register + offset]`, and the register.
fn place(instruction: &Instruction) -> Option<(Machine, u32)> {
    let plain = instruction.memory_index() == Machine::None
        && !matches!(instruction.memory_base(), Machine::None | Machine::RIP);
    let offset = u32::try_from(instruction.memory_displacement64()).ok()?;
    (plain && offset < 4096).then_some((instruction.memory_base(), offset))
}

fn calls(instruction: &Instruction, target: u64) -> bool {
    instruction.code() == Code::Call_rel32_64 && instruction.near_branch_target() == target
}

/// `cmp rax, TYPE; je there`, and `there: mov rdi, [rdx + EVENT]`: types of mutexes are those whose
/// event stands where a mutex has it; those of rw-locks are what their functions hand over.
fn wait_types(binary: &Binary) -> Option<Vec<WaitType>> {
    let wait = instructions(&function(binary, WAIT).ok()?);
    let event = mutex(binary)?.event;
    let mut types = Vec::new();
    let mut draining = None;
    for pair in wait.windows(2) {
        let [compare, jump] = pair else { continue };
        if compare.mnemonic() != Mnemonic::Cmp
            || compare.op0_kind() != OpKind::Register
            || compare.op0_register() != Machine::RAX
            || !matches!(
                compare.op1_kind(),
                OpKind::Immediate8to64 | OpKind::Immediate32to64
            )
            || jump.mnemonic() != Mnemonic::Je
        {
            continue;
        }
        let number = u8::try_from(compare.immediate(1)).ok()?;
        let there = wait.iter().find(|i| i.ip() == jump.near_branch_target())?;
        let loads = there.mnemonic() == Mnemonic::Mov && there.op0_register() == Machine::RDI;
        match place(there).filter(|_| loads)? {
            (_, offset) if offset == event => types.push(WaitType { number, mode: None }),
            _ => draining = Some(number),
        }
    }
    if types.is_empty() {
        return None;
    }
    types.extend(draining.map(|number| WaitType {
        number,
        mode: Some(RwMode::ExclusiveDraining),
    }));
    let reserve = function(binary, RESERVE).ok()?.address;
    let modes = [
        (RW_S, RwMode::Shared),
        (RW_SX, RwMode::SharedExclusive),
        (RW_X, RwMode::Exclusive),
    ];
    for (name, mode) in modes {
        let number = type_handed_over(&function(binary, name).ok()?, reserve)?;
        if types.iter().any(|t| t.number == number) {
            return None;
        }
        types.push(WaitType {
            number,
            mode: Some(mode),
        });
    }
    Some(types)
}

/// The last `mov edx, TYPE` before the first call of `reserve`.
fn type_handed_over(function: &Function, reserve: u64) -> Option<u8> {
    let instructions = instructions(function);
    let call = instructions.iter().position(|i| calls(i, reserve))?;
    let before = instructions[..call].iter().rev().take(8);
    let given = before
        .clone()
        .find(|i| i.code() == Code::Mov_r32_imm32 && i.op0_register() == Machine::EDX)?;
    u8::try_from(given.immediate(1)).ok()
}

/// The exit takes the owner's word by exchange, and hands the event on: `xchg [rdi], reg` of eight
/// bytes (of one, the word is no owner), `mov rdi, [rdi + EVENT]` before `os_event_set`.
fn mutex(binary: &Binary) -> Option<MutexLayout> {
    let exit = instructions(&function(binary, MUTEX_EXIT).ok()?);
    let set = function(binary, EVENT_SET).ok()?.address;
    let call = exit.iter().position(|i| calls(i, set))?;
    let load = exit.get(call.checked_sub(1)?)?;
    let loads = load.code() == Code::Mov_r64_rm64 && load.op0_register() == Machine::RDI;
    let (base, event) = place(load).filter(|_| loads)?;
    let first = exit[..call]
        .iter()
        .find(|i| i.mnemonic() == Mnemonic::Xchg)?;
    let owner = place(first).filter(|(register, _)| *register == base)?.1;
    let wait = trace(&function(binary, MUTEX_WAIT).ok()?);
    let latch_id = wait
        .direct(0, 4)
        .find(|a| a.reads)
        .map(|a| a.address.offset);
    Some(MutexLayout {
        owner: (first.memory_size().size() == 8).then_some(owner),
        event,
        latch_id: latch_id.and_then(|offset| u32::try_from(offset).ok()),
    })
}

/// `pthread_self` is stored as the writer when ownership moves; the events are what
/// `os_event_create` returns, the shared one first; file and line are stored as they were passed.
fn rw_lock(binary: &Binary) -> Option<RwLockLayout> {
    let moves = instructions(&function(binary, RW_MOVE).ok()?);
    let writer = stored_after_call(&moves, |i| i.code() == Code::Call_rel32_64)?;
    let create = function(binary, RW_CREATE).ok()?;
    let make = function(binary, EVENT_CREATE).ok()?.address;
    let event = stored_after_call(&instructions(&create), |i| calls(i, make))?;
    let trace = trace(&create);
    let stored = |argument: u8| {
        let mut stores = trace.accesses.iter().filter(|a| {
            let plain = a
                .stored
                .as_ref()
                .is_some_and(|s| s.argument == argument && s.derefs.is_empty() && s.offset == 0);
            plain && a.writes && a.address.argument == 0 && a.address.derefs.is_empty()
        });
        stores
            .next()
            .and_then(|a| u32::try_from(a.address.offset).ok())
    };
    let (file, line) = (stored(1)?, stored(2)?);
    (line == file + 8).then_some(RwLockLayout {
        writer,
        event,
        made_at: file,
    })
}

/// Where the result of the first call that `is` says is stored: `mov [reg + OFFSET], rax`.
fn stored_after_call(
    instructions: &[Instruction],
    is: impl Fn(&Instruction) -> bool,
) -> Option<u32> {
    let call = instructions.iter().position(is)?;
    let store = instructions[call + 1..]
        .iter()
        .take(4)
        .find(|i| i.code() == Code::Mov_rm64_r64 && i.op1_register() == Machine::RAX)?;
    Some(place(store)?.1)
}

/// `lea reg, [latch_meta]`, `mov rax, [reg + 8]`, `mov rax, [rax + id * 8]`. In a description the
/// name comes behind the id; that it is one is checked where it is read.
fn names(binary: &Binary) -> Option<NameTable> {
    let init = instructions(&function(binary, MUTEX_INIT).ok()?);
    let at = init.iter().position(|i| {
        i.code() == Code::Mov_r64_rm64
            && i.memory_index() != Machine::None
            && i.memory_index_scale() == 8
            && i.memory_displacement64() == 0
    })?;
    let array = init[at].memory_base();
    let load = init[..at]
        .iter()
        .rev()
        .find(|i| i.code() == Code::Mov_r64_rm64 && i.op0_register() == array)?;
    let (table, offset) = place(load)?;
    let global = init[..at].iter().rev().find(|i| {
        i.code() == Code::Lea_r64_m && i.op0_register() == table && i.is_ip_rel_memory_operand()
    })?;
    Some(NameTable {
        array: global.ip_rel_memory_address().wrapping_add(offset.into()),
        name: 8,
    })
}

/// The one pointer in a context whose first word is read too, as for a virtual call: what it waits
/// for. The one that a ticket hands on: its lock.
fn key_path(binary: &Binary, locks: &LockLayout) -> Option<KeyPath> {
    let visit = trace(&binary.function(VISIT_CONTEXT)?);
    let mut called = visit.accesses.iter().filter(|a| {
        a.reads
            && a.size == 8
            && a.address.argument == 0
            && a.address.derefs.len() == 1
            && a.address.offset == 0
    });
    let ticket = *called.next()?.address.derefs.first()?;
    let accept = trace(&binary.function(TICKET_ACCEPT)?);
    let lock = accept.direct(0, 8).find(|a| a.reads)?.address.offset;
    Some(KeyPath {
        ticket: u32::try_from(ticket).ok()?,
        lock: u32::try_from(lock).ok()?,
        key: locks.search?.key,
    })
}

/// Where a `pthread_t` of the C library at `path` keeps the thread's number, bytes.
///
/// # Errors
/// The file cannot be read, or the function that reads the number is not of the form that is
/// known: `mov reg, [rdi + OFFSET]`, and soon `not reg`.
pub fn thread_number(path: &Path) -> Result<u32, String> {
    let binary = Binary::open(path, |name| name.starts_with(CLOCK_OF_THREAD))
        .map_err(|error| error.to_string())?;
    let clock = function(&binary, CLOCK_OF_THREAD)?;
    let instructions = instructions(&clock);
    let turned = instructions
        .iter()
        .position(|i| i.mnemonic() == Mnemonic::Not);
    let found = turned.and_then(|at| {
        let register = instructions[at].op0_register();
        let load = instructions[..at]
            .iter()
            .rev()
            .find(|i| i.code() == Code::Mov_r32_rm32 && i.op0_register() == register)?;
        place(load).filter(|(base, _)| *base == Machine::RDI)
    });
    let found = found.map(|(_, offset)| offset);
    found.ok_or_else(|| format!("{CLOCK_OF_THREAD} is not of the form that is known"))
}

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
        let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let mut symbols: Vec<(u64, u64, String)> = elf
            .dynamic_symbols()
            .chain(elf.symbols())
            .filter(|s| s.is_definition() && s.kind() == object::SymbolKind::Data && s.size() > 0)
            .filter_map(|s| Some((s.address(), s.size(), s.name().ok()?.to_owned())))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(code: Vec<u8>) -> Function {
        Function {
            name: "f".into(),
            // Near the top, so that sums of addresses are tried too.
            address: 0xffff_ffff_ffff_0000,
            file_offset: 0,
            code,
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(code in prop::collection::vec(any::<u8>(), 0..256)) {
            let function = of(code);
            let _ = type_handed_over(&function, function.address);
            let all = instructions(&function);
            let is_call = |i: &Instruction| i.code() == Code::Call_rel32_64;
            if let Some(offset) = stored_after_call(&all, is_call) {
                prop_assert!(offset < 4096);
            }
        }
    }

    #[test]
    fn a_type_is_what_stands_in_edx_at_the_call() {
        // mov edx, 5; mov rdi, rax; call +0
        let code = vec![0xba, 5, 0, 0, 0, 0x48, 0x89, 0xc7, 0xe8, 0, 0, 0, 0];
        let function = of(code);
        assert_eq!(type_handed_over(&function, function.address + 13), Some(5));
        assert_eq!(type_handed_over(&function, function.address), None);
    }
}
