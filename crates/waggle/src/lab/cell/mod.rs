//! What is one condition of an experiment, and what came of it?
//!
//! A [`CellSpec`] is plain data: a workload on a server under limits, and the arms it is measured
//! under. `run` turns it into a [`CellRun`]; `outcome` turns that into a report; a study is a list
//! of cells. Neighbours: `arm` below.
//!
//! Invariant: arms are numbered by their place in [`CellSpec::arms`], from 1; 0 is the base.

pub(crate) mod limits;
pub(crate) mod operations;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waggle_load::Script;
use waggle_profile::model::Profile;
use waggle_report::run::ServerFacts;
use waggle_server::Flavour;
use waggle_stats::compare::{
    CarryOvers, CompareSettings, Outcome, Slice, SlicedWindow, Unit, Window, WindowCounters,
    carry_overs, settled_window,
};
use waggle_stats::latency::LatencyHistogram;

use super::arm::ArmSpec;
use crate::experiment::{Timing, Totals};
pub(crate) use limits::Limits;

/// One condition: everything but the arm that is on.
#[derive(Debug, Clone)]
pub(crate) struct CellSpec {
    /// Its name in files: unique in a run, letters, digits, `-`, `_`, `.`.
    pub(crate) id: String,
    /// Its name for people.
    pub(crate) title: String,
    /// Which server.
    pub(crate) flavour: Flavour,
    /// The workload.
    pub(crate) script: Script,
    /// Options of the workload beside `tables` and `table-size`, as typed.
    pub(crate) options: BTreeMap<String, String>,
    /// What fills the server. Cells with equal data and settings share a server.
    pub(crate) data: DataSpec,
    /// Connections.
    pub(crate) threads: u32,
    /// They are TCP on the loopback device, as an observer of packets needs it; else Unix sockets.
    pub(crate) over_tcp: bool,
    /// Events a second of an open loop, from the intended start; `None`: closed loop.
    pub(crate) rate: Option<f64>,
    /// Server settings of every server of the cell.
    pub(crate) settings: Vec<(String, String)>,
    /// What server and observers may use.
    pub(crate) limits: Limits,
    /// What arms are compared with, if it is not nothing: switched on under the base and under the
    /// A/A arm, which is the base again.
    pub(crate) base: Option<ArmSpec>,
    /// The arms; the A/A arm is one of them.
    pub(crate) arms: Vec<ArmSpec>,
    /// Measure every arm over pairs of servers, also those that could be switched within one life:
    /// for arms that are to be laid beside one with settings.
    pub(crate) all_in_lives: bool,
    /// Windows of each arm in a pair of servers, fewest and most pairs.
    pub(crate) lives: LivesPlan,
    /// Lengths of the parts of a window.
    pub(crate) timing: Timing,
    /// How long the load runs before the first window on a server, and again after another cell
    /// had the server.
    pub(crate) warm_up: Duration,
    /// The outcome that time is spent on and verdicts are about.
    pub(crate) primary: Outcome,
    /// Keep the latency of each kind of event (`waggle.operation`) by window and in all.
    pub(crate) per_operation: bool,
    /// The server is profiled in every window of arms that are switched in life.
    pub(crate) profile: bool,
    /// Its share of the time, relative to the other cells'.
    pub(crate) weight: f64,
    /// Seed of the order of windows and of the load.
    pub(crate) seed: u64,
}

/// What fills a server before the load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DataSpec {
    /// The script whose `prepare` runs.
    pub(crate) script: String,
    /// Tables.
    pub(crate) tables: u32,
    /// Rows in each.
    pub(crate) table_size: u64,
    /// Further options of `prepare`.
    pub(crate) options: BTreeMap<String, String>,
}

/// How arms are measured that need servers of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LivesPlan {
    /// Windows of each arm in one pair.
    pub(crate) windows: usize,
    /// Pairs measured in any case.
    pub(crate) fewest: usize,
    /// Most pairs.
    pub(crate) most: usize,
}

impl Default for LivesPlan {
    fn default() -> Self {
        Self {
            windows: 15,
            fewest: 5,
            most: 60,
        }
    }
}

