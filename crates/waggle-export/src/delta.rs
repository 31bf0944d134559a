//! What happened between two views?
//!
//! A view's figures are cumulative; stores that add up rows want what came since the last one.
//! Neighbours: `clickhouse` writes these differences, `otlp` sums them into series of its own.
//! Invariants: the differences of a digest add up to its figures in the last view, whatever views
//! were skipped; a figure that shrank began anew (the digest was evicted and came back, or the
//! server is another one), so all of it is new; nothing is ever negative.

use std::collections::HashMap;
use std::sync::Arc;

use waggle_agent::WaitClass;
use waggle_agent::statement::ServerId;
use waggle_agent::view::{DigestView, ServerView, SessionTime};

/// Where session time went, ns: on a processor, runnable, blocked by class, not split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionNs {
    pub(crate) cpu: u64,
    pub(crate) runnable: u64,
    pub(crate) blocked: [u64; WaitClass::COUNT],
    pub(crate) unclassified: u64,
}

impl SessionNs {
    /// Seconds become whole nanoseconds, so that differences add up exactly.
    pub(crate) fn of(time: &SessionTime) -> Self {
        Self {
            cpu: ns(time.cpu_s),
            runnable: ns(time.runnable_s),
            blocked: time.blocked_s.map(ns),
            unclassified: ns(time.unclassified_s),
        }
    }

    /// Statements that go on are counted with what they took so far, so single classes may shrink
    /// by rounding; that is no new beginning.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut blocked = self.blocked;
        for (now, before) in blocked.iter_mut().zip(before.blocked) {
            *now = now.saturating_sub(before);
        }
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            runnable: self.runnable.saturating_sub(before.runnable),
            blocked,
            unclassified: self.unclassified.saturating_sub(before.unclassified),
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.cpu += more.cpu;
        self.runnable += more.runnable;
        for (sum, more) in self.blocked.iter_mut().zip(more.blocked) {
            *sum += more;
        }
        self.unclassified += more.unclassified;
    }

    /// The larger of both, class by class: what was handed out so far.
    fn most(&self, other: &Self) -> Self {
        let mut blocked = self.blocked;
        for (most, other) in blocked.iter_mut().zip(other.blocked) {
            *most = (*most).max(other);
        }
        Self {
            cpu: self.cpu.max(other.cpu),
            runnable: self.runnable.max(other.runnable),
            blocked,
            unclassified: self.unclassified.max(other.unclassified),
        }
    }
}

/// Seconds to nanoseconds; nothing for what is no time.
pub(crate) fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Sums that a source may not know, in the order of [`OPTIONAL`].
pub(crate) type Optional = [Option<u64>; OPTIONAL.len()];

/// Names of the sums that a source may not know; the unit last where it is not a count.
pub(crate) const OPTIONAL: [&str; 14] = [
    "rows_sent",
    "rows_examined",
    "rows_affected",
    "warnings",
    "lock_ns",
    "tmp_tables",
    "tmp_disk_tables",
    "full_scans",
    "full_joins",
    "no_index",
    "storage_read_bytes",
    "storage_written_bytes",
    "switches_voluntary",
    "switches_forced",
];

fn optional(view: &DigestView) -> Optional {
    let first = |pair: Option<(u64, u64)>| pair.map(|pair| pair.0);
    let second = |pair: Option<(u64, u64)>| pair.map(|pair| pair.1);
    [
        view.rows_sent,
        view.rows_examined,
        view.rows_affected,
        view.warnings,
        view.lock_s.map(ns),
        first(view.tmp_tables),
        second(view.tmp_tables),
        first(view.full_scans),
        second(view.full_scans),
        view.no_index,
        first(view.storage_bytes),
        second(view.storage_bytes),
        first(view.switches),
        second(view.switches),
    ]
}

/// Figures of one digest: cumulative, or what came since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) latency_ns: u64,
    /// Upper bound of a bucket, ns, and how many latencies lie in it; by bound, none is empty.
    pub(crate) bars: Vec<(u64, u64)>,
    pub(crate) time: SessionNs,
    pub(crate) optional: Optional,
}

impl Sums {
    pub(crate) fn of(view: &DigestView) -> Self {
        Self {
            count: view.latency.count(),
            errors: view.errors,
            latency_ns: view.latency.sum_ns(),
            bars: view
                .latency
                .bars()
                .map(|(_, upper, count)| (upper as u64, count))
                .collect(),
            time: SessionNs::of(&view.time),
            optional: optional(view),
        }
    }

    /// Whether these are the figures of `view`, by the cheap ones.
    fn is_of(&self, view: &DigestView) -> bool {
        self.count == view.latency.count()
            && self.errors == view.errors
            && self.latency_ns == view.latency.sum_ns()
            && self.time == SessionNs::of(&view.time)
    }

    /// Whether these figures cannot be a continuation of `before`.
    fn began_anew(&self, before: &Self) -> bool {
        self.count < before.count
            || self.errors < before.errors
            || self.latency_ns < before.latency_ns
            || since_bars(&self.bars, &before.bars).is_none()
    }

    fn since(&self, before: &Self) -> Self {
        let mut optional = self.optional;
        for (now, before) in optional.iter_mut().zip(before.optional) {
            *now = now.map(|now| now.saturating_sub(before.unwrap_or(0)));
        }
        Self {
            count: self.count - before.count,
            errors: self.errors - before.errors,
            latency_ns: self.latency_ns - before.latency_ns,
            bars: since_bars(&self.bars, &before.bars).unwrap_or_default(),
            time: self.time.since(&before.time),
            optional,
        }
    }

