//! What can end a copy, and on which side.
//!
//! Everything in this crate reports through [`CopyError`]. Invariant: an error says what was being
//! done, to what, and never holds a password.

use std::fmt;

/// A lock was not had in time.
const ER_LOCK_WAIT: u16 = 1205;
/// Two transactions waited for each other, and this one was rolled back.
const ER_LOCK_DEADLOCK: u16 = 1213;

/// The two servers of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where the rows are; never written to.
    Source,
    /// Where they go.
    Target,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Source => "source",
            Side::Target => "target",
        })
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The copy does not begin.
    Refusal,
    /// It begins; this is said.
    Warning,
}

/// What a check found before anything was changed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The check's name, as its file.
    pub check: &'static str,
    /// Whether the copy may begin.
    pub severity: Severity,
    /// What is so, and what would go wrong.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.check, self.reason, self.remedy)
    }
}

/// Why a copy ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A server failed a statement or was lost.
    #[error("{side}: {doing}: {error}{}", remedy(error))]
    Server {
        /// Which one.
        side: Side,
        /// What was being done.
        doing: String,
        /// What it said; part of the message, so not its source as well.
        error: waggle_wire::Error,
    },
    /// Checks refuse the copy; nothing was changed.
    #[error("refused: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Finding>),
    /// A row that the target did not take as it is, or a table that is not what it was.
    #[error("{table}: {what}")]
    Data {
        /// The table, `schema.name`.
        table: String,
        /// What was found; names the row where one can be named.
        what: String,
    },
    /// What the target says of an earlier run cannot be followed.
    #[error("progress at the target: {0}")]
    Progress(String),
    /// A file of this machine.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done, to which file.
        doing: String,
        /// Why it failed; part of the message, so not its source as well.
        error: std::io::Error,
    },
    /// Somebody asked for the end. Progress is kept.
    #[error("stopped; the target knows how far it is")]
    Stopped,
}

impl CopyError {
    /// For `map_err` on a statement at the source.
    pub fn source(doing: impl Into<String>) -> impl FnOnce(waggle_wire::Error) -> CopyError {
        CopyError::on(Side::Source, doing)
    }

    /// For `map_err` on a statement at the target.
    pub fn target(doing: impl Into<String>) -> impl FnOnce(waggle_wire::Error) -> CopyError {
        CopyError::on(Side::Target, doing)
    }

    /// For `map_err` on a statement of either side.
    pub fn on(
        side: Side,
        doing: impl Into<String>,
    ) -> impl FnOnce(waggle_wire::Error) -> CopyError {
        move |error| CopyError::Server {
            side,
            doing: doing.into(),
            error,
        }
    }

    /// For `map_err` on a file.
    pub fn file(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> CopyError {
        move |error| CopyError::Io {
            doing: doing.into(),
            error,
        }
    }

    /// The server's error number, if a server answered.
    pub fn errno(&self) -> Option<u16> {
        match self {
            CopyError::Server { error, .. } => error.errno(),
            _ => None,
        }
    }

    /// Whether a lock was not had: others have it for too long, or the transaction was rolled back
    /// as the victim of a deadlock.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.errno(), Some(ER_LOCK_WAIT | ER_LOCK_DEADLOCK))
    }

    /// Whether the transaction was rolled back as the victim of a deadlock.
    pub(crate) fn is_deadlock(&self) -> bool {
        self.errno() == Some(ER_LOCK_DEADLOCK)
    }

    /// Whether a connection was lost: connecting anew may go on.
    pub fn is_lost(&self) -> bool {
        match self {
            CopyError::Server { error, .. } => match error {
                waggle_wire::Error::Io(_) => true,
                // Shutting down, killed, idle for too long.
                error => matches!(error.errno(), Some(1053 | 1317 | 1927 | 3169 | 4031)),
            },
            _ => false,
        }
    }
}

/// What to do about a server's error, after its words; nothing where they are enough.
fn remedy(error: &waggle_wire::Error) -> &'static str {
    /// Of MySQL and MariaDB: a file, a table or a temporary table cannot grow.
    const FULL: [u16; 6] = [3, 20, 1021, 1026, 1114, 1893];
    const PACKET: [u16; 3] = [1153, 1162, 1301];
    match error.errno() {
        Some(errno) if FULL.contains(&errno) => {
            "; make room on that server's disk, then run the same command again: it goes on where \
             it was"
        }
        Some(errno) if PACKET.contains(&errno) => {
            "; set max_allowed_packet higher there, then run the same command again"
        }
        Some(1799) => {
            "; set innodb_online_alter_log_max_size higher there, then run the same command again"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_what_to_do() {
        let full = waggle_wire::Error::Server {
            errno: 1114,
            sqlstate: *b"HY000",
            message: "The table 't' is full".into(),
        };
        let text = CopyError::target("storing rows of b.t")(full).to_string();
        assert!(text.starts_with("target: storing rows of b.t: "), "{text}");
        assert!(text.contains("make room"), "{text}");
    }
}
