//! The loop of a pipeline's trace: events into the tracker, waits into the aggregate.
//!
//! Invariant: waits are counted only once it is certain that no loss before their end can still
//! come to light: everything that the kernel half counted as lost was handed out as an event.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use waggle_probes::timeline::{self, StackEnd};
use waggle_trace::event::{Event, StackId, Thread, What};
use waggle_trace::pipeline::{Aggregate, AggregateSettings, Counts, Followed, Layout, Tracker};
use waggle_trace::resolve::Plan;
use waggle_trace::source::{PointCost, Source, SourceOptions};
use waggle_trace::stack::Stacks;
use waggle_trace::stack::names::Names;
use waggle_trace::threads::Directory;
use waggle_trace::timeline::{CHANGES_MAX, Timeline};

use super::super::session::Session;
use super::super::slices::{Due, Slices, Slicing};
use super::super::target::Process;
use super::Asked;
use crate::cli::Failure;

/// Pause between two looks at the rings that brought little.
const PAUSE: Duration = Duration::from_millis(10);
/// A look that brought more than this is followed by the next at once.
const BUSY: usize = 2_000;
/// Between two samples of the run directory.
const SAMPLE: Duration = Duration::from_secs(1);
/// History of the scheduler: the longest wait whose stages can be split.
const HISTORY_NS: u64 = 10_000_000_000;
/// A wait is settled this long after its end, whatever the counters say.
const SETTLE_NS: u64 = 10_000_000_000;

/// What was measured, and what failed meanwhile.
pub(super) struct Measured {
    pub(super) taken: Taken,
    pub(super) failed: Option<String>,
}

/// What a trace took down.
pub(super) struct Taken {
    pub(super) aggregate: Aggregate,
    pub(super) counts: Counts,
    pub(super) threads: Directory,
    pub(super) source: Source,
    names: Names,
    pub(super) costs: Vec<PointCost>,
    /// The scheduler's programs: name, runs, run time in ns, of the whole host.
    pub(super) switches: Vec<(&'static str, u64, u64)>,
    pub(super) events: u64,
    pub(super) duration: Duration,
    /// `None`: all of the time was traced.
    pub(super) slicing: Option<Slicing>,
    /// Share of the traced time in which run times were counted.
    pub(super) counted_share: Option<f64>,
    pub(super) cpu_s: f64,
}

/// What is attached, and the names of what the process has mapped.
pub(super) struct Attached {
    source: Source,
    names: Names,
}

/// Attaches the plan.
pub(super) fn attach(asked: &Asked, plan: &Plan, process: &Process) -> Result<Attached, Failure> {
    // First, as it takes a while, in which the rings would fill; and while the process is there:
    // one that has ended has no mappings.
    let mut names = Names::default();
    names
        .watch(process.pid)
        .with_context(|| format!("reading what {} has mapped", process.words()))
        .map_err(Failure::Unusable)?;
    let ring_bytes = asked.common.ring_bytes;
    let scheduler = timeline::Options {
        ring_bytes,
        stacks: false,
        waker_stacks: false,
        followed_only: true,
    };
    let needed = asked.scheduler || plan.needs_scheduler();
    let options = SourceOptions {
        ring_bytes,
        cost: true,
        scheduler: needed.then_some(scheduler),
    };
    let source = Source::attach(plan, &[process.pid], options)
        .with_context(|| format!("attaching {} to {}", plan.pipeline, process.words()))
        .map_err(Failure::Unusable)?;
    Ok(Attached { source, names })
}

/// Takes events in: those of one trace, or of one slice of time after the other.
struct Intake<'a> {
    plan: &'a Plan,
    /// The scheduler is asked.
    follows: bool,
    tracker: Tracker,
    /// `None`: the scheduler is not asked, and nobody is in view.
    followed: Option<Followed>,
    timeline: Timeline,
    /// When everything is attached, ns. What was passed while only some of it was is known of
    /// threads, and is no part of a wait.
    whole_ns: (u64, u64),
    /// What became of the waits of slices that are over.
    before: Counts,
    /// Which stages the last of them saw.
    stages: Vec<bool>,
    aggregate: Aggregate,
    threads: Directory,
    events: u64,
    now_ns: u64,
    /// Up to then, all losses were told.
    told_ns: u64,
}

