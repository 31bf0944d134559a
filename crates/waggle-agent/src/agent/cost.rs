//! What does watching cost? The agent's own CPU and memory, and a statement's share in the server.
//!
//! The server's share is a trap, timed once on the agent itself, and the mean run time of the
//! kernel half, from a short sample of the kernel's own counters.

use std::time::{Duration, Instant};

use waggle_probes::kernel::RunTimeStats;
use waggle_server::cpu;

use super::followed::Followed;
use crate::statement::ServerId;
use crate::view::OwnView;

/// How long the kernel's run-time counters are held at most, once, to learn the program's cost:
/// while they are, every program costs a little more.
const SAMPLE_MAX: Duration = Duration::from_secs(10);
/// Runs that make a mean.
const RUNS: u64 = 2000;
/// Runs that make one if no more come.
const RUNS_MIN: u64 = 50;

/// What is known of the cost.
#[derive(Debug, Default)]
pub(super) struct Cost {
    trap_ns: Option<f64>,
    program_ns: Option<f64>,
    sample: Option<Sample>,
    /// A sample was begun; there is one only, as the right to it may be given up.
    is_begun: bool,
}

/// A sample that is being taken.
#[derive(Debug)]
struct Sample {
    _stats: RunTimeStats,
    server: ServerId,
    before: (u64, u64),
    until: Instant,
}

impl Cost {
    /// Times a trap, once.
    pub(super) fn measure_trap(&mut self, server: &mut Followed) {
        if self.trap_ns.is_none()
            && let Some(probe) = server.probe()
        {
            self.trap_ns = probe.measure_trap_ns();
        }
    }

    /// Begins the sample, on a server whose probe is in place.
    pub(super) fn begin(&mut self, server: &mut Followed) {
        if self.is_begun {
            return;
        }
        let id = server.id;
        let Some(probe) = server.probe().filter(|probe| probe.is_attached()) else {
            return;
        };
        self.is_begun = true;
        // A kernel that does not count run time, or not for us, leaves the cost unknown.
        let stats = RunTimeStats::hold().ok();
        self.sample = stats.zip(probe.run_time()).map(|(stats, before)| Sample {
            _stats: stats,
            server: id,
            before,
            until: Instant::now() + SAMPLE_MAX,
        });
    }

    /// Ends the sample, if it is time to.
    pub(super) fn turn(&mut self, servers: &mut [Followed], now: Instant) {
        let Some(sample) = &self.sample else {
            return;
        };
        let after = servers
            .iter_mut()
            .find(|s| s.id == sample.server)
            .and_then(|s| s.probe()?.run_time());
        let (runs, ns) = sample.before;
        let (runs, ns) = after.map_or((0, 0), |after| (after.0 - runs, after.1 - ns));
        if runs >= RUNS || now >= sample.until || after.is_none() {
            if runs >= RUNS_MIN {
                self.program_ns = Some(ns as f64 / runs as f64);
            }
            self.sample = None;
        }
    }

    /// As it stands in a view.
    pub(super) fn view(&self) -> OwnView {
        let own = std::process::id();
        OwnView {
            server_us_per_statement: self
                .trap_ns
                .zip(self.program_ns)
                .map(|(trap, program)| (trap + program) / 1e3),
            trap_ns: self.trap_ns,
            program_ns: self.program_ns,
            cpu_s: cpu::process_cpu_ns(own).unwrap_or(0) as f64 / 1e9,
            rss_bytes: cpu::process_rss_bytes(own).unwrap_or(0),
            ..OwnView::default()
        }
    }
}
