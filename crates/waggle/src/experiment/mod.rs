//! Runs the windows of an experiment: switches an arm on, lets the load run, reads the clocks,
//! switches it off.
//!
//! The load stands still while an arm is switched, so the statements executed under an arm are
//! known exactly, and no window has two arms in it. Neighbours: `waggle-stats` says in which order
//! and what follows from the numbers; a [`Bed`] says what an arm is.
//!
//! Invariant: an arm that was switched on is switched off before anything else happens, also
//! after an error.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use waggle_load::{Load, LoadState};
use waggle_server::cpu;
use waggle_stats::compare::{Window, WindowLatency};
use waggle_stats::latency::LatencyHistogram;

/// How long the load may take to come to a stop between two windows.
const PAUSE_PATIENCE: Duration = Duration::from_secs(30);

/// How long the server may take to be done with statements it has answered already.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked at meanwhile.
const REST_LOOK: Duration = Duration::from_micros(500);

/// Where arms run: which load and server an arm uses, and how it is switched.
pub(crate) trait Bed {
    /// The load and the server process of `arm`.
    fn subject(&self, arm: usize) -> (&Load, u32);
    /// Switches `arm` on; the load stands still.
    fn on(&mut self, arm: usize) -> anyhow::Result<()>;
    /// Switches `arm` off; the load stands still.
    fn off(&mut self, arm: usize) -> anyhow::Result<Observed>;
    /// The process that observes under `arm`, if there is one.
    fn tool(&self, arm: usize) -> Option<u32>;
}

/// What an observer saw while its arm was on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    /// Statements captured; `None` if the arm captures none.
    pub(crate) captured: Option<u64>,
    /// Statements lost, by cause.
    pub(crate) lost: BTreeMap<String, u64>,
}

/// Lengths of the parts of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Measured part.
    pub(crate) window: Duration,
    /// Unmeasured part after a switch.
    pub(crate) settle: Duration,
}

/// Sums over all windows of one arm.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    /// Statements executed from switching on to switching off.
    pub(crate) executed: u64,
    /// Statements captured meanwhile; `None` if the arm captures none.
    pub(crate) captured: Option<u64>,
    /// Statements lost, by cause.
    pub(crate) lost: BTreeMap<String, u64>,
    /// CPU time of the observing process over the measured parts, ns.
    pub(crate) tool_cpu_ns: u64,
    /// Its largest resident set, bytes.
    pub(crate) tool_rss_bytes: u64,
    /// Statements over the measured parts.
    pub(crate) statements: u64,
    /// Latency of transactions in the measured parts.
    pub(crate) latency: LatencyHistogram,
}

/// Everything measured so far.
#[derive(Debug)]
pub(crate) struct Record {
    /// Windows in the order of time.
    pub(crate) windows: Vec<Window>,
    /// Sums by arm.
    pub(crate) totals: BTreeMap<usize, Totals>,
    started: Instant,
}

impl Record {
    /// Nothing measured yet; window times count from `started`.
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            windows: Vec::new(),
            totals: BTreeMap::new(),
            started,
        }
    }

    /// Measures one window of `arm` in server life `life`.
    ///
    /// # Errors
    /// The load failed or did not stop, the server is gone, or the arm could not be switched.
    pub(crate) fn measure(
        &mut self,
        bed: &mut dyn Bed,
        arm: usize,
        life: usize,
        timing: Timing,
    ) -> anyhow::Result<&Window> {
        let before = bed.subject(arm).0.counters().queries;
        rest(bed.subject(arm).1);
        bed.on(arm).context("switching an arm on")?;
        let measured = measured_part(bed, arm, timing, self.started);
        let paused = bed.subject(arm).0.pause_within(PAUSE_PATIENCE);
        let after = bed.subject(arm).0.counters().queries;
        rest(bed.subject(arm).1);
        let observed = bed.off(arm).context("switching an arm off");
        let (mut window, latency, tool_cpu_ns) = measured?;
        if !paused {
            bail!(
                "the load did not come to a stop within {} s",
                PAUSE_PATIENCE.as_secs()
            );
        }
        let observed = observed?;
        window.life = life;
        let totals = self.totals.entry(arm).or_default();
        totals.executed += after - before;
        totals.statements += window.statements;
        totals.latency.merge(&latency);
        totals.tool_cpu_ns += tool_cpu_ns;
        if let Some(pid) = bed.tool(arm) {
            let rss = cpu::process_rss_bytes(pid).unwrap_or(0);
            totals.tool_rss_bytes = totals.tool_rss_bytes.max(rss);
        }
        if let Some(captured) = observed.captured {
            *totals.captured.get_or_insert(0) += captured;
        }
        for (cause, count) in observed.lost {
            *totals.lost.entry(cause).or_default() += count;
        }
        self.windows.push(window);
        Ok(&self.windows[self.windows.len() - 1])
    }
}

/// Waits until the server is done with what it has answered: an answer leaves a moment before the
/// statement ends, and an arm switched in between would see one statement more or less.
fn rest(pid: u32) {
    let deadline = Instant::now() + REST_PATIENCE;
    let mut quiet = 0;
    // Twice in a row, since the threads are looked at one after the other.
    while quiet < 2 && Instant::now() < deadline {
        quiet = if cpu::process_is_at_rest(pid).unwrap_or(true) {
            quiet + 1
        } else {
            0
        };
        thread::sleep(REST_LOOK);
    }
}

/// Lets the load of `arm` run and reads clocks and counters at both ends of the window.
fn measured_part(
    bed: &dyn Bed,
    arm: usize,
    timing: Timing,
    started: Instant,
) -> anyhow::Result<(Window, LatencyHistogram, u64)> {
    let (load, pid) = bed.subject(arm);
    let tool = bed.tool(arm);
    let clock = |pid| cpu::process_cpu_ns(pid).context("reading the server's CPU clock");
    let tool_clock = || tool.map_or(Ok(0), cpu::process_cpu_ns).unwrap_or(0);
    load.resume();
    thread::sleep(timing.settle);
    drop(load.take_latency());
    let (tool0, cpu0, count0, start) = (
        tool_clock(),
        clock(pid)?,
        load.counters().queries,
        Instant::now(),
    );
    thread::sleep(timing.window);
    let (cpu1, count1, end) = (clock(pid)?, load.counters().queries, Instant::now());
    let tool1 = tool_clock();
    let latency = load.take_latency();
    if load.state() != LoadState::Active {
        bail!("the load ended during a window");
    }
    let percentiles = (!latency.is_empty()).then(|| WindowLatency {
        p50_us: latency.quantile_us(0.50),
        p95_us: latency.quantile_us(0.95),
        p99_us: latency.quantile_us(0.99),
    });
    let window = Window {
        arm,
        life: 0,
        start_s: (start - started).as_secs_f64(),
        duration_s: (end - start).as_secs_f64(),
        statements: count1 - count0,
        server_cpu_ns: cpu1.saturating_sub(cpu0),
        latency: percentiles,
    };
    Ok((window, latency, tool1.saturating_sub(tool0)))
}
