//! The slowest waits, for a terminal: what they spent, and some of them in full.

use std::fmt::Write as _;

use super::drawing::{Bar, draw};
use super::pipeline::{Doing, PipelineReport, PipelineStage, PipelineWait, PipelineWaitStage};
use super::pipeline_text::{percent, share, us, waits};

/// What the slowest 1% spent, and the slowest of all.
pub(super) fn slowest(report: &PipelineReport) -> String {
    let slice = &report.slowest_percent;
    let mut text = format!(
        "\nThe slowest {} took {} us or more",
        waits(slice.waits),
        us(slice.at_least_ns)
    );
    let mut parts: Vec<(usize, u64)> = slice.stages_ns.iter().copied().enumerate().collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let parts = parts
        .iter()
        .take(3)
        .filter(|(_, ns)| *ns > 0)
        .filter_map(|(index, ns)| {
            let stage = report.stages.get(*index)?;
            Some(format!("{} {}", stage.name, percent(*ns, slice.sum_ns)))
        });
    let parts: Vec<String> = parts.collect();
    let _ = writeln!(text, ": {}.", parts.join(", "));
    for wait in report.slowest.iter().take(3) {
        text.push('\n');
        text += &single(report, wait);
    }
    text
}

/// One wait in full.
fn single(report: &PipelineReport, wait: &PipelineWait) -> String {
    let parts = report.stages.iter().zip(&wait.stages);
    let bars: Vec<Bar<'_>> = parts.map(|(stage, part)| single_bar(stage, part)).collect();
    let spurious = match wait.spurious_wakes {
        0 => String::new(),
        wakes => format!(", woken {wakes} times for nothing"),
    };
    let caller = match wait.caller.first() {
        Some(caller) => format!(", in {caller}"),
        None => String::new(),
    };
    let whole = format!(
        "{:>9} us  {}{caller}{spurious}",
        us(wait.wait_ns),
        wait.thread
    );
    draw(&whole, &bars)
}

/// A stage of one wait.
fn single_bar<'a>(stage: &'a PipelineStage, part: &PipelineWaitStage) -> Bar<'a> {
    let by = part.thread.as_deref().unwrap_or_default();
    let what = match part.skipped {
        true => "skipped".to_owned(),
        false if part.ns == 0 => by.to_owned(),
        false => {
            let doing = words(&part.doing, part.ns);
            let between = if by.is_empty() || doing.is_empty() {
                ""
            } else {
                ": "
            };
            format!("{by}{between}{doing}")
        }
    };
    let words = format!("{:>9} us  {what}", us(part.ns));
    Bar {
        name: &stage.name,
        words: words.trim_end().to_owned(),
        size: part.ns,
        skipped: part.skipped,
    }
}

/// The two things that a thread did most.
fn words(doing: &Doing, ns: u64) -> String {
    let mut all = vec![
        ("behind", doing.queued_ns),
        ("on CPU", doing.on_cpu_ns),
        ("runnable", doing.runnable_ns),
    ];
    all.extend(
        doing
            .blocked_ns
            .iter()
            .map(|(reason, ns)| (reason.as_str(), *ns)),
    );
    all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let most = all
        .iter()
        .take(2)
        .filter(|(_, part)| share(*part, ns) >= 5.0);
    let most: Vec<String> = most
        .map(|(what, part)| format!("{what} {}", percent(*part, ns)))
        .collect();
    most.join(", ")
}
