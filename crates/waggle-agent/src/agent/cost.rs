//! What does watching cost? The agent's own CPU and memory, and what its probes take of the
//! server's.
//!
//! A probe costs its hits, a trap each, and its program's run time. A trap is timed once on the
//! agent itself; programs' mean run times come from one sample of the kernel's own counters, short
//! where statements are many, taken with everything on. What is left out later makes a hit cheaper
//! than is said here. Nobody need wait for a lock in that moment, so the programs on locks time
//! themselves. Neighbours: `keeper` holds the sum against the budget, views print it.

use std::fs;
use std::time::{Duration, Instant};

use waggle_probes::kernel::RunTimeStats;
use waggle_probes::sched::SchedProbe;
use waggle_server::cpu;

use super::followed::{Followed, Hits};
use crate::statement::ServerId;
use crate::view::{OwnView, ProbeCost};

/// How long the kernel's run-time counters are held for more than the fewest runs, once, to learn
/// the programs' cost: while they are, every program costs a little more.
const SAMPLE_MAX: Duration = Duration::from_secs(10);
/// And for these: a server that does next to nothing leaves the cost unknown.
const SAMPLE_STOP: Duration = Duration::from_secs(600);
/// Runs that make a mean.
const RUNS: u64 = 2000;
/// Runs that make one if no more come.
const RUNS_MIN: u64 = 50;

/// Probes that cost something.
const STATEMENTS: usize = 0;
const SCHEDULER: usize = 1;
const LOCKS: usize = 2;

/// What is known of the cost.
#[derive(Debug)]
pub(super) struct Cost {
    trap_ns: Option<f64>,
    probes: [ProbeCost; 3],
    sample: Option<Sample>,
    /// A sample was begun; there is one only, as the right to it may be given up.
    is_begun: bool,
    /// Context switches of the host at the last look, while the scheduler's probe is in place.
    switches: Option<u64>,
    /// The server's CPU time since the last [`Self::take_server_ns`], ns.
    server_ns: f64,
    /// Run time of the programs on locks, which time themselves, ns.
    lock_ns: u64,
}

impl Default for Cost {
    fn default() -> Self {
        let probe = |name| ProbeCost {
            name,
            ..ProbeCost::default()
        };
        Self {
            trap_ns: None,
            probes: ["statements", "scheduler", "locks"].map(probe),
            sample: None,
            is_begun: false,
            switches: None,
            server_ns: 0.0,
            lock_ns: 0,
        }
    }
}

/// A sample that is being taken.
#[derive(Debug)]
struct Sample {
    _stats: RunTimeStats,
    server: ServerId,
    before: (u64, u64),
    scheduler_before: Option<(u64, u64)>,
    begun: Instant,
}

impl Cost {
    /// Times a trap, once.
    pub(super) fn measure_trap(&mut self, server: &mut Followed) {
        if self.trap_ns.is_none()
            && let Some(probe) = server.probe()
        {
            self.trap_ns = probe.measure_trap_ns();
            // The scheduler's is no trap: the kernel calls it.
            self.probes[STATEMENTS].trap_ns = self.trap_ns;
            self.probes[LOCKS].trap_ns = self.trap_ns;
        }
    }

