//! Code that may not stay: reminders, unexplained suppressions, sleeping tests, impure pure crates.

use super::Violation;
use crate::lex::{Language, is_word};
use crate::source::Source;

/// Macros that mark work not done.
pub(super) fn macros(source: &Source) -> Vec<Violation> {
    const UNFINISHED: [&str; 3] = ["todo", "dbg", "unimplemented"];
    let Some(code) = source.code_in(Language::Rust) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    for name in UNFINISHED {
        for at in occurrences(code, name) {
            if code[at + name.len()..].starts_with('!') {
                let line = Source::line_of(code, at);
                let what = format!("{name}! may not stay in the tree");
                violations.push(Violation::new(&source.path, line, "unfinished", what));
            }
        }
    }
    violations
}

/// Lints switched off or expected without a reason.
pub(super) fn suppressions(source: &Source) -> Vec<Violation> {
    let Some(code) = source.code_in(Language::Rust) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    for name in ["allow", "expect"] {
        for at in occurrences(code, name) {
            let before = code[..at].trim_end();
            let is_attribute = before.ends_with("#[") || before.ends_with("#![");
            let inside = code[at + name.len()..]
                .split(']')
                .next()
                .unwrap_or_default();
            if is_attribute && inside.starts_with('(') && occurrences(inside, "reason").is_empty() {
                let line = Source::line_of(code, at);
                let what = format!("#[{name}] needs a reason, and #[expect] is the better form");
                violations.push(Violation::new(&source.path, line, "suppression", what));
            }
        }
    }
    violations
}

/// Sleeps in tests. Waiting is for a line, a socket or a value; where time itself is what the test
/// is about, a comment `// sleep: why` on the line before says so.
pub(super) fn sleeps_in_tests(source: &Source) -> Vec<Violation> {
    let Some(code) = source.code_in(Language::Rust) else {
        return Vec::new();
    };
    let Some(layers) = &source.layers else {
        return Vec::new();
    };
    let comments: Vec<&str> = layers.comments.lines().collect();
    let mut violations = Vec::new();
    for at in occurrences(code, "sleep") {
        let line = Source::line_of(code, at);
        let explained = [line, line.saturating_sub(1)]
            .iter()
            .filter_map(|number| comments.get(number.checked_sub(1)?))
            .any(|comment| comment.contains("// sleep: "));
        let called = code[at + 5..].starts_with('(') && !code[..at].trim_end().ends_with("fn");
        if called && is_test_code(source, code, at) && !explained {
            let what = "a test waits for a line, a socket or a value, not for a time";
            violations.push(Violation::new(&source.path, line, "sleep", what));
        }
    }
    violations
}

fn is_test_code(source: &Source, code: &str, at: usize) -> bool {
    let by_path = source
        .path
        .split('/')
        .any(|part| part == "tests" || part == "tests.rs");
    // Test modules stand at the end of a file.
    by_path || code.find("#[cfg(test)]").is_some_and(|start| start < at)
}

/// Clocks, files, threads and sockets in the crates that have none.
pub(super) fn purity(source: &Source) -> Vec<Violation> {
    const PURE: [&str; 2] = ["crates/waggle-stats/src/", "crates/waggle-digest/src/"];
    const IMPURE: [&str; 8] = [
        "std::fs",
        "std::net",
        "std::thread",
        "std::process",
        "std::io",
        "std::env",
        "SystemTime",
        "Instant",
    ];
    let Some(code) = source.code_in(Language::Rust) else {
        return Vec::new();
    };
    if !PURE.iter().any(|pure| source.path.starts_with(pure)) {
        return Vec::new();
    }
    let product = &code[..code.find("#[cfg(test)]").unwrap_or(code.len())];
    let mut violations = Vec::new();
    for word in IMPURE {
        for at in occurrences(product, word) {
            let line = Source::line_of(code, at);
            let what = format!("{word} in a crate that has no clock, file or thread");
            violations.push(Violation::new(&source.path, line, "purity", what));
        }
    }
    violations
}

