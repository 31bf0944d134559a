//! What docs/security.md promises: every test that it names is there.

use std::collections::HashSet;

use super::Violation;
use crate::lex::Language;
use crate::source::Source;

const PAGE: &str = "docs/security.md";

/// Finds names of tests in the page that no test has. A name of a test is what stands between
/// backticks behind `test:` or `tests:`, up to the end of the parenthesis, and in a column of a
/// table called `test`.
pub(super) fn tests(tree: &[Source]) -> Vec<Violation> {
    let Some(page) = tree.iter().find(|source| source.path == PAGE) else {
        return Vec::new();
    };
    let known: HashSet<&str> = tree
        .iter()
        .filter_map(|source| source.code_in(Language::Rust))
        .flat_map(function_names)
        .collect();
    named(&page.text)
        .into_iter()
        .filter(|(_, name)| !known.contains(name))
        .map(|(line, name)| {
            let what = format!("there is no test {name}");
            Violation::new(PAGE, line, "promise", what)
        })
        .collect()
}

fn function_names(code: &str) -> impl Iterator<Item = &str> {
    code.split("fn ").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// The lines and the names of the tests.
fn named(text: &str) -> Vec<(usize, &str)> {
    let (mut names, mut in_list, mut in_table) = (Vec::new(), false, false);
    for (number, line) in (1..).zip(text.lines()) {
        in_table = line.starts_with('|') && (in_table || line.ends_with("| test |"));
        let mut rest = match in_table {
            true => line.rsplit('|').nth(1).unwrap_or_default(),
            false => line,
        };
        while !rest.is_empty() {
            if in_list || in_table {
                let (list, behind) = match rest.split_once(')') {
                    Some((list, behind)) if !in_table => (list, Some(behind)),
                    _ => (rest, None),
                };
                names.extend(
                    list.split('`')
                        .skip(1)
                        .step_by(2)
                        .map(|name| (number, name)),
                );
                in_list = behind.is_none() && !in_table;
                rest = behind.unwrap_or_default();
                continue;
            }
            let begins = ["(test:", "(tests:"]
                .iter()
                .filter_map(|mark| rest.find(mark).map(|at| at + mark.len()));
            let Some(begin) = begins.min() else { break };
            (in_list, rest) = (true, &rest[begin..]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_gone_is_found() {
        let page = "It holds (test: `here`). So does `other` (tests:\n\
                    `here`, `gone`), and `this`.\n\n\
                    | what | test |\n|---|---|\n| `a` | `here`, `lost` |\n\n| `b` | `c` |\n";
        let tree = [
            Source::new(PAGE, page),
            Source::new("crates/a/src/b.rs", "#[test]\nfn here() {}\n// fn gone()\n"),
        ];
        let found: Vec<_> = super::tests(&tree)
            .into_iter()
            .map(|v| (v.line, v.what))
            .collect();
        let expected = [(2, "gone"), (6, "lost")];
        assert_eq!(
            found,
            expected.map(|(line, name)| (line, format!("there is no test {name}")))
        );
    }
}
