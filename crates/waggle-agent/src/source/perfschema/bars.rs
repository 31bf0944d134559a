//! Histograms of digests: what came since the last reading, bar by bar.
//!
//! A row of sums and its histogram are read one after the other while the server goes on, so they
//! are of two moments. Neighbours: `reader` asks for them. Invariant: the bars handed on are of
//! exactly as many statements as the row counts, or there are none; what a histogram has seen
//! beyond that is handed on with the next reading.

use std::collections::HashMap;

use super::digests::Key;

/// Histograms that are followed: those of the digests with the most time.
const HISTOGRAMS_MAX: usize = 2000;

/// Upper end of a bar (ps) and how many.
pub(super) type Bar = (u64, u64);

/// What was handed on of each histogram.
#[derive(Debug, Default)]
pub(super) struct Histograms(HashMap<Key, Vec<Bar>>);

impl Histograms {
    /// Takes a histogram as the server has it, of which `count` statements are to be handed on.
    /// `is_new`: all of it came since the last reading. Nothing if it was not followed so far.
    pub(super) fn take(&mut self, key: &Key, is_new: bool, now: &[Bar], count: u64) -> Vec<Bar> {
        if !self.0.contains_key(key) && self.0.len() >= HISTOGRAMS_MAX {
            return Vec::new();
        }
        let before = match (is_new, self.0.get_mut(key)) {
            (false, Some(before)) => std::mem::take(before),
            (true, _) => Vec::new(),
            (false, None) => {
                // From here on.
                self.0.insert(key.clone(), now.to_vec());
                return Vec::new();
            }
        };
        let mut grown: Vec<Bar> = now
            .iter()
            .filter_map(|&(high, total)| {
                let old = before.iter().find(|(known, _)| *known == high);
                let more = total.checked_sub(old.map_or(0, |(_, count)| *count))?;
                (more > 0).then_some((high, more))
            })
            .collect();
        let seen: u64 = grown.iter().map(|(_, more)| more).sum();
        if seen < count {
            self.0.insert(key.clone(), now.to_vec());
            return Vec::new();
        }
        let kept = defer(&mut grown, seen - count);
        let handed_on = now.iter().map(|&(high, total)| {
            let later = kept.iter().find(|(known, _)| *known == high);
            (high, total - later.map_or(0, |(_, count)| *count))
        });
        self.0.insert(key.clone(), handed_on.collect());
        grown.retain(|(_, more)| *more > 0);
        grown
    }

    /// Forgets a histogram that was left out of a reading.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

/// Takes `surplus` out of the fullest bars, and says what it took.
fn defer(bars: &mut [Bar], mut surplus: u64) -> Vec<Bar> {
    let mut taken = Vec::new();
    while surplus > 0 {
        let Some((high, more)) = bars.iter_mut().max_by_key(|(_, more)| *more) else {
            break;
        };
        let part = surplus.min(*more);
        *more -= part;
        surplus -= part;
        taken.push((*high, part));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_of_as_many_statements_as_are_counted() {
        let mut histograms = Histograms::default();
        let key = (None, None);
        assert!(
            histograms.take(&key, false, &[(10, 100)], 5).is_empty(),
            "not followed so far"
        );
        // 5 more are counted, and the histogram has seen 2 beyond these.
        let grown = histograms.take(&key, false, &[(10, 106), (20, 1)], 5);
        assert_eq!(grown, [(10, 4), (20, 1)]);
        let grown = histograms.take(&key, false, &[(10, 106), (20, 2)], 3);
        assert_eq!(grown, [(10, 2), (20, 1)]);
        // Fewer than are counted: none rather than wrong ones.
        assert!(
            histograms
                .take(&key, false, &[(10, 107), (20, 2)], 3)
                .is_empty()
        );
        assert_eq!(
            histograms.take(&key, false, &[(10, 108), (20, 2)], 1),
            [(10, 1)]
        );
        // Begun anew.
        assert_eq!(histograms.take(&key, true, &[(10, 2)], 2), [(10, 2)]);
        histograms.forget(&key);
        assert!(histograms.0.is_empty());
    }
}
