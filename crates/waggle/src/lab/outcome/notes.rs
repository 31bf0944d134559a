//! What a reader must know of a cell and of each of its arms.

use waggle_stats::compare::{Comparison, Outcome, SameVerdict, Switch, compare_without_marked};

use super::{checks, parts};
use crate::lab::cell::{CellRun, Sample, carried_over};

/// Notes of the whole cell: what happened, then what always holds.
pub(super) fn of_cell(run: &CellRun, same: Option<SameVerdict>) -> Vec<String> {
    let mut notes = run.notes.clone();
    notes.extend(
        run.error
            .as_ref()
            .map(|e| format!("The run ended early: {e}")),
    );
    notes.extend(
        run.stopped
            .iter()
            .map(|(number, why)| format!("Arm {} was stopped: {why}.", run.spec.arm_name(*number))),
    );
    for (samples, of) in [(&run.in_life, ""), (&run.pairs, " of pairs of servers")] {
        notes.extend(carry_over(run, samples, of));
        notes.extend(marked(samples, of));
    }
    notes.extend(standing(run, same));
    notes
}

/// What switches carried into windows, and was left out.
fn carry_over(run: &CellRun, samples: &[Sample], of: &str) -> Option<String> {
    let (outcome, found) = carried_over(samples, run.spec.timing.settle, run.spec.primary)?;
    let what = match outcome {
        Outcome::Qps => "Throughput",
        _ => "CPU a statement",
    };
    let ms = |seconds: f64| seconds * 1e3;
    let name = |switch: Switch| match switch {
        Switch::On(arm) => format!("{} is switched on", run.spec.arm_name(arm)),
        Switch::Off(arm) => format!("{} is switched off", run.spec.arm_name(arm)),
    };
    let lasting = found.switches.iter().filter(|one| one.lasts_s > 0.0);
    let lasting: Vec<String> = lasting
        .map(|one| format!("{:.0} ms after {}", ms(one.lasts_s), name(one.switch)))
        .collect();
    let unsettled = match found.settled {
        true => "",
        false => " Some had not settled after half a window: take a longer --window.",
    };
    Some(format!(
        "{what} is not steady {}: the first {:.0} ms of every window{of} are left \
         out.{unsettled}",
        lasting.join(", "),
        ms(found.settle_s)
    ))
}

/// Windows in which the server's own housekeeping ran.
fn marked(samples: &[Sample], of: &str) -> Option<String> {
    let storms = parts::storms(samples);
    let marked = storms.marks.iter().flatten().count();
    if marked == 0 {
        return None;
    }
    let uneven = match storms.uneven.is_empty() {
        true => "no arm has more of them than chance allows".to_owned(),
        false => {
            let named = |arm: &usize| {
                let sample = samples.iter().find(|sample| sample.window.arm == *arm);
                sample.map_or_else(String::new, |sample| sample.name.clone())
            };
            let names: Vec<String> = storms.uneven.iter().map(named).collect();
            format!("{} has more of them than chance allows", names.join(", "))
        }
    };
    Some(format!(
        "A checkpoint, a sync flush or a flush storm ran in {marked} of {} windows{of}, which are \
         marked and not left out; {uneven}.",
        samples.len()
    ))
}

fn standing(run: &CellRun, same: Option<SameVerdict>) -> Vec<String> {
    let mut notes = vec![loop_note(run)];
    notes.push(
        "Latency is that of whole transactions as the client sees them; for point selects that is \
         one statement."
            .to_owned(),
    );
    notes.push(format!(
        "Windows of every arm lie between windows of {}; the load stands still while an arm \
         is switched, and {} ms after a switch are not measured.",
        match &run.spec.base {
            None => "nothing",
            Some(base) => &base.name,
        },
        run.spec.timing.settle.as_millis()
    ));
    let arms = || run.spec.arms.iter();
    let slow_log = |sql: &String| sql.to_ascii_lowercase().contains("slow_query_log");
    if arms().any(|arm| arm.on.iter().any(slow_log)) {
        notes.push(
            "long_query_time is 0 on every server of the run, also under nothing: the slow log \
             itself is the switch."
                .to_owned(),
        );
    }
    if arms().any(|arm| !arm.is_in_life()) {
        let names: Vec<&str> = arms()
            .filter(|arm| !arm.is_in_life())
            .map(|arm| arm.label.as_str())
            .collect();
        notes.push(format!(
            "{} cannot be switched while the server lives: pairs of servers, one with it, one \
             without, live at the same time and take turns; the interval is over pairs.",
            names.join(", ")
        ));
    }
    if arms().any(|arm| run.spec.is_in_pairs(arm)) {
        notes.push(
            "The A/A arm checks windows of one server; between the servers of a pair there is no \
             such check."
                .to_owned(),
        );
    }
    if same == Some(SameVerdict::Bounded) {
        notes.push(
            "The A/A arm differs from nothing by less than the margin; one in twenty sound runs \
             does."
                .to_owned(),
        );
    }
    notes
}

fn loop_note(run: &CellRun) -> String {
    let Some(rate) = run.spec.rate else {
        return "Closed loop: each connection waits for its answer, so latencies hide coordinated \
                omission; they compare arms, they do not tell what a user of a busy server sees."
            .to_owned();
    };
    let samples = run.in_life.iter().chain(&run.pairs);
    let most = samples
        .filter_map(|sample| sample.backlog)
        .max()
        .unwrap_or(0);
    format!(
        "Open loop at {rate} transactions a second: latency runs from the intended start, so it \
         holds what a stalled server does to those who wait. At most {most} were due and not begun \
         at the end of a window."
    )
}

/// What must be known of one arm's figures.
pub(super) fn of_arm(run: &CellRun, number: usize, primary: Option<&Comparison>) -> Option<String> {
    let mut notes = Vec::new();
    if let Some(why) = run.stopped.get(&number) {
        notes.push(format!("stopped: {why}"));
    }
    notes.extend(checks::errors_differ(run, number));
    match primary {
        None => {
            let name = run.spec.arm_name(number);
            notes.push(format!("{name}: too few windows for an interval"));
        }
        Some(primary) => {
            notes.extend(of_comparison(primary));
            notes.extend(without_marked(run, number));
        }
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// The ratio without windows of the server's own housekeeping, where there are such.
fn without_marked(run: &CellRun, number: usize) -> Option<String> {
    let arm = run.spec.arm(number)?;
    let storms = parts::storms(run.samples_of(arm));
    storms.marks.iter().flatten().next()?;
    let windows = run.windows_of(arm);
    let settings = run.spec.compare_settings(number);
    let without =
        compare_without_marked(&windows, &storms, number, run.spec.primary, &settings).ok()?;
    Some(format!(
        "without the windows marked as checkpoints and flush storms the ratio is {:.3} ({:.3} to \
         {:.3})",
        without.ratio.estimate, without.ratio.low, without.ratio.high
    ))
}

fn of_comparison(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    if comparison.bursts {
        notes.push(format!(
            "more of its windows are disturbed than chance allows ({} of {}): with them the ratio \
             is {:.3}",
            comparison.disturbed_arm, comparison.windows_arm, comparison.ratio_all_windows.estimate
        ));
    }
    if comparison.agree == Some(false) {
        notes.push("t and bootstrap intervals disagree: read the wider".to_owned());
    }
    notes
}
