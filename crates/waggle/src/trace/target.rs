//! The process that is traced: any program by its id, a server by its address, or a throw-away one.
//!
//! Invariant: nothing is sent to a server that is named by its address; which process listens there
//! is read from the kernel's tables.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use waggle_foreign::{Printable, read_proc};
use waggle_report::trace::Traced;
use waggle_server::discovery::{Discovery, Found};
use waggle_server::process::{self, ServerProcess};
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Dsn, Endpoint};

use super::args::Target;
use crate::cli::Failure;

/// A process that is there.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// What it is, if it is a server.
    pub(super) server: Option<ServerProcess>,
    /// It is ours, and ends with us.
    sandbox: Option<Sandbox>,
}

impl Process {
    /// Finds it, or starts it.
    ///
    /// # Errors
    /// There is no such process, or none at that address, or several; exit code 2.
    pub(super) fn find(target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Pid(pid) => Self::of_pid(*pid, None),
            Target::Dsn(dsn) => Self::of_pid(listener(dsn)?, None),
            Target::Sandbox(flavour) => {
                let sandbox = Sandbox::start(&SandboxSpec::new(*flavour))
                    .map_err(|error| Failure::unusable(anyhow::Error::from(error)))?;
                eprintln!("throw-away server: --dsn '{}'", sandbox.dsn_socket());
                Self::of_pid(sandbox.pid(), Some(sandbox))
            }
        }
    }

    fn of_pid(pid: u32, sandbox: Option<Sandbox>) -> Result<Self, Failure> {
        let status = read_proc(format!("/proc/{pid}/status"))
            .map_err(|_| Failure::unusable(anyhow!("there is no process {pid}")))?;
        let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let leader: Option<u32> = leader.and_then(|number| number.trim().parse().ok());
        if let Some(leader) = leader.filter(|leader| *leader != pid) {
            return Err(Failure::unusable(anyhow!(
                "{pid} is a thread of process {leader}, not a process; use {leader}"
            )));
        }
        Ok(Self {
            pid,
            server: process::from_pid(pid).ok(),
            sandbox,
        })
    }

    /// How the documents name it.
    pub(super) fn traced(&self) -> Traced {
        let name = read_proc(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        let server = self.server.as_ref();
        Traced {
            pid: self.pid,
            program: Printable::of(name.trim()).into_string(),
            flavour: server.map(|server| server.flavour.to_string()),
            version: server.and_then(|server| server.version.clone()),
            build_id: server.and_then(|server| server.build_id.clone()),
        }
    }

    /// What it is, in a few words: `MySQL 9.7.4 (process 4711)`.
    pub(super) fn words(&self) -> String {
        let traced = self.traced();
        let name = traced.flavour.unwrap_or(traced.program);
        let version = traced.version.unwrap_or_default();
        let space = if version.is_empty() { "" } else { " " };
        format!("{name}{space}{version} (process {})", self.pid)
    }

    /// True as long as it runs. An ended process that nobody waited for has no program any more.
    pub(super) fn is_alive(&self) -> bool {
        let state = read_proc(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = state
            .rsplit_once(')')
            .map(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, Some(Some(state)) if !matches!(state, 'Z' | 'X'))
    }

    /// Ends it if it is ours.
    pub(super) fn stop(self) -> Result<(), Failure> {
        let Some(sandbox) = self.sandbox else {
            return Ok(());
        };
        sandbox
            .stop()
            .context("stopping the throw-away server")
            .map_err(Failure::Ran)
    }
}

/// The process that listens at an address of this host.
fn listener(dsn: &Dsn) -> Result<u32, Failure> {
    let mut discovery = Discovery::new();
    discovery.poll();
    let mut pids: Vec<u32> = discovery
        .servers()
        .filter(|found| listens(found, &dsn.endpoint))
        .map(|found| found.process.pid)
        .collect();
    pids.sort_unstable();
    match pids[..] {
        [pid] => Ok(pid),
        [] => Err(Failure::unusable(anyhow!(
            "no server of this host listens at {}; tracing looks at processes of this host: name \
             one with --pid (`waggle doctor` lists the servers that run)",
            dsn.endpoint
        ))),
        _ => Err(Failure::unusable(anyhow!(
            "several servers may be meant by {}: processes {pids:?}; name one with --pid",
            dsn.endpoint
        ))),
    }
}

fn listens(found: &Found, endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Socket(path) => {
            let theirs = found.instance.socket.as_deref();
            theirs.is_some_and(|theirs| is_same_socket(found, theirs, path))
        }
        Endpoint::Tcp { host, port } => {
            if found.instance.port != Some(*port) || found.whereabouts.foreign_network {
                return false;
            }
            let asked: Vec<IpAddr> = (host.as_str(), *port)
                .to_socket_addrs()
                .map(|addresses| addresses.map(|address| address.ip()).collect())
                .unwrap_or_default();
            let bound = found.instance.address;
            bound.is_none_or(|bound| bound.is_unspecified() || asked.contains(&bound))
        }
    }
}

/// The same file, whatever the roots of the two processes.
fn is_same_socket(found: &Found, theirs: &Path, ours: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let seen = PathBuf::from(format!("/proc/{}/root", found.process.pid));
    let theirs = seen.join(theirs.strip_prefix("/").unwrap_or(theirs));
    match (fs::metadata(theirs), fs::metadata(ours)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
