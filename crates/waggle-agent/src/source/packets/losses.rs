//! What was not seen, by cause, until it is told.

use crate::source::Observation;

/// Why statements were not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Packets did not reach the source.
    Dropped,
    /// The connection is encrypted.
    Tls,
    /// The connection closed before the answer.
    NoAnswer,
    /// The bytes are none that this decoder knows.
    NotUnderstood,
    /// The connection was forgotten for want of room.
    Evicted,
}

impl Cause {
    const ALL: [Cause; 5] = [
        Cause::Dropped,
        Cause::Tls,
        Cause::NoAnswer,
        Cause::NotUnderstood,
        Cause::Evicted,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Cause::Dropped => "packets_dropped",
            Cause::Tls => "tls",
            Cause::NoAnswer => "no_answer",
            Cause::NotUnderstood => "not_understood",
            Cause::Evicted => "connection_evicted",
        }
    }
}

/// Statements not seen and not told yet.
#[derive(Debug, Default)]
pub(super) struct Losses([u64; Cause::ALL.len()]);

impl Losses {
    pub(super) fn add(&mut self, cause: Cause, count: u64) {
        self.0[cause as usize] += count;
    }

    /// Tells what there is to tell; gives how many observations that took.
    pub(super) fn tell(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> usize {
        let mut told = 0;
        for cause in Cause::ALL {
            let count = std::mem::take(&mut self.0[cause as usize]);
            if count > 0 {
                let cause = cause.name();
                each(Observation::Lost { cause, count });
                told += 1;
            }
        }
        told
    }
}
