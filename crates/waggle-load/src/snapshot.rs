//! Everything a load has counted up to one moment, and the difference of two moments.
//!
//! Reports, progress lines and samples are all made from these; `tally` holds what they are read
//! from. Invariant: a snapshot is cumulative since the load started, so that any two of them give
//! the interval between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use waggle_stats::latency::LatencyHistogram;

use crate::Counters;
use crate::clock::now_ns;
use crate::context::Shared;
use crate::recorder::{Recorder, Totals};
use crate::tally::{Recorders, Tally, locked};

/// What a load counted from its start, or between two moments.
///
/// How the end of an open loop is counted: nothing becomes due once the load is stopped (or
/// paused); events in flight run to their end and are recorded; events that are due by then and
/// were not begun are in [`Offered::backlog`], in no histogram: a response time they would have
/// had is unknown, and at least [`Offered::backlog_age_ns`] for the oldest. A pause forgets the
/// backlog ([`Offered::forgotten`]), so that a measurement never begins with a warm-up's queue.
/// `wait` and `lag` are recorded when an event begins, `response` and `service` when it ends well.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Instant,
    /// Statements, transactions, errors.
    pub counters: Counters,
    /// From the intended start of each event to its end, in nanoseconds. In a closed loop an event
    /// is intended to start when it starts.
    pub response: LatencyHistogram,
    /// Open loop only, else empty: from the actual start of each event to its end.
    pub service: LatencyHistogram,
    /// Open loop only, else empty: from the intended to the actual start.
    pub wait: LatencyHistogram,
    /// Open loop only, else empty: the generator's own lag, from the intended to the actual start
    /// of events for which a thread stood ready.
    pub lag: LatencyHistogram,
    /// By name: the kinds of events a script labelled (`waggle.operation`).
    pub operations: BTreeMap<String, Operation>,
    /// By text (prepared) or first word (text): the statements, if the spec asks for them.
    pub statements: BTreeMap<String, LatencyHistogram>,
    /// By error number: errors that restarted an event or broke a connection.
    pub errors: BTreeMap<u16, ErrorCount>,
    /// By name: what a script counted (`waggle.counter`).
    pub user_counters: BTreeMap<String, f64>,
    /// Open loop only.
    pub offered: Option<Offered>,
    /// CPU time of the worker threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Workers that have not ended.
    pub threads_running: u32,
    /// Time that workers spent without a connection, summed over them, in nanoseconds.
    pub downtime_ns: u64,
    /// By index of the worker.
    pub threads: Vec<ThreadTotals>,
}

/// What one worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTotals {
    /// Events that ended well.
    pub transactions: u64,
    /// The sum of their response times, in nanoseconds.
    pub busy_ns: u64,
}

impl ThreadTotals {
    fn since(&self, earlier: Option<&ThreadTotals>) -> ThreadTotals {
        let earlier = earlier.copied().unwrap_or_default();
        ThreadTotals {
            transactions: self.transactions.saturating_sub(earlier.transactions),
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
        }
    }
}

/// One kind of event.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// As [`Snapshot::response`].
    pub response: LatencyHistogram,
    /// As [`Snapshot::service`].
    pub service: LatencyHistogram,
}

/// One kind of error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// How often.
    pub count: u64,
    /// The first message, in the server's words.
    pub example: String,
}

/// What an open loop was asked for, and what became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Events that were due.
    pub due: u64,
    /// Events that a thread began.
    pub begun: u64,
    /// Events that were dropped ([`Overflow::Drop`](crate::Overflow)).
    pub dropped: u64,
    /// Events that waited when the load was paused or reset, and never begin.
    pub forgotten: u64,
    /// Events that are due and wait for a thread now (not a difference).
    pub backlog: u64,
    /// The most that waited at any reading or claim (not a difference).
    pub backlog_max: u64,
    /// How long the oldest of those has been waiting, in nanoseconds (not a difference).
    pub backlog_age_ns: u64,
}

