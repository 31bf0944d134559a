//! The processes that are profiled: by their ids, servers by their addresses, or a command that is
//! started for it.
//!
//! Invariant: a command that was started does not outlive the profile that was asked for, nor an
//! error; nor does what is below it then.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use waggle_foreign::read_proc;
use waggle_profile::descendants;
use waggle_server::process::find_servers;

use super::args::Target;
use crate::cli::Failure;
use crate::profiling::server;

/// Holds a command back until it is told to begin. If nobody is there to tell it, it never does.
const HOLD: &str = r#"read -r _ <"$1" || exit 125; shift; exec "$@""#;
/// A command has so long to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes that are there.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) pids: Vec<u32>,
    /// It is ours, and ends with us.
    command: Option<Started>,
}

impl Processes {
    /// Finds them, or starts the command, which waits until [`Self::go`]. With `json`, standard
    /// output is not the command's.
    ///
    /// # Errors
    /// There is no such process, or the command cannot be started; exit code 2.
    pub(super) fn find(target: &Target, json: bool) -> Result<Self, Failure> {
        let mut command = None;
        let pids = match target {
            Target::Pids(pids) => pids.clone(),
            Target::Dsn(dsn) => vec![server::pid_of(dsn).map_err(Failure::Unusable)?],
            Target::All => {
                let pids = find_servers().into_iter().map(|server| server.pid);
                // One that has ended since is left out.
                let pids: Vec<u32> = pids.filter(|pid| check(*pid).is_ok()).collect();
                if pids.is_empty() {
                    let text = "no MySQL or MariaDB server runs on this host, or none can be seen";
                    return Err(Failure::unusable(anyhow!(text)));
                }
                pids
            }
            Target::Command(words) => {
                let started = Started::new(words, json).map_err(Failure::Unusable)?;
                let pid = started.child.id();
                command = Some(started);
                vec![pid]
            }
        };
        if !matches!(target, Target::All) {
            pids.iter().try_for_each(|pid| check(*pid))?;
        }
        Ok(Self { pids, command })
    }

    /// Lets the command begin.
    ///
    /// # Errors
    /// It has ended already.
    pub(super) fn go(&mut self) -> Result<(), Failure> {
        self.command.as_mut().map_or(Ok(()), Started::go)
    }

    /// Forgets those that have ended; true if some have, and some are left.
    pub(super) fn part(&mut self) -> bool {
        let before = self.pids.len();
        self.pids.retain(|pid| is_alive(*pid));
        self.pids.len() < before && !self.pids.is_empty()
    }

    /// True as long as one of them runs.
    pub(super) fn are_alive(&mut self) -> bool {
        match &mut self.command {
            Some(command) => command.is_alive(),
            None => self.pids.iter().any(|pid| is_alive(*pid)),
        }
    }

    /// How the command failed, if it has ended.
    pub(super) fn failure(&mut self) -> Option<String> {
        let command = self.command.as_mut()?;
        let status = command.child.try_wait().ok()??;
        (!status.success()).then(|| format!("the command failed: {status}"))
    }

    /// Ends the command, if it has not ended, and what it started.
    pub(super) fn end(self) {
        drop(self);
    }

    /// True if a command was started.
    pub(super) fn is_command(&self) -> bool {
        self.command.is_some()
    }
}

/// A command of ours.
#[derive(Debug)]
struct Started {
    child: Child,
    /// A line in it lets the command begin; the command opens it by its path.
    gate: Option<(PipeReader, PipeWriter)>,
}

impl Started {
    /// Starts it, held back, so that what it does is seen from the beginning.
    fn new(words: &[String], json: bool) -> anyhow::Result<Self> {
        let program = words.first().context("no command")?;
        if !is_found(program) {
            let text = format!("starting {program}: it is not there, or not on the PATH");
            return Err(anyhow!(text));
        }
        // Both ends close on exec, so that the command has neither.
        let gate = io::pipe().context("a pipe")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), gate.0.as_raw_fd());
        let mut command = Command::new("sh");
        command.args(["-c", HOLD, "sh", &path]).args(words);
        if json {
            command.stdout(io::stderr());
        }
        let child = command
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        Ok(Self {
            child,
            gate: Some(gate),
        })
    }

    fn go(&mut self) -> Result<(), Failure> {
        // It stays open: the command may not have opened its end yet.
        let gate = self.gate.as_mut();
        let told = gate.map_or(Ok(()), |(_, gate)| gate.write_all(b"\n"));
        told.context("telling the command to begin")
            .map_err(Failure::Ran)
    }

    /// It, and all that it started and that can be told by being below it.
    fn tree(&self) -> Vec<OwnedFd> {
        let own = self.child.id();
        let pids = std::iter::once(own).chain(descendants(own));
        let opened = pids.filter_map(|pid| {
            let pid = Pid::from_raw(pid.cast_signed())?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        });
        opened.collect()
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn end(&mut self) {
        // One that is still held back ends with its gate.
        self.gate = None;
        let mut tree = self.tree();
        send(&tree, Signal::TERM);
        let began = Instant::now();
        while (self.is_alive() || !have_ended(&tree)) && began.elapsed() < PATIENCE {
            // sleep: the ends of several processes are looked for at intervals.
            std::thread::sleep(Duration::from_millis(10));
        }
        if self.is_alive() {
            // What it has started since.
            tree.extend(self.tree());
        }
        send(&tree, Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.is_alive() {
            self.end();
        }
    }
}

fn send(tree: &[OwnedFd], signal: Signal) {
    for process in tree {
        // One that has ended gets none.
        let _ = pidfd_send_signal(process, signal);
    }
}

fn have_ended(tree: &[OwnedFd]) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    tree.iter().all(|process| {
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        poll(&mut ended, Some(&at_once)).is_ok_and(|count| count > 0)
    })
}

/// True if a shell would find the program.
fn is_found(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn check(pid: u32) -> Result<(), Failure> {
    let status = read_proc(format!("/proc/{pid}/status"))
        .map_err(|_| Failure::unusable(anyhow!("there is no process {pid}")))?;
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let leader: Option<u32> = leader.and_then(|number| number.trim().parse().ok());
    if let Some(leader) = leader.filter(|leader| *leader != pid) {
        let text = format!("{pid} is a thread of process {leader}, not a process; use {leader}");
        return Err(Failure::unusable(anyhow!(text)));
    }
    if fs::read_link(format!("/proc/{pid}/exe")).is_err() {
        let text = format!("process {pid} has no program of its own: it is the kernel's, or ended");
        return Err(Failure::unusable(anyhow!(text)));
    }
    Ok(())
}

/// An ended process that nobody waited for has no program any more.
fn is_alive(pid: u32) -> bool {
    let state = read_proc(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = state.rsplit_once(')');
    let state = state.and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some(state) if !matches!(state, 'Z' | 'X'))
}
