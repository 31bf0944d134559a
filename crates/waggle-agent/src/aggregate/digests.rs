//! What was captured, summed by digest.
//!
//! One fingerprint, one hash and one look-up a statement; nothing is allocated unless the digest
//! is new. The table is bounded: while it is full, statements of new digests are summed as one
//! (`other`), and at the end of an interval digests that were idle make room (`retired`).
//! Invariant: statements counted = digests + other + retired.

use std::sync::Arc;

use waggle_digest::{DigestId, Fingerprinter, carries_secret, digest_id, hash64};

use super::redact;
use super::session_time::Split;
use super::sums::Sums;
use super::table::Places;
use crate::source::Summed;
use crate::statement::{Statement, Text};
use crate::view::DigestView;

/// Longest fingerprint kept, bytes.
const FINGERPRINT_BYTES_MAX: usize = 4096;
/// A digest makes room, if room is needed, after it was idle for so long, ns.
const IDLE_NS: u64 = 60_000_000_000;
/// Room is needed when less than this share of the table is free.
const FREE_SHARE: usize = 8;

/// What a digest is called.
#[derive(Debug, Clone)]
pub(super) struct Digest {
    /// Hash of the fingerprint.
    pub(super) key: u64,
    /// Percona's id.
    pub(super) id: DigestId,
    /// The same as text.
    pub(super) id_text: Arc<str>,
    /// Without literals; cut at 4 KiB.
    pub(super) fingerprint: Arc<str>,
    /// OpenTelemetry's query summary.
    summary: Arc<str>,
    database: Arc<str>,
    user: Arc<str>,
    /// First and last end, monotonic, ns.
    seen_ns: (u64, u64),
    sums: Sums,
}

/// What tells one statement's digest.
enum Shape<'a> {
    Fingerprint(&'a [u8]),
    None(&'static str),
}

/// All digests of one server.
#[derive(Debug)]
pub(super) struct Digests {
    bound: usize,
    fingerprinter: Fingerprinter,
    places: Places,
    digests: Vec<Digest>,
    other: Digest,
    retired: Digest,
    /// Texts are not looked at, to save time.
    pub(super) text_shed: bool,
}

impl Digests {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            fingerprinter: Fingerprinter::new(),
            places: Places::default(),
            digests: Vec::new(),
            other: named("other", 0),
            retired: named("retired", 0),
            text_shed: false,
        }
    }

    /// Counts one statement and returns its digest, `other` beyond the bound.
    #[inline]
    pub(super) fn record(&mut self, statement: &Statement<'_>, split: &Split) -> &Digest {
        let place = self.place(statement);
        let digest = match place {
            Some(place) => &mut self.digests[place],
            None => &mut self.other,
        };
        digest.seen_ns.1 = digest.seen_ns.1.max(statement.end_ns);
        digest.sums.record(statement, split);
        digest
    }

    /// Counts statements of which only the sums are known.
    pub(super) fn record_summed(&mut self, summed: &Summed<'_>, split: &Split) {
        let place = self.place(&summed.statement);
        let digest = match place {
            Some(place) => &mut self.digests[place],
            None => &mut self.other,
        };
        digest.seen_ns.1 = digest.seen_ns.1.max(summed.statement.end_ns);
        digest.sums.record_summed(summed, split);
    }

    /// True if `digest` is the sum of those beyond the bound.
    pub(super) fn is_other(digest: &Digest) -> bool {
        digest.key == 0 && &*digest.id_text == "other"
    }

    /// The fingerprint and id of a statement that has no digest of its own.
    pub(super) fn identify(&mut self, text: &[u8]) -> (DigestId, String) {
        let fingerprint = self.fingerprinter.fingerprint(text);
        match redact::hidden(text, fingerprint, true) {
            Some(hidden) => (digest_id(&hidden), redact::printable(&hidden)),
            None => (digest_id(fingerprint), redact::printable(fingerprint)),
        }
    }

    #[inline]
    fn place(&mut self, statement: &Statement<'_>) -> Option<usize> {
        let Self {
            fingerprinter,
            places,
            ..
        } = self;
        let shape = match statement.text {
            _ if self.text_shed => Shape::None("(text shed)"),
            Text::Whole {
                sql,
                truncated: false,
            }
            | Text::Normalised(sql) => Shape::Fingerprint(fingerprinter.fingerprint(sql)),
            Text::Whole { sql, .. } => {
                Shape::Fingerprint(fingerprinter.fingerprint_truncated(sql).text)
            }
            Text::Unknown => Shape::None("(no text)"),
        };
        let fingerprint = match shape {
            Shape::Fingerprint([]) => b"(no text)",
            Shape::Fingerprint(fingerprint) => fingerprint,
            Shape::None(name) => name.as_bytes(),
        };
        let key = hash64(fingerprint);
        if let Some(place) = places.get(&key) {
            return Some(*place);
        }
        let text = match statement.text {
            Text::Whole { sql, .. } if !self.text_shed => sql,
            _ => b"",
        };
        let has_error = statement.work.error.unwrap_or(0) != 0;
        let new = Name {
            text,
            shown: redact::hidden(text, fingerprint, has_error),
            fingerprint,
            key,
        };
        new.place(self.bound, &mut self.places, &mut self.digests, statement)
    }

    /// Makes room, if it is short, by summing idle digests as `retired`. Call it directly after a
    /// view was taken, never before.
    pub(super) fn make_room(&mut self, now_ns: u64) {
        if self.digests.len() + self.bound / FREE_SHARE <= self.bound {
            return;
        }
        let mut kept = Vec::with_capacity(self.digests.len());
        for digest in self.digests.drain(..) {
            if now_ns.saturating_sub(digest.seen_ns.1) < IDLE_NS {
                kept.push(digest);
            } else {
                self.retired.sums.merge(&digest.sums);
                self.retired.seen_ns.1 = self.retired.seen_ns.1.max(digest.seen_ns.1);
            }
        }
        self.digests = kept;
        let places = self.digests.iter().enumerate();
        self.places = places.map(|(place, d)| (d.key, place)).collect();
    }

    /// Statements of digests beyond the bound.
    pub(super) fn beyond_bound(&self) -> u64 {
        self.other.sums.latency.count()
    }

    /// Every digest, most time first.
    pub(super) fn view(&self, to_us: impl Fn(u64) -> u64) -> Vec<DigestView> {
        let mut ranked: Vec<&Digest> = self.digests.iter().collect();
        ranked.sort_by_key(|d| {
            let latency = &d.sums.latency;
            std::cmp::Reverse((latency.sum_ns(), latency.count()))
        });
        ranked.into_iter().map(|d| d.view(&to_us)).collect()
    }

    /// `other` and `retired`, if there are any.
    pub(super) fn rest(&self, to_us: impl Fn(u64) -> u64) -> [Option<DigestView>; 2] {
        [&self.other, &self.retired]
            .map(|rest| (rest.sums.latency.count() > 0).then(|| rest.view(&to_us)))
    }
}

