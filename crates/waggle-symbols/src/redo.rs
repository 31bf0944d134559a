//! Where does a server's redo log say how far it is written and flushed, and where is that told?
//!
//! MySQL (`log_t`): the two notifiers are told apart by the one number that each reads first, so
//! they give the offsets; where the numbers are stored is found in the functions that the log's
//! threads and `log_write_up_to` share. MariaDB (`group_commit_lock`): its engine exports nothing,
//! but a wait in it is announced by `thd_wait_begin` with a type of its own, which leads to
//! `acquire`, from there to `log_write_up_to`, and from there to `release` and the two locks.
//! Neighbours: [`boundary`](crate::boundary), [`callers`].
//!
//! Invariant: what does not come out in exactly one way is refused with the reason. The numbers are
//! checked against a live server before they are used; that is the reader's part.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::boundary::{behind, instructions};
use crate::callers;
use crate::elf::{Binary, Function};
use crate::function::Program;
use crate::mark;
use crate::site::Site;
use crate::trace::trace;

const LOG_SYS: &str = "log_sys";
const WRITE_UP_TO: &str = "_Z15log_write_up_toR5log_tmb";
const WRITER: &str = "_Z10log_writerP5log_t";
const FLUSHER: &str = "_Z11log_flusherP5log_t";
const WRITE_NOTIFIER: &str = "_Z18log_write_notifierP5log_t";
const FLUSH_NOTIFIER: &str = "_Z18log_flush_notifierP5log_t";
const WAIT_BEGIN: [&str; 2] = ["thd_wait_begin", "_Z14thd_wait_beginP3THDi"];
/// The type that a wait for the redo log is announced with.
const WAIT_GROUP_COMMIT: u32 = 9;

/// True for the functions that [`mariadb`] looks for with [`Binary::open`].
pub fn wanted(name: &str) -> bool {
    WAIT_BEGIN.contains(&name)
}

/// What was decoded of MySQL's redo log (8.0.30 to 9.x).
#[derive(Debug, Clone)]
pub struct MysqlRedo {
    /// Address of the pointer to the log.
    pub log_sys: u64,
    /// In the log: how far it is written.
    pub write_lsn: i64,
    /// In the log: how far it is flushed.
    pub flushed_lsn: i64,
    /// In the log: a byte, not 0 while the log's own threads are paused.
    pub paused: i64,
    /// The function that waits; log, number, flush.
    pub wait: Function,
    /// The function that writes; log, up to where.
    pub write: Function,
    /// The places right behind where it is told how far the log is written.
    pub written: Vec<Site>,
    /// The function that flushes; log.
    pub flush: Function,
    /// The places right behind where it is told how far the log is flushed.
    pub flushed: Vec<Site>,
}

/// Decodes MySQL's redo log.
///
/// # Errors
/// Something is not exported or does not come out in one way; says what.
pub fn mysql(program: &Program) -> Result<MysqlRedo, String> {
    let function = |name: &str| program.function(name).map_err(|error| error.to_string());
    let log_sys = program.address(LOG_SYS);
    let log_sys = log_sys.ok_or_else(|| format!("{LOG_SYS} is not exported"))?;
    let wait = function(WRITE_UP_TO)?;
    let write_lsn = first_read(&function(WRITE_NOTIFIER)?)?;
    let flushed_lsn = first_read(&function(FLUSH_NOTIFIER)?)?;
    if write_lsn == flushed_lsn {
        return Err("written and flushed cannot be told apart".into());
    }
    let (write, written) = teller(program, &wait, &function(WRITER)?, write_lsn)?;
    let (flush, flushed) = teller(program, &wait, &function(FLUSHER)?, flushed_lsn)?;
    let paused = paused(&wait, &flush)?;
    Ok(MysqlRedo {
        log_sys,
        write_lsn,
        flushed_lsn,
        paused,
        wait,
        write,
        written,
        flush,
        flushed,
    })
}

/// Where the 8-byte number stands that a notifier reads first.
fn first_read(notifier: &Function) -> Result<i64, String> {
    let found = trace(notifier);
    let read = found.direct(0, 8).find(|a| a.reads && !a.writes);
    let read = read.ok_or_else(|| format!("{} reads no number of the log", notifier.name))?;
    Ok(read.address.offset)
}

