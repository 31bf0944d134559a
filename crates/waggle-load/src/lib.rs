//! Load: Lua workloads on LuaJIT, one state and its own connections for each worker.
//!
//! The question this crate answers: how many statements and transactions does a server carry, and
//! with what latency, under a workload that somebody wrote as a script? Scripts see the sysbench
//! API (`sysbench.opt`, `sysbench.rand`, `sysbench.sql`, ...); this crate brings its own prelude
//! and its own workloads.
//!
//! Neighbours: `waggle-wire` speaks to the server, `waggle-stats` holds the histograms; the
//! `bench` verb and the lab drive a [`Load`].
//!
//! Map, from the script down: [`Script`] (where the text comes from), `state` (a Lua state),
//! `api` (the functions a script reaches through the FFI), `context` (what one worker owns),
//! [`driver`] (the seam to a database); beside it `gate` (start, pause, stop), `tally` (counters
//! of one worker, in `recorder`s), `pace` (when events of an open loop are due), `workers` (as
//! threads, or as fibers of a few threads: `fiber`) and [`Load`] (all of them), which is read
//! through [`Snapshot`]s. [`apart`] runs all of it in another process, where this one has rights
//! ([`rights`]) that scripts must not have.
//!
//! Invariants: a worker's counters have one writer and no lock; [`Load::pause`] returns only when
//! no statement is in flight; nothing here waits for a server without a limit.

pub mod apart;
mod api;
mod barrier;
mod clock;
mod command;
mod context;
mod described;
pub mod driver;
mod error;
mod face;
mod fiber;
mod gate;
mod load;
mod options;
mod pace;
mod prelude;
mod rand;
mod recorder;
pub mod rights;
mod running;
mod script;
mod snapshot;
mod spec;
mod state;
mod tally;
#[cfg(test)]
mod tests;
mod workers;

pub use command::{
    Progress, check, checks, cleanup, command, commands, prepare, process_id, run_command,
};
pub use error::{LoadError, WorkerError};
pub use face::{Check, CommandInfo, ReportStat, ScriptFace};
pub use load::{LoadReport, LoadState};
pub use options::{DeclaredOption, OptionKind, OptionValue};
pub use running::Load;
pub use script::{BUILTIN_WORKLOADS, Script};
pub use snapshot::{ErrorCount, Offered, Operation, Snapshot, ThreadTotals};
pub use spec::{Dialect, IgnoreErrors, LoadSpec, LogSink, Overflow, WaitBy};
pub use tally::Counters;
