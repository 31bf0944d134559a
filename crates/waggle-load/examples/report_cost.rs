//! What do readings of a running load cost it, and how much memory do its threads take?
//!
//! `report_cost DSN THREADS [ROUNDS]`: runs point selects, in rounds of three stretches of 3 s
//! with a reading every 3 s, 1 s and 0.1 s in an order that changes, and prints throughput and
//! the ratio to the first kind; then the resident set. The table is one `prepare` made.

use std::error::Error;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};
use waggle_load::{Load, LoadSpec, Script};

const STRETCH: Duration = Duration::from_secs(3);
const READINGS: u32 = 200;
const EVERY: [Duration; 3] = [STRETCH, Duration::from_secs(1), Duration::from_millis(100)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dsn = arguments.next().ok_or("report_cost DSN THREADS [ROUNDS]")?;
    let threads = arguments.next().ok_or("how many threads?")?.parse()?;
    let rounds: usize = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let mut spec = LoadSpec::new(dsn.parse()?, Script::open("oltp_point_select")?);
    spec.threads = threads;
    spec.options.insert("table_size".into(), "10000".into());
    waggle_load::cleanup(&spec, |_| {})?;
    waggle_load::prepare(&spec, |_| {})?;
    let load = Load::start(&spec)?;
    stretch(&load, STRETCH);
    let mut ratios = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..rounds {
        let mut rates = [0.0; 3];
        for place in 0..3 {
            let arm = (round + if round % 2 == 0 { place } else { 3 - place }) % 3;
            rates[arm] = stretch(&load, EVERY[arm]);
        }
        for arm in 0..3 {
            ratios[arm].push(rates[arm] / rates[0]);
        }
        println!("{:.0} {:.0} {:.0} events/s", rates[0], rates[1], rates[2]);
    }
    for (every, ratios) in EVERY.iter().zip(&ratios).skip(1) {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let square = |ratio: &f64| (ratio - mean) * (ratio - mean);
        let variance = ratios.iter().map(square).sum::<f64>() / (ratios.len().max(2) - 1) as f64;
        let error = (variance / ratios.len() as f64).sqrt();
        println!("a reading every {every:?}: {mean:.4} of the rate, standard error {error:.4}");
    }
    // By the thread's own clock: beside a load that takes all processors, most of the time that
    // passes is the load's.
    let before = clock_gettime(ClockId::ThreadCPUTime);
    let mut quantile_ns = 0;
    for _ in 0..READINGS {
        quantile_ns = load.snapshot().response.quantile_ns(0.99);
    }
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let ns = |at: Timespec| at.tv_sec as f64 * 1e9 + at.tv_nsec as f64;
    println!(
        "one reading takes {:.1} us of CPU; p99 {quantile_ns} ns",
        (ns(after) - ns(before)) / 1e3 / f64::from(READINGS)
    );
    let status = std::fs::read_to_string("/proc/self/status")?;
    for line in status
        .lines()
        .filter(|line| line.starts_with("Vm") || line.starts_with("Threads"))
    {
        println!("{line}");
    }
    load.stop()?;
    Ok(())
}

/// Events a second.
fn stretch(load: &Load, every: Duration) -> f64 {
    let before = load.snapshot();
    let mut last = before.clone();
    let end = before.at + STRETCH;
    while last.at < end {
        load.wait(every.min(end.saturating_duration_since(Instant::now())));
        let now = load.snapshot();
        std::hint::black_box(now.since(&last));
        last = now;
    }
    let events = last.since(&before).response.count() as f64;
    events / (last.at - before.at).as_secs_f64()
}
