//! Where the server says that a thread waits, whom it waits for, or what it is about to do.
//!
//! Exported functions beside the statement's end: the wait marks for thread pools, the lock
//! reports of the storage engine, the redo and binary-log phases of a commit. Neighbours: [`site`]
//! finds the instruction, `waggle-probes` attaches there.
//!
//! Invariant: at the site every argument the hook names is still in a register, and the site runs
//! once a call.
//!
//! [`site`]: crate::site

use std::fmt;

use crate::elf::{Binary, Function};
use crate::site::{Register, Site, SiteError};

/// A function that is called at a moment worth knowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// `thd_wait_begin(THD *, int type)`: a wait begins. The `THD` may be null.
    WaitBegin,
    /// `thd_wait_end(THD *)`: it ended. The `THD` may be null.
    WaitEnd,
    /// `log_write_up_to(log_t &, lsn, bool flush)`: a thread needs redo written (MySQL only).
    RedoWrite,
    /// `MYSQL_BIN_LOG::ordered_commit(THD *, ...)`: argument 1 is the `THD` (MySQL only).
    BinlogCommit,
    /// `MYSQL_BIN_LOG::write_transaction_to_binlog_events(group_commit_entry *)`: queues for the
    /// group's commit, leads it or waits for its leader; argument 1 is the entry (MariaDB only).
    BinlogWrite,
    /// `thd_report_lock_wait(THD *self, THD *wait_for, bool)`: the engine's waits-for edge
    /// (MySQL only).
    LockReport,
    /// `thd_report_row_lock_wait(THD *self, THD *wait_for)`: the same on older MySQL; where both
    /// exist this one jumps to [`Self::LockReport`], so attach to only one.
    RowLockReport,
    /// `thd_rpl_deadlock_check(THD *self, THD *other)`: the same on MariaDB. Both may be null.
    ReplicationDeadlockCheck,
    /// `lock_notify_about_deadlock(vector<const trx_t *> &, const trx_t *victim)` (MySQL only).
    Deadlock,
    /// `MDL_wait::timed_wait(MDL_context_owner *, timespec *, ...)`: a metadata lock is waited
    /// for. Argument 1 is the `THD` plus [`owner_offset`], argument 4 the stage, whose name stands
    /// behind its first word: that of `GET_LOCK` is `User lock`.
    MetadataWait,
    /// A wait for a table's lock is called, found by [`Marks`](crate::Marks) (MySQL only; MariaDB
    /// marks them with [`Self::WaitBegin`]).
    TableWait,
    /// A statement within a routine ends, found by [`mark::routine_end`](crate::mark::routine_end):
    /// the call of `log_slow_applicable(THD *)`, which `log_slow_statement` makes for all others
    /// (MySQL only; MariaDB's routines end their statements in `log_slow_statement`).
    RoutineStatementEnd,
}

impl Hook {
    /// Every hook that is a function's entry.
    pub const ALL: [Self; 10] = [
        Self::WaitBegin,
        Self::WaitEnd,
        Self::RedoWrite,
        Self::BinlogCommit,
        Self::BinlogWrite,
        Self::LockReport,
        Self::RowLockReport,
        Self::ReplicationDeadlockCheck,
        Self::Deadlock,
        Self::MetadataWait,
    ];

