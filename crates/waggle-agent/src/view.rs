//! A snapshot of all that the agent knows: what terminal, records and exporters read.
//!
//! All counts and times are cumulative since the agent began to watch that server; a reader that
//! wants rates takes differences of two views, matching servers by id and digests by
//! [`DigestView::key`]. Tables are bounded; what is beyond is summed in `other`.

use std::sync::Arc;

use waggle_probes::wait::WaitClass;
use waggle_stats::compact::CompactHistogram;

use crate::host::{HostSample, ProcessSample, ServerStatus};
use crate::lock::{Deadlock, LockWait};
use crate::sink::SinkStatus;
use crate::source::{Abilities, SourceKind};
use crate::statement::ServerId;

/// Everything at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// When it was taken, us since 1970.
    pub time_us: u64,
    /// The same on the monotonic clock, ns.
    pub time_ns: u64,
    /// When the agent began, us since 1970.
    pub started_us: u64,
    /// Name of the host.
    pub host_name: Arc<str>,
    /// Every server, also those that ended within the last minutes.
    pub servers: Vec<ServerView>,
    /// The host; `None` before the first sample.
    pub host: Option<HostSample>,
    /// What the agent itself costs.
    pub own: OwnView,
    /// How each sink fares, by its name.
    pub sinks: Vec<(&'static str, SinkStatus)>,
    /// What was counted of servers that ended so long ago that they are not listed.
    pub forgotten: Counted,
}

/// What is counted of statements, without what they were: [`ServerView`]'s fields of these names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Hits of the probe.
    pub hits: u64,
    /// Statements captured.
    pub captured: u64,
    /// Of these, within routines and triggers.
    pub in_routines: u64,
    /// The agent's own, which are not among these.
    pub own: u64,
    /// Ends of commands that are no statements.
    pub other_commands: u64,
    /// Statements lost, by cause.
    pub lost: Vec<(&'static str, u64)>,
    /// Statements captured with less than all, by cause.
    pub degraded: Vec<(&'static str, u64)>,
}

impl Counted {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, more: &Self) {
        self.hits += more.hits;
        self.captured += more.captured;
        self.in_routines += more.in_routines;
        self.own += more.own;
        self.other_commands += more.other_commands;
        add_causes(&mut self.lost, &more.lost);
        add_causes(&mut self.degraded, &more.degraded);
    }
}

fn add_causes(sums: &mut Vec<(&'static str, u64)>, more: &[(&'static str, u64)]) {
    for (cause, count) in more {
        match sums.iter_mut().find(|(name, _)| name == cause) {
            Some((_, sum)) => *sum += count,
            None => sums.push((cause, *count)),
        }
    }
}

/// What the agent costs.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct OwnView {
    /// Server CPU a statement by trap and program time, us; `None` if not measured yet.
    pub server_us_per_statement: Option<f64>,
    /// One trap with an empty program, timed on the agent itself, ns.
    pub trap_ns: Option<f64>,
    /// Mean run time of the program at a statement's end, as the kernel counts it, ns.
    pub program_ns: Option<f64>,
    /// What each probe was hit and cost; those that were never hit are left out.
    pub probes: Vec<ProbeCost>,
    /// The agent's CPU time, s.
    pub cpu_s: f64,
    /// Its resident memory, bytes.
    pub rss_bytes: u64,
    /// What is shed now to keep within the budget, in the order it was shed.
    pub shed: Vec<&'static str>,
}

/// What a probe costs the processes that pass it.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct ProbeCost {
    /// `statements`, `scheduler` (context switches of the whole host) or `locks`.
    pub name: &'static str,
    /// Hits since the agent began.
    pub hits: u64,
    /// One trap with an empty program, timed on the agent itself, ns; `None` where there is none,
    /// or it was not timed.
    pub trap_ns: Option<f64>,
    /// Mean run time of its program with everything on, as the kernel counted it, ns.
    pub program_ns: Option<f64>,
}

impl ProbeCost {
    /// What a hit costs as far as it is known, ns.
    pub fn hit_ns(&self) -> f64 {
        self.trap_ns.unwrap_or(0.0) + self.program_ns.unwrap_or(0.0)
    }

    /// What all hits cost, as far as it is known, s.
    pub fn cpu_s(&self) -> f64 {
        self.hits as f64 * self.hit_ns() / 1e9
    }
}

