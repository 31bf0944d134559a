//! Keeps processes to a part of the machine: some of its processors, a rate of disk traffic.
//!
//! A study asks what observation costs where the server and its observer have few processors, or a
//! slow disk. The kernel enforces it through control groups of version 1 or 2 (`hierarchy`);
//! processors also through affinity where there is no group to be had. Neighbours: `sandbox`
//! starts the servers, the agent's own budget has groups of its own.
//!
//! Invariant: what the kernel enforces is read back from it, and what it does not is told with the
//! reason; a process that outlives its confinement is back where it was, and the groups are gone.

mod affinity;
mod disk;
mod group;
pub mod hierarchy;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use group::Group;

/// What processes may use together; `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processors.
    pub cpus: Option<u32>,
    /// Traffic with the disk that holds the data.
    pub io: Option<IoRates>,
}

impl Limits {
    /// True if there is any.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// Rates of disk traffic; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoRates {
    /// Bytes read a second.
    pub read_bytes_s: Option<u64>,
    /// Bytes written a second.
    pub write_bytes_s: Option<u64>,
    /// Reads a second.
    pub read_ops_s: Option<u64>,
    /// Writes a second.
    pub write_ops_s: Option<u64>,
}

/// Why a process is not confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused to move it.
    #[error("cannot keep process {pid} to its limits: {doing}: {source}")]
    Refused {
        /// The process.
        pid: u32,
        /// What was being done.
        doing: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It was moved, and may run elsewhere all the same.
    #[error(
        "process {pid} was kept to processors {wanted}, but its thread {thread} may run on {found}"
    )]
    NotKept {
        /// The process.
        pid: u32,
        /// The thread that may.
        thread: u32,
        /// Processors it was to be kept to.
        wanted: String,
        /// Processors the kernel lets it use.
        found: String,
    },
}

/// A part of the machine, and the processes that are kept to it.
#[derive(Debug)]
pub struct Confinement {
    /// Processors, in order; empty without a limit.
    cpus: Vec<u32>,
    /// One for each controller; none for processors kept by affinity.
    groups: Vec<Group>,
    by_affinity: bool,
    applied: Vec<String>,
    refused: Vec<String>,
    members: Vec<Member>,
    /// This process, and another that works for it.
    kept_off: Option<Option<u32>>,
}

/// A process in it, and where it was before.
#[derive(Debug)]
struct Member {
    pid: u32,
    /// The group in each hierarchy, in the order of `groups`.
    before: Vec<Option<PathBuf>>,
    affinity: Option<affinity::Mask>,
}

impl Confinement {
    /// Makes the groups for `limits`; `data` is a path on the disk that is throttled. What cannot
    /// be had is in [`refused`](Self::refused).
    pub fn new(limits: &Limits, data: &Path) -> Self {
        let mut made = Self {
            cpus: Vec::new(),
            groups: Vec::new(),
            by_affinity: false,
            applied: Vec::new(),
            refused: Vec::new(),
            members: Vec::new(),
            kept_off: None,
        };
        if let Some(cpus) = limits.cpus {
            made.limit_cpus(cpus);
        }
        if let Some(rates) = &limits.io {
            match made.limit_io(rates, data) {
                Ok(what) => made.applied.push(what),
                Err(why) => made
                    .refused
                    .push(format!("no limit of disk traffic: {why}")),
            }
        }
        made
    }

    /// What the kernel enforces, in words, as read back from it.
    pub fn applied(&self) -> &[String] {
        &self.applied
    }