    /// The function's name, without its arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitBegin => "thd_wait_begin",
            Self::WaitEnd => "thd_wait_end",
            Self::RedoWrite => "log_write_up_to",
            Self::BinlogCommit => "MYSQL_BIN_LOG::ordered_commit",
            Self::BinlogWrite => "MYSQL_BIN_LOG::write_transaction_to_binlog_events",
            Self::LockReport => "thd_report_lock_wait",
            Self::RowLockReport => "thd_report_row_lock_wait",
            Self::ReplicationDeadlockCheck => "thd_rpl_deadlock_check",
            Self::Deadlock => "lock_notify_about_deadlock",
            Self::MetadataWait => "MDL_wait::timed_wait",
            Self::TableWait => "thr_lock",
            Self::RoutineStatementEnd => "sp_instr_stmt::execute",
        }
    }

    /// The arguments that are in registers at the site, `this` counted: 0 is the first.
    pub fn arguments(self) -> &'static [u8] {
        match self {
            Self::RedoWrite | Self::TableWait => &[],
            Self::WaitEnd | Self::RoutineStatementEnd => &[0],
            Self::BinlogCommit | Self::BinlogWrite => &[1],
            Self::MetadataWait => &[0, 1, 4],
            Self::WaitBegin
            | Self::LockReport
            | Self::RowLockReport
            | Self::ReplicationDeadlockCheck
            | Self::Deadlock => &[0, 1],
        }
    }

    /// The exported name, as builds spell it: whole, or its beginning where the rest varies.
    fn symbols(self) -> &'static [&'static str] {
        match self {
            Self::WaitBegin => &["thd_wait_begin", "_Z14thd_wait_beginP3THDi"],
            Self::WaitEnd => &["thd_wait_end", "_Z12thd_wait_endP3THD"],
            Self::RedoWrite => &["_Z15log_write_up_toR5log_tm"],
            Self::BinlogCommit => &["_ZN13MYSQL_BIN_LOG14ordered_commitEP3THD"],
            Self::BinlogWrite => &["_ZN13MYSQL_BIN_LOG34write_transaction_to_binlog_eventsE"],
            Self::LockReport => &["thd_report_lock_wait", "_Z20thd_report_lock_waitP3THDS0_"],
            Self::RowLockReport => &[
                "thd_report_row_lock_wait",
                "_Z24thd_report_row_lock_waitP3THDS0_",
            ],
            Self::ReplicationDeadlockCheck => &["thd_rpl_deadlock_check"],
            Self::Deadlock => &["_Z26lock_notify_about_deadlockRK"],
            Self::MetadataWait => &["_ZN8MDL_wait10timed_waitEP17MDL_context_owner"],
            Self::TableWait | Self::RoutineStatementEnd => &[],
        }
    }

    /// Where to attach in `binary`.
    ///
    /// # Errors
    /// The build does not export the function, or no instruction of it holds every argument.
    pub fn find(self, binary: &Binary) -> Result<HookSite, HookError> {
        let function = self
            .function(binary)
            .ok_or(HookError::NotExported { hook: self })?;
        let (site, arguments) = Site::find_holding(&function, self.arguments())?;
        if self.is_bracket() && !site.is_before_stack_moves(&function) {
            return Err(HookError::StackMoved { hook: self });
        }
        Ok(HookSite {
            hook: self,
            site,
            arguments,
        })
    }

    /// True if the place of the return address has to be known at the site: that tells, later,
    /// whether the function has returned.
    fn is_bracket(self) -> bool {
        matches!(
            self,
            Self::RedoWrite | Self::BinlogCommit | Self::BinlogWrite
        )
    }

    fn function(self, binary: &Binary) -> Option<Function> {
        let mut symbols = self.symbols().iter();
        symbols.find_map(|symbol| {
            if symbol.starts_with("_Z") {
                binary.function_by_prefix(symbol)
            } else {
                binary.function(symbol)
            }
        })
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place to attach, and the registers that hold the hook's arguments there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSite {
    /// Which function.
    pub hook: Hook,
    /// Where; its `register` is that of the first of [`Hook::arguments`] (of argument 0 if the
    /// hook names none).
    pub site: Site,
    /// The register of each of [`Hook::arguments`], in that order.
    pub arguments: Vec<Register>,
}

/// Why a hook cannot be used in a build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// Another flavour, another version, or a build that hides it.
    #[error("this build does not export {hook}")]
    NotExported {
        /// The function.
        hook: Hook,
    },
    /// It is there, but at the only place its return address is not on top of the stack.
    #[error("{hook} moves its stack before the first place to attach")]
    StackMoved {
        /// The function.
        hook: Hook,
    },
    /// It is there, but offers no place.
    #[error(transparent)]
    Site(#[from] SiteError),
}

/// True for the functions that hooks need from a server binary.
pub fn wanted(name: &str) -> bool {
    let prefixed = |symbol: &&str| symbol.starts_with("_Z") && name.starts_with(symbol);
    Hook::ALL
        .iter()
        .flat_map(|hook| hook.symbols())
        .any(|symbol| name == *symbol || prefixed(symbol))
        || is_owner_thunk(name)
        || name == OWNER
}

/// `_ZThn<offset>_N3THD7get_thdEv`: adjusts an `MDL_context_owner` to the `THD` around it.
const OWNER_THUNK: (&str, &str) = ("_ZThn", "_N3THD7get_thdEv");
/// The function that the thunk jumps to, needed or not.
const OWNER: &str = "_ZN3THD7get_thdEv";

fn is_owner_thunk(name: &str) -> bool {
    name.starts_with(OWNER_THUNK.0) && name.ends_with(OWNER_THUNK.1)
}

/// How far behind the start of a `THD` its `MDL_context_owner` stands, bytes: what has to be
/// taken off [`Hook::MetadataWait`]'s argument 1 to have the `THD`.
///
/// 0 where `THD` begins with it. `None` if the build shows neither.
pub fn owner_offset(binary: &Binary) -> Option<u32> {
    let thunk = binary.function_by_prefix(OWNER_THUNK.0);
    match thunk.filter(|f| is_owner_thunk(&f.name)) {
        Some(thunk) => {
            let trace = crate::trace::trace(&thunk);
            let (rax, _) = trace.returns.first()?;
            let rax = rax.as_ref()?;
            let adjusted = rax.argument == 0 && rax.derefs.is_empty() && rax.offset <= 0;
            u32::try_from(rax.offset.checked_neg()?)
                .ok()
                .filter(|_| adjusted)
        }
        None => binary.function(OWNER).map(|_| 0),
    }
}