impl<'a> Intake<'a> {
    /// Everything is attached from the first to the last.
    fn new(asked: &Asked, plan: &'a Plan, pid: u32) -> Self {
        let follows = asked.scheduler || plan.needs_scheduler();
        let settings = AggregateSettings {
            slowest: asked.slowest,
            ..AggregateSettings::default()
        };
        let layout = Layout::of(plan);
        Self {
            plan,
            follows,
            aggregate: Aggregate::new(layout.stages.len(), settings),
            tracker: Tracker::new(layout),
            followed: follows.then(|| Followed::of(plan)),
            timeline: Timeline::new(HISTORY_NS, CHANGES_MAX),
            whole_ns: (0, u64::MAX),
            before: Counts::default(),
            stages: Vec::new(),
            threads: Directory::of_process(pid),
            events: 0,
            now_ns: 0,
            told_ns: 0,
        }
    }

    /// A slice begins; everything is attached since `from_ns`. Nothing of what was known before
    /// holds any more.
    fn begin_slice(&mut self, from_ns: u64) {
        self.tracker = Tracker::of_slice(Layout::of(self.plan), self.stages.clone());
        self.followed = self.follows.then(|| Followed::of(self.plan));
        self.timeline = Timeline::new(HISTORY_NS, CHANGES_MAX);
        self.whole_ns = (from_ns, u64::MAX);
        self.told_ns = from_ns;
    }

    /// It is over, and all that is left of it was taken in. Returns how many waits were under way
    /// that had lasted for `long_ns` or longer.
    fn end_slice(&mut self, lost: u64, long_ns: u64) -> u64 {
        let to_ns = self.whole_ns.1;
        let is_long = |began_ns: &u64| to_ns.saturating_sub(*began_ns) >= long_ns;
        let long = self.tracker.under_way().filter(is_long).count() as u64;
        self.finish(lost);
        self.before.add(&self.tracker.counts());
        let seen = self.tracker.stages_seen();
        // In a slice without any work, nothing is to be seen of any stage.
        if seen.contains(&true) {
            self.stages = seen;
        }
        // Until the next begins.
        self.tracker = Tracker::of_slice(Layout::of(self.plan), Vec::new());
        long
    }

    /// So many records were lost by now; those that are not known yet touched nothing.
    fn forgive(&mut self, lost: u64) {
        self.before.lost += lost.saturating_sub(self.counts().lost);
    }

    /// What became of all waits so far.
    fn counts(&self) -> Counts {
        let mut counts = self.before;
        counts.add(&self.tracker.counts());
        counts
    }

    fn take(&mut self, event: &Event) {
        let is_loss = matches!(event.what, What::Lost { .. });
        self.events += u64::from(!is_loss);
        self.now_ns = self.now_ns.max(event.ns);
        self.timeline.record(event);
        if let Some(followed) = &mut self.followed {
            followed.before(event, &mut self.timeline);
        }
        if is_loss || (self.whole_ns.0..=self.whole_ns.1).contains(&event.ns) {
            self.tracker.observe(event, &self.timeline);
        }
        if let Some(followed) = &mut self.followed {
            followed.after(event, &mut self.timeline);
        }
        if let What::Point { stack, .. } = event.what {
            // While it is there to be asked for its name.
            self.threads.meet(event.thread, stack);
        }
    }

    /// Counts what ended, as far as nothing before can still be missing.
    fn settle(&mut self, lost: u64) {
        let all_told = self.counts().lost >= lost;
        let up_to = if all_told {
            self.told_ns = self.now_ns;
            self.now_ns
        } else {
            self.now_ns.saturating_sub(SETTLE_NS)
        };
        let (aggregate, threads) = (&mut self.aggregate, &mut self.threads);
        self.tracker.settle(up_to, |wait| {
            aggregate.add(wait, |thread| threads.role(thread))
        });
    }

    /// Nothing more is to come.
    fn finish(&mut self, lost: u64) {
        let untold = lost.saturating_sub(self.counts().lost);
        if untold > 0 {
            let what = What::Lost {
                since_ns: self.told_ns,
                count: untold,
            };
            let thread = Thread {
                tid: 0,
                began_ns: 0,
            };
            let event = Event {
                ns: self.now_ns,
                thread,
                cpu: 0,
                what,
            };
            self.take(&event);
        }
        let (aggregate, threads) = (&mut self.aggregate, &mut self.threads);
        self.tracker
            .finish(|wait| aggregate.add(wait, |thread| threads.role(thread)));
    }
}

/// It could be attached; it is detached until the first slice comes in its time.
fn first_slice(slices: Slices, source: &mut Source, intake: &mut Intake<'_>) -> Slicing {
    source.pause(|_| ());
    intake.forgive(source.lost());
    // Counters that cannot be read now cannot be read later either: then there is no cost.
    let _ = source.forget_cost();
    Slicing::new(slices)
}

