//! Loading tables: sysbench's prepare against waggle's, alternating on one server.
//!
//! Wall time, the client's CPU and the server's: which of the two is what loading waits for.
//! Invariant: before each load the tables are gone; after it each has the rows that were asked for.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::pairing::{Shuffle, ratio};
use crate::plan::{Args, Flavour, Transport, name};
use crate::report;
use crate::servers::{LOADING, Server};
use crate::slice::{process_cpu, seconds_of, waited};

/// One load of all tables.
#[derive(Debug, Clone, Serialize)]
struct Loading {
    seconds: f64,
    client_cpu_s: f64,
    server_cpu_s: f64,
    rss_bytes: u64,
}

const CLIENTS: [&str; 2] = ["sysbench", "waggle"];

/// Compares loading on each server; false when one of the loads failed.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let mut out = report::head(args, "What loading tables costs, beside sysbench")?;
    out.push_str(&format!(
        "{} tables of {} rows, {} threads, {} rounds, alternating in random order on one server. \
         Medians; ratios are geometric means over pairs of one round, sysbench's seconds over \
         waggle's, with the 95% interval (t).\n\n",
        args.tables, args.table_size, args.threads, args.rounds
    ));
    let mut found = BTreeMap::new();
    let mut shuffle = Shuffle::seeded();
    for flavour in args
        .servers
        .iter()
        .filter(|flavour| **flavour != Flavour::Null)
    {
        let mut server = Server::start(*flavour, &args.waggle, &LOADING)?;
        let mut loadings: BTreeMap<&str, Vec<Loading>> = BTreeMap::new();
        for _ in 0..args.rounds {
            let mut order = CLIENTS;
            shuffle.shuffle(&mut order);
            for client in order {
                let loading = load(client, args, &mut server)
                    .with_context(|| format!("{client} on {}", name(flavour)))?;
                eprintln!("{} {client}: {loading:?}", name(flavour));
                loadings.entry(client).or_default().push(loading);
            }
        }
        out.push_str(&table(&server, &loadings));
        found.insert(name(flavour), loadings);
    }
    let document = serde_json::json!({
        "facts": report::Facts::gather(args),
        "tables": args.tables,
        "table_size": args.table_size,
        "threads": args.threads,
        "servers": found,
    });
    report::write_both(args, "prepare", &document, &out)?;
    print!("{out}");
    Ok(true)
}

fn load(client: &str, args: &Args, server: &mut Server) -> anyhow::Result<Loading> {
    for table in 1..=args.tables {
        server.execute(&format!("DROP TABLE IF EXISTS sbtest{table}"))?;
    }
    let options = [
        format!("--threads={}", args.threads),
        format!("--tables={}", args.tables),
        format!("--table-size={}", args.table_size),
    ];
    let mut command = match client {
        "sysbench" => {
            let mut command = Command::new(&args.sysbench);
            command
                .arg("oltp_read_write")
                .args(server.sysbench_options(Transport::Socket));
            command.args(options).arg("prepare");
            command
        }
        _ => {
            let mut command = Command::new(&args.waggle);
            command.args(["bench", "oltp_read_write", "prepare", "--dsn"]);
            command.arg(server.dsn(Transport::Socket)).args(options);
            command
        }
    };
    let (user_s, system_s) = process_cpu(server.pid)?;
    let begun = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let (status, usage) = waited(&child)?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status == 0, "{command:?} ended with status {status}");
    let (user_after_s, system_after_s) = process_cpu(server.pid)?;
    for table in 1..=args.tables {
        let rows = server.count(&format!("sbtest{table}"))?;
        ensure!(
            rows == u64::from(args.table_size),
            "sbtest{table} has {rows} rows, not {}",
            args.table_size
        );
    }
    Ok(Loading {
        seconds,
        client_cpu_s: seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
        server_cpu_s: user_after_s + system_after_s - user_s - system_s,
        rss_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

fn table(server: &Server, loadings: &BTreeMap<&str, Vec<Loading>>) -> String {
    let mut out = format!("## {} {}\n\n", name(&server.flavour), server.version);
    out.push_str("| client | seconds | client CPU s | server CPU s | times as fast |\n");
    out.push_str("|---|---|---|---|---|\n");
    for (client, list) in loadings {
        let of = |figure: fn(&Loading) -> f64| report::median(list.iter().map(figure));
        let pairs = loadings["sysbench"].iter().zip(list);
        let faster = ratio(pairs.map(|(base, loading)| (base.seconds, loading.seconds)));
        out.push_str(&format!(
            "| {client} | {:.2} | {:.2} | {:.2} | {} |\n",
            of(|loading| loading.seconds),
            of(|loading| loading.client_cpu_s),
            of(|loading| loading.server_cpu_s),
            report::shown(faster.as_ref()),
        ));
    }
    out.push('\n');
    out
}
