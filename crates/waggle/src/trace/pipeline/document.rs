//! The report of a pipeline's trace, from what was taken down.

use std::collections::BTreeMap;
use std::hash::Hash;

use waggle_report::trace::{
    Doing, PipelineGroup, PipelineReport, PipelineSlice, PipelineStage, PipelineWait,
    PipelineWaitStage, TRACE_FORMAT_VERSION, TraceCost, TraceFacts, TraceProbe,
};
use waggle_trace::event::StackId;
use waggle_trace::pipeline::{self, Group, Reason, StageTotals, Wait};
use waggle_trace::resolve::{Plan, Role, Seen};

use super::super::session::Session;
use super::super::slices::Slicing;
use super::super::target::Process;
use super::measure::Taken;

/// The part of a wait behind its last stage.
const LEFT: &str = "(rest)";

/// Groups that the document keeps, the largest; the last holds all others.
const GROUPS_MAX: usize = 200;
const OTHERS: &str = "(others)";

/// Calls of a single wait that are kept.
const CALLS_MAX: usize = 24;

/// Two records closer than this may be in either order if they are of different processors, ns.
const RESOLUTION_NS: u64 = 1_000;

/// Makes the report.
pub(super) fn of(
    plan: &Plan,
    process: &Process,
    session: &Session,
    taken: &mut Taken,
) -> PipelineReport {
    let counts = taken.counts;
    let slice = taken.aggregate.slowest_share(0.01);
    PipelineReport {
        facts: facts(plan, process, session, taken),
        pipeline: plan.pipeline.clone(),
        about: plan.about.clone(),
        seen: counts.seen,
        no_wait: counts.no_wait,
        flagged: counts.flagged,
        decomposed: counts.decomposed,
        cut: counts.cut,
        begun_before: counts.begun_before,
        torn: counts.torn,
        begin_lost: counts.begin_lost,
        inexact: counts.inexact,
        resolution_ns: RESOLUTION_NS,
        wait_us: taken.aggregate.latency.summary(),
        wait_sum_ns: taken.aggregate.sum_ns,
        stages: stages(plan, taken),
        spurious_wakes: taken.aggregate.spurious,
        slowest_percent: PipelineSlice {
            waits: slice.waits,
            at_least_ns: slice.at_least_ns,
            sum_ns: slice.sum_ns,
            stages_ns: slice.parts_ns,
        },
        by_role: groups(&taken.aggregate.by_role, |role| {
            taken.threads.role_name(*role).to_owned()
        }),
        by_thread: groups(&taken.aggregate.by_thread, |thread| match thread {
            Some(thread) => taken.threads.label(*thread),
            None => OTHERS.to_owned(),
        }),
        by_caller: by_caller(taken),
        slowest: slowest(taken),
    }
}

fn facts(plan: &Plan, process: &Process, session: &Session, taken: &Taken) -> TraceFacts {
    let seconds = taken.duration.as_secs_f64();
    let slicing = taken.slicing.as_ref();
    let traced_s = slicing.map_or(seconds, Slicing::traced_s);
    let slices = slicing.map(|slicing| {
        let wait = taken.aggregate.latency.summary();
        let p99_ns = (wait.count > 0).then_some(wait.p99_us * 1e3);
        slicing.facts(taken.duration, taken.counts.began, taken.counts.cut, p99_ns)
    });
    let hits: u64 = taken.costs.iter().map(|cost| cost.hits).sum();
    let run_ns: u64 = taken.costs.iter().map(|cost| cost.run_ns).sum();
    let switches_ns: u64 = taken.switches.iter().map(|(.., ns)| ns).sum();
    let own = std::process::id();
    TraceFacts {
        format_version: TRACE_FORMAT_VERSION,
        process: process.traced(),
        process_ended: session.process_ended(),
        duration_s: seconds,
        slices,
        events: taken.events,
        lost: BTreeMap::from([("ring_full".to_owned(), taken.counts.lost)]),
        probes: probes(plan, taken),
        cost: TraceCost {
            waggle_cpu_s: taken.cpu_s,
            waggle_rss_bytes: waggle_server::cpu::process_rss_bytes(own).unwrap_or(0),
            hits_per_s: hits as f64 / traced_s.max(1e-9),
            program_ns_per_hit: (run_ns > 0).then(|| run_ns as f64 / hits.max(1) as f64),
            programs_s: (run_ns > 0).then_some(run_ns as f64 / 1e9),
            host_programs_s: (switches_ns > 0).then_some(switches_ns as f64 / 1e9),
            process_cpu_s: session.process_cpu_s(),
            counted_share: taken.counted_share,
        },
        notes: plan
            .stages
            .iter()
            .filter(|stage| stage.seen == Seen::Refused)
            .map(|stage| {
                format!(
                    "The stage {} cannot be seen here; its time is in the stage after it.",
                    stage.name
                )
            })
            .collect(),
    }
}

