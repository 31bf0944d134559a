//! `waggle server`: throw-away servers from the command line.
//!
//! `args` makes a plan; `up` starts a server through `waggle_server::sandbox` and holds it until a
//! signal or its end (`hold`); `down` and `list` go by the registry that all processes of a user
//! share. Invariant: standard output carries only facts about servers; everything else goes to
//! standard error.

mod args;
mod hold;

use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use serde::Serialize;
use waggle_server::sandbox::registry::{self, ServerEntry};
use waggle_server::sandbox::{STOP_PATIENCE, Sandbox, SandboxError, ServerExit};
use waggle_server::topology::{Replica, TopologyError};

pub(crate) use args::Args;

use crate::cli::{Failure, Output};
use args::{Plan, UpPlan};
use hold::Held;

/// Does what the arguments of `waggle server` say.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    match args.plan()? {
        Plan::Up(plan) => up(&plan, out),
        Plan::Down(servers) => down(&servers, out),
        Plan::List => list(out),
    }
}

/// What `server up --json` prints.
#[derive(Serialize)]
struct Started<'a> {
    #[serde(flatten)]
    server: &'a ServerEntry,
    /// How long it took until the server answered.
    start_s: f64,
    /// Settings that the server changed rather than refuse, in its own words.
    settings_adjusted: Vec<String>,
}

fn up(plan: &UpPlan, out: &Output) -> Result<(), Failure> {
    let begin = Instant::now();
    let spec = &plan.spec;
    let sandbox = match &plan.primary {
        None => {
            eprintln!("starting {} ...", spec.flavour);
            Sandbox::start(spec).map_err(failure)?
        }
        Some(primary) => {
            eprintln!(
                "starting {}, a replica of {} ...",
                spec.flavour, primary.name
            );
            let replica = Replica::of_running(spec, primary).map_err(no_replica)?;
            replica.into_sandbox()
        }
    };
    let start_s = begin.elapsed().as_secs_f64();
    let settings_adjusted = sandbox.settings_adjusted();
    if plan.detach {
        let server = sandbox.detach().map_err(failure)?;
        print_started(
            &Started {
                server: &server,
                start_s,
                settings_adjusted,
            },
            out,
        )?;
        eprintln!("`waggle server down {}` stops it", server.name);
        return Ok(());
    }
    print_started(
        &Started {
            server: sandbox.entry(),
            start_s,
            settings_adjusted,
        },
        out,
    )?;
    eprintln!("Ctrl-C stops it and removes all of it");
    hold_until_the_end(sandbox)
}

fn print_started(started: &Started<'_>, out: &Output) -> Result<(), Failure> {
    for words in &started.settings_adjusted {
        eprintln!("the server says: {words}");
    }
    printed(if out.json {
        out.json(started)
    } else {
        print_facts(started)
    })
}

fn print_facts(started: &Started<'_>) -> io::Result<()> {
    let server = started.server;
    let mut stdout = io::stdout().lock();
    writeln!(
        stdout,
        "{} {} {} answers after {:.2} s",
        server.flavour, server.version, server.name, started.start_s
    )?;
    if let Some(primary) = &server.replica_of {
        writeln!(stdout, "  primary  {primary}")?;
    }
    writeln!(stdout, "  dsn      {}", server.dsn)?;
    writeln!(stdout, "  socket   {}", server.socket.display())?;
    if let Some(port) = server.port {
        writeln!(stdout, "  port     {port}")?;
    }
    writeln!(stdout, "  pid      {}", server.pid)?;
    writeln!(stdout, "  datadir  {}", server.datadir.display())?;
    writeln!(stdout, "  log      {}", server.log.display())?;
    stdout.flush()
}