    /// Nothing happened.
    pub(crate) fn is_empty(&self) -> bool {
        *self
            == Self {
                optional: self.optional.map(|sum| sum.map(|_| 0)),
                ..Self::default()
            }
    }

    /// Adds `more` to these.
    pub(crate) fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.errors += more.errors;
        self.latency_ns = self.latency_ns.saturating_add(more.latency_ns);
        for &(upper, count) in &more.bars {
            match self.bars.binary_search_by_key(&upper, |bar| bar.0) {
                Ok(at) => self.bars[at].1 += count,
                Err(at) => self.bars.insert(at, (upper, count)),
            }
        }
        for (sum, more) in self.optional.iter_mut().zip(more.optional) {
            *sum = match (*sum, more) {
                (None, None) => None,
                (sum, more) => Some(sum.unwrap_or(0) + more.unwrap_or(0)),
            };
        }
        self.time.add(&more.time);
    }
}

/// Bars of `now` less those of `before`; `None` if one of them shrank.
fn since_bars(now: &[(u64, u64)], before: &[(u64, u64)]) -> Option<Vec<(u64, u64)>> {
    let mut before = before.iter().peekable();
    let mut difference = Vec::with_capacity(now.len());
    for &(upper, count) in now {
        let mut grown = count;
        if let Some(&&(bound, old)) = before.peek() {
            if bound < upper {
                return None;
            }
            if bound == upper {
                grown = count.checked_sub(old)?;
                before.next();
            }
        }
        if grown > 0 {
            difference.push((upper, grown));
        }
    }
    before.peek().is_none().then_some(difference)
}

/// What was handed out so far, of one server.
#[derive(Debug, Default)]
struct Known {
    digests: HashMap<u64, (Sums, u64)>,
    other: Option<Sums>,
    retired: Option<Sums>,
    load: HashMap<(u8, Arc<str>), (SessionNs, u64)>,
    counters: HashMap<(&'static str, &'static str), u64>,
}

/// Remembers what was handed out, by server.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    servers: HashMap<ServerId, Known>,
    /// Number of the latest view.
    generation: u64,
}

impl Deltas {
    /// Call once for each view, with all its servers, before any other call.
    pub(crate) fn begin(&mut self, servers: &[ServerView]) {
        self.generation += 1;
        self.servers
            .retain(|id, _| servers.iter().any(|server| server.id == *id));
    }

    /// What came of each digest since the last call; digests without news are left out. `None`:
    /// digests beyond the bound, and what had to make room before a view of it was seen here.
    pub(crate) fn digests<'a>(
        &mut self,
        server: &'a ServerView,
        mut each: impl FnMut(Option<&'a DigestView>, Sums),
    ) {
        let generation = self.generation;
        let known = self.servers.entry(server.id).or_default();
        // Figures that the view has no more under their digest.
        let mut gone = Sums::default();
        for view in &server.digests {
            let slot = known.digests.entry(view.key).or_default();
            slot.1 = generation;
            if slot.0.is_of(view) {
                continue;
            }
            let now = Sums::of(view);
            if now.began_anew(&slot.0) {
                gone.add(&slot.0);
                slot.0 = Sums::default();
            }
            let news = now.since(&slot.0);
            slot.0 = now;
            if !news.is_empty() {
                each(Some(view), news);
            }
        }
        known.digests.retain(|_, (sums, seen)| {
            let stays = *seen == generation;
            if !stays {
                gone.add(sums);
            }
            stays
        });
        let mut beyond = grown(&mut known.other, server.other.as_ref());
        let retired = grown(&mut known.retired, server.retired.as_ref());
        // All that went was seen here before, unless views were skipped: the rest is news.
        if !retired.began_anew(&gone) {
            beyond.add(&retired.since(&gone));
        }
        if !beyond.is_empty() {
            each(None, beyond);
        }
    }

    /// Session time of one value of one dimension since the last call.
    pub(crate) fn load(
        &mut self,
        server: &ServerView,
        dimension: u8,
        name: &Arc<str>,
        time: &SessionTime,
    ) -> SessionNs {
        let generation = self.generation;
        let known = self.servers.entry(server.id).or_default();
        let now = SessionNs::of(time);
        let slot = known
            .load
            .entry((dimension, Arc::clone(name)))
            .or_insert((SessionNs::default(), generation));
        let news = now.since(&slot.0);
        *slot = (now.most(&slot.0), generation);
        news
    }

    /// Forgets values of dimensions that the view has no more. Call after all of [`Self::load`].
    pub(crate) fn end_load(&mut self, server: &ServerView) {
        let generation = self.generation;
        if let Some(known) = self.servers.get_mut(&server.id) {
            known.load.retain(|_, (_, seen)| *seen == generation);
        }
    }

    /// What came to a counter since the last call.
    pub(crate) fn counter(
        &mut self,
        server: &ServerView,
        kind: &'static str,
        cause: &'static str,
        now: u64,
    ) -> u64 {
        let known = self.servers.entry(server.id).or_default();
        let before = known.counters.insert((kind, cause), now).unwrap_or(0);
        if now < before { now } else { now - before }
    }
}

/// What came to sums that belong to no digest.
fn grown(known: &mut Option<Sums>, view: Option<&DigestView>) -> Sums {
    let Some(view) = view else {
        return Sums::default();
    };
    let now = Sums::of(view);
    let before = known.take().unwrap_or_default();
    let news = if now.began_anew(&before) {
        now.clone()
    } else {
        now.since(&before)
    };
    *known = Some(now);
    news
}

#[cfg(test)]
mod tests;