fn probes(plan: &Plan, taken: &Taken) -> Vec<TraceProbe> {
    let attached = plan.points.iter().map(|point| {
        let what = match point.role {
            Role::WaitStart => "wait start".to_owned(),
            Role::WaitEnd => "wait end".to_owned(),
            Role::Stage(index) => format!("stage {}", stage_name(plan, index)),
            Role::StageBegin(index) => format!("begin of {}", stage_name(plan, index)),
        };
        let unattached = taken
            .source
            .unattached()
            .iter()
            .find(|u| u.point == point.id);
        let cost = taken.costs.iter().filter(|cost| cost.point == point.id);
        let (hits, ns) = cost.fold((0, 0), |(hits, ns), cost| {
            (hits + cost.hits, ns + cost.run_ns)
        });
        TraceProbe {
            name: what,
            place: point.name.clone(),
            refused: unattached.map(|unattached| unattached.reason.clone()),
            emulated: None,
            hits,
            program_ns_per_hit: each(hits, ns),
        }
    });
    let refused = plan.refusals.iter().map(|refusal| TraceProbe {
        name: refusal.part.clone(),
        place: refusal.place.clone(),
        refused: Some(refusal.reason.clone()),
        ..TraceProbe::default()
    });
    let switches = taken.switches.iter().map(|(name, runs, ns)| TraceProbe {
        name: "scheduler".to_owned(),
        place: format!("raw tracepoint {name}, of the whole host"),
        hits: *runs,
        program_ns_per_hit: each(*runs, *ns),
        ..TraceProbe::default()
    });
    attached.chain(switches).chain(refused).collect()
}

/// Nanoseconds a hit; nothing if they were not counted.
fn each(hits: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| ns as f64 / hits.max(1) as f64)
}

fn stage_name(plan: &Plan, index: usize) -> &str {
    plan.stages.get(index).map_or("?", |stage| &stage.name)
}

fn stages(plan: &Plan, taken: &Taken) -> Vec<PipelineStage> {
    let names = plan
        .stages
        .iter()
        .map(|stage| stage.name.as_str())
        .chain([LEFT]);
    let whole = taken.aggregate.sum_ns.max(1) as f64;
    let stage = |(name, totals): (&str, &StageTotals)| PipelineStage {
        name: name.to_owned(),
        latency_us: totals.latency.summary(),
        sum_ns: totals.sum_ns,
        share: totals.sum_ns as f64 / whole,
        skipped: totals.skipped,
        instant: totals.instant,
        doing: doing(&totals.doing),
        by_role: totals
            .roles
            .iter()
            .fold(BTreeMap::new(), |mut all, (role, waits)| {
                let name = taken.threads.role_name(*role).to_owned();
                *all.entry(name).or_default() += waits;
                all
            }),
    };
    names.zip(&taken.aggregate.stages).map(stage).collect()
}

