//! Which digests, users, databases and hosts have series of their own? The largest, and stably.
//!
//! A bounded number of slots for each server. Who has a slot keeps it until a rule takes it, and
//! all others are summed as `other`. Neighbours: [`page`](super::page) keeps one for each server
//! and dimension.
//!
//! Invariants:
//! - No counter falls, `other` least of all: what was counted in `other` before a digest got its
//!   slot stays there, and its own series begins with what came after; what a digest counted in
//!   its own series never comes back in `other`.
//! - So the sum over all series grows by just what the view's sum grew.
//! - A slot is given while one is free. After that, the smallest that had its slot for ten minutes
//!   gives way to one that has at least twice its time: no more than that many slots change in ten
//!   minutes, whatever the servers do.

use std::collections::HashMap;
use std::sync::Arc;

use super::row::Row;

/// A slot is kept at least so long, ns.
const KEEP_NS: u64 = 600_000_000_000;
/// Who takes a slot has at least so many times the time of who had it.
const LARGER: u64 = 2;

/// One of a dimension: its label and what the view says of it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) label: Arc<str>,
    pub(super) row: Row,
}

/// One that has series.
#[derive(Debug, Clone)]
pub(super) struct Selected {
    pub(super) label: Arc<str>,
    pub(super) row: Row,
    /// Its series begin with this page.
    pub(super) is_new: bool,
}

/// Who has series on this page; the last is `other`.
pub(super) type Selection = Vec<Selected>;

#[derive(Debug)]
struct Slot {
    /// What `other` had counted of it.
    base: Row,
    /// What its own series last said.
    said: Row,
    since_ns: u64,
}

/// The slots of one server and dimension.
#[derive(Debug)]
pub(super) struct Slots {
    capacity: usize,
    taken: HashMap<Arc<str>, Slot>,
    /// What `other` said of each of its parts on the page before.
    others: HashMap<Arc<str>, Row>,
    /// What series that are gone have said.
    gone: Row,
    other_said: Row,
    has_begun: bool,
    /// Slots that were taken away.
    pub(super) evicted: u64,
}

