//! What `watch` tells: the table of digests, the JSON document, the samples of a run.

use std::time::Duration;

use serde_json::{Value, json};
use waggle_report::quantity;
use waggle_report::table::Table;
use waggle_symbols::FieldName;

use super::digests::Digest;
use super::watched::Watched;

/// What watching costs, as far as the agent itself can tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnCost {
    /// One breakpoint with an empty program, measured on waggle itself, ns.
    pub(super) trap_ns: Option<f64>,
    /// Mean run time of the kernel half, from the kernel's own counters, ns.
    pub(super) program_ns: Option<f64>,
    /// CPU time of this process, ns.
    pub(super) agent_cpu_ns: u64,
    /// Resident memory of this process, bytes.
    pub(super) agent_rss_bytes: u64,
}

impl OwnCost {
    /// Server CPU a statement costs, us: trap and program.
    fn server_us_per_statement(&self) -> Option<f64> {
        Some((self.trap_ns? + self.program_ns?) / 1e3)
    }
}

/// The text of one report: who is watched, the top digests, what was lost.
pub(super) fn text(
    watched: &[Watched],
    top: usize,
    elapsed: Duration,
    interval: Option<Duration>,
    cost: &OwnCost,
) -> String {
    let mut out = String::new();
    for server in watched {
        out.push_str(&heading(server, elapsed));
        let ranked = server.digests.ranked();
        out.push_str(&table(&ranked, top, elapsed, interval));
        let hidden = ranked.len().saturating_sub(top);
        if hidden > 0 {
            let rest: u64 = ranked[top..].iter().map(|d| d.latency.count()).sum();
            out.push_str(&format!("  and {hidden} more digests, {rest} statements\n"));
        }
        for (field, why) in server.missing() {
            out.push_str(&format!("  not reported: {} ({why})\n", field.as_str()));
        }
        out.push('\n');
    }
    out.push_str(&cost_line(cost));
    out
}

fn heading(server: &Watched, elapsed: Duration) -> String {
    let process = &server.process;
    let version = process.version.as_deref().unwrap_or("of unknown version");
    let mut line = format!(
        "{} {version}, process {}: {} statements in {}, {} lost",
        process.flavour.name(),
        process.pid,
        quantity::count(server.tally.captured),
        quantity::seconds(elapsed.as_secs_f64()),
        quantity::count(server.counters().ring_full),
    );
    let tally = &server.tally;
    for (count, what) in [
        (tally.text_truncated, "with cut text"),
        (tally.fields_unread, "with unreadable fields"),
        (tally.latency_unknown, "without latency"),
        (server.digests.beyond_bound, "beyond the digest table"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {} {what}", quantity::count(count)));
        }
    }
    if let Some(why) = server.ended {
        line.push_str(&format!("; {why}"));
    }
    line.push('\n');
    line
}

fn table(ranked: &[&Digest], top: usize, elapsed: Duration, interval: Option<Duration>) -> String {
    let mut table = Table::new()
        .text("digest")
        .number("count", "")
        .number("rate", "1/s")
        .number("total", "s")
        .number("mean", "us")
        .number("p95", "us")
        .number("p99", "us")
        .number("rows", "sent")
        .number("rows", "read")
        .number("err", "")
        .flexible("statement");
    for digest in ranked.iter().take(top) {
        let count = digest.latency.count();
        let rate = match interval {
            Some(interval) => (count - digest.count_before) as f64 / interval.as_secs_f64(),
            None => count as f64 / elapsed.as_secs_f64().max(1e-9),
        };
        table.row([
            digest.id.to_string(),
            count.to_string(),
            format!("{rate:.0}"),
            format!("{:.2}", digest.latency.sum_ns() as f64 / 1e9),
            format!("{:.0}", digest.latency.mean_us()),
            format!("{:.0}", digest.latency.quantile_us(0.95)),
            format!("{:.0}", digest.latency.quantile_us(0.99)),
            digest.rows_sent.to_string(),
            digest.rows_examined.to_string(),
            digest.errors.to_string(),
            digest.fingerprint.clone(),
        ]);
    }
    table.render(terminal_width())
}

