//! What does following the servers of this host cost?
//!
//! ```text
//! cargo run --release -p waggle-server --example discovery_cost [SECONDS]
//! ```
//!
//! Looks once a second for so many seconds (30 if nothing is said), as the agent does, and prints
//! what the looks cost at which nothing had changed, and those at which something had.

use std::process::ExitCode;
use std::time::Duration;

use waggle_server::cpu::own_thread_cpu_ns;
use waggle_server::discovery::Discovery;

fn main() -> ExitCode {
    let seconds: Option<u32> = std::env::args().nth(1).map_or(Some(30), |n| n.parse().ok());
    let Some(seconds) = seconds.filter(|n| *n > 0) else {
        eprintln!("usage: discovery_cost [SECONDS]");
        return ExitCode::from(2);
    };
    let mut discovery = Discovery::new();
    let costed = |discovery: &mut Discovery| {
        let begun_ns = own_thread_cpu_ns();
        let changes = discovery.poll().len();
        (own_thread_cpu_ns() - begun_ns, changes)
    };
    let (first_ns, _) = costed(&mut discovery);
    let processes = std::fs::read_dir("/proc").map_or(0, |entries| {
        let is_pid =
            |name: &std::ffi::OsStr| name.to_str().is_some_and(|n| n.parse::<u32>().is_ok());
        entries
            .filter_map(Result::ok)
            .filter(|e| is_pid(&e.file_name()))
            .count()
    });
    let (mut quiet, mut busy): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1)); // the pace of the agent
        match costed(&mut discovery) {
            (ns, 0) => quiet.push(ns),
            (ns, _) => busy.push(ns),
        }
    }
    println!(
        "{} servers among {processes} processes; first look: {:.1} ms",
        discovery.servers().count(),
        first_ns as f64 / 1e6,
    );
    for (what, looks) in [("nothing", quiet), ("something", busy)] {
        let mean_us = looks.iter().sum::<u64>() as f64 / looks.len().max(1) as f64 / 1e3;
        let most_us = looks.iter().max().copied().unwrap_or(0) as f64 / 1e3;
        println!(
            "{} looks at which {what} had changed: {mean_us:.0} us each ({:.4}% of a core at one \
             a second), the dearest {most_us:.0} us",
            looks.len(),
            mean_us / 1e4,
        );
    }
    ExitCode::SUCCESS
}
