//! From sums that only grow to what came since the last reading.
//!
//! Neighbours: `reader` gives rows as the server has them. Invariants: the first reading of all
//! rows counts nothing; a row that began anew (a restart, a TRUNCATE) counts what it has, never a
//! negative difference; no more than [`KEYS_MAX`] rows are remembered.

use std::collections::{HashMap, HashSet};

/// Rows that are followed; a server has 10,000 by default.
pub(super) const KEYS_MAX: usize = 20_000;

/// Sums of one row: statements, latency, lock time, errors, warnings, rows sent, examined and
/// affected, temporary tables and those on disk, full scans, full joins, CPU time. Times in ps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures(pub(super) [u64; Figures::COUNT]);

impl Figures {
    pub(super) const COUNT: usize = 13;

    pub(super) fn count(&self) -> u64 {
        self.0[0]
    }

    pub(super) fn latency_ps(&self) -> u64 {
        self.0[1]
    }

    fn since(&self, before: &Self) -> Self {
        let mut delta = *self;
        for (new, old) in delta.0.iter_mut().zip(before.0) {
            *new = new.saturating_sub(old);
        }
        delta
    }
}

/// Database and digest; both may be missing.
pub(super) type Key = (Option<Vec<u8>>, Option<Vec<u8>>);

/// One row as the server has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) first_seen: String,
    pub(super) max_ps: u64,
    pub(super) figures: Figures,
}

/// A row that grew.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grown {
    pub(super) key: Key,
    pub(super) delta: Figures,
    pub(super) max_ps: u64,
    /// All it has came since the last reading.
    pub(super) is_new: bool,
}

#[derive(Debug)]
struct Known {
    first_seen: String,
    figures: Figures,
    /// The reading of all rows it was last in.
    generation: u32,
}

/// The rows at the last reading.
#[derive(Debug, Default)]
pub(super) struct Digests {
    rows: HashMap<Key, Known>,
    has_baseline: bool,
    generation: u32,
}

impl Digests {
    /// Takes a reading; `is_all` when it was not limited to rows that changed lately. What grew.
    pub(super) fn take(&mut self, rows: Vec<Row>, is_all: bool) -> Vec<Grown> {
        self.generation += u32::from(is_all);
        let mut grown = Vec::new();
        for row in rows {
            let delta = self.take_row(&row);
            if let Some((delta, is_new)) = delta.filter(|(delta, _)| delta.count() > 0) {
                grown.push(Grown {
                    key: row.key,
                    delta,
                    max_ps: row.max_ps,
                    is_new,
                });
            }
        }
        if is_all {
            self.has_baseline = true;
            let generation = self.generation;
            self.rows.retain(|_, known| known.generation == generation);
        }
        grown
    }

    /// What one row has more, and whether that is all it has. Nothing if that cannot be known.
    fn take_row(&mut self, row: &Row) -> Option<(Figures, bool)> {
        let generation = self.generation;
        let is_full = self.rows.len() >= KEYS_MAX;
        match self.rows.get_mut(&row.key) {
            Some(known) => {
                let began_anew = known.first_seen != row.first_seen
                    || row.figures.count() < known.figures.count();
                let delta = match began_anew {
                    true => row.figures,
                    false => row.figures.since(&known.figures),
                };
                known.figures = row.figures;
                known.generation = generation;
                if began_anew {
                    known.first_seen.clone_from(&row.first_seen);
                }
                Some((delta, began_anew))
            }
            None if is_full => None,
            None => {
                let known = Known {
                    first_seen: row.first_seen.clone(),
                    figures: row.figures,
                    generation,
                };
                self.rows.insert(row.key.clone(), known);
                self.has_baseline.then_some((row.figures, true))
            }
        }
    }

    /// A reading was taken that counts nothing, against which later ones count.
    pub(super) fn has_baseline(&self) -> bool {
        self.has_baseline
    }

    /// There is no room for more rows.
    #[cfg(test)]
    fn is_full(&self) -> bool {
        self.rows.len() >= KEYS_MAX
    }

    /// Digests of the rows that are followed.
    pub(super) fn digests(&self) -> HashSet<&[u8]> {
        self.rows
            .keys()
            .filter_map(|(_, digest)| digest.as_deref())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(digest: &str, first_seen: &str, count: u64) -> Row {
        let mut figures = Figures::default();
        figures.0[0] = count;
        figures.0[1] = count * 1000;
        Row {
            key: (None, Some(digest.into())),
            first_seen: first_seen.into(),
            max_ps: 1000,
            figures,
        }
    }

    fn counts(grown: &[Grown]) -> Vec<(u64, bool)> {
        grown
            .iter()
            .map(|one| (one.delta.count(), one.is_new))
            .collect()
    }

    #[test]
    fn the_first_reading_counts_nothing_and_later_ones_what_came() {
        let mut digests = Digests::default();
        assert!(digests.take(vec![row("a", "1", 7)], true).is_empty());
        let grown = digests.take(vec![row("a", "1", 9), row("b", "2", 3)], false);
        assert_eq!(counts(&grown), [(2, false), (3, true)]);
        assert_eq!(grown[0].delta.latency_ps(), 2000);
        assert!(digests.take(vec![row("a", "1", 9)], false).is_empty());
    }

    #[test]
    fn rows_that_begin_anew_count_what_they_have() {
        let mut digests = Digests::default();
        digests.take(vec![row("a", "1", 7), row("b", "1", 7)], true);
        // Truncated, and grown beyond what it was; truncated, and smaller within one second.
        let grown = digests.take(vec![row("a", "2", 8), row("b", "1", 2)], false);
        assert_eq!(counts(&grown), [(8, true), (2, true)]);
        // Gone with a restart: what has the same name later is another row.
        assert!(digests.take(vec![row("a", "2", 8)], true).is_empty());
        assert_eq!(
            counts(&digests.take(vec![row("b", "3", 4)], false)),
            [(4, true)]
        );
    }

    #[test]
    fn other_figures_never_go_below_nothing() {
        let mut digests = Digests::default();
        digests.take(vec![row("a", "1", 7)], true);
        let mut odd = row("a", "1", 8);
        odd.figures.0[1] = 5;
        let grown = digests.take(vec![odd], false);
        assert_eq!(
            (grown[0].delta.count(), grown[0].delta.latency_ps()),
            (1, 0)
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut digests = Digests::default();
        digests.take(Vec::new(), true);
        let rows = (0..KEYS_MAX + 5)
            .map(|n| row(&n.to_string(), "1", 1))
            .collect();
        assert_eq!(digests.take(rows, false).len(), KEYS_MAX);
        assert!(digests.is_full());
        let beyond = row(&(KEYS_MAX + 1).to_string(), "1", 1);
        assert!(!digests.digests().contains(&*beyond.key.1.unwrap()));
    }
}