/// One server.
#[derive(Debug, Clone)]
pub struct ServerView {
    /// Which.
    pub id: ServerId,
    /// Process id.
    pub pid: u32,
    /// `mysql` or `mariadb`.
    pub flavour: &'static str,
    /// As the binary says it.
    pub version: Arc<str>,
    /// How operators know it: port, else socket, else process id.
    pub instance: Arc<str>,
    /// Which eye.
    pub source: SourceKind,
    /// What that can know.
    pub abilities: Abilities,
    /// When watching began, us since 1970.
    pub started_us: u64,
    /// The same on the monotonic clock, ns.
    pub started_ns: u64,
    /// Why it is watched no more.
    pub ended: Option<Arc<str>>,
    /// Hits of the probe, as its kernel half counted them; 0 for other sources.
    pub hits: u64,
    /// Statements captured.
    pub captured: u64,
    /// Of these, statements within routines and triggers: a server counts them in `Queries`, not in
    /// `Questions`.
    pub in_routines: u64,
    /// Statements of the agent itself, which are not among these.
    pub own: u64,
    /// Statements lost, by cause.
    pub lost: Vec<(&'static str, u64)>,
    /// Statements captured with less than all, by cause (`text_truncated`, `text_shed`, ...).
    pub degraded: Vec<(&'static str, u64)>,
    /// Ends of commands that are no statements.
    pub other_commands: u64,
    /// By digest, most total time first.
    pub digests: Vec<DigestView>,
    /// Statements that found the table of digests full, summed.
    pub other: Option<DigestView>,
    /// Digests that were idle and had to make room, summed. Each was in earlier views with the
    /// same sums, so who takes differences by key leaves this out; who adds up a view does not:
    /// captured = digests + other + retired.
    pub retired: Option<DigestView>,
    /// Time by class, for average active sessions, by each dimension.
    pub load: LoadView,
    /// Waits that go on now.
    pub waits: Vec<LockWait>,
    /// Waits that ended since the agent began: count and total us by kind
    /// (row, metadata, table).
    pub waits_ended: [(u64, u64); 3],
    /// Latest deadlocks, newest last.
    pub deadlocks: Vec<Deadlock>,
    /// Deadlocks in all.
    pub deadlock_count: u64,
    /// Its process.
    pub process: Option<ProcessSample>,
    /// Its status counters.
    pub status: Option<ServerStatus>,
}

/// Seconds of sessions by what they were doing: cpu, runnable, each wait class, and unclassified
/// (a statement's time that no source split).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionTime {
    /// On a processor, s.
    pub cpu_s: f64,
    /// Ready but not running, s.
    pub runnable_s: f64,
    /// Blocked, by class in the order of [`WaitClass::ALL`], s.
    pub blocked_s: [f64; WaitClass::COUNT],
    /// Not split, s.
    pub unclassified_s: f64,
}

impl SessionTime {
    /// All together, s.
    pub fn total_s(&self) -> f64 {
        self.cpu_s + self.runnable_s + self.blocked_s.iter().sum::<f64>() + self.unclassified_s
    }
}

/// Session time by dimension; the change of a value over a second is average active sessions.
#[derive(Debug, Clone, Default)]
pub struct LoadView {
    /// All sessions, finished statements and those that go on.
    pub all: SessionTime,
    /// By user, most time first; the last may be `other`.
    pub users: Vec<(Arc<str>, SessionTime)>,
    /// By default database.
    pub databases: Vec<(Arc<str>, SessionTime)>,
    /// By client host.
    pub hosts: Vec<(Arc<str>, SessionTime)>,
}

/// Sums of one digest.
#[derive(Debug, Clone)]
pub struct DigestView {
    /// Hash of the fingerprint: the same digest has the same key in every view.
    pub key: u64,
    /// Id as Percona's tools print it; `other` for what is beyond the bound.
    pub digest: Arc<str>,
    /// Without literals.
    pub fingerprint: Arc<str>,
    /// OpenTelemetry's query summary (`SELECT orders`), at most 255 characters.
    pub summary: Arc<str>,
    /// Default database of the first such statement.
    pub database: Arc<str>,
    /// User of the first such statement.
    pub user: Arc<str>,
    /// When it was first and last seen, us since 1970.
    pub seen_us: (u64, u64),
    /// Statements with an error.
    pub errors: u64,
    /// Latencies; their count is the count of statements.
    pub latency: CompactHistogram,
    /// Where the time went.
    pub time: SessionTime,
    /// Sums; `None` if the source cannot know.
    pub rows_sent: Option<u64>,
    /// As above.
    pub rows_examined: Option<u64>,
    /// As above.
    pub rows_affected: Option<u64>,
    /// As above.
    pub warnings: Option<u64>,
    /// Lock time, s.
    pub lock_s: Option<f64>,
    /// Temporary tables, and of these on disk.
    pub tmp_tables: Option<(u64, u64)>,
    /// Statements with a full scan, and with a full join.
    pub full_scans: Option<(u64, u64)>,
    /// Statements that used no key or no good one.
    pub no_index: Option<u64>,
    /// Bytes read from and written to storage.
    pub storage_bytes: Option<(u64, u64)>,
    /// Context switches, voluntary and forced.
    pub switches: Option<(u64, u64)>,
}
