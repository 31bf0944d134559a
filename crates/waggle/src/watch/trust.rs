//! Are the fields read from live statements what they should be?
//!
//! Offsets come from a table or from decoding; before a field is reported, what it yields is held
//! against what it can be. A field that yields nonsense is withdrawn and named.

use waggle_probes::statement::StatementEvent;
use waggle_symbols::FieldName;
use waggle_symbols::layout::StartClock;

/// Statements looked at before a verdict stands.
const SAMPLE: u32 = 200;
/// Longest statement that is believed, us: a week.
const AGE_MAX_US: u64 = 7 * 86_400 * 1_000_000;

/// The two clocks a server may take its start time from, us, at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    pub(super) monotonic_ns: u64,
    pub(super) realtime_ns: u64,
}

impl Clocks {
    /// Reads both clocks.
    pub(super) fn now() -> Self {
        Self {
            monotonic_ns: clock_ns(libc::CLOCK_MONOTONIC),
            realtime_ns: clock_ns(libc::CLOCK_REALTIME),
        }
    }

    /// `time_ns` of the monotonic clock as wall-clock time, us since 1970.
    pub(super) fn realtime_us(self, time_ns: u64) -> u64 {
        self.on(StartClock::Realtime, time_ns) / 1000
    }

    /// `time_ns` of the monotonic clock on `clock`, ns.
    fn on(self, clock: StartClock, time_ns: u64) -> u64 {
        match clock {
            StartClock::Monotonic => time_ns,
            StartClock::Realtime => (self.realtime_ns + time_ns).saturating_sub(self.monotonic_ns),
        }
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// What live statements showed of each field.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    clock: StartClock,
    other_clock_fits: u32,
    checked: u32,
    implausible: [u32; FieldName::ALL.len()],
    withdrawn: [bool; FieldName::ALL.len()],
}

impl Trust {
    /// Nothing checked yet; `clock` is what this kind of server uses.
    pub(super) fn new(clock: StartClock) -> Self {
        Self {
            clock,
            other_clock_fits: 0,
            checked: 0,
            implausible: [0; FieldName::ALL.len()],
            withdrawn: [false; FieldName::ALL.len()],
        }
    }

    /// Holds one event against what is possible, while the sample lasts.
    pub(super) fn check(&mut self, event: &StatementEvent<'_>, clocks: Clocks) {
        if self.checked == SAMPLE {
            return;
        }
        self.checked += 1;
        if !self.start_fits(event, self.clock, clocks) {
            self.implausible[index(FieldName::StartTime)] += 1;
            let other = self.other_clock();
            self.other_clock_fits += u32::from(self.start_fits(event, other, clocks));
        }
        let mut doubt = |field, plausible: bool| {
            self.implausible[index(field)] += u32::from(!plausible);
        };
        doubt(FieldName::Query, is_statement_text(event.text()));
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
        for (withdrawn, implausible) in self.withdrawn.iter_mut().zip(self.implausible) {
            *withdrawn = implausible > SAMPLE / 10;
        }
    }

    fn other_clock(&self) -> StartClock {
        match self.clock {
            StartClock::Realtime => StartClock::Monotonic,
            StartClock::Monotonic => StartClock::Realtime,
        }
    }

    fn start_fits(&self, event: &StatementEvent<'_>, clock: StartClock, clocks: Clocks) -> bool {
        let Some(start_us) = event.start_us() else {
            return true;
        };
        let end_us = clocks.on(clock, event.time_ns()) / 1000;
        start_us <= end_us + 1000 && end_us.saturating_sub(start_us) < AGE_MAX_US
    }

    /// True unless live statements showed that `field` is not what it should be.
    pub(super) fn holds(&self, field: FieldName) -> bool {
        !self.withdrawn[index(field)]
    }

    /// Fields withdrawn, with what was seen.
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = (FieldName, String)> + '_ {
        FieldName::ALL
            .into_iter()
            .filter(|f| !self.holds(*f))
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
    pub(super) fn latency_ns(&self, event: &StatementEvent<'_>, clocks: Clocks) -> Option<u64> {
        let start_us = event
            .start_us()
            .filter(|_| self.holds(FieldName::StartTime))?;
        let end_ns = clocks.on(self.clock, event.time_ns());
        let latency = end_ns.saturating_sub(start_us.saturating_mul(1000));
        (latency / 1000 < AGE_MAX_US).then_some(latency)
    }
}

fn index(field: FieldName) -> usize {
    FieldName::ALL.iter().position(|f| *f == field).unwrap_or(0)
}

/// A statement begins with a printable character of ASCII or with a multi-byte one, if not empty.
fn is_statement_text(text: &[u8]) -> bool {
    text.first()
        .is_none_or(|first| first.is_ascii_graphic() || first.is_ascii_whitespace())
}

/// A name is UTF-8 without control characters; one that was cut may end within a character.
fn is_name(name: &[u8]) -> bool {
    let text = match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.chars().any(char::is_control)
}
