//! Where do the statements of one text begin and end?
//!
//! A command may carry several statements, and the server answers each with a result of its own.
//! Invariant: linear in the text; a text whose semicolons may stand inside a statement (a stored
//! program, a compound statement) is not split.

use std::ops::Range;

/// Words that begin statements with semicolons inside.
const COMPOUND: [&[u8]; 9] = [
    b"create", b"alter", b"begin", b"if", b"case", b"loop", b"for", b"while", b"repeat",
];
/// More than this is taken for one: somebody sends a dump.
const PARTS_MAX: usize = 10_000;

/// The statements of `sql` if there are several; else `None`.
pub(super) fn split(sql: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < sql.len() {
        if sql[at] != b';' {
            at = next(sql, at);
            continue;
        }
        push(sql, begin..at, &mut parts)?;
        at += 1;
        begin = at;
    }
    push(sql, begin..sql.len(), &mut parts)?;
    (parts.len() > 1).then_some(parts)
}

/// Appends a part that says something; `None` if the text must not be split.
fn push(sql: &[u8], part: Range<usize>, parts: &mut Vec<Range<usize>>) -> Option<()> {
    let text = sql[part.clone()].trim_ascii_start();
    if text.is_empty() {
        return Some(());
    }
    let is_compound = COMPOUND.iter().any(|word| begins_with(text, word));
    if is_compound || parts.len() >= PARTS_MAX {
        return None;
    }
    parts.push(part.end - text.len()..part.end);
    Some(())
}

/// Whether the first word of `text` is `word`, whatever the case of its letters.
pub(super) fn begins_with(text: &[u8], word: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let next = text.get(word.len()).copied().unwrap_or(b' ');
    text.len() >= word.len()
        && text[..word.len()].eq_ignore_ascii_case(word)
        && !(next.is_ascii_alphanumeric() || next == b'_')
}

/// Behind the byte, literal or comment at `at`.
fn next(sql: &[u8], at: usize) -> usize {
    let find = |what: &[u8], from: usize| {
        let rest = sql.get(from..).unwrap_or_default();
        let found = rest.windows(what.len()).position(|window| window == what);
        found.map_or(sql.len(), |found| from + found + what.len())
    };
    match sql[at] {
        quote @ (b'\'' | b'"' | b'`') => {
            let mut at = at + 1;
            while at < sql.len() && sql[at] != quote {
                at += if sql[at] == b'\\' && quote != b'`' {
                    2
                } else {
                    1
                };
            }
            (at + 1).min(sql.len())
        }
        b'#' => find(b"\n", at),
        b'-' if sql[at..].starts_with(b"--") && sql.get(at + 2).is_none_or(|&b| b <= b' ') => {
            find(b"\n", at)
        }
        b'/' if sql[at..].starts_with(b"/*") => find(b"*/", at + 2),
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sql: &str) -> Vec<&str> {
        let ranges = split(sql.as_bytes()).unwrap_or_default();
        ranges.into_iter().map(|range| &sql[range]).collect()
    }

    #[test]
    fn semicolons_split_only_between_statements() {
        assert_eq!(parts("SELECT 1; select 2"), ["SELECT 1", "select 2"]);
        assert_eq!(
            parts("a 'x;\\';y' ; b `;` -- c;\n ; d /* ; */ # ;\n;"),
            ["a 'x;\\';y' ", "b `;` -- c;\n ", "d /* ; */ # ;\n"]
        );
        for one in [
            "SELECT 1;",
            "SELECT ';'",
            ";;",
            "",
            "'open ; string",
            "x \\",
        ] {
            assert!(parts(one).is_empty(), "{one}");
        }
        for compound in ["begin not atomic select 1; end; select 2", "CREATE x; y"] {
            assert!(parts(compound).is_empty(), "{compound}");
        }
        assert!(begins_with(b" Call x", b"call") && !begins_with(b"calls", b"call"));
    }
}
