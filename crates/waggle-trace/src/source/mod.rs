//! From probes to events in the order of their time.
//!
//! Attaches a plan and the scheduler's timeline, reads their rings, and hands out events
//! ([`crate::event`]). Neighbours: [`crate::resolve`] makes plans, `waggle_probes::point` and
//! `waggle_probes::timeline` attach, `order` sorts.
//!
//! Invariant: events come in the order of their time, except where that cannot be told (two
//! processors within a microsecond); what was lost is an event at the place where it was lost.

mod order;
mod points;

use waggle_probes::kernel::SampledRunTimes;
use waggle_probes::point::{PlaceCost, PointProbe, PointSpec, ProbeError, Process as Watched};
use waggle_probes::timeline::{Options, Record, TimelineError, TimelineProbe};

use crate::event::{Event, PointId, StackId, Thread};
use crate::resolve::{Plan, Process, ProcessError};
use crate::stack::{Stack, Stacks};
use crate::timeline::Records;
use order::Order;
use points::Points;
use waggle_probes::clock;

/// How large the rings are, and what is recorded beside the points.
#[derive(Debug, Clone, Copy)]
pub struct SourceOptions {
    /// Bytes of the points' ring; rounded up to a power of two.
    pub ring_bytes: u32,
    /// Count runs and run time of every program, for a part of the time (30 ns a run then).
    pub cost: bool,
    /// What of the scheduler's doings is recorded; `None`: nothing.
    pub scheduler: Option<Options>,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            ring_bytes: 16 << 20,
            cost: false,
            scheduler: Some(Options {
                stacks: false,
                waker_stacks: false,
                ..Options::default()
            }),
        }
    }
}

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

/// A place of a point that could not be attached, though it was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unattached {
    /// Which.
    pub point: PointId,
    /// Where.
    pub place: String,
    /// Why.
    pub reason: String,
}

/// Why there is no source at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The kernel refused the programs.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The kernel refused to tell of the scheduler.
    #[error(transparent)]
    Scheduler(#[from] TimelineError),
    /// A process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No point of the plan could be attached.
    #[error("no point of the plan could be attached: {0}")]
    Nothing(String),
}

