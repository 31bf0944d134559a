//! What do many waits have in common? Sums and histograms, filled wait by wait.
//!
//! Invariants: memory does not grow with the number of waits. The stages' sums add up to the waits'
//! sum in every group, since each wait brings all of its parts or none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;

use super::bars::{Bars, Latencies, bucket_begin, bucket_of};
use super::decompose::Wait;
use super::doing::Doing;
use crate::event::{StackId, Thread};
use crate::threads::RoleId;

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub struct AggregateSettings {
    /// Waits kept in full, the slowest.
    pub slowest: usize,
    /// Threads, and callers, told apart; those beyond are one group.
    pub groups: usize,
}

impl Default for AggregateSettings {
    fn default() -> Self {
        Self {
            slowest: 10,
            groups: 1024,
        }
    }
}

/// A stage over all waits.
#[derive(Debug, Clone, Default)]
pub struct StageTotals {
    /// Its time in the same waits; 0 in those that skipped it.
    pub latency: Latencies,
    /// All of it together, ns.
    pub sum_ns: u64,
    /// Waits that skipped it.
    pub skipped: u64,
    /// Waits that it took none of, though it was not skipped.
    pub instant: u64,
    /// What its threads were doing.
    pub doing: Doing,
    /// Who carried it out, waits by role.
    pub roles: BTreeMap<RoleId, u64>,
}

/// Waits with something in common.
#[derive(Debug, Clone)]
pub struct Group {
    /// How many.
    pub waits: u64,
    /// All of them together, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The parts' sums, in order, ns.
    pub parts_ns: Vec<u64>,
    bars: Bars,
}

/// Waits by how long they took, with what they were made of.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// The bucket of the shortest.
    first: u16,
    /// Numbers in a row.
    width: usize,
    /// A row a bucket, from the first to that of the longest: how many waits, all of them together,
    /// and their parts' sums in order, ns.
    rows: Vec<u64>,
}

/// A part of the waits: the slowest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// How many.
    pub waits: u64,
    /// Each took at least this, ns.
    pub at_least_ns: u64,
    /// All of them together, ns.
    pub sum_ns: u64,
    /// The parts' sums, in order, ns.
    pub parts_ns: Vec<u64>,
}

/// All waits.
#[derive(Debug)]
pub struct Aggregate {
    settings: AggregateSettings,
    /// How long they took.
    pub latency: Latencies,
    /// All of them together, ns.
    pub sum_ns: u64,
    /// One for each part of a wait.
    pub stages: Vec<StageTotals>,
    /// Wake-ups that led to another sleep.
    pub spurious: u64,
    /// By the waiter's role.
    pub by_role: FxHashMap<RoleId, Group>,
    /// By the waiter; `None`: those beyond the limit.
    pub by_thread: FxHashMap<Option<Thread>, Group>,
    /// By where the waiter was; `None`: not known, or beyond the limit.
    pub by_stack: FxHashMap<Option<StackId>, Group>,
    shape: Shape,
    slowest: BinaryHeap<Reverse<Slow>>,
}

/// A wait, by how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slow(Wait);

