//! What is filed: every slice as JSON, and a table for people.
//!
//! Invariant: the table holds nothing that is not in the JSON beside it.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Serialize;
use waggle_stats::compare::Interval;

use crate::pairing::CellResult;
use crate::plan::Args;
use crate::slice::Slice;

/// Where and with what it was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) sysbench: String,
    pub(crate) waggle: String,
    pub(crate) commit: String,
    /// Load average of the last minute when the result was filed.
    pub(crate) load: String,
}

impl Facts {
    pub(crate) fn gather(args: &Args) -> Facts {
        let said = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            output.map_or("unknown".to_owned(), |output| {
                String::from_utf8_lossy(&output.stdout).trim().to_owned()
            })
        };
        let line_of = |path: &str, label: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(label));
            line.and_then(|line| line.split_once(':'))
                .map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
        };
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Facts {
            date: said(Path::new("date"), &["-u", "+%Y-%m-%d %H:%M UTC"]),
            kernel: said(Path::new("uname"), &["-srm"]),
            processor: line_of("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: line_of("/proc/meminfo", "MemTotal"),
            sysbench: said(&args.sysbench, &["--version"]),
            waggle: said(&args.waggle, &["--version"]),
            commit: said(Path::new("git"), &["describe", "--always", "--dirty"]),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

/// Writes DATE-client.md and DATE-client.json, if asked to.
pub(crate) fn file(args: &Args, results: &[CellResult]) -> anyhow::Result<()> {
    let document = serde_json::json!({
        "facts": Facts::gather(args),
        "settings": settings(args),
        "cells": results,
    });
    write_both(args, "client", &document, &markdown(args, results)?)
}

/// Writes a result of this name as JSON and as text, if asked to.
pub(crate) fn write_both(
    args: &Args,
    subject: &str,
    document: &serde_json::Value,
    text: &str,
) -> anyhow::Result<()> {
    let Some(folder) = &args.results else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let date = Facts::gather(args).date;
    let day = date.split(' ').next().unwrap_or("undated");
    let mut json = serde_json::to_string_pretty(document)?;
    json.push('\n');
    // A result of the same day is kept.
    let stem = (1..)
        .map(|number| match number {
            1 => format!("{day}-{subject}"),
            _ => format!("{day}-{subject}-{number}"),
        })
        .find(|stem| !folder.join(stem).with_extension("md").exists())
        .unwrap_or_default();
    for (extension, content) in [("json", json.as_str()), ("md", text)] {
        let path = folder.join(&stem).with_extension(extension);
        std::fs::write(&path, format!("{}\n", content.trim_end()))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn settings(args: &Args) -> serde_json::Value {
    serde_json::json!({
        "rounds": args.rounds,
        "window_s": args.seconds,
        "tables": args.tables,
        "table_size": args.table_size,
    })
}

/// The head of a page: the question, the machine, how.
pub(crate) fn head(args: &Args, question: &str) -> anyhow::Result<String> {
    let facts = Facts::gather(args);
    let mut out = String::new();
    writeln!(out, "# {question}\n")?;
    writeln!(
        out,
        "{}; load average {} when filed.\n",
        facts.date, facts.load
    )?;
    writeln!(out, "| | |\n|---|---|")?;
    writeln!(
        out,
        "| processor | {}, {} cores |",
        facts.processor, facts.cores
    )?;
    writeln!(out, "| memory | {} |", facts.memory)?;
    writeln!(out, "| kernel | {} |", facts.kernel)?;
    writeln!(out, "| sysbench | {} |", facts.sysbench)?;
    writeln!(
        out,
        "| waggle | {}, commit {} |\n",
        facts.waggle, facts.commit
    )?;
    Ok(out)
}

pub(crate) fn markdown(args: &Args, results: &[CellResult]) -> anyhow::Result<String> {
    let mut out = head(args, "What the client costs, beside sysbench")?;
    writeln!(
        out,
        "{} rounds a cell; in a round each client runs once, in random order. Measured is a window \
         of {} s that begins when the client has been at full load for a second: CPU time of the \
         client's process, statements by the server's own count. Figures are medians over the \
         rounds; ratios are geometric means over pairs of one round, client over sysbench, with \
         the 95% interval (t). `bare` is a loop without script, clock or histogram on the same \
         socket, a thread a connection: the floor of that way; `bare-uring` is two threads with \
         io_uring. {} tables of {} rows, drawn uniformly by every client.\n",
        args.rounds, args.seconds, args.tables, args.table_size
    )?;
    for result in results {
        write_cell(&mut out, result)?;
    }
    Ok(out)
}

fn write_cell(out: &mut String, result: &CellResult) -> anyhow::Result<()> {
    writeln!(
        out,
        "## {} {}, {}, {}, {} connections\n",
        result.server, result.version, result.transport, result.workload, result.connections
    )?;
    writeln!(
        out,
        "| client | user us | system us | CPU us per query | CPU ratio | queries/s | rate ratio \
         | switches per query | peak MiB | counted |\n|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for (client, slices) in &result.rounds {
        let of = |figure: fn(&Slice) -> f64| median(slices.iter().map(figure));
        let ratios = &result.ratios[client];
        writeln!(
            out,
            "| {client} | {:.2} | {:.2} | {:.2} | {} | {:.0} | {} | {:.2} | {:.0} | {:.4} |",
            of(|slice| slice.user_us),
            of(|slice| slice.system_us),
            of(Slice::cpu_us),
            shown(ratios.cpu.as_ref()),
            of(|slice| slice.qps),
            shown(ratios.qps.as_ref()),
            of(|slice| slice.switches),
            of(|slice| slice.rss_bytes as f64) / f64::from(1 << 20),
            of(|slice| slice.counted_ratio),
        )?;
    }
    for (client, cause) in &result.failed {
        writeln!(out, "\n{client} has no figures: {cause}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// A cell in a line a client, for the terminal.
pub(crate) fn cell_lines(result: &CellResult) -> String {
    let mut out = String::new();
    for (client, slices) in &result.rounds {
        let cpu = median(slices.iter().map(Slice::cpu_us));
        let qps = median(slices.iter().map(|slice| slice.qps));
        let ratios = &result.ratios[client];
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "{} {} {} x{}: {client:15} {cpu:6.2} us/query {} {qps:8.0} /s {}",
            result.server,
            result.transport,
            result.workload,
            result.connections,
            shown(ratios.cpu.as_ref()),
            shown(ratios.qps.as_ref()),
        );
    }
    out
}

pub(crate) fn shown(interval: Option<&Interval>) -> String {
    match interval {
        Some(i) if i.low == i.high => format!("{:.2}", i.estimate),
        Some(i) => format!("{:.2} ({:.2} to {:.2})", i.estimate, i.low, i.high),
        None => "-".to_owned(),
    }
}

/// The middle value; 0 of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
