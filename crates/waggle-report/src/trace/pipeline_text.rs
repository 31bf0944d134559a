//! What waits were made of, for a terminal.
//!
//! Invariant: every figure says of how many waits it is; what is not in the figures comes first.

use std::fmt::Write as _;

use waggle_foreign::is_harmful;

use super::drawing::{Bar, carriers, draw};
use super::pipeline::{PipelineGroup, PipelineReport, PipelineStage};
use super::{TraceFacts, cost, pipeline_slow_text, slices_text};
use crate::quantity::{count, plain};
use crate::table::Table;

/// Groups, and single waits, that are printed; the document has all.
const ROWS_MAX: usize = 12;

/// The whole report as text, tables at most `width` columns wide.
pub(super) fn text(report: &PipelineReport, width: usize) -> String {
    let mut text = head(report);
    if report.decomposed > 0 {
        text.push('\n');
        text += &drawing(report);
        text.push('\n');
        text += &stages(report).render(width);
        text.push('\n');
        text += &doing(report).render(width);
        for (title, groups) in [
            ("waiter", &report.by_role),
            ("thread", &report.by_thread),
            ("caller", &report.by_caller),
        ] {
            if groups.len() > 1 || title != "thread" && !groups.is_empty() {
                text.push('\n');
                text += &group(report, title, groups).render(width);
            }
        }
        text += &pipeline_slow_text::slowest(report);
    }
    text += &foot(&report.facts);
    // Names are foreign: of threads, functions, files. They command no terminal.
    let plain = |c: char| if is_harmful(c) && c != '\n' { ' ' } else { c };
    text.chars().map(plain).collect()
}

fn head(report: &PipelineReport) -> String {
    let facts = &report.facts;
    let traced = &facts.process;
    let name = traced.flavour.as_deref().unwrap_or(&traced.program);
    let version = traced.version.as_deref().unwrap_or_default();
    let mut text = format!(
        "{}: {} of {name} {version} (process {}) in {} s\n",
        report.pipeline,
        waits(report.seen),
        traced.pid,
        plain(facts.duration_s, 1),
    );
    if !report.about.is_empty() {
        let _ = writeln!(text, "{}", report.about);
    }
    text += &slices_text::lines(facts);
    let share = |part: u64| percent(part, report.seen + report.torn);
    let ends = match facts.slices {
        Some(_) => "the slices' ends",
        None => "the trace's ends",
    };
    let _ = writeln!(
        text,
        "{} decomposed ({}), {} had nothing to wait for ({}), {} flagged as records were lost \
         ({}); {} cut by {ends}",
        count(report.decomposed),
        share(report.decomposed),
        count(report.no_wait),
        share(report.no_wait),
        count(report.flagged + report.torn),
        share(report.flagged + report.torn),
        count(report.cut),
    );
    if report.begun_before + report.begin_lost > 0 {
        let _ = writeln!(
            text,
            "ended without a beginning: {} that began before the trace (cut), {} whose beginning \
             may have been lost (flagged)",
            count(report.begun_before),
            count(report.begin_lost),
        );
    }
    text
}

fn drawing(report: &PipelineReport) -> String {
    let bars: Vec<Bar<'_>> = report
        .stages
        .iter()
        .map(|stage| mean_bar(report, stage))
        .collect();
    let mean = us(report.wait_sum_ns / report.decomposed.max(1));
    let whole = format!("{mean:>9} us  mean of {}", waits(report.decomposed));
    draw(&whole, &bars)
}

/// A stage over all waits.
fn mean_bar<'a>(report: &PipelineReport, stage: &'a PipelineStage) -> Bar<'a> {
    let us = us(stage.sum_ns / report.decomposed.max(1));
    let (share, by) = (percent_of(stage.share), carriers(stage));
    let words = format!("{us:>9} us {share:>6}  {by}");
    Bar {
        name: &stage.name,
        words: words.trim_end().to_owned(),
        size: stage.sum_ns,
        skipped: stage.skipped == report.decomposed,
    }
}

