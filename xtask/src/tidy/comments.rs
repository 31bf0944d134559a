//! Comments that have to be there.

use super::Violation;
use crate::lex::{Language, is_word};
use crate::source::Source;

/// How many lines above an `unsafe` its comment may begin; attributes and the head of the
/// statement may stand between.
const SAFETY_LINES_MAX: usize = 10;

/// `unsafe` blocks and impls without a `SAFETY:` comment.
pub(super) fn safety(source: &Source) -> Vec<Violation> {
    let Some(code) = source.code_in(Language::Rust) else {
        return Vec::new();
    };
    let Some(layers) = &source.layers else {
        return Vec::new();
    };
    let code_lines: Vec<&str> = code.lines().collect();
    let comment_lines: Vec<&str> = layers.comments.lines().collect();
    let mut violations = Vec::new();
    for (at, _) in code.match_indices("unsafe") {
        let rest = code[at + "unsafe".len()..].trim_start();
        let is_word_alone = !code[..at].ends_with(is_word);
        if !is_word_alone || !(rest.starts_with('{') || rest.starts_with("impl")) {
            continue;
        }
        let line = Source::line_of(code, at);
        if !has_safety_comment(&code_lines, &comment_lines, line) {
            let what = "no SAFETY: comment says why this is sound";
            violations.push(Violation::new(&source.path, line, "safety", what));
        }
    }
    violations
}

fn has_safety_comment(code: &[&str], comments: &[&str], line: usize) -> bool {
    let says_so = |index: usize| comments.get(index).is_some_and(|c| c.contains("SAFETY:"));
    // The comment may also be the first thing inside the block.
    if says_so(line - 1) || says_so(line) {
        return true;
    }
    for index in (0..line - 1).rev().take(SAFETY_LINES_MAX) {
        if says_so(index) {
            return true;
        }
        // The end of the statement before: its comment is not ours.
        if code[index].trim_end().ends_with([';', '}']) {
            return false;
        }
    }
    false
}

/// Crate roots and `mod.rs` files that do not begin with `//!`.
pub(super) fn module_docs(source: &Source) -> Vec<Violation> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let is_module = matches!(name, "lib.rs" | "main.rs" | "mod.rs");
    if !is_module || source.is_test_data() || source.text.trim_start().starts_with("//!") {
        return Vec::new();
    }
    let what = "does not begin with //!: its question, its neighbours, its invariant";
    vec![Violation::new(&source.path, 1, "module-docs", what)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        safety(&Source::new("a.rs", text))
            .into_iter()
            .map(|v| v.line)
            .collect()
    }

    #[test]
    fn an_unsafe_block_without_its_reason_is_found() {
        assert_eq!(lines("let a =\n    unsafe { b() };\n"), [2]);
        assert_eq!(lines("// SAFETY: a.\nx();\nunsafe { b() };\n"), [3]);
        assert_eq!(lines("unsafe impl Send for A {}\n"), [1]);
    }

    #[test]
    fn a_reason_nearby_is_enough() {
        assert_eq!(
            lines("// SAFETY: a is live,\n// and b too.\nlet a =\n    unsafe { b() };\n"),
            []
        );
        assert_eq!(lines("unsafe {\n    // SAFETY: a.\n    b()\n}\n"), []);
        assert_eq!(
            lines("unsafe fn a() {}\n// unsafe {\nlet s = \"unsafe {\";\n"),
            []
        );
    }

    #[test]
    fn a_module_without_its_question_is_found() {
        assert_eq!(module_docs(&Source::new("a/mod.rs", "use b;\n")).len(), 1);
        assert_eq!(module_docs(&Source::new("a/lib.rs", "//! Why.\n")), []);
        assert_eq!(module_docs(&Source::new("a/other.rs", "use b;\n")), []);
    }
}
