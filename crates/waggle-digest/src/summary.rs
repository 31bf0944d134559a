//! What does this statement do, to which tables, in a few words?
//!
//! OpenTelemetry's `db.query.summary`: operations and their targets in the order of the text, at
//! most 255 characters, few different ones. One pass over the tokens; literals and comments are
//! skipped, whatever is no known operation and no name in a target's place is not looked at.
//! Neighbours: `keywords` knows the words, `scan` finds ends. Invariants: any bytes are accepted,
//! nothing of a literal is written, a buffer of [`SUMMARY_BYTES_MAX`] never grows.

use crate::bytes::{is_identifier, is_space};
use crate::scan;
use keywords::{Word, word};

mod keywords;

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

    #[inline(always)]
    fn word(&mut self) {
        let (begin, end) = (self.at, self.word_end(self.at));
        let found = word(&self.sql[begin..end]);
        // x'1F', b'1' and _utf8'...' go with the literal behind them.
        self.at = end;
        if found == Word::Name && self.awaits == Awaits::Nothing && self.verb != Verb::Start {
            match self.verb {
                Verb::Show(_) | Verb::Pair => self.follow_operation(found, begin),
                Verb::Explain => self.explained(found, begin),
                _ => {}
            }
            return;
        }
        match self.verb {
            Verb::Rest => self.rest(found, begin),
            Verb::Start => self.first(found, begin),
            Verb::With if found.is_main() && self.depth == 0 => self.first(found, begin),
            Verb::Explain => self.explained(found, begin),
            Verb::Define(several) => self.define(found, begin, several),
            Verb::Show(_) | Verb::Pair => self.follow_operation(found, begin),
            _ => self.inside(found, begin),
        }
    }

    /// The first word of a statement.
    fn first(&mut self, found: Word, begin: usize) {
        let behind = self.at;
        self.awaits = Awaits::Nothing;
        self.verb = match found {
            Word::With => Verb::With,
            Word::Select => {
                self.verb = Verb::Query;
                return self.select(begin);
            }
            Word::Insert | Word::Replace => Verb::Insert,
            Word::Update => Verb::Update,
            Word::Delete => Verb::Delete,
            Word::Load => Verb::Load,
            Word::Create | Word::Alter => Verb::Define(false),
            Word::Drop | Word::Define | Word::Analyze | Word::Truncate => Verb::Define(true),
            Word::Explain => Verb::Explain,
            Word::Show => Verb::Show(0),
            Word::Call | Word::Use | Word::Handler | Word::Table => Verb::Rest,
            Word::Pair => Verb::Pair,
            Word::Single | Word::Values | Word::Set => Verb::Rest,
            _ => Verb::End,
        };
        if !matches!(self.verb, Verb::With | Verb::End) {
            self.operation(begin, behind);
        }
        self.awaits = match found {
            Word::Insert | Word::Replace | Word::Update => Awaits::Target,
            Word::Call | Word::Use | Word::Handler | Word::Table | Word::Truncate => {
                Awaits::LastTarget
            }
            _ => Awaits::Nothing,
        };
        if found == Word::Update {
            self.tables |= self.bit();
        } else if found == Word::Delete {
            self.queries |= self.bit();
        }
    }

    fn select(&mut self, begin: usize) {
        let bit = self.bit();
        self.queries |= bit;
        self.tables &= !bit;
        self.awaits = Awaits::Nothing;
        self.operation(begin, self.at);
    }

    /// Behind `SET`, `CALL name` and so on: only queries count.
    fn rest(&mut self, found: Word, begin: usize) {
        match found {
            // SHOW FULL TABLES FROM shop
            Word::From | Word::In if self.awaits != Awaits::Nothing => {}
            Word::Clause => self.awaits = Awaits::Nothing,
            _ if self.awaits != Awaits::Nothing => {
                self.at = begin;
                self.target();
            }
            Word::Select => self.select(begin),
            _ => _ = self.table_clause(found),
        }
    }

    fn inside(&mut self, found: Word, begin: usize) {
        match found {
            Word::Select => self.select(begin),
            Word::Modifier | Word::Into
                if self.awaits != Awaits::Nothing && self.verb != Verb::Query => {}
            Word::If => self.skip_if_exists(),
            Word::Values
                if self.verb == Verb::Insert
                    && self.depth == 0
                    && self.awaits == Awaits::Nothing =>
            {
                self.skip_rows();
            }
            Word::Set if self.verb == Verb::Update => self.tables &= !self.bit(),
            Word::On if self.verb == Verb::Index => self.awaits = Awaits::LastTarget,
            Word::Second if self.verb == Verb::Load => self.operation(begin, self.at),
            Word::Table if self.verb == Verb::Load => self.awaits = Awaits::LastTarget,
            Word::Using if self.verb == Verb::Delete && self.awaits == Awaits::Nothing => {
                // Not JOIN ... USING (column), which a parenthesis follows.
                let next = self.sql.get(scan::blank_end(self.sql, self.at).at);
                if next != Some(&b'(') {
                    self.tables |= self.bit();
                    self.awaits = Awaits::Target;
                }
            }
            _ if self.table_clause(found) => {}
            _ if self.awaits != Awaits::Nothing => {
                self.at = begin;
                self.target();
            }
            _ => {}
        }
    }

    /// `FROM`, `JOIN` and what ends a list of tables; false if the word is none of them.
    fn table_clause(&mut self, found: Word) -> bool {
        let bit = self.bit();
        match found {
            Word::From if self.queries & bit != 0 => {
                self.tables |= bit;
                self.awaits = Awaits::Target;
            }
            Word::From => {}
            Word::Join if self.tables & bit != 0 => self.awaits = Awaits::Target,
            Word::Join => {}
            Word::Clause => {
                self.tables &= !bit;
                self.awaits = Awaits::Nothing;
            }
            Word::Lateral if self.awaits == Awaits::Target => {}
            Word::Dual if self.awaits == Awaits::Target => self.awaits = Awaits::Nothing,
            _ => return false,
        }
        true
    }

    /// Behind `EXPLAIN` and its kin.
    fn explained(&mut self, found: Word, begin: usize) {
        match found {
            _ if found.is_main() || found == Word::With => self.first(found, begin),
            Word::Analyze | Word::Modifier => {}
            Word::Format => {
                let mut at = scan::blank_end(self.sql, self.at).at;
                if self.sql.get(at) == Some(&b'=') {
                    at = scan::blank_end(self.sql, at + 1).at;
                }
                self.at = self.word_end(at);
            }
            Word::For => self.verb = Verb::Rest,
            _ => {
                self.at = begin;
                self.awaits = Awaits::LastTarget;
                self.target();
            }
        }
    }

    /// Between `CREATE` and the kind of object.
    fn define(&mut self, found: Word, begin: usize, several: bool) {
        let list = if several { self.bit() } else { 0 };
        match found {
            Word::Table | Word::View => {
                self.operation(begin, self.at);
                // A query may follow CREATE TABLE.
                self.verb = Verb::Query;
                self.tables |= list;
                self.awaits = Awaits::Target;
                self.skip_if_exists_next();
            }
            Word::Index => {
                self.operation(begin, self.at);
                self.verb = Verb::Index;
            }
            Word::Routine => {
                self.operation(begin, self.at);
                self.skip_if_exists_next();
                self.verb = Verb::End;
                self.awaits = Awaits::LastTarget;
                self.at = scan::blank_end(self.sql, self.at).at;
                let next = self.sql.get(self.at);
                if next.is_some_and(|&byte| is_identifier(byte) || byte == b'`') {
                    self.target();
                }
                self.verb = Verb::End;
            }
            Word::Account => {
                self.operation(begin, self.at);
                self.verb = Verb::Rest;
            }
            // MariaDB's ANALYZE SELECT; not CREATE OR REPLACE.
            _ if found.is_main() && found != Word::Replace => self.first(found, begin),
            // TRUNCATE without TABLE.
            _ if self.awaits != Awaits::Nothing => {
                self.at = begin;
                self.target();
            }
            _ => {}
        }
    }

    /// `SHOW` has up to four words, the others of the kind two.
    fn follow_operation(&mut self, found: Word, begin: usize) {
        let Verb::Show(count) = self.verb else {
            self.verb = Verb::Rest;
            if found != Word::Name && found != Word::Clause {
                self.operation(begin, self.at);
                if found == Word::Table {
                    self.verb = Verb::Query;
                    self.tables |= self.bit();
                    self.awaits = Awaits::Target;
                }
            }
            return;
        };
        match found {
            Word::From | Word::In => {
                self.verb = Verb::Rest;
                self.awaits = Awaits::LastTarget;
            }
            Word::Clause | Word::On | Word::For | Word::Using => self.verb = Verb::Rest,
            Word::Account => {
                self.operation(begin, self.at);
                self.verb = Verb::Rest;
            }
            Word::Table | Word::View | Word::Routine if count > 0 => {
                self.operation(begin, self.at);
                self.verb = Verb::Rest;
                self.awaits = Awaits::LastTarget;
            }
            _ if count < 3 && self.sql[begin..self.at].is_ascii() => {
                self.operation(begin, self.at);
                self.verb = Verb::Show(count + 1);
            }
            _ => self.verb = Verb::Rest,
        }
    }

    /// Behind `IF` where `NOT EXISTS` or `EXISTS` may come.
    fn skip_if_exists(&mut self) {
        for _ in 0..2 {
            let begin = scan::blank_end(self.sql, self.at).at;
            let end = self.word_end(begin);
            match word(&self.sql[begin..end]) {
                Word::Not => self.at = end,
                Word::Exists => {
                    self.at = end;
                    return;
                }
                _ => return,
            }
        }
    }

    fn skip_if_exists_next(&mut self) {
        let begin = scan::blank_end(self.sql, self.at).at;
        let end = self.word_end(begin);
        if word(&self.sql[begin..end]) == Word::If {
            self.at = end;
            self.skip_if_exists();
        }
    }

    /// Behind `VALUES` of an `INSERT`: its rows are values, however many.
    fn skip_rows(&mut self) {
        self.awaits = Awaits::Nothing;
        loop {
            self.at = scan::blank_end(self.sql, self.at).at;
            match self.sql.get(self.at) {
                Some(b'(') => self.at = scan::parenthesis_end(self.sql, self.at).at,
                Some(b',') => self.at += 1,
                _ => return,
            }
        }
    }

    /// A name with its qualifiers begins at `at`, unless it is a table function's.
    fn target(&mut self) {
        let last = self.awaits == Awaits::LastTarget;
        self.awaits = Awaits::Nothing;
        let begin = self.at;
        let mut parts = 0;
        loop {
            self.at = match self.sql.get(self.at) {
                Some(b'`') => scan::backtick_end(self.sql, self.at).at,
                _ => self.word_end(self.at),
            };
            parts += 1;
            let dot = scan::blank_end(self.sql, self.at).at;
            let next = scan::blank_end(self.sql, (dot + 1).min(self.sql.len())).at;
            let goes_on = self.sql.get(dot) == Some(&b'.')
                && (self.sql.get(next)).is_some_and(|&byte| byte == b'`' || is_identifier(byte));
            if !goes_on || parts == 3 {
                break;
            }
            self.at = next;
        }
        let follows = self.sql.get(scan::blank_end(self.sql, self.at).at);
        // JSON_TABLE(...) is no table, but CALL p(...) and INSERT INTO t(...) have names.
        let is_function = follows == Some(&b'(')
            && self.tables & self.bit() != 0
            && self.verb != Verb::Insert
            && self.queries & self.bit() != 0;
        if !is_function {
            self.name(begin, self.at);
        }
        if last {
            self.verb = Verb::Rest;
        }
    }

    /// Writes an operation in upper case; a second word of it stands behind the first.
    fn operation(&mut self, begin: usize, end: usize) {
        let length = end - begin;
        if !self.make_room(length) {
            return;
        }
        for &byte in &self.sql[begin..end] {
            self.out.push(char::from(byte.to_ascii_uppercase()));
        }
    }

    /// Writes a name without needless back quotes and without blanks around its dots.
    fn name(&mut self, begin: usize, end: usize) {
        let sql = self.sql;
        let mut measured = 0;
        each_part(sql, begin, end, |text| measured += text.chars().count());
        if self.make_room(measured) {
            let out = &mut *self.out;
            each_part(sql, begin, end, |text| out.push_str(text));
        }
    }

    /// A space, and room for `chars` more; ends the walk if there is none.
    fn make_room(&mut self, chars: usize) -> bool {
        let space = usize::from(self.chars > 0);
        if chars == 0 || self.chars + space + chars > SUMMARY_CHARS_MAX {
            if chars > 0 {
                self.at = self.sql.len();
                self.verb = Verb::End;
            }
            return false;
        }
        if space == 1 {
            self.out.push(' ');
        }
        self.chars += space + chars;
        true
    }
}

