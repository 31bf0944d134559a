//! Both tools on one server, and what they leave there: tables, rows, statements.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use super::{Said, ours, theirs};

/// Who runs a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Waggle,
    Sysbench,
}

/// Both, or nothing where there is no sysbench to compare with.
pub(super) fn both() -> Option<[Tool; 2]> {
    let found = Path::new("/usr/bin/sysbench").exists();
    need("sysbench", found, "sysbench is not installed").then_some([Tool::Waggle, Tool::Sysbench])
}

impl Tool {
    pub(super) fn run(self, words: &[&str], directory: &Path) -> Said {
        match self {
            Tool::Waggle => ours(words, directory),
            Tool::Sysbench => theirs(words, directory).expect("it was there before"),
        }
    }
}

/// A table as it stands in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) definition: String,
    pub(super) rows: i64,
}

pub(super) type Tables = BTreeMap<String, Table>;

/// A server, a look into it, and a directory for scripts.
pub(super) struct Bed {
    pub(super) server: Sandbox,
    pub(super) connection: Connection,
    pub(super) directory: TempDir,
    polls: i64,
}

impl Bed {
    pub(super) fn open(flavour: Flavour, settings: &[(&str, &str)]) -> Option<Bed> {
        let found = installed_servers()
            .iter()
            .any(|server| server.flavour == flavour);
        if !need(flavour.name(), found, "no such server is installed") {
            return None;
        }
        let spec = settings
            .iter()
            .fold(SandboxSpec::new(flavour), |spec, (name, value)| {
                spec.set(*name, *value)
            });
        let server = Sandbox::start(&spec).expect("a throw-away server");
        let connection = Connection::connect(&server.dsn_socket()).expect("the server answers");
        let directory = tempfile::tempdir().unwrap();
        Some(Bed {
            server,
            connection,
            directory,
            polls: 0,
        })
    }

    /// A script of this test.
    pub(super) fn script(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Of a server that is this test's alone, and gone with it: sysbench takes a flag only.
    pub(super) fn password(&self) -> String {
        password(&self.server)
    }

    /// The words of a line, with this server and its account.
    pub(super) fn words(&self, line: &str) -> Vec<String> {
        let socket = format!("--mysql-socket={}", self.server.socket().display());
        let own = [socket, "--mysql-user=root".to_owned(), self.password()];
        let words = line.split_whitespace().map(str::to_owned);
        words.chain(own).collect()
    }

    pub(super) fn run(&self, tool: Tool, line: &str) -> Said {
        let words = self.words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        tool.run(&words, self.directory.path())
    }

    /// Runs a line that must end well.
    pub(super) fn well(&self, tool: Tool, line: &str) -> String {
        let said = self.run(tool, line);
        assert_eq!(said.code, Some(0), "{tool:?} {line}: {said:?}");
        said.stdout
    }

    /// Runs a line that takes its time with both tools side by side: what waggle said, and what
    /// sysbench did where it is installed.
    pub(super) fn side_by_side(&self, line: &str) -> (Said, Option<Said>) {
        let words = self.words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (words, directory) = (&words[..], self.directory.path());
        std::thread::scope(|scope| {
            let theirs = both().map(|_| scope.spawn(move || Tool::Sysbench.run(words, directory)));
            let ours = Tool::Waggle.run(words, directory);
            let theirs = theirs.map(|theirs| theirs.join().expect("sysbench was run"));
            (ours, theirs)
        })
    }

    /// The same of a line that must end well.
    pub(super) fn both_well(&self, line: &str) -> (String, Option<String>) {
        let (ours, theirs) = self.side_by_side(line);
        let stdout = |tool: Tool, said: Said| {
            assert_eq!(said.code, Some(0), "{tool:?} {line}: {said:?}");
            said.stdout
        };
        let ours = stdout(Tool::Waggle, ours);
        (ours, theirs.map(|said| stdout(Tool::Sysbench, said)))
    }

    pub(super) fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        let rows = self.connection.query_rows(sql.as_bytes());
        let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text = |cell: &Option<Vec<u8>>| {
            let cell = cell.as_deref().unwrap_or(b"NULL");
            String::from_utf8_lossy(cell).into_owned()
        };
        rows.iter()
            .map(|row| row.iter().map(text).collect())
            .collect()
    }

    pub(super) fn number(&mut self, sql: &str) -> i64 {
        let rows = self.rows(sql);
        let number = rows[0][0].parse();
        number.unwrap_or_else(|_| panic!("{sql}: {rows:?}"))
    }

    /// Every table of the database, counted.
    pub(super) fn tables(&mut self) -> Tables {
        let names = self
            .rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'sbtest'");
        let mut tables = Tables::new();
        for name in names.into_iter().map(|mut row| row.remove(0)) {
            let definition = self.rows(&format!("SHOW CREATE TABLE sbtest.{name}"))[0].remove(1);
            let rows = self.number(&format!("SELECT COUNT(*) FROM sbtest.{name}"));
            tables.insert(name, Table { definition, rows });
        }
        tables
    }

    /// Waits until this connection is the only one: a server counts what a session did at its end,
    /// and nobody answers a good-bye.
    pub(super) fn alone(&mut self) {
        let sessions = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root'";
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            self.polls += 1;
            if self.number(sessions) == 1 {
                return;
            }
            assert!(Instant::now() < deadline, "sessions that do not end");
            // sleep: looking all the time would take the processor from who is waited for
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Statements the server has counted, by kind.
    pub(super) fn statements(&mut self) -> BTreeMap<String, i64> {
        self.alone();
        let rows = self.rows("SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Com\\_%'");
        let counted = rows.into_iter().map(|row| (row[0].clone(), row[1].parse()));
        let mut counted: BTreeMap<String, i64> = counted
            .map(|(name, value)| (name, value.expect("a number")))
            .collect();
        // How often it was asked whether sessions have ended is chance.
        *counted.entry("Com_select".to_owned()).or_default() -= self.polls;
        counted
    }
}

/// What was added to each counter; only those that moved.
pub(super) fn since(
    before: &BTreeMap<String, i64>,
    after: &BTreeMap<String, i64>,
) -> BTreeMap<String, i64> {
    let moved = after
        .iter()
        .map(|(name, value)| (name.clone(), value - before.get(name).copied().unwrap_or(0)));
    moved.filter(|(_, moved)| *moved != 0).collect()
}

/// The counts of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) other: u64,
    pub(super) total: u64,
    pub(super) transactions: u64,
    pub(super) ignored: u64,
    pub(super) reconnects: u64,
    pub(super) events: u64,
}

impl Counts {
    pub(super) fn of(report: &str) -> Counts {
        let count = |before: &str| {
            let (_, rest) = report
                .split_once(before)
                .unwrap_or_else(|| panic!("no '{before}' in {report}"));
            let number = rest.split_whitespace().next().unwrap_or_default();
            number
                .parse()
                .unwrap_or_else(|_| panic!("'{number}' after '{before}' is no count"))
        };
        Counts {
            read: count("        read: "),
            write: count("        write: "),
            other: count("        other: "),
            total: count("        total: "),
            transactions: count("    transactions: "),
            ignored: count("    ignored errors: "),
            reconnects: count("    reconnects: "),
            events: count("total number of events: "),
        }
    }
}

/// The flag that has a server's password.
pub(super) fn password(server: &Sandbox) -> String {
    format!("--mysql-password={}", server.password().expose())
}
