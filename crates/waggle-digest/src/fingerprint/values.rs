//! Is this a value, and where does it end?
//!
//! Numbers, with the sign directly before them, and strings become `?`; what only looks like a
//! number and is a name is copied. Neighbours: the lexer calls these at digits, dots, signs and
//! quotes, `scan` finds ends. Invariant: no byte of a value is written.

use super::{Ending, Lexer, Previous};
use crate::bytes::is_identifier;
use crate::scan;

impl Lexer<'_> {
    #[inline(always)]
    pub(super) fn digit(&mut self) -> Option<Ending> {
        match scan::number_end(self.sql, self.at) {
            Some(end) => {
                self.at = end;
                self.value();
                None
            }
            None => {
                // `5min`, or `2024.sales`: a name although it begins with a digit.
                self.copy(true);
                None
            }
        }
    }

    /// Writes a value whose end is `at`, with the space that usually follows.
    #[inline(always)]
    fn value(&mut self) {
        if self.sql.get(self.at) == Some(&b' ') {
            self.at += 1;
            self.out.extend_from_slice(b"? ");
        } else {
            self.out.push(b'?');
        }
        self.run_start = self.out.len();
        self.previous = Previous::Other;
    }

    /// A dot between two names, or at the start of a fraction.
    #[inline(always)]
    pub(super) fn dot(&mut self) -> Option<Ending> {
        let follows_name =
            self.at > 0 && (is_identifier(self.sql[self.at - 1]) || self.sql[self.at - 1] == b'`');
        if !follows_name && scan::begins_number(self.sql, self.at) {
            return self.digit();
        }
        // Behind a name even `.5min` and `.5` are names.
        self.plain(b'.')
    }

    #[inline(always)]
    pub(super) fn string(&mut self) -> Option<Ending> {
        let end = scan::string_end(self.sql, self.at);
        if let [before @ .., b'x' | b'b'] = &self.out[self.run_start..] {
            let alone = before.last().is_none_or(|&byte| !is_identifier(byte));
            if alone && self.at > 0 && is_identifier(self.sql[self.at - 1]) {
                self.out.pop(); // x'1F' and b'101' are values as a whole
            }
        }
        self.at = end.at;
        self.value();
        None
    }

    #[inline(always)]
    pub(super) fn sign(&mut self, byte: u8) -> Option<Ending> {
        if byte == b'-' && self.sql.get(self.at + 1) == Some(&b'-') {
            if scan::is_dash_comment(self.sql, self.at) {
                return self.comment();
            }
            return self.plain(byte);
        }
        let doubled = byte == b'-' && self.at > 0 && self.sql[self.at - 1] == b'-';
        if !doubled
            && scan::begins_number(self.sql, self.at + 1)
            && let Some(end) = scan::number_end(self.sql, self.at + 1)
        {
            self.at = end;
            self.value();
            return None;
        }
        self.plain(byte)
    }
}
