//! The open loop, limits of events, and what snapshots say of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use waggle_stats::arrivals::{Arrivals, Spacing};

use super::{CONNECT, PATIENCE, lua, run_to_end, spec, start};
use crate::driver::Outcome;
use crate::driver::scripted::Scripted;
use crate::{Load, LoadError, LoadSpec, LoadState, Overflow};

const EVENT: &str = "function event() con:query('SELECT') end";

fn at_rate(rate: f64, threads: u32) -> LoadSpec {
    let mut spec = spec(lua(&format!("{CONNECT}{EVENT}")));
    spec.threads = threads;
    spec.arrivals = Some(Arrivals::constant(rate, Spacing::Uniform));
    spec
}

/// A server that answers nothing while it is shut.
struct Door {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    fn shut() -> Arc<Door> {
        Arc::new(Door {
            is_shut: Mutex::new(true),
            opened: Condvar::new(),
        })
    }

    fn open(&self) {
        *self.is_shut.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn server(self: &Arc<Door>) -> Arc<Scripted> {
        let door = self.clone();
        Scripted::answering(move |_, _| {
            let shut = door.is_shut.lock().unwrap();
            let _shut = door.opened.wait_while(shut, |shut| *shut).unwrap();
            Ok(Outcome::default())
        })
    }
}

/// Waits until a reading is as wanted.
fn wait_for(load: &Load, wanted: impl Fn(&crate::Snapshot) -> bool) -> crate::Snapshot {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let snapshot = load.snapshot();
        if wanted(&snapshot) {
            return snapshot;
        }
        assert!(Instant::now() < deadline, "{:?}", snapshot.offered);
        std::thread::yield_now();
    }
}

/// 1,000 events a second, 3,000 in all; the server stands still for 300 ms. Whatever the machine
/// does beside, the 30 events that were due in the first 30 ms of the stall wait for at least
/// 270 ms: one percent of all. Eight of all events were in the server meanwhile.
#[test]
fn a_stall_of_the_server_shows_in_response_times_as_arithmetic_says() {
    const STALL: Duration = Duration::from_millis(300);
    let (asked, end) = (AtomicU64::new(0), OnceLock::<Instant>::new());
    let server = Scripted::answering(move |_, _| {
        if asked.fetch_add(1, Ordering::Relaxed) >= 1_000 {
            let end = end.get_or_init(|| Instant::now() + STALL);
            while Instant::now() < *end {
                std::thread::park_timeout(*end - Instant::now().min(*end));
            }
        }
        Ok(Outcome::default())
    });
    let mut spec = at_rate(1_000.0, 8);
    spec.event_limit = Some(3_000);
    let load = start(&spec, &server).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    let last = load.stop().unwrap().last;
    assert_eq!(last.response.count(), 3_000);
    assert_eq!(last.service.count(), 3_000);
    assert_eq!(last.wait.count(), 3_000);
    let ms = |ns: u64| ns as f64 / 1e6;
    let (response, wait) = (&last.response, &last.wait);
    assert!(ms(response.quantile_ns(0.999)) >= 290.0, "{response:?}");
    assert!(ms(response.quantile_ns(0.99)) >= 265.0, "{response:?}");
    assert!(ms(wait.quantile_ns(0.99)) >= 260.0, "{wait:?}");
    let service_p99 = ms(last.service.quantile_ns(0.99));
    assert!(
        service_p99 < 150.0,
        "the service time hides it: {service_p99}"
    );
    assert!(
        last.service.max_ns() >= 290_000_000,
        "of 8 events it was all"
    );
    let offered = last.offered.unwrap();
    assert!(offered.backlog_max >= 250, "{offered:?}");
    assert_eq!(offered.begun, 3_000);
    // Only workers that stood ready can lag.
    assert!(last.lag.count() < 3_000 && last.lag.count() > 0);
}

#[test]
fn sleepers_are_paused_resumed_and_stopped_at_once() {
    let server = Scripted::silent();
    let load = start(&at_rate(1e-6, 4), &server).unwrap();
    for _ in 0..20 {
        load.pause();
        load.resume();
    }
    assert!(load.pause_within(PATIENCE));
    let offered = load.stop().unwrap().last.offered.unwrap();
    assert_eq!((offered.due, offered.begun, offered.backlog), (0, 0, 0));
}

#[test]
fn what_waited_in_the_warm_up_is_not_measured() {
    let door = Door::shut();
    let load = start(&at_rate(10_000.0, 2), &door.server()).unwrap();
    wait_for(&load, |now| now.offered.unwrap().backlog > 500);
    std::thread::scope(|scope| {
        let reset = scope.spawn(|| load.reset());
        while !load.shared().gate.is_paused() {
            std::thread::yield_now();
        }
        door.open();
        reset.join().unwrap();
    });
    let now = wait_for(&load, |now| now.offered.unwrap().begun > 100);
    let offered = now.offered.unwrap();
    assert!(offered.forgotten > 500, "{offered:?}");
    let before = load.snapshot();
    let counted = before.response.count();
    let after = wait_for(&load, |now| now.response.count() > counted);
    let between = after.since(&before);
    assert_eq!(between.offered.unwrap().forgotten, 0);
    assert!(between.response.count() > 0);
    load.stop().unwrap();
}

