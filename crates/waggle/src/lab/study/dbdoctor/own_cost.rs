//! What does the agent itself use? Host metrics only; attached to a server that does nothing, to
//! several; under a rising load; starved of processor time.
//!
//! Each condition is the agent as a process of its own, its CPU time taken from the kernel in
//! slices of a second or more, so that each figure has an interval. Starving is the agent's own
//! `--max-cpu`: the kernel enforces it where control groups are at hand, and the agent leaves out
//! work before the limit bites; what it then still captures is asked.
//!
//! Neighbours: [`super::stage`] measures a condition, [`super::tables`] shows them.
//!
//! Invariant: a condition that failed is a note, not a figure; captured and lost statements add up
//! to those executed, or a note says by how much they do not.

use std::time::{Duration, Instant};

use waggle_server::sandbox::{Sandbox, SandboxSpec};

use super::stage::{Slices, Stage, Used};

/// Connections of the loads.
pub(super) const THREADS: u32 = 8;
/// Statements a second that are offered while the load rises; then as many as the server takes.
const RATES: [f64; 6] = [1_000.0, 2_500.0, 5_000.0, 10_000.0, 25_000.0, 50_000.0];
/// Processor time given to the starved agent, percent of a core.
const GIVEN: [f64; 8] = [100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5];
/// Servers watched at the same time, the first of them already there.
const SERVERS: [usize; 3] = [1, 2, 4];
/// All of them: host only, idle, rising and closed loop, starved.
pub(super) const CONDITIONS: u32 = (1 + SERVERS.len() + RATES.len() + 1 + GIVEN.len()) as u32;
/// Starting an agent, and ending it, around the slices of a condition; a slow machine takes longer,
/// which is learnt.
const AROUND: Duration = Duration::from_millis(1500);
/// Before the first slice: the agent's one-time work (its own costs are timed once) and the load's
/// beginning are not what is asked.
const SETTLE: Duration = Duration::from_millis(1500);
const SETTLE_LEAST: Duration = Duration::from_millis(300);
/// The least that a condition is looked at.
const SLICES_MIN: usize = 3;
/// A slice: as long as the time between two of the agent's views.
const SLICE: Duration = Duration::from_secs(1);
const SLICE_LEAST: Duration = Duration::from_millis(300);

/// One condition.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// In words.
    pub(super) label: String,
    /// What varies from one to the next: servers, statements a second offered, percent given.
    pub(super) dose: Option<f64>,
    /// What the agent used.
    pub(super) used: Used,
}

/// All conditions, as far as they were measured.
#[derive(Debug, Default)]
pub(super) struct OwnCost {
    pub(super) host: Option<Condition>,
    /// By number of servers that do nothing.
    pub(super) idle: Vec<Condition>,
    /// By statements a second offered; the last is closed loop, without a dose.
    pub(super) rising: Vec<Condition>,
    /// By percent of a core given.
    pub(super) starved: Vec<Condition>,
    /// What failed, and what does not add up.
    pub(super) notes: Vec<String>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnPlan {
    /// Time for all conditions.
    pub(super) time: Duration,
    /// The agent watches several servers at once; one that reads packets watches one.
    pub(super) several: bool,
    /// Fewer conditions of each kind, for a budget of seconds.
    pub(super) fewest: bool,
}

impl OwnPlan {
    fn thinned<T: Copy>(&self, all: &[T]) -> Vec<T> {
        match (self.fewest, all) {
            (true, [first, .., last]) => vec![*first, *last],
            _ => all.to_vec(),
        }
    }

    fn servers(&self) -> Vec<usize> {
        match (self.several, self.fewest) {
            (false, _) => vec![1],
            (true, true) => SERVERS[..2].to_vec(),
            (true, false) => SERVERS.to_vec(),
        }
    }

    fn conditions(&self) -> usize {
        let doses = self.thinned(&RATES).len() + 1 + self.thinned(&GIVEN).len();
        1 + self.servers().len() + doses
    }

    /// Slices of the next condition, when so many are left to be measured in `left` and all but
    /// the slices of each takes `around`; `None` if not even the fewest fit.
    fn slices(&self, left: Duration, conditions: usize, around: Duration) -> Option<Slices> {
        let (settle, length) = match self.fewest {
            true => (SETTLE_LEAST, SLICE_LEAST),
            false => (SETTLE, SLICE),
        };
        let each = left / u32::try_from(conditions.max(1)).unwrap_or(1);
        let own = each.saturating_sub(around + settle).as_secs_f64();
        let count = match self.fewest {
            true => SLICES_MIN,
            false => ((own / length.as_secs_f64()) as usize).max(SLICES_MIN),
        };
        let fits = around + settle + length * u32::try_from(SLICES_MIN).unwrap_or(1) <= left;
        (fits || self.fewest).then_some(Slices {
            count,
            length,
            settle,
        })
    }
}

/// Measures every condition; an interrupt ends it early with what there is.
pub(super) fn measure(stage: &Stage<'_>, plan: OwnPlan, say: &dyn Fn(&str)) -> OwnCost {
    let mut own = Measuring {
        stage,
        plan,
        until: Instant::now() + plan.time,
        conditions: plan.conditions(),
        around: AROUND,
        found: OwnCost::default(),
        say,
    };
    own.host();
    own.idle();
    own.rising();
    own.starved();
    own.found
}

struct Measuring<'a, 's> {
    stage: &'a Stage<'s>,
    plan: OwnPlan,
    until: Instant,
    /// Conditions that are still to come.
    conditions: usize,
    /// The longest that a condition took beside its slices.
    around: Duration,
    found: OwnCost,
    say: &'a dyn Fn(&str),
}

impl Measuring<'_, '_> {
    /// One condition with a load of its own, if it has one (`Some(None)`: as fast as it goes).
    fn condition(
        &mut self,
        label: String,
        dose: Option<f64>,
        (arguments, servers): (&[String], usize),
        load: Option<Option<f64>>,
    ) -> Option<Condition> {
        let begun = Instant::now();
        let left = self.until.saturating_duration_since(begun);
        let slices = self.plan.slices(left, self.conditions, self.around);
        self.conditions = self.conditions.saturating_sub(1);
        let Some(slices) = slices else {
            let note = format!("{label}: not measured: no time was left");
            self.found.notes.push(note);
            return None;
        };
        (self.say)(&format!("the agent's own cost: {label}"));
        let measured = (|| {
            let load = load
                .map(|rate| self.stage.load(THREADS, rate))
                .transpose()?;
            let used = self.stage.used(arguments, servers, load.as_ref(), slices);
            if let Some(load) = load {
                load.stop()?;
            }
            used
        })();
        let sliced = slices.length * u32::try_from(slices.count).unwrap_or(1) + slices.settle;
        self.around = self.around.max(begun.elapsed().saturating_sub(sliced));
        match measured {
            Ok(used) => {
                self.found.notes.extend(unaccounted(&label, &used));
                Some(Condition { label, dose, used })
            }
            Err(error) => {
                self.found
                    .notes
                    .push(format!("{label}: not measured: {error:#}"));
                None
            }
        }
    }

