//! Every captured statement as a line of JSON: `--log FILE`.
//!
//! Invariant: a statement that may carry a password is written as its fingerprint, without
//! literals.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use waggle_agent::aggregate::{Seen, Tap};
use waggle_agent::statement::Text;

/// One line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// End of the statement, us since 1970.
    time_us: u64,
    server: u32,
    connection: Option<u64>,
    user: std::borrow::Cow<'a, str>,
    database: std::borrow::Cow<'a, str>,
    digest: String,
    latency_us: Option<f64>,
    rows_sent: Option<u64>,
    rows_examined: Option<u64>,
    error: Option<u32>,
    truncated: bool,
    redacted: bool,
    text: &'a str,
}

/// Where statements are written, and which.
#[derive(Debug)]
pub(super) struct StatementLog {
    path: PathBuf,
    out: BufWriter<File>,
    slower: Option<Duration>,
    failed: Option<io::Error>,
    /// Statements written.
    written: u64,
    /// Statements that could not be written.
    lost: u64,
}

impl StatementLog {
    /// Creates or empties `path`; only statements at least as slow as `slower`, and failed ones,
    /// are written, or all.
    pub(super) fn create(path: &Path, slower: Option<Duration>) -> anyhow::Result<Self> {
        let file = waggle_files::create(path)
            .with_context(|| format!("cannot write the statement log {}", path.display()))?;
        Ok(Self {
            path: path.to_path_buf(),
            out: BufWriter::with_capacity(1 << 16, file),
            slower,
            failed: None,
            written: 0,
            lost: 0,
        })
    }

    /// Hands what is buffered to the system.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            self.failed.get_or_insert(error);
        }
    }

    /// The first failure, as an error for the user.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.failed.take() {
            None => Ok(()),
            Some(error) => Err(error).with_context(|| {
                format!(
                    "writing the statement log {}: {} statements are in it, {} are not",
                    self.path.display(),
                    self.written,
                    self.lost
                )
            }),
        }
    }
}

impl Tap for StatementLog {
    /// Writes one statement, if it is wanted.
    fn statement(&mut self, seen: &Seen<'_>) {
        let statement = seen.statement;
        let latency = statement.latency_ns.map(Duration::from_nanos);
        let wanted = self
            .slower
            .is_none_or(|slower| latency.is_some_and(|l| l >= slower))
            || statement.work.error.unwrap_or(0) != 0;
        if !wanted {
            return;
        }
        if self.failed.is_some() {
            self.lost += 1;
            return;
        }
        let line = Line {
            time_us: seen.time_us,
            server: seen.pid,
            connection: statement.connection_id,
            user: String::from_utf8_lossy(statement.user),
            database: String::from_utf8_lossy(statement.database),
            digest: seen.digest.to_string(),
            latency_us: latency.map(|l| l.as_nanos() as f64 / 1e3),
            rows_sent: statement.work.rows_sent,
            rows_examined: statement.work.rows_examined,
            error: statement.work.error,
            truncated: matches!(
                statement.text,
                Text::Whole {
                    truncated: true,
                    ..
                }
            ),
            redacted: seen.redacted,
            text: &seen.text,
        };
        let result = serde_json::to_writer(&mut self.out, &line)
            .map_err(io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"));
        match result {
            Ok(()) => self.written += 1,
            Err(error) => {
                self.failed = Some(error);
                self.lost += 1;
            }
        }
    }
}
