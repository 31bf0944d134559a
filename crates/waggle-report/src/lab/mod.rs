//! The document of a lab run: what watching costs, arm by arm, with the evidence for it.
//!
//! Neighbours: `waggle lab` fills a [`LabReport`] and hands it to
//! [`crate::run::RunDir::write_lab`]; [`headline()`] and [`text()`] put it into words,
//! [`crate::page`] into a page. `web/src/lab.ts` mirrors these types; a golden test keeps the two
//! together.
//! Invariant: an estimate that is not a finite number is `null`, never zero.

mod detail;
mod headline;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use detail::{Primary, ProbeFacts, TypeArm, TypeReport, TypeWindow};
pub use headline::headline;
pub use text::{text, wrapped};

use crate::host::HostFacts;
use crate::profile::ProfilePage;

/// Version of the [`LabReport`] document.
pub const LAB_FORMAT_VERSION: u32 = 1;

/// Everything a lab run found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LabReport {
    /// [`LAB_FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The question that was asked, as a sentence.
    pub question: String,
    /// The command line that repeats the run, quoted for a shell, without passwords.
    pub command: String,
    /// Version of waggle that ran it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// Wall-clock seconds from start to end.
    pub duration_s: f64,
    /// The server that was watched.
    pub server: LabServer,
    /// The machine.
    pub environment: HostFacts,
    /// The load it was under.
    pub workload: Workload,
    /// The arm that the others are compared with.
    pub base: BaseArm,
    /// Name of the arm that the question is about, such as `watch`.
    pub subject: String,
    /// Every arm compared with the base, the A/A arm among them, in the order to show.
    pub arms: Vec<Arm>,
    /// The base compared with itself shows no difference. If not, nothing is claimed.
    pub aa_clean: bool,
    /// Equivalence margin as a fraction of the base's CPU per statement (0.01 is 1%).
    pub margin: f64,
    /// Every window, in the order of time, discarded ones included.
    pub windows: Vec<Window>,
    /// Statement (or transaction) latency by arm name, the base's too: ascending upper bounds in
    /// microseconds, each with the count of values at or below it and above the bound before.
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
    /// What the histograms and quantiles time: `statement` or `transaction`.
    pub latency_of: String,
    /// What a reader must know: what was lost, what could not be measured, and why.
    pub notes: Vec<String>,
    /// The outcome that the verdicts are about.
    #[serde(default)]
    pub primary: Primary,
    /// The same by type of statement, where the workload names its types.
    #[serde(default)]
    pub types: Vec<TypeReport>,
    /// Every probe that was attached: where, and how the kernel runs the instruction there.
    #[serde(default)]
    pub probes: Vec<ProbeFacts>,
    /// Profiles taken meanwhile; they are files of their own, and an element of their own.
    #[serde(skip)]
    pub profile: Option<Box<ProfilePage>>,
}

/// The server that a lab run watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabServer {
    /// `MySQL` or `MariaDB`, or a fork's own name.
    pub flavour: String,
    /// The version without the flavour, such as `9.7.4`.
    pub version: String,
    /// The build id of the binary, hexadecimal.
    pub build_id: Option<String>,
    /// Settings that matter, by variable name.
    pub settings: BTreeMap<String, String>,
}

/// The load of a lab run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Script name, such as `oltp_point_select`.
    pub name: String,
    /// Connections, one thread each.
    pub threads: u32,
    /// Tables.
    pub tables: u32,
    /// Rows in each table.
    pub table_size: u64,
    /// Transactions a second that were asked for, timed from their intended start; `null` in closed
    /// loop.
    #[serde(default)]
    pub rate: Option<f64>,
    /// What the server, the tool or the load were confined to, a sentence each, such as
    /// `server and agent on processor 0 (cpuset)`.
    #[serde(default)]
    pub limits: Vec<String>,
}

/// The arm that every other is compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseArm {
    /// Its name in windows and histograms, such as `none`.
    pub name: String,
    /// How it is called in tables, such as `nothing attached`.
    pub label: String,
}

/// How an arm was switched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmKind {
    /// On and off in windows of one server's life.
    #[default]
    InLife,
    /// A restart between on and off: a pair is two server lives.
    ServerLives,
}

/// What the evidence says of an arm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabVerdict {
    /// The interval lies above zero.
    Costs,
    /// The interval lies below zero.
    Saves,
    /// Equivalent to the base within the margin.
    NoDifference,
    /// Neither could be shown.
    #[default]
    NotEnoughEvidence,
}

