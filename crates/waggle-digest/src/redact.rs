//! May this statement carry a secret: a password, a key, a token?
//!
//! The text of such a statement must not leave the host, be shown or be recorded; its fingerprint
//! has no literals and may. The whole text is hidden or none of it. The answer errs to `true`:
//! a name that stands for a secret is enough, whatever else the statement does with it.
//! Neighbours: `names` knows these names; `scan` skips comments and literals. Invariant: every
//! statement that the server accepts and that sets, changes or sends a password or a key of the
//! server in the clear gives `true`, and so does one that names what it sets: `password`, `token`
//! and their kin. A secret that nothing in the statement names is not known from other values.

use crate::bytes::is_identifier;
use crate::names::names_secret;
use crate::scan;
use memchr::memchr;

/// Whether the text of `sql` may contain a secret and must not be shown.
///
/// Looks through comments, executable comments and any white space, in any case. `true` for
/// `CREATE USER`, `ALTER USER`, `SET PASSWORD`, everything with `IDENTIFIED BY` and its kin,
/// `CHANGE MASTER`, `CHANGE REPLICATION SOURCE`, `CREATE SERVER`, `ALTER SERVER`,
/// `START REPLICA` and `START GROUP_REPLICATION` with a password, `CREATE TABLE` with a
/// `CONNECTION` string, `SET` of a key or of a key store's settings, functions that take a key or
/// hash a password, the tables of accounts, and every name of a column, a variable or a JSON member
/// that stands for a secret; also for statements in strings (`PREPARE ... FROM`, `SET @sql = ...`),
/// routine bodies and multi-statement texts that hold one of these.
#[must_use]
pub fn carries_secret(sql: &[u8]) -> bool {
    names_secret(sql) || administers_secret(sql)
}

/// The same, but for queries that only name something secret: for statements that administer the
/// server, and texts of several statements.
///
/// Of these not even the fingerprint is safe while it is not known that the server has parsed the
/// statement as the lexer here did.
#[must_use]
pub fn administers_secret(sql: &[u8]) -> bool {
    let is_one_query = Words::new(sql).next().is_none_or(is_query) && memchr(b';', sql).is_none();
    !is_one_query && any_administers_secret(sql)
}

/// The same for a text with several statements, or with one that is no query.
fn any_administers_secret(sql: &[u8]) -> bool {
    let mut words = Words::new(sql);
    while let Some(first) = words.next() {
        if !is_query(first) {
            // `None` is a table's definition, already looked through.
            if let Some(secret) = administration(first, &mut words) {
                return secret;
            }
        }
        // A semicolon inside a literal only makes more of the text be looked at.
        match memchr(b';', &sql[words.at..]) {
            Some(found) => words.at += found + 1,
            None => break,
        }
    }
    false
}

/// What a statement that is no query carries, or `None` for a table definition without a secret.
///
/// All of the text from here on is looked through at once, so that the whole stays linear however
/// many statements there are.
#[cold]
fn administration(first: &[u8], words: &mut Words<'_>) -> Option<bool> {
    let is = |word: &[u8], name: &[u8]| word.eq_ignore_ascii_case(name);
    let mut ahead = *words;
    let second = ahead.next().unwrap_or_default();
    let third = ahead.next().unwrap_or_default();
    let is_ddl = is(first, b"create") || is(first, b"alter");
    if is_ddl && (is(second, b"table") || is(second, b"temporary") && is(third, b"table")) {
        let end = memchr(b';', &words.sql[words.at..]).map_or(words.sql.len(), |at| words.at + at);
        let mut definition = Words {
            sql: &words.sql[..end],
            ..*words
        };
        let secret = definition.any(is_secret_option);
        return secret.then_some(true);
    }
    let mut account = AccountStatement::default();
    account.follows(first);
    let sets = is(first, b"set");
    let rest = &words.sql[words.at..];
    let secret = words.any(|word, behind| {
        account.follows(word) || sets && is_key_setting(word) || is_secret_option(word, behind)
    });
    Some(secret || names_secret(rest))
}

/// `CREATE [OR REPLACE] USER`, `ALTER SERVER`, `CHANGE MASTER` and so on, word by word.
#[derive(Default)]
struct AccountStatement {
    expected: Option<Expected>,
}

#[derive(Clone, Copy)]
enum Expected {
    Account,
    Source,
}

impl AccountStatement {
    fn follows(&mut self, word: &[u8]) -> bool {
        let any = |names: &[&[u8]]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
        let found = match self.expected {
            Some(Expected::Account) => any(&[b"user", b"server"]),
            Some(Expected::Source) => any(&[b"master", b"replication"]),
            None => false,
        };
        if any(&[b"create", b"alter"]) {
            self.expected = Some(Expected::Account);
        } else if any(&[b"change"]) {
            self.expected = Some(Expected::Source);
        } else if !any(&[b"or", b"replace"]) {
            self.expected = None;
        }
        found
    }
}