/// A digest that is not in the table yet.
struct Name<'a> {
    text: &'a [u8],
    fingerprint: &'a [u8],
    key: u64,
    /// What to show instead of the fingerprint, if it must not be shown.
    shown: Option<Vec<u8>>,
}

impl Name<'_> {
    /// Finds or makes its place. Under its own key a hidden statement is never found, so that
    /// nothing of it is kept: it is looked up by what is shown.
    #[cold]
    fn place(
        self,
        bound: usize,
        places: &mut Places,
        digests: &mut Vec<Digest>,
        statement: &Statement<'_>,
    ) -> Option<usize> {
        let (fingerprint, key) = match &self.shown {
            None => (self.fingerprint, self.key),
            Some(shown) => (&shown[..], hash64(shown)),
        };
        if let Some(place) = places.get(&key) {
            return Some(*place);
        }
        if digests.len() >= bound {
            return None;
        }
        let id = digest_id(fingerprint);
        let kept = &fingerprint[..fingerprint.len().min(FINGERPRINT_BYTES_MAX)];
        // Of the text, which has names as they were written; unless its quotes are in doubt.
        let mut summary = String::new();
        let is_plain = !self.text.contains(&b'\\') && !carries_secret(self.text);
        let whole = is_plain && !self.text.is_empty();
        waggle_digest::summary(if whole { self.text } else { kept }, &mut summary);
        digests.push(Digest {
            summary: redact::printable(summary.as_bytes()).into(),
            id,
            id_text: id.to_string().into(),
            fingerprint: redact::printable(kept).into(),
            database: redact::printable_name(statement.database).into(),
            user: redact::printable_name(statement.user).into(),
            seen_ns: (statement.end_ns, statement.end_ns),
            ..named("", key)
        });
        places.insert(key, digests.len() - 1);
        Some(digests.len() - 1)
    }
}

fn named(name: &str, key: u64) -> Digest {
    Digest {
        key,
        id: DigestId(0),
        id_text: name.into(),
        fingerprint: name.into(),
        summary: "".into(),
        database: "".into(),
        user: "".into(),
        seen_ns: (0, 0),
        sums: Sums::default(),
    }
}

impl Digest {
    fn view(&self, to_us: &impl Fn(u64) -> u64) -> DigestView {
        let mut view = self.sums.view();
        view.key = self.key;
        view.digest = Arc::clone(&self.id_text);
        view.fingerprint = Arc::clone(&self.fingerprint);
        view.summary = Arc::clone(&self.summary);
        view.database = Arc::clone(&self.database);
        view.user = Arc::clone(&self.user);
        view.seen_us = (to_us(self.seen_ns.0), to_us(self.seen_ns.1));
        view
    }
}
