//! Measures the windows of an experiment: switches an arm on, lets the load run, reads the clocks,
//! switches it off.
//!
//! The load stands still while an arm is switched, so the statements executed under an arm are
//! known exactly, and no window has two arms in it. Neighbours: `waggle-stats` says in which order
//! and what follows from the numbers; a [`Bed`] says what an arm is. [`progress`] shows how far it
//! is, [`flags`] reads the times and shares that it is asked for with, [`facts`] says which server
//! it was.
//!
//! Invariant: an arm that was switched on is switched off before anything else happens, also after
//! an error.

pub(crate) mod facts;
pub(crate) mod flags;
pub(crate) mod progress;

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use waggle_load::{Load, LoadState, Snapshot};
use waggle_server::cpu;
use waggle_stats::compare::{Slice, Window, WindowCounters, WindowLatency};
use waggle_stats::latency::LatencyHistogram;

use crate::interrupt;

/// How long the load may take to come to a stop between two windows.
const PAUSE_PATIENCE: Duration = Duration::from_secs(30);

/// How long the server may take to be done with statements it has answered already.
const REST_PATIENCE: Duration = Duration::from_secs(2);
/// Parts of a window, counted from the switch, whose clocks are read: what a switch carries over
/// shows in the first.
const SLICES: u32 = 10;
/// How often it is looked at meanwhile.
const REST_LOOK: Duration = Duration::from_micros(500);

/// Where arms run: which load and server an arm uses, and how it is switched.
pub(crate) trait Bed {
    /// The load and the server process of `arm`.
    fn subject(&self, arm: usize) -> (&Load, u32);
    /// Switches `arm` on; the load stands still. What was switched before an error is undone.
    fn on(&mut self, arm: usize) -> anyhow::Result<()>;
    /// Switches `arm` off; the load stands still.
    fn off(&mut self, arm: usize) -> anyhow::Result<Observed>;
    /// The processes that observe under `arm`, while it is on.
    fn tools(&self, arm: usize) -> Vec<u32>;
    /// What the server's own counters said since the last call for a server; `None` where nobody
    /// asks. The load stands still.
    fn counters(&mut self, arm: usize) -> Option<WindowCounters>;
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Timing {
    /// Measured part.
    pub(crate) window: Duration,
    /// Unmeasured part after a switch.
    pub(crate) settle: Duration,
}

/// Why a window could not be measured.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The arm could not be switched on.
    On(anyhow::Error),
    /// The arm could not be switched off.
    Off(anyhow::Error),
    /// The load or the server did not hold out.
    Load(anyhow::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(error) => write!(f, "it could not be switched on: {error:#}"),
            Self::Off(error) => write!(f, "it could not be switched off: {error:#}"),
            Self::Load(error) => write!(f, "{error:#}"),
        }
    }
}

/// A window and everything counted around it.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What is compared; its life is 0.
    pub(crate) window: Window,
    /// When the load went on after the switch, on the clock of the window's start.
    pub(crate) switched_s: f64,
    /// The window and what is before it, in parts.
    pub(crate) slices: Vec<Slice>,
    /// What the server's own counters said.
    pub(crate) counters: Option<WindowCounters>,
    /// Latency of transactions in the measured part; from the intended start in an open loop.
    pub(crate) latency: LatencyHistogram,
    /// The same by kind of event, if that was asked for.
    pub(crate) operations: BTreeMap<String, LatencyHistogram>,
    /// Transactions in the measured part.
    pub(crate) transactions: u64,
    /// Errors from switching on to switching off.
    pub(crate) errors: u64,
    /// One of them, in the server's words.
    pub(crate) error_example: Option<String>,
    /// Statements executed from switching on to switching off.
    pub(crate) executed: u64,
    /// What the observer saw meanwhile.
    pub(crate) observed: Observed,
    /// CPU time of the observing processes over the measured part, ns.
    pub(crate) tool_cpu_ns: u64,
    /// Their resident set at its end, bytes.
    pub(crate) tool_rss_bytes: u64,
    /// Events due and not begun at the end of the measured part, in an open loop.
    pub(crate) backlog: Option<u64>,
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
    /// CPU time of the observing processes over the measured parts, ns.
    pub(crate) tool_cpu_ns: u64,
    /// Their largest resident set, bytes.
    pub(crate) tool_rss_bytes: u64,
    /// Statements over the measured parts.
    pub(crate) statements: u64,
    /// Transactions over the measured parts.
    pub(crate) transactions: u64,
    /// Errors from switching on to switching off.
    pub(crate) errors: u64,
    /// One of them, in the server's words.
    pub(crate) error_example: Option<String>,
    /// Latency of transactions in the measured parts.
    pub(crate) latency: LatencyHistogram,
    /// The same by kind of event, if the cell keeps them.
    pub(crate) operations: BTreeMap<String, LatencyHistogram>,
}

