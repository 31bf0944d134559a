//! Made-up traces, one of each subject, that use every part of their documents; strings in them
//! are hostile.

use std::collections::BTreeMap;

use waggle_report::run::RunFacts;
use waggle_report::trace::{
    Doing, FuncCall, FuncCalls, FuncReport, FuncRow, PipelineGroup, PipelineReport, PipelineSlice,
    PipelineStage, PipelineWait, PipelineWaitStage, TraceFacts, TracePage, TraceProbe, TraceReport,
    TraceSlices, WaitsEdge, WaitsReport, WaitsRequest, WaitsRequests, WaitsRow, WaitsSegment,
    WaitsShare, WaitsSum,
};
use waggle_stats::latency::LatencySummary;

const HOSTILE: &str = "<img src=x onerror=alert(1)>|`</script>";

fn latency(mean_us: f64) -> LatencySummary {
    LatencySummary {
        count: 5000,
        mean_us,
        p50_us: mean_us * 0.8,
        p95_us: mean_us * 2.0,
        p99_us: mean_us * 4.0,
        max_us: mean_us * 11.0,
    }
}

fn facts() -> TraceFacts {
    let mut facts = TraceFacts {
        format_version: 1,
        duration_s: 30.0,
        events: 5000,
        lost: BTreeMap::from([("ring_full".to_owned(), 3)]),
        probes: vec![
            TraceProbe {
                name: "call".into(),
                place: "_Z3fooi+0x4".into(),
                emulated: Some(true),
                hits: 5000,
                ..TraceProbe::default()
            },
            TraceProbe {
                name: "stage".into(),
                place: HOSTILE.into(),
                refused: Some("no such function".into()),
                ..TraceProbe::default()
            },
        ],
        notes: vec![format!("12 calls of {HOSTILE} were under way")],
        ..TraceFacts::default()
    };
    facts.process.pid = 4711;
    facts.process.program = "mysqld".into();
    facts.process.flavour = Some("MySQL".into());
    facts.cost.program_ns_per_hit = Some(412.0);
    facts
}

fn reasons() -> BTreeMap<String, u64> {
    BTreeMap::from([
        ("futex".to_owned(), 6_000_000),
        ("disk".to_owned(), 2_000_000),
    ])
}

fn calls(name: &str) -> FuncCalls {
    FuncCalls {
        name: name.into(),
        per_s: 166.7,
        latency_us: latency(120.0),
        sum_ns: 600_000_000,
        off_sum_ns: 8_000_000,
        off_mean_us: 1.6,
        off_us: latency(80.0),
        off_by_reason_ns: reasons(),
        queued_ns: 1_000_000,
        cpu_percent: 1.97,
        histogram: vec![
            (98_304, 100_352, 4000, 10),
            (196_608, 200_704, 900, 60),
            (1_572_864, 1_605_632, 100, 0),
        ],
        ..FuncCalls::default()
    }
}

fn func() -> FuncReport {
    let slow = |wall_ns| FuncCall {
        name: "dispatch_command".into(),
        tid: 77,
        thread: HOSTILE.into(),
        wall_ns,
        off_ns: 8_000_000,
        off_by_reason_ns: reasons(),
        longest_off_ns: 5_000_000,
        longest_off_reason: "futex".into(),
        stack: vec!["do_command".into(), "~handle_connection+0x140".into()],
        ..FuncCall::default()
    };
    FuncReport {
        facts: facts(),
        functions: vec![FuncRow {
            signature: "dispatch_command(THD*)".into(),
            calls: calls("dispatch_command"),
            rest_ns: Some(300_000_000),
            rest_off_ns: Some(2_000_000),
            children: vec![calls(HOSTILE)],
            callers: vec![calls("do_command")],
        }],
        slower_ns: Some(10_000_000),
        slow: vec![slow(22_000_000), slow(12_000_000)],
        ..FuncReport::default()
    }
}

fn doing(ns: u64) -> Doing {
    Doing {
        queued_ns: ns / 10,
        on_cpu_ns: ns / 10,
        runnable_ns: ns / 10,
        blocked_ns: BTreeMap::from([("disk".to_owned(), ns / 2)]),
        unknown_ns: ns / 5,
    }
}

fn slices() -> TraceSlices {
    TraceSlices {
        share_asked: 0.1,
        slice_ns: 500_000_000,
        seed: 7,
        count: 6,
        refused: 1,
        traced_ns: 3_000_000_000,
        share: 0.1,
        began: 5200,
        began_per_s: 1733.3,
        estimated: 52_000,
        cut: 100,
        cut_long: 2,
        whole_at_p99: Some(0.98),
    }
}

