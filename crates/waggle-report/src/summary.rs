//! A run of any verb as text: what ran, on what, how it ended, and what it left.

use std::fmt::Write as _;

use serde_json::Value;
use waggle_foreign::is_harmful;

use crate::lab;
use crate::profile::ProfilePage;
use crate::quantity::{bytes, count};
use crate::run::{Outcome, ReadError, Run, RunFacts, shell_line};
use crate::study;
use crate::table::{Table, WIDTH};
use crate::trace::TracePage;
use crate::tune;

/// Most figures of a result that are listed; the file holds the rest.
const FIGURES_MAX: usize = 60;

/// The run as text of about 100 columns: for a lab run or a study that got as far as a report the
/// report itself, for any other the facts, the final result and the count of samples.
///
/// # Errors
/// When a file of the run is there and cannot be read.
pub fn text(run: &Run, bold: bool) -> Result<String, ReadError> {
    let mut text = facts(run.facts());
    if let Some(report) = run.study()? {
        return Ok(format!("{text}\n{}", study::text(&report, bold)));
    }
    let parts = run.profiles()?;
    let profile = match parts.is_empty() {
        true => String::new(),
        false => format!("\n{}", ProfilePage::new(parts, run.facts()).text(bold)),
    };
    if let Some(report) = run.lab()? {
        return Ok(format!("{text}\n{}{profile}", lab::text(&report, bold)));
    }
    if run.facts().verb == "profile" && !profile.is_empty() {
        return Ok(format!("{text}{profile}"));
    }
    if let Some(report) = run.trace()? {
        let trace = TracePage::new(report, run.facts());
        return Ok(format!("{text}\n{}", trace.text()));
    }
    if let Some(report) = run.tune()? {
        return Ok(format!("{text}\n{}", tune::text(&report, bold)));
    }
    let mut number = 0_u64;
    let samples = run.each_sample(|_| number += 1)?;
    let number = count(number);
    let _ = write!(text, "{:<12}{number}", "samples");
    if samples.damaged > 0 {
        let _ = write!(text, ", {} damaged lines left out", count(samples.damaged));
    }
    if samples.half_written {
        text.push_str(", the last one half-written and left out");
    }
    text.push('\n');
    let histograms = run.histogram_names();
    if !histograms.is_empty() {
        let _ = writeln!(
            text,
            "{:<12}{}",
            "histograms",
            clean(&histograms.join(", "))
        );
    }
    if let Some(result) = run.result()? {
        text.push('\n');
        text.push_str(&figures(&result).bold(bold).render(WIDTH));
    }
    text.push_str(&profile);
    Ok(text)
}

fn facts(facts: &RunFacts) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12}{}", clean(value));
    };
    line("run", format!("{} {}", facts.verb, facts.name).trim());
    if !facts.command.is_empty() {
        line("command", &shell_line(&facts.command));
    }
    line("started", &facts.started);
    line("ended", &ended(facts));
    if let Some(server) = &facts.server {
        line(
            "server",
            format!("{} {}", server.flavour, server.version).trim(),
        );
    }
    let host = &facts.host;
    let machine: Vec<String> = [
        host.cpu_model.clone(),
        host.cores.map(|cores| format!("{cores} cores")),
        host.memory_bytes.map(bytes),
        host.kernel
            .as_ref()
            .map(|kernel| format!("kernel {kernel}")),
        host.virtualisation.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !machine.is_empty() {
        line("machine", &machine.join(", "));
    }
    text
}

/// How a run ended, in words.
pub(crate) fn ended(facts: &RunFacts) -> String {
    let when = facts.finished.as_deref().unwrap_or("");
    let how = match facts.outcome {
        Some(Outcome::Done) => "done",
        Some(Outcome::Failed) => "failed",
        Some(Outcome::Interrupted) => "interrupted",
        None => "no end was noted: it is still running or was killed",
    };
    let why = facts
        .error
        .as_deref()
        .map(|error| format!(": {error}"))
        .unwrap_or_default();
    format!("{when} {how}{why}").trim().to_owned()
}

fn figures(result: &Value) -> Table {
    let mut rows = Vec::new();
    flatten("", result, &mut rows);
    let left_out = rows.len().saturating_sub(FIGURES_MAX);
    rows.truncate(FIGURES_MAX);
    let mut table = Table::new().text("result").flexible("value");
    for (name, value) in &rows {
        table.row([name, value]);
    }
    if left_out > 0 {
        table.row([
            "…".to_owned(),
            format!("{left_out} more in {}", crate::run::RESULT_FILE),
        ]);
    }
    table
}

fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let below = |key: &str| {
        if name.is_empty() {
            key.to_owned()
        } else {
            format!("{name}.{key}")
        }
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&below(key), value, rows);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                flatten(&below(&index.to_string()), value, rows);
            }
        }
        Value::String(text) => rows.push((name.to_owned(), text.clone())),
        Value::Null => rows.push((name.to_owned(), "–".to_owned())),
        Value::Bool(_) | Value::Number(_) => rows.push((name.to_owned(), value.to_string())),
    }
}

/// Run files are foreign: nothing in them commands the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect()
}
