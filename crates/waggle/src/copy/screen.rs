//! How far a copy is: a bar on a terminal, a line a second otherwise.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use waggle_copy::{Control, Phase};
use waggle_report::quantity;

/// Between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(1);
/// How much older rates weigh, for each sample.
const SMOOTH: f64 = 0.8;

/// The counters at a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Glance {
    pub(super) at_s: f64,
    pub(super) phase: Phase,
    pub(super) is_paused: bool,
    /// Copied, those of earlier processes included.
    pub(super) rows: u64,
    /// As the source estimates them.
    pub(super) rows_expected: u64,
    /// Of this process.
    pub(super) bytes: u64,
    pub(super) ranges_done: u64,
    pub(super) ranges: u64,
    pub(super) transactions: u64,
    pub(super) changes: u64,
    /// `None` when it is not known.
    pub(super) lag_ms: Option<u64>,
    pub(super) spool_bytes: u64,
    pub(super) copier_cpu_s: f64,
}

impl Glance {
    pub(super) fn of(control: &Control, at: Duration) -> Glance {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let lag_ms = read(&control.lag_ms);
        Glance {
            at_s: at.as_secs_f64(),
            phase: control.phase(),
            is_paused: control.is_paused(),
            rows: read(&control.rows) + read(&control.rows_before),
            rows_expected: read(&control.rows_expected),
            bytes: read(&control.bytes),
            ranges_done: read(&control.ranges_done),
            ranges: read(&control.ranges),
            transactions: read(&control.transactions),
            changes: read(&control.changes),
            lag_ms: (lag_ms != u64::MAX).then_some(lag_ms),
            spool_bytes: read(&control.spool_bytes),
            copier_cpu_s: read(&control.copy_cpu_ns) as f64 / 1e9,
        }
    }

    /// The share of the rows that are copied. The estimate may be wrong, so it ends below 1 until
    /// the phase does.
    fn share(&self) -> f64 {
        match self.phase {
            Phase::Preflight | Phase::Schema => 0.0,
            Phase::Copy if self.rows_expected == 0 => 0.0,
            Phase::Copy => (self.rows as f64 / self.rows_expected as f64).min(0.99),
            _ => 1.0,
        }
    }
}

/// The bar, or the lines.
pub(super) struct Screen {
    bar: Option<ProgressBar>,
    last: Option<Glance>,
    next_line: Instant,
    rows_per_s: f64,
    bytes_per_s: f64,
}

impl Screen {
    pub(super) fn new() -> Screen {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:20} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Screen {
            bar,
            last: None,
            next_line: Instant::now() + LINE,
            rows_per_s: 0.0,
            bytes_per_s: 0.0,
        }
    }

    pub(super) fn show(&mut self, glance: &Glance) {
        self.rates(glance);
        if let Some(bar) = &self.bar {
            bar.set_position((glance.share() * 1000.0) as u64);
            bar.set_message(self.line(glance));
        } else if Instant::now() >= self.next_line {
            self.next_line += LINE;
            eprintln!("{:>6.1} s  {}", glance.at_s, self.line(glance));
        }
    }

    fn rates(&mut self, glance: &Glance) {
        if let Some(last) = &self.last {
            let seconds = glance.at_s - last.at_s;
            if seconds < 0.5 {
                return;
            }
            // Rows come in slices, some a second.
            let smooth = |old: f64, now: u64, before: u64| {
                let rate = now.saturating_sub(before) as f64 / seconds;
                match old {
                    0.0 => rate,
                    old => old * SMOOTH + rate * (1.0 - SMOOTH),
                }
            };
            self.rows_per_s = smooth(self.rows_per_s, glance.rows, last.rows);
            self.bytes_per_s = smooth(self.bytes_per_s, glance.bytes, last.bytes);
        }
        self.last = Some(glance.clone());
    }

    fn line(&self, glance: &Glance) -> String {
        let paused = if glance.is_paused { " (paused)" } else { "" };
        match glance.phase {
            Phase::Preflight => "checking".into(),
            Phase::Schema => "making the tables".into(),
            Phase::Copy => format!(
                "copying{paused}  {} rows of about {}  {}  {}/s{}",
                quantity::count(glance.rows),
                quantity::count(glance.rows_expected),
                quantity::bytes(glance.bytes),
                quantity::bytes(self.bytes_per_s as u64),
                self.left(glance),
            ),
            Phase::Keys => format!("building keys{}", changes(glance)),
            Phase::CatchUp => format!("catching up{paused}{}", changes(glance)),
            Phase::Replicate => format!("replicating{paused}{}", changes(glance)),
            Phase::Verify => "comparing".into(),
            Phase::Done => "done".into(),
        }
    }

    /// The estimated end.
    fn left(&self, glance: &Glance) -> String {
        let rows = glance.rows_expected.saturating_sub(glance.rows) as f64;
        match self.rows_per_s > 0.0 && rows > 0.0 {
            true => format!("  {} left", quantity::seconds(rows / self.rows_per_s)),
            false => String::new(),
        }
    }

    /// Takes the bar away, before the result is printed.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn changes(glance: &Glance) -> String {
    let lag = match glance.lag_ms {
        Some(lag_ms) => format!("  lag {}", quantity::seconds(lag_ms as f64 / 1e3)),
        None => String::new(),
    };
    format!(
        "  {} changes in {} transactions{lag}  {} kept",
        quantity::count(glance.changes),
        quantity::count(glance.transactions),
        quantity::bytes(glance.spool_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let control = Control::new();
        control.enter(Phase::Copy);
        control.rows.store(500, Ordering::Relaxed);
        control.rows_expected.store(2000, Ordering::Relaxed);
        let mut screen = Screen::new();
        screen.bar = None;
        screen.show(&Glance::of(&control, Duration::from_secs(1)));
        control.rows.store(1000, Ordering::Relaxed);
        let glance = Glance::of(&control, Duration::from_secs(2));
        screen.show(&glance);
        let line = screen.line(&glance);
        assert!(
            line.starts_with("copying  1,000 rows of about 2,000"),
            "{line}"
        );
        assert!(line.contains("2.0 s left"), "{line}");
        assert!((glance.share() - 0.5).abs() < 1e-9);
    }
}