/// The flag that `log_write_up_to` looks at first; the function that flushes looks at it too.
fn paused(wait: &Function, flush: &Function) -> Result<i64, String> {
    let is_flag = |i: &Instruction| {
        let flag = i.memory_size().size() == 1 && i.memory_index() == Register::None;
        let base = i.memory_base();
        flag && i.op_count() > 1
            && i.op1_kind() == OpKind::Memory
            && displacement(i) > 0
            && !is_frame(base)
            && !matches!(base, Register::RIP | Register::None)
    };
    let first = instructions(wait).find(is_flag).map(|i| displacement(&i));
    let first = first.ok_or_else(|| format!("{} looks at no flag", wait.name))?;
    let agrees = instructions(flush).any(|i| is_flag(&i) && displacement(&i) == first);
    if agrees {
        Ok(first)
    } else {
        Err(format!(
            "{} looks at a flag at {first:#x} that the flushing function does not",
            wait.name
        ))
    }
}

/// The function that both call, and that stores the number at `offset` of the log; with the places
/// right behind.
fn teller(
    program: &Program,
    wait: &Function,
    thread: &Function,
    offset: i64,
) -> Result<(Function, Vec<Site>), String> {
    let called = |f: &Function| -> BTreeSet<u64> {
        instructions(f)
            .filter(|i| i.code() == Code::Call_rel32_64)
            .map(|i| i.near_branch_target())
            .collect()
    };
    let both = &called(wait) & &called(thread);
    let mut tellers = Vec::new();
    for address in both.into_iter().filter(|a| !program.is_exported(*a)) {
        let Ok(function) = program.starting_at(address) else {
            continue;
        };
        let sites: Vec<Site> = stores(&function, offset)
            .into_iter()
            .filter_map(|at| behind(&function, at))
            .collect();
        if !sites.is_empty() {
            tellers.push((function, sites));
        }
    }
    let count = tellers.len();
    match (tellers.pop(), count) {
        (Some(only), 1) => Ok(only),
        _ => Err(format!(
            "{count} functions that {} and {} call store the number at {offset:#x} of the log",
            wait.name, thread.name
        )),
    }
}

/// Where a value was put that was made from the address `offset(register)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Register(u32),
    /// On the stack, at this offset of the frame.
    Slot(i64),
}

/// Addresses of the instructions that store 8 bytes at `offset` of an object, directly or through
/// its address in a register, which may have been put on the stack meanwhile.
fn stores(function: &Function, offset: i64) -> Vec<u64> {
    let mut holders: BTreeMap<Holder, ()> = BTreeMap::new();
    let mut found = Vec::new();
    for i in instructions(function) {
        if i.is_invalid() {
            break;
        }
        if stores_eight(&i) && is_target(&i, offset, &holders) {
            found.push(i.ip());
        }
        follow(&i, offset, &mut holders);
    }
    found
}

fn displacement(i: &Instruction) -> i64 {
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a displacement is signed by definition"
    )]
    let displacement = i.memory_displacement64() as i64;
    displacement
}

fn is_frame(register: Register) -> bool {
    matches!(register, Register::RBP | Register::RSP)
}

/// A plain store or exchange of eight bytes with memory.
fn stores_eight(i: &Instruction) -> bool {
    let is_store = matches!(i.mnemonic(), Mnemonic::Mov | Mnemonic::Xchg);
    is_store && i.op0_kind() == OpKind::Memory && i.memory_size().size() == 8
}

fn is_target(i: &Instruction, offset: i64, holders: &BTreeMap<Holder, ()>) -> bool {
    let base = i.memory_base();
    if i.memory_index() != Register::None || base == Register::None || base == Register::RIP {
        return false;
    }
    let is_direct = displacement(i) == offset && !is_frame(base);
    let through = Holder::Register(u32::try_from(base.number()).unwrap_or(u32::MAX));
    is_direct || (displacement(i) == 0 && !is_frame(base) && holders.contains_key(&through))
}

