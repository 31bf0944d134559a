//! `waggle watch` as a process of its own, switched by the lab.
//!
//! It is the very program an operator would run, so its CPU and memory are its own and are read
//! from outside.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// The observing process.
#[derive(Debug)]
pub(super) struct Observer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The counters in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Statements captured.
    pub(super) captured: u64,
    /// Statements lost to a full ring buffer.
    pub(super) ring_full: u64,
}

impl Observer {
    /// Starts it for the server `pid`; nothing is attached yet.
    pub(super) fn start(pid: u32) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(program)
            .args(["watch", "--control", "--pid"])
            .arg(pid.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting waggle watch")?;
        let orders = child
            .stdin
            .take()
            .context("waggle watch has no standard input")?;
        let answers = child
            .stdout
            .take()
            .context("waggle watch has no standard output")?;
        let mut observer = Self {
            child,
            orders,
            answers: BufReader::new(answers),
        };
        observer
            .order("status")
            .context("waggle watch does not answer; try it by hand")?;
        Ok(observer)
    }

    /// Gives an order and waits until it is carried out.
    pub(super) fn order(&mut self, order: &str) -> anyhow::Result<Counts> {
        writeln!(self.orders, "{order}").and_then(|()| self.orders.flush())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("waggle watch ended");
        }
        let answer: Value = serde_json::from_str(&line).context("waggle watch answered")?;
        if answer["ok"] != Value::Bool(true) {
            bail!("waggle watch could not {order}: {}", answer["error"]);
        }
        let count = |name: &str| answer[name].as_u64().unwrap_or(0);
        Ok(Counts {
            captured: count("captured"),
            ring_full: count("ring_full"),
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // It ends on the order, and also when its standard input is closed; killed, the kernel
        // removes its probe.
        let told = writeln!(self.orders, "quit").and_then(|()| self.orders.flush());
        if told.is_err() {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}