fn stages(report: &PipelineReport) -> Table {
    let mut table = Table::new()
        .text("stage")
        .number("mean", "us")
        .number("p50", "us")
        .number("p95", "us")
        .number("p99", "us")
        .number("max", "us")
        .number("share", "%")
        .number("skipped", "%")
        .number("at once", "%")
        .number("slowest 1%", "mean us");
    let slice = &report.slowest_percent;
    let row = |name: &str, latency: &waggle_stats::latency::LatencySummary| {
        let figures = [
            latency.mean_us,
            latency.p50_us,
            latency.p95_us,
            latency.p99_us,
        ];
        let mut row = vec![name.to_owned()];
        row.extend(figures.map(|us| plain(us, 1)));
        row.push(plain(latency.max_us, 1));
        row
    };
    for (index, stage) in report.stages.iter().enumerate() {
        let mut cells = row(&stage.name, &stage.latency_us);
        let slow = slice.stages_ns.get(index).copied().unwrap_or(0);
        cells.push(plain(100.0 * stage.share, 1));
        cells.push(plain(share(stage.skipped, report.decomposed), 1));
        cells.push(plain(share(stage.instant, report.decomposed), 1));
        cells.push(us(slow / slice.waits.max(1)));
        table.row(cells);
    }
    let mut cells = row("the wait", &report.wait_us);
    let slow = us(slice.sum_ns / slice.waits.max(1));
    cells.extend(["100.0".to_owned(), String::new(), String::new(), slow]);
    table.row(cells);
    table
}

/// What the stages' threads were doing.
fn doing(report: &PipelineReport) -> Table {
    let mut table = Table::new()
        .text("of a stage's time, its thread was")
        .number("behind", "%")
        .number("on CPU", "%")
        .number("runnable", "%")
        .number("disk", "%")
        .number("futex", "%")
        .number("sleep", "%")
        .number("other", "%")
        .number("unknown", "%");
    for stage in &report.stages {
        let of = |ns: u64| {
            if stage.sum_ns == 0 {
                return "–".to_owned();
            }
            plain(share(ns, stage.sum_ns), 1)
        };
        let doing = &stage.doing;
        let blocked = |reason: &str| doing.blocked_ns.get(reason).copied().unwrap_or(0);
        let named = blocked("disk") + blocked("futex") + blocked("sleep");
        let other = doing.blocked_ns.values().sum::<u64>() - named;
        table.row([
            stage.name.clone(),
            of(doing.queued_ns),
            of(doing.on_cpu_ns),
            of(doing.runnable_ns),
            of(blocked("disk")),
            of(blocked("futex")),
            of(blocked("sleep")),
            of(other),
            of(doing.unknown_ns),
        ]);
    }
    table
}

fn group(report: &PipelineReport, title: &str, groups: &[PipelineGroup]) -> Table {
    let mut table = Table::new()
        .flexible(title)
        .number("waits", "")
        .number("mean", "us")
        .number("p50", "us")
        .number("p95", "us")
        .number("p99", "us")
        .number("max", "us")
        .text("most of it");
    for group in groups.iter().take(ROWS_MAX) {
        let most = group
            .stages_ns
            .iter()
            .enumerate()
            .max_by_key(|(_, ns)| **ns);
        let most = most.and_then(|(index, ns)| {
            let stage = report.stages.get(index)?;
            Some(format!("{} {}", stage.name, percent(*ns, group.sum_ns)))
        });
        table.row([
            group.name.clone(),
            count(group.waits),
            us(group.sum_ns / group.waits.max(1)),
            us(group.p50_ns),
            us(group.p95_ns),
            us(group.p99_ns),
            us(group.max_ns),
            most.unwrap_or_default(),
        ]);
    }
    if groups.len() > ROWS_MAX {
        table.row([format!("({} more)", groups.len() - ROWS_MAX)]);
    }
    table
}

