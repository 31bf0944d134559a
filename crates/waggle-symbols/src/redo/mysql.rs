//! MySQL's redo log (`log_t`): which function writes, which flushes, and where is it told how far?
//!
//! Neighbour: `stores` finds the stores in a function. Invariant: every number comes out in exactly
//! one way, or the reason is told.

use std::collections::BTreeSet;

use iced_x86::{Code, Instruction, OpKind, Register};

use super::first_read;
use super::stores::{displacement, is_frame, stores};
use crate::boundary::{behind, instructions};
use crate::elf::Function;
use crate::function::Program;
use crate::site::Site;

const LOG_SYS: &str = "log_sys";
const WRITE_UP_TO: &str = "_Z15log_write_up_toR5log_tmb";
const WRITER: &str = "_Z10log_writerP5log_t";
const FLUSHER: &str = "_Z11log_flusherP5log_t";
const WRITE_NOTIFIER: &str = "_Z18log_write_notifierP5log_t";
const FLUSH_NOTIFIER: &str = "_Z18log_flush_notifierP5log_t";

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
    let write_lsn = told(&function(WRITE_NOTIFIER)?)?;
    let flushed_lsn = told(&function(FLUSH_NOTIFIER)?)?;
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

/// Where the number stands that a notifier tells of.
fn told(notifier: &Function) -> Result<i64, String> {
    let read = first_read(notifier);
    read.ok_or_else(|| format!("{} reads no number of the log", notifier.name))
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
