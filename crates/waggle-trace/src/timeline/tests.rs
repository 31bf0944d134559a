use super::*;
use proptest::prelude::*;

const A: Thread = Thread {
    tid: 1,
    began_ns: 10,
};
const B: Thread = Thread {
    tid: 2,
    began_ns: 20,
};

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

fn wakes(ns: u64, waker: Thread, woken: Thread) -> Event {
    let what = What::Wakes {
        woken,
        stack: None,
        interrupt: false,
    };
    event(ns, waker, what)
}

fn timeline(events: &[Event]) -> Timeline {
    let mut timeline = Timeline::new(u64::MAX, 1000);
    for event in events {
        timeline.record(event);
    }
    timeline
}

#[test]
fn a_wait_is_blocked_until_woken_and_then_waits_for_a_processor() {
    let futex = Departure::Futex(0x1000);
    let timeline = timeline(&[
        event(100, A, What::Came),
        left(150, A, futex),
        wakes(190, B, A),
        event(200, A, What::Came),
        left(220, A, Departure::Runnable),
        event(250, A, What::Came),
        left(300, A, Departure::Disk),
    ]);
    let split = timeline.split(A, 120, 290);
    assert_eq!(split.on_cpu_ns, 30 + 20 + 40);
    assert_eq!(split.runnable_ns, 10 + 30);
    assert_eq!(split.blocked, [(futex, 40)]);
    assert_eq!(split.whole_ns(), 170);
    let spans = timeline.spans(A, 120, 290);
    assert_eq!(spans[1].waker.unwrap().thread, B);
    assert_eq!((spans[1].from_ns, spans[1].to_ns), (150, 190));
}

#[test]
fn what_was_not_seen_is_a_part_of_its_own() {
    let timeline = timeline(&[
        event(100, A, What::Came),
        left(150, A, Departure::Sleep),
        // It came at some time between, unannounced.
        left(200, A, Departure::Disk),
        event(230, A, What::Came),
    ]);
    let split = timeline.split(A, 50, 230);
    assert_eq!(split.unseen_ns, 50 + 50);
    assert_eq!(split.on_cpu_ns, 50);
    assert_eq!(split.blocked, [(Departure::Disk, 30)]);
    assert_eq!(timeline.split(B, 0, 7).unseen_ns, 7, "never seen");
    assert_eq!(timeline.split(A, 230, 240).unseen_ns, 10, "not yet");
}

#[test]
fn a_loss_hides_what_every_thread_did_until_it_is_seen_again() {
    let lost = What::Lost {
        since_ns: 160,
        count: 3,
    };
    let timeline = timeline(&[
        event(100, A, What::Came),
        left(150, A, Departure::Disk),
        event(180, B, lost),
        event(200, A, What::Came),
    ]);
    let split = timeline.split(A, 100, 200);
    assert_eq!(split.on_cpu_ns, 50);
    assert_eq!(split.blocked, [(Departure::Disk, 10)]);
    assert_eq!(split.unseen_ns, 40);
}

#[test]
fn history_is_bounded_in_time_and_in_number() {
    let mut timeline = Timeline::new(1000, 40);
    for n in 0..10_000_u64 {
        timeline.record(&event(n * 10, A, What::Came));
        timeline.record(&left(n * 10 + 5, A, Departure::Disk));
        assert!(timeline.changes <= 41, "{}", timeline.changes);
    }
    let from = timeline.kept_from_ns();
    let split = timeline.split(A, from, timeline.now_ns());
    assert_eq!(split.unseen_ns, 0);
    assert!(timeline.split(A, 0, timeline.now_ns()).unseen_ns > 90_000);
    timeline.record(&event(100_000, A, What::Ended));
    timeline.record(&event(300_000, B, What::Came));
    assert_eq!(timeline.threads.len(), 1, "an ended thread is forgotten");
}

proptest! {
    #[test]
    fn parts_add_up_to_the_span_whatever_came(
        steps in prop::collection::vec((1u64..50, 0u8..7, any::<bool>()), 1..200),
        from in 0u64..6000,
        length in 0u64..6000,
    ) {
        let mut timeline = Timeline::new(u64::MAX, 1000);
        let mut ns = 0;
        for (step, kind, first) in steps {
            ns += step;
            let (thread, other) = if first { (A, B) } else { (B, A) };
            timeline.record(&match kind {
                0 | 1 => event(ns, thread, What::Came),
                2 => left(ns, thread, Departure::Futex(8)),
                3 => left(ns, thread, Departure::Runnable),
                4 => wakes(ns, thread, other),
                5 => event(ns, thread, What::Lost { since_ns: ns.saturating_sub(60), count: 1 }),
                _ => event(ns, thread, What::Began),
            });
        }
        for thread in [A, B] {
            prop_assert_eq!(timeline.split(thread, from, from + length).whole_ns(), length);
            let spans = timeline.spans(thread, from, from + length);
            for pair in spans.windows(2) {
                prop_assert_eq!(pair[0].to_ns, pair[1].from_ns);
            }
        }
    }
}

#[test]
fn one_that_is_woken_on_its_way_to_sleep_is_ready_all_the_time() {
    let futex = Departure::Futex(0x1000);
    let timeline = timeline(&[
        event(50, A, What::Came),
        wakes(99, B, A),
        left(100, A, futex),
        event(200, A, What::Came),
        // Woken again in its sleep: that is who woke it.
        wakes(299, B, A),
        left(300, A, futex),
        wakes(350, B, A),
        event(400, A, What::Came),
    ]);
    let split = timeline.split(A, 100, 200);
    assert_eq!((split.runnable_ns, split.blocked_ns()), (100, 0));
    let split = timeline.split(A, 300, 400);
    assert_eq!((split.runnable_ns, split.blocked_ns()), (50, 50));
}

proptest! {
    #[test]
    fn changes_are_counted_from_the_end_as_by_a_search_of_all(
        steps in prop::collection::vec(0u64..5, 0..100),
        ns in 0u64..300,
    ) {
        let mut history = History::default();
        let mut at = 0;
        for (index, step) in steps.iter().enumerate() {
            at += step;
            let state = if index % 2 == 0 { State::OnCpu } else { State::Runnable };
            history.change(at, state);
        }
        let all = history.changes.partition_point(|change| change.ns <= ns);
        prop_assert_eq!(history.count_until(ns), all);
    }
}
