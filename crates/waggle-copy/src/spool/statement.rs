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
    let words = words(sql);
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
        _ if concerns(schema, &words, tables) => Meaning::Concerns,
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
        return true;
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

fn concerns(schema: &[u8], words: &[Word], tables: &[TableName]) -> bool {
    let is_of_database = words.first().is_some_and(|word| word.upper == "DROP")
        && words
            .get(1)
            .is_some_and(|word| matches!(word.text(), "DATABASE" | "SCHEMA"));
    words.iter().enumerate().any(|(at, word)| {
        tables.iter().any(|table| {
            let named = |word: &Word, name: &str| word.upper == name.to_uppercase();
            if is_of_database {
                return named(word, &table.schema);
            }
            if !named(word, &table.name) {
                return false;
            }
            // `other`.`t` is another table; a bare `t` is one of the session's database.
            match at.checked_sub(1).map(|before| &words[before]) {
                Some(before) if word.follows_point => named(before, &table.schema),
                _ => {
                    schema.is_empty()
                        || String::from_utf8_lossy(schema).to_uppercase()
                            == table.schema.to_uppercase()
                }
            }
        })
    })
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
}

fn raw(words: &[Word], at: usize) -> Vec<u8> {
    words
        .get(at)
        .map(|word| word.raw.clone())
        .unwrap_or_default()
}

/// A statement's words and names, without its comments and texts.
fn words(sql: &[u8]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    let mut follows_point = false;
    while let Some(&byte) = sql.get(at) {
        let rest = &sql[at..];
        if rest.starts_with(b"/*") && !rest.starts_with(b"/*!") && !rest.starts_with(b"/*M!") {
            at += find(rest, b"*/").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with(b"-- ") || byte == b'#' {
            at += find(rest, b"\n").map_or(rest.len(), |end| end + 1);
        } else if matches!(byte, b'\'' | b'"' | b'`') {
            let (name, length) = quoted(rest, byte);
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
            follows_point = byte == b'.' || (follows_point && byte.is_ascii_whitespace());
            at += 1;
        }
    }
    words
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// What stands in quotes at the front, and how long it is with them.
fn quoted(bytes: &[u8], quote: u8) -> (Vec<u8>, usize) {
    let mut name = Vec::new();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte == quote {
            if bytes.get(at) != Some(&quote) {
                break;
            }
            at += 1;
        } else if byte == b'\\' && quote != b'`' {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tables() -> Vec<TableName> {
        let table = |name: &str| TableName {
            schema: "shop".to_owned(),
            name: name.to_owned(),
        };
        vec![table("orders"), table("größe")]
    }

    fn meaning(sql: &str) -> Meaning {
        read(b"shop", sql.as_bytes(), &tables())
    }

    #[test]
    fn transactions_begin_and_end() {
        assert_eq!(meaning("BEGIN"), Meaning::Begin);
        assert_eq!(meaning("COMMIT /* x */"), Meaning::Commit);
        assert_eq!(meaning("ROLLBACK"), Meaning::Rollback);
        let savepoint = Meaning::Savepoint(b"a b".to_vec());
        assert_eq!(meaning("SAVEPOINT `a b`"), savepoint);
        let rollback = Meaning::RollbackTo(b"a b".to_vec());
        assert_eq!(meaning("ROLLBACK TO `a b`"), rollback);
        assert_eq!(meaning("ROLLBACK TO SAVEPOINT `a b`"), rollback);
        let name = b"x'61',x'',1".to_vec();
        assert_eq!(
            meaning("XA START X'61',X'',1"),
            Meaning::XaStart(name.clone())
        );
        assert_eq!(
            meaning("XA COMMIT X'61',X'',1"),
            Meaning::XaCommit(name.clone())
        );
        assert_eq!(
            meaning("XA COMMIT X'61', X'', 1 ONE PHASE"),
            Meaning::XaCommit(name)
        );
    }

    #[test]
    fn what_may_change_a_copied_table_counts() {
        for sql in [
            "ALTER TABLE orders ADD c INT",
            "alter table `Orders` add index (a)",
            "DROP TABLE IF EXISTS x, shop . orders",
            "TRUNCATE orders",
            "RENAME TABLE a TO b, b TO orders",
            "CREATE INDEX i ON orders (a)",
            "CREATE UNIQUE INDEX i ON `shop`.`orders` (a)",
            "/* view */ DELETE FROM orders",
            "INSERT INTO größe VALUES ('x')",
            "DROP DATABASE shop",
            "/*!50000 ALTER TABLE orders ENGINE=InnoDB */",
            "CREATE TABLE orders (a INT)",
            "CREATE OR REPLACE TABLE orders (a INT)",
        ] {
            assert_eq!(meaning(sql), Meaning::Concerns, "{sql}");
        }
    }

    #[test]
    fn what_leaves_it_alone_does_not() {
        for sql in [
            "ALTER TABLE others ADD orders2 INT",
            "ALTER TABLE elsewhere.orders ADD c INT",
            "ANALYZE TABLE orders",
            "GRANT SELECT ON orders TO a",
            "CREATE DEFINER=`a`@`%` TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET @a = 1",
            "CREATE ALGORITHM=UNDEFINED DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW v AS SELECT 1 \
             FROM orders",
            "DROP DATABASE shop2",
            "CREATE TABLE t (c INT COMMENT 'orders')",
            "-- orders\nDROP TABLE t",
        ] {
            assert_eq!(meaning(sql), Meaning::Nothing, "{sql}");
        }
        let elsewhere = read(b"other", b"DROP TABLE orders", &tables());
        assert_eq!(elsewhere, Meaning::Nothing);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(sql in proptest::collection::vec(any::<u8>(), 0..200),
                                damaged in any::<usize>()) {
            let _ = read(b"", &sql, &tables());
            let mut sql = b"CREATE OR REPLACE VIEW `a``b` /* c */ AS 'x\\'y' -- z\n".to_vec();
            let length = sql.len();
            sql[damaged % length] ^= 0x20;
            let _ = read(b"", &sql[..damaged % length], &tables());
        }
    }
}
