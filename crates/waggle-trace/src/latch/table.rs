//! Waits summed by latch: how long, asked for where, held by whom.
//!
//! Invariant: bounded, whatever the server does. What finds no room any more is summed in a last
//! row of its own; the sums are whole.

use std::collections::{HashMap, HashSet};

use hdrhistogram::Histogram;

use super::join::Wait;
use super::seen::{Kind, LatchId, Mode, Request};
use crate::event::StackId;

/// Most rows; one more holds the rest.
const ROWS_MAX: usize = 4096;
/// Most requests, holders and waiters' stacks of a row.
const PARTS_MAX: usize = 256;
/// Most addresses and threads that are told apart.
const DISTINCT_MAX: usize = 4096;
/// Intervals of a row's contended time that may still grow together.
const INTERVALS_MAX: usize = 1024;

/// A name in the caller's table of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub u32);

/// Where rows that found no room are summed.
pub const THE_REST: Name = Name(u32::MAX);

/// What holders are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HolderKey {
    /// What the thread does, by its name.
    pub role: Name,
    /// Where it let go.
    pub stack: Option<StackId>,
}

/// What holders did to waiters.
#[derive(Debug)]
pub struct HolderRow {
    /// Waits during which such a thread held the latch.
    pub waits: u64,
    /// How long it kept waiters waiting, summed over waiters, ns.
    pub blocked_ns: u64,
    /// The longest of these, ns.
    pub longest_ns: u64,
    /// How long it held the latch, where its coming was seen, ns.
    hold_ns: Histogram<u64>,
    /// Threads.
    pub threads: HashSet<u32>,
}

/// A place that asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestRow {
    /// Waits.
    pub waits: u64,
    /// Their sum, ns.
    pub wait_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// One latch, or all of one name.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub name: Name,
    /// Of what sort.
    pub kind: Kind,
    /// Different latches of that name, up to a bound.
    pub latches: HashSet<LatchId>,
    /// Threads that waited.
    pub waiters: HashSet<u32>,
    /// Sleeps; a wait has at least one.
    pub sleeps: u64,
    /// Waits, ns.
    wait_ns: Histogram<u64>,
    /// Their sum, ns.
    pub total_ns: u64,
    /// Of it, with a holder that is known, ns.
    pub held_ns: u64,
    /// From a release to the next holder's or the waiter's running, ns.
    pub handing_over_ns: u64,
    /// With a holder that is not known, ns.
    pub unobserved_ns: u64,
    /// Releases while somebody waited, each counted once for each wait that it fell in.
    pub releases: u64,
    /// Waits that were flagged, which are in no other figure.
    pub flagged: u64,
    /// Waits whose first holder was named by the owner's word, too.
    pub word_agrees: u64,
    /// Waits of which the word named somebody else.
    pub word_differs: u64,
    /// By place and mode.
    pub requests: HashMap<(Option<Request>, Mode, Option<StackId>), RequestRow>,
    /// By role and stack.
    pub holders: HashMap<HolderKey, HolderRow>,
    contended: Contended,
}

impl Row {
    fn new(name: Name, kind: Kind) -> Self {
        Self {
            name,
            kind,
            latches: HashSet::new(),
            waiters: HashSet::new(),
            sleeps: 0,
            wait_ns: histogram(),
            total_ns: 0,
            held_ns: 0,
            handing_over_ns: 0,
            unobserved_ns: 0,
            releases: 0,
            flagged: 0,
            word_agrees: 0,
            word_differs: 0,
            requests: HashMap::new(),
            holders: HashMap::new(),
            contended: Contended::default(),
        }
    }

    /// Waits, without those that were flagged.
    pub fn waits(&self) -> u64 {
        self.wait_ns.len()
    }

    /// The waits' lengths.
    pub fn spread(&self) -> Spread {
        Spread::of(&self.wait_ns)
    }

    /// Time during which at least one thread waited, ns.
    pub fn contended_ns(&self) -> u64 {
        self.contended.total_ns()
    }

    fn add(&mut self, wait: &Wait, role: &mut impl FnMut(u32) -> Name) {
        if self.latches.len() < DISTINCT_MAX {
            self.latches.insert(wait.latch);
        }
        if wait.flagged {
            self.flagged += 1;
            return;
        }
        if self.waiters.len() < DISTINCT_MAX {
            self.waiters.insert(wait.thread.tid);
        }
        let wait_ns = wait.to_ns - wait.from_ns;
        self.sleeps += u64::from(wait.sleeps);
        record(&mut self.wait_ns, wait_ns);
        self.total_ns += wait_ns;
        self.held_ns += wait.parts.held_ns();
        self.handing_over_ns += wait.parts.handing_over_ns;
        self.unobserved_ns += wait.parts.unobserved_ns;
        self.releases += u64::from(wait.parts.releases);
        match wait.word_agrees {
            Some(true) => self.word_agrees += 1,
            Some(false) => self.word_differs += 1,
            None => {}
        }
        self.contended.add(wait.from_ns, wait.to_ns);
        self.add_request(wait, wait_ns);
        for held in &wait.parts.held {
            self.add_holder(held, role);
        }
    }

