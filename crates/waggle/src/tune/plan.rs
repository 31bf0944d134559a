//! Everything `waggle tune` was asked to do, checked: what is tuned, by which measure, for how
//! long.
//!
//! Neighbours: `args` makes it, `engine` carries it out. Invariant: a plan is complete; what can
//! still be refused is what only the server knows.

use std::path::PathBuf;
use std::time::Duration;

use waggle_stats::tune::{Guard, Kind, Space};

use super::subject::Setup;

/// Variables that are tuned together.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// Its name in reports.
    pub(super) name: String,
    /// What is tried.
    pub(super) space: Space,
    /// Its variables that are changed by a restart even if they could be set in place.
    pub(super) restart: Vec<String>,
}

/// What to tune, and how.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The run's name.
    pub(super) name: String,
    /// What the run answers, a sentence.
    pub(super) question: String,
    /// The server and its load.
    pub(super) setup: Setup,
    /// What must not get worse.
    pub(super) guards: Vec<Guard>,
    /// What is tuned, one after the other.
    pub(super) stages: Vec<Stage>,
    /// How blocks are shared out.
    pub(super) kind: Kind,
    /// What differs by less than this share is the same.
    pub(super) margin: f64,
    /// Most rounds of a stage.
    pub(super) rounds: usize,
    /// The measured window of a block; `None`: by the budget.
    pub(super) block: Option<Duration>,
    /// Time for everything, the start of servers included.
    pub(super) budget: Duration,
    /// Where the run directory is made.
    pub(super) runs: PathBuf,
}

/// Guards that can be had, and by how much each may rise when nothing else is said.
pub(super) const GUARDS: [(&str, f64); 4] = [
    ("p99", 0.05),
    ("errors", 0.0),
    ("memory", 0.10),
    ("replica-lag", 0.10),
];

/// A guard as it is written: `p99`, `p99=10%` (may rise by so much), `p99<20000` (may not pass
/// 20,000 in its unit: microseconds, errors a second, bytes, seconds).
///
/// # Errors
/// What is wrong with it.
pub(super) fn guard(text: &str) -> Result<Guard, String> {
    let wrong = |why: &str| {
        Err(format!(
            "guard '{text}': {why}; write p99, p99=10% (may rise by that) or p99<20000 (its limit \
             in us), and likewise errors, memory, replica-lag"
        ))
    };
    let end = text.find(['=', '<']).unwrap_or(text.len());
    let name = text[..end].trim();
    let Some((_, tolerance)) = GUARDS.iter().find(|(known, _)| *known == name) else {
        return wrong("there is no such guard");
    };
    let mut guard = Guard {
        name: name.to_owned(),
        tolerance: *tolerance,
        limit: None,
    };
    let value = text.get(end + 1..).map(str::trim);
    match (text.as_bytes().get(end), value) {
        (None, _) => {}
        (Some(b'='), Some(value)) => {
            let (number, unit) = match value.strip_suffix('%') {
                Some(number) => (number, 100.0),
                None => (value, 1.0),
            };
            match number.trim().parse::<f64>() {
                Ok(number) if (0.0..=1e12).contains(&number) => guard.tolerance = number / unit,
                _ => return wrong("that is no share"),
            }
        }
        (_, value) => match value.and_then(waggle_stats::tune::amount) {
            Some(limit) if limit >= 0.0 => guard.limit = Some(limit),
            _ => return wrong("that is no limit"),
        },
    }
    Ok(guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_have_a_tolerance_or_a_limit() {
        let of = |text: &str| guard(text).map(|g| (g.name, g.tolerance, g.limit));
        assert_eq!(of("p99"), Ok(("p99".to_owned(), 0.05, None)));
        assert_eq!(of("p99 = 10%"), Ok(("p99".to_owned(), 0.10, None)));
        assert_eq!(of("errors=2"), Ok(("errors".to_owned(), 2.0, None)));
        let limit = Some(1024.0 * 1024.0 * 1024.0);
        assert_eq!(of("memory<1G"), Ok(("memory".to_owned(), 0.10, limit)));
        for text in ["", "p98", "p99=", "p99=-1%", "p99<", "p99<x", "=5%"] {
            assert!(guard(text).is_err(), "{text}");
        }
    }
}
