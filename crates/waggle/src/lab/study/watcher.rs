//! `waggle watch` as a process of its own, measured from outside.
//!
//! The very program an operator would run, with the flags he would give: its CPU time and memory
//! are the kernel's account of that process, what it saw is its own report. Neighbour:
//! `lab::arm::control`, which switches a watch on and off in windows; here it runs on and is itself
//! what is measured.
//!
//! Invariant: the process is gone when its value is.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde_json::Value;
use waggle_server::cpu;

/// How long it may take until it watches, or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the end of the process is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// The process.
#[derive(Debug)]
pub(super) struct Watcher {
    child: Child,
    news: Receiver<String>,
    output: Option<JoinHandle<String>>,
    told: Vec<String>,
}

impl Watcher {
    /// Starts `waggle watch` with these arguments and waits until it watches so many servers.
    ///
    /// # Errors
    /// It cannot be started, or does not watch them; its own words are in the error.
    pub(super) fn start(arguments: &[String], servers: usize) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        // SAFETY: between fork and exec there is one system call, which allocates nothing.
        unsafe {
            command.pre_exec(|| {
                // In a group of its own it is out of the terminal's reach: with the lab it goes.
                Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
            });
        }
        let mut child = command
            .args(["watch", "--json"])
            .args(arguments)
            .env_remove("WAGGLE_DSN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for the lab, which ends what it started.
            .process_group(0)
            .spawn()
            .context("starting waggle watch")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (sender, news) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr?).lines().map_while(Result::ok) {
                sender.send(line).ok()?;
            }
            Some(())
        });
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut stdout) = stdout {
                stdout.read_to_string(&mut text).ok();
            }
            text
        });
        let mut watcher = Self {
            child,
            news,
            output: Some(output),
            told: Vec::new(),
        };
        watcher.wait_for(servers)?;
        Ok(watcher)
    }

    fn wait_for(&mut self, servers: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut watching = 0;
        while watching < servers {
            match self
                .news
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    watching += usize::from(line.starts_with("watching "));
                    self.told.push(line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("waggle watch does not watch: {}", self.told.join("; "))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("waggle watch ended: {}", self.told.join("; "))
                }
            }
        }
        Ok(())
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time it has used, ns.
    pub(super) fn cpu_ns(&self) -> anyhow::Result<u64> {
        cpu::process_cpu_ns(self.pid()).context("reading the CPU clock of waggle watch")
    }

    /// Memory it has resident now, bytes.
    pub(super) fn rss_bytes(&self) -> u64 {
        cpu::process_rss_bytes(self.pid()).unwrap_or(0)
    }

    /// Ends it as Ctrl-C does; its report.
    ///
    /// # Errors
    /// It does not end, or its report is none.
    pub(super) fn end(mut self) -> anyhow::Result<Value> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.context("waggle watch has no process id")?;
        kill_process(pid, Signal::INT).context("ending waggle watch")?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("waggle watch does not end");
            }
            std::thread::sleep(LOOK);
        }
        let output = self.output.take().and_then(|reader| reader.join().ok());
        let output = output.unwrap_or_default();
        self.told.extend(self.news.try_iter());
        serde_json::from_str(&output)
            .with_context(|| format!("waggle watch's report; it said: {}", self.told.join("; ")))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Both are harmless for one that has ended. Killed, the kernel removes its probes.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
