//! Following servers: several on one binary, restarts, upgrades in place, and what is none.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use waggle_need::skip;
use waggle_server::Flavour;
use waggle_server::discovery::{Change, Discovery, Found};
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use crate::needs::flavours;

/// Follows servers; keeps what was not asked for yet, as several things may change at once.
#[derive(Default)]
struct Follower {
    discovery: Discovery,
    changes: Vec<Change>,
}

impl Follower {
    /// Waits for a change, and takes it; other tests' servers come and go meanwhile.
    fn wait_for<T>(&mut self, what: &str, mut wanted: impl FnMut(&Change) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            self.changes.extend(self.discovery.poll());
            let found = self.changes.iter().enumerate();
            if let Some((at, taken)) = found.into_iter().find_map(|(at, c)| Some((at, wanted(c)?)))
            {
                self.changes.remove(at);
                return taken;
            }
            assert!(Instant::now() < deadline, "{what}: waited in vain");
            // sleep: between two looks
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn came(&mut self, pid: u32) -> Found {
        self.wait_for(&format!("process {pid} to come"), |change| match change {
            Change::Came(found) if found.process.pid == pid => Some((**found).clone()),
            _ => None,
        })
    }

    fn went(&mut self, wanted: u32) -> String {
        self.wait_for(&format!("process {wanted} to go"), |change| match change {
            Change::Went { pid, instance } if *pid == wanted => Some(instance.clone()),
            _ => None,
        })
    }

    fn upgrades(&self, of: u32) -> usize {
        let is_one = |c: &&Change| matches!(c, Change::Upgraded { pid } if *pid == of);
        self.changes.iter().filter(is_one).count()
    }
}

#[test]
fn several_on_one_binary_and_a_restart_keep_their_names() {
    for flavour in flavours() {
        let mut follower = Follower::default();
        let mut one = Sandbox::start(&SandboxSpec::new(flavour).tcp()).unwrap();
        let found = follower.came(one.pid());
        let two = Sandbox::start(&SandboxSpec::new(flavour).set("skip_networking", "1")).unwrap();
        let other = follower.came(two.pid());
        assert_eq!(found.instance.name, one.port().unwrap().to_string());
        assert_eq!(found.instance.port, one.port());
        let socket = other.instance.socket.as_ref().unwrap();
        assert_eq!(other.instance.name, socket.to_str().unwrap());
        assert!(two.socket().ends_with(socket.file_name().unwrap()));
        let inode = |found: &Found| (found.process.exe_dev, found.process.exe_inode);
        assert_eq!(
            inode(&found),
            inode(&other),
            "{flavour}: they share a program"
        );
        assert_eq!(found.process.root, one.program().root);
        assert!(!found.whereabouts.foreign_network);
        let followed: Vec<u32> = follower
            .discovery
            .servers()
            .map(|s| s.process.pid)
            .collect();
        assert!(followed.contains(&one.pid()) && followed.contains(&two.pid()));

        let first = one.pid();
        one.restart(&[]).unwrap();
        assert_eq!(follower.went(first), found.instance.name);
        let again = follower.came(one.pid());
        assert_eq!(again.instance.name, found.instance.name);
        let started = |found: &Found| (found.process.pid, found.started_ticks);
        assert_ne!(started(&again), started(&found));
        one.stop().unwrap();
        two.stop().unwrap();
        follower.went(again.process.pid);
    }
}

/// A server that does nothing, of a program of our own: it lives until its input is closed.
struct Idle {
    child: Child,
}

impl Idle {
    /// Runs `program` by way of `shell` words, in which it is `$0` and its arguments are `$@`.
    fn start(program: &Path, datadir: &Path, port: u16, script: Option<&str>) -> Self {
        let data = format!("--datadir={}", datadir.display());
        let port = format!("--port={port}");
        let args = ["--no-defaults", "--bootstrap", &port, "--user=root", &data];
        let mut command = match script {
            None => Command::new(program),
            Some(script) => {
                let mut shell = Command::new("bash");
                shell.arg("-c").arg(script).arg(program);
                shell
            }
        };
        command.args(args).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self {
            child: command.spawn().unwrap(),
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of a MariaDB, which runs without a chroot.
/// Copies a program that is to be started. Another process writes it: a child that a test beside
/// this one starts meanwhile would inherit the open file, and what is written to cannot be started.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn mariadb() -> Option<std::path::PathBuf> {
    flavours().contains(&Flavour::MariaDb).then(|| {
        let installed = installed_servers();
        let server = installed
            .into_iter()
            .find(|server| server.flavour == Flavour::MariaDb);
        server.unwrap().exe
    })
}

#[test]
fn an_upgrade_in_place_is_told_once_and_the_next_start_is_another_program() {
    let Some(program) = mariadb() else { return };
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("mariadbd");
    copy(&program, &own);
    let mut follower = Follower::default();
    let old = Idle::start(&own, dir.path(), 4711, None);
    let before = follower.came(old.child.id());
    // It does not listen: what it was told is no name.
    assert_eq!(before.instance.name, format!("pid {}", old.child.id()));
    assert!(!before.process.exe_deleted);
    // As packages do it: the new file gets the old one's name.
    let new = dir.path().join("mariadbd.new");
    fs::copy(&program, &new).unwrap();
    fs::rename(&new, &own).unwrap();
    let pid = old.child.id();
    let is_upgrade =
        |c: &Change| matches!(c, Change::Upgraded { pid: found } if *found == pid).then_some(());
    follower.wait_for("the upgrade", is_upgrade);
    let next = Idle::start(&own, dir.path(), 4711, None);
    let after = follower.came(next.child.id());
    assert_eq!(follower.upgrades(pid), 0, "it is told once");
    assert_ne!(after.process.exe_inode, before.process.exe_inode);
    assert!(!after.process.exe_deleted);
    assert_ne!(after.instance.name, before.instance.name, "both run");
    let still = follower
        .discovery
        .servers()
        .find(|s| s.process.pid == old.child.id());
    assert!(still.unwrap().process.exe_deleted);
    drop(old);
    follower.went(pid);
}

#[test]
fn a_start_script_that_becomes_a_server_is_found_and_one_that_ceases_to_be_is_not_kept() {
    let Some(program) = mariadb() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut follower = Follower::default();
    let script = "read -r go; exec \"$0\" \"$@\"";
    let mut idle = Idle::start(&program, dir.path(), 4712, Some(script));
    let pid = idle.child.id();
    // It is seen as a shell before it is told to go on.
    let looked = |found: &Found| found.process.pid == pid;
    follower.changes.extend(follower.discovery.poll());
    assert!(!follower.discovery.servers().any(looked));
    let mut input = idle.child.stdin.take().unwrap();
    writeln!(input, "go").unwrap();
    let found = follower.came(pid);
    assert_eq!(found.process.flavour, Flavour::MariaDb);
    drop(input);
    idle.child.wait().unwrap();
    follower.went(pid);
}

#[test]
fn a_server_in_a_network_of_its_own_has_a_name_of_its_own() {
    let Some(program) = mariadb() else { return };
    let in_own_network = Command::new("unshare").args(["--net", "true"]).status();
    if !in_own_network.is_ok_and(|status| status.success()) {
        return skip("root", "no network namespace can be made");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut follower = Follower::default();
    let away = Idle::start(
        &program,
        dir.path(),
        4713,
        Some("exec unshare --net \"$0\" \"$@\""),
    );
    let found = follower.came(away.child.id());
    assert_eq!(found.instance.port, None, "it does not listen");
    let (name, network) = found.instance.name.split_once('@').unwrap();
    assert_eq!(name, format!("pid {}", away.child.id()));
    assert!(found.whereabouts.foreign_network && !network.is_empty());
}

#[test]
fn what_only_has_the_name_is_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("mysqld");
    copy(Path::new("/bin/cat"), &named);
    let mut by_program = Command::new(&named).stdin(Stdio::piped()).spawn().unwrap();
    let mut command = Command::new("cat");
    let mut by_argument = command
        .arg0("mariadbd")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut follower = Follower::default();
    let changes = follower.discovery.poll();
    let is_one = |pid| {
        let came = |change: &Change| matches!(change, Change::Came(f) if f.process.pid == pid);
        changes.iter().any(came)
    };
    let wrong = [by_program.id(), by_argument.id()].map(is_one);
    for child in [&mut by_program, &mut by_argument] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(wrong, [false, false]);
}
