//! What are the servers of this host doing, statement by statement?
//!
//! Data flow: probe -> ring buffer -> [`watched`] -> digests -> [`report`]. One thread polls every
//! ring buffer some fifty times a second; the kernel half never wakes it. Neighbours: the probe
//! and its fit come from `waggle-probes`, the servers from `waggle-server`, fingerprints from
//! `waggle-digest`.
//!
//! Invariant: a server is only ever looked at. The probe goes with this process.

mod agent;
mod args;
mod control;
mod digests;
mod log;
mod report;
mod trust;
mod watched;

pub(crate) use args::Args;

use anyhow::{Context, anyhow};
use waggle_server::process::{self, ServerProcess};
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use crate::cli::{Failure, Output};
use agent::Agent;
use args::{Plan, Target};

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    crate::preflight::can_trace()?;
    let (servers, sandbox) = targets(&plan)?;
    let mut agent = Agent::new(plan, *out)?;
    for server in servers {
        agent.add(server)?;
    }
    let result = agent.run();
    if let Some(sandbox) = sandbox {
        sandbox
            .stop()
            .context("stopping the throw-away server")
            .map_err(Failure::Ran)?;
    }
    result
}

fn targets(plan: &Plan) -> Result<(Vec<ServerProcess>, Option<Sandbox>), Failure> {
    match plan.target {
        Target::Pid(pid) => {
            let server = process::from_pid(pid).map_err(|error| {
                Failure::unusable(anyhow!(
                    "{error}; `waggle doctor` lists the servers that run"
                ))
            })?;
            Ok((vec![server], None))
        }
        Target::All => {
            let found = process::find_servers();
            if found.is_empty() {
                eprintln!("no MySQL or MariaDB server runs on this host yet; waiting for one");
            }
            Ok((found, None))
        }
        Target::Sandbox(flavour) => {
            let sandbox = Sandbox::start(&SandboxSpec::new(flavour))
                .map_err(|error| Failure::unusable(anyhow::Error::from(error)))?;
            eprintln!("throw-away server: --dsn '{}'", sandbox.dsn_socket());
            let server = process::from_pid(sandbox.pid()).map_err(Failure::ran)?;
            Ok((vec![server], Some(sandbox)))
        }
    }
}