/// Files and directories made without `waggle_files`, which gives them their mode: others would
/// read what the umask lets them.
pub(super) fn modes(source: &Source) -> Vec<Violation> {
    // What is no data of a server: control groups, and what a throw-away server has to read.
    const OTHERS: [&str; 5] = [
        "crates/waggle-files/src/",
        "crates/waggle-agent/src/budget/",
        "crates/waggle-server/src/confine/",
        "crates/waggle-server/src/sandbox/",
        "crates/waggle/src/copy/bench/",
    ];
    const WAYS: [&str; 8] = [
        "File::create",
        "File::create_new",
        "fs::write",
        "fs::copy",
        "create_dir",
        "create_dir_all",
        "DirBuilder",
        "create",
    ];
    let Some(code) = source.code_in(Language::Rust) else {
        return Vec::new();
    };
    let is_product = source.path.starts_with("crates/") && source.path.contains("/src/");
    if !is_product || OTHERS.iter().any(|other| source.path.starts_with(other)) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for way in WAYS {
        for at in occurrences(code, way) {
            let before = &code[..at];
            let is_own = before.ends_with("waggle_files::");
            // `create` alone is that of OpenOptions.
            let is_other = way == "create"
                && !(before.ends_with('.') && code[at + way.len()..].starts_with("(true)"));
            if !is_own && !is_other && !is_test_code(source, code, at) {
                let line = Source::line_of(code, at);
                let what = format!("{way} makes what others may read; use waggle_files");
                violations.push(Violation::new(&source.path, line, "mode", what));
            }
        }
    }
    violations
}

/// Where `word` stands by itself in `code`, in bytes.
fn occurrences(code: &str, word: &str) -> Vec<usize> {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|at| {
            !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Source) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
        rule(&Source::new(path, text))
            .into_iter()
            .map(|v| v.line)
            .collect()
    }

    #[test]
    fn unfinished_work_is_found() {
        let text =
            "fn a() {\n    todo!()\n}\n// todo!\nlet x = dbg!(\"unimplemented!\");\nmytodo!();\n";
        assert_eq!(lines(macros, "a.rs", text), [2, 5]);
    }

    #[test]
    fn suppressions_without_a_reason_are_found() {
        let text = "#[allow(dead_code)]\nfn a() {}\n#![expect(x)]\n\
                    #[expect(clippy::x, reason = \"why\")]\nfn b() { c.expect(\"d\") }\n\
                    #[allow(\n    dead_code,\n    reason = \"why\"\n)]\n";
        assert_eq!(lines(suppressions, "a.rs", text), [1, 3]);
    }

    #[test]
    fn a_test_that_sleeps_is_found() {
        let call = "thread::sleep(x);\n";
        assert_eq!(lines(sleeps_in_tests, "crates/a/tests/it/b.rs", call), [1]);
        assert_eq!(lines(sleeps_in_tests, "crates/a/src/b.rs", call), []);
        let inline = format!("{call}#[cfg(test)]\nmod tests {{\n{call}}}\n");
        assert_eq!(lines(sleeps_in_tests, "crates/a/src/b.rs", &inline), [4]);
        let explained = format!("// sleep: the window under test is a span of time\n{call}");
        assert_eq!(lines(sleeps_in_tests, "a/tests/b.rs", &explained), []);
        assert_eq!(
            lines(sleeps_in_tests, "a/tests/b.rs", "x(\"select sleep(1)\")\n"),
            []
        );
    }

    #[test]
    fn a_file_made_with_the_mode_of_the_umask_is_found() {
        let text = "fn a() {\n    fs::write(p, b)?;\n    File::create(p)?;\n    \
                    waggle_files::create_dir(p)?;\n    x.create(true)\n}\n\
                    #[cfg(test)]\nmod tests { fn a() { fs::write(p, b); } }\n";
        assert_eq!(lines(modes, "crates/waggle/src/a.rs", text), [3, 2, 5]);
        for path in [
            "crates/waggle-files/src/a.rs",
            "crates/waggle/tests/a.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(lines(modes, path, text), [], "{path}");
        }
    }

    #[test]
    fn a_clock_in_a_pure_crate_is_found() {
        let text = "use std::time::Instant;\nfn a() {}\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(lines(purity, "crates/waggle-stats/src/a.rs", text), [1]);
        assert_eq!(lines(purity, "crates/waggle-load/src/a.rs", text), []);
    }
}