impl Ord for Slow {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = |slow: &Self| (slow.0.ns(), slow.0.start_ns, slow.0.waiter);
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Aggregate {
    /// No waits yet; `stages` without the part that is left at the end.
    pub fn new(stages: usize, settings: AggregateSettings) -> Self {
        Self {
            settings,
            latency: Latencies::default(),
            sum_ns: 0,
            stages: vec![StageTotals::default(); stages + 1],
            spurious: 0,
            by_role: FxHashMap::default(),
            by_thread: FxHashMap::default(),
            by_stack: FxHashMap::default(),
            shape: Shape::default(),
            slowest: BinaryHeap::new(),
        }
    }

    /// Adds a wait; `role` says who a thread is.
    pub fn add(&mut self, wait: &Wait, mut role: impl FnMut(Thread) -> RoleId) {
        let ns = wait.ns();
        self.latency.record(ns);
        self.sum_ns += ns;
        self.spurious += u64::from(wait.spurious);
        for (stage, part) in self.stages.iter_mut().zip(&wait.parts) {
            stage.latency.record(part.ns);
            stage.sum_ns += part.ns;
            stage.skipped += u64::from(part.skipped);
            stage.instant += u64::from(!part.skipped && part.ns == 0);
            stage.doing.add(&part.doing);
            if let Some(thread) = part.reached.and_then(|reached| reached.thread) {
                *stage.roles.entry(role(thread)).or_default() += 1;
            }
        }
        let parts = self.stages.len();
        let new = || Group::new(parts);
        let of_role = self.by_role.entry(role(wait.waiter)).or_insert_with(new);
        of_role.add(wait);
        let thread = Some(wait.waiter);
        bounded(&mut self.by_thread, thread, self.settings.groups, parts).add(wait);
        bounded(&mut self.by_stack, wait.stack, self.settings.groups, parts).add(wait);
        self.shape.add(wait);
        self.keep(wait);
    }

    /// The slowest waits kept in full, the slowest first.
    pub fn slowest(&self) -> Vec<&Wait> {
        let mut waits: Vec<&Slow> = self.slowest.iter().map(|Reverse(slow)| slow).collect();
        waits.sort_unstable_by(|a, b| b.cmp(a));
        waits.into_iter().map(|slow| &slow.0).collect()
    }

    /// The slowest waits: this share of all, or slightly more.
    pub fn slowest_share(&self, share: f64) -> Slice {
        self.shape.slowest(share)
    }

    fn keep(&mut self, wait: &Wait) {
        let is_full = self.slowest.len() >= self.settings.slowest;
        let fastest = self.slowest.peek().map_or(0, |Reverse(slow)| slow.0.ns());
        if is_full && wait.ns() <= fastest {
            return;
        }
        self.slowest.push(Reverse(Slow(wait.clone())));
        if self.slowest.len() > self.settings.slowest {
            self.slowest.pop();
        }
    }
}

/// The group of `key`, or that of all beyond the limit.
fn bounded<K: Eq + std::hash::Hash>(
    groups: &mut FxHashMap<Option<K>, Group>,
    key: Option<K>,
    most: usize,
    parts: usize,
) -> &mut Group {
    let is_beyond = groups.len() >= most && !groups.contains_key(&key);
    let key = key.filter(|_| !is_beyond);
    groups.entry(key).or_insert_with(|| Group::new(parts))
}

impl Group {
    /// No waits.
    pub fn new(parts: usize) -> Self {
        Self {
            waits: 0,
            sum_ns: 0,
            max_ns: 0,
            parts_ns: vec![0; parts],
            bars: Bars::default(),
        }
    }

    /// Adds a wait.
    pub fn add(&mut self, wait: &Wait) {
        self.waits += 1;
        self.sum_ns += wait.ns();
        self.max_ns = self.max_ns.max(wait.ns());
        for (sum, part) in self.parts_ns.iter_mut().zip(&wait.parts) {
            *sum += part.ns;
        }
        self.bars.record(wait.ns());
    }

    /// Adds another group.
    pub fn merge(&mut self, other: &Group) {
        self.waits += other.waits;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        for (sum, ns) in self.parts_ns.iter_mut().zip(&other.parts_ns) {
            *sum += ns;
        }
        self.bars.merge(&other.bars);
    }

    /// A quantile, to about 1%, ns.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.bars.quantile_ns(quantile).min(self.max_ns)
    }
}

/// Steps within a doubling: 64, so that a bucket is at most 1.6% wide.
const STEPS_BITS: u32 = 6;

impl Shape {
    fn add(&mut self, wait: &Wait) {
        let bucket = bucket(wait.ns());
        if self.rows.is_empty() {
            self.first = bucket;
            self.width = 2 + wait.parts.len();
        }
        if bucket < self.first {
            let before = usize::from(self.first - bucket) * self.width;
            drop(self.rows.splice(0..0, std::iter::repeat_n(0, before)));
            self.first = bucket;
        }
        let at = usize::from(bucket - self.first) * self.width;
        if at >= self.rows.len() {
            self.rows.resize(at + self.width, 0);
        }
        let row = &mut self.rows[at..at + self.width];
        row[0] += 1;
        row[1] += wait.ns();
        for (sum, part) in row[2..].iter_mut().zip(&wait.parts) {
            *sum += part.ns;
        }
    }

    /// The rows that are not empty, the slowest waits first, with the bucket of each.
    fn slowest_first(&self) -> impl Iterator<Item = (u16, &[u64])> {
        let rows = self.rows.chunks_exact(self.width.max(1)).enumerate().rev();
        let rows = rows.filter(|(_, row)| row[0] > 0);
        rows.map(|(index, row)| (self.first + index as u16, row))
    }

    fn slowest(&self, share: f64) -> Slice {
        let total: u64 = self.slowest_first().map(|(_, row)| row[0]).sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut slice = Slice::default();
        for (bucket, row) in self.slowest_first() {
            let parts_ns = &row[2..];
            if slice.waits >= wanted {
                break;
            }
            slice.waits += row[0];
            slice.sum_ns += row[1];
            slice.at_least_ns = bucket_low(bucket);
            slice.parts_ns.resize(parts_ns.len(), 0);
            for (sum, ns) in slice.parts_ns.iter_mut().zip(parts_ns) {
                *sum += ns;
            }
        }
        slice
    }
}

fn bucket(ns: u64) -> u16 {
    bucket_of(ns, STEPS_BITS)
}

fn bucket_low(bucket: u16) -> u64 {
    bucket_begin(bucket, STEPS_BITS)
}

#[cfg(test)]
mod tests;