/// Attaches for a slice and detaches after it, as it is due.
fn follow_slices(slicing: &mut Slicing, source: &mut Source, intake: &mut Intake<'_>) {
    match slicing.due() {
        Due::Nothing => {}
        Due::Attach => {
            if source.resume().unwrap_or(false) {
                intake.begin_slice(slicing.attached());
            } else {
                source.pause(|_| ());
                slicing.refused();
                // What was lost meanwhile is nobody's.
                intake.forgive(source.lost());
            }
        }
        Due::Detach => end_slice(slicing, source, intake),
    }
}

fn end_slice(slicing: &mut Slicing, source: &mut Source, intake: &mut Intake<'_>) {
    intake.whole_ns.1 = slicing.detaching();
    source.pause(|event| intake.take(&event));
    let long = intake.end_slice(source.lost(), slicing.long_ns());
    slicing.detached(long);
}

/// Traces until the session is over.
pub(super) fn run(
    asked: &Asked,
    plan: &Plan,
    attached: Attached,
    process: &Process,
    session: &mut Session,
) -> Measured {
    let Attached {
        mut source,
        mut names,
    } = attached;
    let mut intake = Intake::new(asked, plan, process.pid);
    let mut slicing = asked
        .slices
        .map(|slices| first_slice(slices, &mut source, &mut intake));
    session.start();
    let cpu = own_cpu_s();
    let mut sampled = Instant::now();
    let mut failed = None;
    while failed.is_none() && !session.is_over(process) {
        if let Some(slicing) = &mut slicing {
            follow_slices(slicing, &mut source, &mut intake);
        }
        let mut events = 0;
        if slicing.as_ref().is_none_or(Slicing::is_attached) {
            events = source.poll(|event| intake.take(&event));
            intake.settle(source.lost());
        }
        if sampled.elapsed() >= SAMPLE {
            sampled = Instant::now();
            let kept = session.append(&sample(session, &intake, slicing.as_ref()));
            failed = kept.err().map(|error| format!("{error:#}"));
        }
        if events < BUSY {
            let mut pause = session.pause(PAUSE);
            if let Some(slicing) = &slicing {
                pause = slicing.pause(pause);
            }
            // sleep: the rings are polled; a wake-up for each record would cost the server
            std::thread::sleep(pause);
        }
    }
    let duration = session.elapsed();
    match &mut slicing {
        Some(slicing) if slicing.is_attached() => end_slice(slicing, &mut source, &mut intake),
        Some(_) => {}
        None => {
            source.drain(|event| intake.take(&event));
            intake.finish(source.lost());
        }
    }
    intake.threads.refresh();
    name_roots(&mut intake.threads, source.stacks(), &mut names);
    let taken = Taken {
        counts: intake.counts(),
        costs: source.cost().unwrap_or_default(),
        switches: source.scheduler_cost(),
        counted_share: source.counted_share(),
        aggregate: intake.aggregate,
        threads: intake.threads,
        source,
        names,
        events: intake.events,
        duration,
        slicing,
        cpu_s: own_cpu_s() - cpu,
    };
    Measured { taken, failed }
}

/// Roles of threads without a name, by where they began.
fn name_roots(threads: &mut Directory, stacks: &Stacks, names: &mut Names) {
    threads.name_roots(|stack| {
        let whole = stacks.get(stack)?.end == StackEnd::Whole;
        whole
            .then(|| names.root(stacks, stack))?
            .map(|name| name.to_string())
    });
}

/// What is written down each second.
fn sample(session: &Session, intake: &Intake<'_>, slicing: Option<&Slicing>) -> serde_json::Value {
    let counts = intake.counts();
    let wait = intake.aggregate.latency.summary();
    json!({
        "at_s": session.elapsed().as_secs_f64(),
        "traced_s": slicing.map(Slicing::traced_s),
        "events": intake.events,
        "lost": counts.lost,
        "seen": counts.seen,
        "no_wait": counts.no_wait,
        "flagged": counts.flagged,
        "decomposed": counts.decomposed,
        "wait_us": wait,
        "stages_sum_ns": intake.aggregate.stages.iter().map(|s| s.sum_ns).collect::<Vec<_>>(),
    })
}

/// CPU time of this process, s.
fn own_cpu_s() -> f64 {
    let ns = waggle_server::cpu::process_cpu_ns(std::process::id()).unwrap_or(0);
    ns as f64 / 1e9
}

impl Taken {
    /// The names of a stack's calls, innermost first.
    pub(super) fn callers(&mut self, stack: StackId) -> Vec<String> {
        let names = self.names.of_stack(self.source.stacks(), stack);
        names.iter().map(ToString::to_string).collect()
    }
}