#[test]
fn what_is_due_and_was_not_begun_is_counted_at_the_end() {
    let door = Door::shut();
    let server = door.server();
    let load = start(&at_rate(10_000.0, 2), &server).unwrap();
    let now = wait_for(&load, |now| now.offered.unwrap().backlog > 100);
    assert!(now.offered.unwrap().backlog_age_ns > 0);
    std::thread::scope(|scope| {
        let gate = load.shared().clone();
        scope.spawn(move || {
            while !gate.gate.is_stopped() {
                std::thread::yield_now();
            }
            door.open();
        });
        let last = load.stop().unwrap().last;
        let offered = last.offered.unwrap();
        assert_eq!(offered.begun, 2);
        assert_eq!(last.response.count(), 2, "those in flight end");
        assert_eq!(offered.due, offered.begun + offered.backlog);
        assert!(offered.backlog > 100);
    });
}

#[test]
fn events_above_the_limit_are_dropped_and_counted() {
    let door = Door::shut();
    let mut spec = at_rate(10_000.0, 2);
    spec.overflow = Overflow::Drop { waiting: 5 };
    let load = start(&spec, &door.server()).unwrap();
    let now = wait_for(&load, |now| now.offered.unwrap().dropped > 100);
    let offered = now.offered.unwrap();
    assert!(
        offered.backlog <= 5 && offered.backlog_max <= 5,
        "{offered:?}"
    );
    door.open();
    wait_for(&load, |now| now.counters.transactions > 2);
    let offered = load.stop().unwrap().last.offered.unwrap();
    assert_eq!(
        offered.due,
        offered.begun + offered.dropped + offered.backlog
    );
}

#[test]
fn too_long_a_backlog_ends_the_load_with_a_report() {
    // The server answers only when the sockets are shut down.
    let server = Scripted::answering(|server, _| {
        while server.interrupted.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        Ok(Outcome::default())
    });
    let mut spec = at_rate(10_000.0, 2);
    spec.overflow = Overflow::Abort { waiting: 100 };
    spec.stop_grace = Duration::from_millis(20);
    let load = start(&spec, &server).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Failed);
    let (report, failure) = load.finish();
    let text = failure.unwrap().to_string();
    assert!(
        text.starts_with("the server cannot carry the offered rate: "),
        "{text}"
    );
    let offered = report.last.offered.unwrap();
    assert!(offered.begun == 2 && offered.backlog > 100, "{offered:?}");
}

#[test]
fn the_limit_of_events_is_exact() {
    for arrivals in [None, Some(Arrivals::constant(1e6, Spacing::Poisson))] {
        let mut spec = spec(lua(&format!("{CONNECT}{EVENT}")));
        (spec.threads, spec.event_limit, spec.arrivals) = (4, Some(1_001), arrivals);
        let counters = run_to_end(&spec, &Scripted::silent()).unwrap();
        assert_eq!(counters.transactions, 1_001);
    }
}

#[test]
fn a_limit_may_be_set_when_the_warm_up_is_over() {
    let mut spec = spec(lua(&format!("{CONNECT}{EVENT}")));
    spec.threads = 3;
    let load = start(&spec, &Scripted::silent()).unwrap();
    wait_for(&load, |now| now.counters.transactions > 10);
    load.pause();
    let before = load.snapshot();
    load.set_event_limit(Some(50));
    load.resume();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    assert_eq!(load.snapshot().since(&before).counters.transactions, 50);
}

#[test]
fn a_plan_that_ends_ends_the_load() {
    let mut spec = at_rate(0.0, 2);
    let plan = spec.arrivals.as_mut().unwrap();
    (plan.stages[0].duration_s, plan.stages[0].from) = (0.02, 2_000.0);
    let load = start(&spec, &Scripted::silent()).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    assert_eq!(load.stop().unwrap().counters.transactions, 19);
    spec.arrivals = Some(Arrivals::constant(-1.0, Spacing::Uniform));
    let error = start(&spec, &Scripted::silent()).err().unwrap();
    assert!(matches!(error, LoadError::Arrivals(_)), "{error}");
}

#[test]
fn a_start_that_is_no_longer_wanted_ends() {
    let spec = at_rate(1.0, 1);
    let server = Scripted::silent();
    let (cancel, wanted) = (spec.cancel.clone(), Arc::new(AtomicBool::new(true)));
    let is_wanted = wanted.clone();
    *server.admits.lock().unwrap() = Box::new(move |_| {
        cancel.store(true, Ordering::Relaxed);
        while is_wanted.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Ok(())
    });
    let error = start(&spec, &server).err().unwrap();
    wanted.store(false, Ordering::Relaxed);
    assert!(matches!(error, LoadError::Cancelled), "{error}");
}
