//! Asks PERFORMANCE_SCHEMA, on a thread of its own.
//!
//! A reading asks for the sums of digests that changed since the last one, for the texts of those
//! that are not known yet, for the histograms of those with the most time, and for what runs now.
//! Neighbours: `digests` and `bars` make differences of it. Invariants: every statement begins
//! with the column `waggle_own`, which the server keeps in its digest, so that the agent's own are
//! known and counted apart; answers are bounded; a digest in a statement is hexadecimal digits.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use waggle_digest::{Fingerprinter, digest_id};
use waggle_wire::Row as SqlRow;

use super::bars::{Bar, Histograms};
use super::digests::{Digests, Figures, Grown, Key, Row};
use super::features::{Features, PerfschemaError};
use crate::sql::{Failed, Session, number, text};

/// The name that marks the agent's own statements.
pub(super) const OWN: &str = crate::sql::OWN_NAME;
/// All rows are read every so many readings; else only those that changed lately.
const ALL_ROWS_EVERY: u32 = 60;
/// Texts asked for in one statement, and histograms in one reading.
const TEXTS_AT_ONCE: usize = 500;
pub(super) const HISTOGRAMS_AT_ONCE: usize = 20;

/// The columns of [`Figures`], in its order; CPU time is the last and not everywhere.
const COLUMNS: &str = "COUNT_STAR, SUM_TIMER_WAIT, SUM_LOCK_TIME, SUM_ERRORS, SUM_WARNINGS, \
    SUM_ROWS_SENT, SUM_ROWS_EXAMINED, SUM_ROWS_AFFECTED, SUM_CREATED_TMP_TABLES, \
    SUM_CREATED_TMP_DISK_TABLES, SUM_SELECT_SCAN, SUM_SELECT_FULL_JOIN";
/// Characters that are asked for of a statement that runs.
const RUNNING_CHARS_MAX: usize = 1024;
pub(super) const DIGESTS: &str = "performance_schema.events_statements_summary_by_digest";

/// The text of a digest.
#[derive(Debug, Clone)]
pub(super) enum DigestText {
    /// Some statement of it, as the client sent it.
    Sample { sql: Arc<[u8]>, truncated: bool },
    /// What the server made of it.
    Normalised(Arc<[u8]>),
    /// The server's table was full, or the text is gone.
    Unknown,
}

/// What came of one digest since the last reading.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) database: Vec<u8>,
    pub(super) text: DigestText,
    pub(super) delta: Figures,
    pub(super) max_ps: u64,
    /// Upper ends (ns) and counts.
    pub(super) bars: Vec<(u64, u64)>,
}

/// A statement that is being carried out.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Running {
    /// Connection id.
    pub connection_id: u64,
    /// User name.
    pub user: String,
    /// The client's host.
    pub host: String,
    /// Default database.
    pub database: String,
    /// What the server says it does (`Sending data`, `Waiting for table metadata lock`).
    pub state: String,
    /// Its digest, as Percona's tools print it.
    pub digest: String,
    /// Its text without literals; of a long one the beginning.
    pub fingerprint: String,
    /// For how long so far, s; whole seconds.
    pub running_s: u64,
}

/// One reading.
#[derive(Debug)]
pub(super) enum Answer {
    Read {
        records: Vec<Record>,
        running: Vec<Running>,
        /// The agent's own statements since the last reading.
        own: u64,
        /// How long it took.
        took: Duration,
    },
    Failed(String),
}

/// Reads, and remembers what was read.
pub(super) struct Reader {
    session: Session,
    features: Features,
    digests: Digests,
    histograms: Histograms,
    /// Texts of digests; `None` for the agent's own.
    texts: HashMap<Vec<u8>, Option<DigestText>>,
    readings: u32,
    last: Option<Instant>,
    connects: u64,
}

impl Reader {
    pub(super) fn open(mut session: Session) -> Result<Self, PerfschemaError> {
        let features = Features::of(&mut session)?;
        Ok(Self {
            connects: session.connects(),
            session,
            features,
            digests: Digests::default(),
            histograms: Histograms::default(),
            texts: HashMap::new(),
            readings: 0,
            last: None,
        })
    }

    pub(super) fn features(&self) -> &Features {
        &self.features
    }

    /// One reading.
    pub(super) fn read(&mut self) -> Answer {
        let begun = Instant::now();
        let read = self.records().and_then(|(records, own)| {
            let running = self.running()?;
            Ok(Answer::Read {
                records,
                running,
                own,
                took: begun.elapsed(),
            })
        });
        read.unwrap_or_else(|error| Answer::Failed(error.to_string()))
    }

