//! What is one condition of an experiment, and what came of it?
//!
//! A [`CellSpec`] is plain data: a workload on a server under limits, and the arms it is measured
//! under. `lab::run` turns it into a [`CellRun`], window by window ([`Sample`]); `outcome` turns
//! that into a report; a study is a list of cells. Neighbours: `arm` below.
//!
//! Invariant: arms are numbered by their place in [`CellSpec::arms`], from 1; 0 is the base.

pub(crate) mod limits;
pub(crate) mod operations;
mod run;
mod sample;

use std::collections::BTreeMap;
use std::time::Duration;

use waggle_load::Script;
use waggle_server::Flavour;
use waggle_stats::compare::{CompareSettings, Outcome, Unit};

use super::arm::ArmSpec;
use crate::experiment::Timing;
pub(crate) use limits::Limits;
pub(crate) use run::CellRun;
pub(crate) use sample::{OperationWindow, Sample, carried_over, settled};

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
