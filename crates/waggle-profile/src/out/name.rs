//! Names as text that no format mistakes for anything else.
//!
//! Invariant: [`plain`] is one line without `;`, never empty, ends in no number of its own and
//! holds only characters that XML allows; different names stay different but for such characters.

use crate::model::Frame;

/// A frame or thread that an index does not lead to.
pub(super) const DAMAGED: &str = "[damaged]";
/// A thread that ran no statement, or whose statement was not known.
pub(super) const NO_STATEMENT: &str = "[no statement]";
/// A frame without a name.
const UNNAMED: &str = "[unknown]";
/// Longest name of a line or a drawing, characters; C++ has names of tens of kilobytes.
const CHARS_MAX: usize = 1_000;

/// A name as a part of a folded line.
pub(super) fn plain(name: &str) -> String {
    let mut safe = String::with_capacity(name.len().min(4 * CHARS_MAX));
    for (count, character) in name.trim().chars().enumerate() {
        if count == CHARS_MAX {
            // What was cut off still tells two names apart.
            safe.push_str(&format!("…{:016x}h", hash(name)));
            break;
        }
        safe.push(match character {
            ';' => ':',
            c if c.is_control() || is_direction(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => ' ',
            c if c.is_whitespace() => ' ',
            c => c,
        });
    }
    let safe = safe.trim();
    if safe.is_empty() {
        return UNNAMED.to_owned();
    }
    // "f 42" would be read as a call of f with a weight, "# f" as a comment.
    let ends_in_number = safe.rsplit_once(' ').is_some_and(|(_, last)| {
        last.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    let is_comment = safe.starts_with("# ");
    match (ends_in_number, is_comment) {
        (false, false) => safe.to_owned(),
        _ => safe.replace(' ', "_"),
    }
}

/// A frame's name; by `_[k]` and `_[i]` drawing programs know the kernel and inlined calls.
pub(super) fn of_frame(frame: Option<&Frame>, with_line: bool) -> String {
    let Some(frame) = frame else {
        return DAMAGED.to_owned();
    };
    let mut name = plain(&shown(frame));
    if let (true, Some(file)) = (with_line, &frame.file) {
        let file = plain(short(file));
        match frame.line {
            Some(line) => name.push_str(&format!(" {file}:{line}")),
            None => name.push_str(&format!(" {file}")),
        }
        // The file's name may be a number.
        name = plain(&name);
    }
    if frame.kernel {
        name.push_str("_[k]");
    } else if frame.inlined {
        name.push_str("_[i]");
    }
    name
}

/// The name, or the module of a frame that has none.
pub(super) fn shown(frame: &Frame) -> String {
    match (frame.name.trim(), frame.module.trim()) {
        ("", "") => UNNAMED.to_owned(),
        ("", module) => format!("[{}]", module.trim_matches(['[', ']'])),
        (name, _) => name.to_owned(),
    }
}

/// The last part of a path.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Characters that reorder the text around them.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// FNV-1a: the same in every run and every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