/// Attached probes, and the events that come from them.
#[derive(Debug)]
pub struct Source {
    // Dropped in this order: starts and ends before the scheduler's.
    points: PointProbe,
    scheduler: Option<TimelineProbe>,
    /// Run times of the programs, if they are wanted.
    times: Option<SampledRunTimes>,
    /// Since when something is attached, and for how long something was before, ns.
    since_ns: u64,
    before_ns: u64,
    /// Records of before are of no account.
    from_ns: u64,
    is_attached: bool,
    /// Hits of each place, and runs and run times of the scheduler's programs, that are of no
    /// account.
    forgotten: (Vec<u64>, Vec<(&'static str, u64, u64)>),
    numbers: Vec<PointId>,
    unattached: Vec<Unattached>,
    order: Order,
    of_points: Points,
    of_scheduler: Records,
    stacks: Stacks,
}

impl Source {
    /// Attaches `plan` in these processes, which run the binary it was made for. A place that the
    /// kernel or the file refuses is left out and told by [`Source::unattached`].
    ///
    /// # Errors
    /// The kernel refuses the programs, or not one point could be attached.
    pub fn attach(plan: &Plan, pids: &[u32], options: SourceOptions) -> Result<Self, SourceError> {
        let watched = pids.iter().map(|pid| {
            let image = match plan.made_for {
                (same, image) if same == *pid => image,
                _ => Process::open(*pid)?.image(),
            };
            Ok(Watched { pid: *pid, image })
        });
        let watched = watched.collect::<Result<Vec<_>, ProcessError>>()?;
        let mut times = options.cost.then(SampledRunTimes::default);
        if let Some(times) = &mut times {
            times.at(0);
        }
        let scheduler = options
            .scheduler
            .map(|options| scheduler(&options, pids))
            .transpose()?;
        let specs: Vec<PointSpec> = plan.points.iter().flat_map(|p| p.specs.clone()).collect();
        let numbers = plan
            .points
            .iter()
            .flat_map(|p| p.specs.iter().map(|_| p.id));
        let numbers: Vec<PointId> = numbers.collect();
        let followed = scheduler.as_ref().filter(|_| {
            options
                .scheduler
                .is_some_and(|options| options.followed_only)
        });
        let points = PointProbe::attach(&specs, &watched, options.ring_bytes, followed)?;
        let refused = points.refused().iter();
        let unattached: Vec<Unattached> = refused
            .map(|refused| Unattached {
                point: numbers[refused.spec],
                place: points::place(&specs[refused.spec]),
                reason: refused.error.to_string(),
            })
            .collect();
        if specs.is_empty() || unattached.len() >= specs.len() * pids.len().max(1) {
            let reasons: Vec<&str> = unattached.iter().map(|u| u.reason.as_str()).collect();
            return Err(SourceError::Nothing(reasons.join("; ")));
        }
        Ok(Self {
            points,
            scheduler,
            times,
            // Loading takes longer than attaching, and no program runs meanwhile.
            since_ns: clock::now_ns(),
            before_ns: 0,
            from_ns: 0,
            is_attached: true,
            forgotten: (Vec::new(), Vec::new()),
            numbers,
            unattached,
            order: Order::default(),
            of_points: Points::default(),
            of_scheduler: Records::default(),
            stacks: Stacks::default(),
        })
    }

    /// Hands out what happened since the last poll, in order of time, up to a moment before now:
    /// what a slower processor may still write is kept for the next. Returns how many events.
    pub fn poll(&mut self, each: impl FnMut(Event)) -> usize {
        let attached_ns = self.attached_ns();
        if self.is_attached
            && let Some(times) = &mut self.times
        {
            times.at(attached_ns);
        }
        let until = self.read();
        self.order.release(until, each)
    }

    /// For how long something was attached so far, ns.
    pub fn attached_ns(&self) -> u64 {
        let now_ns = if self.is_attached {
            clock::now_ns().saturating_sub(self.since_ns)
        } else {
            0
        };
        self.before_ns + now_ns
    }

    /// Detaches everything until [`Source::resume`], and hands out all that is left, with what was
    /// lost at the end. Takes as long as the kernel does to be sure that no program runs any more,
    /// some 0.1 s; no thread of the process waits for that.
    pub fn pause(&mut self, each: impl FnMut(Event)) -> usize {
        self.note_detached();
        self.points.detach_with(self.scheduler.as_mut());
        self.read();
        let now_ns = clock::now_ns();
        let order = &mut self.order;
        let lost = self.points.lost().unwrap_or_default();
        self.of_points
            .lost_at_the_end(&lost, now_ns, |event| order.take(event));
        if let Some(scheduler) = &self.scheduler {
            let lost = scheduler.lost();
            self.of_scheduler
                .lost_at_the_end(&lost, now_ns, |event| order.take(event));
        }
        self.order.release(u64::MAX, each)
    }

    /// Attaches again what [`Source::pause`] detached; nothing is loaded, and nothing that the
    /// kernel half knew of threads is left. False: something was refused that was not at first,
    /// and what is seen now is not whole.
    ///
    /// # Errors
    /// The kernel refuses; what is attached then has to be detached by [`Source::pause`].
    pub fn resume(&mut self) -> Result<bool, SourceError> {
        self.points.forget_threads()?;
        // A record from before that comes now is of no slice any more.
        self.from_ns = clock::now_ns();
        self.since_ns = self.from_ns;
        self.is_attached = true;
        if let Some(times) = &mut self.times {
            times.at(self.before_ns);
        }
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.attach()?;
        }
        Ok(self.points.attach_again())
    }

    /// What the programs cost so far, while nothing was to be seen yet, is of no account. To be
    /// called between [`Source::pause`] and [`Source::resume`].
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn forget_cost(&mut self) -> Result<(), SourceError> {
        let hits = self.points.cost()?.iter().map(|cost| cost.hits).collect();
        let scheduler = self.scheduler.as_ref();
        let times = scheduler.map_or_else(Vec::new, TimelineProbe::run_times);
        self.forgotten = (hits, times);
        self.before_ns = 0;
        if let Some(times) = &mut self.times {
            *times = SampledRunTimes::default();
        }
        Ok(())
    }

    fn note_detached(&mut self) {
        self.before_ns = self.attached_ns();
        self.is_attached = false;
        if let Some(times) = &mut self.times {
            times.release(self.before_ns);
        }
    }

    /// Detaches everything and hands out all that is left, with what was lost at the end.
    pub fn drain(&mut self, each: impl FnMut(Event)) -> usize {
        self.note_detached();
        self.points.detach();
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.detach();
        }
        self.read();
        let lost = self.points.lost().unwrap_or_default();
        let order = &mut self.order;
        self.of_points
            .lost_at_the_end(&lost, clock::now_ns(), |event| order.take(event));
        let lost = self.scheduler.as_ref().map_or(0, |s| s.counters().lost);
        if let Some(count) = lost
            .checked_sub(self.of_scheduler.lost())
            .filter(|n| *n > 0)
        {
            order.take_loss(count);
        }
        self.order.release(u64::MAX, each)
    }

