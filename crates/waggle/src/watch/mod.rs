//! What are the servers of this host doing, statement by statement?
//!
//! Data flow: `waggle-agent` reads sources and makes views; [`session`] turns it, [`present`] shows
//! views as they come, [`report`] makes text and JSON of them. Neighbours: `waggle-agent` below,
//! which does the watching; `waggle lab` drives this verb by [`control`].
//!
//! Invariant: a server is only ever looked at. The probe goes with this process.

mod args;
mod burn;
mod control;
mod exports;
mod log;
mod present;
mod record;
mod report;
mod screen;
mod session;

pub(crate) use args::Args;

use anyhow::{Context, anyhow};
use waggle_agent::Access;
use waggle_agent::agent::{self, Agent};
use waggle_agent::aggregate;
use waggle_agent::source::Source;
use waggle_agent::source::packets::{PacketPlan, PacketSource};
use waggle_agent::source::perfschema::PerfschemaSource;
use waggle_agent::source::slowlog::SlowlogSource;
use waggle_server::discovery::Found;
use waggle_server::process::{self, NotAServer};
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use crate::cli::{Failure, Output};
use args::{Plan, SourceArg, Target};
use session::Session;

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    if plan.source == SourceArg::Uprobe && plan.target != Target::HostOnly {
        crate::preflight::can_trace()?;
    }
    let (servers, sandbox) = targets(&plan)?;
    let access = plan.dsn.clone().map(Access::from);
    let mut agent = Agent::new(settings(&plan, access.clone()));
    for server in servers {
        add(&mut agent, server, &plan, access.as_ref()).map_err(Failure::Unusable)?;
    }
    let needs_server = plan.target != Target::HostOnly;
    plan.exports
        .start(&mut agent, plan.interval, needs_server)
        .map_err(Failure::Unusable)?;
    let result = Session::new(plan, *out, agent)?.run();
    if let Some(sandbox) = sandbox {
        sandbox
            .stop()
            .context("stopping the throw-away server")
            .map_err(Failure::Ran)?;
    }
    result
}

fn settings(plan: &Plan, access: Option<Access>) -> agent::Settings {
    agent::Settings {
        follow: plan.target == Target::All,
        capture: !plan.control,
        probe: plan.probe,
        ring_bytes_further: plan.ring_bytes_further,
        aggregate: aggregate::Settings {
            samples: plan.samples,
            ..aggregate::Settings::default()
        },
        interval: plan.interval,
        host: !plan.control,
        access,
        limits: plan.limits,
    }
}

/// Opens the source that the plan names.
fn add(
    agent: &mut Agent,
    server: Found,
    plan: &Plan,
    access: Option<&Access>,
) -> anyhow::Result<()> {
    let source: Box<dyn Source> = match (plan.source, access, &plan.slow_log) {
        (SourceArg::Packets, ..) => {
            Box::new(PacketSource::open(&PacketPlan::of(server.process.pid))?)
        }
        (SourceArg::Perfschema, Some(access), _) => Box::new(PerfschemaSource::open(&access.dsn)?),
        (SourceArg::Slowlog, _, Some(path)) => Box::new(SlowlogSource::open(path)?),
        (SourceArg::Slowlog, Some(access), None) => {
            let pid = Some(server.process.pid);
            Box::new(SlowlogSource::of_server(access, pid)?)
        }
        // The plan names what each needs.
        _ => return agent.add(server),
    };
    agent.add_source(server, source)
}

/// The server with this process id.
fn server(pid: u32) -> Result<Found, Failure> {
    let refused = |error: NotAServer| {
        Failure::unusable(anyhow!(
            "{error}; `waggle doctor` lists the servers that run"
        ))
    };
    process::from_pid(pid).map_err(refused)?;
    let gone = || refused(NotAServer::NoSuchProcess(pid));
    agent::found(pid).ok_or_else(gone)
}

fn targets(plan: &Plan) -> Result<(Vec<Found>, Option<Sandbox>), Failure> {
    match &plan.target {
        Target::Pids(pids) => {
            let servers: Result<_, _> = pids.iter().map(|pid| server(*pid)).collect();
            Ok((servers?, None))
        }
        Target::All => {
            // The agent finds them, those that run and those that come.
            if process::find_servers().is_empty() {
                eprintln!("no MySQL or MariaDB server runs on this host yet; waiting for one");
            }
            Ok((Vec::new(), None))
        }
        Target::HostOnly => Ok((Vec::new(), None)),
        Target::Sandbox(flavour) => {
            let sandbox = Sandbox::start(&SandboxSpec::new(*flavour))
                .map_err(|error| Failure::unusable(anyhow::Error::from(error)))?;
            eprintln!("throw-away server: --dsn '{}'", sandbox.dsn_socket());
            Ok((vec![server(sandbox.pid())?], Some(sandbox)))
        }
    }
}