    /// What came since the last reading, and how many of the agent's own.
    fn records(&mut self) -> Result<(Vec<Record>, u64), Failed> {
        // Another connection may be to a server that was started anew: then all rows count.
        self.session.connection().map_err(Failed::NoConnection)?;
        let is_other = self.connects != self.session.connects();
        let age_s = self.last.map(|last| last.elapsed().as_secs() + 3);
        let is_all = is_other
            || self.readings.is_multiple_of(ALL_ROWS_EVERY)
            || !self.digests.has_baseline();
        let now = Instant::now();
        let rows = self.rows(age_s.filter(|_| !is_all))?;
        self.connects = self.session.connects();
        self.last = Some(now);
        self.readings = self.readings.wrapping_add(1);
        let mut grown = self.digests.take(rows, is_all);
        self.learn_texts(&grown)?;
        let mut own = 0;
        grown.retain(|one| {
            let text = one.key.1.as_ref().map(|digest| self.texts.get(digest));
            let is_own = matches!(text, Some(Some(None)));
            own += u64::from(is_own) * one.delta.count();
            !is_own
        });
        let bars = self.bars(&mut grown)?;
        let records = grown.into_iter().zip(bars).map(|(one, bars)| Record {
            text: match one.key.1.as_ref().and_then(|digest| self.texts.get(digest)) {
                Some(Some(text)) => text.clone(),
                _ => DigestText::Unknown,
            },
            database: one.key.0.unwrap_or_default(),
            delta: one.delta,
            max_ps: one.max_ps,
            bars,
        });
        let records = records.collect();
        if is_all {
            // Digests without a row have no use for their texts.
            let digests = self.digests.digests();
            self.texts
                .retain(|digest, _| digests.contains(digest.as_slice()));
        }
        Ok((records, own))
    }

    /// The rows that changed within so many seconds, or all.
    fn rows(&mut self, age_s: Option<u64>) -> Result<Vec<Row>, Failed> {
        let cpu = if self.features.has_cpu {
            "SUM_CPU_TIME"
        } else {
            "0"
        };
        let mut sql = format!(
            "SELECT 1 AS {OWN}, SCHEMA_NAME, DIGEST, FIRST_SEEN, MAX_TIMER_WAIT, {COLUMNS}, {cpu} \
             FROM {DIGESTS}"
        );
        if let Some(age_s) = age_s {
            let _ = write!(sql, " WHERE LAST_SEEN >= NOW() - INTERVAL {age_s} SECOND");
        }
        let rows = self.session.rows(&sql)?;
        Ok(rows.iter().map(row).collect())
    }

    /// Learns the texts of digests that are not known yet.
    fn learn_texts(&mut self, grown: &[Grown]) -> Result<(), Failed> {
        let mut unknown: Vec<&str> = grown
            .iter()
            .filter_map(|one| one.key.1.as_deref())
            .filter(|digest| !self.texts.contains_key(*digest))
            .filter_map(hexadecimal)
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        let sample = if self.features.has_samples {
            "QUERY_SAMPLE_TEXT"
        } else {
            "NULL"
        };
        for digests in unknown.chunks(TEXTS_AT_ONCE) {
            let rows = self.session.rows(&format!(
                "SELECT 1 AS {OWN}, DIGEST, DIGEST_TEXT, {sample} FROM {DIGESTS} \
                 WHERE DIGEST IN ('{}')",
                digests.join("','")
            ))?;
            for row in &rows {
                if let Some(digest) = row.get(1).cloned().flatten() {
                    self.texts.insert(digest, self.features.text_of(row));
                }
            }
        }
        Ok(())
    }

    /// The bars of each, in the order of `grown`: most time first.
    fn bars(&mut self, grown: &mut [Grown]) -> Result<Vec<Vec<(u64, u64)>>, Failed> {
        grown.sort_by_key(|one| std::cmp::Reverse(one.delta.latency_ps()));
        let mut all = vec![Vec::new(); grown.len()];
        if !self.features.has_histograms {
            return Ok(all);
        }
        for (at, one) in grown.iter().enumerate() {
            let digest = one.key.1.as_deref().and_then(hexadecimal);
            let (Some(digest), true) = (digest, at < HISTOGRAMS_AT_ONCE) else {
                self.histograms.forget(&one.key);
                continue;
            };
            let bars = histogram(&mut self.session, &one.key, digest)?;
            // One that was not followed and is not new counts from here on.
            let is_new = one.is_new;
            let bars = self
                .histograms
                .take(&one.key, is_new, &bars, one.delta.count());
            all[at] = bars
                .into_iter()
                .map(|(high_ps, count)| (high_ps / 1000, count))
                .collect();
        }
        Ok(all)
    }