/// The pieces of text that the name between `begin` and `end` is written as.
fn each_part(sql: &[u8], begin: usize, end: usize, mut each: impl FnMut(&str)) {
    let mut at = begin;
    while at < end {
        match sql[at] {
            b'`' => {
                let behind = scan::backtick_end(sql, at).at.min(end);
                let quoted = &sql[at..behind];
                let plain = quoted
                    .strip_prefix(b"`")
                    .and_then(|inner| inner.strip_suffix(b"`"))
                    .filter(|inner| !inner.is_empty() && inner.iter().all(|&b| is_identifier(b)));
                each_chunk(plain.unwrap_or(quoted), &mut each);
                at = behind;
            }
            b'.' => {
                each(".");
                at += 1;
            }
            byte if is_identifier(byte) => {
                let length = sql[at..end].iter().position(|&b| !is_identifier(b));
                let behind = length.map_or(end, |length| at + length);
                each_chunk(&sql[at..behind], &mut each);
                at = behind;
            }
            // Blanks and comments around a dot.
            _ => at = scan::blank_end(sql, at).at.clamp(at + 1, end.max(at + 1)),
        }
    }
}

/// Valid text as it is, anything else as U+FFFD, control characters too.
fn each_chunk(bytes: &[u8], each: &mut impl FnMut(&str)) {
    for chunk in bytes.utf8_chunks() {
        for (index, part) in chunk.valid().split(char::is_control).enumerate() {
            if index > 0 {
                each("\u{fffd}");
            }
            each(part);
        }
        if !chunk.invalid().is_empty() {
            each("\u{fffd}");
        }
    }
}
