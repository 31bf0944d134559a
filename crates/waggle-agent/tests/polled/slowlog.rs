//! The slow log of real servers, through rotation and truncation, held against pt-query-digest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use waggle_agent::source::slowlog::{SlowlogError, SlowlogSource};
use waggle_agent::source::{Observation, Source};
use waggle_agent::statement::{Statement, Text};
use waggle_digest::{Fingerprinter, digest_id};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use crate::bed::{connect, flavours, server, wait_for};

/// What a test looks at.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    text: String,
    database: String,
    user: String,
    connection_id: Option<u64>,
    rows: [Option<u64>; 3],
    error: Option<u32>,
    is_truncated: bool,
    is_command: bool,
    has_latency: bool,
}

impl Seen {
    fn of(statement: &Statement<'_>) -> Self {
        let Text::Whole { sql, truncated } = statement.text else {
            panic!("a slow log has the text");
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let work = &statement.work;
        Self {
            text: text(sql),
            database: text(statement.database),
            user: text(statement.user),
            connection_id: statement.connection_id,
            rows: [work.rows_sent, work.rows_examined, work.rows_affected],
            error: work.error,
            is_truncated: truncated,
            is_command: statement.command.is_some(),
            has_latency: statement.latency_ns.is_some_and(|ns| ns > 0),
        }
    }
}

#[derive(Default)]
struct Read {
    seen: Vec<Seen>,
    lost: u64,
}

impl Read {
    fn poll(&mut self, source: &mut SlowlogSource) {
        let mut each = |observation: Observation<'_>| match observation {
            Observation::Statement(statement) => self.seen.push(Seen::of(&statement)),
            Observation::Lost { count, .. } => self.lost += count,
            other => panic!("{other:?}"),
        };
        source.poll(&mut each).unwrap();
    }

    /// Reads until a statement with this text has come.
    fn until(&mut self, source: &mut SlowlogSource, text: &str) -> Seen {
        wait_for(&format!("{text:?} in {}", source.path().display()), || {
            self.poll(source);
            self.seen.iter().find(|seen| seen.text == text).cloned()
        })
    }

    fn count(&self, text: &str) -> usize {
        self.seen.iter().filter(|seen| seen.text == text).count()
    }
}

/// A server that logs every statement with all it can say.
fn logging(flavour: Flavour) -> Sandbox {
    let more = match flavour {
        Flavour::MySql => ("log_slow_extra", "ON"),
        Flavour::MariaDb => ("log_slow_verbosity", "query_plan,innodb,explain"),
    };
    let settings = [("slow_query_log", "ON"), ("long_query_time", "0"), more];
    server(flavour, &settings)
}

fn log_file(server: &Sandbox, client: &mut Connection) -> PathBuf {
    let rows = client.query_rows(b"SELECT @@slow_query_log_file").unwrap();
    let name = String::from_utf8(rows[0][0].clone().unwrap()).unwrap();
    server.datadir().join(Path::new(&name).file_name().unwrap())
}

