//! What did the application write about this statement into its comments?
//!
//! Comments in sqlcommenter's form, `/*key='value',...*/`, before the statement or behind it; a
//! W3C `traceparent` among them. Neighbours: `scan` finds the comments; kept samples carry the
//! pairs. Invariants: time is linear, what is returned is bounded, hints (`/*+ */`), executable
//! comments (`/*! */`, `/*M! */`) and anything inside a literal or in the middle of a statement are
//! ignored, and a comment that is not wholly in the form gives nothing.

use crate::bytes::{is_space, stops_list};
use crate::scan;
use memchr::memmem;

/// At most so many pairs of one statement.
pub const COMMENT_PAIRS_MAX: usize = 32;
/// A comment that is longer, in bytes, is ignored.
pub const COMMENT_BYTES_MAX: usize = 8192;
const KEY_BYTES_MAX: usize = 256;
/// At most so many comments before a statement, and behind it, are read.
const COMMENTS_MAX: usize = 8;

/// Key and value of every pair in the comments before and behind the statement, in order, decoded.
///
/// `sql` is the client's text, also one that was cut: a comment without its end is ignored. Bytes
/// that are no UTF-8 after decoding become U+FFFD.
#[must_use]
pub fn comments(sql: &[u8]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    // Most statements have none, and this look costs next to nothing.
    if memmem::find(sql, b"/*").is_none() {
        return pairs;
    }
    let found = outer_comments(sql);
    for body in found.into_iter().flatten() {
        let before = pairs.len();
        if read_pairs(body, &mut pairs).is_none() {
            pairs.truncate(before);
        }
        pairs.truncate(COMMENT_PAIRS_MAX);
    }
    pairs
}

/// The bodies of block comments before the first token, and behind the last one.
fn outer_comments(sql: &[u8]) -> [Option<&[u8]>; 2 * COMMENTS_MAX] {
    let mut found = [None; 2 * COMMENTS_MAX];
    let (mut leading, mut trailing) = (0, 0);
    let mut token_seen = false;
    let mut at = 0;
    while let Some(&byte) = sql.get(at) {
        if is_space(byte) || byte == b';' {
            at += 1;
            continue;
        }
        if let Some(end) = scan::comment_end(sql, at) {
            if !end.open && byte == b'/' && is_note(&sql[at..end.at]) {
                let body = &sql[at + 2..end.at - 2];
                let (count, base) = if token_seen {
                    (&mut trailing, COMMENTS_MAX)
                } else {
                    (&mut leading, 0)
                };
                if *count < COMMENTS_MAX {
                    found[base + *count] = Some(body);
                    *count += 1;
                }
            }
            at = end.at;
            continue;
        }
        (token_seen, trailing) = (true, 0);
        at = token_end(sql, at);
    }
    for slot in &mut found[COMMENTS_MAX + trailing..] {
        *slot = None;
    }
    found
}

/// A closed block comment that is neither a hint nor code, and not too long.
fn is_note(comment: &[u8]) -> bool {
    (4..=COMMENT_BYTES_MAX).contains(&comment.len())
        && !matches!(comment[2], b'+' | b'!')
        && !comment[2..].starts_with(b"M!")
}

/// Behind the literal or the row of other bytes that begins at `at`.
fn token_end(sql: &[u8], at: usize) -> usize {
    match sql[at] {
        b'\'' | b'"' => scan::string_end(sql, at).at,
        b'`' => scan::backtick_end(sql, at).at,
        b'/' if sql[at..].starts_with(b"/*!") => at + 3,
        _ => {
            let rest = &sql[at + 1..];
            let stop =
                |&byte: &u8| stops_list(byte) && !matches!(byte, b'(' | b')') || byte == b';';
            at + 1 + rest.iter().position(stop).unwrap_or(rest.len())
        }
    }
}

/// Appends the pairs of one comment; `None` if it is not in the form.
fn read_pairs(body: &[u8], pairs: &mut Vec<(String, String)>) -> Option<()> {
    let mut rest = body.trim_ascii();
    loop {
        let equals = memchr::memchr(b'=', rest)?;
        let key = rest[..equals].trim_ascii();
        let is_key = !key.is_empty()
            && key.len() <= KEY_BYTES_MAX
            && !key.iter().any(|&byte| b"',\" \t\r\n".contains(&byte));
        let value = rest[equals + 1..].trim_ascii_start().strip_prefix(b"'")?;
        let end = value_end(value)?;
        if !is_key {
            return None;
        }
        pairs.push((decoded(key), decoded(&value[..end])));
        rest = value[end + 1..].trim_ascii_start();
        if rest.is_empty() || pairs.len() >= 2 * COMMENT_PAIRS_MAX {
            return Some(());
        }
        rest = rest.strip_prefix(b",")?.trim_ascii_start();
    }
}

/// The place of the quote that ends the value; one behind a backslash does not.
fn value_end(value: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *value.get(at)? {
            b'\'' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Without backslashes before quotes, and with percent signs resolved.
fn decoded(raw: &[u8]) -> String {
    let digit = |at: usize| raw.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (b'\\', ..) if raw.get(at + 1) == Some(&b'\'') => at += 1,
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    match String::from_utf8(out) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// Where a statement belongs in a distributed trace (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace; never zero.
    pub trace_id: [u8; 16],
    /// The span of the client that sent the statement; never zero.
    pub span_id: [u8; 8],
    /// Bit 0: the trace is sampled.
    pub flags: u8,
}

impl TraceParent {
    /// Reads `00-<32 hexadecimal digits>-<16>-<2>`; `None` for what the standard calls invalid.
    ///
    /// A later version than 00 may have more behind the flags.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let version = hexadecimal::<1>(text.get(..2)?)?[0];
        let is_form = match text.len() {
            55 => version != 0xff,
            56.. => version != 0 && version != 0xff && text[55] == b'-',
            _ => false,
        };
        if !is_form || [text[2], text[35], text[52]] != *b"---" {
            return None;
        }
        let found = Self {
            trace_id: hexadecimal(&text[3..35])?,
            span_id: hexadecimal(&text[36..52])?,
            flags: hexadecimal::<1>(&text[53..55])?[0],
        };
        (found.trace_id != [0; 16] && found.span_id != [0; 8]).then_some(found)
    }

    /// The first valid `traceparent` among `pairs`, as [`comments`] returns them.
    #[must_use]
    pub fn among(pairs: &[(String, String)]) -> Option<Self> {
        pairs
            .iter()
            .filter(|(key, _)| key == "traceparent")
            .find_map(|(_, value)| Self::parse(value))
    }
}

/// Lower-case digits only, as the standard has it.
fn hexadecimal<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let (pairs, []) = text.as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in out.iter_mut().zip(pairs) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}
