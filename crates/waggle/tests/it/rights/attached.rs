//! Verbs that attach keep the rights they name, in every thread, and programs get none.

use std::process::{Child, Command};

use waggle_need::can_probe;
use waggle_server::Flavour;

use super::threads;
use crate::watch::stage::{Running, can_watch, server, turn, waggle};

/// By number: what is left while a trace or a profile runs.
const KEPT: [u32; 7] = [
    2,  // CAP_DAC_READ_SEARCH
    5,  // CAP_KILL, with --command
    19, // CAP_SYS_PTRACE
    21, // CAP_SYS_ADMIN
    24, // CAP_SYS_RESOURCE
    34, // CAP_SYSLOG
    38, // CAP_PERFMON
];
const BPF: u32 = 39;

fn bits(numbers: &[u32]) -> u64 {
    numbers.iter().fold(0, |bits, number| bits | 1 << number)
}

/// A process that waits, and ends with the test.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().expect("sleep"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every thread has no more than `allowed`, within reach or in use, and no way to more.
fn assert_at_most(pid: u32, allowed: u64, what: &str) {
    let threads = threads(pid);
    assert!(!threads.is_empty(), "{what}: it runs");
    for thread in threads {
        let set = |name: &str| u64::from_str_radix(&thread[name], 16).expect("a set");
        for name in ["CapPrm", "CapEff"] {
            let has = set(name);
            assert_eq!(
                has & !allowed,
                0,
                "{what}, {}: {name} {has:x}",
                thread["Name"]
            );
        }
        for name in ["CapBnd", "CapInh", "CapAmb"] {
            assert_eq!(set(name), 0, "{what}, {}: {name}", thread["Name"]);
        }
        assert_eq!(thread["NoNewPrivs"], "1", "{what}, {}", thread["Name"]);
    }
}

#[test]
fn traces_and_profiles_keep_what_they_name() {
    if !can_probe() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("a path");
    let process = Waiting::start();
    let pid = process.0.id().to_string();
    let allowed = bits(&KEPT) | bits(&[BPF]);
    for (arguments, begun) in [
        (
            &["trace", "waits", "--pid", &pid, "--out", out][..],
            "tracing",
        ),
        (&["trace", "latch", "--pid", &pid, "--out", out], "tracing"),
        (&["profile", "--pid", &pid, "--out", out], "profiling"),
        (
            &["profile", "--out", out, "--command", "sleep", "600"],
            "profiling",
        ),
    ] {
        let running = Running::start(&mut waggle(arguments));
        running.line(begun);
        assert_at_most(running.pid(), allowed, &arguments.join(" "));
        running.signal(libc::SIGINT);
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
}

#[test]
fn a_watch_keeps_what_it_says_and_programs_get_nothing() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let server = server(Flavour::MariaDb);
    let pid = server.pid().to_string();
    let watching = Running::start(&mut waggle(&["watch", "--json", "--pid", &pid]));
    let said = watching.line("rights kept: ");
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
    // Within reach: to remove its control group. In use: to look into the server.
    assert_at_most(watching.pid(), bits(&[1, 19]), "watch --pid");
    watching.signal(libc::SIGINT);
    assert_eq!(watching.end().status.code(), Some(0));
}
