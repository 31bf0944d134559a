//! What did an arm leave behind: a changed setting, a new file, a process?
//!
//! Neighbour: `switch` takes a [`State`] before an arm is switched on and compares after it was
//! switched off. Settings that move by themselves are found out beforehand, by two looks with
//! nothing switched between them.
//!
//! Invariant: looking changes nothing; undoing touches only what this module found to be new.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of the data directory that the server makes by itself, by the beginning of their names.
const OWN_FILES: [&str; 10] = [
    "#",
    "ib_",
    "ibtmp",
    "ibdata",
    "undo",
    "binlog.",
    "mysql-bin.",
    "aria_log",
    "multi-master",
    "ddl_",
];

/// Everything that an arm could change and forget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Global variables of the server.
    pub(crate) variables: BTreeMap<String, String>,
    /// Files in the data directory.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Processes below this one.
    pub(crate) processes: BTreeSet<u32>,
}

/// What is not as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// Settings that changed: name, value before, value now.
    pub(crate) variables: Vec<(String, String, String)>,
    /// Files that are new.
    pub(crate) files: Vec<PathBuf>,
    /// Processes that are new, with their names.
    pub(crate) processes: Vec<(u32, String)>,
}

impl State {
    /// Looks; `variables` are the server's.
    pub(crate) fn look(variables: BTreeMap<String, String>, datadir: &Path) -> Self {
        Self {
            variables,
            files: files(datadir),
            processes: family(std::process::id()).into_iter().collect(),
        }
    }

    /// What is new or changed in `after`. `moving` are variables that change by themselves, `files`
    /// those the arm said it writes.
    pub(crate) fn left(
        &self,
        after: &Self,
        moving: &BTreeSet<String>,
        declared: &BTreeSet<PathBuf>,
    ) -> Leftover {
        let names: BTreeSet<&String> = self
            .variables
            .keys()
            .chain(after.variables.keys())
            .collect();
        let value = |state: &Self, name: &String| {
            let value = state.variables.get(name).cloned();
            value.unwrap_or_else(|| "not there".to_owned())
        };
        let variables = names.into_iter().filter_map(|name| {
            let (before, now) = (value(self, name), value(after, name));
            let changed = before != now && !moving.contains(name);
            changed.then(|| (name.clone(), before, now))
        });
        let own = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            OWN_FILES.iter().any(|start| name.starts_with(start)) || name.ends_with(".pid")
        };
        let files = after.files.difference(&self.files);
        let files = files.filter(|path| !own(path) && !declared.contains(*path));
        let processes = after.processes.difference(&self.processes);
        Leftover {
            variables: variables.collect(),
            files: files.cloned().collect(),
            processes: processes
                .filter_map(|pid| Some((*pid, running(*pid)?)))
                .collect(),
        }
    }

    /// Names of the variables that differ.
    pub(crate) fn moved(&self, after: &Self) -> BTreeSet<String> {
        let changed =
            |(name, value): &(&String, &String)| self.variables.get(*name) != Some(*value);
        let names = after.variables.iter().filter(changed);
        names.map(|(name, _)| name.clone()).collect()
    }
}

impl Leftover {
    /// True if everything is as it was.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In words, for a report.
    pub(crate) fn words(&self) -> String {
        let variables = self.variables.iter();
        let variables =
            variables.map(|(name, before, now)| format!("{name} is {now} and was {before}"));
        let files = self.files.iter().map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("a new file {name} in the data directory")
        });
        let processes = self.processes.iter();
        let processes = processes.map(|(pid, name)| format!("process {pid} ({name}) still runs"));
        let all: Vec<String> = variables.chain(files).chain(processes).collect();
        all.join(", ")
    }
}

/// Regular files in a directory, not below.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .collect()
}

/// A process and all below it.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some((_, parent)) = state_and_parent(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children.remove(&parent).unwrap_or_default());
        next += 1;
    }
    found
}

/// State letter and parent of a process.
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; what follows the last one is plain.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// The name of a process that runs; a zombie does not.
fn running(pid: u32) -> Option<String> {
    let (state, _) = state_and_parent(pid)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (state != 'Z').then(|| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(variables: &[(&str, &str)], files: &[&str]) -> State {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        State {
            variables: variables.iter().map(text).collect(),
            files: files.iter().map(PathBuf::from).collect(),
            processes: BTreeSet::new(),
        }
    }

    #[test]
    fn what_is_as_it_was_is_not_left() {
        let before = state(&[("general_log", "OFF"), ("gtid_executed", "1")], &["/d/a"]);
        let mut after = state(&[("general_log", "OFF"), ("gtid_executed", "2")], &["/d/a"]);
        after
            .files
            .extend(["/d/binlog.000002", "/d/slow.log"].map(PathBuf::from));
        let moving = BTreeSet::from(["gtid_executed".to_owned()]);
        let declared = BTreeSet::from([PathBuf::from("/d/slow.log")]);
        assert!(before.left(&after, &moving, &declared).is_empty());
        assert_eq!(before.moved(&after), moving);
    }

    #[test]
    fn a_setting_and_a_file_are_found_and_named() {
        let before = state(&[("general_log", "OFF")], &[]);
        let after = state(&[("general_log", "ON")], &["/d/host.log"]);
        let left = before.left(&after, &BTreeSet::new(), &BTreeSet::new());
        assert_eq!(
            left.words(),
            "general_log is ON and was OFF, a new file host.log in the data directory"
        );
    }

    #[test]
    fn a_process_has_itself_and_its_children_as_family() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let found = family(std::process::id());
        assert!(found.contains(&std::process::id()) && found.contains(&child.id()));
        assert_eq!(running(child.id()).as_deref(), Some("sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(running(child.id()), None);
    }
}
