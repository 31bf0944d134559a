//! MariaDB's group commit (`group_commit_lock`): which functions wait, lead and tell, and where are
//! its two locks?
//!
//! Neighbours: `callers` finds calls in functions without a name, `mark` the type of a wait.
//! Invariant: a step that leads to more than one function leads nowhere, and the reason is told.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Code, FlowControl, Mnemonic, OpKind, Register};

use super::first_read;
use crate::boundary::instructions;
use crate::callers;
use crate::elf::{Binary, Function};
use crate::function::Program;
use crate::mark;
use crate::trace::trace;

const WAIT_BEGIN: [&str; 2] = ["thd_wait_begin", "_Z14thd_wait_beginP3THDi"];
/// The type that a wait for the redo log is announced with.
const WAIT_GROUP_COMMIT: u32 = 9;

/// True for the functions that [`mariadb()`] looks for with [`Binary::open`].
pub fn wanted(name: &str) -> bool {
    WAIT_BEGIN.contains(&name)
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
    let value = first_read(&acquire).ok_or("acquire reads no number of its lock")?;
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
