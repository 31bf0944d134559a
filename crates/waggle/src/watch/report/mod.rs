//! What `watch` tells: the text for people, and the JSON document that is printed and recorded.
//!
//! Both read one [`View`]; rates and load are differences of two.

mod json;
mod load;

use std::collections::HashMap;
use std::time::Duration;

use waggle_agent::locks::tree;
use waggle_agent::view::{DigestView, OwnView, ProbeCost, ServerView, View};
use waggle_report::quantity;
use waggle_report::table::Table;

pub(super) use json::document;
pub(super) use load::{host_line, load_line};

/// The text of one report: who is watched, where the time goes, the top digests, who waits, what
/// was lost. Rates are since `before`, or over `elapsed` where there is none.
pub(super) fn text(view: &View, before: Option<&View>, top: usize, elapsed: Duration) -> String {
    let mut out = String::new();
    let none = View::default();
    let since = match before {
        Some(before) => (view.time_ns.saturating_sub(before.time_ns)) as f64 / 1e9,
        None => elapsed.as_secs_f64(),
    };
    for server in &view.servers {
        let former = before.and_then(|b| b.servers.iter().find(|s| s.id == server.id));
        out.push_str(&heading(server, elapsed));
        if let Some(load) = load_line(server, view, before.unwrap_or(&none)) {
            out.push_str(&format!("  {load}\n"));
        }
        out.push_str(&table(server, former, top, since));
        out.push_str(&beyond(server, top));
        for (at, line) in tree(&server.waits).iter().enumerate() {
            let heading = if at == 0 { "  waiting:\n" } else { "" };
            out.push_str(&format!("{heading}    {line}\n"));
        }
        for (field, why) in &server.abilities.missing {
            out.push_str(&format!("  not reported: {field} ({why})\n"));
        }
        out.push('\n');
    }
    if let Some(line) = before.and_then(|before| host_line(view, before)) {
        out.push_str(&line);
    }
    out.push_str(&cost_lines(&view.own));
    for (name, sink) in &view.sinks {
        let dropped: u64 = sink.dropped.iter().map(|(_, count)| count).sum();
        out.push_str(&format!(
            "{name}: {} delivered, {} waiting, {dropped} dropped",
            sink.delivered, sink.waiting
        ));
        if let Some(error) = &sink.last_error {
            out.push_str(&format!("; {error}"));
        }
        out.push('\n');
    }
    out
}

fn heading(server: &ServerView, elapsed: Duration) -> String {
    let version = match &*server.version {
        "" => "of unknown version",
        version => version,
    };
    let lost: u64 = server.lost.iter().map(|(_, count)| count).sum();
    let mut line = format!(
        "{} {version}, process {}: {} statements in {}, {} lost",
        server.flavour,
        server.pid,
        quantity::count(server.captured),
        quantity::seconds(elapsed.as_secs_f64()),
        quantity::count(lost),
    );
    if server.in_routines > 0 {
        let within = quantity::count(server.in_routines);
        line.push_str(&format!(", {within} of them within routines"));
    }
    if server.own > 0 {
        let own = quantity::count(server.own);
        line.push_str(&format!(", and {own} of waggle itself"));
    }
    for (cause, count) in server.degraded.iter().filter(|(_, count)| *count > 0) {
        line.push_str(&format!(", {} {}", quantity::count(*count), words(cause)));
    }
    if let Some(why) = &server.ended {
        line.push_str(&format!("; {why}"));
    }
    line.push('\n');
    line
}

/// What a cause of a lesser record is in a sentence.
fn words(cause: &str) -> String {
    match cause {
        "text_truncated" => "with cut text".into(),
        "text_shed" => "without text, to keep within the budget".into(),
        "fields_unread" => "with unreadable fields".into(),
        "latency_unknown" => "without latency".into(),
        "digests_beyond_bound" => "beyond the digest table".into(),
        other => other.replace('_', " "),
    }
}

