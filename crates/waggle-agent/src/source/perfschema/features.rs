//! What can this server's PERFORMANCE_SCHEMA tell, and why can it not tell more?
//!
//! Asked once, before the first reading. Neighbours: `reader` asks for what there is. Invariant: a
//! refusal says what to try, and nothing on the server is changed.

use std::sync::Arc;

use waggle_wire::Row as SqlRow;

use super::digests::KEYS_MAX;
use super::reader::{DIGESTS, DigestText, HISTOGRAMS_AT_ONCE, OWN};
use crate::sql::{Failed, Session, number, text};

/// The agent's statements that take no name: they ask for the state of replication. Others that
/// ask for it have the same digest, and count as the agent's.
const UNMARKED: [&str; 3] = [
    "SHOW REPLICA STATUS",
    "SHOW SLAVE STATUS",
    "SHOW ALL SLAVES STATUS",
];
/// Longest text that is kept of a digest.
const TEXT_BYTES_MAX: usize = 1024;

/// Why a server's PERFORMANCE_SCHEMA cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PerfschemaError {
    /// The server does not answer.
    #[error("cannot ask the server for its PERFORMANCE_SCHEMA: {0}")]
    Server(String),
    /// It was not switched on when the server started.
    #[error(
        "performance_schema is OFF on this server, and only a restart with performance_schema=ON \
         turns it on; waggle changes no settings. Try --source uprobe (needs root, no restart), \
         packets or slowlog"
    )]
    Off,
    /// Statements are not summed by digest.
    #[error(
        "this server's PERFORMANCE_SCHEMA does not sum statements by digest ({0}); waggle changes \
         no settings"
    )]
    NoDigests(String),
    /// The account may not read it.
    #[error(
        "this account may not read PERFORMANCE_SCHEMA ({0}); \
         GRANT SELECT ON performance_schema.* TO it, or try --source uprobe"
    )]
    Denied(String),
    /// The reading thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// What this server can do.
#[derive(Debug, Clone, Default)]
pub(super) struct Features {
    pub(super) has_cpu: bool,
    pub(super) counts_cpu: bool,
    pub(super) has_samples: bool,
    pub(super) has_histograms: bool,
    sample_bytes_max: usize,
    digests_size: u64,
    statements_off: u64,
}

impl Features {
    /// What this server does not tell, and why.
    pub(super) fn missing(&self) -> Vec<(String, String)> {
        let features = self;
        let mut missing = Vec::new();
        let mut say = |what: &str, why: String| missing.push((what.to_owned(), why));
        if !features.has_cpu {
            say("cpu", "this server does not count it by digest".into());
        } else if !features.counts_cpu {
            say("cpu", "the consumer events_statements_cpu is off".into());
        }
        if !features.has_histograms {
            say(
                "latency quantiles",
                "this server keeps no histograms of digests".into(),
            );
        } else {
            let why =
                format!("only of the {HISTOGRAMS_AT_ONCE} digests with the most time a reading");
            say("latency quantiles", why);
        }
        if !features.has_samples {
            let why = "this server keeps no example, so that ids are made of its normalised texts \
                       and differ from those of other sources";
            say("digest ids", why.into());
        }
        if features.statements_off > 0 {
            let why = format!("{} kinds are not instrumented", features.statements_off);
            say("statements", why);
        }
        if features.digests_size > KEYS_MAX as u64 {
            let why = format!("only the first {KEYS_MAX} digests are followed");
            say("digests", why);
        }
        missing
    }

