//! Statements in the log: the few that begin and end something, and those that concern a table.
//!
//! A log of rows holds statements only for what rows do not say: definitions, and changes that
//! somebody made as statements. Neighbour: `transaction` asks. Invariant: a statement that may
//! change a copied table's rows or columns is never passed over; when in doubt, it counts.

use crate::table::TableName;

/// What a statement of the log is to a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Begin,
    Commit,
    Rollback,
    Savepoint(Vec<u8>),
    RollbackTo(Vec<u8>),
    XaStart(Vec<u8>),
    XaEnd,
    XaCommit(Vec<u8>),
    XaRollback(Vec<u8>),
    /// It changes a copied table.
    Concerns,
    /// Nothing.
    Nothing,
}

/// Statements that name a table and leave its rows and columns as they are.
const HARMLESS: [&[&str]; 18] = [
    &["ANALYZE"],
    &["OPTIMIZE"],
    &["REPAIR"],
    &["CHECK"],
    &["FLUSH"],
    &["GRANT"],
    &["REVOKE"],
    &["SET"],
    &["RELEASE"],
    &["CREATE", "USER"],
    &["DROP", "USER"],
    &["ALTER", "USER"],
    &["CREATE", "DATABASE"],
    &["CREATE", "SCHEMA"],
    &["DROP", "VIEW"],
    &["DROP", "PROCEDURE"],
    &["DROP", "FUNCTION"],
    &["DROP", "EVENT"],
];

/// What can be created with a table's name in it, and leaves the table alone.
const BYSTANDERS: [&str; 5] = ["VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT"];

/// Reads a statement of a session whose database is `schema`.
pub(super) fn read(schema: &[u8], sql: &[u8], tables: &[TableName]) -> Meaning {
    let words = words(sql, Backslash::Escapes);
    let word = |at: usize| words.get(at).map_or("", Word::text);
    match (word(0), word(1)) {
        ("BEGIN", "") | ("START", "TRANSACTION") => Meaning::Begin,
        ("COMMIT", _) => Meaning::Commit,
        ("ROLLBACK", "TO") => {
            let at = if word(2) == "SAVEPOINT" { 3 } else { 2 };
            Meaning::RollbackTo(raw(&words, at))
        }
        ("ROLLBACK", _) => Meaning::Rollback,
        ("SAVEPOINT", _) => Meaning::Savepoint(raw(&words, 1)),
        ("XA", "START" | "BEGIN") => Meaning::XaStart(xid(sql)),
        ("XA", "END") => Meaning::XaEnd,
        ("XA", "COMMIT") => Meaning::XaCommit(xid(sql)),
        ("XA", "ROLLBACK") => Meaning::XaRollback(xid(sql)),
        _ if is_harmless(&words) => Meaning::Nothing,
        _ if concerns(schema, sql, &words, tables) => Meaning::Concerns,
        // What a backslash means is the session's matter, and in names it is one always.
        _ if sql.contains(&b'\\')
            && concerns(schema, sql, &self::words(sql, Backslash::IsOne), tables) =>
        {
            Meaning::Concerns
        }
        _ => Meaning::Nothing,
    }
}

/// The name of a prepared transaction as the log writes it: `X'6162',X'',1`, without spaces and in
/// lower case.
pub(super) fn xid(sql: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
    // XA, a word, the name.
    let name = text.splitn(3, char::is_whitespace).nth(2).unwrap_or("");
    let name = name.trim_end().trim_end_matches("one phase");
    name.bytes().filter(|b| !b.is_ascii_whitespace()).collect()
}

fn is_harmless(words: &[Word]) -> bool {
    let starts = |prefix: &&[&str]| {
        words.len() >= prefix.len()
            && prefix
                .iter()
                .zip(words)
                .all(|(expected, word)| word.is_bare && word.upper == *expected)
    };
    if HARMLESS.iter().any(starts) {
        // SET STATEMENT name = value FOR any other.
        return !starts(&["SET", "STATEMENT"].as_slice());
    }
    if words.first().is_none_or(|word| word.upper != "CREATE") {
        return false;
    }
    // As in CREATE OR REPLACE ALGORITHM=... DEFINER=`a`@`b` SQL SECURITY DEFINER VIEW.
    for word in words[1..].iter().take(16) {
        if word.is_bare && BYSTANDERS.contains(&word.upper.as_str()) {
            return true;
        }
        if word.is_bare && matches!(word.upper.as_str(), "TABLE" | "INDEX") {
            return false;
        }
    }
    false
}

fn concerns(schema: &[u8], sql: &[u8], words: &[Word], tables: &[TableName]) -> bool {
    // DROP DATABASE, and MariaDB's CREATE OR REPLACE DATABASE.
    let is_of_database = words.windows(2).any(|pair| {
        matches!(pair[0].text(), "DROP" | "REPLACE")
            && matches!(pair[1].text(), "DATABASE" | "SCHEMA")
    });
    if is_of_database {
        let is_named = |table: &TableName| words.iter().any(|word| word.is(&table.schema));
        return tables.iter().any(is_named);
    }
    let schema = String::from_utf8_lossy(schema);
    (0..words.len())
        .filter(|at| may_be_table(sql, words, *at))
        .any(|at| {
            tables.iter().any(|table| {
                // `other`.`t` is another table; a bare `t` is one of the session's database.
                let is_of_schema = match at.checked_sub(1).map(|before| &words[before]) {
                    Some(before) if words[at].follows_point => before.is(&table.schema),
                    _ => schema.is_empty() || schema.to_uppercase() == table.schema.to_uppercase(),
                };
                is_of_schema && words[at].is(&table.name)
            })
        })
}

