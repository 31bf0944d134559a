//! `waggle watch` as a process of its own, switched by the lab.
//!
//! It is the very program an operator would run, so its CPU and memory are its own and are read
//! from outside.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

/// How long an order may take: loading a probe takes a second, on a busy machine some.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end, and how often that is looked for.
const END_PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

/// The observing process.
#[derive(Debug)]
pub(crate) struct Control {
    child: Child,
    orders: ChildStdin,
    /// Its lines, read by a thread: one that is stuck must not hold up the lab.
    answers: Receiver<String>,
}

/// The counters in an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Statements captured.
    pub(crate) captured: u64,
    /// Statements lost, by cause.
    pub(crate) lost: BTreeMap<String, u64>,
}

impl Control {
    /// Starts it for the server `pid` with further flags; nothing is attached yet.
    pub(crate) fn start(pid: u32, args: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(program)
            .args(["watch", "--control", "--pid"])
            .arg(pid.to_string())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal is for the lab, which ends what it started.
            .process_group(0)
            .spawn()
            .context("starting waggle watch")?;
        let orders = child
            .stdin
            .take()
            .context("waggle watch has no standard input")?;
        let stdout = child
            .stdout
            .take()
            .context("waggle watch has no standard output")?;
        let (tell, answers) = channel();
        // It ends with the process, whose output it reads.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        let mut control = Self {
            child,
            orders,
            answers,
        };
        control
            .order("status")
            .context("waggle watch does not answer; try it by hand")?;
        Ok(control)
    }

    /// Gives an order and waits until it is carried out; one that does not answer is killed.
    pub(crate) fn order(&mut self, order: &str) -> anyhow::Result<Counts> {
        writeln!(self.orders, "{order}").and_then(|()| self.orders.flush())?;
        let line = match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => bail!("waggle watch ended"),
            Err(RecvTimeoutError::Timeout) => {
                // With the process the kernel removes its probe.
                self.child.kill().ok();
                let seconds = PATIENCE.as_secs();
                bail!("waggle watch did not {order} within {seconds} s, and was killed");
            }
        };
        let answer: Value = serde_json::from_str(&line).context("waggle watch answered")?;
        if answer["ok"] != Value::Bool(true) {
            bail!("waggle watch could not {order}: {}", answer["error"]);
        }
        let lost = answer["lost"].as_object().into_iter().flatten();
        Ok(Counts {
            captured: answer["captured"].as_u64().unwrap_or(0),
            lost: lost
                .filter_map(|(cause, count)| Some((cause.clone(), count.as_u64()?)))
                .collect(),
        })
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It ends on the order, and also when its standard input is closed; killed, the kernel
        // removes its probe.
        let told = writeln!(self.orders, "quit").and_then(|()| self.orders.flush());
        let deadline = Instant::now() + END_PATIENCE;
        while told.is_ok() && self.is_running() && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
