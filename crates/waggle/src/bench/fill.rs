//! Commands of a workload other than `run`, with progress on stderr: `prepare`, `cleanup`,
//! `warmup`, and what a script defines itself.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use waggle_load::{LoadError, LoadSpec, Progress};
use waggle_report::quantity;

use super::note;
use crate::interrupt::Interrupt;

/// What a command did.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Filled {
    pub(super) command: String,
    pub(super) rows_inserted: u64,
    pub(super) prepare_s: f64,
}

/// Runs a command; an interrupt ends it after the statement under way. `rows_expected` makes the
/// bar one of known length.
pub(super) fn command(
    spec: &LoadSpec,
    name: &str,
    rows_expected: Option<u64>,
    interrupt: &Interrupt,
) -> Result<Filled, LoadError> {
    let began = Instant::now();
    let rows = Arc::new(AtomicU64::new(0));
    let (shown, bar) = (rows.clone(), bar(rows_expected));
    let progress_bar = bar.clone();
    let (interrupt, cancel) = (interrupt.clone(), spec.cancel.clone());
    let done = waggle_load::command(spec, name, move |progress| {
        if interrupt.requested() {
            cancel.store(true, Ordering::Relaxed);
        }
        match progress {
            Progress::Message { text, .. } => message(&progress_bar, text),
            Progress::Rows { inserted } => {
                shown.fetch_max(inserted, Ordering::Relaxed);
                progress_bar.set_position(inserted);
            }
        }
    });
    bar.finish_and_clear();
    done?;
    let filled = Filled {
        command: name.to_owned(),
        rows_inserted: rows.load(Ordering::Relaxed),
        prepare_s: began.elapsed().as_secs_f64(),
    };
    if filled.rows_inserted > 0 {
        let count = quantity::count(filled.rows_inserted);
        let time = quantity::seconds(filled.prepare_s);
        note(&format!("inserted {count} rows in {time}"));
    }
    Ok(filled)
}

/// Hidden where stderr is no terminal; lines are printed then.
fn bar(rows_expected: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match rows_expected {
        Some(rows) => (
            ProgressBar::new(rows),
            "{elapsed:>4} {bar:30} {human_pos} of {human_len} rows, {per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {human_pos} rows, {per_sec}, {elapsed}",
        ),
    };
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn message(bar: &ProgressBar, text: &str) {
    if bar.is_hidden() {
        note(text);
    } else {
        bar.println(text);
    }
}
