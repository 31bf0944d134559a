//! Orders `waggle watch --control` about, as the lab does.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::waggle::{Running, Waggle};

/// An observer that obeys.
#[derive(Debug)]
pub struct Control {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    running: Running,
}

impl Control {
    /// Starts one for the server `pid`; nothing is attached yet.
    ///
    /// # Errors
    /// It does not start, or does not answer.
    pub fn start(waggle: &Waggle, pid: u32) -> anyhow::Result<Self> {
        let pid = pid.to_string();
        let mut running = waggle.start(&["watch", "--control", "--pid", &pid])?;
        let orders = running.child.stdin.take().context("a pipe")?;
        let answers = running.child.stdout.take().context("a pipe")?;
        let mut control = Self {
            orders,
            answers: BufReader::new(answers),
            running,
        };
        control.order("status")?;
        Ok(control)
    }

    /// Gives an order and returns the answer: the counters when it had been carried out.
    ///
    /// # Errors
    /// The order was refused, or the observer ended.
    pub fn order(&mut self, order: &str) -> anyhow::Result<Value> {
        writeln!(self.orders, "{order}")?;
        self.orders.flush()?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("waggle watch (process {}) ended", self.running.pid());
        }
        let answer: Value = serde_json::from_str(&line).context("what waggle watch answered")?;
        if answer["ok"] != Value::Bool(true) {
            bail!("waggle watch could not {order}: {}", answer["error"]);
        }
        Ok(answer)
    }
}