impl CellSpec {
    /// A closed loop of `script` over its own data, windows of 0.15 s, CPU time as the outcome;
    /// no arm yet.
    pub(crate) fn new(id: &str, title: &str, flavour: Flavour, script: Script) -> Self {
        let data = DataSpec {
            script: script.name().to_owned(),
            tables: 1,
            table_size: 20_000,
            options: BTreeMap::new(),
        };
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            flavour,
            script,
            options: BTreeMap::new(),
            data,
            threads: 8,
            over_tcp: false,
            rate: None,
            settings: Vec::new(),
            limits: Limits::default(),
            base: None,
            arms: Vec::new(),
            all_in_lives: false,
            lives: LivesPlan::default(),
            timing: Timing {
                window: Duration::from_millis(150),
                settle: Duration::from_millis(40),
            },
            warm_up: Duration::from_secs(2),
            primary: Outcome::CpuUsPerStatement,
            per_operation: false,
            profile: false,
            weight: 1.0,
            seed: 1,
        }
    }

    /// The arm with this number; `None` for the base.
    pub(crate) fn arm(&self, number: usize) -> Option<&ArmSpec> {
        self.arms.get(number.checked_sub(1)?)
    }

    /// What is switched on in the windows of this arm, or of the base.
    pub(crate) fn switched(&self, number: usize) -> Option<&ArmSpec> {
        match self.arm(number) {
            Some(arm) if !arm.aa => Some(arm),
            same => self.base.as_ref().or(same),
        }
    }

    /// The arms with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &ArmSpec)> {
        (1..).zip(&self.arms)
    }

    /// The name of an arm, the base's too.
    pub(crate) fn arm_name(&self, number: usize) -> &str {
        let base = self.base.as_ref().filter(|_| number == 0);
        self.arm(number)
            .or(base)
            .map_or(super::arm::builtin::BASE_NAME, |arm| &arm.name)
    }

    /// How an arm is compared: over windows of one life, or over pairs of lives.
    pub(crate) fn compare_settings(&self, arm: usize) -> CompareSettings {
        let in_pairs = self.arm(arm).is_some_and(|arm| self.is_in_pairs(arm));
        CompareSettings {
            unit: if in_pairs { Unit::Lives } else { Unit::Windows },
            seed: self.seed,
            ..CompareSettings::default()
        }
    }

    /// True if `arm` is measured over pairs of servers.
    pub(crate) fn is_in_pairs(&self, arm: &ArmSpec) -> bool {
        self.all_in_lives || !arm.is_in_life()
    }
}

/// Latency of one kind of event in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperationWindow {
    /// Events that ended well.
    pub(crate) count: u64,
    /// Mean, microseconds.
    pub(crate) mean_us: f64,
    /// Median, microseconds.
    pub(crate) p50_us: f64,
    /// 95th percentile, microseconds.
    pub(crate) p95_us: f64,
    /// 99th percentile, microseconds.
    pub(crate) p99_us: f64,
}

/// One window and everything counted in it: a line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// [`CellSpec::id`].
    pub(crate) cell: String,
    /// Name of the arm.
    pub(crate) name: String,
    /// It is of a pair of servers, not of the life in which arms are switched.
    pub(crate) pair: bool,
    /// What is compared.
    #[serde(flatten)]
    pub(crate) window: Window,
    /// When the load went on after the switch, on the clock of the window's start.
    #[serde(default)]
    pub(crate) switched_s: f64,
    /// From there on, in parts: end (nanoseconds since the switch), statements, the server's CPU
    /// time (nanoseconds).
    #[serde(default)]
    pub(crate) slices: Vec<[u64; 3]>,
    /// What the server's own counters said, of a workload that writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counters: Option<WindowCounters>,
    /// Transactions in the measured part.
    pub(crate) transactions: u64,
    /// Errors from switching on to switching off.
    pub(crate) errors: u64,
    /// One of them, in the server's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_example: Option<String>,
    /// Statements executed from switching on to switching off.
    pub(crate) executed: u64,
    /// Statements captured meanwhile; `None` if the arm captures none.
    pub(crate) captured: Option<u64>,
    /// Statements lost, by cause.
    pub(crate) lost: BTreeMap<String, u64>,
    /// CPU time of the observer over the measured part, ns.
    pub(crate) tool_cpu_ns: u64,
    /// Its resident set, bytes.
    pub(crate) tool_rss_bytes: u64,
    /// Events due and not yet begun at the end, of an open loop.
    pub(crate) backlog: Option<u64>,
    /// By name: the kinds of events, if the cell keeps them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) operations: BTreeMap<String, OperationWindow>,
}

impl Sample {
    /// The window with its slices.
    pub(crate) fn sliced(&self) -> SlicedWindow {
        let mut from_s = 0.0;
        let slice = |[end_ns, statements, server_cpu_ns]: &[u64; 3]| {
            let to_s = *end_ns as f64 / 1e9;
            let slice = Slice {
                from_s,
                to_s,
                statements: *statements,
                server_cpu_ns: *server_cpu_ns,
            };
            from_s = to_s;
            slice
        };
        SlicedWindow {
            window: self.window,
            switched_s: self.switched_s,
            slices: self.slices.iter().map(slice).collect(),
        }
    }
}