    /// What it does not, with the reason.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The processors that members are kept to; empty: all.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    fn limit_cpus(&mut self, wanted: u32) {
        let allowed = match affinity::at_first() {
            Ok(mask) => mask.processors(),
            Err(error) => {
                self.refused
                    .push(format!("no limit of processors: {error}"));
                return;
            }
        };
        // The last ones: interrupts go to the first by default.
        let first = allowed.len().saturating_sub(wanted.max(1) as usize);
        self.cpus = allowed[first..].to_vec();
        if first == 0 && (allowed.len() as u32) < wanted {
            let have = allowed.len();
            self.refused.push(format!(
                "{wanted} processors were asked for, this process may use {have}"
            ));
        }
        let list = hierarchy::list(&self.cpus);
        let group = Group::make("cpuset", |group, parent, version| {
            if version == 1 {
                // A group of version 1 takes nobody before it has memory nodes.
                let mems = fs::read_to_string(parent.join("cpuset.effective_mems"))
                    .or_else(|_| fs::read_to_string(parent.join("cpuset.mems")))?;
                fs::write(group.join("cpuset.mems"), mems.trim())?;
            }
            fs::write(group.join("cpuset.cpus"), &list)?;
            let kept = fs::read_to_string(group.join("cpuset.cpus"))?;
            Ok(kept.trim().to_owned())
        });
        match group {
            Ok((kept, group)) => {
                let path = group.path.display();
                self.applied
                    .push(format!("processors {kept}, by cpuset {path}"));
                self.groups.push(group);
            }
            Err(_) => {
                self.by_affinity = true;
                self.applied
                    .push(format!("processors {list}, by the affinity of each thread"));
            }
        }
    }

    fn limit_io(&mut self, rates: &IoRates, data: &Path) -> Result<String, String> {
        let disk = disk::of(data)?;
        let v1 = Group::make("blkio", |group, _, _| {
            disk::throttle_v1(group, &disk, rates)
        });
        let (kept, group, note) = match v1 {
            Ok((kept, group)) => (
                kept,
                group,
                "; version 1 counts reads and direct writes, not those through the page cache \
                 (the redo log)",
            ),
            Err(first) => {
                let v2 = Group::make("io", |group, _, _| disk::throttle_v2(group, &disk, rates));
                let (kept, group) = v2.map_err(|second| format!("{first}; {second}"))?;
                (kept, group, "")
            }
        };
        let what = format!("{kept}, by {}{note}", group.path.display());
        self.groups.push(group);
        Ok(what)
    }

    /// Keeps a process to the limits, with all the threads it has and will have.
    ///
    /// # Errors
    /// [`ConfineError`]; it is not confined, or not wholly.
    pub fn add(&mut self, pid: u32) -> Result<(), ConfineError> {
        let refused = |doing: String| move |source| ConfineError::Refused { pid, doing, source };
        // What it was before is what the first time found.
        let is_known = self.members.iter().any(|member| member.pid == pid);
        let mut member = Member {
            pid,
            before: Vec::new(),
            affinity: None,
        };
        for group in &self.groups {
            member
                .before
                .push(hierarchy::place_of(pid, group.controller));
        }
        if self.by_affinity {
            let before = affinity::of(pid).map_err(refused("reading its affinity".to_owned()))?;
            member.affinity = Some(before);
        }
        if !is_known {
            self.members.push(member);
        }
        for group in &self.groups {
            let file = group.path.join("cgroup.procs");
            fs::write(&file, pid.to_string())
                .map_err(refused(format!("writing to {}", file.display())))?;
        }
        if self.by_affinity {
            let mask = affinity::Mask::of_processors(&self.cpus);
            affinity::keep_threads(pid, &mask).map_err(refused("setting affinity".to_owned()))?;
        }
        self.check(pid)
    }

    /// Keeps every thread of this process but the calling one off the chosen processors: a load
    /// that shares them would be part of what it measures. Threads that start later are not kept
    /// off, nor are processes that the calling thread starts. The same goes for the process `also`,
    /// in which the load may run, and its first thread. Returns the processors that are left;
    /// all, if there are no others.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_threads_off(&mut self, also: Option<u32>) -> io::Result<Vec<u32>> {
        let all = affinity::at_first()?.processors();
        let others: Vec<u32> = all
            .iter()
            .copied()
            .filter(|cpu| !self.cpus.contains(cpu))
            .collect();
        if others.is_empty() || others == all {
            return Ok(all);
        }
        self.kept_off = Some(also);
        let mask = affinity::Mask::of_processors(&others);
        affinity::keep_other_threads(&mask)?;
        if let Some(pid) = also {
            affinity::keep_further_threads(pid, &mask)?;
        }
        Ok(others)
    }

    /// Every thread of the process may run on the chosen processors only.
    fn check(&self, pid: u32) -> Result<(), ConfineError> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        for thread in affinity::threads(pid) {
            let Ok(mask) = affinity::of(thread) else {
                continue; // It has ended.
            };
            let found = mask.processors();
            if found.iter().any(|cpu| !self.cpus.contains(cpu)) {
                return Err(ConfineError::NotKept {
                    pid,
                    thread,
                    wanted: hierarchy::list(&self.cpus),
                    found: hierarchy::list(&found),
                });
            }
        }
        Ok(())
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        if let Some(also) = self.kept_off
            && let Ok(mask) = affinity::at_first()
        {
            let _ = affinity::keep_other_threads(&mask);
            if let Some(pid) = also {
                let _ = affinity::keep_further_threads(pid, &mask);
            }
        }
        for member in &self.members {
            for before in member.before.iter().flatten() {
                // Refused for a process that is gone, which is where it should be.
                let _ = fs::write(before.join("cgroup.procs"), member.pid.to_string());
            }
            if let Some(mask) = &member.affinity {
                let _ = affinity::keep_threads(member.pid, mask);
            }
        }
        for group in &self.groups {
            group.remove();
        }
    }
}

#[cfg(test)]
mod tests;
