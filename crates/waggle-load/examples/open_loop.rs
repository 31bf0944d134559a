//! What does an open loop at a fixed rate measure, and how late is it itself?
//!
//! `open_loop DSN THREADS RATE SECONDS`: point selects at Poisson arrivals, then the quantiles of
//! response, service, waiting time and lag. Stop the server meanwhile (SIGSTOP) and compare.

use std::error::Error;
use std::time::Duration;

use waggle_load::{Load, LoadSpec, Script};
use waggle_stats::arrivals::{Arrivals, Spacing};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dsn, threads, rate, seconds] = arguments.as_slice() else {
        return Err("open_loop DSN THREADS RATE SECONDS".into());
    };
    let mut spec = LoadSpec::new(dsn.parse()?, Script::open("oltp_point_select")?);
    spec.threads = threads.parse()?;
    spec.options.insert("table_size".into(), "10000".into());
    spec.ignore_errors = "1213,1205,1020,2013".parse()?;
    spec.arrivals = Some(Arrivals::constant(rate.parse()?, Spacing::Poisson));
    let load = Load::start(&spec)?;
    load.wait(Duration::from_secs_f64(seconds.parse()?));
    let (report, failure) = load.finish();
    let last = report.last;
    println!("{:?}", last.offered);
    println!(
        "{:?}, downtime {:.3} s",
        last.counters,
        last.downtime_ns as f64 / 1e9
    );
    let kinds = [
        ("response", &last.response),
        ("service", &last.service),
        ("wait", &last.wait),
        ("lag", &last.lag),
    ];
    for (name, latency) in kinds {
        let quantiles = [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| latency.quantile_us(share));
        println!("{name:8} {:8} events, us: {quantiles:.1?}", latency.count());
    }
    println!(
        "errors {:?}; ended by {:?}",
        last.errors,
        failure.map(|error| error.to_string())
    );
    println!("cpu {:.2} s", last.cpu_ns as f64 / 1e9);
    Ok(())
}
