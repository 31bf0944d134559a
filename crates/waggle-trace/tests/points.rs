//! Points of a program that knows how often each was passed, and with what.

mod running;

use std::collections::BTreeMap;

use waggle_need::can_probe;
use waggle_probes::point::Attach;
use waggle_trace::resolve::{Plan, Role, Target};
use waggle_trace::source::{Source, SourceError, SourceOptions};
use waggle_trace::stagefile::{self, Rule};
use waggle_trace::{Event, What};

use running::Running;

/// The program, which is to do so many rounds with so many threads; `None`, aloud, if no probe can
/// be had here.
fn started(flags: &[&str], rounds: u64, threads: u64) -> Option<Running> {
    can_probe().then_some(())?;
    let flags = [&["-Wall", "-Werror", "-rdynamic"][..], flags].concat();
    let mut running = Running::start("points", &flags, &[rounds, threads].map(|n| n.to_string()));
    assert!(running.line().starts_with("progress 0x"));
    Some(running)
}

/// Lets it do its rounds, to the end; returns how often its counted probe was armed.
fn finish(running: &mut Running) -> u64 {
    running.go();
    let line = running.line();
    let armed = line.strip_prefix("done ").expect("its end");
    armed.parse().expect("a number")
}

fn options() -> SourceOptions {
    SourceOptions {
        cost: true,
        ..SourceOptions::default()
    }
}

/// Values by role, and second values.
type Seen = BTreeMap<String, Vec<(u64, u64)>>;

fn by_role(plan: &Plan, events: &[Event]) -> Seen {
    let mut seen = Seen::new();
    for event in events {
        if let What::Point {
            point,
            value,
            second,
            ..
        } = event.what
        {
            let role = format!("{:?}", plan.point(point).unwrap().role);
            seen.entry(role).or_default().push((value, second));
        }
    }
    seen
}

fn run(plan: &Plan, running: &mut Running) -> (Vec<Event>, Source, u64) {
    let mut source = Source::attach(plan, &[running.pid()], options()).expect("attached");
    let armed = finish(running);
    let mut events = Vec::new();
    source.poll(|event| events.push(event));
    source.drain(|event| events.push(event));
    assert!(events.is_sorted_by_key(|event| event.ns));
    assert_eq!(source.lost(), 0);
    (events, source, armed)
}

const ROUNDS: u64 = 500;
const THREADS: u64 = 3;

#[test]
fn static_probes_are_followed_as_they_are() {
    let Some(mut running) = started(&[], ROUNDS, THREADS) else {
        return;
    };
    let target = Target::open(running.pid()).unwrap();
    let pipeline = target.static_pipeline("wakeup").unwrap();
    let names: Vec<&str> = pipeline.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["1", "2"]);
    assert!(
        target
            .static_pipeline("nobody")
            .unwrap_err()
            .contains("wakeup")
    );
    let plan = target.plan(&pipeline);
    assert_eq!(plan.refusals, []);
    // The second place of a stage is the same point.
    assert!(plan.points[2].specs.len() >= 2);
    let (events, source, armed) = run(&plan, &mut running);
    assert_eq!(source.unattached(), []);
    assert_eq!(armed, ROUNDS * THREADS, "the counter was switched on");
    let seen = by_role(&plan, &events);
    let count = |role: &str| seen[role].len() as u64;
    assert_eq!(count("WaitStart"), ROUNDS * THREADS);
    assert_eq!(count("WaitEnd"), ROUNDS * THREADS);
    assert_eq!(count("Stage(0)"), THREADS * (ROUNDS + ROUNDS.div_ceil(2)));
    assert_eq!(count("Stage(1)"), ROUNDS * THREADS);
    let sum: u64 = seen["WaitStart"].iter().map(|(value, _)| value).sum();
    assert_eq!(sum, THREADS * ROUNDS * (ROUNDS + 1) / 2);
    let costs = source.cost().unwrap();
    assert_eq!(costs.len(), plan.points.len());
    assert_eq!(costs[0].hits, ROUNDS * THREADS);
    assert!(costs.iter().all(|cost| cost.run_ns > 0), "{costs:?}");
    // Threads that began after the attachment, each with its own beginning.
    let threads: std::collections::BTreeSet<_> = events
        .iter()
        .filter(|e| matches!(e.what, What::Point { .. }))
        .map(|e| e.thread)
        .collect();
    assert_eq!(threads.len() as u64, THREADS);
    assert!(threads.iter().all(|thread| thread.began_ns > 0));
}