impl Snapshot {
    /// Before anything was counted.
    pub(crate) fn nothing() -> Snapshot {
        Snapshot {
            at: Instant::now(),
            counters: Counters::default(),
            response: LatencyHistogram::new(),
            service: LatencyHistogram::new(),
            wait: LatencyHistogram::new(),
            lag: LatencyHistogram::new(),
            operations: BTreeMap::new(),
            statements: BTreeMap::new(),
            errors: BTreeMap::new(),
            user_counters: BTreeMap::new(),
            offered: None,
            cpu_ns: 0,
            threads_running: 0,
            downtime_ns: 0,
            threads: Vec::new(),
        }
    }

    /// What was counted since `earlier`, a snapshot of the same load.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let nothing = LatencyHistogram::new();
        let operation = |name: &String, operation: &Operation| {
            let before = earlier.operations.get(name);
            let difference = Operation {
                response: minus(
                    &operation.response,
                    before.map_or(&nothing, |before| &before.response),
                ),
                service: minus(
                    &operation.service,
                    before.map_or(&nothing, |before| &before.service),
                ),
            };
            (name.clone(), difference)
        };
        let statement = |name: &String, latency: &LatencyHistogram| {
            let before = earlier.statements.get(name).unwrap_or(&nothing);
            (name.clone(), minus(latency, before))
        };
        let error = |errno: &u16, error: &ErrorCount| {
            let before = earlier.errors.get(errno).map_or(0, |before| before.count);
            let count = error.count.saturating_sub(before);
            let example = error.example.clone();
            (count > 0).then_some((*errno, ErrorCount { count, example }))
        };
        let user_counter = |name: &String, value: &f64| {
            let before = earlier.user_counters.get(name).copied().unwrap_or(0.0);
            (name.clone(), value - before)
        };
        Snapshot {
            at: self.at,
            counters: self.counters.since(&earlier.counters),
            response: minus(&self.response, &earlier.response),
            service: minus(&self.service, &earlier.service),
            wait: minus(&self.wait, &earlier.wait),
            lag: minus(&self.lag, &earlier.lag),
            operations: each(&self.operations, operation),
            statements: each(&self.statements, statement),
            errors: self
                .errors
                .iter()
                .filter_map(|(errno, count)| error(errno, count))
                .collect(),
            user_counters: each(&self.user_counters, user_counter),
            offered: self.offered.map(|offered| match &earlier.offered {
                Some(earlier) => offered.since(earlier),
                None => offered,
            }),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            threads_running: self.threads_running,
            downtime_ns: self.downtime_ns.saturating_sub(earlier.downtime_ns),
            threads: self
                .threads
                .iter()
                .enumerate()
                .map(|(index, thread)| thread.since(earlier.threads.get(index)))
                .collect(),
        }
    }
}

fn each<T, U>(
    map: &BTreeMap<String, T>,
    change: impl Fn(&String, &T) -> (String, U),
) -> BTreeMap<String, U> {
    map.iter()
        .map(|(name, value)| change(name, value))
        .collect()
}

fn minus(later: &LatencyHistogram, earlier: &LatencyHistogram) -> LatencyHistogram {
    let mut difference = later.clone();
    difference.subtract(earlier);
    difference
}

impl Offered {
    fn since(&self, earlier: &Offered) -> Offered {
        Offered {
            due: self.due.saturating_sub(earlier.due),
            begun: self.begun.saturating_sub(earlier.begun),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            forgotten: self.forgotten.saturating_sub(earlier.forgotten),
            ..*self
        }
    }
}