fn table(server: &ServerView, former: Option<&ServerView>, top: usize, since: f64) -> String {
    let mut table = Table::new()
        .text("digest")
        .number("count", "")
        .number("rate", "1/s")
        .number("total", "s")
        .number("mean", "us")
        .number("p95", "us")
        .number("p99", "us")
        .number("cpu", "%")
        .number("rows", "sent")
        .number("rows", "read")
        .number("err", "")
        .flexible("statement");
    let counted: HashMap<u64, u64> = former
        .map(|server| &server.digests[..])
        .unwrap_or_default()
        .iter()
        .map(|digest| (digest.key, digest.latency.count()))
        .collect();
    let number = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
    for digest in server.digests.iter().take(top) {
        let latency = &digest.latency;
        let new = latency
            .count()
            .saturating_sub(counted.get(&digest.key).copied().unwrap_or(0));
        table.row([
            digest.digest.to_string(),
            latency.count().to_string(),
            format!("{:.0}", new as f64 / since.max(1e-9)),
            format!("{:.2}", latency.sum_ns() as f64 / 1e9),
            format!("{:.0}", latency.mean_us()),
            format!("{:.0}", latency.quantile_us(0.95)),
            format!("{:.0}", latency.quantile_us(0.99)),
            cpu_share(digest),
            number(digest.rows_sent),
            number(digest.rows_examined),
            digest.errors.to_string(),
            digest.fingerprint.to_string(),
        ]);
    }
    table.render(terminal_width())
}

/// Share of the time on a processor, %; nothing where the time was not split.
fn cpu_share(digest: &DigestView) -> String {
    let time = &digest.time;
    let total = time.total_s();
    if total <= 0.0 || time.unclassified_s >= total {
        return String::new();
    }
    format!("{:.0}", time.cpu_s / total * 100.0)
}

/// What the table does not show.
fn beyond(server: &ServerView, top: usize) -> String {
    let hidden = server.digests.get(top..).unwrap_or_default();
    let rest = [&server.other, &server.retired];
    let rest: u64 = rest.into_iter().flatten().map(|d| d.latency.count()).sum();
    let mut out = String::new();
    if !hidden.is_empty() {
        let count: u64 = hidden.iter().map(|d| d.latency.count()).sum();
        let more = hidden.len();
        out.push_str(&format!("  and {more} more digests, {count} statements\n"));
    }
    if rest > 0 {
        out.push_str(&format!(
            "  and {rest} statements of digests the table had no room for\n"
        ));
    }
    out
}

/// Columns of the terminal; 120 where there is none.
fn terminal_width() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|c| c.parse().ok())
        .filter(|c| *c >= 60)
        .unwrap_or(120)
}

fn cost_lines(own: &OwnView) -> String {
    let server = match own.server_us_per_statement {
        Some(us) => format!("about {us:.2} us of server CPU a statement"),
        None => "server CPU a statement not yet measured".to_owned(),
    };
    let mut lines = format!(
        "watching costs {server} (trap timed in a warm loop; `waggle lab run` measures it in the \
         server)\n"
    );
    for probe in &own.probes {
        lines.push_str(&probe_line(probe));
    }
    lines.push_str(&format!(
        "agent: {:.2} s of CPU, {} resident\n",
        own.cpu_s,
        quantity::bytes(own.rss_bytes),
    ));
    if !own.shed.is_empty() {
        let shed = own.shed.join(", ");
        lines.push_str(&format!("left out to keep within the budget: {shed}\n"));
    }
    lines
}

/// What a probe was hit and cost, or which part of that is not known.
fn probe_line(probe: &ProbeCost) -> String {
    let ns = |name: &str, ns: Option<f64>| match ns {
        Some(ns) => format!("{name} {ns:.0} ns"),
        None => format!("{name} not measured"),
    };
    let trap = probe.trap_ns.map(|trap| ns("trap", Some(trap)) + ", ");
    format!(
        "  probe on {}: {} hits, {}{:.3} s of CPU ({}{})\n",
        probe.name,
        quantity::count(probe.hits),
        if probe.program_ns.is_none() {
            "at least "
        } else {
            ""
        },
        probe.cpu_s(),
        trap.unwrap_or_default(),
        ns("program", probe.program_ns),
    )
}
