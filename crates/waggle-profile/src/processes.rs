//! Which processes are looked at, what are they called, and what CPU time did they use?
//!
//! Invariant: a process is known by what it was when it was first seen; one that has ended keeps
//! its name.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use waggle_foreign::{is_harmful, read_maps, read_proc};
use waggle_server::cpu;

use crate::model;

/// More than can be watched at a time, so that it is noticed.
const DESCENDANTS_MAX: usize = 2048;

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Such as `mysqld 4711`.
    pub(crate) label: Arc<str>,
    /// What its threads are called that have no names of their own.
    pub(crate) program: String,
    /// Where the kernel has put code of its own into it.
    pub(crate) vdso: Range<u64>,
    /// When it was started, to 10 ms, ns since boot: another process of this id began later.
    pub(crate) start_ns: u64,
    /// It is there no more; its id may be another's.
    pub(crate) ended: bool,
    /// The kernel half could not be told of it, all of the time or for a part.
    pub(crate) unwatched: bool,
    /// Its CPU time when the recording began or went on, ns.
    began_ns: Option<u64>,
    /// What was used while recording so far; `None` once a reading failed.
    used_ns: Option<u64>,
}

impl Process {
    /// Looks at it.
    ///
    /// # Errors
    /// There is no such process.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let name = read_proc(format!("/proc/{pid}/comm"))?;
        let plain = |c: char| if is_harmful(c) { '?' } else { c };
        let program: String = name.trim_end_matches('\n').chars().map(plain).collect();
        Ok(Self {
            pid,
            label: Arc::from(format!("{program} {pid}")),
            program,
            vdso: vdso(pid),
            start_ns: start_ns(pid)?,
            ended: false,
            unwatched: false,
            began_ns: None,
            used_ns: Some(0),
        })
    }

    /// It has a name of its own by now: a command was only just started.
    pub(crate) fn rename(&mut self) {
        if let Ok(now) = Self::open(self.pid)
            && now.start_ns == self.start_ns
        {
            self.label = now.label;
            self.program = now.program;
            if !now.vdso.is_empty() {
                self.vdso = now.vdso;
            }
        }
    }

    /// True as long as its id is its own.
    pub(crate) fn is_there(&self) -> bool {
        start_ns(self.pid).is_ok_and(|start_ns| start_ns == self.start_ns)
    }

    /// It is there no more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        if self.began_ns.take().is_some() {
            self.used_ns = None;
        }
    }

    /// The recording begins or goes on.
    pub(crate) fn begin(&mut self) {
        if !self.ended {
            self.began_ns = cpu::process_cpu_ns(self.pid).ok();
        }
    }

    /// The recording ends or pauses.
    pub(crate) fn pause(&mut self) {
        let Some(began_ns) = self.began_ns.take() else {
            return;
        };
        let now_ns = cpu::process_cpu_ns(self.pid).ok();
        let more = now_ns.and_then(|now_ns| now_ns.checked_sub(began_ns));
        self.used_ns = self.used_ns.zip(more).map(|(used, more)| used + more);
    }

    /// For the profile.
    pub(crate) fn facts(&self) -> model::Process {
        model::Process {
            process: Arc::clone(&self.label),
            pid: self.pid,
            start_ns: Some(self.start_ns),
            cpu_ns: self.used_ns,
        }
    }
}

/// The process of this id that a thread belongs to, by when the thread began, ns since boot.
pub(crate) fn of_thread(processes: &[Process], pid: u32, began_ns: u64) -> Option<&Process> {
    let mut known = processes.iter().filter(|process| process.pid == pid);
    let first = known.next();
    // In the order in which they began.
    known.rfind(|p| p.start_ns <= began_ns).or(first)
}

/// Gives those of one name and id names of their own: `sh 4711`, `sh 4711 (2)`.
pub(crate) fn tell_apart(processes: &mut [Process]) {
    let mut taken = HashSet::new();
    for process in processes {
        let mut label = Arc::clone(&process.label);
        let mut count = 1u32;
        while !taken.insert(Arc::clone(&label)) {
            count += 1;
            label = Arc::from(format!("{} ({count})", process.label));
        }
        process.label = label;
    }
}

/// When a process was started, ns since boot, to a tick of the kernel's 100 Hz.
fn start_ns(pid: u32) -> io::Result<u64> {
    let stat = read_proc(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything: the 22nd field, where the state is the third.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = rest.split_ascii_whitespace().nth(19);
    let ticks: Option<u64> = ticks.and_then(|ticks| ticks.parse().ok());
    let ticks = ticks.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(ticks.saturating_mul(10_000_000))
}

/// The ids of a process's threads.
pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = tasks.flatten().map(|task| task.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

fn vdso(pid: u32) -> Range<u64> {
    let maps = read_maps(pid).unwrap_or_default();
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(hex(start)?..hex(end)?)
    });
    range.unwrap_or(0..0)
}

/// The children of a process, theirs included, as far as they can be seen.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = BTreeSet::new();
    let mut next = vec![pid];
    while let Some(pid) = next.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = read_proc(task.path().join("children"));
            let children = children.unwrap_or_default();
            let children = children.split_ascii_whitespace();
            for child in children.filter_map(|child| child.parse::<u32>().ok()) {
                if found.len() < DESCENDANTS_MAX && found.insert(child) {
                    next.push(child);
                }
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_name_and_uses_time() {
        let mut own = Process::open(std::process::id()).unwrap();
        assert!(!own.vdso.is_empty());
        assert!(own.label.ends_with(&format!(" {}", std::process::id())));
        own.begin();
        let mut sum = 0u64;
        for n in 0..100_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(n));
        }
        own.pause();
        assert!(own.facts().cpu_ns.unwrap() > 0);
        assert!(Process::open(u32::MAX - 1).is_err());
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = descendants(std::process::id());
        let known = Process::open(child.id()).unwrap();
        assert!(known.is_there());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()), "{found:?}");
        assert!(!known.is_there());
    }

    #[test]
    fn an_id_that_was_used_again_is_another_process() {
        let process = |start_ns, label: &str| Process {
            start_ns,
            label: Arc::from(label),
            ..Process::open(std::process::id()).unwrap()
        };
        let both = [process(100, "first"), process(200, "second")];
        let of = |began_ns| {
            &*of_thread(&both, std::process::id(), began_ns)
                .unwrap()
                .label
        };
        assert_eq!(
            [of(50), of(150), of(200), of(999)],
            ["first", "first", "second", "second"]
        );
        assert!(of_thread(&both, u32::MAX, 0).is_none());
    }

    #[test]
    fn processes_that_had_one_name_and_id_get_names_of_their_own() {
        let process = |start_ns, label: &str| Process {
            start_ns,
            label: Arc::from(label),
            ..Process::open(std::process::id()).unwrap()
        };
        let mut all = [
            process(100, "sh 7"),
            process(200, "sh 7"),
            process(200, "sh 8"),
            process(300, "sh 7"),
        ];
        for _ in 0..2 {
            tell_apart(&mut all);
            let labels = all.each_ref().map(|process| &*process.label);
            assert_eq!(labels, ["sh 7", "sh 7 (2)", "sh 8", "sh 7 (3)"]);
        }
        let facts = all[1].facts();
        assert_eq!((&*facts.process, facts.start_ns), ("sh 7 (2)", Some(200)));
    }
}
