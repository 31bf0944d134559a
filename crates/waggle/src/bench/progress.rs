//! How far a run is: a bar on a terminal, a line an interval otherwise.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::interval::Interval;
use super::note;

/// The bar, or the lines.
pub(super) struct RunProgress {
    bar: Option<ProgressBar>,
}

impl RunProgress {
    /// For a run of this length, if it is known.
    pub(super) fn new(length: Option<Duration>) -> RunProgress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, template) = match length {
                Some(length) => {
                    let bar = ProgressBar::new(length.as_millis() as u64);
                    (bar, "{elapsed:>4} {bar:20} {wide_msg}")
                }
                None => (
                    ProgressBar::new_spinner(),
                    "{elapsed:>4} {spinner} {wide_msg}",
                ),
            };
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        RunProgress { bar }
    }

    pub(super) fn interval(&self, interval: &Interval) {
        let line = interval.line();
        match &self.bar {
            Some(bar) => {
                if interval.kind == "interval" {
                    bar.set_position((interval.at_s * 1e3) as u64);
                }
                bar.set_message(line);
            }
            None => note(&line),
        }
    }

    /// Takes the bar away, before the report is printed.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
