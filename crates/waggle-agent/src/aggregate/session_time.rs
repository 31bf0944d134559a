//! Where the sessions' time went, in all and by user, database and host.
//!
//! Nanoseconds inside, seconds in views. Invariant: what is counted in a dimension is the same
//! time as in every other one; names beyond a dimension's bound are summed as `other`.

use std::sync::Arc;

use waggle_probes::wait::WaitClass;

use super::table::Places;
use crate::statement::Times;
use crate::view::SessionTime;

/// Cpu, runnable, every wait class, unclassified.
const PARTS: usize = WaitClass::COUNT + 3;
const BLOCKED: usize = 2;
const UNCLASSIFIED: usize = PARTS - 1;

/// Time by part, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Split([u64; PARTS]);

impl Split {
    /// The split of one statement: what `times` does not explain of `latency_ns` is unclassified.
    pub(super) fn of(latency_ns: u64, times: Option<&Times>) -> Self {
        let mut parts = [0; PARTS];
        if let Some(times) = times {
            parts[0] = times.cpu_ns;
            parts[1] = times.runnable_ns;
            parts[BLOCKED..UNCLASSIFIED].copy_from_slice(&times.blocked_ns);
        }
        let explained: u64 = parts.iter().fold(0, |sum, part| sum.saturating_add(*part));
        parts[UNCLASSIFIED] = latency_ns.saturating_sub(explained);
        Self(parts)
    }

    /// The split of statements of which only the sums are known.
    pub(super) fn of_sums(latency_ns: u64, cpu_ns: Option<u64>) -> Self {
        let times = cpu_ns.map(|cpu_ns| Times {
            cpu_ns: cpu_ns.min(latency_ns),
            ..Times::default()
        });
        Self::of(latency_ns, times.as_ref())
    }

    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, part) in self.0.iter_mut().zip(other.0) {
            *sum += part;
        }
    }

    /// This, less what was counted of it before: never less than nothing in any part, and in all
    /// the difference of the two.
    pub(super) fn without(&self, counted: &Self) -> Self {
        let left = self.total_ns().saturating_sub(counted.total_ns());
        let mut parts = self.0;
        for (part, counted) in parts.iter_mut().zip(counted.0) {
            *part = part.saturating_sub(counted);
        }
        let over = Self(parts).total_ns();
        if over > left {
            let share = left as f64 / over as f64;
            for part in &mut parts {
                *part = (*part as f64 * share) as u64;
            }
        }
        Self(parts)
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn seconds(&self) -> SessionTime {
        let s = |at: usize| self.0[at] as f64 / 1e9;
        SessionTime {
            cpu_s: s(0),
            runnable_s: s(1),
            blocked_s: std::array::from_fn(|class| s(BLOCKED + class)),
            unclassified_s: s(UNCLASSIFIED),
        }
    }
}

/// Time by name.
#[derive(Debug)]
pub(super) struct Dimension {
    bound: usize,
    places: Places,
    /// Names as the server has them; they need not be UTF-8.
    names: Vec<Box<[u8]>>,
    entries: Vec<(Arc<str>, Split)>,
    other: Split,
    /// The place of the latest name: most statements have the name of the one before.
    last: usize,
}

impl Dimension {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            places: Places::default(),
            names: Vec::new(),
            entries: Vec::new(),
            other: Split::default(),
            last: usize::MAX,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, name: &[u8], split: &Split) {
        if self.names.get(self.last).is_none_or(|last| **last != *name) {
            match self.find(name) {
                Some(place) => self.last = place,
                None => return self.other.add(split),
            }
        }
        self.entries[self.last].1.add(split);
    }

    fn find(&mut self, name: &[u8]) -> Option<usize> {
        let key = waggle_digest::hash64(name);
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.names.len() == self.bound {
            return None;
        }
        let place = self.names.len();
        self.names.push(name.into());
        self.entries
            .push((super::redact::printable_name(name).into(), Split::default()));
        self.places.insert(key, place);
        Some(place)
    }

    /// The sum over all names.
    pub(super) fn all(&self) -> Split {
        let mut all = self.other;
        self.entries.iter().for_each(|(_, split)| all.add(split));
        all
    }

    /// Names by time, most first; `other` last, if there is any.
    pub(super) fn view(&self) -> Vec<(Arc<str>, SessionTime)> {
        let mut entries: Vec<&(Arc<str>, Split)> = self.entries.iter().collect();
        entries.sort_by_key(|(_, split)| std::cmp::Reverse(split.total_ns()));
        let mut view: Vec<_> = entries
            .into_iter()
            .map(|(name, split)| (Arc::clone(name), split.seconds()))
            .collect();
        if self.other.total_ns() > 0 {
            view.push(("other".into(), self.other.seconds()));
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_explained_is_unclassified_and_nothing_is_counted_twice() {
        let mut times = Times {
            cpu_ns: 300,
            runnable_ns: 50,
            ..Times::default()
        };
        times.blocked_ns[WaitClass::Latch.index()] = 600;
        let time = Split::of(1000, Some(&times)).seconds();
        assert_eq!(time.blocked_s[WaitClass::Latch.index()], 600e-9);
        assert_eq!((time.cpu_s, time.runnable_s), (300e-9, 50e-9));
        assert!((time.unclassified_s - 50e-9).abs() < 1e-15);
        assert_eq!(Split::of(1000, None).seconds().unclassified_s, 1000e-9);
        // Explained beyond the latency: the remainder is nothing, not an underflow.
        let over = Split::of(900, Some(&times));
        assert_eq!(over.seconds().unclassified_s, 0.0);
    }

    #[test]
    fn names_beyond_the_bound_are_other_and_the_sum_stays_whole() {
        let mut dimension = Dimension::new(3);
        let split = Split::of(10, None);
        for name in 0..100u32 {
            dimension.add(format!("u{}", name % 50).as_bytes(), &split);
        }
        let view = dimension.view();
        assert_eq!(view.len(), 4);
        assert_eq!(&*view[3].0, "other");
        assert_eq!(dimension.all().total_ns(), 1000);
        assert!((view.iter().map(|(_, t)| t.total_s()).sum::<f64>() - 1000e-9).abs() < 1e-15);
    }
}