/// Keeps track of who holds the address `offset(register)`.
fn follow(i: &Instruction, offset: i64, holders: &mut BTreeMap<Holder, ()>) {
    let register = |r: Register| {
        let full = r.full_register();
        let number = u32::try_from(full.number()).unwrap_or(u32::MAX);
        full.is_gpr64().then_some(Holder::Register(number))
    };
    let slot = || {
        let plain = i.memory_index() == Register::None && i.memory_base() == Register::RBP;
        plain.then(|| Holder::Slot(displacement(i)))
    };
    let is_move = i.mnemonic() == Mnemonic::Mov;
    if is_move && i.op0_kind() == OpKind::Memory {
        let from = (i.op1_kind() == OpKind::Register).then(|| register(i.op1_register()));
        let holds = from.flatten().is_some_and(|r| holders.contains_key(&r));
        match (slot(), holds) {
            (Some(slot), true) => drop(holders.insert(slot, ())),
            (Some(slot), false) => drop(holders.remove(&slot)),
            (None, _) => {}
        }
        return;
    }
    if i.op_count() == 0 || i.op0_kind() != OpKind::Register {
        return;
    }
    let Some(target) = register(i.op0_register()) else {
        return;
    };
    let makes = i.mnemonic() == Mnemonic::Lea
        && displacement(i) == offset
        && i.memory_index() == Register::None
        && !is_frame(i.memory_base())
        && !i.is_ip_rel_memory_operand();
    let source = match (is_move, i.op_count() > 1) {
        (true, true) if i.op1_kind() == OpKind::Memory => slot(),
        (true, true) if i.op1_kind() == OpKind::Register => register(i.op1_register()),
        _ => None,
    };
    let copies = source.is_some_and(|from| holders.contains_key(&from));
    let only_reads = matches!(
        i.mnemonic(),
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push
    );
    if makes || copies {
        holders.insert(target, ());
    } else if !only_reads {
        holders.remove(&target);
    }
}

/// What was decoded of MariaDB's group commit (10.5 to 11.x).
#[derive(Debug, Clone)]
pub struct MariadbRedo {
    /// The function that waits; number, durable, callback.
    pub wait: Function,
    /// The function that a thread enters to wait or to lead; lock, number.
    pub acquire: Function,
    /// The function in which a leader tells how far it came; lock, number.
    pub release: Function,
    /// Address of the lock of what is written.
    pub write_lock: u64,
    /// Address of the lock of what is flushed.
    pub flush_lock: u64,
    /// In a lock: how far it came.
    pub value: i64,
}

/// Decodes MariaDB's group commit; `binary` was opened with [`wanted`].
///
/// # Errors
/// Something does not come out in one way; says what.
pub fn mariadb(program: &Program, binary: &Binary) -> Result<MariadbRedo, String> {
    let begin = WAIT_BEGIN.iter().find_map(|name| binary.function(name));
    let begin = begin.ok_or("thd_wait_begin is not exported")?;
    let mut found = callers::callers(binary, &[begin.address]).map_err(|e| e.to_string())?;
    found.retain(|f| {
        let calls = callers::calls(f, begin.address);
        let is_ours = |at: &u64| mark::constant_type(f, *at) == Some(WAIT_GROUP_COMMIT);
        calls.iter().any(is_ours)
    });
    let acquire = only(found, "functions that announce a wait for a group commit")?;
    let value = {
        let found = trace(&acquire);
        let read = found.direct(0, 8).find(|a| a.reads && !a.writes);
        read.ok_or("acquire reads no number of its lock")?
            .address
            .offset
    };
    let mut waits = callers::callers(binary, &[acquire.address]).map_err(|e| e.to_string())?;
    // Others take both locks to keep everybody out, each in one place.
    waits.retain(|f| which(f, &acquire).is_some());
    let wait = only(waits, "functions that acquire one of both locks or both")?;
    let wait = program
        .starting_at(wait.address)
        .map_err(|e| e.to_string())?;
    let calls = lock_calls(&wait);
    let found = which(&wait, &acquire);
    let (write_lock, flush_lock) = found.ok_or("the two locks cannot be told apart")?;
    let locks = BTreeSet::from([write_lock, flush_lock]);
    let release = release(program, &calls, &locks, &acquire, value)?;
    Ok(MariadbRedo {
        wait,
        acquire,
        release,
        write_lock,
        flush_lock,
        value,
    })
}

fn only(mut found: Vec<Function>, what: &str) -> Result<Function, String> {
    let count = found.len();
    match (found.pop(), count) {
        (Some(only), 1) => Ok(only),
        _ => Err(format!("{count} {what}")),
    }
}

