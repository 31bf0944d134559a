//! Who is told of every captured statement, and what may it see?
//!
//! Neighbours: the aggregate tells; a log of all statements and the watch over locks hear.
//!
//! Invariant: a text that may carry a secret is not shown; its fingerprint stands for it.

use std::borrow::Cow;
use std::sync::Arc;

use waggle_digest::{DigestId, carries_secret};

use super::{Aggregate, Clocks};
use crate::locks::LockWatch;
use crate::statement::{ServerId, Statement, Text};

/// Is shown every captured statement, such as a log of all statements.
pub trait Tap {
    /// One statement; called in the order they ended.
    fn statement(&mut self, seen: &Seen<'_>);
}

/// One captured statement, as a [`Tap`] may see it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Which server.
    pub server: ServerId,
    /// Its process.
    pub pid: u32,
    /// Its end, us since 1970.
    pub time_us: u64,
    /// Percona's id.
    pub digest: DigestId,
    /// The statement; its text may carry a secret: show [`text`](Self::text).
    pub statement: &'a Statement<'a>,
    /// The text, or the fingerprint if the text may carry a secret or is not known.
    pub text: Cow<'a, str>,
    /// The text is the fingerprint.
    pub redacted: bool,
}

/// Who else is told of every statement.
#[derive(Default)]
pub struct Hearers<'a, 'tap> {
    /// Is shown every statement.
    pub tap: Option<&'a mut (dyn Tap + 'tap)>,
    /// Learns of sessions by the ends of their statements.
    pub locks: Option<&'a mut LockWatch>,
}

impl Aggregate {
    /// Shows `tap` a statement; its digest is told if it is `known`.
    #[cold]
    pub(super) fn show(
        &mut self,
        statement: &Statement<'_>,
        clocks: Clocks,
        known: Option<(DigestId, Arc<str>)>,
        tap: &mut (dyn Tap + '_),
    ) {
        let sql = match statement.text {
            Text::Whole { sql, .. } => sql,
            _ => b"",
        };
        let (digest, fingerprint) = match known {
            Some((id, fingerprint)) => (id, fingerprint.to_string()),
            None => self.digests.identify(sql),
        };
        let redacted = carries_secret(sql) || !matches!(statement.text, Text::Whole { .. });
        tap.statement(&Seen {
            server: self.server,
            pid: self.pid,
            time_us: clocks.realtime_us(statement.end_ns),
            digest,
            statement,
            text: if redacted {
                fingerprint.into()
            } else {
                String::from_utf8_lossy(sql)
            },
            redacted,
        });
    }
}
