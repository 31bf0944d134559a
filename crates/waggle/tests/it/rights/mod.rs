//! What verbs may do while they run, and what a script in them may: nothing that its user may not.

mod attached;
mod scripts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A user that owns nothing here, and the one who called sudo in these tests.
const NOBODY: u32 = 65534;
const CALLER: u32 = 54321;

/// Fields of `/proc/PID/task/TID/status` by thread.
fn threads(pid: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    // A thread that has just ended has none.
    let texts = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let fields = |text: String| {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect()
    };
    texts.map(fields).collect()
}

/// The process whose parent is `pid` and which has this name.
fn child_named(pid: u32, name: &str) -> Option<u32> {
    let parent = pid.to_string();
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(|number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let has = |field: &str, value: &str| {
            let mut lines = status.lines().filter_map(|line| line.strip_prefix(field));
            lines.next().is_some_and(|line| line.trim() == value)
        };
        has("PPid:", &parent) && has("Name:", name)
    })
}

/// A file of this user that nobody else may read, in a folder that all may look into.
fn private_file(folder: &Path, name: &str, uid: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    fs::write(&path, "private").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    std::os::unix::fs::chown(&path, Some(uid), Some(uid)).expect("an owner");
    path
}

/// A folder that all may look into.
fn open_folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).expect("a mode");
    folder
}