/// What came of a cell, whole or not.
#[derive(Debug, Clone)]
pub(crate) struct CellRun {
    /// What was asked.
    pub(crate) spec: CellSpec,
    /// Windows of the life (or lives, if a server died) in which arms were switched, in time order.
    pub(crate) in_life: Vec<Sample>,
    /// Windows of whole pairs of servers, in time order; `window.life` is the pair.
    pub(crate) pairs: Vec<Sample>,
    /// Sums by arm number over `in_life`.
    pub(crate) totals: BTreeMap<usize, Totals>,
    /// Sums by arm number over `pairs`.
    pub(crate) totals_pairs: BTreeMap<usize, Totals>,
    /// The server.
    pub(crate) server: ServerFacts,
    /// What the kernel enforced of the limits, a sentence each.
    pub(crate) limits: Vec<String>,
    /// Arms that were stopped, by number, and why.
    pub(crate) stopped: BTreeMap<usize, String>,
    /// What a reader must know.
    pub(crate) notes: Vec<String>,
    /// Where the server's CPU time went, by the name of the arm.
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// Why it ended before its time, if it did.
    pub(crate) error: Option<String>,
}

impl CellRun {
    /// Nothing measured yet.
    pub(crate) fn new(spec: CellSpec) -> Self {
        Self {
            spec,
            in_life: Vec::new(),
            pairs: Vec::new(),
            totals: BTreeMap::new(),
            totals_pairs: BTreeMap::new(),
            server: ServerFacts::default(),
            limits: Vec::new(),
            stopped: BTreeMap::new(),
            notes: Vec::new(),
            profiles: BTreeMap::new(),
            error: None,
        }
    }

    /// Takes a window and what was counted in it; latencies are added apart.
    pub(crate) fn add(&mut self, sample: Sample) {
        let totals = self
            .totals_mut(sample.pair)
            .entry(sample.window.arm)
            .or_default();
        totals.executed += sample.executed;
        totals.statements += sample.window.statements;
        totals.transactions += sample.transactions;
        totals.errors += sample.errors;
        totals.tool_cpu_ns += sample.tool_cpu_ns;
        totals.tool_rss_bytes = totals.tool_rss_bytes.max(sample.tool_rss_bytes);
        if let Some(example) = &sample.error_example {
            totals.error_example = Some(example.clone());
        }
        if let Some(captured) = sample.captured {
            *totals.captured.get_or_insert(0) += captured;
        }
        for (cause, count) in &sample.lost {
            *totals.lost.entry(cause.clone()).or_default() += count;
        }
        if sample.pair {
            self.pairs.push(sample);
        } else {
            self.in_life.push(sample);
        }
    }

    /// Takes latencies of windows that were added.
    pub(crate) fn add_latencies(
        &mut self,
        pair: bool,
        arm: usize,
        all: &LatencyHistogram,
        kinds: &BTreeMap<String, LatencyHistogram>,
    ) {
        let totals = self.totals_mut(pair).entry(arm).or_default();
        totals.latency.merge(all);
        for (kind, latency) in kinds {
            let own = totals.operations.entry(kind.clone()).or_default();
            own.merge(latency);
        }
    }

    /// The sums of windows of pairs, or of the others.
    pub(crate) fn totals_mut(&mut self, pair: bool) -> &mut BTreeMap<usize, Totals> {
        if pair {
            &mut self.totals_pairs
        } else {
            &mut self.totals
        }
    }

    /// The sums that belong to `arm`.
    pub(crate) fn totals_of(&self, number: usize) -> Totals {
        let pairs = match self.spec.arm(number) {
            Some(arm) => self.spec.is_in_pairs(arm),
            None => self.in_life.is_empty(),
        };
        let totals = if pairs {
            &self.totals_pairs
        } else {
            &self.totals
        };
        totals.get(&number).cloned().unwrap_or_default()
    }

    /// The windows that `arm` is compared in.
    pub(crate) fn windows_of(&self, arm: &ArmSpec) -> Vec<Window> {
        settled(self.samples_of(arm), self.spec.timing.settle)
    }

    /// Everything of the windows that `arm` is compared in.
    pub(crate) fn samples_of(&self, arm: &ArmSpec) -> &[Sample] {
        match self.spec.is_in_pairs(arm) {
            true => &self.pairs,
            false => &self.in_life,
        }
    }
}

/// What switches carry into windows, beyond what is not measured after a switch.
pub(crate) fn carried_over(samples: &[Sample], settle: Duration) -> Option<CarryOvers> {
    let sliced: Vec<SlicedWindow> = samples.iter().map(Sample::sliced).collect();
    let found = carry_overs(&sliced, Outcome::CpuUsPerStatement);
    (found.settle_s > settle.as_secs_f64()).then_some(found)
}

/// The windows without what switches carry into them: one trim for all, blind to arms.
pub(crate) fn settled(samples: &[Sample], settle: Duration) -> Vec<Window> {
    match carried_over(samples, settle) {
        None => samples.iter().map(|sample| sample.window).collect(),
        Some(found) => samples
            .iter()
            .map(|sample| settled_window(&sample.sliced(), found.settle_s))
            .collect(),
    }
}