    fn host(&mut self) {
        let arguments = ["--host-only", "--interval", "1"].map(str::to_owned);
        let label = "host metrics only".to_owned();
        self.found.host = self.condition(label, None, (&arguments, 0), None);
    }

    /// Servers that do nothing, one and several.
    fn idle(&mut self) {
        let mut more: Vec<Sandbox> = Vec::new();
        for count in self.plan.servers() {
            while 1 + more.len() < count {
                match Sandbox::start(&SandboxSpec::new(self.stage.flavour())) {
                    Ok(server) => more.push(server),
                    Err(error) => {
                        let note = format!("{count} servers: not measured: {error}");
                        self.found.notes.push(note);
                        return;
                    }
                }
            }
            let mut pids = vec![self.stage.pid()];
            pids.extend(more.iter().map(Sandbox::pid));
            let arguments = self.stage.watch_arguments(&pids);
            let label = match count {
                1 => "attached, idle".to_owned(),
                _ => format!("{count} servers, idle"),
            };
            let dose = Some(count as f64);
            let condition = self.condition(label, dose, (&arguments, count), None);
            self.found.idle.extend(condition);
        }
        for server in more {
            if let Err(error) = server.stop() {
                self.found.notes.push(format!("stopping a server: {error}"));
            }
        }
    }

    fn rising(&mut self) {
        let arguments = self.stage.watch_arguments(&[self.stage.pid()]);
        let rates = self.plan.thinned(&RATES);
        let after = self.conditions.saturating_sub(rates.len() + 1);
        for rate in rates.into_iter().map(Some).chain([None]) {
            let label = match rate {
                Some(rate) => format!("{rate}/s"),
                None => "closed loop".to_owned(),
            };
            let condition = self.condition(label, rate, (&arguments, 1), Some(rate));
            // Where the server cannot keep up, more on offer is the same load again.
            let kept_up = condition
                .as_ref()
                .and_then(|condition| Some(condition.used.statements_per_s? >= 0.95 * rate?));
            self.found.rising.extend(condition);
            if kept_up == Some(false) {
                self.found.notes.push(format!(
                    "The server does not take {} statements a second here; no higher rate was \
                     offered.",
                    rate.unwrap_or_default()
                ));
                // The time of those that are left out is for the others.
                self.conditions = after;
                break;
            }
        }
    }

    fn starved(&mut self) {
        for given in self.plan.thinned(&GIVEN) {
            let mut arguments = self.stage.watch_arguments(&[self.stage.pid()]);
            arguments.extend(["--max-cpu".to_owned(), given.to_string()]);
            let label = format!("{given}% of a core");
            let dose = Some(given);
            let condition = self.condition(label, dose, (&arguments, 1), Some(None));
            self.found.starved.extend(condition);
        }
    }
}

/// What is missing from captured and lost to make executed.
fn unaccounted(label: &str, used: &Used) -> Option<String> {
    let executed = used.executed?;
    let lost: u64 = used.counted("lost").iter().map(|(_, count)| count).sum();
    let seen = used.captured() + lost;
    (seen != executed)
        .then(|| format!("{label}: captured and lost are {seen}, the {executed} executed are not."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_fit_the_time_and_the_fewest_are_the_extremes() {
        let plan = |seconds, fewest| OwnPlan {
            time: Duration::from_secs(seconds),
            several: true,
            fewest,
        };
        assert_eq!(plan(0, true).thinned(&GIVEN), [100.0, 0.5]);
        assert_eq!(plan(0, false).thinned(&GIVEN), GIVEN);
        let count = |plan: OwnPlan, left: f64, conditions, around: f64| {
            let [left, around] = [left, around].map(Duration::from_secs_f64);
            plan.slices(left, conditions, around)
                .map(|slices| slices.count)
        };
        // 10 s for each of 19, of which 1.5 s go by around the slices and 1.5 s before them.
        assert_eq!(plan(190, false).conditions(), CONDITIONS as usize);
        assert_eq!(count(plan(190, false), 190.0, 19, 1.5), Some(7));
        // A machine that takes 6 s to start an agent gets fewer; nothing is begun without time.
        assert_eq!(count(plan(190, false), 180.0, 18, 6.0), Some(SLICES_MIN));
        assert_eq!(count(plan(190, false), 10.0, 2, 6.0), None);
        assert_eq!(count(plan(0, true), 0.0, 2, 6.0), Some(SLICES_MIN));
    }
}
