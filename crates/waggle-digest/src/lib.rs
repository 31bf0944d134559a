//! Which statements are the same but for their values, and under which id are they known?
//!
//! [`Fingerprinter`] turns a statement into its *fingerprint*: lower case, values as `?`, value
//! lists as `(?+)`, no comments, single spaces. [`digest_id`] gives the id under which Percona's
//! tools know that fingerprint, [`hash64`] a cheaper key for tables, [`carries_secret`] whether the
//! statement's own text has to stay hidden, [`summary()`] what it does to which tables in a few
//! words, [`comments()`] what the application said about it. Neighbours: `waggle-server`, the
//! probes and the binary read this crate; it knows no server, no I/O and no clock. Invariants: any
//! bytes are accepted, time is linear in them, a warm [`Fingerprinter`] allocates nothing, no
//! literal is in a fingerprint, and the ids of `tests/golden.tsv` do not change.
//!
//! ```
//! use waggle_digest::{Fingerprinter, digest_id};
//!
//! let mut fingerprinter = Fingerprinter::new();
//! let text = fingerprinter.fingerprint(b"SELECT c FROM t WHERE a='x' AND id IN (1, 2)");
//! assert_eq!(text, b"select c from t where a=? and id in(?+)");
//! assert_eq!(digest_id(text).to_string(), "9143BCDA14DB2041");
//! ```
//!
//! # The reference
//!
//! The text is that of `query.Fingerprint` of Percona's `go-mysql` in its newest form (the one
//! that reads sub-queries in `IN`), with numbers inside names kept, as is its default. So: a sign
//! directly before a number is part of it (`k=k+1` is `k=k?`), so is a difference of numbers
//! without spaces (`5-3`); `NULL` is a value where it stands as a word of its own and not behind
//! `IS` or `NOT`; `ASC` goes behind `ORDER BY`; `CALL name(...)` keeps the name only, in its own
//! case; `USE` loses the database; `/*! */` stays, hints and other comments go; `VALUES(column)`
//! behind `ON DUPLICATE KEY UPDATE` is no list; `"..."` is a string, whatever the SQL mode.
//!
//! Checked on 2026-11-21: all 66 of the fingerprints and all 3 of the ids that the reference's
//! own tests expect; and 2,889 of 2,891 generated statements against `pt-fingerprint` 3.2.1 (two
//! where a `), (` in a string ends its list), of those 10,273 that avoid what it is known to do
//! otherwise (`LIMIT`, `IS NULL`, functions in `VALUES`, upper-case hexadecimal, doubled
//! backslashes, sub-queries, dashes in names). The reference itself was read, not run, for these
//! figures: `examples/fingerprint_lines.rs` and `tests/reference/main.go` print the same lines
//! from both, for who has it.
//!
//! # Deliberate differences
//!
//! Where the reference loses part of a statement, keeps a literal, fails, or makes two
//! fingerprints of one statement, this crate does not. Each has a test in `tests/it/rules.rs`.
//!
//! | statement | reference | here |
//! |---|---|---|
//! | `a-b`, `(a+b)`, `a/b`, `-a`, `doc->'$.x'` | loses the left side or the operator | keeps both |
//! | `100-total` | `100-total` | `?-total` |
//! | `/*!40101 ... */;` and `*/` before other text | loses `*/` | keeps it |
//! | `a=x'1F'` | loses `a=` | `a=?` |
//! | `select/* c */1`, `a#c` | loses the word before the comment | keeps it |
//! | `a-- c` and a new line, `b` | `ab` | `a b` |
//! | `--` directly before a new line | takes the next line for the comment | ends there |
//! | `/*!40001 x */* FROM` | takes `/*` for a comment | goes on |
//! | `a*100`, `id%16`, `a&1`, `.5` behind a space or `(` | keeps the number, or the dot | `?` |
//! | `/*! x */` without a version | keeps the next number | `?` |
//! | `'it''s'` | `??` | `?` |
//! | `1e+10`, `X'1F'`, `B'1'` | `??`, `x?`, `b?` | `?` |
//! | `VALUES (1),(2) ON`, `VALUES (1) , (2) ON` | no space, two spaces | one, as for one row |
//! | `(a)VALUES(1),(2)` | no list | a list |
//! | `IN` or `VALUES`, a new line, `(`; `IN  BOOLEAN` | keeps the spaces | collapses them |
//! | `VALUES ( )` | `values(?+)` | `values()` |
//! | `IF(a IN (1,2), b, c)` | loses the comma | keeps it |
//! | `a = NULL, b='x'`; `a ASC, f(1)` | a space before the value, or loses the `=` | neither |
//! | `1 IN(1),2 IN(1)` | panics: longer than the text | no limit |
//! | `` `a\` ``, `` CALL `a`.`b`(1) `` | an escape; keeps arguments | a name; only the name |
//! | vertical tab, form feed | part of a word | white space |
//! | bytes that are no UTF-8, zero bytes | replaced, removed | kept |
//! | an open string or list | nothing | `?`, `(?+)` |
//!
//! # PERFORMANCE_SCHEMA
//!
//! Servers have digests of their own, of their parser's tokens. A test of `waggle-agent` carries
//! out 380 statements of 95 shapes on MySQL 9.7 and MariaDB 10.11: their digests and these make the
//! same sets of them. Where they do not, on purpose, since ids equal to Percona's are worth more:
//!
//! | one digest or two? | here | MySQL | MariaDB |
//! |---|---|---|---|
//! | `IN (1)`, `IN (1, 2)` | one | one | two |
//! | one row of `VALUES`, several | one | two | two |
//! | rows of one value, of several; with functions, with `DEFAULT` | one | two | two |
//! | `a=1`, `a = 1`; `a,b`, `a, b`; `!=`, `<>` | two | one | one |
//! | names in back quotes, without | two | one | one |
//! | names in upper case, in lower case | one | two | two |
//! | `ORDER BY a ASC`, `ORDER BY a` | one | two | two |
//! | `k=k+1`, `k=k-1` | one | two | two |
//! | `k = 5`, `k = -5` | one | one | two |
//! | `CALL p(1)`, `CALL p(1 + 2)` | one | two | two |
//! | `USE a`, `USE b` | one | two | two |
//! | a semicolon at the end, none | two | one | one |
//! | `DATE '...'`, `DATE'...'` | two | one | one |
//! | with an optimizer hint, without | one | two | one |
//! | in an executable comment, outside | two | one | one |
//!
//! # Cost
//!
//! `examples/fingerprint_cost.rs` on 2026-11-21, on 2 virtual cores that were busy with other work
//! (load 6), best rounds: 44 ns for `SELECT c FROM sbtest1 WHERE id=50123`, 76 ns for a point
//! select of 61 bytes, 203 ns for a range select of 155 bytes with a join, 268 ns for one of 152
//! bytes with seven values and a list; 1.5 GB/s over 1,000 rows of `VALUES`, 1.9 GB/s over a list
//! of 1,000 numbers, 1.3 GB/s over 1,000 columns, above 50 GB/s inside one long literal or
//! comment. [`hash64`] 3 to 10 ns, [`digest_id`] 150 to 430 ns, [`carries_secret`] 18 to 37 ns for
//! queries without a comment. [`summary()`] 15 ns for `BEGIN`, 145 to 200 ns for point selects, 210
//! for an insertion, 465 for the range select with a join, from text or fingerprint: it is taken
//! once for each new digest. [`comments()`] 27 ns where there is none, 80 for a plain comment, 420
//! for three pairs of sqlcommenter.

