//! Programs that end while they are traced, by whatever subject, and what is left in the kernel
//! when a trace is over: nothing.

use std::collections::BTreeSet;

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use serde_json::Value;

use super::program::can_run;
use super::truth::Target;
use crate::watch::stage::{Running, turn, waggle, wait_until};

/// Each subject, with what it needs to be told to trace `pipeline.c`.
const SUBJECTS: [(&str, &[&str]); 4] = [
    ("pipeline", &["--usdt", "wakeup"]),
    ("latch", &[]),
    ("func", &["wait_begins"]),
    ("waits", &[]),
];

/// Numbers of the kernel's programs and links that processes hold.
#[derive(Debug, Default)]
pub(crate) struct Held {
    programs: BTreeSet<u32>,
    links: BTreeSet<u32>,
}

impl Held {
    /// Takes down what process `pid` holds.
    pub(crate) fn add(&mut self, pid: u32) {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("it runs");
        for descriptor in descriptors.flatten() {
            let text = std::fs::read_to_string(descriptor.path()).unwrap_or_default();
            let number = |field: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(field));
                line.and_then(|line| line.trim().parse::<u32>().ok())
            };
            self.programs.extend(number("prog_id:"));
            self.links.extend(number("link_id:"));
        }
    }

    /// How many links there are: places where something is attached.
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty() || self.links.is_empty()
    }

    /// Those that the kernel still has.
    pub(crate) fn left(&self) -> Vec<u32> {
        let programs = ProgInfoIter::default().map(|program| program.id);
        let programs = programs.filter(|id| self.programs.contains(id));
        let links = LinkInfoIter::default().map(|link| link.id);
        let links = links.filter(|id| self.links.contains(id));
        programs.chain(links).collect()
    }

    /// Waits until the kernel has taken everything away, which it does a moment after the last
    /// descriptor is closed.
    pub(crate) fn assert_gone(&self) {
        assert!(!self.is_empty(), "{self:?}");
        wait_until("the kernel has taken them away", || self.left().is_empty());
    }
}

/// A tracer of `pid`, attached.
fn start(pid: u32, subject: &str, options: &[&str], out: &str) -> Running {
    let pid = pid.to_string();
    let common = ["trace", subject, "--json", "--pid", &pid, "--out", out];
    let running = Running::start(&mut waggle(&[&common, options].concat()));
    running.line(if subject == "func" {
        "timing "
    } else {
        "tracing "
    });
    running
}

#[test]
fn every_subject_ends_with_the_program_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let folder = out.path().to_str().expect("a path");
    let options = [
        "users=6",
        "stages=3",
        "waits=100",
        "churn=10",
        "delay_us=50",
    ];
    let mut target = Target::start(&["-fno-omit-frame-pointer"], &options);
    // All of them at once: two tracers and more of one process are no special case.
    let running = SUBJECTS.map(|(subject, options)| start(target.pid(), subject, options, folder));
    let mut held = Held::default();
    running.iter().for_each(|tracer| held.add(tracer.pid()));
    target.work();
    target.end();
    for ((subject, _), running) in SUBJECTS.iter().zip(running) {
        let ended = running.end();
        let report: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{subject}: {error}: {}", ended.stderr));
        assert_eq!(ended.status.code(), Some(0), "{subject}: {report:#}");
        assert_eq!(report["process_ended"], true, "{subject}");
        match *subject {
            "pipeline" => assert_eq!(report["seen"], 600, "{subject}"),
            "func" => assert_eq!(report["calls"]["entered"], 600, "{subject}"),
            _ => {}
        }
    }
    held.assert_gone();
}

#[test]
fn a_tracer_that_is_killed_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let folder = out.path().to_str().expect("a path");
    let options = ["users=4", "stages=3", "waits=200", "delay_us=50"];
    let mut target = Target::start(&["-fno-omit-frame-pointer"], &options);
    let running = SUBJECTS.map(|(subject, options)| start(target.pid(), subject, options, folder));
    let mut held = Held::default();
    running.iter().for_each(|tracer| held.add(tracer.pid()));
    for tracer in running {
        tracer.signal(libc::SIGKILL);
        let ended = tracer.end();
        assert_eq!(ended.status.code(), None, "{}", ended.stderr);
    }
    // The program goes on as if nothing had been.
    target.work();
    target.end();
    held.assert_gone();
}
