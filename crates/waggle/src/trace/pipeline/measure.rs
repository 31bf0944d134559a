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
use waggle_trace::stack::names::Names;
use waggle_trace::threads::Directory;
use waggle_trace::timeline::{CHANGES_MAX, Timeline};

use super::super::session::Session;
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

/// Takes events in.
struct Intake {
    tracker: Tracker,
    /// `None`: the scheduler is not asked, and nobody is in view.
    followed: Option<Followed>,
    timeline: Timeline,
    aggregate: Aggregate,
    threads: Directory,
    events: u64,
    now_ns: u64,
    /// Up to then, all losses were told.
    told_ns: u64,
}

impl Intake {
    fn take(&mut self, event: &Event) {
        self.events += u64::from(!matches!(event.what, What::Lost { .. }));
        self.now_ns = self.now_ns.max(event.ns);
        self.timeline.record(event);
        if let Some(followed) = &mut self.followed {
            followed.before(event, &mut self.timeline);
        }
        self.tracker.observe(event, &self.timeline);
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
        let all_told = self.tracker.counts().lost >= lost;
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
        let untold = lost.saturating_sub(self.tracker.counts().lost);
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
        self.threads.refresh();
    }
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
    let settings = AggregateSettings {
        slowest: asked.slowest,
        ..AggregateSettings::default()
    };
    let layout = Layout::of(plan);
    let mut intake = Intake {
        aggregate: Aggregate::new(layout.stages.len(), settings),
        tracker: Tracker::new(layout),
        followed: (asked.scheduler || plan.needs_scheduler()).then(|| Followed::of(plan)),
        timeline: Timeline::new(HISTORY_NS, CHANGES_MAX),
        threads: Directory::of_process(process.pid),
        events: 0,
        now_ns: 0,
        told_ns: 0,
    };
    session.start();
    let cpu = own_cpu_s();
    let mut sampled = Instant::now();
    let mut failed = None;
    while failed.is_none() && !session.is_over(process) {
        let events = source.poll(|event| intake.take(&event));
        intake.settle(source.lost());
        if sampled.elapsed() >= SAMPLE {
            sampled = Instant::now();
            let kept = session.append(&sample(session, &intake));
            failed = kept.err().map(|error| format!("{error:#}"));
        }
        if events < BUSY {
            let pause = session.pause(PAUSE);
            // sleep: the rings are polled; a wake-up for each record would cost the server
            std::thread::sleep(pause);
        }
    }
    let duration = session.elapsed();
    let costs = source.cost().unwrap_or_default();
    let switches = source.scheduler_cost();
    source.drain(|event| intake.take(&event));
    intake.finish(source.lost());
    let stacks = source.stacks();
    intake.threads.name_roots(|stack| {
        let whole = stacks.get(stack)?.end == StackEnd::Whole;
        whole
            .then(|| names.root(stacks, stack))?
            .map(|name| name.to_string())
    });
    let taken = Taken {
        counts: intake.tracker.counts(),
        aggregate: intake.aggregate,
        threads: intake.threads,
        source,
        names,
        costs,
        switches,
        events: intake.events,
        duration,
        cpu_s: own_cpu_s() - cpu,
    };
    Measured { taken, failed }
}

/// What is written down each second.
fn sample(session: &Session, intake: &Intake) -> serde_json::Value {
    let counts = intake.tracker.counts();
    let wait = intake.aggregate.latency.summary();
    json!({
        "at_s": session.elapsed().as_secs_f64(),
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
