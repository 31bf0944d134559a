//! Names that say nothing about what is inside.

use super::Violation;
use crate::lex::{Language, is_word};
use crate::source::Source;

/// Words a name may not be made of, each in the forms it comes in.
const BANNED: &[&str] = &[
    "util", "utils", "helper", "helpers", "manager", "managers", "misc",
];

/// Banned words in the path of a file and in the names a Rust file declares.
pub(super) fn banned(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    let stems = source
        .path
        .split('/')
        .map(|part| part.split('.').next().unwrap_or(part));
    for stem in stems {
        if let Some(word) = banned_word(stem) {
            let what = format!("{stem:?} has {word:?} in it; name what it is about");
            violations.push(Violation::new(&source.path, 0, "name", what));
        }
    }
    let Some(code) = source.code_in(Language::Rust) else {
        return violations;
    };
    for (number, line) in (1..).zip(code.lines()) {
        for name in declared(line) {
            if let Some(word) = banned_word(name) {
                let what = format!("{name:?} has {word:?} in it; name what it is about");
                violations.push(Violation::new(&source.path, number, "name", what));
            }
        }
    }
    violations
}

/// The names of the items that begin on this line.
fn declared(line: &str) -> impl Iterator<Item = &str> {
    const KEYWORDS: [&str; 6] = ["fn", "mod", "struct", "enum", "trait", "type"];
    let mut words = line.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    std::iter::from_fn(move || {
        words.find(|word| KEYWORDS.contains(word))?;
        words.next()
    })
}

fn banned_word(name: &str) -> Option<&'static str> {
    let words = words(name);
    // The kernel calls the functions an eBPF program may call its helpers: `BpfHelper` is exact.
    if words.iter().any(|word| word == "bpf") {
        return None;
    }
    BANNED
        .iter()
        .copied()
        .find(|banned| words.iter().any(|word| word == banned))
}

/// The words of a name in snake, kebab or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if !is_word(c) || c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut()
            && is_word(c)
            && c != '_'
        {
            last.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_nothing_are_found() {
        let text = "pub(crate) struct ConnectionManager;\nfn misc_things() {}\nmod test_helpers;\n\
                    // fn helper\nfn fine(helper: u8) {}\nfn cutils() {}\n";
        let found: Vec<usize> = banned(&Source::new("a.rs", text))
            .into_iter()
            .map(|v| v.line)
            .collect();
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(banned(&Source::new("crates/x/src/utils.rs", "")).len(), 1);
        assert_eq!(banned(&Source::new("web/helpers/a.ts", "")).len(), 1);
    }

    #[test]
    fn the_kernels_own_word_is_let_be() {
        assert_eq!(
            banned(&Source::new("bpf_helpers.rs", "struct BpfHelper;\n")),
            []
        );
    }
}
