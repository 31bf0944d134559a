//! From probes to events in the order of their time.
//!
//! Attaches a plan and the scheduler's timeline, reads their rings, and hands out events
//! ([`crate::event`]). Neighbours: [`crate::resolve`] makes plans, `waggle_probes::point` and
//! `waggle_probes::timeline` attach, `order` sorts.
//!
//! Invariant: events come in the order of their time, except where that cannot be told (two
//! processors within a microsecond); what was lost is an event at the place where it was lost.

mod cost;
mod order;
mod points;

use waggle_probes::clock;
use waggle_probes::point::{PointProbe, PointSpec, ProbeError, Process as Watched};
use waggle_probes::timeline::{Options, Record, TimelineError, TimelineProbe};

use crate::attached::Attached;
use crate::event::{Event, PointId, StackId, Thread};
use crate::resolve::{Plan, Process, ProcessError};
use crate::stack::{Stack, Stacks};
use crate::timeline::Records;
pub use cost::PointCost;
use order::Order;
use points::Points;

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
    attached: Attached,
    /// Records of before are of no account.
    from_ns: u64,
    /// Hits of each place that are of no account.
    forgotten: Vec<u64>,
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
        let mut attached = Attached::from_now(options.cost);
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
        // Loading takes longer than attaching, and no program runs meanwhile.
        attached.only_now();
        Ok(Self {
            points,
            scheduler,
            attached,
            from_ns: 0,
            forgotten: Vec::new(),
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
        self.attached.look();
        let until = self.read();
        self.order.release(until, each)
    }

    /// For how long something was attached so far, ns.
    pub fn attached_ns(&self) -> u64 {
        self.attached.ns()
    }

    /// Detaches everything until [`Source::resume`], and hands out all that is left, with what was
    /// lost at the end. Takes as long as the kernel does to be sure that no program runs any more,
    /// some 0.1 s; no thread of the process waits for that.
    pub fn pause(&mut self, each: impl FnMut(Event)) -> usize {
        self.attached.ends();
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
        self.attached.begins_again();
        self.from_ns = self.attached.since_ns();
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.attach()?;
        }
        Ok(self.points.attach_again())
    }

    /// Detaches everything and hands out all that is left, with what was lost at the end.
    pub fn drain(&mut self, each: impl FnMut(Event)) -> usize {
        self.attached.ends();
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

fn scheduler(options: &Options, pids: &[u32]) -> Result<TimelineProbe, TimelineError> {
    let mut probe = TimelineProbe::load(options)?;
    pids.iter().try_for_each(|pid| probe.watch(*pid))?;
    probe.attach()?;
    Ok(probe)
}
