//! Which crate may depend on which: the map, and the manifests held against it.
//!
//! Invariant: `ARROWS` is the only place where an arrow is allowed; ARCHITECTURE.md quotes it.

use super::Violation;
use crate::source::Source;

/// The arrows of the product, top layer first. A new one is a decision: say why in docs/design/.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "waggle",
        &[
            "agent", "copy", "export", "load", "profile", "trace", "probes", "report", "server",
            "symbols", "stats", "wire", "digest", "files", "foreign",
        ],
    ),
    ("export", &["agent", "stats", "files"]),
    (
        "profile",
        &[
            "agent", "trace", "probes", "server", "symbols", "stats", "digest", "foreign",
        ],
    ),
    (
        "agent",
        &[
            "probes", "server", "symbols", "stats", "wire", "digest", "foreign",
        ],
    ),
    (
        "trace",
        &["probes", "server", "symbols", "stats", "foreign"],
    ),
    ("copy", &["server", "stats", "wire", "files", "foreign"]),
    ("load", &["stats", "wire", "digest", "foreign"]),
    ("probes", &["server", "symbols", "stats", "digest"]),
    ("report", &["stats", "digest", "files", "foreign"]),
    ("server", &["wire", "foreign"]),
    ("symbols", &["foreign"]),
    ("stats", &[]),
    ("wire", &["foreign"]),
    ("digest", &[]),
    ("files", &[]),
    ("foreign", &[]),
    ("need", &[]),
    ("xtask", &[]),
];

/// Arrows for tests alone: a throw-away server is a test's way to a real one.
const TEST_ARROWS: &[(&str, &[&str])] = &[
    ("load", &["server"]),
    ("probes", &["wire"]),
    ("profile", &["wire"]),
    ("trace", &["wire"]),
    ("symbols", &["server", "wire"]),
];

/// What the tests of every crate may have: a skip is said in one way, as its reader knows one.
const TEST_ARROW_OF_ALL: &str = "need";

const MARK: &str = "<!-- arrows: checked against xtask/src/tidy/arrows.rs -->";

/// A dependency on a crate of this workspace, as a manifest has it.
#[derive(Debug, PartialEq, Eq)]
struct Arrow {
    to: String,
    line: usize,
    test_only: bool,
}

/// Finds dependencies between the crates of this workspace that the map does not allow.
pub(super) fn check(tree: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree {
        let Some(from) = crate_of_manifest(&source.path) else {
            continue;
        };
        let mut report = |line, what| {
            violations.push(Violation::new(&source.path, line, "arrow", what));
        };
        let Some(allowed) = targets(ARROWS, from) else {
            report(
                0,
                format!("{from} is not in the map of arrows (xtask/src/tidy/arrows.rs)"),
            );
            continue;
        };
        for arrow in arrows(&source.text) {
            let for_tests = arrow.test_only
                && (arrow.to == TEST_ARROW_OF_ALL
                    || targets(TEST_ARROWS, from).is_some_and(|t| t.contains(&arrow.to.as_str())));
            if !(for_tests || allowed.contains(&arrow.to.as_str())) {
                let only = match allowed {
                    [] => "on no other crate".to_owned(),
                    some => format!("only on {}", some.join(", ")),
                };
                report(
                    arrow.line,
                    format!("{from} -> {}: {from} may depend {only}", arrow.to),
                );
            }
        }
    }
    violations
}

/// Finds an ARCHITECTURE.md whose map is not the one above.
pub(super) fn quoted(tree: &[Source]) -> Vec<Violation> {
    let Some(page) = tree.iter().find(|source| source.path == "ARCHITECTURE.md") else {
        return Vec::new();
    };
    let expected = format!("{MARK}\n```text\n{}```\n", rendered());
    if page.text.contains(&expected) {
        return Vec::new();
    }
    let line = page
        .text
        .lines()
        .position(|line| line == MARK)
        .map_or(0, |at| at + 1);
    let what = format!("the map of arrows has to read:\n{expected}");
    vec![Violation::new(&page.path, line, "arrow", what)]
}

fn rendered() -> String {
    ARROWS
        .iter()
        .filter(|(from, _)| *from != "xtask")
        .map(|(from, to)| match to {
            [] => format!("{from}\n"),
            some => format!("{from:8} -> {}\n", some.join(", ")),
        })
        .collect()
}

fn targets(map: &[(&str, &'static [&'static str])], from: &str) -> Option<&'static [&'static str]> {
    map.iter()
        .find(|(name, _)| *name == from)
        .map(|(_, to)| *to)
}

