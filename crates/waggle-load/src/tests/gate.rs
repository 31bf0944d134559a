//! Pause, reset and stop: nothing is in flight, and counts are exact.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{CONNECT, lua, spec, start};
use crate::driver::DriverError;
use crate::driver::scripted::Scripted;
use crate::{Counters, Script};

#[test]
fn pause_leaves_no_statement_in_flight_and_counts_exactly() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.threads = 4;
    let server = Scripted::silent();
    let load = start(&spec, &server).unwrap();
    let mut before = 0;
    for _ in 0..100 {
        load.pause();
        assert_eq!(server.in_flight.load(Ordering::SeqCst), 0);
        assert_eq!(server.open_transactions.load(Ordering::SeqCst), 0);
        let counters = load.counters();
        assert_eq!(counters.queries, server.asked.lock().unwrap().len() as u64);
        assert_eq!(counters.queries, counters.transactions * 20);
        before = counters.transactions;
        load.resume();
        while load.counters().transactions == before {
            std::thread::yield_now();
        }
    }
    assert!(load.stop().unwrap().counters.transactions > before);
}

#[test]
fn a_reset_forgets_exactly_what_was_before_it() {
    let server = Scripted::silent();
    let mut spec = spec(Script::open("oltp_read_only").unwrap());
    spec.threads = 2;
    spec.start_paused = true;
    let load = start(&spec, &server).unwrap();
    assert_eq!(load.counters(), Counters::default());
    load.resume();
    while load.counters().transactions < 20 {
        std::thread::yield_now();
    }
    load.pause();
    load.reset();
    assert_eq!(load.counters(), Counters::default());
    assert!(load.take_latency().is_empty());
    let before = server.asked.lock().unwrap().len() as u64;
    load.resume();
    while load.counters().transactions < 20 {
        std::thread::yield_now();
    }
    let report = load.stop().unwrap();
    let after = server.asked.lock().unwrap().len() as u64;
    assert_eq!(report.counters.queries, after - before);
    assert_eq!(report.latency.count(), report.counters.transactions);
    assert!(report.cpu_ns > 0);
}

#[test]
fn a_worker_that_will_not_end_is_interrupted_then_reported() {
    let mut spec = spec(lua(&format!(
        "{CONNECT}function event() con:query('SELECT') end"
    )));
    spec.stop_grace = Duration::from_millis(20);
    // The server answers only when the socket is shut down.
    let server = Scripted::answering(|server, _| {
        while server.interrupted.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        Err(DriverError::Lost {
            errno: 2013,
            message: "the socket was shut down".into(),
        })
    });
    let load = start(&spec, &server).unwrap();
    while server.in_flight.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // What breaks because of the stop is no failure of the load.
    let report = load.stop().unwrap();
    assert_eq!(report.counters, Counters::default());
    assert_eq!(*server.interrupted.lock().unwrap(), [0]);
}
