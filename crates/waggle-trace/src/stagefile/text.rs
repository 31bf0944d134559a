//! Places, expressions and conditions as people write them.
//!
//! A small grammar, read by hand so that an error says what was expected where:
//! `u64(u64(&log_sys) + $write_lsn)`, `arg3:u8`, `fn:log_write_up_to:ret`.
//!
//! Invariant: what is read is bounded: so many characters, so deep.

use super::{Comparison, Condition, Expression, Place};

/// Longest text that is read, bytes.
const TEXT_MAX: usize = 1024;
/// Deepest nesting of an expression.
const DEPTH_MAX: usize = 8;

/// Why a text is none of these; the place of it is the caller's to tell.
pub(super) type Refused = String;

/// Reads a place.
pub(super) fn place(text: &str) -> Result<Place, Refused> {
    if text.len() > TEXT_MAX {
        return Err(format!("longer than {TEXT_MAX} bytes"));
    }
    let Some((kind, rest)) = text.split_once(':') else {
        return Err(format!(
            "`{text}` is no place: it begins with fn:, fde:, off:, usdt:, watch:, tracepoint: or \
             known:"
        ));
    };
    let named = |what: &str| {
        let (first, second) = rest
            .split_once(':')
            .filter(|(first, second)| !first.is_empty() && !second.is_empty())
            .ok_or_else(|| format!("`{text}`: {kind} needs {what}"))?;
        Ok::<_, Refused>((first.to_owned(), second.to_owned()))
    };
    let (body, is_return) = match rest.strip_suffix(":ret") {
        Some(body) => (body, true),
        None => (rest, false),
    };
    match kind {
        "fn" if body.is_empty() => Err(format!("`{text}` names no function")),
        "fn" => Ok(Place::Function {
            name: body.to_owned(),
            is_return,
        }),
        "fde" => Ok(Place::Start {
            address: number(body).ok_or_else(|| format!("`{body}` is no address"))?,
            is_return,
        }),
        "off" => offset(rest),
        "usdt" => {
            let (provider, name) = named("a provider and a name")?;
            Ok(Place::Static { provider, name })
        }
        "watch" => Ok(Place::Watch(expression(rest)?)),
        "tracepoint" => {
            let (category, name) = named("a category and a name")?;
            let plain = |s: &str| s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !plain(&category) || !plain(&name) {
                return Err(format!("`{text}` is no tracepoint's name"));
            }
            Ok(Place::Tracepoint { category, name })
        }
        "known" if !rest.is_empty() => Ok(Place::Known(rest.to_owned())),
        _ => Err(format!("`{kind}:` is no kind of place")),
    }
}

