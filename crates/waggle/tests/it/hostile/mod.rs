//! Servers that are not what they say, against every verb that connects: what they get of a
//! password or a file, how long they keep a verb, and what one signal does about it.

pub(crate) mod fake;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

use fake::{Fake, Phase, Play};

/// How long a verb may take to end in any case; without a limit of its own it takes for ever.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take after a signal. It is a second; the machine may be busy.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Bench,
    BenchPrepare,
    Sysbench,
    SysbenchPrepare,
    Copy,
    Verify,
}

const VERBS: [Verb; 6] = [
    Verb::Bench,
    Verb::BenchPrepare,
    Verb::Sysbench,
    Verb::SysbenchPrepare,
    Verb::Copy,
    Verb::Verify,
];

/// A workload that goes through every phase of a session.
const WORKLOAD: &str = "\
function prepare()
  local con = sysbench.sql.driver():connect()
  con:query('SELECT 1')
  local st = con:prepare('DO 1')
  st:execute()
  st:close()
  con:query('DO 1')
end
function thread_init() con = sysbench.sql.driver():connect() end
function event()
  con:query('SELECT 1')
  local st = con:prepare('DO 1')
  st:execute()
  st:close()
  con:query('DO 1')
end
";

fn waggle(words: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
    command
        .args(words)
        .current_dir(directory)
        .env("HOME", directory)
        .env_remove("WAGGLE_DSN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Verb {
    fn start(self, fake: &Fake, parameters: &str, directory: &Path) -> Child {
        let script = directory.join("workload.lua");
        std::fs::write(&script, WORKLOAD).expect("a script");
        let script = script.to_str().expect("a path");
        let dsn = fake.dsn(parameters);
        let to = dsn.replace("/d?", "/e?");
        let port = format!("--mysql-port={}", fake.port());
        let bench = |action| {
            vec![
                "bench",
                script,
                action,
                "--dsn",
                &dsn,
                "--threads",
                "2",
                "--time",
                "3600",
            ]
        };
        let sysbench = |action| {
            vec![
                "sysbench",
                script,
                "--mysql-host=127.0.0.1",
                &port,
                "--mysql-user=root",
                "--mysql-password=hunter2secret",
                "--mysql-db=d",
                "--threads=2",
                "--time=3600",
                action,
            ]
        };
        let words = match self {
            Verb::Bench => bench("run"),
            Verb::BenchPrepare => bench("prepare"),
            Verb::Sysbench => sysbench("run"),
            Verb::SysbenchPrepare => sysbench("prepare"),
            Verb::Copy => vec!["copy", "--from", &dsn, "--to", &to],
            Verb::Verify => vec!["copy", "verify", "--from", &dsn, "--to", &to],
        };
        waggle(&words, directory)
            .spawn()
            .expect("the binary starts")
    }

    /// Whether it comes to this phase of a server that falls silent there.
    fn reaches(self, phase: Phase) -> bool {
        let prepares = !matches!(self, Verb::Copy | Verb::Verify);
        match phase {
            Phase::Prepare | Phase::Execute | Phase::AfterClose => prepares,
            Phase::InTls => !matches!(self, Verb::Sysbench | Verb::SysbenchPrepare),
            _ => true,
        }
    }
}

/// Its end, within this time; what it said is kept by the caller's panic.
fn ended(mut child: Child, limit: Duration, what: &str) -> Output {
    let deadline = Instant::now() + limit;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("a child");
            let output = child.wait_with_output().expect("a child");
            panic!("{what} goes on after {limit:?}: {}", said(&output));
        }
        // sleep: looking all the time would take the processor from who is waited for
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child")
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]]
        .map(String::from_utf8_lossy)
        .concat()
}

fn contains(packet: &[u8], what: &[u8]) -> bool {
    packet.windows(what.len()).any(|bytes| bytes == what)
}

/// Nothing of the password came, as it is or under the attacker's key, nor was that asked for.
fn kept_its_password(fake: &Fake, what: &str) {
    for packet in fake.heard() {
        assert!(!contains(&packet, b"hunter2secret"), "{what}: it came");
        assert!(packet != [2], "{what}: the key was asked for");
        assert!(packet.len() != 128, "{what}: something encrypted came");
    }
}

