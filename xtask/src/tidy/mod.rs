//! Taste as a test: the rules of this tree that a program can check.
//!
//! Each rule is a function from the tree to violations, with a violating snippet as its own test.
//! `cargo xtask tidy` prints them; the test below runs the same, so `cargo test` fails too.

mod arrows;
mod comments;
mod lengths;
mod names;
mod places;
mod promises;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::source::{self, Source};
use crate::unusable;

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    /// From 1; 0 when it is the file, not a line.
    line: usize,
    rule: &'static str,
    what: String,
    /// Told, but not a failure.
    warning: bool,
}

impl Violation {
    fn new(path: &str, line: usize, rule: &'static str, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            what: what.into(),
            warning: false,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        let kind = if self.warning { " (warning)" } else { "" };
        write!(f, ": {}{kind}: {}", self.rule, self.what)
    }
}

type FileRule = fn(&Source) -> Vec<Violation>;
type TreeRule = fn(&[Source]) -> Vec<Violation>;

/// Rules that look at one file.
const FILE_RULES: &[FileRule] = &[
    lengths::lines,
    lengths::files,
    lengths::functions,
    names::banned,
    words::macros,
    words::suppressions,
    words::sleeps_in_tests,
    words::purity,
    words::modes,
    comments::safety,
    comments::module_docs,
    places::white_space,
    places::home_paths,
    places::hosts,
];

/// Rules that need the whole tree.
const TREE_RULES: &[TreeRule] = &[
    arrows::check,
    arrows::quoted,
    places::top_level,
    promises::tests,
];

fn check(tree: &[Source]) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tree
        .iter()
        .flat_map(|source| FILE_RULES.iter().flat_map(|rule| rule(source)))
        .chain(TREE_RULES.iter().flat_map(|rule| rule(tree)))
        .collect();
    violations.sort();
    violations
}

/// `cargo xtask tidy`: prints what is not tidy; true when nothing but warnings was found.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    let quiet = match arguments {
        [] => false,
        [flag] if flag == "--quiet" => true,
        _ => return Err(unusable(format!("tidy does not take {arguments:?}"))),
    };
    let tree = source::tree(root)?;
    let violations = check(&tree);
    let failures = violations.iter().filter(|v| !v.warning).count();
    for violation in violations.iter().filter(|v| !(v.warning && quiet)) {
        println!("{violation}");
    }
    let warnings = violations.len() - failures;
    println!(
        "tidy: {} files, {failures} violations, {warnings} warnings",
        tree.len()
    );
    Ok(failures == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = source::tree(&crate::workspace_root()).expect("the tree can be read");
        let violations: Vec<String> = check(&tree)
            .iter()
            .filter(|v| !v.warning)
            .map(Violation::to_string)
            .collect();
        assert!(
            violations.is_empty(),
            "not tidy:\n{}",
            violations.join("\n")
        );
    }

    #[test]
    fn a_violation_names_the_place_and_the_rule() {
        let mut violation = Violation::new("a/b.rs", 3, "line-length", "101 columns");
        assert_eq!(violation.to_string(), "a/b.rs:3: line-length: 101 columns");
        violation.line = 0;
        violation.warning = true;
        assert_eq!(
            violation.to_string(),
            "a/b.rs: line-length (warning): 101 columns"
        );
    }
}