fn doing(doing: &pipeline::Doing) -> Doing {
    let blocked = Reason::ALL.iter().zip(doing.blocked_ns);
    Doing {
        queued_ns: doing.queued_ns,
        on_cpu_ns: doing.on_cpu_ns,
        runnable_ns: doing.runnable_ns,
        blocked_ns: blocked
            .filter(|(_, ns)| *ns > 0)
            .map(|(reason, ns)| (reason.name().to_owned(), ns))
            .collect(),
        unknown_ns: doing.unknown_ns,
    }
}

/// Groups by their name, the most waiting first.
fn groups<'a, K: Eq + Hash + 'a>(
    groups: impl IntoIterator<Item = (&'a K, &'a Group)>,
    mut name: impl FnMut(&K) -> String,
) -> Vec<PipelineGroup> {
    let mut named: BTreeMap<String, Group> = BTreeMap::new();
    for (key, group) in groups {
        let parts = group.parts_ns.len();
        let same = named.entry(name(key)).or_insert_with(|| Group::new(parts));
        same.merge(group);
    }
    let mut all: Vec<(String, Group)> = named.into_iter().collect();
    all.sort_by(|(a_name, a), (b_name, b)| (b.sum_ns, a_name).cmp(&(a.sum_ns, b_name)));
    if all.len() > GROUPS_MAX {
        let mut rest = all.split_off(GROUPS_MAX - 1).into_iter();
        if let Some((_, mut others)) = rest.next() {
            rest.for_each(|(_, group)| others.merge(&group));
            all.push((OTHERS.to_owned(), others));
        }
    }
    all.into_iter()
        .map(|(name, group)| PipelineGroup {
            name,
            waits: group.waits,
            sum_ns: group.sum_ns,
            p50_ns: group.quantile_ns(0.50),
            p95_ns: group.quantile_ns(0.95),
            p99_ns: group.quantile_ns(0.99),
            max_ns: group.max_ns,
            stages_ns: group.parts_ns,
        })
        .collect()
}

/// By the call that led to the wait; nothing if no wait has a stack.
fn by_caller(taken: &mut Taken) -> Vec<PipelineGroup> {
    let stacks: Vec<Option<StackId>> = taken.aggregate.by_stack.keys().copied().collect();
    if stacks.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut names: BTreeMap<Option<StackId>, String> = BTreeMap::new();
    for stack in stacks {
        let calls = stack.map(|stack| taken.callers(stack)).unwrap_or_default();
        // The innermost is the function that waits, the next is who called it.
        let caller = calls.get(1).or(calls.first()).cloned();
        names.insert(stack, caller.unwrap_or_else(|| "(not known)".to_owned()));
    }
    groups(&taken.aggregate.by_stack, |stack| names[stack].clone())
}

fn slowest(taken: &mut Taken) -> Vec<PipelineWait> {
    let waits: Vec<Wait> = taken.aggregate.slowest().into_iter().cloned().collect();
    waits.iter().map(|wait| single(wait, taken)).collect()
}

fn single(wait: &Wait, taken: &mut Taken) -> PipelineWait {
    let mut caller = wait
        .stack
        .map(|stack| taken.callers(stack))
        .unwrap_or_default();
    caller.truncate(CALLS_MAX);
    let stage = |part: &pipeline::Part| {
        let thread = part.reached.and_then(|reached| reached.thread);
        let offset = |ns: u64| ns.cast_signed().wrapping_sub(wait.start_ns.cast_signed());
        PipelineWaitStage {
            ns: part.ns,
            skipped: part.skipped,
            tid: thread.map(|thread| thread.tid),
            thread: thread.map(|thread| taken.threads.label(thread)),
            value: part.reached.map(|reached| reached.value),
            reached_ns: part.reached.map(|reached| offset(reached.ns)),
            doing: doing(&part.doing),
        }
    };
    PipelineWait {
        tid: wait.waiter.tid,
        thread: taken.threads.label(wait.waiter),
        start_ns: wait.start_ns,
        wait_ns: wait.ns(),
        key: wait.key,
        spurious_wakes: wait.spurious,
        stages: wait.parts.iter().map(stage).collect(),
        caller,
    }
}
