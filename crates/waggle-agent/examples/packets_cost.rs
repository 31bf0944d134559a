//! What does watching a server's packets cost, and how many get lost?
//!
//! `cargo run --release -p waggle-agent --example packets_cost -- PID SECONDS [RING_MIB]` watches
//! the server while somebody else loads it, and prints what was seen, this process's CPU time a
//! statement, and what the kernel dropped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waggle_agent::source::packets::{PacketPlan, PacketSource};
use waggle_agent::source::{Observation, Source};

fn cpu_ns() -> u64 {
    waggle_server::cpu::process_cpu_ns(std::process::id()).unwrap_or_default()
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |name: &str| -> anyhow::Result<Option<u64>> {
        let value = arguments.next().map(|value| value.parse());
        value
            .transpose()
            .map_err(|_| anyhow::anyhow!("{name} is a number"))
    };
    let pid = number("PID")?.ok_or_else(|| anyhow::anyhow!("PID SECONDS [RING_MIB]"))?;
    let seconds = number("SECONDS")?.unwrap_or(10);
    let mut plan = PacketPlan::of(u32::try_from(pid)?);
    if let Some(mib) = number("RING_MIB")? {
        plan.ring_bytes = usize::try_from(mib)? << 20;
    }
    let mut source = PacketSource::open(&plan)?;
    let (mut statements, mut others, mut lost) = (0_u64, 0_u64, BTreeMap::new());
    let (start, begin_ns) = (Instant::now(), cpu_ns());
    while start.elapsed() < Duration::from_secs(seconds) {
        source.poll(&mut |observation| match observation {
            Observation::Statement(s) if matches!(s.command, Some(3 | 23)) => statements += 1,
            Observation::Lost { cause, count } => *lost.entry(cause).or_insert(0) += count,
            _ => others += 1,
        })?;
        std::thread::sleep(Duration::from_millis(20));
    }
    let used_ns = cpu_ns() - begin_ns;
    println!(
        "{statements} statements, {others} other commands, lost {lost:?}; {:.0} a second; agent \
         CPU {:.3} us a statement; {:?}",
        statements as f64 / start.elapsed().as_secs_f64(),
        used_ns as f64 / 1000.0 / (statements.max(1) as f64),
        source.counters(),
    );
    Ok(())
}
