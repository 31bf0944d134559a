//! What did the points cost the processes that pass them, and the scheduler's programs the host?
//!
//! Neighbours: `crate::attached` scales what the kernel counted for a part of the time. Invariant:
//! what was before [`Source::forget_cost`] is in no figure.

use waggle_probes::point::PlaceCost;
use waggle_probes::timeline::TimelineProbe;

use super::{Source, SourceError};
use crate::attached::RunTimes;
use crate::event::PointId;

/// What one point cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointCost {
    /// Which.
    pub point: PointId,
    /// Times that a thread came by; also those that a test ruled out.
    pub hits: u64,
    /// Time in the program, ns, without the trap that led there; 0 unless costs are counted.
    pub run_ns: u64,
}

impl Source {
    /// What the programs cost so far, while nothing was to be seen yet, is of no account. To be
    /// called between [`Source::pause`] and [`Source::resume`].
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn forget_cost(&mut self) -> Result<(), SourceError> {
        let places = self.points.cost()?;
        self.forgotten = places.iter().map(|cost| cost.hits).collect();
        let times = self.scheduler_times();
        self.attached.forget(times);
        Ok(())
    }

    /// What each point cost so far, in the order of the plan.
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn cost(&self) -> Result<Vec<PointCost>, SourceError> {
        let mut costs: Vec<PointCost> = Vec::new();
        let forgotten = self.forgotten.iter().copied().chain(std::iter::repeat(0));
        let places = self.points.cost()?.into_iter().zip(forgotten);
        for (point, (cost, forgotten)) in self.numbers.iter().zip(places) {
            let cost = without(cost, forgotten);
            match costs.last_mut().filter(|last| last.point == *point) {
                Some(last) => {
                    last.hits += cost.hits;
                    last.run_ns += cost.run_ns;
                }
                None => costs.push(PointCost {
                    point: *point,
                    hits: cost.hits,
                    run_ns: cost.run_ns,
                }),
            }
        }
        Ok(costs)
    }

    /// Name, runs and run time (ns) of the scheduler's programs, of the whole host: scaled to all
    /// the time that they were attached for from the part of it in which the kernel counted.
    pub fn scheduler_cost(&self) -> Vec<(&'static str, u64, u64)> {
        self.attached.scaled(self.scheduler_times())
    }

    /// Share of the time that something was attached for in which the kernel counted run times, 0
    /// to 1; `None` if they are not wanted.
    pub fn counted_share(&self) -> Option<f64> {
        self.attached.counted_share()
    }

    fn scheduler_times(&self) -> RunTimes {
        let scheduler = self.scheduler.as_ref();
        scheduler.map_or_else(Vec::new, TimelineProbe::run_times)
    }
}

/// The cost of a place without so many hits.
fn without(cost: PlaceCost, hits: u64) -> PlaceCost {
    let left = cost.hits.saturating_sub(hits);
    let share = left as f64 / cost.hits.max(1) as f64;
    PlaceCost {
        hits: left,
        run_ns: (cost.run_ns as f64 * share).round() as u64,
    }
}
