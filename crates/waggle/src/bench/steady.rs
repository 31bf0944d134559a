//! From samples of a run to a judgement: was it steady, and did it ever stand still?
//!
//! Throughput is sampled more often than it is reported, about a hundred times a run, by counters
//! that cost the workers nothing. In an open loop the throughput is the offered rate, so it is the
//! response time of each interval that is judged there.

use std::time::Duration;

use serde::Serialize;
use waggle_stats::steady::{Steadiness, judge};

use super::interval::Interval;

/// Samples of a run whose length is known.
const SAMPLES: u32 = 100;
const SAMPLE_MIN: Duration = Duration::from_millis(100);
const SAMPLE_MAX: Duration = Duration::from_secs(1);

/// A stretch without a single transaction that is worth a line.
const STANDSTILL_S: f64 = 1.0;

/// What is sampled while a run goes on.
#[derive(Debug)]
pub(super) struct Series {
    every: Duration,
    due: Duration,
    last_at: Duration,
    last_transactions: u64,
    throughput: Vec<f64>,
    /// Of each report interval, in microseconds.
    latency_us_p99: Vec<f64>,
    interval_s: f64,
    still_since: Option<Duration>,
    standstill: Standstill,
}

/// The longest stretch in which no transaction ended, to the resolution of the samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Standstill {
    pub(super) length_s: f64,
    /// When it began, in seconds since the measurement began.
    pub(super) at_s: f64,
}

/// The judgement.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Steady {
    /// `None`: the offered rate changes by plan, or throughput is what was offered.
    pub(super) throughput: Option<Steadiness>,
    /// Of the 99th percentile of each interval; `None` in a closed loop.
    pub(super) latency_p99: Option<Steadiness>,
    pub(super) standstill: Standstill,
}

impl Default for Series {
    fn default() -> Series {
        Series::of(None)
    }
}

impl Series {
    /// For a run of this length, if it is known.
    pub(super) fn of(time: Option<Duration>) -> Series {
        let every = time.map_or(SAMPLE_MAX, |time| time / SAMPLES);
        let every = every.clamp(SAMPLE_MIN, SAMPLE_MAX);
        Series {
            every,
            due: every,
            last_at: Duration::ZERO,
            last_transactions: 0,
            throughput: Vec::new(),
            latency_us_p99: Vec::new(),
            interval_s: 0.0,
            still_since: None,
            standstill: Standstill::default(),
        }
    }

    pub(super) fn begin(&mut self, transactions: u64) {
        self.last_transactions = transactions;
    }

    /// When the next sample is due, since the measurement began.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    pub(super) fn take(&mut self, at: Duration, transactions: u64) {
        let done = transactions.saturating_sub(self.last_transactions);
        let length_s = at.saturating_sub(self.last_at).as_secs_f64();
        self.throughput.push(done as f64 / length_s.max(1e-9));
        if done == 0 {
            let since = *self.still_since.get_or_insert(self.last_at);
            let length_s = at.saturating_sub(since).as_secs_f64();
            if length_s > self.standstill.length_s {
                let at_s = since.as_secs_f64();
                self.standstill = Standstill { length_s, at_s };
            }
        } else {
            self.still_since = None;
        }
        (self.last_at, self.last_transactions) = (at, transactions);
        while self.due <= at {
            self.due += self.every;
        }
    }

    pub(super) fn interval(&mut self, interval: &Interval) {
        // The last interval may be a short rest.
        if interval.duration_s > 0.5 * self.interval_s {
            self.interval_s = self.interval_s.max(interval.duration_s);
            self.latency_us_p99.extend(interval.latency_us_p99);
        }
    }

    pub(super) fn judged(&self, rate_moves: bool, is_open: bool) -> Steady {
        let throughput = || judge(&self.throughput, self.every.as_secs_f64());
        let latency = || judge(&self.latency_us_p99, self.interval_s);
        Steady {
            throughput: (!rate_moves && !is_open).then(throughput),
            latency_p99: (!rate_moves && is_open).then(latency),
            standstill: self.standstill,
        }
    }
}

impl Steady {
    /// The judgement for people; at least one line.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let parts = [
            ("throughput", &self.throughput),
            ("p99 of the response", &self.latency_p99),
        ];
        for (name, verdict) in parts {
            lines.extend(verdict.as_ref().map(|verdict| line(name, verdict)));
        }
        if lines.is_empty() {
            lines.push("not judged: the offered rate changes by plan".to_owned());
        }
        if self.standstill.length_s >= STANDSTILL_S {
            lines.push(format!(
                "nothing ended for {:.1} s, from {:.1} s on",
                self.standstill.length_s, self.standstill.at_s
            ));
        }
        lines
    }
}

fn line(name: &str, verdict: &Steadiness) -> String {
    match verdict {
        Steadiness::Steady { from_s, drift } => {
            let range = format!(
                "it changed by {:+.1}% to {:+.1}% over the rest, with 95% confidence",
                drift.percent_low, drift.percent_high
            );
            if *from_s > 0.0 {
                format!(
                    "{name} steady from {from_s:.1} s on ({range}); the figures include what was \
                     before: --warmup {:.0} leaves it out",
                    from_s.ceil()
                )
            } else {
                format!("{name} steady throughout ({range})")
            }
        }
        Steadiness::Drifting { drift, .. } => format!(
            "{name} NOT steady: {:+.1}% a minute, {:+.1}% over the run; run longer, or \
             warm up first",
            drift.percent_per_minute, drift.percent
        ),
        Steadiness::TooShort { intervals, drift } => match drift {
            Some(drift) => format!(
                "too short to say whether {name} was steady: the change over {intervals} samples \
                 lies between {:+.1}% and {:+.1}%",
                drift.percent_low, drift.percent_high
            ),
            None => format!(
                "too short to say whether {name} was steady: {intervals} samples, at least {} are \
                 needed",
                waggle_stats::steady::INTERVALS_MIN
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    #[test]
    fn a_standstill_is_found_and_said() {
        let mut series = Series::of(Some(seconds(10.0)));
        let mut done = 0;
        for step in 1..=100_u64 {
            if !(41..56).contains(&step) {
                done += 10;
            }
            series.take(seconds(step as f64 / 10.0), done);
        }
        let steady = series.judged(false, false);
        let still = steady.standstill;
        assert!(
            (still.length_s - 1.5).abs() < 1e-9 && (still.at_s - 4.0).abs() < 1e-9,
            "{still:?}"
        );
        let lines = steady.lines();
        assert!(
            lines[1].starts_with("nothing ended for 1.5 s, from 4.0 s on"),
            "{lines:?}"
        );
    }

    #[test]
    fn each_verdict_has_its_words() {
        let mut series = Series::of(Some(seconds(10.0)));
        for step in 1..=100_u64 {
            series.take(seconds(step as f64 / 10.0), step * 1000);
        }
        let words = |series: &Series| series.judged(false, false).lines()[0].clone();
        assert!(
            words(&series).starts_with("throughput steady throughout"),
            "{}",
            words(&series)
        );
        let mut falling = Series::of(Some(seconds(10.0)));
        for step in 1..=100_u64 {
            falling.take(seconds(step as f64 / 10.0), step * 1000 - step * step * 3);
        }
        assert!(
            words(&falling).contains("NOT steady: -"),
            "{}",
            words(&falling)
        );
        let short = Series::of(None);
        assert!(
            words(&short).contains("at least 20 are needed"),
            "{}",
            words(&short)
        );
        let planned = short.judged(true, true).lines();
        assert_eq!(planned, ["not judged: the offered rate changes by plan"]);
    }
}
