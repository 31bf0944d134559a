//! Nothing survives the kill -9 of the process that started a server.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use waggle_server::sandbox::registry::{self, ServerEntry};
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use crate::needs::flavours;

/// Set in the child: the flavour it is to start.
const ROLE: &str = "TEST_HOLDS_A_SANDBOX";

/// A process by descriptor, taken while it lives.
fn hold(pid: u32) -> OwnedFd {
    // SAFETY: integers in; a new descriptor that nothing else owns, or -1, out.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(fd >= 0, "process {pid} is not there");
        OwnedFd::from_raw_fd(fd as i32)
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut fd = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, alive during the call.
    unsafe { libc::poll(&raw mut fd, 1, 20_000) == 1 }
}

/// A process of this test program that starts a server below `place`, says so, and waits. Nobody
/// else's start sweeps there.
fn child_with_server(flavour: &str, place: &Path) -> (Child, ServerEntry) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "parent_killed::holds_a_sandbox",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(ROLE, flavour)
        .env("TMPDIR", place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let entry = lines
        .map(Result::unwrap)
        .find_map(|line| serde_json::from_str(line.get(line.find('{')?..)?).ok())
        .expect("the child started no server");
    (child, entry)
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn holds_a_sandbox() {
    let Ok(flavour) = std::env::var(ROLE) else {
        return;
    };
    let sandbox = Sandbox::start(&SandboxSpec::new(flavour.parse().unwrap())).unwrap();
    println!("{}", serde_json::to_string(sandbox.entry()).unwrap());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn server_and_directory_go_with_a_killed_parent() {
    for flavour in flavours() {
        let place = tempfile::tempdir().unwrap();
        let (mut child, entry) = child_with_server(flavour.name(), place.path());
        let (server, guardian) = (hold(entry.pid), hold(entry.guardian_pid));
        assert!(registry::list().contains(&entry) && entry.datadir.is_dir());
        child.kill().unwrap();
        assert!(has_ended(&server), "the server lives on");
        assert!(has_ended(&guardian), "the guardian lives on");
        assert!(!entry.dir.exists());
        assert!(!registry::list().contains(&entry));
        child.wait().unwrap();
    }
}

#[test]
fn a_killed_guardian_takes_the_server_along_and_the_next_start_sweeps() {
    let Some(flavour) = flavours().first().copied() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let (mut child, entry) = child_with_server(flavour.name(), place.path());
    let (server, guardian) = (hold(entry.pid), hold(entry.guardian_pid));
    // The parent first, stopped, so that neither can clean up.
    // SAFETY: both are our own processes, held by descriptor or not yet waited for.
    unsafe {
        libc::kill(child.id() as i32, libc::SIGSTOP);
        libc::kill(entry.guardian_pid as i32, libc::SIGKILL);
    }
    assert!(has_ended(&guardian) && has_ended(&server));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(entry.dir.exists());
    assert!(
        !registry::list().contains(&entry),
        "an entry of a dead server is shown"
    );
    let beside = SandboxSpec {
        dir: entry.dir.parent().map(Path::to_owned),
        ..SandboxSpec::new(flavour)
    };
    Sandbox::start(&beside).unwrap().stop().unwrap();
    assert!(!entry.dir.exists(), "not swept");
}

#[test]
fn a_detached_server_outlives_its_parent_until_it_is_stopped() {
    for flavour in flavours() {
        let sandbox = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let entry = sandbox.detach().unwrap();
        assert_eq!(registry::find(&entry.name).as_ref(), Some(&entry));
        assert!(Path::new(&format!("/proc/{}", entry.pid)).exists());
        assert!(!entry.stop(waggle_server::sandbox::STOP_PATIENCE).unwrap());
        assert!(!entry.dir.exists());
        assert!(entry.stop(waggle_server::sandbox::STOP_PATIENCE).is_err());
    }
}
