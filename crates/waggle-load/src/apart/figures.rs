//! What a load counted, as it goes between the two processes.
//!
//! Invariant: a count that nothing reaches and bars that are no histogram are refused; what was
//! taken can be added up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use waggle_stats::latency::{LatencyHistogram, SparseLatency};

use super::message::plain;
use super::socket::Broken;
use crate::clock::now_ns;
use crate::{Counters, ErrorCount, LoadReport, Offered, Operation, Snapshot, ThreadTotals};

/// More than anything is counted to, and far from where a sum would overflow.
const COUNT_MAX: u64 = 1 << 56;

/// A [`Snapshot`]; only bars that have something in them are sent.
#[derive(Serialize, Deserialize)]
pub(super) struct SnapshotForm {
    /// On the clock that both processes read.
    at_ns: u64,
    counters: Counters,
    /// Response, service, wait, lag.
    latencies: [SparseLatency; 4],
    /// Response and service.
    operations: BTreeMap<String, [SparseLatency; 2]>,
    statements: BTreeMap<String, SparseLatency>,
    errors: BTreeMap<u16, ErrorCount>,
    user_counters: BTreeMap<String, f64>,
    offered: Option<Offered>,
    cpu_ns: u64,
    threads_running: u32,
    downtime_ns: u64,
    threads: Vec<ThreadTotals>,
}

impl SnapshotForm {
    pub(super) fn new(snapshot: &Snapshot) -> SnapshotForm {
        let sparse = SparseLatency::from;
        let latencies = [
            &snapshot.response,
            &snapshot.service,
            &snapshot.wait,
            &snapshot.lag,
        ];
        let operations = snapshot.operations.iter();
        let statements = snapshot.statements.iter();
        let age = snapshot.at.elapsed().as_nanos() as u64;
        SnapshotForm {
            at_ns: now_ns().saturating_sub(age),
            counters: snapshot.counters,
            latencies: latencies.map(sparse),
            operations: operations
                .map(|(name, one)| (name.clone(), [sparse(&one.response), sparse(&one.service)]))
                .collect(),
            statements: statements
                .map(|(name, one)| (name.clone(), sparse(one)))
                .collect(),
            errors: snapshot.errors.clone(),
            user_counters: snapshot.user_counters.clone(),
            offered: snapshot.offered,
            cpu_ns: snapshot.cpu_ns,
            threads_running: snapshot.threads_running,
            downtime_ns: snapshot.downtime_ns,
            threads: snapshot.threads.clone(),
        }
    }

    /// As `message::ErrorForm::renamed`.
    pub(super) fn renamed(mut self, from: &str, to: &str) -> SnapshotForm {
        for error in self.errors.values_mut() {
            error.example = error.example.replace(from, to);
        }
        self
    }

    pub(super) fn into_snapshot(self) -> Result<Snapshot, Broken> {
        self.check()?;
        let [response, service, wait, lag] = self.latencies.map(latency);
        let age = Duration::from_nanos(now_ns().saturating_sub(self.at_ns));
        let now = Instant::now();
        let mut operations = BTreeMap::new();
        for (name, [response, service]) in self.operations {
            let (response, service) = (latency(response)?, latency(service)?);
            operations.insert(plain(name), Operation { response, service });
        }
        let mut statements = BTreeMap::new();
        for (name, one) in self.statements {
            statements.insert(plain(name), latency(one)?);
        }
        let errors = self.errors.into_iter().map(|(errno, error)| {
            let example = plain(error.example);
            (errno, ErrorCount { example, ..error })
        });
        let counters = self.user_counters.into_iter();
        Ok(Snapshot {
            at: now.checked_sub(age).unwrap_or(now),
            counters: self.counters,
            response: response?,
            service: service?,
            wait: wait?,
            lag: lag?,
            operations,
            statements,
            errors: errors.collect(),
            user_counters: counters.map(|(name, sum)| (plain(name), sum)).collect(),
            offered: self.offered,
            cpu_ns: self.cpu_ns,
            threads_running: self.threads_running,
            downtime_ns: self.downtime_ns,
            threads: self.threads,
        })
    }

    fn check(&self) -> Result<(), Broken> {
        check_counters(&self.counters)?;
        let threads = self.threads.iter();
        let offered = self.offered.unwrap_or_default();
        counts(
            threads
                .flat_map(|thread| [thread.transactions, thread.busy_ns])
                .chain(self.errors.values().map(|error| error.count))
                .chain([self.cpu_ns, self.downtime_ns])
                .chain([offered.due, offered.begun, offered.dropped])
                .chain([offered.forgotten, offered.backlog, offered.backlog_max])
                .chain([offered.backlog_age_ns]),
        )
    }
}

/// A [`LoadReport`].
#[derive(Serialize, Deserialize)]
pub(super) struct ReportForm {
    counters: Counters,
    latency: SparseLatency,
    duration: Duration,
    cpu_ns: u64,
    errors_by_errno: BTreeMap<u16, u64>,
    last: SnapshotForm,
}

impl ReportForm {
    pub(super) fn new(report: &LoadReport) -> ReportForm {
        ReportForm {
            counters: report.counters,
            latency: SparseLatency::from(&report.latency),
            duration: report.duration,
            cpu_ns: report.cpu_ns,
            errors_by_errno: report.errors_by_errno.clone(),
            last: SnapshotForm::new(&report.last),
        }
    }

    /// As `message::ErrorForm::renamed`.
    pub(super) fn renamed(mut self, from: &str, to: &str) -> ReportForm {
        self.last = self.last.renamed(from, to);
        self
    }

    pub(super) fn into_report(self) -> Result<LoadReport, Broken> {
        check_counters(&self.counters)?;
        counts(self.errors_by_errno.values().copied().chain([self.cpu_ns]))?;
        Ok(LoadReport {
            counters: self.counters,
            latency: latency(self.latency)?,
            duration: self.duration.min(Duration::from_nanos(COUNT_MAX)),
            cpu_ns: self.cpu_ns,
            errors_by_errno: self.errors_by_errno,
            last: self.last.into_snapshot()?,
        })
    }
}

/// A histogram as it can be.
pub(super) fn latency(sparse: SparseLatency) -> Result<LatencyHistogram, Broken> {
    LatencyHistogram::try_from(sparse).map_err(|error| Broken::Garbage(error.to_string()))
}

pub(super) fn check_counters(counters: &Counters) -> Result<(), Broken> {
    let Counters {
        queries,
        transactions,
        errors,
        reads,
        writes,
        other,
        prepares,
        reconnects,
    } = *counters;
    counts([
        queries,
        transactions,
        errors,
        reads,
        writes,
        other,
        prepares,
        reconnects,
    ])
}

/// Nothing counts so far.
pub(super) fn counts(counts: impl IntoIterator<Item = u64>) -> Result<(), Broken> {
    match counts.into_iter().find(|count| *count > COUNT_MAX) {
        None => Ok(()),
        Some(count) => Err(Broken::Garbage(format!("a count of {count}"))),
    }
}
