//! What can be done on this machine, and why not the rest?
//!
//! Data flow: `waggle-probes` says what the kernel allows, `waggle-server` which servers there are,
//! the probe's fit what each program file offers; the [`verdict`] is drawn from both, and
//! [`text`] or JSON printed. This verb only gathers and prints.
//!
//! Invariant: nothing is attached to a server, nothing is changed, nothing stays behind.

mod args;
mod servers;
mod text;
mod verdict;

pub(crate) use args::Args;

use std::io::{ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;
use waggle_probes::capability::Kernel;
use waggle_report::host::HostFacts;

use crate::cli::{Failure, Output};
use servers::{Server, Unreadable};
use verdict::Verdict;

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Report {
    can_watch: Verdict,
    host: HostFacts,
    kernel: Kernel,
    servers: Vec<Server>,
    /// Processes named like servers that this user may not look into.
    unreadable: Vec<Unreadable>,
}

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    let kernel = Kernel::gather();
    let servers = servers::gather(plan.given);
    let unreadable = servers::unreadable();
    let can_watch = Verdict::of(&kernel, &servers, &unreadable);
    let report = Report {
        can_watch,
        host: HostFacts::gather(),
        kernel,
        servers,
        unreadable,
    };
    let printed = if out.json {
        out.json(&report)
    } else {
        std::io::stdout()
            .lock()
            .write_all(text::render(&report).as_bytes())
    };
    match printed {
        // The reader has seen enough (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed
            .context("writing the report to standard output")
            .map_err(Failure::Ran),
    }
}