/// Columns of the terminal; 100 where there is none.
fn terminal_width() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|c| c.parse().ok())
        .filter(|c| *c >= 60)
        .unwrap_or(120)
}

fn cost_line(cost: &OwnCost) -> String {
    let server = match cost.server_us_per_statement() {
        Some(us) => format!("about {us:.2} us of server CPU a statement"),
        None => "server CPU a statement not yet measured".to_owned(),
    };
    format!(
        "watching costs {server} (trap timed in a warm loop; `waggle lab run` measures it in the \
         server)\nagent: {:.2} s of CPU, {} resident\n",
        cost.agent_cpu_ns as f64 / 1e9,
        quantity::bytes(cost.agent_rss_bytes),
    )
}

/// The JSON document.
pub(super) fn document(watched: &[Watched], elapsed: Duration, cost: &OwnCost) -> Value {
    let sum = |f: fn(&Watched) -> u64| watched.iter().map(f).sum::<u64>();
    let digests: Vec<Value> = watched
        .iter()
        .flat_map(|server| {
            let pid = server.process.pid;
            let withdrawn = |field| !server.trust.holds(field) || unknown(server, field);
            let rows = withdrawn(FieldName::RowsSent);
            let examined = withdrawn(FieldName::RowsExamined);
            server
                .digests
                .ranked()
                .into_iter()
                .map(move |d| digest_json(d, pid, rows, examined))
        })
        .collect();
    json!({
        "captured": sum(|s| s.tally.captured),
        "lost": { "ring_full": sum(|s| s.counters().ring_full) },
        "degraded": {
            "text_truncated": sum(|s| s.tally.text_truncated),
            "fields_unread": sum(|s| s.tally.fields_unread),
            "latency_unknown": sum(|s| s.tally.latency_unknown),
            "digests_beyond_bound": sum(|s| s.digests.beyond_bound),
        },
        "other_commands": sum(|s| s.tally.other_commands),
        "hits": sum(|s| s.counters().hits),
        "duration_s": elapsed.as_secs_f64(),
        "servers": watched.iter().map(server_json).collect::<Vec<_>>(),
        "digests": digests,
        "self": {
            "server_us_per_statement": cost.server_us_per_statement(),
            "trap_ns": cost.trap_ns,
            "program_ns": cost.program_ns,
            "agent_cpu_s": cost.agent_cpu_ns as f64 / 1e9,
            "agent_rss_bytes": cost.agent_rss_bytes,
        },
    })
}

fn unknown(server: &Watched, field: FieldName) -> bool {
    server.fit.layout.location(field).is_none()
}

fn server_json(server: &Watched) -> Value {
    let process = &server.process;
    let site = server.fit.site.as_ref().ok();
    json!({
        "pid": process.pid,
        "flavour": process.flavour.name(),
        "version": process.version,
        "build_id": server.fit.build_id.as_ref().map(ToString::to_string),
        "captured": server.tally.captured,
        "lost": { "ring_full": server.counters().ring_full },
        "probe": site.map(|s| json!({
            "function": s.function,
            "function_offset": s.function_offset,
            "instruction": s.instruction,
            "trap": s.trap.to_string(),
        })),
        "missing": server.missing().into_iter()
            .map(|(field, why)| (field.as_str().to_owned(), Value::from(why)))
            .collect::<serde_json::Map<_, _>>(),
        "validated_on": server.trust.checked(),
        "ended": server.ended,
    })
}

fn digest_json(digest: &Digest, pid: u32, no_rows: bool, no_examined: bool) -> Value {
    let latency = &digest.latency;
    json!({
        "digest": digest.id.to_string(),
        "fingerprint": digest.fingerprint,
        "server": pid,
        "database": digest.database,
        "user": digest.user,
        "count": latency.count(),
        "errors": digest.errors,
        "rows_sent": (!no_rows).then_some(digest.rows_sent),
        "rows_examined": (!no_examined).then_some(digest.rows_examined),
        "latency_us": {
            "mean": latency.mean_us(),
            "p50": latency.quantile_us(0.5),
            "p95": latency.quantile_us(0.95),
            "p99": latency.quantile_us(0.99),
            "max": latency.max_us(),
            "total": latency.sum_ns() as f64 / 1e3,
        },
    })
}