    /// What is carried out now, but for this.
    fn running(&mut self) -> Result<Vec<Running>, Failed> {
        let rows = self.session.rows(&format!(
            "SELECT 1 AS {OWN}, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, \
             PROCESSLIST_DB, PROCESSLIST_STATE, LEFT(PROCESSLIST_INFO, {RUNNING_CHARS_MAX}), \
             PROCESSLIST_TIME \
             FROM performance_schema.threads WHERE TYPE = 'FOREGROUND' \
             AND PROCESSLIST_COMMAND IN ('Query', 'Execute') AND PROCESSLIST_INFO IS NOT NULL \
             AND PROCESSLIST_ID <> CONNECTION_ID() LIMIT 1000"
        ))?;
        let mut fingerprinter = Fingerprinter::new();
        let running = rows.iter().filter_map(|row| {
            let sql = row.get(6).and_then(Option::as_deref).unwrap_or_default();
            // The server counts characters, of which there are no more than bytes.
            let fingerprint = match sql.len() < RUNNING_CHARS_MAX {
                true => fingerprinter.fingerprint(sql),
                false => fingerprinter.fingerprint_truncated(sql).text,
            };
            Some(Running {
                digest: digest_id(fingerprint).to_string(),
                fingerprint: String::from_utf8_lossy(fingerprint).into_owned(),
                connection_id: number(row, 1)?,
                user: text(row, 2),
                host: text(row, 3),
                database: text(row, 4),
                state: text(row, 5),
                running_s: number(row, 7).unwrap_or(0),
            })
        });
        Ok(running.collect())
    }
}

fn row(row: &SqlRow) -> Row {
    let mut figures = Figures::default();
    for (at, figure) in figures.0.iter_mut().enumerate() {
        *figure = number(row, 5 + at).unwrap_or(0);
    }
    Row {
        key: (row.get(1).cloned().flatten(), row.get(2).cloned().flatten()),
        first_seen: text(row, 3),
        max_ps: number(row, 4).unwrap_or(0),
        figures,
    }
}

/// A digest as text, if it is one: 32 or 64 hexadecimal digits.
fn hexadecimal(digest: &[u8]) -> Option<&str> {
    let is_digest = (1..=64).contains(&digest.len()) && digest.iter().all(u8::is_ascii_hexdigit);
    is_digest.then(|| std::str::from_utf8(digest).ok())?
}

fn histogram(session: &mut Session, key: &Key, digest: &str) -> Result<Vec<Bar>, Failed> {
    // A name in hexadecimal needs no quoting.
    let schema = match &key.0 {
        None => "IS NULL".to_owned(),
        Some(name) => {
            name.iter()
                .fold("= CONVERT(0x".to_owned(), |mut hex, byte| {
                    let _ = write!(hex, "{byte:02x}");
                    hex
                })
                + " USING utf8mb4)"
        }
    };
    let rows = session.rows(&format!(
        "SELECT 1 AS {OWN}, BUCKET_TIMER_HIGH, COUNT_BUCKET \
         FROM performance_schema.events_statements_histogram_by_digest \
         WHERE SCHEMA_NAME {schema} AND DIGEST = '{digest}' AND COUNT_BUCKET > 0"
    ))?;
    Ok(rows
        .iter()
        .filter_map(|row| Some((number(row, 1)?, number(row, 2)?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_hostile_servers_are_survived() {
        let odd: SqlRow = vec![None, Some(vec![0xff]), Some(b"'; DROP".to_vec()), None];
        let read = row(&odd);
        assert_eq!((read.figures, read.max_ps), (Figures::default(), 0));
        assert_eq!(row(&SqlRow::new()).key, (None, None));
        assert_eq!(hexadecimal(b"'; DROP"), None);
        assert_eq!(hexadecimal(b""), None);
        assert_eq!(hexadecimal(&[b'a'; 65]), None);
        assert_eq!(hexadecimal(b"0aF9"), Some("0aF9"));
    }
}