    /// Begins the sample, on a server whose probe is in place.
    pub(super) fn begin(&mut self, server: &mut Followed, scheduler: Option<&SchedProbe>) {
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
            scheduler_before: scheduler.and_then(SchedProbe::run_time),
            begun: Instant::now(),
        });
    }

    /// True while a sample is taken.
    pub(super) fn is_sampling(&self) -> bool {
        self.sample.is_some()
    }

    /// Ends the sample, if it is time to.
    pub(super) fn turn(
        &mut self,
        servers: &mut [Followed],
        scheduler: Option<&SchedProbe>,
        now: Instant,
    ) {
        let Some(sample) = &self.sample else {
            return;
        };
        let after = servers
            .iter_mut()
            .find(|s| s.id == sample.server)
            .and_then(|s| s.probe()?.run_time());
        let runs = after.map_or(0, |after| after.0.saturating_sub(sample.before.0));
        let held = now.saturating_duration_since(sample.begun);
        if after.is_none() || is_enough(runs, held) {
            self.probes[STATEMENTS].program_ns = mean(Some(sample.before), after);
            let after = scheduler.and_then(SchedProbe::run_time);
            self.probes[SCHEDULER].program_ns = mean(sample.scheduler_before, after);
            self.sample = None;
        }
    }

    /// Takes in what the probes were hit since the last call. `scheduled` while the scheduler's
    /// probe is in place, which every context switch of the host passes.
    pub(super) fn count(&mut self, servers: &mut [Followed], scheduled: bool) {
        let mut new = Hits::default();
        for server in servers {
            let hits = server.new_hits();
            new.statements += hits.statements;
            new.locks += hits.locks;
            new.lock_ns += hits.lock_ns;
        }
        self.lock_ns += new.lock_ns;
        let now = scheduled.then(context_switches).flatten();
        let before = std::mem::replace(&mut self.switches, now);
        let switches = now
            .zip(before)
            .map_or(0, |(now, before)| now.saturating_sub(before));
        for (at, hits) in [
            (STATEMENTS, new.statements),
            (SCHEDULER, switches),
            (LOCKS, new.locks),
        ] {
            let probe = &mut self.probes[at];
            probe.hits += hits;
            if at == LOCKS && probe.hits > 0 {
                probe.program_ns = Some(self.lock_ns as f64 / probe.hits as f64);
            }
            self.server_ns += hits as f64 * probe.hit_ns();
        }
    }

    /// The server's CPU time that the probes took since the last call, ns; as far as it is known.
    pub(super) fn take_server_ns(&mut self) -> f64 {
        std::mem::take(&mut self.server_ns)
    }

    /// As it stands in a view.
    pub(super) fn view(&self) -> OwnView {
        let own = std::process::id();
        let program_ns = self.probes[STATEMENTS].program_ns;
        OwnView {
            server_us_per_statement: self
                .trap_ns
                .zip(program_ns)
                .map(|(trap, program)| (trap + program) / 1e3),
            trap_ns: self.trap_ns,
            program_ns,
            probes: self.probes.iter().filter(|p| p.hits > 0).cloned().collect(),
            cpu_s: cpu::process_cpu_ns(own).unwrap_or(0) as f64 / 1e9,
            rss_bytes: cpu::process_rss_bytes(own).unwrap_or(0),
            ..OwnView::default()
        }
    }
}

/// True if so many runs within such a time end the sample.
fn is_enough(runs: u64, held: Duration) -> bool {
    runs >= RUNS || (held >= SAMPLE_MAX && runs >= RUNS_MIN) || held >= SAMPLE_STOP
}

/// Mean run time between two readings of runs and run time (ns), if there were enough runs.
fn mean(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<f64> {
    let (before, after) = before.zip(after)?;
    let runs = after.0.saturating_sub(before.0);
    (runs >= RUNS_MIN).then(|| after.1.saturating_sub(before.1) as f64 / runs as f64)
}

/// Context switches of the host since boot.
fn context_switches() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_are_no_mean() {
        assert_eq!(mean(Some((10, 1000)), Some((110, 51_000))), Some(500.0));
        assert_eq!(mean(Some((10, 1000)), Some((11, 2000))), None);
        assert_eq!(mean(None, Some((1000, 1))), None);
    }

    #[test]
    fn a_sample_waits_for_the_fewest_runs_and_not_for_ever() {
        let ms = Duration::from_millis;
        assert!(is_enough(RUNS, ms(1)));
        assert!(!is_enough(RUNS - 1, ms(9_999)));
        assert!(is_enough(RUNS_MIN, SAMPLE_MAX));
        assert!(!is_enough(RUNS_MIN - 1, SAMPLE_MAX * 2));
        assert!(is_enough(RUNS_MIN, SAMPLE_MAX * 2));
        assert!(is_enough(0, SAMPLE_STOP));
    }

    #[test]
    fn the_host_switches() {
        let before = context_switches().expect("/proc/stat");
        std::thread::spawn(|| ()).join().expect("a thread");
        assert!(context_switches().expect("/proc/stat") > before);
    }
}