fn pipeline() -> PipelineReport {
    let stages = [
        ("ready", 20_000_u64),
        ("written", 300_000),
        (HOSTILE, 1_680_000),
    ];
    let wait = |at: u64| PipelineWait {
        tid: 9,
        thread: "connection".into(),
        caller: vec!["log_write_up_to".into()],
        wait_ns: 2_000_000 * (3 - at),
        key: 123_456 + at,
        stages: stages
            .iter()
            .map(|(_, ns)| PipelineWaitStage {
                ns: ns * (3 - at),
                tid: Some(5),
                thread: Some("ib_log_flush".into()),
                value: Some(1),
                reached_ns: Some(-5),
                doing: doing(*ns),
                ..PipelineWaitStage::default()
            })
            .collect(),
        ..PipelineWait::default()
    };
    let stages_ns: Vec<u64> = stages.iter().map(|(_, ns)| ns * 5000).collect();
    PipelineReport {
        facts: TraceFacts {
            slices: Some(slices()),
            ..facts()
        },
        pipeline: "redo".into(),
        about: HOSTILE.into(),
        seen: 5100,
        decomposed: 5000,
        no_wait: 100,
        wait_us: latency(2000.0),
        wait_sum_ns: 10_000_000_000,
        stages: stages
            .iter()
            .map(|(name, ns)| PipelineStage {
                name: (*name).into(),
                latency_us: latency(*ns as f64 / 1e3),
                sum_ns: ns * 5000,
                share: *ns as f64 / 2e6,
                doing: doing(ns * 5000),
                by_role: BTreeMap::from([(HOSTILE.to_owned(), 5000)]),
                ..PipelineStage::default()
            })
            .collect(),
        slowest_percent: PipelineSlice {
            waits: 50,
            at_least_ns: 8_000_000,
            sum_ns: 450_000_000,
            stages_ns: vec![10_000_000, 40_000_000, 400_000_000],
        },
        by_role: vec![PipelineGroup {
            name: "user connection".into(),
            waits: 5000,
            sum_ns: 10_000_000_000,
            stages_ns,
            ..PipelineGroup::default()
        }],
        slowest: vec![wait(0), wait(1)],
        ..PipelineReport::default()
    }
}

fn waits() -> WaitsReport {
    let sum = WaitsSum {
        count: 2000,
        blocked_ns: 6_000_000_000,
        runnable_ns: 90_000_000,
        longest_ns: 30_000_000,
    };
    let edge = |waiter: &str, woken_by: &str| WaitsEdge {
        waiter: waiter.into(),
        woken_by: woken_by.into(),
        all: sum,
        in_requests: sum,
    };
    let segment = |doing: &str, depth| WaitsSegment {
        thread: "connection".into(),
        role: "user connection".into(),
        doing: doing.into(),
        ns: 3_000_000,
        depth,
        stack: vec!["fsync".into(), HOSTILE.into()],
    };
    WaitsReport {
        facts: facts(),
        ended: 9000,
        requests: WaitsRequests {
            count: 800,
            latency_us: latency(900.0),
            split_ns: BTreeMap::from([("on-cpu".to_owned(), 4_000), ("unseen".to_owned(), 10)]),
            path: vec![WaitsShare {
                role: "ib_log_flush".into(),
                doing: "disk".into(),
                ns: 500_000_000,
                share: 0.6,
            }],
            slowest: vec![WaitsRequest {
                thread: HOSTILE.into(),
                role: "user connection".into(),
                ns: 6_000_000,
                segments: vec![segment("on-cpu", 0), segment("disk", 1)],
                ..WaitsRequest::default()
            }],
            ..WaitsRequests::default()
        },
        edges: vec![
            edge("user connection", HOSTILE),
            edge("ib_log_flush", "interrupt (disk)"),
        ],
        waits: vec![WaitsRow {
            role: "user connection".into(),
            kind: "futex".into(),
            in_request: true,
            stack: vec!["__futex_abstimed_wait".into()],
            woken_by: "ib_log_flush".into(),
            waker_stack: vec!["os_event_set".into()],
            sum,
        }],
        files: BTreeMap::from([("folded stacks".to_owned(), "offwake.folded".to_owned())]),
        ..WaitsReport::default()
    }
}

/// Subject and page of each.
pub(crate) fn every_trace() -> Vec<(&'static str, TracePage)> {
    let facts = RunFacts {
        verb: "trace".into(),
        command: ["waggle", "trace", "func", "--pid", "4711"]
            .map(str::to_owned)
            .to_vec(),
        started: "2026-11-21T10:03:12.481Z".into(),
        waggle_version: "0.1.0".into(),
        ..RunFacts::default()
    };
    let page = |report| TracePage::new(report, &facts);
    vec![
        ("func", page(TraceReport::Func(Box::new(func())))),
        (
            "pipeline",
            page(TraceReport::Pipeline(Box::new(pipeline()))),
        ),
        ("waits", page(TraceReport::Waits(Box::new(waits())))),
    ]
}
