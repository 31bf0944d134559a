//! `prepare` and `cleanup`: running them with progress on stderr.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use waggle_load::{LoadError, LoadSpec, Progress};
use waggle_report::quantity;

use super::note;
use crate::interrupt::Interrupt;

/// What `prepare` did.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct Filled {
    pub(super) rows_inserted: u64,
    pub(super) prepare_s: f64,
}

/// Creates and fills the tables; an interrupt ends it after the bulk insert under way.
pub(super) fn prepare(spec: &LoadSpec, interrupt: &Interrupt) -> Result<Filled, LoadError> {
    let began = Instant::now();
    let rows = Arc::new(AtomicU64::new(0));
    let (shown, bar) = (rows.clone(), bar());
    let progress_bar = bar.clone();
    let (interrupt, cancel) = (interrupt.clone(), spec.cancel.clone());
    waggle_load::prepare(spec, move |progress| {
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
    })?;
    bar.finish_and_clear();
    let filled = Filled {
        rows_inserted: rows.load(Ordering::Relaxed),
        prepare_s: began.elapsed().as_secs_f64(),
    };
    let count = quantity::count(filled.rows_inserted);
    note(&format!(
        "inserted {count} rows in {}",
        quantity::seconds(filled.prepare_s)
    ));
    Ok(filled)
}

/// Drops the tables.
pub(super) fn cleanup(spec: &LoadSpec) -> Result<(), LoadError> {
    waggle_load::cleanup(spec, |progress| {
        if let Progress::Message { text, .. } = progress {
            note(text);
        }
    })
}

/// Hidden where stderr is no terminal; lines are printed then.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} rows, {per_sec}, {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style);
    if std::io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

fn message(bar: &ProgressBar, text: &str) {
    if bar.is_hidden() {
        note(text);
    } else {
        bar.println(text);
    }
}
