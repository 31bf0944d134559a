//! A block of one server: its load is started, runs, and is measured.
//!
//! Neighbours: the subject above puts configurations in place and says what it means when the
//! server was lost meanwhile. Invariant: after a block that was measured the load stands still.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde_json::json;
use waggle_load::{Load, LoadState};
use waggle_server::cpu;

use super::ServerSubject;
use crate::interrupt;
use crate::tune::subject::{BlockValue, Objective, TrialError};

/// How long a load may take to come to a stop at the end of a block.
const PAUSE_PATIENCE: Duration = Duration::from_secs(30);
/// How long a load may take to end.
const STOP_GRACE: Duration = Duration::from_secs(5);

impl ServerSubject {
    /// Starts a load that stands still, if there is none.
    pub(super) fn start_load(&mut self) -> Result<(), TrialError> {
        if self.load.is_some() {
            return Ok(());
        }
        // Other values in every block, the same in every run.
        let seed = self.setup.seed.wrapping_add(self.loads);
        self.loads += 1;
        let dsn = self.life()?.sandbox.dsn_socket();
        let mut spec = self.setup.load_spec(dsn, seed);
        spec.stop_grace = STOP_GRACE;
        match Load::start(&spec) {
            Ok(load) => {
                self.load = Some(load);
                Ok(())
            }
            Err(error) => {
                let words = format!("the load did not start: {error}");
                match self.lost(anyhow!(error).context("starting the load")) {
                    // Such as too few connections: the value's doing.
                    TrialError::Broken(_) if self.life.is_some() => {
                        Err(TrialError::Refused { why: words })
                    }
                    other => Err(other),
                }
            }
        }
    }

    /// Lets the load run; `Err` when it ended or the server did.
    pub(super) fn run_for(&mut self, time: Duration) -> Result<(), TrialError> {
        let state = match &self.load {
            Some(load) => load.wait(time),
            None => LoadState::Ended,
        };
        if state == LoadState::Active {
            return Ok(());
        }
        let failure = self.load.take().and_then(|load| load.finish().1);
        let words = match failure {
            Some(error) => error.to_string(),
            None => "it had nothing more to do".to_owned(),
        };
        match self.lost(anyhow!("the load ended during a block: {words}")) {
            TrialError::Broken(_) if self.life.is_some() => Err(TrialError::Refused {
                why: format!("the load ended: {words}"),
            }),
            other => Err(other),
        }
    }

    /// A window of so many seconds under the load, which is paused after it.
    pub(super) fn measure(&mut self, seconds: f64) -> Result<BlockValue, TrialError> {
        let pid = self.life()?.sandbox.pid();
        let broken = |what: &str| TrialError::Broken(anyhow!("{what}"));
        let load = self.load.as_ref().ok_or_else(|| broken("no load"))?;
        drop(load.take_latency());
        let (before, cpu_before, begun) = (load.counters(), cpu_ns(pid), Instant::now());
        self.run_for(Duration::from_secs_f64(seconds))?;
        let load = self.load.as_ref().ok_or_else(|| broken("no load"))?;
        let counted = load.counters().since(&before);
        let (cpu_after, seconds) = (cpu_ns(pid), begun.elapsed().as_secs_f64());
        let latency = load.take_latency();
        let example = load.snapshot().errors.into_values().next();
        let memory = cpu::process_rss_bytes(pid).ok();
        if !interrupt::hold(load, PAUSE_PATIENCE) {
            self.load = None;
            let limit = PAUSE_PATIENCE.as_secs();
            return Err(TrialError::Refused {
                why: format!("a statement was not answered within {limit} s"),
            });
        }
        if counted.transactions == 0 && counted.errors > 0 {
            let example = example.map(|error| error.example).unwrap_or_default();
            return Err(TrialError::Refused {
                why: format!("every transaction failed: {example}"),
            });
        }
        let cpu_ns = cpu_before
            .zip(cpu_after)
            .map(|(from, to)| to.saturating_sub(from));
        let p99_us = (!latency.is_empty()).then(|| latency.quantile_us(0.99));
        let per_statement = |ns: u64| ns as f64 / 1e3 / counted.queries.max(1) as f64;
        let objective = match self.setup.objective {
            Objective::Qps => counted.queries as f64 / seconds,
            // Nothing ended: the response time is the window's length, or more.
            Objective::P99AtRate(_) => p99_us.unwrap_or(seconds * 1e6),
            Objective::CpuPerStatement => match cpu_ns {
                Some(ns) => per_statement(ns),
                None => return Err(broken("the server's CPU clock cannot be read")),
            },
            Objective::Tps | Objective::ReplicaApplyRate => counted.transactions as f64 / seconds,
        };
        let guards = [
            ("p99", p99_us),
            ("errors", Some(counted.errors as f64 / seconds)),
            ("memory", memory.map(|bytes| bytes as f64)),
        ];
        Ok(BlockValue {
            objective,
            unit: self.setup.objective.unit(),
            guards: guards
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            seconds,
            details: json!({
                "transactions": counted.transactions,
                "statements": counted.queries,
                "errors": counted.errors,
                "server_cpu_ns": cpu_ns,
                "latency_us_p50": (!latency.is_empty()).then(|| latency.quantile_us(0.5)),
                "latency_us_p99": p99_us,
                "rss_bytes": memory,
            }),
        })
    }
}

fn cpu_ns(pid: u32) -> Option<u64> {
    cpu::process_cpu_ns(pid).ok()
}