#[test]
fn statements_of_real_servers() {
    for flavour in flavours() {
        let server = logging(flavour);
        let mut client = connect(&server);
        let mut source =
            SlowlogSource::of_server(&server.dsn().into(), Some(server.pid())).unwrap();
        let mut read = Read::default();
        client
            .query(b"CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
            .unwrap();
        client
            .query(b"INSERT INTO t VALUES (1, 'x'), (2, 'y;\n# no header')")
            .unwrap();
        client.query(b"SELECT a\n  FROM t\n WHERE a > 0").unwrap();
        client
            .query(b"INSERT INTO t VALUES (1, 'again')")
            .unwrap_err();
        client.query(b"SELECT '\xff\x00\x80'").unwrap();
        client.query(b"CREATE DATABASE elsewhere").unwrap();
        client.query(b"USE elsewhere").unwrap();
        client.query(b"SET timestamp=5").unwrap();
        client.query(b"SELECT 'the end'").unwrap();
        let id = u64::from(client.connection_id());
        let last = read.until(&mut source, "SELECT 'the end'");
        assert_eq!(
            (last.database.as_str(), last.user.as_str()),
            ("elsewhere", "root")
        );
        assert_eq!(
            (last.connection_id, last.has_latency),
            (Some(id), true),
            "{flavour}"
        );
        let one = |text: &str| {
            assert_eq!(
                read.count(text),
                1,
                "{flavour}: {text:?} in {:?}",
                read.seen
            );
            read.seen
                .iter()
                .find(|seen| seen.text == text)
                .unwrap()
                .clone()
        };
        let select = one("SELECT a\n  FROM t\n WHERE a > 0");
        assert_eq!(
            (select.rows[0], select.rows[1]),
            (Some(2), Some(2)),
            "{flavour}"
        );
        assert_eq!(select.database, "sbtest");
        let insert = one("INSERT INTO t VALUES (1, 'x'), (2, 'y;\n# no header')");
        let failed = one("INSERT INTO t VALUES (1, 'again')");
        match flavour {
            Flavour::MySql => assert_eq!((insert.error, failed.error), (Some(0), Some(1062))),
            Flavour::MariaDb => assert_eq!((insert.rows[2], failed.error), (Some(2), None)),
        }
        one("SET timestamp=5");
        one("USE elsewhere");
        one("SELECT '\u{fffd}\0\u{fffd}'");
        assert_eq!(read.lost, 0);
    }
}

#[test]
fn rotation_and_truncation() {
    for flavour in flavours() {
        let server = logging(flavour);
        let mut client = connect(&server);
        let file = log_file(&server, &mut client);
        let mut source = SlowlogSource::open(&file).unwrap();
        let mut read = Read::default();
        client.query(b"SELECT 'before'").unwrap();
        read.until(&mut source, "SELECT 'before'");
        // As logrotate does it: move, make, and tell the server some time later.
        fs::rename(&file, file.with_extension("1")).unwrap();
        fs::write(&file, "").unwrap();
        read.poll(&mut source);
        client.query(b"SELECT 'into the old file'").unwrap();
        read.until(&mut source, "SELECT 'into the old file'");
        // The new file has to be the server's own, which may write no other.
        fs::remove_file(&file).unwrap();
        client.query(b"FLUSH SLOW LOGS").unwrap();
        client.query(b"SELECT 'into the new file'").unwrap();
        read.until(&mut source, "SELECT 'into the new file'");
        // And as others do it: copy, and cut.
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(0)
            .unwrap();
        read.poll(&mut source);
        client.query(b"SELECT 'after the cut'").unwrap();
        read.until(&mut source, "SELECT 'after the cut'");
        for text in [
            "before",
            "into the old file",
            "into the new file",
            "after the cut",
        ] {
            assert_eq!(
                read.count(&format!("SELECT '{text}'")),
                1,
                "{flavour}: {text}"
            );
        }
        assert_eq!(source.trouble(), None);
    }
}

#[test]
fn a_server_that_writes_none_is_told_why() {
    for flavour in flavours() {
        let server = server(flavour, &[]);
        let off = SlowlogSource::of_server(&server.dsn().into(), Some(server.pid()));
        assert!(matches!(off, Err(SlowlogError::Off)), "{flavour}");
        let mut client = connect(&server);
        client.query(b"SET GLOBAL slow_query_log=ON").unwrap();
        client.query(b"SET GLOBAL log_output='TABLE'").unwrap();
        let table = SlowlogSource::of_server(&server.dsn().into(), Some(server.pid()));
        assert!(matches!(table, Err(SlowlogError::NoFileOutput(to)) if to == "TABLE"));
    }
    assert!(matches!(
        SlowlogSource::open(Path::new("/no/such/log")),
        Err(SlowlogError::Open { .. })
    ));
    assert!(matches!(
        SlowlogSource::open(Path::new("/tmp")),
        Err(SlowlogError::NoFile(_))
    ));
}

/// Statements on whose fingerprints both agree (see the reference in `waggle-digest`).
const STATEMENTS: &[&str] = &[
    "SELECT c FROM t WHERE id=1",
    "SELECT c FROM t WHERE id=2",
    "SELECT c FROM t WHERE id IN (1, 2, 3)",
    "SELECT c FROM t WHERE id IN (4)",
    "INSERT INTO t (id, c) VALUES (1000, 'a'), (1001, 'b')",
    "INSERT INTO t (id, c) VALUES (1002, 'c')",
    "UPDATE t SET c='new' WHERE id=5",
    "UPDATE t SET c='newer'\n WHERE id=6",
    "DELETE FROM t WHERE id=1000",
    "SELECT COUNT(*) FROM t WHERE c LIKE '%x%' ORDER BY id DESC",
    "BEGIN",
    "COMMIT",
    "SELECT id, c FROM t WHERE id BETWEEN 10 AND 20",
];

#[test]
fn the_same_counts_and_ids_as_pt_query_digest() {
    let has_reference = Command::new("pt-query-digest")
        .arg("--version")
        .output()
        .is_ok();
    if !need(
        "percona-toolkit",
        has_reference,
        "pt-query-digest is not installed",
    ) {
        return;
    }
    for flavour in flavours() {
        let server = logging(flavour);
        let mut client = connect(&server);
        let file = log_file(&server, &mut client);
        client
            .query(b"CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20))")
            .unwrap();
        for round in 0..20 {
            for (at, statement) in STATEMENTS.iter().enumerate() {
                if (round + at) % 3 != 0 {
                    let _ = client.query(statement.as_bytes()); // duplicate keys are logged, too
                }
            }
        }
        client.query(b"SELECT 'the end'").unwrap();
        let mut source = SlowlogSource::open_from_start(&file).unwrap();
        let mut read = Read::default();
        read.until(&mut source, "SELECT 'the end'");
        // Nobody writes any more: both read the same bytes.
        let ours = counts(&read.seen);
        assert_eq!(ours, reference(&file), "{flavour}");
        assert!(ours.len() >= 10, "{ours:?}");
    }
}

fn counts(seen: &[Seen]) -> BTreeMap<String, u64> {
    let mut fingerprinter = Fingerprinter::new();
    let mut counts = BTreeMap::new();
    for one in seen.iter().filter(|seen| !seen.is_command) {
        let id = digest_id(fingerprinter.fingerprint(one.text.as_bytes()));
        *counts.entry(id.to_string()).or_default() += 1;
    }
    counts
}

/// Counts by id of pt-query-digest.
fn reference(log: &Path) -> BTreeMap<String, u64> {
    let output = Command::new("pt-query-digest")
        .args(["--no-version-check", "--limit=100%", "--output=json"])
        .arg(log)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find('{').unwrap_or(0);
    let document: serde_json::Value = serde_json::from_str(&text[start..])
        .unwrap_or_else(|e| panic!("{e}: {text} {}", String::from_utf8_lossy(&output.stderr)));
    let classes = document["classes"].as_array().unwrap();
    classes
        .iter()
        .filter(|class| {
            let fingerprint = class["fingerprint"].as_str().unwrap_or_default();
            !fingerprint.starts_with("administrator command")
        })
        .map(|class| {
            let id = class["checksum"].as_str().unwrap().to_owned();
            let id = id.get(id.len().saturating_sub(16)..).unwrap().to_owned();
            (id, class["query_count"].as_u64().unwrap())
        })
        .collect()
}
