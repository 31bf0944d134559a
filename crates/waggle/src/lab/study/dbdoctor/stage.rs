//! The server that scene C's programs and the agent's own cost are measured on.
//!
//! One server with one table, shared by all conditions of both, and loads that come and go on it.
//! The agent is the real one, `waggle watch` with an operator's flags ([`Watcher`]).
//!
//! Invariant: what was executed while an agent watched is known exactly, since the load stands
//! still while the agent comes and goes.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use waggle_load::{Load, LoadSpec, LoadState, Script};
use waggle_report::lab::LabServer;
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_stats::arrivals::{Arrivals, Spacing, Stage as RateStage};
use waggle_stats::compare::{CONFIDENCE, Estimate, Interval, series_mean};

use super::AgentKind;
use crate::experiment::rest;
use crate::interrupt::Interrupt;
use crate::lab::study::watcher::Watcher;

/// How long a load may take to come to a stop.
const PAUSE_PATIENCE: Duration = Duration::from_secs(30);

/// What a stage is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct StagePlan {
    pub(super) flavour: Flavour,
    pub(super) agent: AgentKind,
    /// Rows of the one table.
    pub(super) table_size: u64,
    pub(super) seed: u64,
}

/// The server, filled, and what it takes to load it.
pub(super) struct Stage<'a> {
    plan: StagePlan,
    server: Sandbox,
    script: Script,
    interrupt: &'a Interrupt,
}

/// How finely a condition is looked at: so many slices of this length, each one measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slices {
    pub(super) count: usize,
    pub(super) length: Duration,
    /// Before the first.
    pub(super) settle: Duration,
}

/// What the agent used under one condition.
#[derive(Debug, Clone)]
pub(super) struct Used {
    /// Cores, a value a slice.
    cores: Vec<f64>,
    /// Largest resident set, bytes.
    pub(super) rss_bytes: u64,
    /// Statements a second over the slices; `None` without a load.
    pub(super) statements_per_s: Option<f64>,
    /// From the agent's begin to its end.
    pub(super) executed: Option<u64>,
    /// What the agent reported at its end.
    pub(super) report: Value,
}

impl<'a> Stage<'a> {
    /// Starts and fills a server.
    pub(super) fn start(plan: StagePlan, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let server = Sandbox::start(&SandboxSpec::new(plan.flavour))?;
        let script = Script::open("oltp_point_select")?;
        let stage = Self {
            plan,
            server,
            script,
            interrupt,
        };
        waggle_load::prepare(&stage.load_spec(1), |_| {}).context("preparing the workload")?;
        Ok(stage)
    }

    /// The server's process.
    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The server as a report names it.
    pub(super) fn server(&self) -> LabServer {
        let process = waggle_server::process::from_pid(self.pid()).ok();
        LabServer {
            flavour: match self.flavour() {
                Flavour::MySql => "MySQL".to_owned(),
                Flavour::MariaDb => "MariaDB".to_owned(),
            },
            version: self.server.version().to_owned(),
            build_id: process.and_then(|process| process.build_id),
            ..LabServer::default()
        }
    }

    /// Which server it is.
    pub(super) fn flavour(&self) -> Flavour {
        self.plan.flavour
    }

