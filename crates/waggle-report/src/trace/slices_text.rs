//! The part of the time that was traced, for a terminal.
//!
//! Invariant: what is an estimate is called so, and what long waits do to the figures is said
//! where they do it.

use std::fmt::Write as _;

use super::{TraceFacts, TraceSlices};
use crate::quantity::{count, plain};

/// Lines below the count of waits; nothing if all of the time was traced.
pub(super) fn lines(facts: &TraceFacts) -> String {
    let Some(slices) = &facts.slices else {
        return String::new();
    };
    let mut text = format!(
        "traced {}% of the time: {} slices of {} ms, {} s of {} s\n",
        plain(100.0 * slices.share, 2),
        count(slices.count),
        plain(slices.slice_ns as f64 / 1e6, 0),
        plain(slices.traced_ns as f64 / 1e9, 1),
        plain(facts.duration_s, 1),
    );
    let _ = writeln!(
        text,
        "{} waits began in them: {} a second, an estimated {} in all; {} were cut by an edge",
        count(slices.began),
        plain(slices.began_per_s, 1),
        count(slices.estimated),
        count(slices.cut),
    );
    if slices.refused > 0 {
        let _ = writeln!(
            text,
            "{} slices left out: something could not be attached again",
            count(slices.refused)
        );
    }
    if 2 * slices.cut > slices.began {
        text += "most waits were cut: they are long, or few came in a slice; a longer --slice, or \
                 all of the time, shows more of them\n";
    }
    text += &of_slow_waits(slices);
    text
}

/// What the slices' length does to the slowest waits, if it does anything.
fn of_slow_waits(slices: &TraceSlices) -> String {
    if !slices.hides_slow_waits() {
        return String::new();
    }
    let mut text =
        "p99, max and the slowest 1% are too low: a wait counts if it ends in its slice".to_owned();
    if let Some(whole) = slices.whole_at_p99 {
        let _ = write!(
            text,
            ", which {}% of those as long as p99 do",
            plain(100.0 * whole, 0)
        );
    }
    let _ = writeln!(
        text,
        ";\n{} were cut after half a slice or more. A longer --slice shows them.",
        count(slices.cut_long)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cut_long: u64, p99_ns: f64) -> TraceFacts {
        let mut slices = TraceSlices {
            share_asked: 0.1,
            slice_ns: 500_000_000,
            count: 720,
            traced_ns: 360_000_000_000,
            share: 0.1,
            began: 360_000,
            began_per_s: 1_000.0,
            estimated: 3_600_000,
            cut: 700,
            cut_long,
            ..TraceSlices::default()
        };
        slices.whole_at_p99 = Some(slices.whole(p99_ns));
        TraceFacts {
            duration_s: 3600.0,
            slices: Some(slices),
            ..TraceFacts::default()
        }
    }

    #[test]
    fn all_of_the_time_is_no_line_and_an_estimate_is_called_so() {
        assert_eq!(lines(&TraceFacts::default()), "");
        let text = lines(&facts(0, 5e6));
        for part in [
            "traced 10.00% of the time: 720 slices of 500 ms, 360.0 s of 3600.0 s",
            "1000.0 a second, an estimated 3,600,000 in all; 700 were cut",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("too low"), "{text}");
        assert!(!text.contains("most waits were cut"), "{text}");
    }

    #[test]
    fn a_server_with_few_waits_is_told_to_be_traced_all_of_the_time() {
        let mut facts = facts(0, 5e6);
        facts.slices.as_mut().expect("slices").began = 1_000;
        let text = lines(&facts);
        assert!(text.contains("most waits were cut"), "{text}");
        assert!(text.lines().all(|line| line.len() < 120), "{text}");
    }

    #[test]
    fn long_waits_are_said_to_be_seen_less() {
        let text = lines(&facts(0, 100e6));
        assert!(text.contains("which 80% of those as long as p99"), "{text}");
        let text = lines(&facts(3, 5e6));
        assert!(text.contains("3 were cut after half a slice"), "{text}");
    }
}
