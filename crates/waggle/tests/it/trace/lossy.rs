//! A tracer that is held up loses a part of the records: the waits of that part are flagged, and
//! the figures of the others are what they would have been. Two tracers look at the same waits, one
//! of them with room for all.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::pipeline::{Tracing, array, assert_sums, number};
use super::program::can_run;
use super::truth::Target;
use crate::watch::stage::{turn, wait_until};

/// Events of the last sample that the tracer has written.
fn events(out: &Path) -> u64 {
    let runs = std::fs::read_dir(out).expect("the folder").flatten();
    let text = runs
        .filter_map(|run| std::fs::read_to_string(run.path().join("samples.jsonl")).ok())
        .next()
        .unwrap_or_default();
    let last = text.lines().rev().find_map(|line| {
        let sample: Value = serde_json::from_str(line).ok()?;
        sample["events"].as_u64()
    });
    last.unwrap_or(0)
}

/// A wait: its thread, its beginning; how long it and each of its stages took.
type Waits = HashMap<(u64, u64), (u64, Vec<u64>)>;

fn waits(report: &Value) -> Waits {
    let waits = array(report, "slowest").iter().map(|wait| {
        let stages = array(wait, "stages").iter();
        let stages = stages.map(|stage| number(stage, "ns")).collect();
        let key = (number(wait, "tid"), number(wait, "key"));
        (key, (number(wait, "wait_ns"), stages))
    });
    waits.collect()
}

fn percentile(mut ns: Vec<u64>, percent: usize) -> u64 {
    ns.sort_unstable();
    ns[(ns.len() * percent / 100).min(ns.len() - 1)]
}

#[test]
fn of_a_tracer_that_loses_a_part_the_other_waits_are_unchanged() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let options = [
        "users=6",
        "stages=4",
        "waits=1600",
        "skip=10",
        "delay_us=200",
    ];
    let mut target = Target::start(&["-fomit-frame-pointer"], &options);
    let common = ["--usdt", "wakeup", "--slowest", "10000"];
    let whole = Tracing::start_of(target.pid(), &common);
    let part = Tracing::start_of(target.pid(), &[&common[..], &["--ring-kib", "64"]].concat());
    std::thread::scope(|scope| {
        scope.spawn(|| target.work());
        wait_until("both trace", || {
            events(whole.out()) > 2000 && events(part.out()) > 2000
        });
        part.signal(libc::SIGSTOP);
        // Some hundred bytes a record: more than there is room for.
        let then = events(whole.out());
        wait_until("the ring is full", || events(whole.out()) > then + 4000);
        part.signal(libc::SIGCONT);
    });
    let (whole_code, whole) = whole.interrupt();
    let (part_code, part) = part.interrupt();
    target.end();
    assert_eq!((whole_code, part_code), (Some(0), Some(1)), "{part}");
    assert_sums(&part);
    let truth = target.truth();
    assert_eq!(number(&whole, "seen"), truth.len() as u64);
    assert_eq!(number(&whole, "flagged"), 0);
    let (flagged, kept) = (number(&part, "flagged"), number(&part, "decomposed"));
    let lost = number(&part["lost"], "ring_full");
    assert!(lost > 0 && flagged > 0, "{lost} lost, {flagged} flagged");
    assert!(kept > 0, "a part was kept");
    let (all, ours) = (waits(&whole), waits(&part));
    println!(
        "{lost} records lost: {flagged} of {} waits flagged, {kept} in the figures",
        truth.len()
    );
    // Each tracer has its own probes at the same places: their time stamps are not the same.
    let mut apart = Vec::new();
    let mut theirs = Vec::new();
    for (key, (ns, stages)) in &ours {
        let (same_ns, same_stages) = &all[key];
        assert_eq!(stages.len(), same_stages.len());
        apart.push(ns.abs_diff(*same_ns));
        theirs.push(*same_ns);
    }
    let mine: Vec<u64> = ours.values().map(|(ns, _)| *ns).collect();
    for percent in [50, 95, 99] {
        let (mine, theirs) = (
            percentile(mine.clone(), percent),
            percentile(theirs.clone(), percent),
        );
        println!("p{percent}: {mine} ns, of the same waits in the other trace {theirs} ns");
        // Within what the two probes' stamps are apart.
        let most = percentile(apart.clone(), 99).max(theirs / 50);
        assert!(mine.abs_diff(theirs) <= most, "p{percent}: {mine} {theirs}");
    }
}