#[test]
fn a_fake_server_that_asks_for_the_password_gets_none() {
    for verb in VERBS {
        for play in [Play::AskForPassword, Play::SwitchAndAsk] {
            let directory = tempfile::tempdir().expect("a folder");
            let fake = Fake::start(play);
            let what = format!("{verb:?} {play:?}");
            let child = verb.start(&fake, "ssl-mode=preferred", directory.path());
            let output = ended(child, PATIENCE, &what);
            assert!(!output.status.success(), "{what}");
            let said = said(&output);
            assert!(said.contains("server-public-key-path"), "{what}: {said}");
            assert!(!said.contains("hunter2secret"), "{what}: {said}");
            assert!(!fake.heard().is_empty(), "{what}: it never connected");
            kept_its_password(&fake, &what);
        }
    }
}

#[test]
fn a_fake_server_gets_no_clear_text_and_no_file() {
    let plays = [
        Play::AskForClearText,
        Play::AskForFileInLogin,
        Play::AskForFile,
    ];
    for verb in VERBS {
        for play in plays {
            let directory = tempfile::tempdir().expect("a folder");
            let fake = Fake::start(play);
            let what = format!("{verb:?} {play:?}");
            let child = verb.start(&fake, "ssl-mode=disabled", directory.path());
            let output = ended(child, PATIENCE, &what);
            assert!(!output.status.success(), "{what}: {}", said(&output));
            assert!(!fake.heard().is_empty(), "{what}: it never connected");
            kept_its_password(&fake, &what);
            let file = |packet: &Vec<u8>| contains(packet, b"root:x:0:0");
            assert!(!fake.heard().iter().any(file), "{what}: a file came");
        }
    }
}

#[test]
fn a_connection_that_was_to_be_tls_is_never_plain() {
    for verb in [Verb::Bench, Verb::BenchPrepare, Verb::Copy, Verb::Verify] {
        for (play, parameters) in [
            // It does not offer TLS.
            (Play::AskForPassword, "ssl-mode=required"),
            (Play::PlainAfterTls, "ssl-mode=required"),
            (Play::PlainAfterTls, "ssl-mode=preferred"),
            (Play::BytesBeforeTls, "ssl-mode=required"),
            (Play::BytesBeforeTls, "ssl-mode=preferred"),
        ] {
            let directory = tempfile::tempdir().expect("a folder");
            let fake = Fake::start(play);
            let what = format!("{verb:?} {play:?} {parameters}");
            let child = verb.start(&fake, parameters, directory.path());
            let output = ended(child, PATIENCE, &what);
            assert!(!output.status.success(), "{what}");
            kept_its_password(&fake, &what);
            // Not even who wanted to log in.
            let account = |packet: &Vec<u8>| contains(packet, b"root\0");
            assert!(!fake.heard().iter().any(account), "{what}: an account came");
        }
    }
}

const PHASES: [Phase; 11] = [
    Phase::AfterAccept,
    Phase::InGreeting,
    Phase::InTls,
    Phase::InLogin,
    Phase::FirstStatement,
    Phase::InResult,
    Phase::InRow,
    Phase::Prepare,
    Phase::Execute,
    Phase::AfterClose,
    Phase::Trickle,
];

fn stalls() -> impl Iterator<Item = (Verb, Phase)> {
    let of = |verb: Verb| PHASES.map(|phase| (verb, phase));
    VERBS
        .into_iter()
        .flat_map(of)
        .filter(|(verb, phase)| verb.reaches(*phase))
}

