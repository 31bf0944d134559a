//! The flags of the study, and the plan they are checked into.
//!
//! Neighbours: [`super`] carries the plan out. Invariant: the time it may take says how large the
//! study is, unless a flag does.

use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::anyhow;

use super::cells::{Agent, Condition, Scale};
use crate::cli::Failure;
use crate::lab::study::Common;

/// LinkBench with PERFORMANCE_SCHEMA and an agent, as in Percona's benchmark of VividCortex's
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle lab study vividcortex --quick                  all of it in 15 minutes
  waggle lab study vividcortex                          intervals of 10 s, 6 hours
  waggle lab study vividcortex --quick --agent uprobe   the probe in place of packets
  waggle lab study vividcortex --workload cpu --budget 10m

Needs root.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,

    /// The agent: decodes packets, as the original did, or probes the server
    #[arg(long, value_enum, default_value_t = Agent::Packets)]
    agent: Agent,

    /// Measure under this limit only; repeat for several [default: all]
    #[arg(long = "workload", value_enum)]
    workloads: Vec<Condition>,

    /// Connections [default: 4 a processor]
    #[arg(long)]
    threads: Option<u32>,

    /// Nodes of the graph [default: 1,000,000; with --quick 35,000]
    #[arg(long)]
    nodes: Option<u64>,

    /// Processors for server and agent where they are few [default: 4, half of them if there are
    /// fewer than 8]
    #[arg(long)]
    cpus: Option<u32>,

    /// MiB a second that the disk may read, and write, where it is the limit
    #[arg(long, value_name = "MIB", default_value_t = 48)]
    io_limit: u64,

    /// Seconds of an interval [default: 10; with --quick 0.4]
    #[arg(long, value_name = "SECONDS")]
    interval: Option<f64>,
}

/// A quick study, as a whole.
const QUICK: Duration = Duration::from_secs(870);
/// A full one: 24 combinations of workload, load and what is on, a quarter of an hour each.
const FULL: Duration = Duration::from_secs(6 * 3600);
/// Below this, everything is as small as it gets.
const SMALL: Duration = Duration::from_secs(120);

/// What the study was asked to do, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) common: Common,
    pub(super) workloads: Vec<Condition>,
    pub(super) agent: Agent,
    pub(super) budget: Duration,
    pub(super) scale: Scale,
    pub(super) cpus: u32,
    pub(super) io_bytes_per_s: u64,
}

fn unusable<T>(message: String) -> Result<T, Failure> {
    Err(Failure::unusable(anyhow!(message)))
}

impl Args {
    pub(in crate::lab::study) fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let processors = available_parallelism().map_or(1, |count| count.get() as u32);
        let budget = match (self.common.budget, self.common.quick) {
            (Some(budget), _) => budget,
            (None, true) => QUICK,
            (None, false) => FULL,
        };
        let threads = self.threads.unwrap_or(4 * processors);
        let mut scale = match budget {
            budget if budget < SMALL => Scale::tiny(),
            budget if budget < FULL / 6 => Scale::quick(threads),
            _ => Scale::full(threads),
        };
        scale.threads = self.threads.unwrap_or(scale.threads);
        scale.nodes = self.nodes.unwrap_or(scale.nodes);
        if let Some(seconds) = self.interval {
            if !(0.05..=600.0).contains(&seconds) {
                return unusable(format!("--interval {seconds}: use 0.05 to 600 seconds"));
            }
            scale.window = Duration::from_secs_f64(seconds);
            scale.io.window = scale.window;
        }
        if !(1..=10_000).contains(&scale.threads) || !(100..=1_000_000_000).contains(&scale.nodes) {
            return unusable("--threads: use 1 to 10000; --nodes: 100 to 1000000000".to_owned());
        }
        let cpus = self.cpus.unwrap_or(match processors {
            8.. => 4,
            _ => (processors / 2).max(1),
        });
        if !(1..=processors).contains(&cpus) {
            return unusable(format!("--cpus {cpus}: this machine has {processors}"));
        }
        if !(1..=1 << 20).contains(&self.io_limit) {
            return unusable(format!(
                "--io-limit {}: use 1 to 1048576 MiB",
                self.io_limit
            ));
        }
        let mut workloads = Condition::ALL.to_vec();
        workloads.retain(|one| self.workloads.is_empty() || self.workloads.contains(one));
        Ok(Plan {
            common: self.common,
            workloads,
            agent: self.agent,
            budget,
            scale,
            cpus,
            io_bytes_per_s: self.io_limit << 20,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(words: &[&str]) -> Result<Plan, String> {
        let line = ["study"].iter().chain(words);
        let args = Line::try_parse_from(line)
            .map_err(|error| error.to_string())?
            .args;
        args.plan().map_err(|failure| match failure {
            Failure::Unusable(error) | Failure::Ran(error) => error.to_string(),
        })
    }

    #[test]
    fn how_long_it_may_take_says_how_large_it_is() {
        let quick = plan(&["--quick"]).expect("a plan");
        assert!(quick.budget <= Duration::from_secs(15 * 60));
        assert_eq!(quick.scale.lives, Scale::quick(1).lives);
        let full = plan(&[]).expect("a plan");
        assert_eq!(full.scale.window, Duration::from_secs(10));
        let tiny = plan(&["--budget", "60"]).expect("a plan");
        assert_eq!(tiny.scale, Scale::tiny());
        let own = plan(&[
            "--quick",
            "--nodes",
            "1000",
            "--interval",
            "2",
            "--threads",
            "3",
        ]);
        let own = own.expect("a plan").scale;
        assert_eq!((own.nodes, own.threads), (1000, 3));
        assert_eq!(own.window, Duration::from_secs(2));
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_opened() {
        for (words, wanted) in [
            (&["--budget", "3"][..], "a study needs at least 15 s"),
            (&["--budget", "31d"], "a study takes 30d at most"),
            (&["--cpus", "0"], "--cpus 0: this machine has"),
            (&["--cpus", "100000"], "--cpus 100000: this machine has"),
            (
                &["--interval", "0"],
                "--interval 0: use 0.05 to 600 seconds",
            ),
            (&["--io-limit", "0"], "--io-limit 0: use 1 to"),
            (&["--nodes", "5"], "--nodes: 100 to"),
            (&["--agent", "magic"], "invalid value 'magic'"),
        ] {
            let error = plan(words).expect_err(wanted);
            assert!(error.contains(wanted), "{error}");
        }
        let one = plan(&["--workload", "io"]).expect("a plan");
        assert_eq!(one.workloads, [Condition::Io]);
    }
}
