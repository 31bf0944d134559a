//! A tuning run as text for a terminal: the answer, and a table a stage.

use std::fmt::Write as _;

use waggle_foreign::is_harmful;

use super::{TuneConfiguration, TuneGuardReading, TuneInterval, TuneReport, TuneStage};
use crate::quantity::{decimals, plain, seconds, signed};
use crate::table::{Table, WIDTH};

/// What stands for a figure that there is not.
pub(super) const ABSENT: &str = "–";

/// The run as text of about 100 columns.
pub fn text(report: &TuneReport, bold: bool) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}\n{}\n",
        clean(&report.question),
        clean(&report.answer)
    );
    let load = match report.workload.rate {
        Some(rate) => format!("{rate} transactions/s"),
        None => "closed loop".to_owned(),
    };
    let server = format!("{} {}", report.server.flavour, report.server.version);
    let _ = writeln!(
        text,
        "{}, {} with {} threads, {load}; {} in {}",
        clean(server.trim()),
        clean(&report.workload.name),
        report.workload.threads,
        clean(&report.strategy),
        seconds(report.duration_s),
    );
    for stage in &report.stages {
        text.push('\n');
        text.push_str(&stage_text(stage, report, bold));
    }
    for note in &report.notes {
        let _ = writeln!(text, "\n{}", clean(note));
    }
    if let Some(error) = &report.error {
        let _ = writeln!(text, "\nThe run ended early: {}", clean(error));
    }
    text
}

fn stage_text(stage: &TuneStage, report: &TuneReport, bold: bool) -> String {
    let mut text = format!("{}: {}\n", clean(&stage.name), clean(&stage.answer));
    if !stage.base.is_empty() {
        let base = stage
            .base
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let base = base.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "With {} in place.", clean(&base));
    }
    let name = match stage.variables.as_slice() {
        [] => "configuration".to_owned(),
        names => names.join(" / "),
    };
    let mut table = Table::new()
        .flexible(&name)
        .number(&report.objective.name, &report.objective.unit)
        .number("", "95% interval")
        .number("against present", "95% interval")
        .number("blocks", "")
        .text("place");
    for guard in &report.guards {
        table = table.text(&guard.name);
    }
    for config in stage.ranked() {
        table.row(row(config, report));
    }
    text.push_str(&table.bold(bold).render(WIDTH));
    for config in stage.ranked() {
        if let (Some(failure), Some(why)) = (&config.failure, &config.why) {
            let _ = writeln!(
                text,
                "{} {}: {}",
                clean(&config.label),
                clean(failure),
                clean(why)
            );
        }
    }
    let spent = match stage.blocks_of_sweep {
        0 => String::new(),
        all => format!(" ({all} in a sweep of as many rounds as were allowed)"),
    };
    let _ = writeln!(
        text,
        "{} blocks{spent}. {}",
        stage.blocks,
        clean(&stage.ended)
    );
    text
}

fn row(config: &TuneConfiguration, report: &TuneReport) -> Vec<String> {
    let level = config.level.filter(TuneInterval::is_finite);
    let mut cells = vec![
        config.label.clone(),
        level.map_or(ABSENT.to_owned(), |level| figure(&level)),
        level.map_or(ABSENT.to_owned(), |level| ends(&level)),
        ratio(config),
        config.blocks.to_string(),
        place(config).to_owned(),
    ];
    for guard in &report.guards {
        let reading = config
            .guards
            .iter()
            .find(|reading| reading.name == guard.name);
        cells.push(reading.map_or(ABSENT.to_owned(), guard_words));
    }
    cells
}

/// An estimate with as many digits as its interval carries.
pub(super) fn figure(interval: &TuneInterval) -> String {
    plain(interval.estimate, digits(interval))
}

/// The ends of an interval.
pub(super) fn ends(interval: &TuneInterval) -> String {
    let digits = digits(interval);
    format!(
        "{} to {}",
        plain(interval.low, digits),
        plain(interval.high, digits)
    )
}

fn digits(interval: &TuneInterval) -> usize {
    decimals(0.5 * (interval.high - interval.low), 1)
}

/// The change against the present configuration in percent, with its interval.
pub(super) fn ratio(config: &TuneConfiguration) -> String {
    match config.ratio.filter(TuneInterval::is_finite) {
        None => ABSENT.to_owned(),
        Some(ratio) => {
            let percent = |value: f64| signed(100.0 * (value - 1.0), 1);
            format!(
                "{}% ({} to {})",
                percent(ratio.estimate),
                percent(ratio.low),
                percent(ratio.high)
            )
        }
    }
}

/// A place in the words of a table.
pub(super) fn place(config: &TuneConfiguration) -> &str {
    match config.place.as_str() {
        "best" => "best",
        "same" => "same as best",
        "not-told-apart" => "not told apart",
        "behind" => "behind",
        "failed" => config.failure.as_deref().unwrap_or("failed"),
        _ => ABSENT,
    }
}

/// A guard in the words of a table.
pub(super) fn guard_words(reading: &TuneGuardReading) -> String {
    let change = reading.change.filter(TuneInterval::is_finite);
    match (change, reading.is_ratio) {
        (Some(change), true) => {
            let percent = signed(100.0 * (change.estimate - 1.0), 1);
            format!("{} {percent}%", reading.verdict)
        }
        (Some(change), false) => {
            let digits = decimals(0.5 * (change.high - change.low), 1);
            format!("{} {}", reading.verdict, signed(change.estimate, digits))
        }
        (None, _) => reading.verdict.clone(),
    }
}

/// Strings of a run are foreign: nothing in them commands the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect()
}
