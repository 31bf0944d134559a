//! What do the polled sources cost: the server for a reading of PERFORMANCE_SCHEMA, the agent for
//! an entry of a slow log?
//!
//! ```text
//! cargo run --release -p waggle-agent --example source_cost [DIGESTS]
//! ```
//!
//! Starts a throw-away server of each kind with so many digests (2000 if nothing is said), and
//! reads it ten times at rest and ten times while every digest is used between two readings. Then
//! reads a slow log of 200,000 entries.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use waggle_agent::source::Source;
use waggle_agent::source::perfschema::PerfschemaSource;
use waggle_agent::source::slowlog::SlowlogSource;
use waggle_server::Flavour;
use waggle_server::cpu::{own_thread_cpu_ns, process_cpu_ns};
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

const READINGS: u64 = 10;

fn main() -> ExitCode {
    let digests: Option<usize> = std::env::args()
        .nth(1)
        .map_or(Some(2000), |n| n.parse().ok());
    let Some(digests) = digests else {
        eprintln!("usage: source_cost [DIGESTS]");
        return ExitCode::from(2);
    };
    let installed = installed_servers();
    for flavour in [Flavour::MySql, Flavour::MariaDb] {
        if installed.iter().any(|server| server.flavour == flavour)
            && let Err(error) = perfschema(flavour, digests)
        {
            eprintln!("{flavour}: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    match slowlog() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perfschema(flavour: Flavour, digests: usize) -> anyhow::Result<()> {
    let server = Sandbox::start(&SandboxSpec::new(flavour).set("performance_schema", "ON"))?;
    let mut client = Connection::connect(&server.dsn())?;
    use_digests(&mut client, digests)?;
    let mut source = PerfschemaSource::open(&server.dsn())?;
    read_until(&mut source, 1)?;
    for used in [0, digests] {
        let (mut server_ns, mut own_ns, mut records) = (0, 0, 0);
        for _ in 0..READINGS {
            use_digests(&mut client, used)?;
            let (server_before, own_before) = (process_cpu_ns(server.pid())?, own_cpu_ns()?);
            let next = source.readings() + 1;
            records += read_until(&mut source, next)?;
            server_ns += process_cpu_ns(server.pid())? - server_before;
            own_ns += own_cpu_ns()? - own_before;
        }
        let ms = |ns: u64| ns as f64 / READINGS as f64 / 1e6;
        println!(
            "{flavour}, {digests} digests, {used} used: {:.1} ms of the server and {:.1} ms of \
             the agent a reading, {} records",
            ms(server_ns),
            ms(own_ns),
            records / READINGS as usize,
        );
    }
    Ok(())
}

fn own_cpu_ns() -> std::io::Result<u64> {
    process_cpu_ns(std::process::id())
}

fn use_digests(client: &mut Connection, count: usize) -> anyhow::Result<()> {
    for at in 0..count {
        client.query(format!("SELECT {at} AS column_{at}, 'some more' AS b").as_bytes())?;
    }
    Ok(())
}

/// Polls until there were so many readings; the records of these.
fn read_until(source: &mut PerfschemaSource, readings: u64) -> anyhow::Result<usize> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut records = 0;
    while source.readings() < readings {
        records += source.poll(&mut |_| {})?;
        anyhow::ensure!(
            Instant::now() < deadline,
            "no reading came: {:?}",
            source.trouble()
        );
        std::thread::sleep(Duration::from_millis(20)); // the pace of the agent
    }
    Ok(records)
}

fn slowlog() -> anyhow::Result<()> {
    const ENTRIES: usize = 200_000;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("slow.log");
    let mut log = String::new();
    for at in 0..ENTRIES {
        log.push_str(&format!(
            "# Time: 2026-11-21T15:14:37.000001Z\n\
             # User@Host: app[app] @ web1 [10.0.0.7]  Id:    18\n\
             # Query_time: 0.000150  Lock_time: 0.000004 Rows_sent: 2  Rows_examined: 10\n\
             SET timestamp=1795274075;\n\
             select c, pad from sbtest{} where id between {at} and {};\n",
            at % 16,
            at + 99,
        ));
    }
    std::fs::write(&path, &log).context("writing a log")?;
    let mut source = SlowlogSource::open_from_start(&path)?;
    let begun_ns = own_thread_cpu_ns();
    let mut entries = 0;
    // The last entry waits for the next one.
    while entries < ENTRIES - 1 {
        entries += source.poll(&mut |_| {})?;
    }
    let ns = own_thread_cpu_ns() - begun_ns;
    println!(
        "slow log: {:.2} us an entry of {} bytes",
        ns as f64 / entries as f64 / 1e3,
        log.len() / ENTRIES
    );
    Ok(())
}
