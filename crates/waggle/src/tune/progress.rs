//! How far a tuning run is: a bar on a terminal, a line a block otherwise; always on standard
//! error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar, or the lines.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    /// Of a run that ends after this time at the latest.
    pub(super) fn new(budget: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:30} {wide_msg}");
            let bar = ProgressBar::new(budget.as_secs());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            bar,
            started: Instant::now(),
        }
    }

    /// Says what a reader has to know even when the bar goes on.
    pub(super) fn say(&self, what: &str) {
        let elapsed = self.started.elapsed().as_secs();
        match &self.bar {
            Some(bar) => bar.println(format!("{elapsed:>4} s  {what}")),
            None => eprintln!("{elapsed:>4} s  {what}"),
        }
    }

    /// Says what was measured last.
    pub(super) fn block(&self, what: &str) {
        let elapsed = self.started.elapsed().as_secs();
        match &self.bar {
            Some(bar) => {
                bar.set_position(elapsed);
                bar.set_message(what.to_owned());
            }
            None => eprintln!("{elapsed:>4} s  {what}"),
        }
    }

    /// Clears the bar.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
