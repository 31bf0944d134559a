//! Which single statements are kept: slow ones, failed ones, and some drawn at random.
//!
//! Between two collections at most [`KEPT_MAX`] of each kind are held; of more, each has the same
//! chance to stay (a reservoir), and the others are counted. Invariant: no text that may carry a
//! secret is in a sample, and no text at all unless literals were asked for.

use std::time::Duration;

use waggle_digest::{TraceParent, carries_secret};

use super::digests::Digest;
use super::redact::printable_name;
use crate::sample::{Reason, Sample};
use crate::statement::{ServerId, Statement, Text};

/// Most samples of one kind between two collections.
const KEPT_MAX: usize = 256;
/// Longest text of a sample, bytes.
const TEXT_BYTES_MAX: usize = 8192;

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub struct SampleSettings {
    /// Statements at least so slow; `None`: none because of that.
    pub slower: Option<Duration>,
    /// One of so many, at random; 0: none.
    pub one_in: u32,
    /// With the statements' own text.
    pub literals: bool,
}

impl Default for SampleSettings {
    fn default() -> Self {
        Self {
            slower: Some(Duration::from_secs(1)),
            one_in: 1000,
            literals: false,
        }
    }
}

/// Chooses and holds samples of one server.
#[derive(Debug)]
pub(super) struct Sampler {
    settings: SampleSettings,
    server: ServerId,
    kept: [Vec<Sample>; 3],
    met: [u64; 3],
    /// Statements until the next random draw.
    countdown: u32,
    random: u64,
    sequence: u64,
    /// Samples that had to give way.
    pub(super) dropped: u64,
    /// Nothing is kept, to save time.
    pub(super) is_shed: bool,
}

impl Sampler {
    pub(super) fn new(settings: SampleSettings, server: ServerId, seed: u64) -> Self {
        let mut sampler = Self {
            settings,
            server,
            kept: Default::default(),
            met: [0; 3],
            countdown: 0,
            random: seed | 1,
            sequence: 0,
            dropped: 0,
            is_shed: false,
        };
        sampler.countdown = sampler.gap();
        sampler
    }

    /// xorshift64*: enough for a draw.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Statements to the next draw: uniform, one in `one_in` on average, so that a load with a
    /// period is not sampled at always the same place of it.
    fn gap(&mut self) -> u32 {
        let one_in = u64::from(self.settings.one_in);
        if one_in == 0 {
            return u32::MAX;
        }
        u32::try_from(1 + self.next_random() % (2 * one_in - 1)).unwrap_or(u32::MAX)
    }

    /// Why this statement is kept, if it is.
    #[inline]
    pub(super) fn reason(&mut self, statement: &Statement<'_>) -> Option<Reason> {
        if self.is_shed {
            return None;
        }
        self.countdown -= 1;
        let drawn = self.countdown == 0;
        if drawn {
            let gap = self.gap();
            self.countdown = gap;
        }
        if statement.work.error.unwrap_or(0) != 0 {
            return Some(Reason::Failed);
        }
        let slow = self.settings.slower.zip(statement.latency_ns);
        if slow.is_some_and(|(slower, ns)| u128::from(ns) >= slower.as_nanos()) {
            return Some(Reason::Slow);
        }
        (drawn && self.settings.one_in > 0).then_some(Reason::Random)
    }

    /// Keeps a statement, perhaps in the place of another of its kind.
    #[cold]
    pub(super) fn keep(
        &mut self,
        reason: Reason,
        statement: &Statement<'_>,
        digest: &Digest,
        time_us: u64,
    ) {
        let kind = reason as usize;
        self.met[kind] += 1;
        let place = if self.kept[kind].len() < KEPT_MAX {
            self.kept[kind].len()
        } else {
            self.dropped += 1;
            let met = self.met[kind];
            usize::try_from(self.next_random() % met).unwrap_or(usize::MAX)
        };
        if place >= KEPT_MAX {
            return;
        }
        self.sequence += 1;
        let sample = self.sample(reason, statement, digest, time_us);
        match self.kept[kind].get_mut(place) {
            Some(former) => *former = sample,
            None => self.kept[kind].push(sample),
        }
    }

    fn sample(
        &self,
        reason: Reason,
        statement: &Statement<'_>,
        digest: &Digest,
        time_us: u64,
    ) -> Sample {
        let us = |ns: u64| ns as f64 / 1e3;
        let sql = match statement.text {
            Text::Whole { sql, .. } => sql,
            _ => b"",
        };
        let may_show = !sql.is_empty() && !carries_secret(sql);
        let shown = (may_show && self.settings.literals).then_some(sql);
        let mut comments = waggle_digest::comments(sql);
        // Where the trace goes on is no secret, in the one form that it has.
        comments.retain(|(key, value)| {
            may_show || key == "traceparent" && TraceParent::parse(value).is_some()
        });
        let times = statement.times.as_ref();
        Sample {
            sequence: self.sequence,
            server: self.server,
            reason,
            time_us,
            digest: digest.id_text.clone(),
            fingerprint: digest.fingerprint.clone(),
            text: shown.map(|sql| {
                String::from_utf8_lossy(&sql[..sql.len().min(TEXT_BYTES_MAX)]).into_owned()
            }),
            comments,
            user: printable_name(statement.user).into(),
            host: printable_name(statement.host).into(),
            database: printable_name(statement.database).into(),
            connection_id: statement.connection_id,
            origin: statement.origin,
            latency_us: statement.latency_ns.map(us),
            cpu_us: times.map(|t| us(t.cpu_ns)),
            runnable_us: times.map(|t| us(t.runnable_ns)),
            blocked_us: times.map(|t| t.blocked_ns.map(us)),
            work: statement.work,
        }
    }

    /// Takes what was kept, in the order it happened.
    pub(super) fn take(&mut self) -> Vec<Sample> {
        self.met = [0; 3];
        let mut samples: Vec<Sample> = self.kept.iter_mut().flat_map(std::mem::take).collect();
        samples.sort_by_key(|sample| sample.sequence);
        samples
    }
}
