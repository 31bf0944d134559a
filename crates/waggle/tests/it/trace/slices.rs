//! `--share`: traces of a part of the time, against programs that log their own truth.

use std::collections::HashSet;

use serde_json::Value;

use super::ends::Held;
use super::pipeline::{Tracing, array, assert_sums, compare, number};
use super::program::can_run;
use super::truth::{Target, TrueWait};
use crate::watch::stage::{turn, wait_until};

/// What the tracer holds just now.
fn held(pid: u32) -> Held {
    let mut held = Held::default();
    held.add(pid);
    held
}

/// The share that was traced is near what was asked for, and is what the sums are scaled by.
fn assert_share(report: &Value, asked: f64) {
    let slices = &report["slices"];
    let float = |field: &str| {
        slices[field]
            .as_f64()
            .unwrap_or_else(|| panic!("{field} of {slices}"))
    };
    assert!(number(slices, "count") > 2, "{slices}");
    assert_eq!(number(slices, "refused"), 0);
    let share = float("share");
    // Of few periods, the last of which was cut off.
    assert!(share > asked / 2.0 && share < asked * 1.6, "{slices}");
    let traced_s = number(slices, "traced_ns") as f64 / 1e9;
    let duration_s = report["duration_s"].as_f64().expect("a time");
    assert!((traced_s / duration_s - share).abs() < 0.01, "{slices}");
    let began = number(slices, "began") as f64;
    assert!((began / traced_s - float("began_per_s")).abs() < 1.0 + began / 1e3);
    let estimated = number(slices, "estimated") as f64;
    assert!(
        (estimated * share - began).abs() < 2.0 + began * 0.01,
        "{slices}"
    );
}

/// Every wait that is told was one, and no wait is told twice.
fn assert_once(report: &Value, truth: &[TrueWait]) {
    let mut told = HashSet::new();
    for wait in array(report, "slowest") {
        let which = (number(wait, "tid"), number(wait, "start_ns"));
        assert!(told.insert(which), "{which:?} is there twice");
    }
    assert!(told.len() < truth.len(), "a part of them");
}

#[test]
fn a_share_of_the_time_has_a_share_of_the_waits_each_exact() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let options = [
        "users=6",
        "stages=5",
        "waits=3000",
        "skip=20",
        "past=10",
        "spurious=20",
        "churn=6",
        "delay_us=300",
    ];
    let mut target = Target::start(&["-fno-omit-frame-pointer"], &options);
    let flags = [
        "--usdt",
        "wakeup",
        "--slowest",
        "10000",
        "--share",
        "25%",
        "--slice",
        "200",
    ];
    let tracing = Tracing::start(&target, &flags);
    // In turns all of it is attached, and nothing.
    let pid = tracing.pid();
    wait_until("a slice begins", || held(pid).links() > 0);
    wait_until("it is over", || held(pid).links() == 0);
    wait_until("the next begins", || held(pid).links() > 0);
    let within = held(pid);
    wait_until("it is over as well", || held(pid).links() == 0);
    target.work();
    let (code, report) = tracing.interrupt();
    assert_eq!(code, Some(0), "{report}");
    target.end();
    if !within.is_empty() {
        within.assert_gone();
    }
    let truth = target.truth();
    assert_sums(&report);
    assert_share(&report, 0.25);
    assert_once(&report, &truth);
    assert_eq!(
        (number(&report, "flagged"), number(&report, "torn")),
        (0, 0)
    );
    let decomposed = number(&report, "decomposed");
    assert_eq!(
        array(&report, "slowest").len() as u64,
        decomposed,
        "in full"
    );
    assert!(decomposed > 100, "{decomposed}");
    let share = number(&report, "seen") as f64 / truth.len() as f64;
    println!("{share:.3} of {} waits: {}", truth.len(), report["slices"]);
    assert!((0.08..0.5).contains(&share), "{share}");
    let slices = &report["slices"];
    let all = number(&report, "seen") + number(&report, "cut") - number(&report, "begun_before");
    assert_eq!(
        number(slices, "began"),
        all,
        "each began, and is accounted for"
    );
    let differ = compare("a quarter of the time", &report, &truth);
    // Two stages within a microsecond of each other may change places.
    assert!(differ * 100 <= decomposed, "{differ} of {decomposed}");
}

#[test]
fn a_share_without_the_scheduler_is_as_exact() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let options = ["users=4", "stages=5", "waits=3000", "delay_us=200"];
    let mut target = Target::start(&["-fomit-frame-pointer"], &options);
    let flags = [
        "--usdt",
        "wakeup",
        "--slowest",
        "10000",
        "--no-scheduler",
        "--share",
        "40%",
        "--slice",
        "100",
    ];
    let tracing = Tracing::start(&target, &flags);
    target.work();
    let (code, report) = tracing.interrupt();
    assert_eq!(code, Some(0), "{report}");
    target.end();
    let truth = target.truth();
    assert_sums(&report);
    assert_once(&report, &truth);
    assert_eq!(
        (number(&report, "flagged"), number(&report, "torn")),
        (0, 0)
    );
    let differ = compare("two fifths of the time", &report, &truth);
    assert!(differ * 100 <= number(&report, "decomposed"), "{differ}");
}
