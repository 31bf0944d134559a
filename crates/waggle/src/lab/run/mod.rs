//! Measures cells within a budget.
//!
//! Cells that can share a server form a group. In each group, arms that can be switched are
//! measured on one server ([`in_life`]), those with settings over pairs of servers that take turns
//! ([`pairs`]); one stay in a cell is a [`visit`]. Neighbours: `cell` says what is measured,
//! `crate::experiment` measures one window, `waggle-stats` draws the order and says where time is
//! best spent.
//!
//! Invariant: every window is in `samples.jsonl` before the next begins; a run that is killed is
//! resumed without measuring one of them again.

mod budget;
mod housekeeping;
mod in_life;
mod line;
mod open;
mod pairs;
mod profiled;
mod space;
mod stand;
mod visit;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{getpid, set_child_subreaper};
use waggle_report::run::{Run, RunDir};
use waggle_stats::compare::{CompareSettings, compare_chain};
use waggle_stats::latency::LatencyHistogram;
use waggle_stats::schedule::ArmProgress;

pub(crate) use budget::Budget;
pub(crate) use open::{command_of, open};

use super::cell::{CellRun, CellSpec, Sample};
use crate::experiment::progress::Progress;
use crate::interrupt::Interrupt;
use line::{Event, Past};
use profiled::Profiled;
use stand::Key;

/// Share of a group's time that pairs of servers get beside arms that need none.
const PAIRS_SHARE: f64 = 0.36;
/// Windows of an arm before `--until` may stop it: intervals at such a stop cover as they should
/// from about 30 windows on (see [`waggle_stats::schedule::Chooser`]).
const FEWEST_UNTIL: usize = 30;
/// Times a server may be lost before its cells are given up.
const LOSSES_MAX: usize = 5;
/// Times a server may be lost under one arm before that arm is stopped.
const LOSSES_OF_ARM_MAX: usize = 2;

/// What ends the whole run.
#[derive(Debug)]
enum Stop {
    Interrupted,
    /// The run directory cannot be written.
    Write(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Write(error.into())
    }
}

/// Measures `cells`; time goes where intervals are widest. A cell that fails yields what there is,
/// with [`CellRun::error`] set, and the others go on. What `run` holds already is not measured
/// again.
///
/// # Errors
/// The run directory cannot be written; nothing else ends a run.
pub(crate) fn run_cells(
    cells: Vec<CellSpec>,
    budget: &Budget,
    run: &mut RunDir,
    interrupt: &Interrupt,
    progress: &Progress,
) -> anyhow::Result<Vec<CellRun>> {
    // What an arm leaves running becomes a child of this process, and is found.
    set_child_subreaper(Some(getpid())).context("becoming the parent of orphans")?;
    let mut cells: Vec<CellRun> = cells.into_iter().map(CellRun::new).collect();
    let lines = Run::open(run.path())?.samples()?;
    let past = Past::read(lines.values, &mut cells);
    let mut engine = Engine {
        cells,
        budget: budget.after(past.spent().unwrap_or_default()),
        started: Instant::now(),
        offset_s: past.end_s,
        next_life: past.next_life,
        pending: Vec::new(),
        pending_latencies: Vec::new(),
        profiled: Vec::new(),
        run,
        interrupt,
        progress,
    };
    if let Some(spent) = past.spent() {
        let spent_s = spent.as_secs_f64();
        engine.run.append(&Event::Resumed { spent_s })?;
    }
    let ended = engine.all_groups();
    progress.end();
    match ended {
        Ok(()) => {}
        Err(Stop::Interrupted) => {
            let why = "interrupted; the figures are of the windows measured until then";
            for cell in &mut engine.cells {
                cell.error.get_or_insert_with(|| why.to_owned());
            }
        }
        Err(Stop::Write(error)) => return Err(error),
    }
    if let Err(Stop::Write(error)) = engine.keep_profiles() {
        return Err(error);
    }
    Ok(engine.cells)
}

