//! What a file may not carry into the tree: stray bytes, somebody's paths, hosts, new folders.

use super::Violation;
use crate::source::Source;

/// The folders of the root; design.md says what each is for.
const TOP_LEVEL: &[&str] = &[
    ".cargo",
    ".ci",
    "bench",
    "contrib",
    "crates",
    "docs",
    "scripts",
    "tests",
    "web",
    "workloads",
    "xtask",
];

/// Hosts that a file may link to.
const HOSTS: &[&str] = &[
    "apache.org",
    "conventionalcommits.org",
    "docs.rs",
    "ebpf.io",
    "example.com",
    "example.org",
    "github.com",
    "kernel.org",
    "keepachangelog.com",
    "mariadb.com",
    "mariadb.org",
    "mysql.com",
    "opensource.org",
    "percona.com",
    "rust-lang.org",
    "rustup.rs",
    "semver.org",
    "opentelemetry.io",
    "w3.org",
    "wikipedia.org",
];

/// First labels of the names under which package registries and mirrors are served.
const REGISTRY_LABELS: &[&str] = &[
    "deb", "files", "ftp", "index", "mirror", "mirrors", "proxy", "registry", "static",
];

/// Folders of the root that nobody decided on.
pub(super) fn top_level(tree: &[Source]) -> Vec<Violation> {
    let mut folders: Vec<&str> = tree
        .iter()
        .filter_map(|source| Some(source.path.split_once('/')?.0))
        .collect();
    folders.dedup();
    folders
        .into_iter()
        .filter(|folder| !TOP_LEVEL.contains(folder))
        .map(|folder| {
            let what = "not a folder of the root's map (xtask/src/tidy/places.rs)";
            Violation::new(folder, 0, "top-level", what)
        })
        .collect()
}

/// White space at the ends of lines, and a last line without its end.
pub(super) fn white_space(source: &Source) -> Vec<Violation> {
    if source.is_test_data() || source.text.is_empty() {
        return Vec::new();
    }
    let mut violations: Vec<Violation> = (1..)
        .zip(source.text.split('\n'))
        .filter(|(_, line)| line.ends_with([' ', '\t', '\r']))
        .map(|(number, _)| {
            Violation::new(
                &source.path,
                number,
                "white-space",
                "white space ends this line",
            )
        })
        .collect();
    let line = source.text.lines().count();
    if !source.text.ends_with('\n') {
        let what = "the last line does not end with a line break";
        violations.push(Violation::new(&source.path, line, "white-space", what));
    } else if source.text.ends_with("\n\n") {
        let what = "empty lines end this file";
        violations.push(Violation::new(&source.path, line, "white-space", what));
    }
    violations
}

/// Absolute paths into somebody's home.
pub(super) fn home_paths(source: &Source) -> Vec<Violation> {
    // Put together here, so that this file does not break its own rule.
    let homes = ["root", "home", "Users"].map(|folder| format!("/{folder}/"));
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        for home in &homes {
            let found = line.match_indices(home.as_str()).any(|(at, _)| {
                // Inside a longer path, such as a process's root under /proc, it is no home.
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "}_-.*".contains(c))
            });
            if found {
                let what = format!("{home}... is a path of one machine");
                violations.push(Violation::new(&source.path, number, "home-path", what));
            }
        }
    }
    violations
}