/// Whether a name may be that of a table the statement changes. Definitions say where those stand;
/// the other names in them are of columns, of keys and of tables that are only referred to.
fn may_be_table(sql: &[u8], words: &[Word], at: usize) -> bool {
    let word = |at: usize| words.get(at).map_or("", Word::text);
    let is_conditional = find(sql, b"/*!").is_some() || find(sql, b"/*M!").is_some();
    let kind = (1..words.len().min(5)).find(|at| matches!(word(*at), "TABLE" | "INDEX"));
    let Some(kind) = kind.filter(|_| !is_conditional) else {
        return true;
    };
    // Where the name begins, of its one or two parts.
    let first = at.saturating_sub(usize::from(words[at].follows_point));
    let before = |count: usize| first.checked_sub(count).map_or("", word);
    match (word(0), word(kind)) {
        ("CREATE" | "DROP", "INDEX") => before(1) == "ON",
        ("ALTER" | "CREATE", "TABLE") => {
            let mut subject = kind + 1;
            while matches!(word(subject), "IF" | "NOT" | "EXISTS") {
                subject += 1;
            }
            first == subject
                || matches!(before(1), "RENAME" | "TABLE")
                || (matches!(before(1), "TO" | "AS") && before(2) == "RENAME")
        }
        _ => true,
    }
}

/// A word or a name.
struct Word {
    upper: String,
    raw: Vec<u8>,
    is_bare: bool,
    follows_point: bool,
}

impl Word {
    /// Its text as a keyword; a quoted name is none.
    fn text(&self) -> &str {
        if self.is_bare { &self.upper } else { "`" }
    }

    /// Whether it is a word behind which a table's name begins.
    fn is_keyword(&self) -> bool {
        matches!(
            self.text(),
            "TABLE"
                | "EXISTS"
                | "ON"
                | "TO"
                | "RENAME"
                | "AS"
                | "INTO"
                | "FROM"
                | "UPDATE"
                | "JOIN"
        )
    }

    /// Whether it is this name, as far as can be told: in another character set than the names' own
    /// a letter beyond ASCII is any.
    fn is(&self, name: &str) -> bool {
        self.upper == name.to_uppercase()
            || (self.upper.contains(char::REPLACEMENT_CHARACTER) && !name.is_ascii())
    }
}

fn raw(words: &[Word], at: usize) -> Vec<u8> {
    words
        .get(at)
        .map(|word| word.raw.clone())
        .unwrap_or_default()
}

/// What a backslash does within quotes; between backticks it is one always.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    Escapes,
    IsOne,
}

/// A statement's words and names, without its comments and texts.
fn words(sql: &[u8], backslash: Backslash) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    let mut follows_point = false;
    while let Some(&byte) = sql.get(at) {
        let rest = &sql[at..];
        if rest.starts_with(b"/*") && !rest.starts_with(b"/*!") && !rest.starts_with(b"/*M!") {
            at += find(rest, b"*/").map_or(rest.len(), |end| end + 2);
        } else if is_dash_comment(rest) || byte == b'#' {
            at += find(rest, b"\n").map_or(rest.len(), |end| end + 1);
        } else if matches!(byte, b'\'' | b'"' | b'`') {
            let (name, length) = quoted(rest, byte, backslash);
            at += length;
            // With ANSI_QUOTES it is a name; a text that is one by chance does no harm.
            if byte != b'\'' {
                words.push(Word {
                    upper: String::from_utf8_lossy(&name).to_uppercase(),
                    raw: name,
                    is_bare: false,
                    follows_point,
                });
            }
            follows_point = false;
        } else if is_word(byte) {
            let length = rest.iter().take_while(|byte| is_word(**byte)).count();
            let name = &rest[..length];
            at += length;
            words.push(Word {
                upper: String::from_utf8_lossy(name).to_uppercase(),
                raw: name.to_vec(),
                is_bare: true,
                follows_point,
            });
            follows_point = false;
        } else {
            // Not after a keyword: MariaDB takes `.t` for a table of the session's database.
            let is_point = byte == b'.' && words.last().is_some_and(|word| !word.is_keyword());
            follows_point = is_point || (follows_point && byte.is_ascii_whitespace());
            at += 1;
        }
    }
    words
}

/// Two dashes begin a comment where white space or the end follows.
fn is_dash_comment(bytes: &[u8]) -> bool {
    bytes.starts_with(b"--") && bytes.get(2).is_none_or(|byte| *byte <= b' ')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// What stands in quotes at the front, and how long it is with them.
fn quoted(bytes: &[u8], quote: u8, backslash: Backslash) -> (Vec<u8>, usize) {
    let mut name = Vec::new();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte == quote {
            if bytes.get(at) != Some(&quote) {
                break;
            }
            at += 1;
        } else if byte == b'\\' && quote != b'`' && backslash == Backslash::Escapes {
            at += 1;
        }
        name.push(byte);
    }
    (name, at.min(bytes.len()))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests;