/// How one window is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure {
    /// Lengths of its parts.
    pub(crate) timing: Timing,
    /// Keep the latency of each kind of event, and the backlog of an open loop.
    pub(crate) detailed: bool,
    /// Window times count from here...
    pub(crate) started: Instant,
    /// ...plus this, seconds: what a run that was killed had reached.
    pub(crate) offset_s: f64,
}

impl Measure {
    /// Measures one window of `arm`.
    ///
    /// # Errors
    /// The load failed or did not stop, the server is gone, or the arm could not be switched.
    pub(crate) fn window(&self, bed: &mut dyn Bed, arm: usize) -> Result<Measured, Fault> {
        let before = bed.subject(arm).0.counters();
        rest(bed.subject(arm).1);
        bed.on(arm).map_err(Fault::On)?;
        let measured = self.measured_part(bed, arm);
        let paused = interrupt::hold(bed.subject(arm).0, PAUSE_PATIENCE);
        let counted = bed.subject(arm).0.counters().since(&before);
        rest(bed.subject(arm).1);
        let observed = bed.off(arm);
        let mut measured = measured.map_err(Fault::Load)?;
        measured.counters = bed.counters(arm);
        if !paused {
            let seconds = PAUSE_PATIENCE.as_secs();
            return Err(Fault::Load(anyhow!(
                "the load did not come to a stop within {seconds} s"
            )));
        }
        measured.observed = observed.map_err(Fault::Off)?;
        measured.executed = counted.queries;
        measured.errors = counted.errors;
        if counted.errors > 0 {
            measured.error_example = error_example(&bed.subject(arm).0.snapshot());
        }
        Ok(measured)
    }

    /// Seconds on the clock of windows.
    fn clock_s(&self, at: Instant) -> f64 {
        self.offset_s + (at - self.started).as_secs_f64()
    }

    /// Lets the load of `arm` run and reads clocks and counters at both ends of the window.
    fn measured_part(&self, bed: &dyn Bed, arm: usize) -> anyhow::Result<Measured> {
        let (load, pid) = bed.subject(arm);
        let tools = bed.tools(arm);
        let clock = |pid| cpu::process_cpu_ns(pid).context("reading the server's CPU clock");
        let tool_clock = || -> u64 {
            tools
                .iter()
                .filter_map(|t| cpu::process_cpu_ns(*t).ok())
                .sum()
        };
        let readings = Readings::new(self.timing);
        load.resume();
        let switched = Instant::now();
        let read = || -> anyhow::Result<Reading> {
            Ok(Reading {
                at: Instant::now(),
                statements: load.counters().queries,
                cpu_ns: clock(pid)?,
            })
        };
        let mut at = vec![read()?];
        for offset in readings.before {
            sleep_until(switched + offset);
            at.push(read()?);
        }
        sleep_until(switched + self.timing.settle);
        let kinds = self.detailed.then(|| load.snapshot());
        drop(load.take_latency());
        let (tool0, count0, first) = (tool_clock(), load.counters(), read()?);
        if readings.settle_is_one {
            at.push(first);
        }
        for offset in readings.after {
            sleep_until(first.at + offset);
            at.push(read()?);
        }
        let (last, count1) = (at[at.len() - 1], load.counters());
        let tool1 = tool_clock();
        let latency = load.take_latency();
        let during = kinds.map(|first| load.snapshot().since(&first));
        if load.state() != LoadState::Active {
            return Err(anyhow!("the load ended during a window"));
        }
        let counted = count1.since(&count0);
        let rss = |pid: &u32| cpu::process_rss_bytes(*pid).ok();
        Ok(Measured {
            window: Window {
                arm,
                life: 0,
                start_s: self.clock_s(first.at),
                duration_s: (last.at - first.at).as_secs_f64(),
                statements: last.statements.saturating_sub(first.statements),
                server_cpu_ns: last.cpu_ns.saturating_sub(first.cpu_ns),
                latency: percentiles(&latency),
            },
            switched_s: self.clock_s(at[0].at),
            slices: slices(&at),
            counters: None,
            latency,
            backlog: during.as_ref().and_then(|d| Some(d.offered?.backlog)),
            operations: during.map(operations).unwrap_or_default(),
            transactions: counted.transactions,
            errors: 0,
            error_example: None,
            executed: 0,
            observed: Observed::default(),
            tool_cpu_ns: tool1.saturating_sub(tool0),
            tool_rss_bytes: tools.iter().filter_map(rss).sum(),
        })
    }
}

