//! A part of the time only: `--share` and `--slice`, and when to attach and to detach.
//!
//! Neighbours: `waggle_trace::slices` draws where slices are; [`super::pipeline`] and
//! [`super::latch`] attach and detach when [`Slicing::due`] says so.
//!
//! Invariant: a slice counts from the moment everything is attached until the moment before
//! anything is detached, by the clock of the records.

use std::time::Duration;

use anyhow::anyhow;
use waggle_probes::clock::now_ns;
use waggle_report::trace::TraceSlices;
use waggle_trace::slices::{Schedule, period_ns};

use crate::cli::Failure;

/// Larger shares leave no time between slices: detaching alone takes some 0.1 s.
const SHARE_MAX: f64 = 0.5;
const SHARE_MIN: f64 = 0.001;
/// What a slice may be, ms, and what it is if nobody says.
const SLICE_MS: std::ops::RangeInclusive<u64> = 100..=60_000;
const SLICE_DEFAULT_MS: u64 = 500;
/// Between detaching and attaching again at the least: a program of the kernel half that was under
/// way is over by then.
const REST_NS: u64 = 20_000_000;

/// The flags of the subjects that can be traced in slices.
#[derive(Debug, clap::Args)]
pub(super) struct SliceArgs {
    /// Trace this share of the time only, such as 10%, in slices at random places; between them
    /// nothing is attached and the process runs as if it were not traced [default: all the time]
    #[arg(long, value_name = "PERCENT")]
    share: Option<String>,

    /// Length of a slice, ms: waits that are not much shorter are seen too rarely [default: 500]
    #[arg(long, value_name = "MS", requires = "share")]
    slice: Option<u64>,
}

/// What was asked for, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slices {
    share: f64,
    slice_ns: u64,
}

impl SliceArgs {
    /// Checks the flags; `None`: all of the time. `duration` is that of the trace.
    pub(super) fn plan(&self, duration: Option<Duration>) -> Result<Option<Slices>, Failure> {
        let Some(text) = &self.share else {
            return Ok(None);
        };
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        let share = number.parse::<f64>().map_or(f64::NAN, |n| n / 100.0);
        if !(SHARE_MIN..=SHARE_MAX).contains(&share) {
            return Err(Failure::unusable(anyhow!(
                "--share {text}: use 0.1% to 50%, or leave it out for all of the time"
            )));
        }
        let slice_ms = self.slice.unwrap_or(SLICE_DEFAULT_MS);
        if !SLICE_MS.contains(&slice_ms) {
            return Err(Failure::unusable(anyhow!(
                "--slice {slice_ms}: use {} to {} ms",
                SLICE_MS.start(),
                SLICE_MS.end()
            )));
        }
        let slice_ns = slice_ms * 1_000_000;
        let period = Duration::from_nanos(period_ns(slice_ns, share));
        if duration.is_some_and(|duration| duration < period) {
            return Err(Failure::unusable(anyhow!(
                "--share {text}: one slice of {slice_ms} ms comes every {:.1} s: use a --duration \
                 of at least that, or a shorter --slice",
                period.as_secs_f64()
            )));
        }
        Ok(Some(Slices { share, slice_ns }))
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Attach,
    Detach,
    Nothing,
}

/// The slices of a trace, as they go by.
#[derive(Debug)]
pub(super) struct Slicing {
    asked: Slices,
    seed: u32,
    schedule: Schedule,
    /// When the first period began, ns.
    began_ns: u64,
    /// When the slice that is next begins, ns.
    next_ns: u64,
    /// When the one that is under way began, ns.
    since_ns: Option<u64>,
    count: u64,
    refused: u64,
    traced_ns: u64,
    cut_long: u64,
}

impl Slicing {
    /// Begins now, with nothing attached.
    pub(super) fn new(asked: Slices) -> Self {
        let began_ns = now_ns();
        // Which places are drawn is of no account, only that they differ from trace to trace.
        let seed = u32::try_from((began_ns / 1_000) & u64::from(u32::MAX)).unwrap_or(0);
        let mut slicing = Self {
            asked,
            seed,
            schedule: Schedule::new(asked.slice_ns, asked.share, seed.into()),
            began_ns,
            next_ns: 0,
            since_ns: None,
            count: 0,
            refused: 0,
            traced_ns: 0,
            cut_long: 0,
        };
        slicing.draw(began_ns);
        slicing
    }

    fn draw(&mut self, now_ns: u64) {
        let next_ns = self.schedule.next(now_ns.saturating_sub(self.began_ns));
        self.next_ns = (self.began_ns + next_ns).max(now_ns + REST_NS);
    }

    /// Something is attached.
    pub(super) fn is_attached(&self) -> bool {
        self.since_ns.is_some()
    }

