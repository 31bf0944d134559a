//! What does it cost to look at the host and at a process once?
//!
//! ```text
//! cargo run --release -p waggle-agent --example sampler_cost [THREADS]
//! ```
//!
//! Starts so many threads that rest (200 if nothing is said) and takes this process for a server.
//! One sample a second of so many us takes a tenth of a thousandth of a core for each 100 us.

use std::process::ExitCode;
use std::sync::{Arc, Barrier};

use waggle_agent::hosts::{HostSampler, ProcessSampler};
use waggle_server::cpu::own_thread_cpu_ns;

const ROUNDS: u32 = 300;

fn main() -> ExitCode {
    let threads = std::env::args()
        .nth(1)
        .map_or(Some(200), |n| n.parse().ok());
    let Some(threads) = threads else {
        eprintln!("usage: sampler_cost [THREADS]");
        return ExitCode::from(2);
    };
    let hold = Arc::new(Barrier::new(threads + 1));
    for _ in 0..threads {
        let hold = Arc::clone(&hold);
        std::thread::spawn(move || hold.wait());
    }
    let mut host = HostSampler::new();
    report("host", || host.sample().is_ok());
    match ProcessSampler::new(std::process::id()) {
        Ok(mut process) => {
            report(&format!("process of {threads} threads"), || {
                process.sample().is_ok()
            });
        }
        Err(error) => eprintln!("process: {error}"),
    }
    hold.wait();
    ExitCode::SUCCESS
}

fn report(what: &str, mut sample: impl FnMut() -> bool) {
    let all_well = (0..10).all(|_| sample());
    let begun = own_thread_cpu_ns();
    let done = (0..ROUNDS).filter(|_| sample()).count();
    let us = (own_thread_cpu_ns() - begun) as f64 / f64::from(ROUNDS) / 1e3;
    println!("{what}: {us:.1} us a sample ({done} samples, first ones good: {all_well})");
}