/// What was lost, refused, and what it cost.
pub(super) fn foot(facts: &TraceFacts) -> String {
    let mut text = String::new();
    for probe in facts.probes.iter().filter(|probe| probe.refused.is_some()) {
        let why = probe.refused.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "\nnot traced: {} at {}: {why}",
            probe.name, probe.place
        );
    }
    for note in &facts.notes {
        let _ = writeln!(text, "\n{note}");
    }
    let lost: u64 = facts.lost.values().sum();
    let _ = writeln!(
        text,
        "\n{} records, {} lost\n{}",
        count(facts.events),
        count(lost),
        cost::line(facts),
    );
    text
}

pub(super) fn waits(number: u64) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} wait{s}", count(number))
}

/// Nanoseconds as microseconds.
pub(super) fn us(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    plain(us, if us < 100.0 { 1 } else { 0 })
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

pub(super) fn percent(part: u64, whole: u64) -> String {
    percent_of(part as f64 / whole.max(1) as f64)
}

fn percent_of(share: f64) -> String {
    format!("{}%", plain(100.0 * share, 1))
}

#[cfg(test)]
mod tests {
    use waggle_stats::latency::LatencySummary;

    use super::*;
    use crate::trace::{Doing, PipelineSlice, PipelineWait, PipelineWaitStage, TraceReport};

    fn stage(name: &str, sum_ns: u64, skipped: u64) -> PipelineStage {
        PipelineStage {
            name: name.to_owned(),
            latency_us: LatencySummary {
                count: 2,
                mean_us: sum_ns as f64 / 2e3,
                ..LatencySummary::default()
            },
            sum_ns,
            share: sum_ns as f64 / 4e6,
            skipped,
            doing: Doing {
                on_cpu_ns: sum_ns,
                ..Doing::default()
            },
            ..PipelineStage::default()
        }
    }

    fn report() -> PipelineReport {
        let slowest = PipelineWait {
            tid: 7,
            thread: "user\x1b[31m 7".to_owned(),
            wait_ns: 3_000_000,
            stages: vec![PipelineWaitStage::default(); 2],
            ..PipelineWait::default()
        };
        PipelineReport {
            pipeline: "redo".to_owned(),
            seen: 3,
            no_wait: 1,
            decomposed: 2,
            wait_sum_ns: 4_000_000,
            stages: vec![
                stage("written", 3_000_000, 1),
                stage("(rest)", 1_000_000, 0),
            ],
            slowest_percent: PipelineSlice {
                waits: 1,
                at_least_ns: 2_900_000,
                sum_ns: 3_000_000,
                stages_ns: vec![2_000_000, 1_000_000],
            },
            slowest: vec![slowest],
            ..PipelineReport::default()
        }
    }

    #[test]
    fn the_text_fits_a_terminal_and_commands_none() {
        let text = text(&report(), 100);
        assert!(text.contains("redo: 3 waits"), "{text}");
        assert!(
            text.contains("2 decomposed (66.7%), 1 had nothing to wait for (33.3%)"),
            "{text}"
        );
        assert!(text.contains("written 66.7%, (rest) 33.3%"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 130),
            "{text}"
        );
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn ends_without_a_beginning_are_told_apart() {
        let (title, line) = (
            "ended without a beginning",
            "3 that began before the trace (cut), 2",
        );
        assert!(!text(&report(), 100).contains(title));
        let (cut, begun_before, torn, begin_lost) = (4, 3, 2, 2);
        let report = PipelineReport {
            cut,
            begun_before,
            torn,
            begin_lost,
            ..report()
        };
        assert!(text(&report, 100).contains(&format!("{title}: {line}")));
    }

    #[test]
    fn nothing_seen_is_no_table() {
        let text = text(&PipelineReport::default(), 100);
        assert!(
            text.contains("0 waits") && !text.contains("share"),
            "{text}"
        );
    }

    #[test]
    fn the_document_survives_being_written_and_read() {
        let report = TraceReport::Pipeline(Box::new(report()));
        let json = serde_json::to_string(&report).expect("JSON");
        assert!(json.contains(r#""subject":"pipeline""#));
        let again: TraceReport = serde_json::from_str(&json).expect("the same");
        assert_eq!(again, report);
    }
}
