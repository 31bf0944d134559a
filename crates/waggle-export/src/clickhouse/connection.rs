//! How is a statement of ours carried out by ClickHouse, and what does its refusal mean?
//!
//! Its HTTP interface: the statement in the URL or the body, user and password in headers, errors
//! by ClickHouse's own numbers, since early versions answer 500 to everything. Neighbours: `schema`
//! and `transport` ask. Invariant: a password is in no URL, no message and no `Debug` output.

use std::fmt;
use std::time::Duration;

use crate::http::{Answer, Client, encoded};

/// Where ClickHouse is, and as whom to talk to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// Its HTTP interface: `http://host:8123`, without a path.
    pub url: String,
    /// The database, which is created if need be; letters, digits and `_`.
    pub database: String,
    /// User; empty for the server's default.
    pub user: String,
    /// Password; may be empty.
    pub password: String,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("url", &self.url)
            .field("database", &self.database)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Why a statement was not carried out, or is not known to have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// For people.
    pub(crate) why: String,
    pub(crate) after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It may go better later.
    Later,
    /// A table or a column is not there.
    Schema,
    /// These rows will never be taken.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    place: Place,
}

impl Connection {
    pub(crate) fn new(place: Place, timeout: Duration) -> Self {
        Self {
            client: Client::new(timeout),
            place,
        }
    }

    pub(crate) fn database(&self) -> &str {
        &self.place.database
    }

    /// Carries out `sql` in the database; the answer as text.
    pub(crate) fn run(&self, sql: &str) -> Result<String, Failure> {
        let url = format!("{}/?database={}", self.place.url, self.place.database);
        self.post(&url, sql.as_bytes())
    }

    /// The same where the database need not be there.
    pub(crate) fn run_anywhere(&self, sql: &str) -> Result<String, Failure> {
        self.post(&format!("{}/", self.place.url), sql.as_bytes())
    }

    /// Carries out `sql` with `body` as its data, under a name that shows among its processes.
    pub(crate) fn insert(&self, sql: &str, query_id: &str, body: &[u8]) -> Result<(), Failure> {
        let url = format!(
            "{}/?database={}&query_id={}&query={}",
            self.place.url,
            self.place.database,
            encoded(query_id),
            encoded(sql),
        );
        self.post(&url, body).map(drop)
    }

    fn post(&self, url: &str, body: &[u8]) -> Result<String, Failure> {
        let mut headers = Vec::new();
        if !self.place.user.is_empty() {
            headers.push(("X-ClickHouse-User", self.place.user.as_str()));
        }
        if !self.place.password.is_empty() {
            headers.push(("X-ClickHouse-Key", self.place.password.as_str()));
        }
        match self.client.post(url, &headers, body) {
            Ok(answer) if answer.status == 200 => {
                Ok(String::from_utf8_lossy(&answer.body).into_owned())
            }
            Ok(answer) => Err(failure(&answer)),
            Err(why) => Err(Failure {
                kind: FailureKind::Later,
                why: format!("ClickHouse at {}: {why}", self.place.url),
                after: None,
            }),
        }
    }
}

fn failure(answer: &Answer) -> Failure {
    let kind = match error_number(&answer.body) {
        // No such column, identifier, table, database.
        Some(16 | 47 | 60 | 81) => FailureKind::Schema,
        // Data that cannot be parsed, is incomplete, of another type, or too large.
        Some(6 | 26 | 27 | 33 | 53 | 69 | 70 | 117 | 128 | 131) => FailureKind::Refused,
        Some(_) => FailureKind::Later,
        None if answer.status == 413 => FailureKind::Refused,
        None => FailureKind::Later,
    };
    Failure {
        kind,
        why: format!("ClickHouse answers {}: {}", answer.status, answer.said()),
        after: answer.retry_after,
    }
}

/// The number in `Code: 60, e.displayText() = ...` or `Code: 60. DB::Exception: ...`.
fn error_number(body: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(body);
    let digits = text.trim_start().strip_prefix("Code: ")?;
    let end = digits.find(|byte: char| !byte.is_ascii_digit())?;
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> FailureKind {
        failure(&Answer {
            status,
            retry_after: None,
            body: body.as_bytes().to_vec(),
        })
        .kind
    }

    #[test]
    fn refusals_of_early_and_current_versions() {
        let early = "Code: 60, e.displayText() = DB::Exception: Table a.b doesn't exist.";
        assert_eq!(kind(404, early), FailureKind::Schema);
        let current = "Code: 60. DB::Exception: Table a.b does not exist. (UNKNOWN_TABLE)";
        assert_eq!(kind(404, current), FailureKind::Schema);
        assert_eq!(
            kind(400, "Code: 27. DB::Exception: x"),
            FailureKind::Refused
        );
        assert_eq!(
            kind(500, "Code: 241. DB::Exception: memory"),
            FailureKind::Later
        );
        assert_eq!(kind(502, "<html>Bad gateway"), FailureKind::Later);
        assert_eq!(kind(413, ""), FailureKind::Refused);
    }

    #[test]
    fn passwords_do_not_show() {
        let place = Place {
            url: "http://127.0.0.1:8123".into(),
            database: "d".into(),
            user: "u".into(),
            password: "planted".into(),
        };
        let connection = Connection::new(place, Duration::from_secs(1));
        assert!(!format!("{connection:?}").contains("planted"));
    }
}
