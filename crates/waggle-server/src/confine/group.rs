//! A control group: made where the kernel lets one be made, its limits set, and removed.
//!
//! Neighbours: `hierarchy` says where that may be, the parent which limits are written to it.
//! Invariant: a group whose limits cannot be set is removed at once, those of processes that are
//! gone when the next is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hierarchy::{self, Hierarchy};

/// Groups are called this and the process id of their maker.
const PREFIX: &str = "waggle-confine-";

/// How often a group that was left is tried to be removed, and the pause between.
const REMOVALS_MAX: u32 = 200;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// A group made for a confinement.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) path: PathBuf,
    pub(super) controller: &'static str,
}

impl Group {
    /// Makes one for `controller`. `set` writes its limits, given the group, its parent and the
    /// version, and gives what the kernel made of them.
    pub(super) fn make(
        controller: &'static str,
        set: impl Fn(&Path, &Path, u8) -> io::Result<String>,
    ) -> Result<(String, Self), String> {
        let hierarchy = Hierarchy::of(controller)
            .ok_or_else(|| format!("there is no control group for {controller}"))?;
        let mut why = String::new();
        for parent in hierarchy.parents() {
            hierarchy::remove_abandoned(&parent, PREFIX);
            match below(&parent, controller, hierarchy.version, &set) {
                Ok((kept, path)) => return Ok((kept, Self { path, controller })),
                Err(error) => why = format!("{} in {}: {error}", controller, parent.display()),
            }
        }
        Err(why)
    }

    /// Removes it, once it was left. A process that is just ending is in it for a moment longer.
    pub(super) fn remove(&self) {
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(REMOVAL_PAUSE);
                }
                _ => return,
            }
        }
    }
}

/// A new group below `parent` with its limits set; none if they cannot be.
fn below(
    parent: &Path,
    controller: &str,
    version: u8,
    set: &impl Fn(&Path, &Path, u8) -> io::Result<String>,
) -> io::Result<(String, PathBuf)> {
    if version == 2 {
        // Refused where processes are in the parent; then it may be on already.
        let _ = fs::write(
            parent.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
    let mut number = 0;
    let group = loop {
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Ok(()) => break path,
            // Another confinement of this process.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    match set(&group, parent, version) {
        Ok(kept) => Ok((kept, group)),
        Err(error) => {
            let _ = fs::remove_dir(&group);
            Err(error)
        }
    }
}
