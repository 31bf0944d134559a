//! Ten thousand waits a second for as long as `WAGGLE_SOAK_S` says: memory stays bounded, no record
//! is lost, nothing is left behind.
//!
//! ```text
//! WAGGLE_SOAK_S=600 cargo test -p waggle --test it trace::soak -- --ignored --nocapture
//! ```

use super::ends::Held;
use super::pipeline::{Tracing, assert_sums, number};
use super::program::can_run;
use super::truth::Target;
use crate::watch::stage::turn;

/// Seconds, if nothing else is said.
const SECONDS: u64 = 600;
/// What the tracer may have in memory, KiB: the ring, what is kept of each second, and the names.
const MEMORY_KIB: u64 = 300 << 10;

/// Memory of a process that is in use, KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0)
}

#[test]
#[ignore = "takes as long as it is told to; run by hand"]
fn ten_thousand_waits_a_second_are_traced_for_as_long_as_one_likes() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let seconds = std::env::var("WAGGLE_SOAK_S").ok();
    let seconds = seconds.map_or(SECONDS, |text| text.parse().expect("seconds"));
    let time = format!("seconds={seconds}");
    let options = [
        "users=48",
        "stages=2",
        "delay_us=100",
        "churn=10",
        // What each waits for comes on top of its pause.
        "rate=14000",
        &time,
    ];
    let mut target = Target::start(&["-fno-omit-frame-pointer"], &options);
    let tracing = Tracing::start_of(target.pid(), &["--usdt", "wakeup"]);
    let tracer = tracing.pid();
    let mut held = Held::default();
    held.add(tracer);
    let resident = std::thread::scope(|scope| {
        let working = scope.spawn(|| target.work());
        let mut resident = Vec::new();
        while !working.is_finished() {
            resident.push(resident_kib(tracer));
            // sleep: memory is looked at while the target works
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        resident
    });
    let (code, report) = tracing.interrupt();
    target.end();
    let (early, most) = (resident[resident.len() / 4], resident.iter().max().copied());
    println!(
        "{} waits in {seconds} s, {} lost; memory after a quarter {early} KiB, most {most:?} KiB",
        number(&report, "seen"),
        number(&report["lost"], "ring_full"),
    );
    println!("{}", report["cost"]);
    assert_eq!(code, Some(0), "{report:#}");
    assert_sums(&report);
    assert!(most.is_some_and(|most| most < MEMORY_KIB), "{resident:?}");
    held.assert_gone();
}
