//! A control group of the agent's own, version 1 or 2, for as long as it runs.
//!
//! Invariant: at the end the process is back where it was and the group is gone; a group that a
//! killed agent left behind is removed by the next one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use waggle_server::confine::hierarchy::{self, Hierarchy};

use super::Limits;

/// Every group is called this and the process id.
const PREFIX: &str = "waggle-";
/// The memory that the kernel enforces is more than the limit by this factor: passing it kills,
/// and the governor is to act before.
const MEMORY_MARGIN: f64 = 1.25;
/// Period of the processor time, us: short, so that a throttled agent is not away for long.
const PERIOD_US: u64 = 20_000;
/// The least quota the kernel accepts, us.
const QUOTA_MIN_US: u64 = 1_000;

/// How often a group that was left is tried to be removed, and the pause between.
const REMOVALS_MAX: u32 = 200;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// The agent's place in the control groups; put back when dropped.
#[derive(Debug)]
pub struct Group {
    /// Groups made, and where the process was before.
    places: Vec<(PathBuf, PathBuf)>,
    /// What the kernel enforces, in words.
    enforced: Vec<String>,
    /// What it does not, and why.
    refused: Vec<String>,
}

impl Group {
    /// Moves this process into groups with `limits`. What is not permitted is in
    /// [`refused`](Self::refused); the governor keeps to the limits all the same.
    pub fn enter(limits: &Limits) -> Self {
        let mut group = Self {
            places: Vec::new(),
            enforced: Vec::new(),
            refused: Vec::new(),
        };
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for (controller, wanted) in [
            ("cpu", limits.cpu.is_some()),
            ("memory", limits.memory.is_some()),
        ] {
            if !wanted {
                continue;
            }
            let limited = match hierarchy::find(&mounts, &own, controller) {
                Some(hierarchy) => group.limit(&hierarchy, controller, limits),
                None => Err(anyhow::anyhow!("no control group for {controller}")),
            };
            match limited {
                Ok(what) => group.enforced.push(what),
                Err(error) => group.refused.push(format!("{controller}: {error:#}")),
            }
        }
        group
    }

    /// What the kernel enforces, in words.
    pub fn enforced(&self) -> &[String] {
        &self.enforced
    }

    /// What the kernel does not enforce, with the reason.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    fn limit(
        &mut self,
        hierarchy: &Hierarchy,
        controller: &str,
        limits: &Limits,
    ) -> anyhow::Result<String> {
        let mut last = None;
        let name = format!("{PREFIX}{}", std::process::id());
        // Another limit may have brought it into its group already.
        let own = match hierarchy.own.parent() {
            Some(parent) if hierarchy.own.ends_with(&name) => parent,
            _ => &hierarchy.own,
        };
        let own = hierarchy.mount.join(own);
        for parent in [&own, &hierarchy.mount] {
            match self.limit_below(parent, &own, hierarchy.version, controller, limits) {
                Ok(what) => return Ok(what),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("two were tried"))
    }

    fn limit_below(
        &mut self,
        parent: &Path,
        own: &Path,
        version: u8,
        controller: &str,
        limits: &Limits,
    ) -> anyhow::Result<String> {
        remove_abandoned(parent);
        let group = parent.join(format!("{PREFIX}{}", std::process::id()));
        match fs::create_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("making {}", group.display()));
            }
            _ => {}
        }
        let limited = (|| {
            if version == 2 {
                // Refused where processes are in the parent; then it may be on already.
                let _ = fs::write(
                    parent.join("cgroup.subtree_control"),
                    format!("+{controller}"),
                );
            }
            for (file, value) in settings(version, controller, limits) {
                write(&group.join(file), &value)?;
            }
            write(&group.join("cgroup.procs"), &std::process::id().to_string())
        })();
        if let Err(error) = limited {
            // Still in use if the other controller's limit is in it; then it is removed at the end.
            let _ = fs::remove_dir(&group);
            return Err(error);
        }
        let what = format!("{controller} by {}", group.display());
        if !self.places.iter().any(|(made, _)| *made == group) {
            self.places.push((group, own.to_path_buf()));
        }
        Ok(what)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Refused where there was nothing to put in reach; then it may do without.
        let _ = super::rights::raise();
        for (group, before) in &self.places {
            // A group that cannot be left stays, empty, until the next agent removes it.
            let back = fs::write(before.join("cgroup.procs"), std::process::id().to_string());
            if back.is_ok() {
                remove_when_empty(group);
            }
        }
    }
}

/// Removes a group that was left. Threads that are just ending are in it for a moment longer.
fn remove_when_empty(group: &Path) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(REMOVAL_PAUSE);
            }
            _ => return,
        }
    }
}

fn write(path: &Path, value: &str) -> anyhow::Result<()> {
    fs::write(path, value).with_context(|| format!("writing {value} to {}", path.display()))
}

/// Groups of agents that are gone are empty, and only empty ones can be removed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .strip_prefix(PREFIX)
            .is_some_and(|pid| pid.parse::<u32>().is_ok())
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Files of a group and what is written to them.
fn settings(version: u8, controller: &str, limits: &Limits) -> Vec<(&'static str, String)> {
    match (version, controller) {
        (_, "cpu") => {
            let (quota, period) = quota(limits.cpu.unwrap_or(1.0));
            if version == 2 {
                vec![("cpu.max", format!("{quota} {period}"))]
            } else {
                vec![
                    ("cpu.cfs_period_us", period.to_string()),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ]
            }
        }
        _ => {
            let bytes = limits.memory.unwrap_or(u64::MAX) as f64 * MEMORY_MARGIN;
            let file = match version {
                2 => "memory.max",
                _ => "memory.limit_in_bytes",
            };
            vec![(file, (bytes as u64).to_string())]
        }
    }
}

/// Quota and period for so many cores, us.
fn quota(cores: f64) -> (u64, u64) {
    let period = (QUOTA_MIN_US as f64 / cores).ceil() as u64;
    let period = period.clamp(PERIOD_US, 1_000_000);
    let quota = (period as f64 * cores).round() as u64;
    (quota.max(QUOTA_MIN_US), period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_what_the_kernel_accepts() {
        assert_eq!(quota(0.05), (1000, 20_000));
        assert_eq!(quota(0.5), (10_000, 20_000));
        assert_eq!(quota(2.0), (40_000, 20_000));
        assert_eq!(quota(0.01), (1000, 100_000));
        assert_eq!(quota(0.0001), (1000, 1_000_000));
    }
}