impl Slots {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            taken: HashMap::new(),
            others: HashMap::new(),
            gone: Row::default(),
            other_said: Row::default(),
            has_begun: false,
            evicted: 0,
        }
    }

    /// Turns the `items` of a view taken at `now_ns`, and what it sums as `rest`, into a page.
    /// Items called `other` go to the rest.
    pub(super) fn select(&mut self, items: Vec<Item>, rest: &[Row], now_ns: u64) -> Selection {
        let mut other = Row::default();
        rest.iter().for_each(|row| other.add(row));
        let items = self.merged(items, &mut other);
        self.let_go(&items);
        let fresh = self.admit(&items, now_ns);
        let mut page = Vec::with_capacity(self.taken.len() + 1);
        let mut others = HashMap::new();
        for item in items {
            let Some(slot) = self.taken.get_mut(&item.label) else {
                other.add(&item.row);
                others.insert(item.label, item.row);
                continue;
            };
            other.add(&slot.base);
            let mut row = item.row;
            row.take(&slot.base);
            row.at_least(&slot.said);
            slot.said = row.clone();
            page.push(Selected {
                is_new: fresh.contains(&item.label),
                label: item.label,
                row,
            });
        }
        // It begins with all that the others have, at 0: an increase can be told from then on.
        page.iter().for_each(|one| other.know(&one.row));
        other.take(&self.gone);
        other.at_least(&self.other_said);
        self.other_said = other.clone();
        self.others = others;
        page.push(Selected {
            label: "other".into(),
            row: other,
            is_new: !std::mem::replace(&mut self.has_begun, true),
        });
        page
    }

    /// One item a label, by time, most first; `other` is taken out.
    fn merged(&self, items: Vec<Item>, other: &mut Row) -> Vec<Item> {
        let mut places: HashMap<Arc<str>, usize> = HashMap::with_capacity(items.len());
        let mut merged: Vec<Item> = Vec::with_capacity(items.len());
        for item in items {
            if &*item.label == "other" {
                other.add(&item.row);
            } else if let Some(place) = places.get(&item.label) {
                merged[*place].row.add(&item.row);
            } else {
                places.insert(item.label.clone(), merged.len());
                merged.push(item);
            }
        }
        merged.sort_by_cached_key(|item| std::cmp::Reverse(item.row.time_ns()));
        merged
    }

    /// Slots of those that the view no longer has.
    fn let_go(&mut self, items: &[Item]) {
        let labels: std::collections::HashSet<&Arc<str>> =
            items.iter().map(|item| &item.label).collect();
        let gone = &mut self.gone;
        self.taken.retain(|label, slot| {
            let stays = labels.contains(label);
            if !stays {
                gone.add(&slot.said);
            }
            stays
        });
    }

    /// Gives free slots, then those that the rule takes away; returns who got one.
    fn admit(&mut self, items: &[Item], now_ns: u64) -> Vec<Arc<str>> {
        let mut fresh = Vec::new();
        // Smallest first: who may have to give way.
        let mut old: Vec<(u64, Arc<str>)> = Vec::new();
        for item in items.iter().rev() {
            if let Some(slot) = self.taken.get(&item.label)
                && now_ns.saturating_sub(slot.since_ns) >= KEEP_NS
            {
                old.push((item.row.time_ns(), item.label.clone()));
            }
        }
        let mut old = old.into_iter();
        for item in items {
            if self.taken.contains_key(&item.label) {
                continue;
            }
            if self.taken.len() >= self.capacity {
                let wanted = item.row.time_ns();
                let Some((_, label)) = old.next().filter(|(time, _)| *time * LARGER <= wanted)
                else {
                    break;
                };
                if let Some(slot) = self.taken.remove(&label) {
                    self.gone.add(&slot.said);
                    self.evicted += 1;
                }
            }
            let slot = Slot {
                base: self.others.remove(&item.label).unwrap_or_default(),
                said: Row::default(),
                since_ns: now_ns,
            };
            self.taken.insert(item.label.clone(), slot);
            fresh.push(item.label.clone());
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_agent::view::SessionTime;

    const MINUTE_NS: u64 = 60_000_000_000;

    fn item(label: &str, seconds: u64) -> Item {
        let time = SessionTime {
            cpu_s: seconds as f64,
            ..SessionTime::default()
        };
        Item {
            label: label.into(),
            row: Row::of_time(&time),
        }
    }

    fn said(page: &Selection) -> Vec<(String, u64)> {
        let seconds = |one: &Selected| one.row.time_ns() / 1_000_000_000;
        page.iter()
            .map(|one| (one.label.to_string(), seconds(one)))
            .collect()
    }

    fn pairs(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|(l, s)| ((*l).to_owned(), *s)).collect()
    }

    #[test]
    fn the_largest_have_series_and_keep_them() {
        let mut slots = Slots::new(2);
        let page = slots.select(vec![item("a", 5), item("b", 9), item("c", 7)], &[], 0);
        assert_eq!(said(&page), pairs(&[("b", 9), ("c", 7), ("other", 5)]));
        assert!(page.iter().all(|one| one.is_new));
        // a is now far larger, but b and c have their slots for a while.
        let now = vec![item("a", 900), item("b", 9), item("c", 8)];
        let page = slots.select(now.clone(), &[], 9 * MINUTE_NS);
        assert_eq!(said(&page), pairs(&[("b", 9), ("c", 8), ("other", 900)]));
        assert!(page.iter().all(|one| !one.is_new));
        // Then the smallest gives way. What other had counted of a stays there; c's is not
        // counted twice.
        let page = slots.select(now, &[], 10 * MINUTE_NS);
        assert_eq!(said(&page), pairs(&[("a", 0), ("b", 9), ("other", 900)]));
        let later = vec![item("a", 950), item("b", 9), item("c", 10)];
        let page = slots.select(later, &[], 11 * MINUTE_NS);
        assert_eq!(said(&page), pairs(&[("a", 50), ("b", 9), ("other", 902)]));
    }

    #[test]
    fn what_leaves_the_view_is_not_counted_again_in_the_rest() {
        let mut slots = Slots::new(2);
        slots.select(vec![item("a", 5), item("b", 9)], &[], 0);
        // The agent forgot a, whose 5 s and one more are in its own rest now.
        let rest = [item("", 6).row];
        let page = slots.select(vec![item("b", 9), item("c", 1)], &rest, 1);
        assert_eq!(said(&page), pairs(&[("b", 9), ("c", 1), ("other", 1)]));
    }

    #[test]
    fn labels_that_are_equal_are_one_and_other_is_the_rest() {
        let mut slots = Slots::new(9);
        let items = vec![item("a", 5), item("other", 2), item("a", 3)];
        let page = slots.select(items, &[], 0);
        assert_eq!(said(&page), pairs(&[("a", 8), ("other", 2)]));
    }

    /// Random views: no series ever falls, and all together say what the view says.
    #[test]
    fn counters_never_fall_and_lose_nothing() {
        let mut seed = 7u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut slots = Slots::new(5);
        let mut truth = vec![0u64; 30];
        let mut last: HashMap<Arc<str>, u64> = HashMap::new();
        let mut gone = 0;
        for step in 0..3000u64 {
            for time in &mut truth {
                *time += random(4) * random(50) * random(2);
            }
            if step % 40 == 0 {
                let turn = random(30) as usize;
                truth[turn] += 10_000;
            }
            let items = (0..30).map(|n| item(&format!("d{n}"), truth[n])).collect();
            let page = slots.select(items, &[], step * MINUTE_NS / 2);
            assert!(page.len() <= 6);
            let mut now = HashMap::new();
            for one in &page {
                let seconds = one.row.time_ns() / 1_000_000_000;
                if !one.is_new {
                    assert!(seconds >= last[&one.label], "{} fell", one.label);
                }
                now.insert(one.label.clone(), seconds);
            }
            for (label, seconds) in &last {
                let renewed = page.iter().any(|one| one.label == *label && one.is_new);
                if !now.contains_key(label) || (renewed && step > 0) {
                    gone += seconds;
                }
            }
            let all: u64 = now.values().sum();
            assert_eq!(all + gone, truth.iter().sum::<u64>(), "step {step}");
            last = now;
        }
        assert!(slots.evicted > 5, "{}", slots.evicted);
    }
}