/// The short name of the crate whose manifest this is: `stats` for crates/waggle-stats/Cargo.toml.
fn crate_of_manifest(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    let name = folder.strip_prefix("crates/").unwrap_or(folder);
    (!name.contains('/')).then(|| name.strip_prefix("waggle-").unwrap_or(name))
}

/// The workspace crates a manifest names in any of its dependency tables.
fn arrows(manifest: &str) -> Vec<Arrow> {
    let mut found = Vec::new();
    let mut table = String::new();
    for (number, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let is_header = line.starts_with('[');
        if is_header {
            table = line.trim_matches(['[', ']']).replace(['"', '\''], "");
        }
        // `[dependencies.name]` and `[target.'cfg(unix)'.dependencies]` are tables as well.
        let Some(at) = table.find("dependencies") else {
            continue;
        };
        let after = table[at..]
            .trim_start_matches("dependencies")
            .trim_start_matches('.');
        let key = match (is_header, after) {
            (true, name) => name,
            (false, "") => line.split(['.', '=']).next().unwrap_or_default(),
            (false, _) => continue,
        };
        let key = key.trim().trim_matches(['"', '\'']);
        let to = match key.strip_prefix("waggle-") {
            Some(short) => short,
            None if key == "waggle" || key == "xtask" => key,
            None => continue,
        };
        let test_only = table[..at].ends_with("dev-");
        found.push(Arrow {
            to: to.to_owned(),
            line: number + 1,
            test_only,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, manifest: &str) -> Vec<String> {
        check(&[Source::new(path, manifest)])
            .iter()
            .map(Violation::to_string)
            .collect()
    }

    #[test]
    fn an_arrow_that_points_up_or_sideways_is_found() {
        let manifest = "[package]\nname = \"waggle-wire\"\n[dependencies]\nmemchr = \"2\"\n\
                        waggle-server.workspace = true\n";
        let found = violations("crates/waggle-wire/Cargo.toml", manifest);
        let what = "wire -> server: wire may depend only on foreign";
        assert_eq!(
            found,
            [format!("crates/waggle-wire/Cargo.toml:5: arrow: {what}")]
        );
        let manifest = "[dependencies.\"waggle-load\"]\npath = \"../waggle-load\"\n";
        let found = violations("crates/waggle-report/Cargo.toml", manifest);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].ends_with(
                "report -> load: report may depend only on stats, digest, files, foreign"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn every_form_of_a_dependency_is_read() {
        let manifest = "[dependencies]\nwaggle-stats = { path = \"x\" } # why\n\
                        [target.'cfg(unix)'.build-dependencies]\nwaggle-wire.workspace = true\n\
                        [dev-dependencies]\n\"waggle-server\" = \"1\"\n[lints]\nwaggle-x = 1\n";
        let found: Vec<_> = arrows(manifest)
            .into_iter()
            .map(|a| (a.to, a.test_only))
            .collect();
        let expected = [("stats", false), ("wire", false), ("server", true)];
        assert_eq!(
            found,
            expected.map(|(to, test_only)| (to.to_owned(), test_only))
        );
    }

    #[test]
    fn arrows_of_tests_are_for_tests() {
        let load = "crates/waggle-load/Cargo.toml";
        let body = "waggle-server.workspace = true\n";
        assert_eq!(
            violations(load, &format!("[dev-dependencies]\n{body}")).len(),
            0
        );
        assert_eq!(
            violations(load, &format!("[dependencies]\n{body}")).len(),
            1
        );
        let need = "waggle-need.workspace = true\n";
        for (table, found) in [("dev-dependencies", 0), ("dependencies", 1)] {
            let manifest = format!("[{table}]\n{need}");
            assert_eq!(violations(load, &manifest).len(), found, "{table}");
        }
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_found() {
        let found = violations("crates/waggle-new/Cargo.toml", "[package]\n");
        assert!(found[0].contains("new is not in the map"), "{found:?}");
    }

    #[test]
    fn the_map_has_no_cycle() {
        // Each crate points only at crates that stand below it in the list.
        for (index, (from, to)) in ARROWS.iter().enumerate() {
            for target in *to {
                let below = ARROWS[index + 1..].iter().any(|(name, _)| name == target);
                assert!(below, "{from} -> {target} does not point down");
            }
        }
    }

    #[test]
    fn an_old_map_in_the_page_is_found() {
        let page = Source::new(
            "ARCHITECTURE.md",
            &format!("a\n{MARK}\n```text\nold\n```\n"),
        );
        let found = quoted(&[page]);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