#[test]
fn a_server_that_falls_silent_ends_a_verb_at_its_time_out() {
    for (verb, phase) in stalls() {
        // sysbench has no option for it: an hour for a statement, ten seconds for a login.
        let is_sysbench = matches!(verb, Verb::Sysbench | Verb::SysbenchPrepare);
        if is_sysbench && phase != Phase::AfterAccept {
            continue;
        }
        let directory = tempfile::tempdir().expect("a folder");
        let fake = Fake::start(Play::Stall(phase));
        let what = format!("{verb:?} {phase:?}");
        let parameters = "ssl-mode=preferred&connect-timeout=1&read-timeout=1&write-timeout=1";
        let child = verb.start(&fake, parameters, directory.path());
        let output = ended(child, PATIENCE, &what);
        let said = said(&output);
        assert!(!output.status.success(), "{what}: {said}");
        assert!(said.contains("no progress for"), "{what}: {said}");
    }
}

#[test]
fn one_signal_ends_a_verb_whose_server_fell_silent() {
    for (turn, (verb, phase)) in stalls().enumerate() {
        let directory = tempfile::tempdir().expect("a folder");
        let fake = Fake::start(Play::Stall(phase));
        let what = format!("{verb:?} {phase:?}");
        let child = verb.start(&fake, "ssl-mode=preferred", directory.path());
        fake.wait_silent();
        let signal = [Signal::INT, Signal::TERM][turn % 2];
        kill_process(Pid::from_child(&child), signal).expect("a signal is sent");
        let output = ended(child, SIGNAL_PATIENCE, &what);
        assert!(!output.status.success(), "{what}: {}", said(&output));
    }
}

fn mariadb() -> Option<Sandbox> {
    let found = installed_servers()
        .iter()
        .any(|server| server.flavour == Flavour::MariaDb);
    need("mariadb", found, "no such server is installed")
        .then(|| Sandbox::start(&SandboxSpec::new(Flavour::MariaDb)).expect("a throw-away server"))
}

/// `watch` asks one server about another's process: only its pid is real.
fn watching(server: &Sandbox, fake: &Fake, duration: &str, directory: &Path) -> Child {
    let (pid, dsn) = (server.pid().to_string(), fake.dsn("ssl-mode=preferred"));
    let words = [
        "watch",
        "--source",
        "perfschema",
        "--pid",
        &pid,
        "--dsn",
        &dsn,
        "--duration",
        duration,
    ];
    waggle(&words, directory)
        .spawn()
        .expect("the binary starts")
}

#[test]
fn watch_keeps_its_password_from_a_fake_server() {
    let Some(server) = mariadb() else { return };
    for play in [Play::AskForPassword, Play::SwitchAndAsk] {
        let directory = tempfile::tempdir().expect("a folder");
        let fake = Fake::start(play);
        let child = watching(&server, &fake, "2", directory.path());
        ended(child, PATIENCE, "watch");
        assert!(!fake.heard().is_empty(), "it never connected");
        kept_its_password(&fake, "watch");
    }
}

#[test]
fn one_signal_ends_watch_beside_a_server_that_fell_silent() {
    let Some(server) = mariadb() else { return };
    for phase in [
        Phase::AfterAccept,
        Phase::InGreeting,
        Phase::InTls,
        Phase::InLogin,
        Phase::FirstStatement,
        Phase::InResult,
        Phase::InRow,
    ] {
        let directory = tempfile::tempdir().expect("a folder");
        let fake = Fake::start(Play::Stall(phase));
        let child = watching(&server, &fake, "3600", directory.path());
        fake.wait_silent();
        kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal is sent");
        ended(child, SIGNAL_PATIENCE, &format!("watch {phase:?}"));
    }
}

