//! Does a value list begin with this parenthesis, and where does it end?
//!
//! `IN (...)` and the rows of `VALUES (...), (...)` become one `(?+)` unread; a sub-query in `IN`
//! is read like the rest, as a statement within. Neighbours: the lexer calls this at parentheses,
//! `scan` skips. Invariant: the text is skipped once, so that long lists cost what skipping costs.

use super::{Clause, Ending, Lexer, List, Previous, SUBQUERY_DEPTH_MAX};
use crate::bytes::is_identifier;
use crate::scan;

impl Lexer<'_> {
    /// The keyword before this parenthesis, if it begins a value list.
    #[inline(always)]
    pub(super) fn list_keyword(&self) -> Option<List> {
        let out = match self.out.as_slice() {
            [out @ .., b' '] => out,
            out => out,
        };
        let (before, list) = match out {
            [before @ .., b'i', b'n'] => (before, List::In),
            [before @ .., b'v', b'a', b'l', b'u', b'e', b's'] => (before, List::Values),
            [before @ .., b'v', b'a', b'l', b'u', b'e'] => (before, List::Values),
            _ => return None,
        };
        let alone = matches!(before.last(), None | Some(b' ' | b')' | b'`' | b'?'));
        alone.then_some(list)
    }

    pub(super) fn list(&mut self, list: List) -> Option<Ending> {
        if self.out.last() == Some(&b' ') {
            self.out.pop();
        }
        self.clause = Clause::Other;
        self.previous = Previous::Other;
        let inside = scan::blank_end(self.sql, self.at + 1).at;
        if self.begins_select(inside) && self.subquery_depth < SUBQUERY_DEPTH_MAX {
            self.subqueries[self.subquery_depth] = 0;
            self.subquery_depth += 1;
            self.out.push(b'(');
            self.run_start = self.out.len();
            self.at = inside;
            return None;
        }
        let empty = self.sql.get(inside) == Some(&b')');
        let mut end = scan::parenthesis_end(self.sql, self.at);
        while list == List::Values && !end.open {
            let Some(row) = self.next_row(end.at) else {
                break;
            };
            end = scan::parenthesis_end(self.sql, row);
        }
        self.at = end.at;
        self.out
            .extend_from_slice(if empty { b"()" } else { b"(?+)" });
        self.run_start = self.out.len();
        self.list = Some((self.out.len(), list));
        None
    }

    /// The `(` of a further row of `VALUES` behind `at`, or the end if a comma ends the text.
    fn next_row(&mut self, at: usize) -> Option<usize> {
        let comma = scan::blank_end(self.sql, at).at;
        if self.sql.get(comma) != Some(&b',') {
            return None;
        }
        let row = scan::blank_end(self.sql, comma + 1).at;
        self.sql
            .get(row)
            .is_none_or(|&byte| byte == b'(')
            .then_some(row)
    }

    fn begins_select(&self, at: usize) -> bool {
        self.sql[at..]
            .split_first_chunk::<6>()
            .is_some_and(|(word, behind)| {
                word.eq_ignore_ascii_case(b"select")
                    && behind.first().is_none_or(|&byte| !is_identifier(byte))
            })
    }

    pub(super) fn close_in_subquery(&mut self) -> Option<Ending> {
        let open = &mut self.subqueries[self.subquery_depth - 1];
        if *open > 0 {
            *open -= 1;
            return self.plain(b')');
        }
        self.subquery_depth -= 1;
        let ended = self.end_run();
        if self.out.last() == Some(&b' ') {
            self.out.pop();
        }
        self.clause = Clause::Other;
        self.previous = Previous::Other;
        self.plain(b')');
        self.run_start = self.out.len();
        ended
    }
}