/// Adds up what all threads counted; only reads.
pub(crate) fn read(shared: &Shared, tallies: &[Arc<Tally>]) -> Snapshot {
    let mut totals = Totals::new();
    let threads = recorders(tallies);
    let mut of = |recorder: &dyn Fn(&Recorders) -> Option<&Recorder>| {
        for recorder in threads.iter().filter_map(|thread| recorder(thread)) {
            recorder.add_to(&mut totals);
        }
        totals.take()
    };
    // What ended before what began: no reading shows more ends than beginnings.
    let response = of(&|thread| Some(&thread.response));
    let service = of(&|thread| thread.open.as_ref().map(|open| &open.service));
    let wait = of(&|thread| thread.open.as_ref().map(|open| &open.wait));
    let lag = of(&|thread| thread.open.as_ref().map(|open| &open.lag));
    let offered = shared.pace.as_ref().map(|pace| {
        let begun = tallies.iter().map(|tally| tally.begun()).sum();
        let (offered, too_many) = pace.offered(now_ns(), begun);
        if let Some(too_many) = too_many {
            shared.overflowed(too_many);
        }
        offered
    });
    Snapshot {
        at: Instant::now(),
        counters: counted(tallies),
        response,
        service,
        wait,
        lag,
        operations: operations(shared, &threads),
        statements: statements(shared, &threads),
        errors: locked(&shared.errors).clone(),
        user_counters: user_counters(shared, tallies),
        offered,
        cpu_ns: cpu_ns(tallies),
        threads_running: tallies.len() as u32 - shared.gate.ended(),
        downtime_ns: tallies.iter().map(|tally| tally.downtime_ns()).sum(),
        threads: tallies
            .iter()
            .map(|tally| ThreadTotals {
                transactions: tally.counters().transactions,
                busy_ns: tally.busy_ns(),
            })
            .collect(),
    }
}

pub(crate) fn counted(tallies: &[Arc<Tally>]) -> Counters {
    tallies.iter().fold(Counters::default(), |sum, tally| {
        sum.plus(&tally.counters())
    })
}

pub(crate) fn cpu_ns(tallies: &[Arc<Tally>]) -> u64 {
    tallies.iter().map(|tally| tally.cpu_ns()).sum()
}

pub(crate) fn response(tallies: &[Arc<Tally>]) -> LatencyHistogram {
    let mut totals = Totals::new();
    for thread in recorders(tallies) {
        thread.response.add_to(&mut totals);
    }
    totals.take()
}

/// Each thread's recorders, once.
fn recorders(tallies: &[Arc<Tally>]) -> Vec<&Recorders> {
    let mut seen = BTreeSet::new();
    let all = tallies.iter().map(|tally| &tally.recorders);
    all.filter(|thread| seen.insert(Arc::as_ptr(thread)))
        .map(AsRef::as_ref)
        .collect()
}

/// What each thread made, by number.
fn grouped<T>(made: impl Iterator<Item = Vec<(u32, T)>>) -> BTreeMap<u32, Vec<T>> {
    let mut groups: BTreeMap<u32, Vec<T>> = BTreeMap::new();
    for (number, one) in made.flatten() {
        groups.entry(number).or_default().push(one);
    }
    groups
}

fn operations(shared: &Shared, threads: &[&Recorders]) -> BTreeMap<String, Operation> {
    let mut groups = grouped(threads.iter().map(|thread| thread.operations.all()));
    let (mut responses, mut services) = (Totals::new(), Totals::new());
    let named = shared.operations.all().into_iter().zip(0..);
    named
        .map(|(name, number)| {
            for recorders in groups.remove(&number).unwrap_or_default() {
                recorders.response.add_to(&mut responses);
                if let Some(service) = &recorders.service {
                    service.add_to(&mut services);
                }
            }
            let operation = Operation {
                response: responses.take(),
                service: services.take(),
            };
            (name, operation)
        })
        .collect()
}

fn statements(shared: &Shared, threads: &[&Recorders]) -> BTreeMap<String, LatencyHistogram> {
    let mut groups = grouped(threads.iter().map(|thread| thread.statements.all()));
    let mut totals = Totals::new();
    let named = shared.statements.all().into_iter().zip(0..);
    named
        .map(|(name, number)| {
            for recorder in groups.remove(&number).unwrap_or_default() {
                recorder.add_to(&mut totals);
            }
            (name, totals.take())
        })
        .collect()
}

fn user_counters(shared: &Shared, tallies: &[Arc<Tally>]) -> BTreeMap<String, f64> {
    let mut groups = grouped(tallies.iter().map(|tally| tally.sums.all()));
    let named = shared.user_counters.all().into_iter().zip(0..);
    named
        .map(|(name, number)| {
            let sums = groups.remove(&number).unwrap_or_default();
            (name, sums.iter().map(|sum| sum.read()).sum())
        })
        .collect()
}
