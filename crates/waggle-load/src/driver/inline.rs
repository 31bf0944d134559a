//! Statements whose parameters are put into the text: where a server does not prepare them, or
//! where it should not.
//!
//! Invariant: a value can end neither its literal nor the statement, whatever the session's SQL
//! mode is: no backslash is ever written.

use super::Value;

/// A statement cut at its parameter markers.
#[derive(Debug)]
pub(super) struct Inline {
    /// One more than there are parameters.
    parts: Vec<Vec<u8>>,
    text: Vec<u8>,
}

impl Inline {
    /// Cuts at every `?` outside of quotes and comments.
    pub(super) fn new(sql: &[u8]) -> Inline {
        let mut parts = vec![Vec::new()];
        let mut at = 0;
        while at < sql.len() {
            let length = skipped(&sql[at..]);
            if length == 0 && sql[at] == b'?' {
                parts.push(Vec::new());
                at += 1;
                continue;
            }
            let length = length.max(1);
            if let Some(part) = parts.last_mut() {
                part.extend_from_slice(&sql[at..at + length]);
            }
            at += length;
        }
        let text = Vec::new();
        Inline { parts, text }
    }

    pub(super) fn params(&self) -> u16 {
        u16::try_from(self.parts.len() - 1).unwrap_or(u16::MAX)
    }

    /// The text with these values in place of the markers; `None` when their number is wrong.
    pub(super) fn with(&mut self, values: &[Value<'_>]) -> Option<&[u8]> {
        if values.len() + 1 != self.parts.len() {
            return None;
        }
        self.text.clear();
        for (index, part) in self.parts.iter().enumerate() {
            self.text.extend_from_slice(part);
            if let Some(value) = values.get(index) {
                put(value, &mut self.text);
            }
        }
        Some(&self.text)
    }
}

/// Bytes at the beginning that hold no marker: a quoted text or name, or a comment; else 0.
fn skipped(sql: &[u8]) -> usize {
    let until = |end: &[u8], from: usize| {
        let found = sql[from..]
            .windows(end.len())
            .position(|bytes| bytes == end);
        found.map_or(sql.len(), |found| from + found + end.len())
    };
    match sql {
        [quote @ (b'\'' | b'"' | b'`'), rest @ ..] => {
            let mut length = 1;
            let mut bytes = rest.iter();
            while let Some(byte) = bytes.next() {
                length += 1;
                if byte == quote {
                    return length;
                }
                // An escaped quote ends nothing; where backslashes are plain, the rest of the
                // statement is read wrongly at worst as more text.
                if *byte == b'\\' && *quote != b'`' && bytes.next().is_some() {
                    length += 1;
                }
            }
            length
        }
        [b'/', b'*', ..] => until(b"*/", 2),
        [b'#', ..] => until(b"\n", 1),
        [b'-', b'-', b' ' | b'\t' | b'\n', ..] => until(b"\n", 2),
        _ => 0,
    }
}

fn put(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"NULL"),
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::UInt(number) => out.extend_from_slice(number.to_string().as_bytes()),
        // With an exponent it is a DOUBLE; without, it would be a DECIMAL.
        Value::Double(number) if number.is_finite() => {
            out.extend_from_slice(format!("{number:e}").as_bytes());
        }
        Value::Double(_) => out.extend_from_slice(b"NULL"),
        Value::Bytes(bytes) => put_text(bytes, out),
    }
}

fn put_text(bytes: &[u8], out: &mut Vec<u8>) {
    let is_text = std::str::from_utf8(bytes).is_ok();
    if is_text && !bytes.contains(&b'\\') && !bytes.contains(&0) {
        out.push(b'\'');
        for &byte in bytes {
            if byte == b'\'' {
                out.push(byte);
            }
            out.push(byte);
        }
        out.push(b'\'');
        return;
    }
    // Whether a backslash escapes depends on the SQL mode; digits do not.
    out.extend_from_slice(if is_text { b"_utf8mb4 x'" } else { b"x'" });
    for byte in bytes {
        out.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str, values: &[Value<'_>]) -> String {
        let mut inline = Inline::new(sql.as_bytes());
        assert_eq!(usize::from(inline.params()), values.len());
        String::from_utf8(inline.with(values).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn markers_in_quotes_and_comments_are_none() {
        let sql = "SELECT '?''?', \"\\\"?\", `a?`, /* ? */ ? # ?\n, ? -- ?";
        let values = [Value::Int(-1), Value::UInt(2)];
        let wanted = "SELECT '?''?', \"\\\"?\", `a?`, /* ? */ -1 # ?\n, 2 -- ?";
        assert_eq!(text(sql, &values), wanted);
        assert_eq!(text("1--?", &[Value::Int(5)]), "1--5");
        assert_eq!(text("'unfinished ?", &[]), "'unfinished ?");
    }

    #[test]
    fn values_cannot_leave_their_literals() {
        let one = |value: Value<'_>| text("?", &[value]);
        assert_eq!(one(Value::Null), "NULL");
        assert_eq!(one(Value::Double(5.0)), "5e0");
        assert_eq!(one(Value::Double(f64::NAN)), "NULL");
        assert_eq!(one(Value::Bytes(b"it's")), "'it''s'");
        assert_eq!(one(Value::Bytes(b"\\' OR 1")), "_utf8mb4 x'5c27204f522031'");
        assert_eq!(one(Value::Bytes(b"\xff\x00")), "x'ff00'");
    }

    #[test]
    fn a_wrong_number_of_values_is_refused() {
        assert_eq!(Inline::new(b"? ?").with(&[Value::Null]), None);
    }
}