fn percentiles(latency: &LatencyHistogram) -> Option<WindowLatency> {
    (!latency.is_empty()).then(|| WindowLatency {
        p50_us: latency.quantile_us(0.50),
        p95_us: latency.quantile_us(0.95),
        p99_us: latency.quantile_us(0.99),
    })
}

/// Clocks and counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    statements: u64,
    cpu_ns: u64,
}

/// When clocks are read.
#[derive(Debug, PartialEq)]
struct Readings {
    /// After the switch, before the measured part begins.
    before: Vec<Duration>,
    /// The beginning of the measured part ends a slice.
    settle_is_one: bool,
    /// After the beginning of the measured part; the last is its end.
    after: Vec<Duration>,
}

impl Readings {
    /// About equal slices, one of which ends where the measured part begins, unless what is before
    /// it is less than half a slice.
    fn new(timing: Timing) -> Self {
        let whole = (timing.settle + timing.window).as_secs_f64().max(1e-9);
        let share = timing.settle.as_secs_f64() / whole;
        let before = (share * f64::from(SLICES))
            .round()
            .min(f64::from(SLICES - 1)) as u32;
        let after = SLICES - before;
        Self {
            before: (1..before).map(|i| timing.settle * i / before).collect(),
            settle_is_one: before > 0,
            after: (1..=after).map(|i| timing.window * i / after).collect(),
        }
    }
}

fn sleep_until(deadline: Instant) {
    interrupt::pause(deadline.saturating_duration_since(Instant::now()));
}

/// What lies between readings, in seconds since the first.
fn slices(readings: &[Reading]) -> Vec<Slice> {
    let pairs = readings.iter().zip(readings.iter().skip(1));
    let since = |reading: &Reading| (reading.at - readings[0].at).as_secs_f64();
    pairs
        .map(|(from, to)| Slice {
            from_s: since(from),
            to_s: since(to),
            statements: to.statements.saturating_sub(from.statements),
            server_cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns),
        })
        .collect()
}

fn operations(snapshot: Snapshot) -> BTreeMap<String, LatencyHistogram> {
    let all = snapshot.operations.into_iter();
    all.map(|(name, operation)| (name, operation.response))
        .collect()
}

/// The commonest error so far, in the server's words.
fn error_example(snapshot: &Snapshot) -> Option<String> {
    let errors = snapshot.errors.iter();
    let (errno, most) = errors.max_by_key(|(_, error)| error.count)?;
    Some(format!("{errno}: {}", most.example))
}

/// Waits until the server is done with what it has answered: an answer leaves a moment before the
/// statement ends, and an arm switched in between would see one statement more or less.
pub(crate) fn rest(pid: u32) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(settle_ms: u64, window_ms: u64) -> Timing {
        Timing {
            window: Duration::from_millis(window_ms),
            settle: Duration::from_millis(settle_ms),
        }
    }

    #[test]
    fn a_window_has_ten_slices_from_the_switch_on() {
        let ms = |times: &[Duration]| times.iter().map(Duration::as_millis).collect::<Vec<_>>();
        let short = Readings::new(timing(40, 160));
        assert_eq!(ms(&short.before), [20]);
        assert!(short.settle_is_one);
        assert_eq!(ms(&short.after), [20, 40, 60, 80, 100, 120, 140, 160]);
        // What settles is less than half a slice: it is part of the first.
        let long = Readings::new(timing(40, 10_000));
        assert_eq!((long.before.len(), long.settle_is_one), (0, false));
        assert_eq!(long.after.len(), 10);
        let odd = Readings::new(timing(1000, 50));
        assert_eq!((odd.before.len(), odd.after.len()), (8, 1));
    }
}
