//! Which shape has this statement, whatever its values?
//!
//! One pass over the bytes, eager output: bytes are copied in lower case, values become `?`, and a
//! few decisions are taken on what was already written. A *run* is what was written since the last
//! white space or value; keywords are recognised when a run ends, by its length first.
//! Neighbours: `values` and `lists` find what becomes a mark, `keywords` says what a run means;
//! `bytes` classifies, `scan` finds ends; `truncated` wraps this for cut texts.
//! Invariant: `at` grows with every step, `run_start <= out.len()`, and no literal is written.

use crate::bytes::{CLASS, Class, Copied, is_space};
use crate::scan;
use keywords::may_be_keyword;

mod keywords;
mod lists;
mod values;

/// What the end of the text cut off; meaningful only if the text is known to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing behind this point can change the fingerprint (`CALL`, `USE`).
    Decided,
    /// Inside or directly behind the rows of `VALUES`.
    Rows,
    /// Inside or directly behind the list of `IN`.
    List,
    /// Where the last token is whole, as inside a comment.
    Token,
    /// Anywhere else; the run from this offset of the output may be half a token.
    Run(usize),
}

/// The last run, as far as it matters for the meaning of the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Other,
    IsOrNot,
    Order,
    Key,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Clause {
    Other,
    /// `ASC` is dropped.
    OrderBy,
    /// `VALUES(column)` is a function and not a list.
    OnDuplicateKeyUpdate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    In,
    Values,
}

/// Sub-queries in `IN` deeper than this are taken for value lists.
const SUBQUERY_DEPTH_MAX: usize = 16;

/// So much room is made at a time for copying.
const COPY_ROOM: usize = 256;

struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    out: &'a mut Vec<u8>,
    run_start: usize,
    previous: Previous,
    clause: Clause,
    /// Open parentheses in each `IN (SELECT ...)` around this point.
    subqueries: [u32; SUBQUERY_DEPTH_MAX],
    subquery_depth: usize,
    /// Inside `/*! ... */`.
    in_code: bool,
    /// Where the output ended with a value list, if nothing was written since.
    list: Option<(usize, List)>,
}

/// Writes the fingerprint of `sql` to `out` and tells where the text ended.
pub(crate) fn write(sql: &[u8], out: &mut Vec<u8>) -> Ending {
    out.clear();
    let mut lexer = Lexer {
        sql,
        at: 0,
        out,
        run_start: 0,
        previous: Previous::Other,
        clause: Clause::Other,
        subqueries: [0; SUBQUERY_DEPTH_MAX],
        subquery_depth: 0,
        in_code: false,
        list: None,
    };
    let ending = lexer.run();
    while out.last().is_some_and(|&byte| is_space(byte)) {
        out.pop();
    }
    ending
}

