//! Where does this literal, comment or value list end?
//!
//! Pure functions from a text and a position to the position behind the thing that begins there.
//! Neighbours: `fingerprint` decides what the thing becomes, `redact` only wants it skipped.
//! Invariant: a returned position is at most `sql.len()` and beyond the one given, so every loop
//! over them ends; an unterminated thing ends at the end of the text.

use crate::bytes::{is_identifier, is_numeric, is_space, stops_list};
use memchr::{memchr, memchr2};

/// An end, and whether the text ran out before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) at: usize,
    pub(crate) open: bool,
}

impl End {
    fn closed(at: usize) -> Self {
        Self { at, open: false }
    }

    fn open(sql: &[u8]) -> Self {
        Self {
            at: sql.len(),
            open: true,
        }
    }
}

/// Behind the string literal whose opening quote is at `at`. Knows `\` escapes and doubled quotes.
#[inline]
pub(crate) fn string_end(sql: &[u8], at: usize) -> End {
    let quote = sql[at];
    let mut at = at + 1;
    while let Some(found) = memchr2(quote, b'\\', sql.get(at..).unwrap_or_default()) {
        at += found;
        if sql[at] == quote && sql.get(at + 1) != Some(&quote) {
            return End::closed(at + 1);
        }
        at += 2; // an escape and what it escapes, or a doubled quote
    }
    End::open(sql)
}

/// Behind the quoted identifier whose opening backtick is at `at`; a doubled backtick is inside.
#[inline]
pub(crate) fn backtick_end(sql: &[u8], at: usize) -> End {
    let mut at = at + 1;
    while let Some(found) = memchr(b'`', sql.get(at..).unwrap_or_default()) {
        at += found;
        if sql.get(at + 1) != Some(&b'`') {
            return End::closed(at + 1);
        }
        at += 2;
    }
    End::open(sql)
}

/// Behind the comment that begins at `at`, or `None` if none does.
///
/// `/*! ... */` is code, not a comment, and gives `None` too.
#[inline]
pub(crate) fn comment_end(sql: &[u8], at: usize) -> Option<End> {
    match sql[at] {
        b'#' => Some(line_end(sql, at + 1)),
        b'-' if is_dash_comment(sql, at) => Some(line_end(sql, at + 2)),
        b'/' if sql.get(at + 1) == Some(&b'*') && sql.get(at + 2) != Some(&b'!') => {
            Some(block_end(sql, at + 2))
        }
        _ => None,
    }
}

/// `--` begins a comment only before white space, a control byte or the end of the text.
#[inline]
pub(crate) fn is_dash_comment(sql: &[u8], at: usize) -> bool {
    sql[at] == b'-'
        && sql.get(at + 1) == Some(&b'-')
        && sql.get(at + 2).is_none_or(|&byte| byte <= b' ')
}

fn line_end(sql: &[u8], at: usize) -> End {
    match memchr(b'\n', &sql[at..]) {
        Some(found) => End::closed(at + found + 1),
        None => End::open(sql),
    }
}

fn block_end(sql: &[u8], begin: usize) -> End {
    let mut at = begin;
    while let Some(found) = memchr(b'/', &sql[at..]) {
        at += found;
        if at > begin && sql[at - 1] == b'*' {
            return End::closed(at + 1);
        }
        at += 1;
    }
    End::open(sql)
}

/// Behind white space and comments.
#[inline]
pub(crate) fn blank_end(sql: &[u8], mut at: usize) -> End {
    while let Some(&byte) = sql.get(at) {
        if is_space(byte) {
            at += 1;
        } else if let Some(comment) = comment_end(sql, at) {
            if comment.open {
                return comment;
            }
            at = comment.at;
        } else {
            return End::closed(at);
        }
    }
    End::open(sql)
}

/// Behind the `)` that closes the `(` at `open`, over nested ones, literals and comments.
pub(crate) fn parenthesis_end(sql: &[u8], open: usize) -> End {
    let mut depth = 1_u32;
    let mut at = open + 1;
    loop {
        while let Some(&byte) = sql.get(at) {
            if stops_list(byte) {
                break;
            }
            at += 1;
        }
        let Some(&byte) = sql.get(at) else {
            return End::open(sql);
        };
        let skipped = match byte {
            b'(' => {
                depth = depth.saturating_add(1);
                End::closed(at + 1)
            }
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return End::closed(at + 1);
                }
                End::closed(at + 1)
            }
            b'\'' | b'"' => string_end(sql, at),
            b'`' => backtick_end(sql, at),
            _ => comment_end(sql, at).unwrap_or(End::closed(at + 1)),
        };
        if skipped.open {
            return skipped;
        }
        at = skipped.at;
    }
}

/// Behind the number that begins at `at`, or `None` if it is an identifier such as `5min`.
///
/// `at` is a digit, or a dot before one. A difference or a range of numbers without spaces
/// (`5-3`, `2026-11-21`) counts as one number, as the reference has it.
#[inline]
pub(crate) fn number_end(sql: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    while sql.get(end).is_some_and(u8::is_ascii_digit) {
        end += 1;
    }
    match sql.get(end) {
        Some(&byte) if is_identifier(byte) || matches!(byte, b'.' | b'-') => {
            odd_number_end(sql, at)
        }
        _ => Some(end),
    }
}

/// The same for what is more than a row of digits.
fn odd_number_end(sql: &[u8], at: usize) -> Option<usize> {
    let mut end = numeral_end(sql, at)?;
    while sql.get(end) == Some(&b'-') {
        let mut next = end + 1;
        while sql.get(next) == Some(&b'-') {
            next += 1;
        }
        if !begins_number(sql, next) {
            break;
        }
        match numeral_end(sql, next) {
            Some(further) => end = further,
            None => break,
        }
    }
    Some(end)
}

/// Does a digit, or a dot and a digit, stand at `at`?
#[inline]
pub(crate) fn begins_number(sql: &[u8], at: usize) -> bool {
    match sql.get(at) {
        Some(b'0'..=b'9') => true,
        Some(b'.') => sql.get(at + 1).is_some_and(u8::is_ascii_digit),
        _ => false,
    }
}

#[inline]
fn numeral_end(sql: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin;
    while at < sql.len() && is_numeric(sql[at]) {
        at += 1;
    }
    let has_exponent = matches!(sql[at - 1], b'e' | b'E') && at - begin > 1;
    if has_exponent && matches!(sql.get(at), Some(b'+' | b'-')) && !is_hexadecimal(sql, begin) {
        let mut end = at + 1;
        while sql.get(end).is_some_and(u8::is_ascii_digit) {
            end += 1;
        }
        if end > at + 1 {
            at = end;
        }
    }
    let is_word = sql.get(at).is_some_and(|&byte| is_identifier(byte));
    (!is_word).then_some(at)
}

fn is_hexadecimal(sql: &[u8], begin: usize) -> bool {
    sql[begin] == b'0' && matches!(sql.get(begin + 1), Some(b'x' | b'X'))
}
