//! Which servers are installed on this machine, and which of them a throw-away server uses.
//!
//! Looks on PATH, in the places distributions and vendors use, and at the MySQL roots that
//! `scripts/fetch-mysql` unpacks; [`crate::binary`] then says what each file is. Invariant: one
//! program file is reported once, however many names it has.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Flavour, binary};

/// Names that server programs go by. `mysqld` may be a link to `mariadbd`, so that comes first.
const NAMES: [&str; 4] = ["mariadbd", "mysqld", "mariadbd-debug", "mysqld-debug"];

/// Where servers lie when they are not on PATH.
const PLACES: [&str; 5] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/libexec",
    "/usr/local/mysql/bin",
    "/opt/mysql/bin",
];

/// A server program on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstalledServer {
    /// The program, as seen from outside its root.
    pub exe: PathBuf,
    /// The directory to chroot into before it can run; `None` for the ordinary root.
    pub root: Option<PathBuf>,
    /// The family of the server.
    pub flavour: Flavour,
    /// The version in the file, such as `9.7.4` or `10.11.19-MariaDB`.
    pub version: Option<String>,
    /// GNU build id in lower-case hex.
    pub build_id: Option<String>,
}

impl InstalledServer {
    fn inspect(exe: &Path, root: Option<&Path>) -> Option<Self> {
        let binary = binary::inspect(exe).ok()?;
        Some(Self {
            exe: exe.to_owned(),
            root: root.map(Path::to_owned),
            flavour: binary.flavour,
            version: binary.version,
            build_id: binary.build_id,
        })
    }

    /// The program as seen from inside its root.
    pub fn exe_inside(&self) -> PathBuf {
        match &self.root {
            Some(root) => Path::new("/").join(self.exe.strip_prefix(root).unwrap_or(&self.exe)),
            None => self.exe.clone(),
        }
    }
}

/// Every server program found: the MySQL roots first (newest first), then PATH and the usual
/// places, in that order.
pub fn installed_servers() -> Vec<InstalledServer> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let roots = mysql_roots();
    let in_roots = roots
        .iter()
        .map(|root| (root.join("usr/sbin/mysqld"), Some(root.as_path())));
    for (exe, root) in in_roots.chain(ordinary().into_iter().map(|exe| (exe, None))) {
        let Ok(facts) = fs::metadata(&exe) else {
            continue;
        };
        if facts.is_file() && seen.insert((facts.dev(), facts.ino())) {
            found.extend(InstalledServer::inspect(&exe, root));
        }
    }
    found
}

/// The server a throw-away one of this flavour runs, or what to do to get one.
pub(crate) fn find(flavour: Flavour) -> Result<InstalledServer, String> {
    if flavour == Flavour::MySql {
        if let Some(root) = env::var_os("WAGGLE_MYSQL_ROOT").filter(|root| !root.is_empty()) {
            let root = PathBuf::from(root);
            let exe = root.join("usr/sbin/mysqld");
            return InstalledServer::inspect(&exe, Some(&root))
                .filter(|server| server.flavour == flavour)
                .ok_or_else(|| {
                    format!(
                        "WAGGLE_MYSQL_ROOT says {}, but {} is no MySQL server",
                        root.display(),
                        exe.display()
                    )
                });
        }
        for root in mysql_roots() {
            let server = InstalledServer::inspect(&root.join("usr/sbin/mysqld"), Some(&root));
            if let Some(server) = server.filter(|server| server.flavour == flavour) {
                return Ok(server);
            }
        }
    }
    ordinary()
        .iter()
        .filter_map(|exe| InstalledServer::inspect(exe, None))
        .find(|server| server.flavour == flavour)
        .ok_or_else(|| {
            match flavour {
                Flavour::MySql => {
                    "run scripts/fetch-mysql, set WAGGLE_MYSQL_ROOT to an unpacked MySQL, \
                 or put mysqld on PATH"
                }
                Flavour::MariaDb => {
                    "install mariadbd (Debian: apt-get install mariadb-server-core), \
                 or put it on PATH"
                }
            }
            .to_owned()
        })
}

/// The directory this program's own caches live in: `${XDG_CACHE_HOME:-~/.cache}/waggle`.
pub fn cache_dir() -> PathBuf {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/cache"))
        .join("waggle")
}

/// Complete MySQL roots in the cache, newest first.
fn mysql_roots() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(cache_dir().join("mysql")) else {
        return Vec::new();
    };
    let mut roots: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|root| root.join(".complete").exists())
        .collect();
    roots.sort_by(|a, b| by_version(&b.to_string_lossy(), &a.to_string_lossy()));
    roots
}

/// Files outside the roots that may be servers by their name.
fn ordinary() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
    let mut seen = BTreeSet::new();
    places
        .filter(|place| place.is_absolute())
        .flat_map(|place| NAMES.map(|name| place.join(name)))
        .filter(|exe| fs::metadata(exe).is_ok_and(|facts| seen.insert((facts.dev(), facts.ino()))))
        .collect()
}

/// Orders names by the numbers in them, so that `9.10.0` is newer than `9.9.1`.
fn by_version(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (pieces(a).into_iter(), pieces(b).into_iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) if x == y => {}
            (x, y) => return x.cmp(&y),
        }
    }
}

/// A name cut into numbers and what lies between them; text sorts before a number.
fn pieces(text: &str) -> Vec<(u64, String)> {
    let mut pieces: Vec<(u64, String)> = Vec::new();
    let mut digits = false;
    for c in text.chars() {
        if pieces.is_empty() || c.is_ascii_digit() != digits {
            pieces.push((0, String::new()));
            digits = c.is_ascii_digit();
        }
        let Some(last) = pieces.last_mut() else {
            continue;
        };
        match c.to_digit(10) {
            Some(digit) => {
                last.0 = last
                    .0
                    .saturating_mul(10)
                    .saturating_add(u64::from(digit) + 1)
            }
            None => last.1.push(c),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_by_number() {
        let mut names = [
            "9.7.4-2", "8.4.10-1", "9.10.0-1", "8.4.9-1", "9.7.4-10", "9.7.4",
        ];
        names.sort_by(|a, b| by_version(a, b));
        assert_eq!(
            names,
            [
                "8.4.9-1", "8.4.10-1", "9.7.4", "9.7.4-2", "9.7.4-10", "9.10.0-1"
            ]
        );
    }

    #[test]
    fn no_program_is_reported_twice() {
        let found = installed_servers();
        let files: BTreeSet<_> = found
            .iter()
            .map(|server| fs::metadata(&server.exe).unwrap())
            .map(|facts| (facts.dev(), facts.ino()))
            .collect();
        assert_eq!(files.len(), found.len(), "{found:#?}");
    }
}