/// A server that stands still in the middle of a copy: one signal ends the copy, and the same
/// command goes on with it once the server does.
#[test]
fn a_copy_that_a_signal_ended_beside_a_silent_target_goes_on_later() {
    if mariadb().is_none() {
        return;
    }
    let server = |id: &str| {
        let spec = SandboxSpec::new(Flavour::MariaDb)
            .set("log-bin", "binlog")
            .set("server-id", id)
            .set("binlog-format", "ROW");
        Sandbox::start(&spec).expect("a throw-away server")
    };
    let (source, target) = (server("1"), server("2"));
    let connect = |server: &Sandbox| {
        waggle_wire::Connection::connect(&server.dsn_socket()).expect("it answers")
    };
    let mut at_source = connect(&source);
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, text VARCHAR(2000))",
        "INSERT INTO d.t SELECT seq, REPEAT('x', 2000) FROM seq_1_to_4000",
    ] {
        at_source.query(sql.as_bytes()).expect(sql);
    }
    connect(&target)
        .query(b"CREATE DATABASE d")
        .expect("root may");
    let dsn = |server: &Sandbox| server.dsn_of("d").to_string();
    let (from, to) = (dsn(&source), dsn(&target));
    let words = ["copy", "--until", "copied", "--from", &from, "--to", &to];
    let slowly = ["--max-rate", "1", "--slice", "1", "--range-rows", "200"];
    let directory = tempfile::tempdir().expect("a folder");
    let child = waggle(&[&words[..], &slowly].concat(), directory.path())
        .spawn()
        .expect("the binary starts");
    let rows = |server: &Sandbox| {
        let count = connect(server).query_rows(b"SELECT COUNT(*) FROM d.t");
        let value = count.ok().and_then(|rows| rows.first()?.first()?.clone());
        value.map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let deadline = Instant::now() + PATIENCE;
    while rows(&target).is_none_or(|rows| rows == "0") {
        assert!(Instant::now() < deadline, "nothing is copied");
        // sleep: between two looks at a condition that has a deadline
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(target.pid() as i32).expect("a process");
    kill_process(pid, Signal::STOP).expect("a signal is sent");
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal is sent");
    let output = ended(child, SIGNAL_PATIENCE, "copy");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    kill_process(pid, Signal::CONT).expect("a signal is sent");
    let child = waggle(&words, directory.path()).spawn().expect("it starts");
    let output = ended(child, PATIENCE, "the same copy");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(rows(&target).as_deref(), Some("4000"));
}

/// The real thing with a key that the user pinned, through the binary.
#[test]
fn a_pinned_key_opens_the_real_server_and_no_key_does_not() {
    let found = installed_servers()
        .iter()
        .any(|server| server.flavour == Flavour::MySql);
    if !need("mysql", found, "no such server is installed") {
        return;
    }
    let spec = SandboxSpec::new(Flavour::MySql).tcp();
    let server = Sandbox::start(&spec).expect("a throw-away server");
    let mut root = waggle_wire::Connection::connect(&server.dsn_socket()).expect("it answers");
    let mut run = |sql: &str| {
        root.query(sql.as_bytes()).expect(sql);
    };
    run("CREATE DATABASE d");
    run("CREATE USER shy@'%' IDENTIFIED BY 'hunter2secret'");
    run("GRANT ALL ON *.* TO shy@'%'");
    let waggle_wire::Endpoint::Tcp { host, port } = server.dsn().endpoint else {
        panic!("it listens on TCP")
    };
    // That of the data directory is not for who has given up root's rights.
    let key: PathBuf = server.entry().dir.join("public_key.pem");
    let directory = tempfile::tempdir().expect("a folder");
    let script = directory.path().join("workload.lua");
    std::fs::write(&script, WORKLOAD).expect("a script");
    let script = script.to_str().expect("a path");
    let socket = server.socket().display().to_string();
    let tcp = format!("mysql://shy:hunter2secret@{host}:{port}/d");
    for (dsn, opens) in [
        (tcp.clone(), false),
        (
            format!("{tcp}?server-public-key-path={}", key.display()),
            true,
        ),
        (format!("{tcp}?get-server-public-key=true"), true),
        (format!("{tcp}?ssl-mode=required"), true),
        (
            format!("mysql://shy:hunter2secret@/d?socket={socket}"),
            true,
        ),
    ] {
        // What the server remembers of the account would make the login a short one.
        run("FLUSH PRIVILEGES");
        let words = [
            "bench",
            script,
            "run",
            "--dsn",
            &dsn,
            "--threads",
            "1",
            "--events",
            "3",
        ];
        let child = waggle(&words, directory.path()).spawn().expect("it starts");
        let output = ended(child, PATIENCE, &dsn);
        assert_eq!(output.status.success(), opens, "{dsn}: {}", said(&output));
    }
}
