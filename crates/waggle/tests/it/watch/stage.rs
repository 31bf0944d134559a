//! `waggle watch` as a process of its own beside a throw-away server, and what both counted.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use waggle_need::{is_root, need};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

/// How long anything may take that takes a second on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The heavy tests of this binary, one at a time: the machine stays usable, and no test's load
/// stretches another's waits.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if `flavour` can be watched here; else the skip is said, or is a failure.
pub(crate) fn can_watch(flavour: Flavour) -> bool {
    let installed = installed_servers()
        .iter()
        .any(|server| server.flavour == flavour);
    need("bpf", is_root(), "not root")
        && need(
            flavour.name(),
            installed,
            &format!("no {flavour} server is installed"),
        )
}

/// The flavours that can be watched here, the others skipped aloud.
pub(crate) fn flavours() -> Vec<Flavour> {
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|flavour| can_watch(*flavour))
        .collect()
}

pub(crate) fn server(flavour: Flavour) -> Sandbox {
    Sandbox::start(&SandboxSpec::new(flavour)).expect("a throw-away server")
}

pub(crate) fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn_socket()).expect("a connection over the socket")
}

/// Runs statements that all have to succeed.
pub(crate) fn run(connection: &mut Connection, statements: &[&str]) {
    for statement in statements {
        connection
            .query(statement.as_bytes())
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Waits until the server has ended every statement of this connection: it reads the next command
/// only then.
pub(crate) fn settle(connection: &mut Connection) {
    connection.ping().expect("the connection lives");
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_with(Duration::from_millis(5), what, condition);
}

/// Waits until `condition` holds, which costs something: it is looked at once a `step`.
pub(crate) fn wait_with(step: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // sleep: between two looks at a condition that has a deadline
        std::thread::sleep(step);
    }
}

/// The program of the installed MariaDB.
pub(crate) fn mariadb_program() -> PathBuf {
    let mut installed = installed_servers().into_iter();
    let found =
        installed.find(|server| server.flavour == Flavour::MariaDb && server.root.is_none());
    found.expect("MariaDB is installed").exe
}

/// The program under test.
pub(crate) fn waggle(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("WAGGLE_DSN");
    command
}

/// A started process whose lines on standard error can be waited for. Killed when dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    words: JoinHandle<String>,
    output: JoinHandle<String>,
    ended: bool,
}

/// A process that ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        let words = std::thread::spawn(move || {
            let mut words = String::new();
            for line in stderr.lines().map_while(Result::ok) {
                let _ = writeln!(words, "{line}");
                let _ = sender.send(line);
            }
            words
        });
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        Self {
            child,
            lines,
            words,
            output,
            ended: false,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard error that contains `part`.
    pub(crate) fn line(&self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => _ = writeln!(seen, "{line}"),
                Err(why) => panic!("no line with {part:?} ({why}); it said:\n{seen}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: our own child, not yet waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "signal {signal}");
    }

    /// Waits for the end of what takes long and says how far it is: the next line on standard error
    /// has to come soon.
    pub(crate) fn end_by_lines(self) -> Ended {
        // The pipe closes with the process, or before.
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("no line in {PATIENCE:?}, and no end"),
            }
        }
        self.end()
    }

    /// Waits for the end, which has to come soon.
    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        wait_until("the process ended", || {
            status = self.child.try_wait().expect("its state");
            status.is_some()
        });
        self.ended = true;
        let words = std::mem::replace(&mut self.words, std::thread::spawn(String::new));
        let output = std::mem::replace(&mut self.output, std::thread::spawn(String::new));
        Ended {
            status: status.expect("it ended"),
            stdout: output.join().expect("its output"),
            stderr: words.join().expect("its words"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// `waggle watch --json` of one server, attached.
pub(crate) struct Watching(pub(crate) Running);

impl Watching {
    pub(crate) fn start(pid: u32, options: &[&str]) -> Self {
        let pid = pid.to_string();
        let arguments = [&["watch", "--json", "--pid", &pid], options].concat();
        let running = Running::start(&mut waggle(&arguments));
        running.line("watching ");
        Self(running)
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(self) -> Report {
        self.0.signal(libc::SIGINT);
        let ended = self.0.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        Report::parse(&ended.stdout)
    }
}

/// The JSON document of `waggle watch`.
pub(crate) struct Report(pub(crate) Value);

impl Report {
    pub(crate) fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let value = self
            .0
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}: {}", self.0));
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    pub(crate) fn captured(&self) -> u64 {
        self.number("/captured")
    }

    pub(crate) fn lost(&self) -> u64 {
        self.number("/lost/ring_full")
    }

    pub(crate) fn digests(&self) -> &[Value] {
        self.0["digests"].as_array().expect("digests")
    }

    /// The digest with this fingerprint.
    pub(crate) fn digest(&self, fingerprint: &str) -> &Value {
        let found = self
            .digests()
            .iter()
            .find(|digest| digest["fingerprint"] == fingerprint);
        found.unwrap_or_else(|| panic!("no {fingerprint:?} in\n{}", self.listing()))
    }

    /// How often it ran; 0 if it is not there.
    pub(crate) fn count(&self, fingerprint: &str) -> u64 {
        let found = self
            .digests()
            .iter()
            .find(|digest| digest["fingerprint"] == fingerprint);
        found.map_or(0, |digest| digest["count"].as_u64().expect("a count"))
    }

    /// Count and fingerprint of every digest, for messages.
    pub(crate) fn listing(&self) -> String {
        let line = |d: &Value| {
            format!(
                "{:>6} {:>3} errors  {}\n",
                d["count"], d["errors"], d["fingerprint"]
            )
        };
        self.digests().iter().map(line).collect()
    }
}

/// What a server counted and what was captured of it, both without the observer's own statements.
pub(crate) struct Account {
    /// Change of `Questions`.
    pub(crate) questions: u64,
    /// Change of `Queries`.
    pub(crate) queries: u64,
    /// Captured.
    pub(crate) captured: u64,
    pub(crate) report: Report,
}

const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Queries','Questions')";

/// `Queries` and `Questions`, this reading included.
fn counters(admin: &mut Connection) -> [u64; 2] {
    let rows = admin.query_rows(COUNTERS.as_bytes()).expect("counters");
    let value = |row: &Vec<Option<Vec<u8>>>| {
        let text = row[1].as_deref().expect("a value");
        std::str::from_utf8(text)
            .expect("text")
            .parse()
            .expect("a number")
    };
    [value(&rows[0]), value(&rows[1])]
}

/// Watches `server` while `work` runs, and reads the server's counters before and after it.
///
/// `work` has to leave its connections settled (see [`settle`]) and hand them out: a connection
/// that ends is a command too.
pub(crate) fn observe<R>(
    server: &Sandbox,
    options: &[&str],
    work: impl FnOnce(&Sandbox) -> R,
) -> (Account, R) {
    let mut admin = connect(server);
    let watching = Watching::start(server.pid(), options);
    let before = counters(&mut admin);
    let result = work(server);
    let after = counters(&mut admin);
    settle(&mut admin);
    let report = watching.interrupt();
    // The second reading counts itself; the first was counted before the difference.
    let change = |at: usize| after[at] - before[at] - 1;
    let account = Account {
        questions: change(1),
        queries: change(0),
        captured: report.captured() - 2,
        report,
    };
    (account, result)
}

/// Writes `text` to a new file in `folder` that every user may read.
pub(crate) fn file(folder: &Path, name: &str, text: &[u8]) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    path
}