/// `0x1234=e8001122`
fn offset(text: &str) -> Result<Place, Refused> {
    const BYTES_MAX: usize = 16;
    let (offset, bytes) = text
        .split_once('=')
        .ok_or("off: needs the bytes that stand there: off:0x1234=e8001122")?;
    let offset = number(offset).ok_or_else(|| format!("`{offset}` is no offset"))?;
    let digits: Vec<u8> = bytes.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|t| t.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    match bytes {
        Some(bytes) if (1..=BYTES_MAX).contains(&bytes.len()) => {
            Ok(Place::Offset { offset, bytes })
        }
        _ => Err(format!(
            "`{bytes:?}` are not 1 to {BYTES_MAX} bytes in hexadecimal"
        )),
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads an expression.
pub(super) fn expression(text: &str) -> Result<Expression, Refused> {
    let mut reader = Reader::new(text)?;
    let read = reader.sum(0)?;
    reader.end()?;
    Ok(read)
}

/// Reads a condition, such as `arg3:u8 == 1`.
pub(super) fn condition(text: &str) -> Result<Condition, Refused> {
    const SIGNS: [(&str, Comparison); 4] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
    ];
    let found = SIGNS
        .iter()
        .find_map(|(sign, comparison)| Some((text.split_once(sign)?, *comparison)));
    let ((left, right), comparison) =
        found.ok_or_else(|| format!("`{text}` compares nothing: ==, !=, < or >="))?;
    let right = expression(right)?;
    if !matches!(
        right,
        Expression::Number(_) | Expression::Known(_) | Expression::Symbol(_)
    ) {
        return Err(format!(
            "`{text}` is compared with neither a number nor an address"
        ));
    }
    Ok(Condition {
        left: expression(left)?,
        comparison,
        right,
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, Refused> {
        if text.len() > TEXT_MAX {
            return Err(format!("longer than {TEXT_MAX} bytes"));
        }
        Ok(Self { text, at: 0 })
    }

    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn take(&mut self, sign: char) -> bool {
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.at += sign.len_utf8();
        }
        is_next
    }

    /// What `is_part` accepts.
    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn end(&mut self) -> Result<(), Refused> {
        match self.rest() {
            "" => Ok(()),
            rest => Err(format!("`{rest}` is too much in `{}`", self.text)),
        }
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, Refused> {
        if depth > DEPTH_MAX {
            return Err(format!("`{}` is nested too deeply", self.text));
        }
        let mut sum = self.term(depth)?;
        loop {
            if self.take('+') {
                sum = Expression::Add(sum.into(), self.term(depth)?.into());
            } else if self.take('-') {
                sum = Expression::Subtract(sum.into(), self.term(depth)?.into());
            } else {
                return Ok(sum);
            }
        }
    }

    fn term(&mut self, depth: usize) -> Result<Expression, Refused> {
        let read = self.bare(depth)?;
        if !self.take(':') {
            return Ok(read);
        }
        let kind = self.word(|c| c.is_ascii_alphanumeric());
        let (bytes, signed) =
            width(kind).ok_or_else(|| format!("`:{kind}` is no kind of number"))?;
        Ok(Expression::Low {
            bytes,
            signed,
            of: read.into(),
        })
    }

    fn bare(&mut self, depth: usize) -> Result<Expression, Refused> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if self.take('$') {
            return self.named(is_name).map(Expression::Known);
        }
        if self.take('&') {
            let is_symbol = |c: char| is_name(c) || c == ':';
            return self.named(is_symbol).map(Expression::Symbol);
        }
        if self.take('%') {
            let name = self.word(is_name);
            let register = waggle_symbols::usdt::register(name);
            let register = register.ok_or_else(|| format!("`%{name}` is no register"))?;
            return Ok(Expression::Register(register.0));
        }
        if self.take('(') {
            let inner = self.sum(depth + 1)?;
            return self.closed(inner);
        }
        let word = self.word(is_name);
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let number = number(word).ok_or_else(|| format!("`{word}` is no number"))?;
            return Ok(Expression::Number(number));
        }
        if let Some((bytes, signed)) = width(word)
            && self.take('(')
        {
            let at = self.sum(depth + 1)?;
            return self.closed(Expression::Load {
                bytes,
                signed,
                at: at.into(),
            });
        }
        if word == "field" && self.take('(') {
            let name = self.named(is_name)?;
            return self.closed(Expression::Field(name));
        }
        let argument = word.strip_prefix("arg").and_then(|n| n.parse::<u8>().ok());
        match (word, argument) {
            ("ret", _) => Ok(Expression::Return),
            ("new", _) => Ok(Expression::New),
            ("tls", _) => Ok(Expression::ThreadPointer),
            (_, Some(argument @ 1..=12)) => Ok(Expression::Argument(argument)),
            _ => {
                let rest = self.rest();
                Err(format!(
                    "`{}` at `{word}{rest}`: expected a number, arg1 to arg12, ret, new, tls, \
                     field(name), u8/u16/u32/u64/i8/i16/i32/i64(address), &symbol, $offset or \
                     %register",
                    self.text,
                ))
            }
        }
    }

    fn named(&mut self, is_part: impl Fn(char) -> bool) -> Result<String, Refused> {
        match self.word(is_part) {
            "" => Err(format!("a name is missing in `{}`", self.text)),
            name => Ok(name.to_owned()),
        }
    }

    fn closed(&mut self, inner: Expression) -> Result<Expression, Refused> {
        if self.take(')') {
            Ok(inner)
        } else {
            Err(format!("`)` is missing in `{}`", self.text))
        }
    }
}

/// Bytes and sign of a kind of number.
fn width(kind: &str) -> Option<(u8, bool)> {
    let signed = kind.starts_with('i');
    let bytes = match kind.strip_prefix(['u', 'i'])? {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        _ => return None,
    };
    Some((bytes, signed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let known = |name: &str| Box::new(Expression::Known(name.into()));
        let load = |at: Expression| Expression::Load {
            bytes: 8,
            signed: false,
            at: at.into(),
        };
        let pointer = load(Expression::Symbol("log_sys".into()));
        let sum = Expression::Add(pointer.into(), known("write_lsn"));
        assert_eq!(expression("u64(u64(&log_sys)+$write_lsn)"), Ok(load(sum)));
        assert_eq!(expression(" arg12 "), Ok(Expression::Argument(12)));
        assert_eq!(expression("%sil"), Ok(Expression::Register(6)));
        let low = Expression::Low {
            bytes: 1,
            signed: false,
            of: Expression::Argument(3).into(),
        };
        assert_eq!(expression("arg3:u8"), Ok(low));
        for text in [
            "",
            "arg13",
            "arg0",
            "u64(",
            "u65(arg1)",
            "arg1 arg2",
            "1+",
            "&",
            "$-",
            "%xmm0",
        ] {
            assert!(expression(text).is_err(), "{text}");
        }
        let deep = format!("{}1{}", "u64(".repeat(40), ")".repeat(40));
        assert!(expression(&deep).unwrap_err().contains("deeply"));
    }

    #[test]
    fn places_are_read() {
        let is = |text: &str, wanted: Place| assert_eq!(place(text), Ok(wanted), "{text}");
        is(
            "fn:MYSQL_BIN_LOG::ordered_commit:ret",
            Place::Function {
                name: "MYSQL_BIN_LOG::ordered_commit".into(),
                is_return: true,
            },
        );
        is(
            "off:0x10=e8 00 01",
            Place::Offset {
                offset: 16,
                bytes: vec![0xe8, 0, 1],
            },
        );
        is(
            "usdt:wakeup:1",
            Place::Static {
                provider: "wakeup".into(),
                name: "1".into(),
            },
        );
        is(
            "watch:&counter",
            Place::Watch(Expression::Symbol("counter".into())),
        );
        for text in [
            "",
            "log_write_up_to",
            "fn:",
            "fn::ret",
            "fde:x",
            "off:0x10",
            "off:1=e",
            "off:1=",
            "usdt:x",
            "usdt:x:",
            "tracepoint:a/b:c",
            "known:",
            "nothing:x",
        ] {
            assert!(place(text).is_err(), "{text}");
        }
    }

    #[test]
    fn conditions_are_read() {
        let found = condition("arg3:u8 == 1").unwrap();
        assert_eq!(found.comparison, Comparison::Equal);
        assert_eq!(found.right, Expression::Number(1));
        assert_eq!(
            condition("arg1 == $flush_lock").unwrap().right,
            Expression::Known("flush_lock".into())
        );
        for text in ["arg3", "arg3 = 1", "== 1", "arg3 == arg2", "arg1 > 5"] {
            assert!(condition(text).is_err(), "{text}");
        }
    }
}
