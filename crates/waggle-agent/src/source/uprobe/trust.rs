//! Are the fields read from live statements what they should be?
//!
//! Offsets come from a table or from decoding; before a field is reported, what it yields is held
//! against what it can be. A field that yields nonsense is withdrawn and named.

use waggle_probes::statement::StatementEvent;
use waggle_symbols::layout::StartClock;
use waggle_symbols::{FieldName, StatementLayout};

use super::wall::WallClock;
use crate::aggregate::Clocks;

/// Statements looked at before a verdict stands.
const SAMPLE: u32 = 200;
/// Longest statement that is believed, us: a week.
const AGE_MAX_US: u64 = 7 * 86_400 * 1_000_000;
/// A start may seem this much after the end, ns: the server's is in whole us.
const SKEW_NS: u64 = 1_000_000;

/// What live statements showed of each field.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    clock: StartClock,
    wall: WallClock,
    other_clock_fits: u32,
    checked: u32,
    implausible: [u32; FieldName::ALL.len()],
    /// A bit for each field whose place is known.
    located: u64,
    /// A bit for each field that was withdrawn.
    withdrawn: u64,
}

impl Trust {
    /// Nothing checked yet.
    pub(super) fn new(layout: &StatementLayout) -> Self {
        let located = FieldName::ALL.into_iter();
        Self {
            clock: layout.start_clock,
            wall: WallClock::default(),
            located: located
                .filter(|field| layout.location(*field).is_some())
                .fold(0, |bits, field| bits | 1 << index(field)),
            other_clock_fits: 0,
            checked: 0,
            implausible: [0; FieldName::ALL.len()],
            withdrawn: 0,
        }
    }

    /// Takes in how the clocks stand, before the events that are read now.
    pub(super) fn look(&mut self, clocks: Clocks) {
        self.wall.look(clocks);
    }

    /// Holds one event against what is possible, while the sample lasts.
    pub(super) fn check(&mut self, event: &StatementEvent<'_>) {
        if self.checked == SAMPLE {
            return;
        }
        self.checked += 1;
        if !self.start_fits(event, self.clock) {
            self.implausible[index(FieldName::StartTime)] += 1;
            let other = self.other_clock();
            self.other_clock_fits += u32::from(self.start_fits(event, other));
        }
        let mut doubt = |field, plausible: bool| {
            self.implausible[index(field)] += u32::from(!plausible);
        };
        // Anyone may send anything for a statement; the server has understood what did not fail.
        let failed = event.error_number() != 0;
        doubt(FieldName::Query, failed || is_statement_text(event.text()));
        doubt(FieldName::Database, is_name(event.database()));
        doubt(FieldName::User, is_name(event.user()));
        doubt(FieldName::ConnectionId, event.connection_id() < 1 << 48);
        doubt(FieldName::RowsSent, event.rows_sent() < 1 << 48);
        doubt(FieldName::RowsExamined, event.rows_examined() < 1 << 48);
        doubt(FieldName::ErrorNumber, event.error_number() < 1 << 17);
        doubt(FieldName::Command, event.command() < 256);
        if self.checked == SAMPLE {
            self.conclude();
        }
    }

    fn conclude(&mut self) {
        let start = index(FieldName::StartTime);
        if self.implausible[start] > SAMPLE / 10 && self.other_clock_fits > SAMPLE * 9 / 10 {
            self.clock = self.other_clock();
            self.implausible[start] = 0;
        }
        for (at, implausible) in self.implausible.into_iter().enumerate() {
            self.withdrawn |= u64::from(implausible > SAMPLE / 10) << at;
        }
    }

    fn other_clock(&self) -> StartClock {
        match self.clock {
            StartClock::Realtime => StartClock::Monotonic,
            StartClock::Monotonic => StartClock::Realtime,
        }
    }

    fn start_fits(&self, event: &StatementEvent<'_>, clock: StartClock) -> bool {
        let start_us = event.start_us();
        start_us.is_none_or(|start_us| self.age_ns(start_us, event.time_ns(), clock).is_some())
    }

    /// From a start (us of `clock`) to an end (monotonic, ns), if that can be.
    fn age_ns(&self, start_us: u64, end_ns: u64, clock: StartClock) -> Option<u64> {
        let start_ns = start_us.checked_mul(1000)?;
        let age_ns = match clock {
            StartClock::Realtime => self.wall.age_ns(start_ns, end_ns)?,
            StartClock::Monotonic if start_ns > end_ns + SKEW_NS => return None,
            StartClock::Monotonic => end_ns.saturating_sub(start_ns),
        };
        (age_ns / 1000 < AGE_MAX_US).then_some(age_ns)
    }

    /// True if the place of `field` is known, and no live statements showed that it is not what it
    /// should be.
    pub(super) fn holds(&self, field: FieldName) -> bool {
        self.located & !self.withdrawn & (1 << index(field)) != 0
    }

    /// Fields withdrawn, with what was seen.
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = (FieldName, String)> + '_ {
        FieldName::ALL
            .into_iter()
            .filter(|f| self.withdrawn & (1 << index(*f)) != 0)
            .map(|field| {
                let seen = self.implausible[index(field)];
                (
                    field,
                    format!(
                        "{seen} of {} live statements had an impossible value",
                        self.checked
                    ),
                )
            })
    }

    /// How many statements were looked at.
    pub(super) fn checked(&self) -> u32 {
        self.checked
    }

    /// How long the statement took, ns, from the server's own start time (kept in whole us, so
    /// up to 1 us too long); `None` if it cannot be known.
    pub(super) fn latency_ns(&self, event: &StatementEvent<'_>) -> Option<u64> {
        if let Some(since_ns) = event.part_since_ns() {
            return event.time_ns().checked_sub(since_ns);
        }
        let start_us = event
            .start_us()
            .filter(|_| self.holds(FieldName::StartTime))?;
        self.age_ns(start_us, event.time_ns(), self.clock)
    }
}

/// Its place in [`FieldName::ALL`], which a test holds against the order of declaration.
fn index(field: FieldName) -> usize {
    field as usize
}

/// A statement begins with a printable character of ASCII or with a multi-byte one, if not empty.
fn is_statement_text(text: &[u8]) -> bool {
    text.first()
        .is_none_or(|first| first.is_ascii_graphic() || first.is_ascii_whitespace())
}

/// A name is UTF-8 without a zero; one that was cut may end within a character. Anything else may
/// be in it: whoever may create a user or a database must not take its fields from a server.
fn is_name(name: &[u8]) -> bool {
    let text = match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_place_of_its_own() {
        for (place, field) in FieldName::ALL.into_iter().enumerate() {
            assert_eq!(index(field), place, "{}", field.as_str());
        }
        assert!(FieldName::ALL.len() <= 64);
    }

    #[test]
    fn texts_and_names_that_cannot_be() {
        for text in [&b"SELECT 1"[..], b"", b"/* x */", b"\n SELECT"] {
            assert!(is_statement_text(text), "{text:?}");
        }
        assert!(!is_statement_text(b"\x00\x01"));
        assert!(is_name("käse".as_bytes()) && is_name(b"k\xc3"));
        assert!(!is_name(b"k\xc3\x28") && !is_name(b"a\x00"));
    }
}