    /// Ends the server.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.server.stop().context("stopping the server")
    }

    fn load_spec(&self, threads: u32) -> LoadSpec {
        // Packets are what the network carries.
        let dsn = match self.plan.agent {
            AgentKind::Uprobe => self.server.dsn_socket(),
            AgentKind::Packets => self.server.dsn(),
        };
        let mut spec = LoadSpec::new(dsn, self.script.clone());
        spec.threads = threads;
        spec.seed = self.plan.seed;
        spec.start_paused = true;
        spec.options = BTreeMap::from([
            ("tables".to_owned(), "1".to_owned()),
            ("table-size".to_owned(), self.plan.table_size.to_string()),
        ]);
        spec
    }

    /// Point selects on so many connections, at a rate or as fast as answers come; standing still.
    pub(super) fn load(&self, threads: u32, rate: Option<f64>) -> anyhow::Result<Load> {
        let mut spec = self.load_spec(threads);
        spec.arrivals = rate.map(|rate| Arrivals {
            stages: vec![RateStage {
                duration_s: 1.0,
                from: rate,
                to: rate,
            }],
            spacing: Spacing::Poisson,
        });
        Load::start(&spec).context("starting the load")
    }

    /// The arguments of a watch of these servers.
    pub(super) fn watch_arguments(&self, pids: &[u32]) -> Vec<String> {
        let mut arguments: Vec<String> = pids
            .iter()
            .flat_map(|pid| ["--pid".to_owned(), pid.to_string()])
            .collect();
        if self.plan.agent == AgentKind::Packets {
            arguments.extend(["--source", "packets"].map(str::to_owned));
        }
        // A view a second, as each slice is one: no slice has none, none has two.
        arguments.extend(["--interval", "1"].map(str::to_owned));
        arguments
    }

    /// Lets an agent with these arguments watch `servers` servers while the load runs.
    pub(super) fn used(
        &self,
        arguments: &[String],
        servers: usize,
        load: Option<&Load>,
        slices: Slices,
    ) -> anyhow::Result<Used> {
        let executed_before = load.map(|load| load.counters().queries);
        let watcher = Watcher::start(arguments, servers)?;
        if let Some(load) = load {
            load.resume();
        }
        let sampled = self.slices(&watcher, load, slices);
        if let Some(load) = load {
            self.still(load)?;
        }
        let executed = load.map(|load| load.counters().queries);
        let (cores, rss_bytes, statements_per_s) = sampled?;
        Ok(Used {
            cores,
            rss_bytes,
            statements_per_s,
            executed: executed.zip(executed_before).map(|(now, then)| now - then),
            report: watcher.end()?,
        })
    }

    fn slices(
        &self,
        watcher: &Watcher,
        load: Option<&Load>,
        slices: Slices,
    ) -> anyhow::Result<(Vec<f64>, u64, Option<f64>)> {
        self.pause(slices.settle)?;
        let queries = || load.map(|load| load.counters().queries);
        let (begun, queries_before) = (Instant::now(), queries());
        let (mut cores, mut rss) = (Vec::with_capacity(slices.count), 0);
        let (mut at, mut cpu) = (begun, watcher.cpu_ns()?);
        for _ in 0..slices.count {
            self.pause(slices.length)?;
            let (now, cpu_now) = (Instant::now(), watcher.cpu_ns()?);
            cores.push((cpu_now - cpu) as f64 / 1e9 / (now - at).as_secs_f64());
            rss = rss.max(watcher.rss_bytes());
            (at, cpu) = (now, cpu_now);
        }
        if load.is_some_and(|load| load.state() != LoadState::Active) {
            bail!("the load ended");
        }
        let seconds = (at - begun).as_secs_f64();
        let per_s = queries()
            .zip(queries_before)
            .map(|(now, then)| (now - then) as f64 / seconds);
        Ok((cores, rss, per_s))
    }

    /// Brings the load to rest, and the server to be done with it.
    pub(super) fn still(&self, load: &Load) -> anyhow::Result<()> {
        if !load.pause_within(PAUSE_PATIENCE) {
            bail!("the load did not come to a stop");
        }
        rest(self.pid());
        Ok(())
    }

    /// Lets time pass.
    pub(super) fn pause(&self, length: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + length;
        loop {
            if self.interrupt.requested() {
                bail!("interrupted; the figures are of what was measured until then");
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

impl Used {
    /// Cores the agent used, with a 95% interval over slices.
    pub(super) fn cores(&self) -> Option<Interval> {
        over_slices(&self.cores)
    }

    /// The same with its error, for a line through several conditions.
    pub(super) fn cores_estimate(&self) -> Option<Estimate> {
        estimate_over(&self.cores)
    }

    /// CPU of the agent for one statement, us.
    pub(super) fn us_per_statement(&self) -> Option<Interval> {
        let per_s = self.statements_per_s.filter(|per_s| *per_s > 0.0)?;
        Some(self.cores()?.map(|cores| cores * 1e6 / per_s))
    }

    /// Statements captured.
    pub(super) fn captured(&self) -> u64 {
        self.report["captured"].as_u64().unwrap_or(0)
    }

    /// Statements lost, and what was left out of captured ones: cause and count, those that came.
    pub(super) fn counted(&self, what: &str) -> Vec<(String, u64)> {
        let causes = self.report[what].as_object().into_iter().flatten();
        causes
            .filter_map(|(cause, count)| Some((cause.clone(), count.as_u64()?)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// Mean of slices in time order, with its error; neighbours that resemble each other widen it.
/// Nothing is trimmed: what an agent uses in bursts, it uses.
pub(super) fn estimate_over(values: &[f64]) -> Option<Estimate> {
    series_mean(values).ok()
}

/// The same as a 95% interval.
pub(super) fn over_slices(values: &[f64]) -> Option<Interval> {
    estimate_over(values).map(|estimate| estimate.interval(CONFIDENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_resemble_their_neighbours_widen_the_interval() {
        let apart = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
        let alike = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
        let (apart, alike) = (over_slices(&apart), over_slices(&alike));
        let (apart, alike) = (apart.expect("it"), alike.expect("it"));
        assert!(alike.half_width() > 1.2 * apart.half_width());
        assert!((apart.estimate - 1.5).abs() < 1e-12 && apart.n == 8);
        assert_eq!(over_slices(&[1.0]), None);
    }
}