/// Calls of a function with the address of an object as first argument: target and object. Which
/// register holds which object is known from one `lea` each.
fn lock_calls(function: &Function) -> Vec<(u64, u64)> {
    let mut objects: BTreeMap<Register, u64> = BTreeMap::new();
    let mut first = None;
    let mut calls = Vec::new();
    for i in instructions(function) {
        let to_first = i.op_count() > 0
            && i.op0_kind() == OpKind::Register
            && i.op0_register().full_register() == Register::RDI;
        if i.mnemonic() == Mnemonic::Lea && i.is_ip_rel_memory_operand() {
            if to_first {
                first = Some(i.memory_displacement64());
            } else {
                objects.insert(i.op0_register(), i.memory_displacement64());
            }
        } else if to_first {
            let is_move = i.mnemonic() == Mnemonic::Mov && i.op1_kind() == OpKind::Register;
            let object = || objects.get(&i.op1_register()).copied();
            first = is_move.then(object).flatten();
        }
        if i.code() == Code::Call_rel32_64 {
            calls.extend(first.take().map(|object| (i.near_branch_target(), object)));
        } else if !matches!(i.flow_control(), FlowControl::Next) {
            first = None;
        }
    }
    calls
}

/// The function that is called with each of the locks, and stores at the number's place.
fn release(
    program: &Program,
    calls: &[(u64, u64)],
    locks: &BTreeSet<u64>,
    acquire: &Function,
    value: i64,
) -> Result<Function, String> {
    let mut by_target: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (target, lock) in calls.iter().filter(|(_, lock)| locks.contains(lock)) {
        by_target.entry(*target).or_default().insert(*lock);
    }
    by_target.retain(|target, with| *target != acquire.address && with == locks);
    let found = by_target.into_keys().filter_map(|target| {
        let function = program.starting_at(target).ok()?;
        let found = trace(&function);
        let stores = found
            .direct(0, 8)
            .any(|a| a.writes && a.address.offset == value);
        stores.then_some(function)
    });
    only(found.collect(), "functions that release both locks")
}

/// Which lock is which: the write lock is acquired on two ways, to the disk and not, the flush lock
/// only for the disk. Returns the write lock first; `None` if it is not so.
fn which(wait: &Function, acquire: &Function) -> Option<(u64, u64)> {
    let calls = lock_calls(wait).into_iter();
    let acquired = calls.filter(|(target, _)| *target == acquire.address);
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, lock) in acquired {
        *times.entry(lock).or_default() += 1;
    }
    let times: Vec<(u64, usize)> = times.into_iter().collect();
    match times[..] {
        [(write, 2), (flush, 1)] | [(flush, 1), (write, 2)] => Some((write, flush)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(code: &[u8]) -> Function {
        Function {
            name: "f".into(),
            address: 0x1000,
            file_offset: 0,
            code: code.to_vec(),
        }
    }

    #[test]
    fn a_store_through_the_stack_is_found() {
        // lea 0x1c0(%rbx),%rax; mov %rax,-0x78(%rbp); xor %eax,%eax; mov %r15,%rcx
        // mov -0x78(%rbp),%rax; xchg %rcx,(%rax); ret
        let code = [
            0x48, 0x8d, 0x83, 0xc0, 1, 0, 0, 0x48, 0x89, 0x45, 0x88, 0x31, 0xc0, 0x4c, 0x89, 0xf9,
            0x48, 0x8b, 0x45, 0x88, 0x48, 0x87, 0x08, 0xc3,
        ];
        assert_eq!(stores(&function(&code), 0x1c0), [0x1014]);
        assert_eq!(stores(&function(&code), 0x1c8), [0u64; 0]);
        // Without the reload, the register holds something else.
        let mut other = code.to_vec();
        other.drain(16..20);
        assert_eq!(stores(&function(&other), 0x1c0), [0u64; 0]);
    }

    #[test]
    fn a_direct_store_is_found_and_a_read_is_not() {
        // mov 0x300(%rbx),%rax; mov %rax,0x300(%rbx); mov %rax,0x300(%rbp)
        let code = [
            0x48, 0x8b, 0x83, 0, 3, 0, 0, 0x48, 0x89, 0x83, 0, 3, 0, 0, 0x48, 0x89, 0x85, 0, 3, 0,
            0,
        ];
        assert_eq!(stores(&function(&code), 0x300), [0x1007]);
    }
}