const FUNCTIONS: &str = r#"
[pipeline.functions.wait]
start = "fn:work"
key = "arg1"
second = "u64(arg2)"
end = "fn:work:ret"
if = "arg1 >= 251"
[[pipeline.functions.stage]]
name = "inner"
at = "fn:inner"
value = "arg1"
[[pipeline.functions.stage]]
name = "stored"
at = "watch:&progress"
value = "new"
[[pipeline.functions.stage]]
name = "wide"
at = "usdt:wakeup:wide"
value = "arg1"
[[pipeline.functions.stage]]
name = "missing"
at = "fn:not_there"
value = "arg1"
[[pipeline.functions.stage]]
name = "waking"
at = "waking"
"#;

#[test]
fn functions_words_and_unsigned_arguments_are_exact() {
    for flags in [
        &["-fno-omit-frame-pointer", "-fcf-protection=full"][..],
        &["-fomit-frame-pointer"],
    ] {
        let Some(mut running) = started(flags, ROUNDS, 1) else {
            return;
        };
        let target = Target::open(running.pid()).unwrap();
        let pipeline = stagefile::parse(FUNCTIONS).unwrap().remove(0);
        let plan = target.plan(&pipeline);
        let refused: Vec<&str> = plan.refusals.iter().map(|r| r.part.as_str()).collect();
        assert_eq!(refused, ["missing"], "{:?}", plan.refusals);
        assert!(plan.refusals[0].reason.contains("no function not_there"));
        assert!(plan.is_usable() && plan.needs_scheduler());
        let (events, source, _) = run(&plan, &mut running);
        assert_eq!(source.unattached(), [], "{flags:?}");
        let seen = by_role(&plan, &events);
        let starts: Vec<(u64, u64)> = (251..=ROUNDS).map(|i| (i, i + 1000)).collect();
        assert_eq!(seen["WaitStart"], starts, "{flags:?}");
        // Of an end outside of a wait nothing is told.
        assert_eq!(seen["WaitEnd"].len(), starts.len());
        let all = |from: u64| (1..=ROUNDS).map(|i| (from + i, 0)).collect::<Vec<_>>();
        assert_eq!(seen["Stage(0)"], all(0), "{flags:?}");
        assert_eq!(
            seen["Stage(1)"],
            all(0),
            "every store, with the value after it"
        );
        assert_eq!(
            seen["Stage(2)"],
            all(0x8000_0000),
            "no sign where there is none"
        );
        let start = plan
            .points
            .iter()
            .find(|p| p.role == Role::WaitStart)
            .unwrap();
        let cost = source.cost().unwrap()[usize::from(start.id.0)];
        assert_eq!(cost.hits, ROUNDS, "also those that the test ruled out");
        assert_eq!(pipeline.stages[0].rule, Rule::AtLeast);
    }
}

#[test]
fn a_stack_has_the_caller_of_a_function_that_has_no_frame_yet() {
    let text = r#"
[pipeline.stacks]
wait = { start = "fn:inner", key = "arg1", end = "fn:inner:ret", stack = true }
[[pipeline.stacks.stage]]
name = "work"
at = "fn:work:ret"
value = "ret"
"#;
    let flags = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(mut running) = started(&flags, 20, 1) else {
        return;
    };
    let target = Target::open(running.pid()).unwrap();
    let plan = target.plan(&stagefile::parse(text).unwrap()[0]);
    let (events, source, _) = run(&plan, &mut running);
    let program = target.process().program();
    let outer = program.function("outer").unwrap();
    let (from, to) = (outer.address, outer.address + outer.code.len() as u64);
    let mut stacks = 0;
    for event in &events {
        let What::Point {
            point,
            value,
            stack,
            ..
        } = event.what
        else {
            continue;
        };
        match plan.point(point).unwrap().role {
            Role::WaitStart => {
                let stack = source.stack(stack.expect("a stack")).expect("received");
                let caller = stack.addresses[1] - target.process().image();
                assert!((from..to).contains(&caller), "{:x?}", stack.addresses);
                stacks += 1;
            }
            // What `work` returns.
            Role::Stage(_) => assert_eq!((value - 1000) % 4, 0),
            _ => {}
        }
    }
    assert_eq!(stacks, 20);
}