    /// Takes everything that the rings hold; returns up to when it is whole.
    fn read(&mut self) -> u64 {
        // Before the reading: what comes meanwhile may be read from one ring only.
        let mut until = clock::now_ns();
        let (order, stacks) = (&mut self.order, &mut self.stacks);
        let (of_points, of_scheduler) = (&mut self.of_points, &mut self.of_scheduler);
        let mut last_ns = 0;
        let from_ns = self.from_ns;
        self.points.consume(usize::MAX, |record| {
            last_ns = record.ns;
            if record.ns < from_ns {
                return;
            }
            of_points.events(&record, stacks, |event| order.take(event));
        });
        // A record that is still being written holds up those behind it.
        if self.points.backlog_bytes() > 0 {
            until = until.min(last_ns.max(order.released_ns()));
        }
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.read(|head, record| {
                // A stack is sent once, and of use whenever it comes.
                if head.ns < from_ns && !matches!(record, Record::Stack(_)) {
                    return;
                }
                of_scheduler.events(head, record, stacks, |event| order.take(event));
            });
        }
        until.saturating_sub(order::LATE_NS)
    }

    /// Records lost so far: the points', and the scheduler's.
    pub fn lost(&self) -> u64 {
        let points: u64 = self.points.lost().unwrap_or_default().iter().sum();
        let scheduler = self.scheduler.as_ref().map_or(0, |s| s.counters().lost);
        points + scheduler + self.order.late() + self.of_points.unread()
    }

    /// What each point cost so far, in the order of the plan.
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn cost(&self) -> Result<Vec<PointCost>, SourceError> {
        let mut costs: Vec<PointCost> = Vec::new();
        let forgotten = self.forgotten.0.iter().copied().chain(std::iter::repeat(0));
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
        let scheduler = self.scheduler.as_ref();
        let mut times = scheduler.map_or_else(Vec::new, TimelineProbe::run_times);
        for (time, forgotten) in times.iter_mut().zip(&self.forgotten.1) {
            time.1 = time.1.saturating_sub(forgotten.1);
            time.2 = time.2.saturating_sub(forgotten.2);
        }
        let attached_ns = self.attached_ns();
        let scale = self.times.as_ref().map_or(1.0, |t| t.scale(attached_ns));
        let scaled = |n: u64| (n as f64 * scale).round() as u64;
        let times = times.into_iter();
        times
            .map(|(name, runs, ns)| (name, scaled(runs), scaled(ns)))
            .collect()
    }

    /// Share of the time that something was attached for in which the kernel counted run times, 0
    /// to 1; `None` if they are not wanted.
    pub fn counted_share(&self) -> Option<f64> {
        let attached_ns = self.attached_ns();
        let counted_ns = self.times.as_ref()?.counted_ns(attached_ns);
        Some(counted_ns as f64 / attached_ns.max(1) as f64)
    }

    /// Places of the plan that are not attached, and why.
    pub fn unattached(&self) -> &[Unattached] {
        &self.unattached
    }

    /// A stack that an event names, if it was received.
    pub fn stack(&self, id: StackId) -> Option<&Stack> {
        self.stacks.get(id)
    }

    /// Every stack that was received.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// What a thread called itself last, if it left a processor or woke somebody meanwhile.
    pub fn name(&self, thread: Thread) -> Option<String> {
        self.of_scheduler.name(thread)
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

fn scheduler(options: &Options, pids: &[u32]) -> Result<TimelineProbe, TimelineError> {
    let mut probe = TimelineProbe::load(options)?;
    pids.iter().try_for_each(|pid| probe.watch(*pid))?;
    probe.attach()?;
    Ok(probe)
}
