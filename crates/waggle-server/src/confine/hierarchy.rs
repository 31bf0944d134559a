//! Where a controller of control groups is mounted, and which group a process is in.
//!
//! Invariant: texts of the kernel are only read here; what does not parse is as if not there.

use std::fs;
use std::path::{Path, PathBuf};

/// A hierarchy that has a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The group of this process in it, from the mount point.
    pub own: PathBuf,
    /// 1 or 2.
    pub version: u8,
}

impl Hierarchy {
    /// The hierarchy of `controller` for this process; `None` if there is none. The same controller
    /// may have another name in version 2 (`blkio` is `io`).
    pub fn of(controller: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let found = find(&mounts, &own, controller)?;
        (found.version == 1 || found.offers(controller)).then_some(found)
    }

    /// Version 2 is one hierarchy for all controllers; not all are there.
    fn offers(&self, controller: &str) -> bool {
        let all = fs::read_to_string(self.mount.join("cgroup.controllers")).unwrap_or_default();
        all.split_ascii_whitespace().any(|one| one == controller)
    }

    /// Groups below which one may be made, the nearest first.
    pub(super) fn parents(&self) -> Vec<PathBuf> {
        let own = self.mount.join(&self.own);
        match own == self.mount {
            true => vec![own],
            false => vec![own, self.mount.clone()],
        }
    }
}

/// The hierarchy that `controller` is in, by the texts of `/proc/self/mounts` and a process's
/// `/proc/PID/cgroup`.
pub fn find(mounts: &str, own: &str, controller: &str) -> Option<Hierarchy> {
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, path) = (words.next()?, words.next()?);
            let fits = words.next()? == kind
                && option.is_none_or(|wanted| {
                    let mut options = words.next().unwrap_or_default().split(',');
                    options.any(|one| one == wanted)
                });
            fits.then(|| PathBuf::from(path))
        })
    };
    // number:controllers:path; in version 2 the controllers are empty.
    let place = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            wanted(controllers).then(|| PathBuf::from(path.trim_start_matches('/')))
        })
    };
    if let Some(mount) = mounted("cgroup", Some(controller)) {
        let own = place(&|controllers| controllers.split(',').any(|c| c == controller));
        return Some(Hierarchy {
            mount,
            own: own.unwrap_or_default(),
            version: 1,
        });
    }
    let mount = mounted("cgroup2", None)?;
    Some(Hierarchy {
        mount,
        own: place(&str::is_empty).unwrap_or_default(),
        version: 2,
    })
}

/// The group of a process in the hierarchy of `controller`.
pub(super) fn place_of(pid: u32, controller: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let found = find(&mounts, &own, controller)?;
    Some(found.mount.join(found.own))
}

/// Removes the groups `prefix`PID... of processes that are gone. Only empty ones can be.
pub(super) fn remove_abandoned(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let maker = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        if let Some(pid) = maker
            && !Path::new("/proc").join(pid.to_string()).exists()
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Processors as the kernel lists them: `0-2,5`.
pub(super) fn list(cpus: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(first) = rest.first() {
        let run = rest
            .iter()
            .zip(*first..)
            .take_while(|(cpu, expected)| *cpu == expected)
            .count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", rest[run - 1]),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_found_in_either_version() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let own = "5:cpuset:/a/b\n1:name=systemd:/\n0::/c\n";
        let found = find(mounts, own, "cpuset").unwrap();
        assert_eq!((found.version, found.own), (1, PathBuf::from("a/b")));
        let found = find(mounts, own, "io").unwrap();
        assert_eq!((found.version, found.own), (2, PathBuf::from("c")));
        assert_eq!(find("", own, "cpuset"), None);
        assert_eq!(find("cgroup\n x y", ":::\n", "cpuset"), None);
    }

    #[test]
    fn the_groups_to_build_in_are_the_nearest_first() {
        let hierarchy = |own: &str| Hierarchy {
            mount: PathBuf::from("/m"),
            own: PathBuf::from(own),
            version: 1,
        };
        assert_eq!(hierarchy("").parents(), [PathBuf::from("/m/")]);
        let below = [PathBuf::from("/m/a"), PathBuf::from("/m")];
        assert_eq!(hierarchy("a").parents(), below);
    }

    #[test]
    fn processors_are_listed_as_the_kernel_does() {
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[3]), "3");
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