fn hold_until_the_end(mut sandbox: Sandbox) -> Result<(), Failure> {
    let held = hold::hold(&sandbox)
        .context("cannot wait for signals")
        .map_err(Failure::ran)?;
    if held == Held::Signal {
        eprintln!("stopping {} ...", sandbox.name());
    } else if sandbox.ended(Duration::ZERO).map_err(failure)? == Some(ServerExit::Code(0)) {
        eprintln!("{} was shut down by somebody else", sandbox.name());
    }
    // Of a server that failed, this tells what its log says.
    sandbox.stop().map_err(Failure::ran)
}

/// What `server down --json` prints.
#[derive(Serialize)]
struct Stopped<'a> {
    stopped: Vec<StoppedServer<'a>>,
}

#[derive(Serialize)]
struct StoppedServer<'a> {
    name: &'a str,
    /// It did not shut down when asked to, and was killed.
    killed: bool,
}

fn down(servers: &[ServerEntry], out: &Output) -> Result<(), Failure> {
    let mut stopped = Vec::new();
    let mut failed = None;
    for server in servers {
        eprintln!("stopping {} ...", server.name);
        match server.stop(STOP_PATIENCE) {
            Ok(killed) => stopped.push(StoppedServer {
                name: &server.name,
                killed,
            }),
            // It ended by itself meanwhile, which is what was asked for.
            Err(SandboxError::NoSuchName { .. }) => {
                stopped.push(StoppedServer {
                    name: &server.name,
                    killed: false,
                });
            }
            Err(error) => failed = Some(error),
        }
    }
    if out.json {
        printed(out.json(&Stopped { stopped }))?;
    } else {
        for server in &stopped {
            let how = if server.killed {
                "killed: it did not shut down"
            } else {
                "stopped"
            };
            printed(writeln!(io::stdout(), "{} {how}", server.name))?;
        }
        if servers.is_empty() {
            eprintln!("no throw-away server is running");
        }
    }
    failed.map_or(Ok(()), |error| Err(Failure::ran(error)))
}

/// What `server list --json` prints.
#[derive(Serialize)]
struct Listed {
    servers: Vec<ServerEntry>,
}

fn list(out: &Output) -> Result<(), Failure> {
    let servers = registry::list();
    if out.json {
        return printed(out.json(&Listed { servers }));
    }
    if servers.is_empty() {
        eprintln!("no throw-away server is running");
        return Ok(());
    }
    printed(print_table(&servers))
}

fn print_table(servers: &[ServerEntry]) -> io::Result<()> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let has_replicas = servers.iter().any(|server| server.replica_of.is_some());
    let mut head = vec!["NAME", "VERSION", "PID", "UP", "ENDS WITH"];
    head.extend(has_replicas.then_some("REPLICA OF"));
    head.push("DSN");
    let head: Vec<String> = head.into_iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(servers.iter().map(|server| {
            let mut row = vec![
                server.name.clone(),
                server.version.clone(),
                server.pid.to_string(),
                span(now.saturating_sub(server.started_unix_s)),
                server
                    .owner_pid
                    .map_or("server down".into(), |pid| format!("process {pid}")),
            ];
            if has_replicas {
                row.push(server.replica_of.clone().unwrap_or_default());
            }
            row.push(server.dsn.clone());
            row
        }))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut stdout = io::stdout().lock();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        writeln!(
            stdout,
            "{}",
            cells.collect::<Vec<_>>().join("  ").trim_end()
        )?;
    }
    stdout.flush()
}

/// A time in its two largest units.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A server that could not be had: exit code 2 if the request was at fault, else 1.
fn failure(error: SandboxError) -> Failure {
    if error.is_unusable() {
        Failure::unusable(error)
    } else {
        Failure::ran(error)
    }
}

/// The same of a replica.
fn no_replica(error: TopologyError) -> Failure {
    if error.is_unusable() {
        Failure::unusable(error)
    } else {
        Failure::ran(error)
    }
}

fn printed(result: io::Result<()>) -> Result<(), Failure> {
    result
        .context("cannot write to standard output")
        .map_err(Failure::ran)
}
