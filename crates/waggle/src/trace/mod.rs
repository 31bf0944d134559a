//! What was a wait made of, who held what, where does a function's time go, who waits for whom?
//!
//! A subject is a module: [`pipeline`] breaks waits down into stages that other threads carried
//! out, [`latch`] names latches and their holders, [`func`] says where calls spend their time,
//! [`waits`] who waits for whom. [`args`] has what all subjects share, [`slices`] says which part
//! of the time is traced, [`target`] finds the processes, [`session`] says when to stop, keeps the
//! run directory and decides the exit code. The arithmetic is `waggle-trace`.
//!
//! Invariant: a process is only ever looked at; its probes go with this process.

mod args;
mod func;
mod latch;
mod pipeline;
mod session;
mod slices;
mod target;
mod waits;

use clap::Subcommand;

use crate::cli::{Failure, Output};
use crate::rights::Needs;

/// Explain waits by what other threads did meanwhile: stages, latches, functions, wake-ups.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    Func(Box<func::Args>),
    Latch(Box<latch::Args>),
    Pipeline(Box<pipeline::Args>),
    Waits(Box<waits::Args>),
}

impl Args {
    /// See [`args::CommonArgs::needs`].
    pub(crate) fn needs(&self) -> Needs {
        match &self.subject {
            Subject::Func(args) => args.common.needs(),
            Subject::Latch(args) => args.common.needs(),
            Subject::Pipeline(args) => args.common.needs(),
            Subject::Waits(args) => args.common.needs(),
        }
    }
}

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    match args.subject {
        Subject::Func(args) => func::run(*args, out),
        Subject::Latch(args) => latch::run(*args, out),
        Subject::Pipeline(args) => pipeline::run(*args, out),
        Subject::Waits(args) => waits::run(*args, out),
    }
}