impl Lexer<'_> {
    fn run(&mut self) -> Ending {
        loop {
            let before = self.at.checked_sub(1).map(|before| self.sql[before]);
            self.copy(before.is_some_and(|byte| Copied::of(byte).is_name()));
            let Some(&byte) = self.sql.get(self.at) else {
                break;
            };
            // Most stops are spaces: asking first is cheaper than a jump that is hard to predict.
            let ended = if byte == b' ' {
                self.space()
            } else {
                self.stop(byte)
            };
            if let Some(ending) = ended {
                return ending;
            }
        }
        let list = self.list.filter(|&(end, _)| end == self.out.len());
        let run_start = self.run_start;
        if let Some(ending) = self.end_run() {
            return ending;
        }
        match list {
            Some((_, List::Values)) => Ending::Rows,
            Some((_, List::In)) => Ending::List,
            None => Ending::Run(run_start.min(self.out.len())),
        }
    }

    #[inline(always)]
    fn stop(&mut self, byte: u8) -> Option<Ending> {
        match CLASS[byte as usize] {
            Class::Space => self.space(),
            Class::Digit => self.digit(),
            Class::Quote => self.string(),
            Class::Open => self.open(),
            Class::Close => self.close(),
            Class::Backtick => self.backtick(),
            Class::Sign => self.sign(byte),
            Class::Dot => self.dot(),
            Class::Slash => self.slash(),
            Class::Hash => self.comment(),
            Class::Letter => self.letters(),
            // Only where the copying loop ran out of room.
            Class::Word | Class::Plain => None,
        }
    }

    #[inline(always)]
    fn plain(&mut self, byte: u8) -> Option<Ending> {
        self.out.push(byte);
        self.at += 1;
        None
    }

    /// Copies names, keywords and punctuation in lower case up to the first byte that stops it.
    ///
    /// `in_name`: a digit or a dot at the start belongs to a name.
    #[inline(always)]
    fn copy(&mut self, in_name: bool) {
        let source = &self.sql[self.at..];
        let written = self.out.len();
        self.out.reserve(source.len().min(COPY_ROOM));
        let room = self.out.spare_capacity_mut();
        let limit = source.len().min(room.len());
        let (source, room) = (&source[..limit], &mut room[..limit]);
        let mut copied = 0;
        while copied < limit {
            let kind = Copied::of(source[copied]);
            // Everything else is asked only here, which keeps the loop over letters short.
            if kind.stops() {
                let before = copied.checked_sub(1).map(|before| source[before]);
                if kind.lower() == b' ' {
                    // Most words are followed by a single space and mean nothing.
                    let run = written + copied - self.run_start;
                    let means_nothing =
                        before.is_some_and(|last| run > 0 && !may_be_keyword(last, run));
                    if !means_nothing {
                        break;
                    }
                    self.previous = Previous::Other;
                    self.run_start = written + copied + 1;
                } else if !kind.goes_on_name()
                    || !before.map_or(in_name, |before| Copied::of(before).is_name())
                {
                    break;
                }
            }
            room[copied].write(kind.lower());
            copied += 1;
        }
        // SAFETY: the loop wrote the `copied` bytes behind the length, within the capacity.
        unsafe { self.out.set_len(self.out.len() + copied) };
        self.at += copied;
    }

    fn letters(&mut self) -> Option<Ending> {
        let rest = &self.sql[self.at..];
        let count = rest.iter().position(u8::is_ascii).unwrap_or(rest.len());
        push_lower(self.out, &rest[..count]);
        self.at += count;
        None
    }

    #[inline(always)]
    fn space(&mut self) -> Option<Ending> {
        self.at += 1;
        while self.sql.get(self.at).is_some_and(|&byte| is_space(byte)) {
            self.at += 1;
        }
        let ended = self.end_run();
        self.separate();
        ended
    }

    /// A single space, but none at the start and none after another.
    #[inline(always)]
    fn separate(&mut self) {
        if self.out.last().is_some_and(|&byte| byte != b' ') {
            // The space behind a list still belongs to it.
            let behind_list = self.list.is_some_and(|(end, _)| end == self.out.len());
            self.out.push(b' ');
            if behind_list {
                self.list = self.list.map(|(end, list)| (end + 1, list));
            }
        }
        self.run_start = self.out.len();
    }

    fn backtick(&mut self) -> Option<Ending> {
        let end = scan::backtick_end(self.sql, self.at);
        push_lower(self.out, &self.sql[self.at..end.at]);
        self.at = end.at;
        self.run_start = if end.open {
            self.run_start
        } else {
            self.out.len()
        };
        None
    }

    #[inline(always)]
    fn slash(&mut self) -> Option<Ending> {
        if self.in_code && self.at > 0 && self.sql[self.at - 1] == b'*' {
            self.in_code = false;
            return self.plain(b'/');
        }
        match self.sql.get(self.at + 1..) {
            Some([b'*', b'!', ..]) => self.code(),
            Some([b'*', ..]) => self.comment(),
            _ => self.plain(b'/'),
        }
    }

    /// `/*!50003 ... */` is executed by the server: kept, with its version.
    #[cold]
    fn code(&mut self) -> Option<Ending> {
        self.in_code = true;
        let begin = self.at;
        self.at += 3;
        while self.sql.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.out.extend_from_slice(&self.sql[begin..self.at]);
        None
    }

    /// A comment goes; it separates what would otherwise become one token.
    #[cold]
    fn comment(&mut self) -> Option<Ending> {
        let Some(end) = scan::comment_end(self.sql, self.at) else {
            return self.plain(self.sql[self.at]);
        };
        self.at = end.at;
        let next = self.sql.get(self.at);
        let joins = next.is_some_and(|&byte| !is_space(byte) && !b",;()".contains(&byte))
            && self
                .out
                .last()
                .is_some_and(|&byte| !b" ,;(".contains(&byte));
        if joins || end.open {
            let ended = self.end_run();
            self.separate();
            if ended.is_some() {
                return ended;
            }
        }
        let in_list = self
            .list
            .is_some_and(|(list_end, _)| list_end == self.out.len());
        (end.open && !in_list).then_some(Ending::Token)
    }

    #[inline(always)]
    fn open(&mut self) -> Option<Ending> {
        if self.clause != Clause::OnDuplicateKeyUpdate
            && let Some(list) = self.list_keyword()
        {
            return self.list(list);
        }
        if self.subquery_depth > 0 {
            let open = &mut self.subqueries[self.subquery_depth - 1];
            *open = open.saturating_add(1);
        }
        self.plain(b'(')
    }

    #[inline(always)]
    fn close(&mut self) -> Option<Ending> {
        if self.subquery_depth > 0 {
            return self.close_in_subquery();
        }
        self.plain(b')')
    }
}

/// Appends a name in lower case, letters beyond ASCII too; bytes that are no UTF-8 stay.
#[inline(always)]
fn push_lower(out: &mut Vec<u8>, name: &[u8]) {
    let begin = out.len();
    let mut seen = 0;
    out.extend(name.iter().map(|&byte| {
        seen |= byte;
        Copied::of(byte).lower()
    }));
    if !seen.is_ascii() {
        out.truncate(begin);
        push_lower_unicode(out, name);
    }
}

#[cold]
fn push_lower_unicode(out: &mut Vec<u8>, name: &[u8]) {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            // The simple mapping, one letter for one: only U+0130 has a longer one.
            let lower = letter.to_lowercase().next().unwrap_or(letter);
            out.extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
}
