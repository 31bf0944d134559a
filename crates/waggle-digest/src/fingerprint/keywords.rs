//! What does the run that ends here mean for what was written and what follows?
//!
//! Neighbour: the lexer calls `end_run` at white space, where keywords end; a run is compared as
//! it was written, in lower case. Invariant: only the current run is rewritten.

use super::{Clause, Ending, Lexer, Previous};
use crate::bytes::{is_identifier, is_space};
use crate::scan;

impl Lexer<'_> {
    /// Takes note of the run that ends here, and rewrites it where it is a value or superfluous.
    #[inline(always)]
    pub(super) fn end_run(&mut self) -> Option<Ending> {
        let run = &self.out[self.run_start..];
        let &last = run.last()?;
        if !may_be_keyword(last, run.len()) {
            self.previous = Previous::Other;
            return None;
        }
        self.end_keyword()
    }

    fn end_keyword(&mut self) -> Option<Ending> {
        let run = &self.out[self.run_start..];
        let mut previous = Previous::Other;
        match run.len() {
            2 => match run {
                b"is" => previous = Previous::IsOrNot,
                b"by" if self.previous == Previous::Order => self.clause = Clause::OrderBy,
                _ => {}
            },
            3 => match run {
                b"not" => previous = Previous::IsOrNot,
                b"key" => previous = Previous::Key,
                b"asc" if self.clause == Clause::OrderBy => {
                    self.out.truncate(self.run_start);
                    return None;
                }
                b"use" if self.run_start == 0 => return Some(self.use_database()),
                _ => {}
            },
            4 => match run {
                b"null" if self.previous != Previous::IsOrNot => {
                    self.replace_run(b"?");
                    return None;
                }
                b"asc," if self.clause == Clause::OrderBy => {
                    self.out.truncate(self.run_start.saturating_sub(1));
                    self.out.push(b',');
                    return None;
                }
                b"call" if self.run_start == 0 => return self.call(),
                _ => {}
            },
            5 => match run {
                b"order" => previous = Previous::Order,
                b"null," => {
                    self.replace_run(b"?,");
                    return None;
                }
                _ => {}
            },
            6 if run == b"update" && self.previous == Previous::Key => {
                self.clause = Clause::OnDuplicateKeyUpdate;
            }
            13 if run == b"administrator" && self.run_start == 0 => {
                self.previous = previous;
                return self.administrator_command();
            }
            _ => {}
        }
        self.previous = previous;
        None
    }

    fn replace_run(&mut self, with: &[u8]) {
        self.out.truncate(self.run_start);
        self.out.extend_from_slice(with);
    }

    #[cold]
    fn use_database(&mut self) -> Ending {
        self.out.clear();
        self.out.extend_from_slice(b"use ?");
        Ending::Decided
    }

    /// `CALL name(...)` keeps the name only, in its own case.
    #[cold]
    fn call(&mut self) -> Option<Ending> {
        let begin = scan::blank_end(self.sql, self.at).at;
        let mut end = begin;
        while let Some(&byte) = self.sql.get(end) {
            match byte {
                b'(' if end > begin => {
                    self.out.push(b' ');
                    self.out.extend_from_slice(&self.sql[begin..end]);
                    return Some(Ending::Decided);
                }
                b'`' => end = scan::backtick_end(self.sql, end).at,
                b'.' => end += 1,
                _ if is_identifier(byte) => end += 1,
                _ => break,
            }
        }
        None
    }

    /// The slow log's `administrator command: Ping` is no SQL and stays as it is.
    #[cold]
    fn administrator_command(&mut self) -> Option<Ending> {
        let rest = &self.sql[self.at..];
        let colon = rest
            .iter()
            .position(|&byte| byte == b':' || is_space(byte))?;
        if rest[colon] != b':' {
            return None;
        }
        self.out.clear();
        self.out.extend_from_slice(self.sql);
        self.run_start = 0;
        Some(Ending::Token)
    }
}

/// Whether a run of this length that ends so, in either case, can be one `end_keyword` knows.
#[inline(always)]
pub(super) fn may_be_keyword(last: u8, length: usize) -> bool {
    /// For each last byte the lengths, one bit each.
    static LENGTHS: [u16; 256] = {
        let mut table = [0_u16; 256];
        let mut at = 0;
        while at < KEYWORDS.len() {
            let keyword = KEYWORDS[at];
            let last = keyword[keyword.len() - 1];
            table[last as usize] |= 1 << keyword.len();
            table[last.to_ascii_uppercase() as usize] |= 1 << keyword.len();
            at += 1;
        }
        table
    };
    length < 16 && LENGTHS[last as usize] >> length & 1 != 0
}

/// The runs that `end_keyword` knows.
const KEYWORDS: [&[u8]; 13] = [
    b"is",
    b"by",
    b"not",
    b"key",
    b"asc",
    b"asc,",
    b"use",
    b"null",
    b"null,",
    b"call",
    b"order",
    b"update",
    b"administrator",
];