    /// What is to be done now.
    pub(super) fn due(&self) -> Due {
        match self.since_ns {
            None if now_ns() >= self.next_ns => Due::Attach,
            Some(since_ns) if now_ns() >= since_ns + self.asked.slice_ns => Due::Detach,
            _ => Due::Nothing,
        }
    }

    /// Until then there is nothing to do, at most `most`.
    pub(super) fn pause(&self, most: Duration) -> Duration {
        let then_ns = match self.since_ns {
            None => self.next_ns,
            Some(since_ns) => since_ns + self.asked.slice_ns,
        };
        Duration::from_nanos(then_ns.saturating_sub(now_ns())).min(most)
    }

    /// Everything is attached; returns since when the slice counts, ns.
    pub(super) fn attached(&mut self) -> u64 {
        let now_ns = now_ns();
        self.since_ns = Some(now_ns);
        now_ns
    }

    /// It is going to be detached; returns up to when the slice counts, ns.
    pub(super) fn detaching(&mut self) -> u64 {
        let now_ns = now_ns();
        if let Some(since_ns) = self.since_ns.take() {
            self.count += 1;
            self.traced_ns += now_ns.saturating_sub(since_ns);
        }
        now_ns
    }

    /// It has been, and so many waits under way had lasted for half of a slice or longer.
    pub(super) fn detached(&mut self, cut_long: u64) {
        self.cut_long += cut_long;
        self.draw(now_ns());
    }

    /// Something could not be attached, and everything was detached again.
    pub(super) fn refused(&mut self) {
        self.refused += 1;
        self.draw(now_ns());
    }

    /// Half of a slice, ns: a wait as long as that is long.
    pub(super) fn long_ns(&self) -> u64 {
        self.asked.slice_ns / 2
    }

    /// Time that was traced so far, s.
    pub(super) fn traced_s(&self) -> f64 {
        let since_ns = self
            .since_ns
            .map_or(0, |since| now_ns().saturating_sub(since));
        (self.traced_ns + since_ns) as f64 / 1e9
    }

    /// For the document. `whole` is the trace's time, also between slices; waits as the subject
    /// counted them, and the 99th percentile of those it shows, ns.
    pub(super) fn facts(
        &self,
        whole: Duration,
        began: u64,
        cut: u64,
        p99_ns: Option<f64>,
    ) -> TraceSlices {
        let traced_s = self.traced_s();
        let began_per_s = began as f64 / traced_s.max(1e-9);
        let estimated = began_per_s * whole.as_secs_f64();
        let mut facts = TraceSlices {
            share_asked: self.asked.share,
            slice_ns: self.asked.slice_ns,
            seed: self.seed,
            count: self.count,
            refused: self.refused,
            traced_ns: self.traced_ns,
            share: traced_s / whole.as_secs_f64().max(1e-9),
            began,
            began_per_s,
            estimated: estimated.round() as u64,
            cut,
            cut_long: self.cut_long,
            whole_at_p99: None,
        };
        facts.whole_at_p99 = p99_ns.map(|p99_ns| facts.whole(p99_ns));
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(share: &str, slice: Option<u64>, seconds: Option<u64>) -> Result<Slices, String> {
        let args = SliceArgs {
            share: Some(share.to_owned()),
            slice,
        };
        let plan = args.plan(seconds.map(Duration::from_secs));
        plan.map(|slices| slices.expect("a share was given"))
            .map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_share_is_a_percentage_and_the_trace_has_room_for_a_slice() {
        let slices = plan("10%", None, Some(5)).expect("usable");
        assert_eq!(slices.slice_ns, 500_000_000);
        assert!((slices.share - 0.1).abs() < 1e-12);
        assert!(plan("25", Some(100), None).is_ok());
        for (share, slice, seconds, words) in [
            ("0%", None, None, "--share 0%"),
            ("60%", None, None, "--share 60%"),
            ("NaN", None, None, "--share NaN"),
            ("much", None, None, "--share much"),
            ("10%", Some(99), None, "--slice 99"),
            ("10%", None, Some(4), "--duration"),
        ] {
            let refused = plan(share, slice, seconds).expect_err(share);
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn what_began_is_scaled_to_all_of_the_time() {
        let mut slicing = Slicing::new(plan("10%", None, None).expect("usable"));
        slicing.count = 10;
        slicing.traced_ns = 5_000_000_000;
        let facts = slicing.facts(Duration::from_secs(50), 1_000, 9, Some(100e6));
        assert_eq!((facts.estimated, facts.cut), (10_000, 9));
        assert!((facts.share - 0.1).abs() < 1e-12);
        assert!((facts.whole_at_p99.expect("a p99") - 0.8).abs() < 1e-12);
    }
}