    pub(super) fn of(session: &mut Session) -> Result<Self, PerfschemaError> {
        let server = PerfschemaError::Server;
        session.connection().map_err(server)?;
        let is_on = session.rows(&format!("SELECT 1 AS {OWN}, @@performance_schema"));
        let is_on = is_on.map_err(|error| server(error.to_string()))?;
        if is_on.first().and_then(|row| number(row, 1)) != Some(1) {
            return Err(PerfschemaError::Off);
        }
        let mut ask = |sql: &str| session.rows(sql).map_err(refusal);
        let consumers = ask(&format!(
            "SELECT 1 AS {OWN}, NAME, ENABLED FROM performance_schema.setup_consumers"
        ))?;
        let is_enabled = |name: &str| {
            let row = consumers.iter().find(|row| text(row, 1) == name);
            row.is_some_and(|row| text(row, 2) == "YES")
        };
        for name in ["global_instrumentation", "statements_digest"] {
            if !is_enabled(name) {
                return Err(PerfschemaError::NoDigests(format!(
                    "the consumer {name} is off"
                )));
            }
        }
        let variables = ask(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('performance_schema_digests_size', \
             'performance_schema_max_sql_text_length')",
        )?;
        let variable = |name: &str| {
            let row = variables.iter().find(|row| text(row, 0) == name);
            row.and_then(|row| number(row, 1)).unwrap_or(0)
        };
        let digests_size = variable("performance_schema_digests_size");
        if digests_size == 0 {
            let why = "performance_schema_digests_size is 0";
            return Err(PerfschemaError::NoDigests(why.into()));
        }
        let columns = ask(&format!(
            "SELECT 1 AS {OWN}, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA = 'performance_schema' AND TABLE_NAME IN \
             ('events_statements_summary_by_digest', 'events_statements_histogram_by_digest')"
        ))?;
        let has = |name: &str| columns.iter().any(|row| text(row, 2) == name);
        let off = ask(&format!(
            "SELECT 1 AS {OWN}, COUNT(*) FROM performance_schema.setup_instruments \
             WHERE NAME LIKE 'statement/sql/%' AND (ENABLED = 'NO' OR TIMED = 'NO')"
        ))?;
        // Readable at all? A grant may be missing on this table alone.
        ask(&format!(
            "SELECT 1 AS {OWN}, COUNT_STAR FROM {DIGESTS} LIMIT 1"
        ))?;
        let sample_bytes = variable("performance_schema_max_sql_text_length");
        Ok(Self {
            has_cpu: has("SUM_CPU_TIME"),
            counts_cpu: has("SUM_CPU_TIME") && is_enabled("events_statements_cpu"),
            has_samples: has("QUERY_SAMPLE_TEXT") && sample_bytes > 0,
            has_histograms: has("BUCKET_TIMER_HIGH"),
            sample_bytes_max: usize::try_from(sample_bytes).unwrap_or(usize::MAX),
            digests_size,
            statements_off: off.first().and_then(|row| number(row, 1)).unwrap_or(0),
        })
    }

    /// The text in a row of digest, normalised text and sample; `None` for the agent's own.
    pub(super) fn text_of(&self, row: &SqlRow) -> Option<DigestText> {
        let column = |at: usize| row.get(at).and_then(Option::as_deref);
        let normalised = column(2).unwrap_or_default();
        let is_marked = normalised
            .windows(OWN.len())
            .any(|window| window == OWN.as_bytes());
        if is_marked
            || UNMARKED
                .iter()
                .any(|own| own.as_bytes() == normalised.trim_ascii())
        {
            return None;
        }
        let cut = |text: &[u8]| Arc::from(&text[..text.len().min(TEXT_BYTES_MAX)]);
        Some(match column(3).filter(|sample| !sample.is_empty()) {
            Some(sample) => DigestText::Sample {
                truncated: sample.len() > TEXT_BYTES_MAX || self.is_cut(sample),
                sql: cut(sample
                    .strip_suffix(b"...")
                    .filter(|_| self.is_cut(sample))
                    .unwrap_or(sample)),
            },
            None if normalised.is_empty() => DigestText::Unknown,
            None => DigestText::Normalised(cut(normalised)),
        })
    }

    /// The server cut a sample at its limit; it may mark that with dots.
    fn is_cut(&self, sample: &[u8]) -> bool {
        // A character at the limit is left out whole.
        sample.len() + 4 >= self.sample_bytes_max
    }
}

/// A failure of one of the first questions.
fn refusal(error: Failed) -> PerfschemaError {
    const DENIED: [u16; 4] = [1044, 1142, 1143, 1227];
    match error.errno() {
        Some(number) if DENIED.contains(&number) => PerfschemaError::Denied(error.to_string()),
        _ => PerfschemaError::Server(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_digests() {
        let features = Features {
            sample_bytes_max: 20,
            ..Features::default()
        };
        let of = |normalised: &[u8], sample: Option<&[u8]>| {
            let row = vec![
                None,
                None,
                Some(normalised.to_vec()),
                sample.map(<[u8]>::to_vec),
            ];
            features.text_of(&row)
        };
        assert!(of(b"SELECT ? AS `waggle_own` , `a`", Some(b"x")).is_none());
        assert!(of(b"SHOW REPLICA STATUS", Some(b"SHOW REPLICA STATUS")).is_none());
        let Some(DigestText::Sample { sql, truncated }) = of(b"SELECT ?", Some(b"SELECT 1")) else {
            panic!()
        };
        assert_eq!((&*sql, truncated), (&b"SELECT 1"[..], false));
        let cut = of(b"SELECT ?", Some(b"SELECT 12345678901..."));
        let Some(DigestText::Sample { sql, truncated }) = cut else {
            panic!()
        };
        assert_eq!((&*sql, truncated), (&b"SELECT 12345678901"[..], true));
        assert!(matches!(
            of(b"SELECT ?", None),
            Some(DigestText::Normalised(_))
        ));
        assert!(matches!(of(b"", None), Some(DigestText::Unknown)));
    }
}
