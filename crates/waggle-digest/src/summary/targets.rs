//! How are operations and the names of their targets written?
//!
//! Neighbours: the parent and `grammar` say where one stands. Invariants: a name is written whole,
//! or the summary ends before it; what is written is valid text without control characters.

use super::{Awaits, SUMMARY_CHARS_MAX, Verb, Walk};
use crate::bytes::is_identifier;
use crate::scan;

impl Walk<'_> {
    /// A name with its qualifiers begins at `at`, unless it is a table function's.
    pub(super) fn target(&mut self) {
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
    pub(super) fn operation(&mut self, begin: usize, end: usize) {
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
