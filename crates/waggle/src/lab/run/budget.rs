//! How long a run may take, and how precise it shall be.

use std::time::{Duration, Instant};

/// Kept back for ending servers and writing the report.
const RESERVE: Duration = Duration::from_secs(6);

/// Time and precision of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    time: Duration,
    until: Option<f64>,
    is_firm: bool,
    started: Instant,
    spent_before: Duration,
}

impl Budget {
    /// Counts from now. `until`: stop once the primary ratio of every arm is known to within this
    /// share, at the latest after `time`.
    pub(crate) fn new(time: Duration, until: Option<f64>) -> Self {
        Self {
            time,
            until,
            is_firm: false,
            started: Instant::now(),
            spent_before: Duration::ZERO,
        }
    }

    /// The same, of which a run that was killed has spent so much.
    pub(crate) fn after(self, spent: Duration) -> Self {
        Self {
            spent_before: spent,
            ..self
        }
    }

    /// The same, not overrun to have the fewest pairs of servers that an interval needs.
    pub(crate) fn firm(self, is_firm: bool) -> Self {
        Self { is_firm, ..self }
    }

    /// No second pair is begun once it is spent.
    pub(crate) fn is_firm(&self) -> bool {
        self.is_firm
    }

    /// The half-width that is enough, as a share.
    pub(crate) fn until(&self) -> Option<f64> {
        self.until
    }

    /// Time spent, also by the run that is resumed.
    pub(crate) fn spent(&self) -> Duration {
        self.spent_before + self.started.elapsed()
    }

    /// Time left for measuring.
    pub(crate) fn remaining(&self) -> Duration {
        self.time
            .saturating_sub(RESERVE)
            .saturating_sub(self.spent())
    }
}
