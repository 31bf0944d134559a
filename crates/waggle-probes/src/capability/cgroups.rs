//! Which control groups are mounted: version 1, version 2, or both at once.
//!
//! Helpers name a task's group in version 2; limits and accounting may be in either.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Fact;

/// Mount options that are no controllers.
const OPTIONS: [&str; 16] = [
    "rw",
    "ro",
    "nosuid",
    "nodev",
    "noexec",
    "relatime",
    "noatime",
    "nodiratime",
    "strictatime",
    "sync",
    "dirsync",
    "lazytime",
    "xattr",
    "seclabel",
    "noprefix",
    "clone_children",
];

/// A mounted hierarchy of version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct V1Mount {
    /// Where it is mounted.
    pub path: PathBuf,
    /// Its controllers; none for a named hierarchy.
    pub controllers: Vec<String>,
    /// Its name if it has one (`systemd`).
    pub name: Option<String>,
}

/// The mounted hierarchy of version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct V2Mount {
    /// Where it is mounted.
    pub path: PathBuf,
    /// The controllers it has; those mounted in version 1 are not among them.
    pub controllers: Vec<String>,
}

/// Control groups of this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cgroups {
    /// Both versions, as one answer.
    #[serde(flatten)]
    pub fact: Fact,
    /// Hierarchies of version 1.
    pub v1: Vec<V1Mount>,
    /// The hierarchy of version 2.
    pub v2: Option<V2Mount>,
}

impl Cgroups {
    /// Reads `mounts` (the text of `/proc/self/mounts`) and the controllers of version 2.
    pub(super) fn gather(mounts: &str) -> Self {
        Self::parse(mounts, |path| {
            fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default()
        })
    }

    fn parse(mounts: &str, v2_controllers: impl Fn(&Path) -> String) -> Self {
        let mut v1: Vec<V1Mount> = Vec::new();
        let mut v2 = None;
        for mount in mounts.lines().filter_map(Mount::parse) {
            match mount.kind {
                "cgroup" => {
                    let found = v1_mount(&mount);
                    // A container shows a hierarchy once more for its own part.
                    if !v1
                        .iter()
                        .any(|m| m.controllers == found.controllers && m.name == found.name)
                    {
                        v1.push(found);
                    }
                }
                "cgroup2" if v2.is_none() => {
                    let words = v2_controllers(&mount.path);
                    let controllers = words.split_whitespace().map(str::to_owned).collect();
                    v2 = Some(V2Mount {
                        path: mount.path,
                        controllers,
                    });
                }
                _ => {}
            }
        }
        Self {
            fact: fact(&v1, v2.as_ref()),
            v1,
            v2,
        }
    }
}

fn v1_mount(mount: &Mount<'_>) -> V1Mount {
    let name = mount
        .options
        .iter()
        .find_map(|option| option.strip_prefix("name="));
    let controllers = mount
        .options
        .iter()
        .filter(|option| !OPTIONS.contains(option) && !option.contains('='))
        .map(|&option| option.to_owned())
        .collect();
    V1Mount {
        path: mount.path.clone(),
        controllers,
        name: name.map(str::to_owned),
    }
}

fn fact(v1: &[V1Mount], v2: Option<&V2Mount>) -> Fact {
    let in_v1: Vec<&str> = v1
        .iter()
        .flat_map(|mount| &mount.controllers)
        .map(String::as_str)
        .collect();
    let in_v1 = in_v1.join(" ");
    match v2 {
        Some(v2) => {
            let controllers = match v2.controllers.join(" ") {
                none if none.is_empty() => "no controllers".to_owned(),
                some => some,
            };
            let mut value = format!("v2 at {} ({controllers})", v2.path.display());
            if !in_v1.is_empty() {
                value += &format!("; v1 has {in_v1}");
            }
            Fact::yes("cgroups", value)
        }
        None if v1.is_empty() => Fact::no(
            "cgroups",
            "no control groups are mounted",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
        None => Fact::no(
            "cgroups",
            format!("v1 only ({in_v1}); a probe names a task's group in v2"),
            "mkdir /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
        ),
    }
}

/// One line of `/proc/self/mounts`.
pub(super) struct Mount<'a> {
    pub(super) path: PathBuf,
    pub(super) kind: &'a str,
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ').skip(1);
        let path = PathBuf::from(unescaped(fields.next()?));
        let kind = fields.next()?;
        let options = fields.next()?.split(',').collect();
        Some(Self {
            path,
            kind,
            options,
        })
    }
}

/// The kernel writes blanks in paths as `\040`, and so on.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest
            .get(at + 1..at + 4)
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
proc /proc proc rw,relatime 0 0
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,release_agent=/x,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime,nsdelegate 0 0
";
    const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n";

    #[test]
    fn both_at_once() {
        let found = Cgroups::parse(HYBRID, |_| String::new());
        let named: Vec<_> = found
            .v1
            .iter()
            .map(|m| (m.controllers.join(","), &m.name))
            .collect();
        let systemd = Some("systemd".to_owned());
        let expected = [
            ("cpu,cpuacct".into(), &None),
            ("memory".into(), &None),
            (String::new(), &systemd),
        ];
        assert_eq!(named, expected);
        assert_eq!(found.v2.unwrap().path, Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(
            found.fact.value.as_deref(),
            Some("v2 at /sys/fs/cgroup/unified (no controllers); v1 has cpu cpuacct memory")
        );
    }

    #[test]
    fn version_2_alone() {
        let found = Cgroups::parse(V2, |_| "cpuset cpu io memory pids\n".into());
        assert_eq!(found.v1, []);
        assert_eq!(
            found.v2.unwrap().controllers,
            ["cpuset", "cpu", "io", "memory", "pids"]
        );
        assert_eq!(found.fact.ok, Some(true));
    }

    #[test]
    fn version_1_alone_has_a_remedy() {
        let only = HYBRID.replace("cgroup2", "tmpfs");
        let found = Cgroups::parse(&only, |_| String::new());
        assert_eq!((found.fact.ok, found.v2), (Some(false), None));
        assert!(
            found
                .fact
                .reason
                .unwrap()
                .starts_with("v1 only (cpu cpuacct memory)")
        );
        assert!(found.fact.remedy.unwrap().contains("mount -t cgroup2"));
    }

    #[test]
    fn none_and_nonsense() {
        for text in ["", "\n", "cgroup\n", "cgroup2 /x\n", "a b c"] {
            let found = Cgroups::parse(text, |_| unreachable!());
            assert_eq!(
                (found.fact.ok, found.v1.len()),
                (Some(false), 0),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_part_shown_to_a_container_counts_once() {
        let twice = HYBRID.to_owned() + HYBRID;
        assert_eq!(Cgroups::parse(&twice, |_| String::new()).v1.len(), 3);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescaped(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescaped(r"/a\04"), r"/a\04");
        assert_eq!(unescaped(r"\é\999"), r"\é\999");
    }
}