#[test]
fn a_place_whose_bytes_differ_is_refused_and_the_rest_works() {
    let Some(mut running) = started(&[], 50, 1) else {
        return;
    };
    let target = Target::open(running.pid()).unwrap();
    let inner = target.process().program().function("inner").unwrap();
    let text = format!(
        r#"
[pipeline.p]
wait = {{ start = "fn:work", key = "arg1", end = "fn:work:ret" }}
[[pipeline.p.stage]]
name = "wrong"
at = "off:{0:#x}=0102"
value = "%rdi"
[[pipeline.p.stage]]
name = "right"
at = "fde:{1:#x}"
value = "arg1"
"#,
        inner.file_offset, inner.address
    );
    let mut plan = target.plan(&stagefile::parse(&text).unwrap()[0]);
    assert_eq!(plan.refusals.len(), 1);
    assert!(
        plan.refusals[0].reason.contains("not [01, 02]"),
        "{:?}",
        plan.refusals
    );
    // Another file was put in place of the binary after it was read: the attacher sees it.
    let end = plan
        .points
        .iter_mut()
        .find(|p| p.role == Role::WaitEnd)
        .unwrap();
    let Attach::Return(place) = &mut end.specs[0].attach else {
        panic!("a return");
    };
    place.bytes[0] ^= 0xff;
    let (events, source, _) = run(&plan, &mut running);
    assert_eq!(source.unattached().len(), 1);
    assert!(
        source.unattached()[0]
            .reason
            .contains("changed since it was read")
    );
    let seen = by_role(&plan, &events);
    assert_eq!((seen["WaitStart"].len(), seen["Stage(1)"].len()), (50, 50));
    assert!(!seen.contains_key("WaitEnd") && !seen.contains_key("Stage(0)"));
    // Nothing that can be attached is no source.
    plan.points.retain(|point| point.role == Role::WaitEnd);
    match Source::attach(&plan, &[running.pid()], options()) {
        Err(SourceError::Nothing(reason)) => assert!(reason.contains("changed"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_place_is_off_an_instruction_boundary() {
    let Some(running) = started(&[], 1, 1) else {
        return;
    };
    let target = Target::open(running.pid()).unwrap();
    let function = target.process().program().function("thread_of_nothing");
    assert!(function.is_err());
    let work = target.process().program().function("main").unwrap();
    let mut taken = 0;
    for (index, byte) in work.code.iter().enumerate() {
        let offset = work.file_offset + index as u64;
        let text = format!(
            "[pipeline.p.wait]\nstart = \"off:{offset:#x}={byte:02x}\"\nend = \"fn:work:ret\"\n\
             [[pipeline.p.stage]]\nname = \"x\"\nat = \"waking\"\n"
        );
        let plan = target.plan(&stagefile::parse(&text).unwrap()[0]);
        let boundary = waggle_symbols::boundary::at_address(&work, work.address + index as u64);
        assert_eq!(
            plan.is_usable(),
            boundary.is_ok(),
            "{index:#x}: {:?}",
            plan.refusals
        );
        taken += usize::from(plan.is_usable());
    }
    assert!(taken > 10 && taken < work.code.len(), "{taken}");
}

#[test]
fn a_small_ring_loses_aloud() {
    let Some(mut running) = started(&[], 2000, 2) else {
        return;
    };
    let target = Target::open(running.pid()).unwrap();
    let plan = target.plan(&target.static_pipeline("wakeup").unwrap());
    let options = SourceOptions {
        ring_bytes: 4096,
        scheduler: None,
        cost: false,
    };
    let mut source = Source::attach(&plan, &[running.pid()], options).unwrap();
    finish(&mut running);
    let (mut points, mut lost) = (0, 0);
    source.drain(|event| match event.what {
        What::Point { .. } => points += 1,
        What::Lost { count, .. } => lost += count,
        _ => {}
    });
    let hits: u64 = source.cost().unwrap().iter().map(|cost| cost.hits).sum();
    assert!(points > 0 && lost > 0);
    assert_eq!(points + lost, hits);
    assert_eq!(source.lost(), lost);
}
