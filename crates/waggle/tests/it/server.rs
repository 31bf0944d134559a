//! `waggle server`: the real binary with real servers.

mod replica;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;

/// The flavours installed here.
fn flavours() -> Vec<&'static str> {
    let installed = installed_servers();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|&flavour| {
            let found = installed.iter().any(|server| server.flavour == flavour);
            need(flavour.name(), found, "no such server is installed")
        })
        .map(Flavour::name)
        .collect()
}

/// A registry of its own, so that `--all` and `list` see the servers of one test only.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
        command
            .arg("server")
            .args(args)
            .env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "{args:?}: {}",
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let list = self.json(&["list", "--json"]);
        let servers = list["servers"].as_array().unwrap();
        servers
            .iter()
            .map(|server| server["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A server held in the foreground: the process, and what it printed when it was ready.
    fn up(&self, flavour: &str, name: &str) -> (Child, Value) {
        let args = ["up", flavour, "--name", name, "--json"];
        let mut child = self
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut document = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
        let Some(Ok(facts)) = document.next() else {
            let mut words = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut words)
                .unwrap();
            panic!("no server: {words}");
        };
        (child, facts)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(facts: &Value, field: &str) -> i32 {
    i32::try_from(facts[field].as_i64().unwrap()).unwrap()
}

fn path<'a>(facts: &'a Value, field: &str) -> &'a Path {
    Path::new(facts[field].as_str().unwrap())
}

fn hold(pid: i32) -> OwnedFd {
    // SAFETY: integers in; a new descriptor that nothing else owns, or -1, out.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(fd >= 0, "process {pid} is not there");
        OwnedFd::from_raw_fd(i32::try_from(fd).unwrap())
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut fd = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd that lives during the call.
    unsafe { libc::poll(&raw mut fd, 1, 20_000) == 1 }
}

#[test]
fn up_in_the_foreground_until_a_signal() {
    for flavour in flavours() {
        let place = Place::new();
        let name = format!("{flavour}-fg");
        let (mut child, facts) = place.up(flavour, &name);
        assert_eq!(facts["flavour"], flavour);
        assert_eq!(
            number(&facts, "owner_pid"),
            i32::try_from(child.id()).unwrap()
        );
        assert!(path(&facts, "socket").exists() && path(&facts, "log").exists());
        assert_eq!(place.names(), [name]);

        let again = place.run(&["up", flavour, "--name", facts["name"].as_str().unwrap()]);
        assert_eq!(again.status.code(), Some(2));
        assert!(
            text(&again.stderr).contains("running already"),
            "{}",
            text(&again.stderr)
        );

        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
        assert!(child.wait().unwrap().success());
        assert!(!path(&facts, "dir").exists());
        assert!(place.names().is_empty());
    }
}

#[test]
fn detached_until_down() {
    for flavour in flavours() {
        let place = Place::new();
        let name = format!("{flavour}-det");
        let facts = place.json(&["up", flavour, "--detach", "--name", &name, "--json"]);
        assert_eq!(facts["owner_pid"], Value::Null);
        let server = hold(number(&facts, "pid"));
        let table = text(&place.run(&["list"]).stdout);
        assert!(
            table.contains(&name) && table.contains("server down"),
            "{table}"
        );

        let down = place.run(&["down", &name]);
        assert_eq!(text(&down.stdout), format!("{name} stopped\n"));
        assert!(has_ended(&server) && !path(&facts, "dir").exists());

        let again = place.run(&["down", &name]);
        assert_eq!(again.status.code(), Some(2));
        assert!(text(&again.stderr).contains("no throw-away server is named"));
    }
}

#[test]
fn down_ends_a_server_that_another_process_holds() {
    let Some(flavour) = flavours().first().copied() else {
        return;
    };
    let place = Place::new();
    let (mut child, facts) = place.up(flavour, "held");
    let stopped = place.json(&["down", "--all", "--json"]);
    assert_eq!(stopped["stopped"][0]["name"], "held");
    assert!(child.wait().unwrap().success());
    assert!(!path(&facts, "dir").exists() && place.names().is_empty());
}

#[test]
fn an_impossible_setting_gives_the_servers_words_and_exit_code_2() {
    for flavour in flavours() {
        let place = Place::new();
        let name = format!("{flavour}-bad");
        let output = place.run(&["up", flavour, "--name", &name, "--set", "no_such_thing=7"]);
        assert_eq!(output.status.code(), Some(2));
        let words = text(&output.stderr);
        assert!(
            words.contains("unknown variable 'no-such-thing=7'"),
            "{words}"
        );
        assert!(output.stdout.is_empty());
        let log = words
            .lines()
            .find_map(|line| line.trim().strip_prefix("its log: "))
            .unwrap();
        assert!(Path::new(log).exists(), "the log {log} is not kept");
        std::fs::remove_file(log).unwrap();
        assert!(place.names().is_empty());
    }
}

#[test]
fn arguments_that_cannot_be_used() {
    let place = Place::new();
    for (args, words) in [
        (&["up", "postgres"][..], "possible values: mysql, mariadb"),
        (&["up", "mariadb", "--set", "nonsense"], "NAME=VALUE"),
        (
            &["up", "mariadb", "--set", "bind_address=0.0.0.0"],
            "listens on 127.0.0.1 only",
        ),
        (
            &["up", "mariadb", "--set", "skip-grant-tables=1"],
            "let everybody in",
        ),
        (&["up", "mariadb", "--name", "../x"], "cannot be named"),
        (&["down"], "required"),
        (&["down", "nobody"], "no throw-away server is named"),
    ] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(words),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn kill_9_of_the_holder_leaves_nothing() {
    for flavour in flavours() {
        let place = Place::new();
        let (mut child, facts) = place.up(flavour, &format!("{flavour}-kill"));
        let held = ["pid", "guardian_pid"].map(|field| hold(number(&facts, field)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held.iter().all(has_ended));
        assert!(!path(&facts, "dir").exists() && place.names().is_empty());
    }
}

#[test]
fn concurrent_starts() {
    let Some(flavour) = flavours().first().copied() else {
        return;
    };
    let place = Place::new();
    let starting: Vec<Child> = ["c1", "c2", "c3"]
        .iter()
        .map(|name| {
            let args = ["up", flavour, "--tcp", "--detach", "--name", name, "--json"];
            place
                .command(&args)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let ports: Vec<i64> = starting
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .map(|output| serde_json::from_slice::<Value>(&output.stdout).unwrap())
        .map(|facts| facts["port"].as_i64().unwrap())
        .collect();
    assert!(
        ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2],
        "{ports:?}"
    );
    assert_eq!(place.names(), ["c1", "c2", "c3"]);
    assert!(place.run(&["down", "--all"]).status.success());
    assert!(place.names().is_empty());
}

#[test]
fn a_server_that_fails_ends_its_holder_with_exit_code_1() {
    let Some(flavour) = flavours().first().copied() else {
        return;
    };
    let place = Place::new();
    let (mut child, facts) = place.up(flavour, "dies");
    // SAFETY: the server of our own child.
    unsafe { libc::kill(number(&facts, "pid"), libc::SIGKILL) };
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let words: Vec<String> = stderr.lines().map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let words = words.join("\n");
    assert!(words.contains("failed (signal 9)"), "{words}");
    let log = words
        .lines()
        .find_map(|line| line.trim().strip_prefix("its log: "))
        .unwrap();
    std::fs::remove_file(log).unwrap();
}