/// A run in progress.
struct Engine<'a> {
    cells: Vec<CellRun>,
    budget: Budget,
    started: Instant,
    offset_s: f64,
    next_life: usize,
    /// Windows of a pair of servers that is not whole yet, with their cells.
    pending: Vec<(usize, Sample)>,
    /// Their latencies: cell, arm, of all transactions, by kind.
    pending_latencies: Vec<(
        usize,
        usize,
        LatencyHistogram,
        BTreeMap<String, LatencyHistogram>,
    )>,
    /// Windows under the profile of the server that lives.
    profiled: Vec<Profiled>,
    run: &'a mut RunDir,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl Engine<'_> {
    fn all_groups(&mut self) -> Result<(), Stop> {
        let cells: Vec<&CellSpec> = self.cells.iter().map(|cell| &cell.spec).collect();
        let groups = Key::groups(&cells);
        let weight = |engine: &Self, group: &[usize]| -> f64 {
            group.iter().map(|i| engine.cells[*i].spec.weight).sum()
        };
        for at in 0..groups.len() {
            let rest: f64 = groups[at..].iter().map(|(_, g)| weight(self, g)).sum();
            let (key, group) = &groups[at];
            let share = weight(self, group) / rest.max(f64::MIN_POSITIVE);
            self.group(key, group, self.budget.remaining().mul_f64(share.min(1.0)))?;
        }
        Ok(())
    }

    fn group(&mut self, key: &Key, group: &[usize], time: Duration) -> Result<(), Stop> {
        let begun = Instant::now();
        let has = |pairs: bool| {
            group.iter().any(|index| {
                let spec = &self.cells[*index].spec;
                let mut arms = spec.arms.iter();
                arms.any(|arm| spec.is_in_pairs(arm) == pairs)
            })
        };
        let (in_life, in_pairs) = (has(false), has(true));
        if in_life {
            let share = if in_pairs { PAIRS_SHARE } else { 0.0 };
            self.in_life(key, group, begun + time.mul_f64(1.0 - share))?;
        }
        if in_pairs {
            self.pairs(key, group, begun + time)?;
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<(), Stop> {
        if self.interrupt.requested() {
            return Err(Stop::Interrupted);
        }
        Ok(())
    }

    fn note(&mut self, cell: usize, text: String) -> Result<(), Stop> {
        let id = self.cells[cell].spec.id.clone();
        self.progress.say(&text);
        self.run.append(&Event::Note {
            cell: id,
            text: text.clone(),
        })?;
        self.cells[cell].notes.push(text);
        Ok(())
    }

    /// An arm is not measured any more.
    fn stop_arm(&mut self, cell: usize, arm: usize, why: String) -> Result<(), Stop> {
        let run = &mut self.cells[cell];
        let name = run.spec.arm_name(arm).to_owned();
        self.progress.say(&format!("arm {name} was stopped: {why}"));
        self.run.append(&Event::Stopped {
            cell: run.spec.id.clone(),
            arm,
            why: why.clone(),
        })?;
        run.stopped.insert(arm, why);
        Ok(())
    }

    /// Windows an arm gets before its width is believed.
    fn fewest(&self) -> usize {
        match self.budget.until() {
            Some(_) => FEWEST_UNTIL,
            None => 0,
        }
    }

    /// The arm's half-width aimed at, if it gets any of the time that is left.
    fn target(&self, cell: usize, arm: usize) -> Option<f64> {
        let own = self.cells[cell].spec.arm(arm)?.target;
        self.budget.until().or(own)
    }

    /// How far an arm has come; `None` if it gets no more.
    fn progress_of(&self, cell: usize, arm: usize) -> Option<ArmProgress> {
        let run = &self.cells[cell];
        let target = self.target(cell, arm)?;
        if run.stopped.contains_key(&arm) {
            return None;
        }
        let windows = run.windows_of(run.spec.arm(arm)?);
        let settings = CompareSettings {
            resamples: 0,
            ..run.spec.compare_settings(arm)
        };
        let compared = compare_chain(&windows, arm, run.spec.primary, &settings);
        Some(ArmProgress {
            arm,
            windows: windows.iter().filter(|w| w.arm == arm).count(),
            half_width: compared.ok().map(|c| c.ratio.half_width()),
            target,
        })
    }
}