/// Hosts outside the list, and names of package registries in any form.
pub(super) fn hosts(source: &Source) -> Vec<Violation> {
    // Cargo's lock names its registry the same on every machine.
    if source.path == "Cargo.lock" {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let schemes = ["http://", "https://"];
        let linked = schemes.iter().flat_map(|scheme| {
            line.match_indices(scheme)
                .map(|(at, _)| host_at(&line[at + scheme.len()..]))
        });
        for host in linked.filter(|host| is_foreign(host)) {
            let what = format!("{host} is not on the list of hosts (xtask/src/tidy/places.rs)");
            violations.push(Violation::new(&source.path, number, "host", what));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        for name in line.split(|c| !is_name(c)).filter(|name| is_registry(name)) {
            let what = format!("{name} is a package registry; clients know their own");
            violations.push(Violation::new(&source.path, number, "host", what));
        }
    }
    violations
}

/// The host that a URL names after its `://`, credentials and port taken off.
fn host_at(rest: &str) -> &str {
    let is_authority = |c: char| c.is_ascii_alphanumeric() || "-._~%:@".contains(c);
    let authority = &rest[..rest.find(|c| !is_authority(c)).unwrap_or(rest.len())];
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches('.')
}

/// A name with a top-level domain that is not on the list; addresses, `localhost`, made-up names
/// of one label and the reserved ends are not.
fn is_foreign(host: &str) -> bool {
    let Some((_, end)) = host.rsplit_once('.') else {
        return false;
    };
    let reserved = [
        "test",
        "invalid",
        "local",
        "localhost",
        "example",
        "internal",
    ];
    let is_name = end.len() >= 2 && end.chars().all(|c| c.is_ascii_alphabetic());
    let listed = HOSTS.iter().any(|known| {
        host.strip_suffix(known)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    is_name && !listed && !reserved.contains(&end)
}

fn is_registry(name: &str) -> bool {
    let labels: Vec<&str> = name.split('.').collect();
    let [first, .., end] = labels.as_slice() else {
        return false;
    };
    labels.len() >= 3
        && labels.iter().all(|label| !label.is_empty())
        && REGISTRY_LABELS.contains(first)
        && ["com", "dev", "io", "net", "org"].contains(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Source) -> Vec<Violation>, text: &str) -> Vec<usize> {
        rule(&Source::new("a.sh", text))
            .into_iter()
            .map(|v| v.line)
            .collect()
    }

    #[test]
    fn stray_white_space_is_found() {
        assert_eq!(lines(white_space, "a \nb\t\nc\r\nd"), [1, 2, 3, 4]);
        assert_eq!(lines(white_space, "a\n\n"), [2]);
        assert_eq!(lines(white_space, "a\n"), []);
        assert_eq!(white_space(&Source::new("fuzz/corpus/a", "a ")), []);
    }

    #[test]
    fn a_path_into_a_home_is_found() {
        let root = concat!("/ro", "ot/x");
        let home = concat!("/ho", "me/me/x");
        assert_eq!(
            lines(home_paths, &format!("a\ncd {root}\n\"{home}\"\n")),
            [2, 3]
        );
        assert_eq!(
            lines(
                home_paths,
                &format!("/proc/1{root} /proc/{{pid}}{root} ~/x\n")
            ),
            []
        );
    }

    #[test]
    fn a_host_that_is_not_listed_is_found() {
        let foreign = concat!("https:/", "/packages.nowhere.net/x");
        let text =
            format!("a\n{foreign}\nhttps://www.mysql.com/ http://127.0.0.1:80/ http://$x/\n");
        assert_eq!(lines(hosts, &text), [2]);
        let dsn =
            "mysql://user:secret@db.corp.net:3306/db http://u:p@db.example.com http://a.test\n";
        assert_eq!(lines(hosts, dsn), []);
        let faked = concat!("https:/", "/notmysql.com/");
        assert_eq!(lines(hosts, faked), [1]);
    }

    #[test]
    fn a_registry_is_found_without_a_scheme() {
        assert_eq!(
            lines(hosts, concat!("npm uses regi", "stry.nowhere.org/x\n")),
            [1]
        );
        assert_eq!(lines(hosts, "self.static.len() index.html deb.rs\n"), []);
    }

    #[test]
    fn a_new_folder_of_the_root_is_found() {
        let tree = ["crates/a/b.rs", "stuff/a.rs", "stuff/b.rs", "README.md"];
        let tree = tree.map(|path| Source::new(path, ""));
        let found: Vec<String> = top_level(&tree).into_iter().map(|v| v.path).collect();
        assert_eq!(found, ["stuff"]);
    }
}
