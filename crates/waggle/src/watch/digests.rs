//! What was captured, summed by digest.
//!
//! One fingerprint, one hash and one table look-up a statement; nothing is allocated unless the
//! digest is new. The table is bounded: past the bound, new digests are summed as one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use waggle_digest::{DigestId, Fingerprinter, digest_id, hash64};
use waggle_stats::compact::CompactHistogram;

/// Most digests kept apart.
const DIGESTS_MAX: usize = 2000;
/// Longest fingerprint kept, bytes.
const FINGERPRINT_BYTES_MAX: usize = 4096;

/// Sums of one digest.
#[derive(Debug, Clone)]
pub(super) struct Digest {
    pub(super) id: DigestId,
    pub(super) fingerprint: String,
    pub(super) database: String,
    pub(super) user: String,
    pub(super) errors: u64,
    pub(super) rows_sent: u64,
    pub(super) rows_examined: u64,
    pub(super) latency: CompactHistogram,
    /// Count at the last report, for rates.
    pub(super) count_before: u64,
}

/// One statement, as the agent understood it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) text: &'a [u8],
    pub(super) truncated: bool,
    pub(super) user: &'a [u8],
    pub(super) database: &'a [u8],
    pub(super) connection_id: u64,
    /// `None`: the server's start time could not be read.
    pub(super) latency_ns: Option<u64>,
    pub(super) rows_sent: u64,
    pub(super) rows_examined: u64,
    pub(super) error_number: u32,
}

/// The key is a hash already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// All digests seen.
#[derive(Default)]
pub(super) struct Digests {
    fingerprinter: Fingerprinter,
    places: HashMap<u64, usize, BuildHasherDefault<Identity>>,
    digests: Vec<Digest>,
    /// Statements of digests beyond the bound.
    pub(super) beyond_bound: u64,
}

impl Digests {
    /// Counts one statement and returns its digest; `None` beyond the bound.
    pub(super) fn record(&mut self, statement: &Statement<'_>) -> Option<&Digest> {
        let fingerprint = if statement.truncated {
            self.fingerprinter
                .fingerprint_truncated(statement.text)
                .text
        } else {
            self.fingerprinter.fingerprint(statement.text)
        };
        let key = hash64(fingerprint);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.digests.len() < DIGESTS_MAX => {
                let place = self.digests.len();
                self.digests.push(new_digest(fingerprint, statement));
                self.places.insert(key, place);
                place
            }
            None => {
                self.beyond_bound += 1;
                return None;
            }
        };
        let digest = &mut self.digests[place];
        digest.latency.record(statement.latency_ns.unwrap_or(0));
        digest.errors += u64::from(statement.error_number != 0);
        digest.rows_sent += statement.rows_sent;
        digest.rows_examined += statement.rows_examined;
        Some(digest)
    }

    /// Digests by total latency, greatest first; by count where latency is not known.
    pub(super) fn ranked(&self) -> Vec<&Digest> {
        let mut ranked: Vec<&Digest> = self.digests.iter().collect();
        ranked.sort_by_key(|d| std::cmp::Reverse((d.latency.sum_ns(), d.latency.count())));
        ranked
    }

    /// Ends an interval: rates of the next are counted from here.
    pub(super) fn end_interval(&mut self) {
        for digest in &mut self.digests {
            digest.count_before = digest.latency.count();
        }
    }
}

fn new_digest(fingerprint: &[u8], statement: &Statement<'_>) -> Digest {
    if fingerprint.is_empty() {
        return Digest {
            fingerprint: "(no text)".to_owned(),
            ..new_digest(b" ", statement)
        };
    }
    let kept = &fingerprint[..fingerprint.len().min(FINGERPRINT_BYTES_MAX)];
    Digest {
        id: digest_id(fingerprint),
        fingerprint: printable(kept),
        database: printable(statement.database),
        user: printable(statement.user),
        errors: 0,
        rows_sent: 0,
        rows_examined: 0,
        latency: CompactHistogram::default(),
        count_before: 0,
    }
}

/// Text as it can be printed: invalid UTF-8 and control characters replaced.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
