//! What of a statement may be shown?
//!
//! Its fingerprint has no literals, as long as server and lexer agree on where literals are. They
//! need not where the server refused the statement (a forgotten quote makes a literal a word) and
//! where a backslash stands in it (`NO_BACKSLASH_ESCAPES`). For a statement that may carry a secret
//! this is not risked: it is known by its first keywords alone. Neighbour:
//! [`waggle_digest::carries_secret`] knows which may.

use waggle_digest::{administers_secret, carries_secret};
use waggle_foreign::{Printable, is_harmful};

/// Stands where a fingerprint was not taken.
const HIDDEN: &str = "(hidden)";

/// First words of statements that may carry a secret; no other word is shown of a hidden one.
const SHOWN: [&[u8]; 31] = [
    b"select",
    b"insert",
    b"into",
    b"update",
    b"delete",
    b"with",
    b"call",
    b"create",
    b"alter",
    b"or",
    b"replace",
    b"user",
    b"role",
    b"server",
    b"set",
    b"password",
    b"change",
    b"master",
    b"replication",
    b"source",
    b"start",
    b"replica",
    b"slave",
    b"grant",
    b"prepare",
    b"execute",
    b"install",
    b"table",
    b"procedure",
    b"function",
    b"event",
];
/// Most of these shown.
const SHOWN_MAX: usize = 3;

/// Text of a statement as it can be printed: invalid UTF-8, and what commands a terminal,
/// replaced.
pub(crate) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect()
}

/// A name, such as a user's, as it can be printed; what commands a terminal becomes visible, so
/// that two names stay two.
///
/// The kernel's half copies a bounded part of a name: a character that it cut is the usual mark.
pub(crate) fn printable_name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            let whole = Printable::of_bytes(&bytes[..error.valid_up_to()]);
            format!("{whole}\u{fffd}")
        }
        _ => Printable::of_bytes(bytes).into_string(),
    }
}

/// What to show instead of the fingerprint of `text`; `None` if the fingerprint will do.
pub(crate) fn hidden(text: &[u8], fingerprint: &[u8], has_error: bool) -> Option<Vec<u8>> {
    let doubtful = has_error || text.contains(&b'\\');
    (doubtful && carries_secret(text)).then(|| first_words(fingerprint))
}

/// The same for a statement that still runs. A query that does was parsed, but for the
/// microseconds before; whether the server takes a statement for accounts shows only at its end.
pub(crate) fn hidden_running(text: &[u8], fingerprint: &[u8]) -> Option<Vec<u8>> {
    let is_hidden = administers_secret(text) || text.contains(&b'\\') && carries_secret(text);
    is_hidden.then(|| first_words(fingerprint))
}

fn first_words(fingerprint: &[u8]) -> Vec<u8> {
    let mut shown = Vec::new();
    let words = fingerprint.split(|byte| *byte == b' ');
    for word in words
        .take_while(|word| SHOWN.contains(word))
        .take(SHOWN_MAX)
    {
        shown.extend_from_slice(word);
        shown.push(b' ');
    }
    shown.extend_from_slice(HIDDEN.as_bytes());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_digest::Fingerprinter;

    fn shown(text: &str, has_error: bool) -> String {
        let mut fingerprinter = Fingerprinter::new();
        let fingerprint = fingerprinter.fingerprint(text.as_bytes());
        let hidden = hidden(text.as_bytes(), fingerprint, has_error);
        printable(&hidden.unwrap_or_else(|| fingerprint.to_vec()))
    }

    #[test]
    fn a_secret_is_not_shown_where_quotes_cannot_be_trusted() {
        for text in [
            "CREATE USER u IDENTIFIED BY hunter2",
            "CREATE USER 'u' IDENTIFIED BY hunter2'",
            "SET PASSWORD = 'it's hunter2'",
            "CHANGE MASTER TO MASTER_PASSWORD=hunter2",
            "hunter2 IDENTIFIED BY",
            "ALTER USER hunter2 IDENTIFIED BY \"hunter2\" hunter2",
            "UPDATE users SET password='it's hunter2'",
            "SET @pw = hunter2'",
            "INSERT INTO users (token) VALUES (hunter2)",
        ] {
            let shown = shown(text, true);
            assert!(!shown.contains("hunter2"), "{text}: {shown}");
            assert!(shown.ends_with(HIDDEN), "{shown}");
        }
        // The server may take the backslash for a letter; the lexer takes it for an escape.
        let text = r"CREATE USER 'u\' IDENTIFIED BY 'hunter2'";
        assert_eq!(shown(text, false), "create user (hidden)");
    }

    #[test]
    fn other_statements_keep_their_fingerprint() {
        assert_eq!(shown("SELECT 'a", true), "select ?");
        assert_eq!(shown(r"SELECT 'it\'s'", false), "select ?");
        let account = "CREATE USER 'u' IDENTIFIED BY 'hunter2'";
        assert_eq!(shown(account, false), "create user ? identified by ?");
        let query = "UPDATE users SET password='hunter2' WHERE id=1";
        assert_eq!(
            shown(query, false),
            "update users set password=? where id=?"
        );
        let running = hidden_running(query.as_bytes(), b"update users set password=? where id=?");
        assert_eq!(running, None);
        assert!(hidden_running(account.as_bytes(), b"create user ? identified by ?").is_some());
    }

    #[test]
    fn what_cannot_be_printed_is_replaced() {
        assert_eq!(printable(b"a\xff\x00\x1b[2J"), "a\u{fffd}  [2J");
    }
}
