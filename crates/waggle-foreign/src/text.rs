//! Text of others, made safe to print once, where it enters.
//!
//! A name or message may hold escape codes that write to a terminal's title or clipboard, a line
//! end that makes a line of a log look like waggle's own, or a mark that shows the rest from right
//! to left. Each becomes visible: `\x1b`, `\n`, `<U+202E>`; a byte that is no UTF-8 `\xff`. Two
//! different texts stay two, as far as they are not longer than the bound.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::path::Path;

/// Longest text that is kept, characters of the result: a page of a terminal. Statements, which
/// may be longer, have bounds of their own.
const CHARS_MAX: usize = 4096;

/// Text that can be written to a terminal as it is.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Printable(String);

impl Printable {
    /// Of text.
    pub fn of(text: &str) -> Self {
        Self(printable(text).into_owned())
    }

    /// Of bytes that should be UTF-8.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(printable_bytes(bytes))
    }

    /// Of a path.
    pub fn of_path(path: &Path) -> Self {
        Self::of_bytes(path.as_os_str().as_encoded_bytes())
    }

    /// The text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Deref for Printable {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// True for characters that do something to a terminal or to the text around them, or that cannot
/// be seen: C0 and C1 controls, marks of direction, those of no width, separators of lines and
/// paragraphs, tags and private use beyond the first plane, and what is no character.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{fffe}'
                | '\u{ffff}'
                | '\u{e0000}'..='\u{10ffff}'
        )
}

/// The text with everything that is harmful made visible, cut to a sane length.
pub fn printable(text: &str) -> Cow<'_, str> {
    // Most texts are fine as they are; a text of that many bytes has no more characters.
    if text.len() <= CHARS_MAX && !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = Safe::default();
    text.chars().for_each(|c| safe.push(c));
    Cow::Owned(safe.text)
}

/// The same of bytes; those that are no UTF-8 become `\xff`.
pub fn printable_bytes(bytes: &[u8]) -> String {
    // No character is of more than four bytes, and one more is what is cut off.
    let bytes = &bytes[..bytes.len().min(4 * (CHARS_MAX + 1))];
    let mut safe = Safe::default();
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| safe.push(c));
        for byte in chunk.invalid() {
            safe.push_text(&format!("\\x{byte:02x}"));
        }
    }
    safe.text
}

/// The same of what may have several lines, such as the end of a log: line ends stay.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.lines().map(printable).collect();
    lines.join("\n")
}

/// Text being made, up to its bound.
#[derive(Default)]
struct Safe {
    text: String,
    chars: usize,
}

impl Safe {
    fn push(&mut self, c: char) {
        match c {
            '\n' => self.push_text("\\n"),
            '\r' => self.push_text("\\r"),
            '\t' => self.push_text("\\t"),
            c if c.is_ascii_control() => self.push_text(&format!("\\x{:02x}", u32::from(c))),
            c if is_harmful(c) => self.push_text(&format!("<U+{:04X}>", u32::from(c))),
            c => self.push_text(c.encode_utf8(&mut [0; 4])),
        }
    }

    fn push_text(&mut self, text: &str) {
        let length = text.chars().count();
        if self.chars > CHARS_MAX {
            return;
        }
        if self.chars + length > CHARS_MAX {
            self.text.push('…');
            self.chars = CHARS_MAX + 1;
            return;
        }
        self.text.push_str(text);
        self.chars += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_something_becomes_visible() {
        let title = "\x1b]0;x\x07\x1b[2J\u{202e}\r\n\t\0\u{9b}31m\u{7f}";
        let expected = "\\x1b]0;x\\x07\\x1b[2J<U+202E>\\r\\n\\t\\x00<U+009B>31m\\x7f";
        assert_eq!(printable(title), expected);
        assert_eq!(printable_bytes(title.as_bytes()), expected);
        assert_eq!(printable_bytes(b"a\xff\xfeb\xc3"), "a\\xff\\xfeb\\xc3");
        for harmful in "\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{2066}\u{2069}\u{feff}\
                        \u{e0041}\u{f0000}\u{10ffff}\u{ad}\u{85}"
            .chars()
        {
            let text = format!("a{harmful}b");
            let expected = format!("a<U+{:04X}>b", u32::from(harmful));
            assert_eq!(printable(&text), expected);
        }
        assert_eq!(printable_lines("a\x1b\r\nb\n"), "a\\x1b\nb");
    }

    #[test]
    fn people_s_text_stays_as_it_is() {
        for text in [
            "",
            "10.11.19-MariaDB",
            "größe 表 тест 🐝 עברית",
            "a\u{301} \\x1b",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
            assert_eq!(printable_bytes(text.as_bytes()), text);
        }
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        for text in [
            "x".repeat(1 << 20),
            "\x1b".repeat(1 << 20),
            "é".repeat(1 << 20),
        ] {
            for safe in [
                printable(&text).into_owned(),
                printable_bytes(text.as_bytes()),
            ] {
                assert!(safe.ends_with('…'), "{}", safe.len());
                assert!(safe.chars().count() <= CHARS_MAX + 1);
            }
        }
        let exact = "x".repeat(CHARS_MAX);
        assert_eq!(printable(&exact), exact);
    }
}