mod bytes;
mod comments;
mod fingerprint;
mod hash;
mod id;
mod names;
mod redact;
mod scan;
mod summary;
mod truncated;

pub use comments::{COMMENT_BYTES_MAX, COMMENT_PAIRS_MAX, TraceParent, comments};
pub use hash::hash64;
pub use id::{DigestId, ParseDigestIdError, digest_id};
pub use names::names_secret;
pub use redact::{administers_secret, carries_secret};
pub use summary::{SUMMARY_BYTES_MAX, SUMMARY_CHARS_MAX, summary};
pub use truncated::{CUT_MARK, Cut, Truncated};

/// Computes fingerprints in a buffer that it keeps.
///
/// No allocation once the buffer has grown to the longest fingerprint.
#[derive(Clone, Debug, Default)]
pub struct Fingerprinter {
    out: Vec<u8>,
}

impl Fingerprinter {
    /// A fingerprinter with room for an ordinary statement.
    #[must_use]
    pub fn new() -> Self {
        Self {
            out: Vec::with_capacity(1024),
        }
    }

    /// The fingerprint of a whole statement, valid until the next call.
    ///
    /// `sql` is bytes in any encoding that contains ASCII; it need be neither UTF-8 nor SQL.
    pub fn fingerprint<'a>(&'a mut self, sql: &[u8]) -> &'a [u8] {
        fingerprint::write(sql, &mut self.out);
        &self.out
    }

    /// The fingerprint of a statement of which `sql` is only the beginning.
    ///
    /// Call it only if the text was cut: a whole statement would be marked as cut, too.
    pub fn fingerprint_truncated<'a>(&'a mut self, sql: &[u8]) -> Truncated<'a> {
        let cut = truncated::write_truncated(sql, &mut self.out);
        Truncated {
            text: &self.out,
            cut,
        }
    }
}
