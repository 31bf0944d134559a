use super::path::Doing;
use super::*;

const FRONT: Thread = Thread {
    tid: 1,
    began_ns: 1,
};
const WORKER: Thread = Thread {
    tid: 2,
    began_ns: 2,
};
const CLIENT: Thread = Thread {
    tid: 3,
    began_ns: 3,
};

fn name(thread: Thread, _: Option<StackId>) -> Option<String> {
    let names = ["front", "worker", "client"];
    names.get(thread.tid as usize - 1).map(ToString::to_string)
}

fn event(ns: u64, thread: Thread, what: What) -> Event {
    Event {
        ns,
        thread,
        cpu: 0,
        what,
    }
}

fn left(ns: u64, thread: Thread, why: Departure) -> Event {
    event(ns, thread, What::Left { why, stack: None })
}

fn wakes(ns: u64, waker: Thread, woken: Thread, interrupt: bool) -> Event {
    let what = What::Wakes {
        woken,
        stack: None,
        interrupt,
    };
    event(ns, waker, what)
}

/// A request from 100 to 460: the front hands it to the worker, which sleeps.
fn request() -> Vec<Event> {
    vec![
        event(10, FRONT, What::Came),
        event(10, WORKER, What::Came),
        left(20, WORKER, Departure::Futex(8)),
        left(30, FRONT, Departure::Network),
        wakes(100, CLIENT, FRONT, false),
        event(110, FRONT, What::Came),
        wakes(140, FRONT, WORKER, false),
        left(150, FRONT, Departure::Futex(16)),
        event(155, WORKER, What::Came),
        left(200, WORKER, Departure::Sleep),
        wakes(400, CLIENT, WORKER, true),
        event(410, WORKER, What::Came),
        wakes(430, WORKER, FRONT, false),
        left(440, WORKER, Departure::Futex(8)),
        event(445, FRONT, What::Came),
        left(460, FRONT, Departure::Network),
    ]
}

fn waits(events: &[Event]) -> Waits {
    let mut waits = Waits::new("program", Limits::default());
    for event in events {
        waits.record(event, name);
    }
    waits
}

#[test]
fn a_request_is_the_span_between_two_waits_for_the_network_and_its_path_is_whole() {
    let waits = waits(&request());
    let [slowest] = waits.requests().slowest() else {
        panic!("one request")
    };
    assert_eq!((slowest.from_ns, slowest.to_ns), (100, 460));
    let path: Vec<_> = slowest
        .path
        .iter()
        .map(|s| (s.thread, s.doing, s.to_ns - s.from_ns))
        .collect();
    assert_eq!(
        path,
        [
            (FRONT, Doing::Runnable, 10),
            (FRONT, Doing::OnCpu, 40),
            (WORKER, Doing::Runnable, 5),
            (WORKER, Doing::OnCpu, 45),
            (WORKER, Doing::Blocked(Kind::Sleep), 200),
            (WORKER, Doing::Runnable, 10),
            (WORKER, Doing::OnCpu, 20),
            (FRONT, Doing::Runnable, 15),
            (FRONT, Doing::OnCpu, 15),
        ]
    );
    let whole: u64 = path.iter().map(|(.., ns)| ns).sum();
    assert_eq!(whole, slowest.ns());
    assert_eq!(waits.requests().split().whole_ns(), 360);
    assert_eq!(waits.requests().histogram().max(), 360);
}

#[test]
fn each_wait_is_in_one_edge_with_its_parts() {
    let waits = waits(&request());
    let edges = graph::edges(&waits);
    let of = |waiter: &str, ender: &str| {
        let edge = graph::Edge {
            waiter: waiter.into(),
            ender: ender.into(),
        };
        edges.get(&edge).copied().unwrap_or_default()
    };
    let (all, in_requests) = of("front", "worker");
    assert_eq!((all.count, all.blocked_ns, all.runnable_ns), (1, 280, 15));
    assert_eq!(in_requests, all);
    let (all, in_requests) = of("front", "client");
    assert_eq!((all.count, all.blocked_ns, in_requests.count), (1, 70, 0));
    assert_eq!(of("worker", "interrupt (sleep)").0.blocked_ns, 200);
    let count: u64 = edges.values().map(|(all, _)| all.count).sum();
    assert_eq!(count, 4);
    assert_eq!(waits.still_waiting().count(), 2);
    let dot = graph::dot(&edges);
    assert!(dot.contains("\"front\" -> \"worker\""), "{dot}");
}

#[test]
fn what_overlaps_a_loss_is_flagged_and_in_no_figure() {
    let events = request();
    let mut waits = Waits::new("program", Limits::default());
    for (at, event) in events.iter().enumerate() {
        if at == 9 {
            waits.lossy(156, 5);
        }
        waits.record(event, name);
    }
    assert_eq!(waits.lost(), 5);
    assert_eq!(waits.requests().histogram().len(), 0);
    assert_eq!(waits.requests().flagged(), 1);
    assert_eq!(waits.flagged(), 1, "the front's wait for the worker");
}

#[test]
fn an_arrival_that_was_not_announced_is_counted_and_in_no_figure() {
    let events = [
        event(10, FRONT, What::Came),
        left(20, FRONT, Departure::Disk),
        left(50, FRONT, Departure::Disk),
        event(60, FRONT, What::Came),
    ];
    let waits = waits(&events);
    assert_eq!(waits.unannounced(), 1);
    let sums: Vec<_> = waits.sums().map(|(_, tally)| tally.blocked_ns).collect();
    assert_eq!(sums, [10]);
}

#[test]
fn beyond_the_limit_waits_are_summed_without_stacks() {
    let mut waits = Waits::new(
        "program",
        Limits {
            keys_max: 3,
            ..Limits::default()
        },
    );
    for n in 0..100 {
        let stack = Some(StackId(n));
        let why = Departure::Disk;
        let at = u64::from(n) * 10;
        waits.record(&event(at, FRONT, What::Left { why, stack }), name);
        waits.record(&event(at + 5, FRONT, What::Came), name);
    }
    assert_eq!(waits.sums().count(), 4);
    assert_eq!(waits.without_stack(), 97);
    assert_eq!(waits.sums().map(|(_, t)| t.blocked_ns).sum::<u64>(), 500);
}