    fn add_request(&mut self, wait: &Wait, wait_ns: u64) {
        let mut key = (wait.request, wait.mode, wait.stack);
        if self.requests.len() >= PARTS_MAX && !self.requests.contains_key(&key) {
            key = (None, Mode::Plain, None);
        }
        let request = self.requests.entry(key).or_default();
        request.waits += 1;
        request.wait_ns += wait_ns;
        request.longest_ns = request.longest_ns.max(wait_ns);
    }

    fn add_holder(&mut self, held: &super::held::Held, role: &mut impl FnMut(u32) -> Name) {
        let mut key = HolderKey {
            role: role(held.tid),
            stack: held.stack,
        };
        if self.holders.len() >= PARTS_MAX && !self.holders.contains_key(&key) {
            key = HolderKey {
                role: THE_REST,
                stack: None,
            };
        }
        let holder = self.holders.entry(key).or_insert_with(|| HolderRow {
            waits: 0,
            blocked_ns: 0,
            longest_ns: 0,
            hold_ns: histogram(),
            threads: HashSet::new(),
        });
        let ns = held.to_ns - held.from_ns;
        holder.waits += 1;
        holder.blocked_ns += ns;
        holder.longest_ns = holder.longest_ns.max(ns);
        if let Some(since_ns) = held.since_ns {
            record(&mut holder.hold_ns, held.to_ns - since_ns);
        }
        if holder.threads.len() < DISTINCT_MAX {
            holder.threads.insert(held.tid);
        }
    }
}

/// Grows with its largest value; two digits are exact.
fn histogram() -> Histogram<u64> {
    Histogram::new(2).expect("two digits can be had")
}

/// It grows for any value, so that none is refused.
fn record(histogram: &mut Histogram<u64>, ns: u64) {
    let _ = histogram.record(ns);
}

/// A distribution in numbers, us; two digits are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    fn of(histogram: &Histogram<u64>) -> Self {
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e3,
            p50: us(0.5),
            p95: us(0.95),
            p99: us(0.99),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

impl HolderRow {
    /// How long it held the latch, of those times whose beginning was seen.
    pub fn hold(&self) -> Option<Spread> {
        (!self.hold_ns.is_empty()).then(|| Spread::of(&self.hold_ns))
    }
}

/// Time covered by intervals that come in the order of their ends.
#[derive(Debug, Default)]
struct Contended {
    settled_ns: u64,
    /// Apart from each other, in order.
    open: Vec<(u64, u64)>,
}

impl Contended {
    fn add(&mut self, mut from_ns: u64, mut to_ns: u64) {
        while let Some(&(from, to)) = self.open.last() {
            if to < from_ns {
                break;
            }
            from_ns = from_ns.min(from);
            to_ns = to_ns.max(to);
            self.open.pop();
        }
        self.open.push((from_ns, to_ns));
        if self.open.len() > INTERVALS_MAX {
            let old = self.open.drain(..INTERVALS_MAX / 2);
            self.settled_ns += old.map(|(from, to)| to - from).sum::<u64>();
        }
    }

    fn total_ns(&self) -> u64 {
        self.settled_ns + self.open.iter().map(|(from, to)| to - from).sum::<u64>()
    }
}

/// All latches.
#[derive(Debug, Default)]
pub struct Table {
    rows: HashMap<(Name, Kind), Row>,
}

impl Table {
    /// Adds a wait for a latch called `name`; `role` says what a thread does.
    pub fn add(&mut self, wait: &Wait, name: Name, mut role: impl FnMut(u32) -> Name) {
        let mut key = (name, wait.kind);
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            key.0 = THE_REST;
        }
        let row = self.rows.entry(key);
        row.or_insert_with(|| Row::new(key.0, key.1))
            .add(wait, &mut role);
    }

    /// Rows, those with the most waiting first.
    pub fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.name, row.kind));
        rows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Contended, Spread, histogram, record};

    #[test]
    fn a_spread_is_of_what_was_recorded() {
        let mut all = histogram();
        for us in 1..=1_000 {
            record(&mut all, us * 1_000);
        }
        let spread = Spread::of(&all);
        assert_eq!(spread.count, 1_000);
        for (found, true_us) in [(spread.p50, 500.0), (spread.p99, 990.0), (spread.max, 1e3)] {
            assert!((found / true_us - 1.0).abs() < 0.01, "{spread:?}");
        }
    }

    proptest! {
        #[test]
        fn contended_time_is_the_union(
            spans in prop::collection::vec((0u64..500, 1u64..60), 1..80)
        ) {
            let mut spans: Vec<(u64, u64)> = spans.into_iter().map(|(a, n)| (a, a + n)).collect();
            spans.sort_by_key(|(_, to)| *to);
            let mut contended = Contended::default();
            let mut covered = [false; 600];
            for (from, to) in spans {
                contended.add(from, to);
                covered[from as usize..to as usize].fill(true);
            }
            let naive = covered.iter().filter(|c| **c).count() as u64;
            prop_assert_eq!(contended.total_ns(), naive);
        }
    }
}