/// The first keyword of a statement whose literals are ordinary values.
#[inline(always)]
fn is_query(word: &[u8]) -> bool {
    const SELECT: u64 = packed(b"select");
    const INSERT: u64 = packed(b"insert");
    const UPDATE: u64 = packed(b"update");
    const DELETE: u64 = packed(b"delete");
    const REPLACE: u64 = packed(b"replace");
    const COMMIT: u64 = packed(b"commit");
    const ROLLBACK: u64 = packed(b"rollback");
    const WITH: u64 = packed(b"with");
    const SHOW: u64 = packed(b"show");
    const USE: u64 = packed(b"use");
    const CALL: u64 = packed(b"call");
    const LOAD: u64 = packed(b"load");
    const TABLE: u64 = packed(b"table");
    const VALUES: u64 = packed(b"values");
    const DO: u64 = packed(b"do");
    const KILL: u64 = packed(b"kill");
    const LOCK: u64 = packed(b"lock");
    const UNLOCK: u64 = packed(b"unlock");
    word.len() <= 8
        && matches!(
            packed(word),
            SELECT
                | INSERT
                | UPDATE
                | DELETE
                | REPLACE
                | COMMIT
                | ROLLBACK
                | WITH
                | SHOW
                | USE
                | CALL
                | LOAD
                | TABLE
                | VALUES
                | DO
                | KILL
                | LOCK
                | UNLOCK
        )
}

/// Up to 8 letters of either case as one number.
#[inline(always)]
const fn packed(word: &[u8]) -> u64 {
    let mut number = 0;
    let mut at = 0;
    while at < word.len() {
        number = number << 8 | (word[at] | 0x20) as u64;
        at += 1;
    }
    number
}

/// `master_key`, `hashicorp_key_management_token`, `keyring_...` and other settings of key stores.
fn is_key_setting(word: &[u8]) -> bool {
    let ends = |end: &[u8]| {
        let at = word.len().checked_sub(end.len());
        at.is_some_and(|at| word[at..].eq_ignore_ascii_case(end))
    };
    ends(b"key")
        || [&b"key_management"[..], b"hashicorp", b"vault"]
            .iter()
            .any(|part| {
                word.windows(part.len())
                    .any(|found| found.eq_ignore_ascii_case(part))
            })
}

/// `CONNECTION='mysql://user:password@host/db'` and `PASSWORD='...'` of a table.
fn is_secret_option(word: &[u8], behind: &[u8]) -> bool {
    if !word.eq_ignore_ascii_case(b"connection") && !word.eq_ignore_ascii_case(b"password") {
        return false;
    }
    // Bounded, or many such words before an open comment would take quadratic time.
    let near = &behind[..behind.len().min(256)];
    match near.get(scan::blank_end(near, 0).at) {
        Some(byte) => matches!(byte, b'=' | b'\'' | b'"'),
        None => near.len() < behind.len(),
    }
}

/// The words of a text, also those inside strings; not those inside comments.
#[derive(Clone, Copy)]
struct Words<'a> {
    sql: &'a [u8],
    at: usize,
    /// A comment without an end was met, by its first byte: no later one of its kind ends either.
    block_open: bool,
    line_open: bool,
}

impl<'a> Words<'a> {
    fn new(sql: &'a [u8]) -> Self {
        Self {
            sql,
            at: 0,
            block_open: false,
            line_open: false,
        }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(&byte) = self.sql.get(self.at) {
            if is_identifier(byte) {
                let begin = self.at;
                while self
                    .sql
                    .get(self.at)
                    .is_some_and(|&byte| is_identifier(byte))
                {
                    self.at += 1;
                }
                return Some(&self.sql[begin..self.at]);
            }
            self.at = self.behind_separator(byte);
        }
        None
    }

    fn behind_separator(&mut self, byte: u8) -> usize {
        if !matches!(byte, b'/' | b'-' | b'#') {
            return self.at + 1;
        }
        // The content of executable comments counts; the version number does not.
        if let [b'/', b'*', b'!', code @ ..] | [b'/', b'*', b'M' | b'm', b'!', code @ ..] =
            &self.sql[self.at..]
        {
            return self.sql.len() - behind_version(code).len();
        }
        let open = if byte == b'/' {
            &mut self.block_open
        } else {
            &mut self.line_open
        };
        if *open {
            return self.at + 1;
        }
        match scan::comment_end(self.sql, self.at) {
            Some(end) if !end.open => end.at,
            Some(_) => {
                // It may be a `/*` or `#` inside a string, so what follows counts.
                *open = true;
                self.at + 1
            }
            None => self.at + 1,
        }
    }

    fn any(&mut self, mut test: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        while let Some(word) = self.next() {
            if test(word, &self.sql[self.at..]) {
                return true;
            }
        }
        false
    }
}

fn behind_version(code: &[u8]) -> &[u8] {
    let digits = code
        .iter()
        .take(6)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    &code[digits..]
}
