//! A bench run in words: one sentence, Markdown, CSV.

use super::{BenchFigure, BenchLatency, BenchReport};
use crate::csv::{Lines, cell_text, number};
use crate::markdown::{ABSENT, Grid, bullets, code, environment, paragraph, titles};
use crate::quantity::plain;

/// The run in a sentence.
pub fn headline(report: &BenchReport) -> String {
    let rate = report
        .figure("transactions")
        .and_then(|figure| figure.per_second);
    let server = match report.server_name() {
        name if name.is_empty() => "The server".to_owned(),
        name => name,
    };
    let Some(rate) = rate else {
        return format!(
            "{} on {server}: there is no result. It was {}.",
            report.workload, report.ended
        );
    };
    let threads = report
        .threads
        .map(|threads| format!(" with {} threads", plain(threads, 0)))
        .unwrap_or_default();
    let offered = report
        .offered_rate
        .map(|offered| format!(" ({} were offered)", plain(offered, 0)))
        .unwrap_or_default();
    format!(
        "{server} carried {} transactions a second of {}{threads}{offered}{}.",
        plain(rate, if rate < 100.0 { 1 } else { 0 }),
        report.workload,
        quantiles(report),
    )
}

/// The median and the furthest of the customary quantiles that were asked for.
fn quantiles(report: &BenchReport) -> String {
    let Some(response) = report.response() else {
        return String::new();
    };
    let shown = ["p50", "p95", "p99"].map(|name| (name, response.quantile(name)));
    let known: Vec<String> = shown
        .iter()
        .filter_map(|(name, us)| Some(format!("{name} {}", ms((*us)?))))
        .collect();
    if known.is_empty() {
        String::new()
    } else {
        format!("; response time {}", known.join(", "))
    }
}

fn ms(us: f64) -> String {
    let digits = match us {
        _ if us < 1e3 => 3,
        _ if us < 1e5 => 1,
        _ => 0,
    };
    format!("{} ms", plain(us / 1e3, digits))
}

/// The whole report as Markdown.
pub fn markdown(report: &BenchReport) -> String {
    let mut counts = Grid::new(&titles(&["", "count", "per second"]));
    for figure in &report.figures {
        counts.row(&[
            figure_name(figure),
            whole(figure.value),
            rate(figure.per_second),
        ]);
    }
    let checks = report.checks.iter().map(|check| {
        let state = match check.ok {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "figure",
        };
        let value = check.value.map_or(ABSENT.to_owned(), |v| plain(v, 2));
        format!(
            "{}: {value} {} ({state}) {}",
            check.name, check.unit, check.note
        )
    });
    let mut parts = vec![
        format!("# {}", paragraph(&headline(report))),
        paragraph(&format!("Started {}; {}.", report.started, report.ended)),
        counts.text(),
        latencies(report),
        bullets(checks),
        "## What to know\n".to_owned(),
        bullets(&report.notes),
        "## Environment\n".to_owned(),
        environment(
            &report.environment,
            &report.server,
            &[],
            &report.waggle_version,
        ),
        settings(report),
        "## Repeat it\n".to_owned(),
        code(&report.command),
    ];
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn figure_name(figure: &BenchFigure) -> String {
    if figure.unit.is_empty() {
        figure.name.clone()
    } else {
        format!("{}, {}", figure.name, figure.unit)
    }
}

fn latencies(report: &BenchReport) -> String {
    if report.latencies.is_empty() {
        return String::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in report
        .latencies
        .iter()
        .flat_map(|latency| &latency.quantiles)
    {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut heads = titles(&["latency, ms", "count", "per second", "mean"]);
    heads.extend(names.iter().map(|name| (*name).to_owned()));
    heads.push("max".to_owned());
    let mut grid = Grid::new(&heads);
    for latency in &report.latencies {
        let mut row = vec![
            latency_name(latency),
            whole(latency.count),
            rate(latency.per_second),
            in_ms(latency.mean),
        ];
        row.extend(names.iter().map(|name| in_ms(latency.quantile(name))));
        row.push(in_ms(latency.max));
        grid.row(&row);
    }
    grid.text()
}

fn latency_name(latency: &BenchLatency) -> String {
    format!("{} {}", latency.kind, latency.name)
}

fn settings(report: &BenchReport) -> String {
    let mut grid = Grid::new(&titles(&["setting", ""]));
    for (name, value) in &report.settings {
        grid.row(&[name.clone(), value.clone()]);
    }
    grid.text()
}

fn whole(value: Option<f64>) -> String {
    let digits = |value: f64| if value.fract() == 0.0 { 0 } else { 2 };
    value.map_or(ABSENT.to_owned(), |value| plain(value, digits(value)))
}

fn rate(value: Option<f64>) -> String {
    value.map_or(ABSENT.to_owned(), |value| plain(value, 1))
}

fn in_ms(us: Option<f64>) -> String {
    us.map_or(ABSENT.to_owned(), |us| plain(us / 1e3, 3))
}

/// The intervals as CSV, a line each.
pub fn csv(report: &BenchReport) -> String {
    let mut table = Lines::new(&[
        "kind",
        "at_s",
        "duration_s",
        "qps",
        "tps",
        "errors",
        "p50_us",
        "p95_us",
        "p99_us",
        "backlog",
    ]);
    let optional = |value: Option<f64>| value.map_or(String::new(), number);
    for interval in &report.intervals {
        table.line(&[
            cell_text(&interval.kind),
            number(interval.at_s),
            number(interval.duration_s),
            optional(interval.qps),
            optional(interval.tps),
            optional(interval.errors),
            optional(interval.p50_us),
            optional(interval.p95_us),
            optional(interval.p99_us),
            optional(interval.backlog),
        ]);
    }
    table.text
}
