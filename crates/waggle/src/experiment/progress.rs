//! How far an experiment is: a bar on a terminal, a line now and then otherwise; always on standard
//! error.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use waggle_stats::compare::Window;

/// Seconds between two lines where there is no terminal.
const LINE_EVERY_S: u64 = 10;

/// The bar, or the lines.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    windows: AtomicU64,
    line_at_s: AtomicU64,
}

impl Progress {
    /// Of a run that ends after this time at the latest.
    pub(crate) fn new(budget: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:30} {wide_msg}");
            let bar = ProgressBar::new(budget.as_secs());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            bar,
            started: Instant::now(),
            windows: AtomicU64::new(0),
            line_at_s: AtomicU64::new(0),
        }
    }

    /// Says what a reader has to know even when the bar goes on.
    pub(crate) fn note(&self, what: &str) {
        let elapsed = self.started.elapsed().as_secs();
        match &self.bar {
            Some(bar) => bar.println(format!("{elapsed:>4} s  {what}")),
            None => eprintln!("{elapsed:>4} s  {what}"),
        }
    }

    /// Says what begins, or what was measured last.
    pub(crate) fn say(&self, what: &str) {
        let elapsed = self.started.elapsed().as_secs();
        match &self.bar {
            Some(bar) => {
                bar.set_position(elapsed);
                bar.set_message(what.to_owned());
            }
            None => eprintln!("{elapsed:>4} s  {what}"),
        }
    }

    /// A window of `arm` was measured.
    pub(crate) fn window(&self, arm: &str, window: &Window) {
        let count = self.windows.fetch_add(1, Ordering::Relaxed) + 1;
        let elapsed = self.started.elapsed().as_secs();
        let cpu = window.server_cpu_ns as f64 / 1e3 / (window.statements.max(1)) as f64;
        let qps = window.statements as f64 / window.duration_s.max(1e-9);
        let text = format!("window {count}: {arm}, {qps:.0} statements/s, {cpu:.2} us of CPU each");
        match &self.bar {
            Some(bar) => {
                bar.set_position(elapsed);
                bar.set_message(text);
            }
            None if elapsed >= self.line_at_s.load(Ordering::Relaxed) + LINE_EVERY_S => {
                self.line_at_s.store(elapsed, Ordering::Relaxed);
                eprintln!("{elapsed:>4} s  {text}");
            }
            None => {}
        }
    }

    /// Clears the bar.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
