//! Arms that are switched while one server lives.
//!
//! Every arm first gets the windows that were planned for it; then time goes where intervals are
//! widest, over arms and cells. A server that dies costs the window it died in: the next one goes
//! on where it stopped, as another life, since windows of two lives are no neighbours.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waggle_stats::schedule::budget::{Allocator, CellArm};
use waggle_stats::schedule::{ArmPlan, Chooser, chain_order, with_base};

use super::stand::{Key, Seat, Stand};
use super::visit::{Stay, Trouble};
use super::{Engine, LOSSES_MAX, LOSSES_OF_ARM_MAX, Stop};

/// Arm windows between two looks at what is still too wide.
const ROUND: usize = 16;
/// Windows an arm of a study gets before its width is believed.
const FEWEST: usize = 15;
/// Share of the time that the planned windows of many cells may take.
const PLANNED_SHARE: f64 = 0.6;
/// What switching takes beside the parts of a window, seconds: two windows' worth.
const SWITCH_S: f64 = 0.03;
/// What going into a cell takes beside its warm-up, seconds.
const ENTRY_S: f64 = 0.4;

impl Engine<'_> {
    pub(super) fn in_life(
        &mut self,
        key: &Key,
        group: &[usize],
        until: Instant,
    ) -> Result<(), Stop> {
        let mut losses = 0;
        let mut of_arm: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        while losses < LOSSES_MAX && self.wants_in_life(group, until) {
            self.check_interrupt()?;
            self.progress.say("starting a server and its load");
            let life = self.next_life;
            self.next_life += 1;
            let mut at = group[0];
            let started = Stand::start(key, &[], self.cells[at].spec.seed);
            let ended = match started {
                Ok(mut stand) => {
                    self.attach_profile(&mut stand, group)?;
                    let measured = self.one_life(&mut stand, group, life, until, &mut at);
                    self.take_profile(&mut stand)?;
                    // A server that was lost does not stop in order.
                    let ended = stand.end();
                    measured.and_then(|()| ended.map_err(server))
                }
                Err(error) => Err(server(error)),
            };
            match ended {
                Ok(()) => return Ok(()),
                Err(Trouble::Stop(stop)) => return Err(stop),
                Err(Trouble::Server { why, arm }) => {
                    losses += 1;
                    let name = self.cells[at].spec.arm_name(arm).to_owned();
                    self.note(
                        at,
                        format!("Server life {life} was lost under {name}: {why}."),
                    )?;
                    let times = of_arm.entry((at, arm)).or_default();
                    *times += 1;
                    if arm != 0 && *times >= LOSSES_OF_ARM_MAX {
                        let why = format!("the server was lost under it {times} times: {why}");
                        self.stop_arm(at, arm, why)?;
                    }
                    let is_hopeless = arm == 0 && self.is_hopeless(at, losses);
                    if losses == LOSSES_MAX || is_hopeless {
                        for cell in group {
                            let why = format!("its server was lost {losses} times, last: {why}");
                            self.cells[*cell].error.get_or_insert(why);
                        }
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// A server that cannot even be started, or a load that cannot, will not be on the third try.
    fn is_hopeless(&self, cell: usize, losses: usize) -> bool {
        losses >= 2 && self.cells[cell].in_life.is_empty()
    }

    /// True while an arm lacks planned windows, or time is left for those that are too wide.
    fn wants_in_life(&self, group: &[usize], until: Instant) -> bool {
        let lacks = |cell: &usize| {
            self.planned(*cell).iter().any(|plan| plan.windows > 0)
                || self
                    .open(*cell)
                    .iter()
                    .any(|arm| arm.windows_missing(self.fewest()) > 0)
        };
        Instant::now() < until && group.iter().any(lacks)
    }

    /// The arms of a cell that are switched in life, and what is left of their planned windows.
    fn planned(&self, cell: usize) -> Vec<ArmPlan> {
        let run = &self.cells[cell];
        let arms = run.spec.numbered().filter(|(number, arm)| {
            !run.spec.is_in_pairs(arm) && !run.stopped.contains_key(number)
        });
        let done = |number: usize| {
            run.in_life
                .iter()
                .filter(|sample| sample.window.arm == number)
                .count()
        };
        arms.map(|(number, arm)| ArmPlan {
            arm: number,
            windows: arm.windows_planned.saturating_sub(done(number)),
        })
        .collect()
    }

    /// The arms that get more than was planned.
    fn open(&self, cell: usize) -> Vec<waggle_stats::schedule::ArmProgress> {
        let arms = self.planned(cell).into_iter();
        arms.filter_map(|plan| self.progress_of(cell, plan.arm))
            .collect()
    }

    fn one_life(
        &mut self,
        stand: &mut Stand,
        group: &[usize],
        life: usize,
        until: Instant,
        at: &mut usize,
    ) -> Result<(), Trouble> {
        if let [cell] = group {
            return self.one_cell(stand, *cell, life, until);
        }
        self.planned_of_all(stand, group, life, until, at)?;
        let entry_s = self.entry_s(group);
        let seed = self.cells[group[0]].spec.seed ^ life as u64;
        let mut allocator = Allocator::new(seed, FEWEST.max(self.fewest()), entry_s);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut arms = Vec::new();
            for cell in group {
                let window_s = self.window_s(*cell);
                arms.extend(self.open(*cell).into_iter().map(|progress| CellArm {
                    cell: *cell,
                    progress,
                    window_s,
                }));
            }
            let stints = allocator.next_round(&arms, left.as_secs_f64());
            if stints.is_empty() || left.is_zero() {
                return Ok(());
            }
            for stint in stints {
                // Going into a cell takes seconds, of which nothing would come.
                if Instant::now() >= until {
                    return Ok(());
                }
                *at = stint.cell;
                self.stay(
                    stand,
                    stint.cell,
                    &with_base(&stint.order),
                    life,
                    Some(until),
                )?;
            }
        }
    }

    /// The planned windows of every cell, or their share of most of the time.
    fn planned_of_all(
        &mut self,
        stand: &mut Stand,
        group: &[usize],
        life: usize,
        until: Instant,
        at: &mut usize,
    ) -> Result<(), Trouble> {
        let plans: Vec<Vec<ArmPlan>> = group.iter().map(|cell| self.planned(*cell)).collect();
        let windows = |plan: &[ArmPlan]| plan.iter().map(|arm| arm.windows).sum::<usize>();
        let needed: f64 = group
            .iter()
            .zip(&plans)
            .map(|(cell, plan)| windows(plan) as f64 * self.window_s(*cell))
            .sum();
        let left = until
            .saturating_duration_since(Instant::now())
            .as_secs_f64();
        let entries = self.entry_s(group) * group.len() as f64;
        let share = ((left * PLANNED_SHARE - entries) / needed.max(1e-9)).clamp(0.05, 1.0);
        for (cell, plan) in group.iter().zip(plans) {
            if Instant::now() >= until {
                return Ok(());
            }
            let scaled: Vec<ArmPlan> = plan
                .iter()
                .map(|arm| ArmPlan {
                    windows: (arm.windows as f64 * share).ceil() as usize,
                    ..*arm
                })
                .collect();
            *at = *cell;
            let spec = &self.cells[*cell].spec;
            let order = chain_order(&scaled, spec.seed ^ (*cell as u64) << 8 ^ life as u64);
            if !order.is_empty() {
                self.stay(stand, *cell, &order, life, Some(until))?;
            }
        }
        Ok(())
    }

    fn one_cell(
        &mut self,
        stand: &mut Stand,
        cell: usize,
        life: usize,
        until: Instant,
    ) -> Result<(), Trouble> {
        let seed = self.cells[cell].spec.seed;
        let done = self.cells[cell].in_life.len() as u64;
        let order = chain_order(&self.planned(cell), seed ^ done);
        self.stay(stand, cell, &order, life, Some(until))?;
        let mut chooser = Chooser::new(seed ^ done, self.fewest());
        // The chain goes on: its last window was the base already, unless there was none.
        let mut is_first = order.is_empty();
        while Instant::now() < until {
            let round = chooser.next_round(&self.open(cell), ROUND);
            if round.is_empty() {
                break;
            }
            let order = with_base(&round);
            let from = usize::from(!std::mem::take(&mut is_first));
            self.stay(stand, cell, &order[from..], life, Some(until))?;
        }
        Ok(())
    }

    /// Goes into a cell and measures windows there.
    fn stay(
        &mut self,
        stand: &mut Stand,
        cell: usize,
        order: &[usize],
        life: usize,
        until: Option<Instant>,
    ) -> Result<(), Trouble> {
        let spec = self.cells[cell].spec.clone();
        let entered = stand.take_up(&spec).map_err(server)?;
        if entered {
            self.progress
                .say(&format!("{}: its load warms up", spec.title));
            Stand::warm_up(&mut [&mut *stand], spec.warm_up).map_err(server)?;
            self.know_server(stand, cell)?;
            if let Some(base) = &spec.base {
                stand.switch().rehearse(base).map_err(server)?;
            }
            for (number, arm) in spec.numbered().filter(|(_, arm)| !spec.is_in_pairs(arm)) {
                self.rehearse(stand, cell, number, arm)?;
            }
        }
        let mut seat = Seat {
            cell: &spec,
            base: stand,
            set: None,
        };
        let stay = Stay {
            cell,
            order,
            until,
            life,
            pair: false,
        };
        self.visit(&mut seat, &stay)
    }

    /// Switches an arm on and off once before it is measured; one that leaves something is stopped.
    pub(super) fn rehearse(
        &mut self,
        stand: &mut Stand,
        cell: usize,
        number: usize,
        arm: &crate::lab::arm::ArmSpec,
    ) -> Result<(), Trouble> {
        if self.cells[cell].stopped.contains_key(&number) {
            return Ok(());
        }
        let rehearsed = stand.switch().rehearse(arm);
        let Err(error) = rehearsed else {
            return Ok(());
        };
        self.check_interrupt()?;
        if let Some(why) = stand.death() {
            return Err(Trouble::Server { why, arm: number });
        }
        self.stop_arm(cell, number, format!("{error:#}"))?;
        match stand.switch().spoiled() {
            Some(why) => Err(Trouble::Server {
                why: why.to_owned(),
                arm: number,
            }),
            None => Ok(()),
        }
    }

    /// Notes what the server is, once.
    pub(super) fn know_server(&mut self, stand: &mut Stand, cell: usize) -> Result<(), Trouble> {
        let (applied, refused) = stand.limits_told();
        self.cells[cell].limits = applied;
        for why in refused {
            if !self.cells[cell].notes.contains(&why) {
                self.note(cell, why)?;
            }
        }
        if !self.cells[cell].server.version.is_empty() {
            return Ok(());
        }
        let facts = stand.facts().map_err(server)?;
        self.run.append(&super::Event::Server {
            cell: self.cells[cell].spec.id.clone(),
            facts: facts.clone(),
        })?;
        if self.run.facts().server.is_none() {
            let facts = facts.clone();
            self.run.record(|run| run.server = Some(facts))?;
        }
        self.cells[cell].server = facts;
        Ok(())
    }

    /// What one window of an arm takes with the base's beside it, seconds.
    fn window_s(&self, cell: usize) -> f64 {
        let timing = self.cells[cell].spec.timing;
        2.0 * (timing.window + timing.settle).as_secs_f64() + SWITCH_S
    }

    fn entry_s(&self, group: &[usize]) -> f64 {
        let warm_up = group.iter().map(|cell| self.cells[*cell].spec.warm_up);
        warm_up.max().unwrap_or(Duration::ZERO).as_secs_f64() + ENTRY_S
    }
}

pub(super) fn server(error: anyhow::Error) -> Trouble {
    Trouble::Server {
        why: format!("{error:#}"),
        arm: 0,
    }
}