/// One arm compared with the base.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Name, such as `watch`.
    pub name: String,
    /// Name for people, such as `waggle watch`.
    pub label: String,
    /// How it was switched.
    pub kind: ArmKind,
    /// This arm is the base again: the check that the method sees no difference where none is.
    pub aa: bool,
    /// Pairs of windows (or of server lives) that the intervals rest on.
    pub windows: u64,
    /// CPU time in the server per statement, microseconds: the primary outcome.
    #[serde(serialize_with = "finite_difference")]
    pub cpu_us_per_statement: Option<Difference>,
    /// The same as a ratio to the base.
    #[serde(serialize_with = "finite_ratio")]
    pub cpu_ratio: Option<Ratio>,
    /// Smallest effect on that CPU time, microseconds, that this run would have seen.
    pub detectable_us: Option<f64>,
    /// Closed-loop statements a second, as a ratio to the base.
    #[serde(serialize_with = "finite_ratio")]
    pub qps_ratio: Option<Ratio>,
    /// Latency quantiles.
    pub latency_us: LatencyDifferences,
    /// What the tool itself used, outside the server; `null` where there is no such process.
    pub tool: Option<ToolCost>,
    /// Statements the tool captured; `null` for an arm that captures none.
    pub captured: Option<u64>,
    /// Statements executed while the arm was on, as the server counted them.
    pub executed: u64,
    /// Statements lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// What the evidence says.
    pub verdict: LabVerdict,
    /// What a reader must know of this arm alone.
    pub note: Option<String>,
    /// Degrees of freedom of the intervals, for tests on stored reports.
    #[serde(default, skip_serializing_if = "Freedom::is_unknown")]
    pub freedom: Freedom,
    /// What a user of this arm gets to see, such as `every statement: text, rows, errors, time`.
    #[serde(default)]
    pub sees: Option<String>,
    /// What switches it on: settings, statements, the observer's command line.
    #[serde(default)]
    pub switched_by: Vec<String>,
}

/// Degrees of freedom of an arm's intervals; a fraction is allowed, and early reports have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Freedom {
    /// Of CPU time a statement.
    pub cpu: Option<f64>,
    /// Of statements a second.
    pub qps: Option<f64>,
    /// Of the p99 latency.
    pub p99: Option<f64>,
}

impl Freedom {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// A difference to the base with its 95% interval; all four in the unit of the field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The base's own value, over the same pairs.
    pub base: f64,
    /// Arm less base.
    pub delta: f64,
    /// Lower end of the interval of `delta`.
    pub low: f64,
    /// Upper end of the interval of `delta`.
    pub high: f64,
}

/// A ratio to the base with its 95% interval; 1 is no difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Arm over base.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Differences of latency quantiles, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyDifferences {
    /// Median.
    #[serde(serialize_with = "finite_difference")]
    pub p50: Option<Difference>,
    /// 95th percentile.
    #[serde(serialize_with = "finite_difference")]
    pub p95: Option<Difference>,
    /// 99th percentile.
    #[serde(serialize_with = "finite_difference")]
    pub p99: Option<Difference>,
}

/// What the tool itself used, outside the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ToolCost {
    /// CPU time per statement, microseconds.
    pub cpu_us_per_statement: f64,
    /// CPU time in all, seconds.
    pub cpu_s: f64,
    /// Largest resident set, bytes.
    pub rss_bytes: u64,
}

/// One window of the experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Start, seconds since the start of the run.
    pub t_s: f64,
    /// Length, seconds.
    pub duration_s: f64,
    /// Name of the arm that was on.
    pub arm: String,
    /// Statements executed.
    pub statements: u64,
    /// Statements a second.
    pub qps: f64,
    /// CPU time in the server per statement, microseconds; `null` if none was executed.
    pub server_cpu_us_per_statement: Option<f64>,
    /// Not used in the comparison.
    pub discarded: bool,
    /// Why it was discarded, or what happened in it.
    pub note: Option<String>,
    /// What the server did in it that is not the arm's doing, such as `checkpoint` or
    /// `flush storm`.
    #[serde(default)]
    pub marks: Vec<String>,
    /// By type of statement, where the workload names its types.
    #[serde(default)]
    pub types: BTreeMap<String, TypeWindow>,
}

impl LabReport {
    /// The arm that the question is about.
    pub fn subject_arm(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == self.subject)
    }

    /// The base compared with itself.
    pub fn aa_arm(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.aa)
    }

    /// The server's flavour and version, such as `MySQL 9.7.4`.
    pub fn server_name(&self) -> String {
        format!("{} {}", self.server.flavour, self.server.version)
            .trim()
            .to_owned()
    }
}

impl Arm {
    /// The primary outcome, if there is an estimate.
    pub fn cpu(&self) -> Option<Difference> {
        self.cpu_us_per_statement.filter(Difference::is_finite)
    }

    /// Statements lost, all causes together.
    pub fn lost_total(&self) -> u64 {
        self.lost
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Difference {
    /// Half the width of the interval, in the unit of the field.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether it can be shown: every part is a number.
    pub fn is_finite(&self) -> bool {
        [self.base, self.delta, self.low, self.high]
            .iter()
            .all(|part| part.is_finite())
    }
}

impl Ratio {
    /// Whether it can be shown: every part is a number.
    pub fn is_finite(&self) -> bool {
        [self.estimate, self.low, self.high]
            .iter()
            .all(|part| part.is_finite())
    }
}

impl LabVerdict {
    /// The verdict as one or two words for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Costs => "costs",
            Self::Saves => "saves",
            Self::NoDifference => "no difference",
            Self::NotEnoughEvidence => "not enough evidence",
        }
    }
}

/// Reads a number that its writer did not have (`null`) as NaN: a hole, never zero, and never the
/// loss of the whole document.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn finite_difference<S: Serializer>(
    value: &Option<Difference>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.filter(Difference::is_finite).serialize(serializer)
}

fn finite_ratio<S: Serializer>(value: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    value.filter(Ratio::is_finite).serialize(serializer)
}
