//! What does this statement do, to which tables, in a few words?
//!
//! OpenTelemetry's `db.query.summary`: operations and their targets in the order of the text, at
//! most 255 characters, few different ones. One pass over the tokens; literals and comments are
//! skipped, whatever is no known operation and no name in a target's place is not looked at.
//! Here is the walk from token to token. Neighbours: `keywords` knows the words, `grammar` what
//! they mean where they stand, `targets` writes; `scan` finds ends. Invariants: any bytes are
//! accepted, nothing of a literal is written, a buffer of [`SUMMARY_BYTES_MAX`] never grows.

use crate::bytes::{is_identifier, is_space};
use crate::scan;

mod grammar;
mod keywords;
mod targets;

/// A summary has at most so many characters, by OpenTelemetry's convention.
pub const SUMMARY_CHARS_MAX: usize = 255;

/// A buffer with room for this many bytes never grows.
pub const SUMMARY_BYTES_MAX: usize = SUMMARY_CHARS_MAX * 4;

/// Writes OpenTelemetry's query summary of `sql`, a statement's text or its fingerprint, to `out`.
///
/// `SELECT orders customers`, `INSERT log SELECT orders`, `CREATE TABLE shop.item`, `COMMIT`.
/// Operations are in upper case, so that text and fingerprint give one summary; names stay as they
/// are written, but for back quotes where the name needs none. A name that no longer fits is left
/// out with all behind it, never cut. Empty if the text begins with no known operation: what users
/// mistype would make too many different ones.
pub fn summary(sql: &[u8], out: &mut String) {
    out.clear();
    let mut walk = Walk {
        sql,
        at: 0,
        out,
        chars: 0,
        verb: Verb::Start,
        awaits: Awaits::Nothing,
        depth: 0,
        queries: 0,
        tables: 0,
    };
    while !walk.is_over() {
        walk.step();
    }
}

/// What the statement at this point is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Its first word comes next.
    Start,
    /// `SELECT`, or anything else whose tables come behind `FROM` and `JOIN`.
    Query,
    /// `INSERT` or `REPLACE`: rows come behind `VALUES`.
    Insert,
    /// `UPDATE`: tables until `SET`.
    Update,
    /// `DELETE`: also tables behind `USING`.
    Delete,
    /// `LOAD`: the table comes behind `INTO TABLE`.
    Load,
    /// `CREATE`, `ALTER`, `DROP` and so on before the kind of object; of those for which it is
    /// true, several may be named.
    Define(bool),
    /// `EXPLAIN`, `DESCRIBE`: an operation or a table comes next.
    Explain,
    /// `CREATE INDEX`: the table comes behind `ON`.
    Index,
    /// `WITH`: the operation comes behind its parentheses.
    With,
    /// `SHOW`: some more words belong to the operation.
    Show(u8),
    /// One more word may belong to the operation (`START TRANSACTION`).
    Pair,
    /// Nothing more of interest before the next statement.
    Rest,
    /// Nothing more of interest at all.
    End,
}

/// What a name at this point would be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaits {
    Nothing,
    /// A target.
    Target,
    /// A target and no more of this statement.
    LastTarget,
}

struct Walk<'a> {
    sql: &'a [u8],
    at: usize,
    out: &'a mut String,
    chars: usize,
    verb: Verb,
    awaits: Awaits,
    /// Open parentheses; those beyond 63 share a bit.
    depth: u32,
    /// By depth: a query began there, so `FROM` names tables.
    queries: u64,
    /// By depth: a comma there is followed by a table.
    tables: u64,
}

impl Walk<'_> {
    fn is_over(&self) -> bool {
        self.at >= self.sql.len() || self.verb == Verb::End
    }

    fn bit(&self) -> u64 {
        1 << self.depth.min(63)
    }

    #[inline(always)]
    fn step(&mut self) {
        let byte = self.sql[self.at];
        if is_identifier(byte) && !byte.is_ascii_digit() {
            return self.word();
        }
        match byte {
            b'0'..=b'9' => self.digit(),
            b'`' if self.awaits != Awaits::Nothing => self.target(),
            b'`' => self.at = scan::backtick_end(self.sql, self.at).at,
            b'\'' | b'"' => {
                self.at = scan::string_end(self.sql, self.at).at;
                self.awaits = Awaits::Nothing;
            }
            b'(' => self.open(),
            b')' => self.close(),
            b',' => self.comma(),
            b';' => self.semicolon(),
            b'@' | b'.' | b':' => self.variable(),
            b'/' => self.slash(),
            b'-' | b'#' => match scan::comment_end(self.sql, self.at) {
                Some(end) => self.at = end.at,
                None => self.other(),
            },
            b'{' => self.at += 1,
            _ if is_space(byte) => self.at += 1,
            _ => self.other(),
        }
    }

    /// An operator, `?` or anything else that stands in the place of a name.
    fn other(&mut self) {
        self.at += 1;
        self.awaits = Awaits::Nothing;
    }

    fn digit(&mut self) {
        match scan::number_end(self.sql, self.at) {
            Some(end) => {
                self.at = end;
                self.awaits = Awaits::Nothing;
            }
            None => self.word(),
        }
    }

    /// What follows belongs to a variable or to the name before, and is no keyword.
    fn variable(&mut self) {
        let is_dot = self.sql[self.at] == b'.';
        self.at += 1;
        if is_dot {
            self.at = scan::blank_end(self.sql, self.at).at;
        }
        while self.sql.get(self.at).is_some_and(|&b| is_identifier(b)) {
            self.at += 1;
        }
        self.awaits = Awaits::Nothing;
    }

    /// A comment goes; `/*!50003 ... */` is code, so only its marks go.
    fn slash(&mut self) {
        match self.sql.get(self.at + 1..) {
            Some([b'*', b'!', code @ ..]) => {
                let digits = code.iter().take(6).take_while(|b| b.is_ascii_digit());
                self.at += 3 + digits.count();
            }
            Some([b'*', ..]) => {
                self.at = scan::comment_end(self.sql, self.at).map_or(self.at + 1, |end| end.at);
            }
            _ if self.at > 0 && self.sql[self.at - 1] == b'*' => self.at += 1,
            _ => self.other(),
        }
    }

    fn open(&mut self) {
        let in_tables = self.awaits == Awaits::Target && self.tables & self.bit() != 0;
        self.at += 1;
        self.depth = self.depth.saturating_add(1);
        let bit = self.bit();
        self.queries &= !bit;
        self.tables &= !bit;
        if in_tables {
            self.tables |= bit; // FROM (a, b), or a query in the place of a table
        } else {
            self.awaits = Awaits::Nothing;
        }
    }

    fn close(&mut self) {
        self.at += 1;
        self.depth = self.depth.saturating_sub(1);
        self.awaits = Awaits::Nothing;
    }

    fn comma(&mut self) {
        self.at += 1;
        self.awaits = if self.tables & self.bit() != 0 {
            Awaits::Target
        } else {
            Awaits::Nothing
        };
    }

    fn semicolon(&mut self) {
        self.at += 1;
        self.verb = Verb::Start;
        self.awaits = Awaits::Nothing;
        (self.depth, self.queries, self.tables) = (0, 0, 0);
    }

    fn word_end(&self, at: usize) -> usize {
        let rest = &self.sql[at..];
        at + rest
            .iter()
            .position(|&byte| !is_identifier(byte))
            .unwrap_or(rest.len())
    }
}
