//! Arms with settings, which need servers of their own: pairs that live at the same time and take
//! turns, so that both see the same drift of the machine. What such an arm switches beside its
//! settings is switched on the server that has them: windows inside lives.
//!
//! A pair is a block: only whole pairs count. One that dies costs itself.

use std::time::{Duration, Instant};

use waggle_stats::random::Random;
use waggle_stats::schedule::{ArmPlan, arm_order, with_base};

use super::in_life::server;
use super::line::Event;
use super::stand::{Key, Seat, Stand};
use super::visit::{Stay, Trouble};
use super::{Engine, LOSSES_MAX, Stop};

/// Settings of an arm.
type Settings = Vec<(String, String)>;

impl Engine<'_> {
    pub(super) fn pairs(&mut self, key: &Key, group: &[usize], until: Instant) -> Result<(), Stop> {
        let mut longest = Duration::ZERO;
        let mut losses = 0;
        loop {
            let sets = self.sets(group);
            // The one with the fewest pairs so far is next.
            let whole = |set: &Settings| self.whole(group, set);
            let Some(set) = sets.iter().min_by_key(|set| whole(set)).cloned() else {
                return Ok(());
            };
            let done = whole(&set);
            self.check_interrupt()?;
            let plan = self.cells[group[0]].spec.lives;
            // One more than fits is begun only to have the fewest, and only if none was lost.
            let fits = Instant::now() + longest <= until;
            let is_over = self.budget.is_firm() && done > 0 && Instant::now() >= until;
            let enough = done >= plan.fewest || losses > 0 || is_over;
            if done >= plan.most || (!fits && enough) || self.are_narrow(group, done) {
                return Ok(());
            }
            let begun = Instant::now();
            let life = self.next_life;
            self.next_life += 1;
            self.progress
                .say(&format!("pair of servers {}: {}", done + 1, words(&set)));
            match self.pair(key, group, (&set, done), life) {
                Ok(()) => {}
                Err(Trouble::Stop(stop)) => {
                    self.forget_pair();
                    return Err(stop);
                }
                // A pair that died costs its block only.
                Err(Trouble::Server { why, .. }) => {
                    losses += 1;
                    self.forget_pair();
                    let text = format!("Pair of servers {life} ({}) was lost: {why}.", words(&set));
                    self.note(group[0], text)?;
                    if losses >= LOSSES_MAX || (losses >= 2 && done == 0) {
                        let why = format!("{losses} pairs of servers were lost, last: {why}");
                        for cell in group {
                            self.cells[*cell].error.get_or_insert_with(|| why.clone());
                        }
                        return Ok(());
                    }
                }
            }
            longest = longest.max(begun.elapsed());
        }
    }

    /// The different settings of arms that are still measured; one without any, if there is nothing
    /// else to pair.
    fn sets(&self, group: &[usize]) -> Vec<Settings> {
        let mut sets: Vec<Settings> = Vec::new();
        for cell in group {
            let run = &self.cells[*cell];
            for (number, arm) in run.spec.numbered() {
                let measured = run.spec.is_in_pairs(arm) && !run.stopped.contains_key(&number);
                if measured && !sets.contains(&arm.settings) {
                    sets.push(arm.settings.clone());
                }
            }
        }
        // Arms without settings come along with those that have some.
        if sets.iter().any(|set| !set.is_empty()) {
            sets.retain(|set| !set.is_empty());
        }
        sets
    }

    /// Whole pairs with these settings.
    fn whole(&self, group: &[usize], set: &Settings) -> usize {
        let of_cell = |cell: &usize| {
            let run = &self.cells[*cell];
            let arms: Vec<usize> = self.arms_of(*cell, set);
            let has = |number: usize| arms.contains(&number);
            // Arms without settings are in the pairs of every setting.
            let own = |number: usize| run.spec.arm(number).is_some_and(|a| a.settings == *set);
            let windows = run.pairs.iter().map(|sample| sample.window);
            let mut lives: Vec<usize> = windows
                .filter(|window| has(window.arm) && own(window.arm))
                .map(|window| window.life)
                .collect();
            lives.dedup();
            (!arms.is_empty()).then_some(lives.len())
        };
        group.iter().filter_map(of_cell).min().unwrap_or(usize::MAX)
    }

    /// The arms of a cell that are measured in pairs with these settings.
    fn arms_of(&self, cell: usize, set: &Settings) -> Vec<usize> {
        let run = &self.cells[cell];
        let arms = run.spec.numbered().filter(|(number, arm)| {
            run.spec.is_in_pairs(arm)
                && !run.stopped.contains_key(number)
                && (arm.settings == *set || arm.is_in_life())
        });
        arms.map(|(number, _)| number).collect()
    }

    /// With `--until`: every arm over pairs is known well enough.
    fn are_narrow(&self, group: &[usize], done: usize) -> bool {
        let plan = self.cells[group[0]].spec.lives;
        if self.budget.until().is_none() || done < plan.fewest {
            return false;
        }
        let narrow = |cell: &usize| {
            let spec = &self.cells[*cell].spec;
            let mut arms = spec.numbered().filter(|(_, arm)| spec.is_in_pairs(arm));
            arms.all(|(number, _)| match self.progress_of(*cell, number) {
                Some(progress) => {
                    progress.windows >= self.fewest()
                        && progress.half_width.is_some_and(|w| w <= progress.target)
                }
                None => true,
            })
        };
        group.iter().all(narrow)
    }

    /// One pair of server lives, taking turns, in every cell, after so many with these settings.
    fn pair(
        &mut self,
        key: &Key,
        group: &[usize],
        (set, done): (&Settings, usize),
        life: usize,
    ) -> Result<(), Trouble> {
        let seed = self.cells[group[0]].spec.seed;
        let set_first = set_first(seed, done);
        let start = |extra: &Settings| Stand::start(key, extra, seed).map_err(server);
        let (mut base, mut with) = if set.is_empty() {
            (start(set)?, None)
        } else if set_first {
            let with = start(set)?;
            (start(&Settings::new())?, Some(with))
        } else {
            let base = start(&Settings::new())?;
            (base, Some(start(set)?))
        };
        let mut measured = Ok(());
        for cell in group {
            measured = self.pair_in_cell(*cell, set, &mut base, with.as_mut(), life);
            if measured.is_err() {
                break;
            }
        }
        let ended = with.map_or(Ok(()), Stand::end).and(base.end());
        measured?;
        ended.map_err(server)?;
        self.run.append(&Event::PairDone { life })?;
        self.count_pair();
        Ok(())
    }

    fn pair_in_cell(
        &mut self,
        cell: usize,
        set: &Settings,
        base: &mut Stand,
        mut with: Option<&mut Stand>,
        life: usize,
    ) -> Result<(), Trouble> {
        let arms = self.arms_of(cell, set);
        if arms.is_empty() {
            return Ok(());
        }
        let spec = self.cells[cell].spec.clone();
        base.take_up(&spec).map_err(server)?;
        if let Some(with) = &mut with {
            with.take_up(&spec).map_err(server)?;
        }
        let mut both: Vec<&mut Stand> = std::iter::once(&mut *base)
            .chain(with.as_deref_mut())
            .collect();
        Stand::warm_up(&mut both, spec.warm_up).map_err(server)?;
        self.know_server(base, cell)?;
        if let Some(arm) = &spec.base {
            base.switch().rehearse(arm).map_err(server)?;
        }
        for number in &arms {
            let Some(arm) = spec.arm(*number) else {
                continue;
            };
            let stand = match &mut with {
                Some(with) if !arm.is_in_life() => &mut **with,
                _ => &mut *base,
            };
            self.rehearse(stand, cell, *number, arm)?;
        }
        let plans: Vec<ArmPlan> = arms
            .iter()
            .map(|arm| ArmPlan {
                arm: *arm,
                windows: spec.lives.windows,
            })
            .collect();
        let order = with_base(&arm_order(&plans, spec.seed ^ life as u64));
        let mut seat = Seat {
            cell: &spec,
            base,
            set: with,
        };
        let stay = Stay {
            cell,
            order: &order,
            until: None,
            life,
            pair: true,
        };
        self.visit(&mut seat, &stay)
    }
}

/// Whether the server with settings is started first: by lot, and in the other order the next time,
/// so that of each two pairs one begins with either.
fn set_first(seed: u64, done: usize) -> bool {
    let mut random = Random::new(seed);
    let lots = (0..=done / 2).map(|_| random.next_below(2));
    (lots.last().unwrap_or(0) + done) % 2 == 1
}

fn words(set: &Settings) -> String {
    let all: Vec<String> = set
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    match all.is_empty() {
        true => "one server, another life".to_owned(),
        false => format!("without and with {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_two_pairs_one_begins_with_either_server() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let order: Vec<bool> = (0..8).map(|done| set_first(seed, done)).collect();
            assert!(order.chunks(2).all(|two| two[0] != two[1]), "{order:?}");
            orders.insert(order);
        }
        assert!(orders.len() > 5, "it is a lot: {orders:?}");
    }
}
