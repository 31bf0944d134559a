//! kill -9 of the copier, the source or the target at random moments, while rows are inserted,
//! changed and deleted, change their keys and exchange unique values: at the end both are equal.
//!
//! The short form is a few kills; `WAGGLE_KILL_RUNS=200 cargo test -p waggle --test it
//! copy::kill::many -- --ignored` is the long one. A run is its seed's: it is printed on failure.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Error, Row};

use super::{PATIENCE, flavours};

/// Rows before the copy begins.
const ROWS: u64 = 3000;
const KEYS: u64 = 4000;
/// Transactions that a run has at least.
const CHANGES: u64 = 100;

/// SplitMix64: repeatable without a crate.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % limit
    }
}

/// Two servers that lose nothing of what they said was committed.
pub(super) struct Pair {
    pub(super) source: Sandbox,
    pub(super) target: Sandbox,
    pub(super) directory: tempfile::TempDir,
}

fn server(flavour: Flavour, id: &str, directory: &Path) -> Sandbox {
    let mut spec = SandboxSpec::new(flavour)
        .set("log-bin", "binlog")
        .set("server-id", id)
        .set("binlog-format", "ROW")
        .set("sync-binlog", "1")
        .set("innodb-flush-log-at-trx-commit", "1")
        .set("innodb-lock-wait-timeout", "5");
    if flavour == Flavour::MySql {
        spec = spec
            .set("gtid-mode", "ON")
            .set("enforce-gtid-consistency", "ON");
    }
    // The log of a server that was killed is kept beside its directory, and goes with this one.
    spec.dir = Some(directory.to_owned());
    Sandbox::start(&spec).expect("a server")
}

impl Pair {
    pub(super) fn new(flavour: Flavour) -> Pair {
        let directory = tempfile::tempdir().unwrap();
        Pair {
            source: server(flavour, "1", directory.path()),
            target: server(flavour, "2", directory.path()),
            directory,
        }
    }

    pub(super) fn command(&self, database: &str, until: &str) -> Command {
        let dsn = |server: &Sandbox| server.dsn_of(database).to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
        command
            .args(["copy", "--json", "--until", until, "--job", database])
            .args(["--from", &dsn(&self.source)])
            .args(["--to", &dsn(&self.target)])
            .args(["--range-rows", "700", "--slice", "1", "--max-rate", "1"])
            .current_dir(self.directory.path());
        command
    }

    fn begin(&self, database: &str) -> Child {
        let mut command = self.command(database, "stopped");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }
}

/// kill -9, and up again on what it left.
pub(super) fn crash(server: &mut Sandbox) {
    let pid = i32::try_from(server.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(server.ended(PATIENCE).unwrap().is_some());
    // The first says how it ended.
    if server.restart(&[]).is_err() {
        server.restart(&[]).expect("a server that recovers");
    }
}

fn run(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    connection.query(sql.as_bytes()).map(drop)
}

pub(super) fn prepare(pair: &Pair, database: &str) {
    let mut source = Connection::connect(&pair.source.dsn_socket()).unwrap();
    for sql in [
        format!("CREATE DATABASE {database}"),
        format!("USE {database}"),
        "CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT, pad VARCHAR(600), j JSON, \
         UNIQUE KEY u (u), KEY v (v))"
            .to_owned(),
        "CREATE TABLE s (k VARCHAR(30) COLLATE utf8mb4_general_ci, n INT, d DOUBLE, b BLOB, \
         PRIMARY KEY (k, n))"
            .to_owned(),
    ] {
        run(&mut source, &sql).unwrap();
    }
    for first in (0..ROWS).step_by(500) {
        let values = |form: &dyn Fn(u64) -> String| {
            let rows: Vec<String> = (first..first + 500).map(form).collect();
            rows.join(",")
        };
        let rows = values(&|i| {
            let pad = format!("REPEAT('p', {})", i % 600);
            format!("({i}, {i}, {}, {pad}, {})", i % 7, json(i))
        });
        run(&mut source, &format!("INSERT INTO t VALUES {rows}")).unwrap();
        let rows = values(&|i| format!("('k{}', {i}, {i} / 7, NULL)", i % 50));
        run(&mut source, &format!("INSERT INTO s VALUES {rows}")).unwrap();
    }
}

/// A JSON with a DECIMAL inside, which MySQL's text alone would make a DOUBLE of.
fn json(number: u64) -> String {
    format!("JSON_OBJECT('d', CAST({number} AS DECIMAL(9,2)))")
}

/// A random transaction.
fn transaction(random: &mut Random) -> String {
    let a = random.below(KEYS);
    let b = random.below(KEYS);
    let n = random.below(1_000_000);
    match random.below(9) {
        0 => format!(
            "REPLACE INTO t VALUES ({a}, {b}, {n}, REPEAT('n', {}), {})",
            n % 600,
            json(n)
        ),
        1 => format!(
            "UPDATE t SET v = {n}, pad = LEFT(CONCAT(v, pad), 600), j = {} \
             WHERE id BETWEEN {a} AND {a} + 9",
            json(n)
        ),
        2 => format!("DELETE FROM t WHERE id = {a}"),
        3 => format!("UPDATE IGNORE t SET id = {b} WHERE id = {a}"),
        4 => format!(
            "BEGIN; SELECT u INTO @a FROM t WHERE id = {a}; \
             SELECT u INTO @b FROM t WHERE id = {b}; UPDATE t SET u = NULL WHERE id = {a}; \
             UPDATE IGNORE t SET u = @a WHERE id = {b}; \
             UPDATE IGNORE t SET u = @b WHERE id = {a}; COMMIT"
        ),
        5 => format!(
            "BEGIN; INSERT IGNORE INTO s VALUES ('K{}', {n}, {n} / 3, X'00{n:06}'); \
             UPDATE t SET v = v + 1 WHERE id = {a}; COMMIT",
            a % 60
        ),
        6 => format!(
            "UPDATE IGNORE s SET k = UPPER(k), n = n + 1 WHERE k = 'k{}'",
            a % 60
        ),
        7 => format!("DELETE FROM s WHERE k = 'k{}' AND n < {b}", a % 60),
        _ => format!(
            "BEGIN; INSERT IGNORE INTO t VALUES ({a}, NULL, 0, '', NULL); SAVEPOINT x; \
             DELETE FROM t WHERE id < 50; ROLLBACK TO x; \
             UPDATE t SET v = {n} WHERE id = {b}; COMMIT"
        ),
    }
}

/// Changes the source's rows until it is over, also when the source is gone for a while.
fn write(dsn: &waggle_wire::Dsn, seed: u64, over: &AtomicBool, done: &AtomicU64) {
    let mut random = Random(seed);
    let mut connection = None;
    while !over.load(Ordering::Relaxed) {
        let Some(session) = &mut connection else {
            connection = Connection::connect(dsn).ok();
            // sleep: a source that was killed is looked for now and then
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let outcome = run(session, &transaction(&mut random));
        done.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => {}
            // Another writer was first.
            Err(Error::Server {
                errno: 1205 | 1213 | 1062,
                ..
            }) => {
                connection = None;
            }
            Err(Error::Server { errno, message, .. }) if !matches!(errno, 1053 | 1927 | 3169) => {
                panic!("{errno} {message}");
            }
            Err(_) => connection = None,
        }
        // sleep: the machine is shared with three servers
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Copier,
    Source,
    Target,
}

/// A copy with these kills; both databases must be equal in the end.
fn survive(pair: &mut Pair, database: &str, seed: u64, victims: &[Victim]) {
    prepare(pair, database);
    let mut dsn = pair.source.dsn_socket();
    dsn.database = Some(database.to_owned());
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = Random(seed ^ 0x5eed);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (dsn, over, done) = (&dsn, &over, &done);
            scope.spawn(move || write(dsn, seed * 2 + writer, over, done));
        }
        let mut copier = pair.begin(database);
        for victim in victims {
            let moment = Duration::from_millis(50 + random.below(900));
            // sleep: the moment is what is random
            std::thread::sleep(moment);
            match victim {
                Victim::Copier => {
                    copier.kill().unwrap();
                    copier.wait().unwrap();
                    copier = pair.begin(database);
                }
                Victim::Source => crash(&mut pair.source),
                Victim::Target => crash(&mut pair.target),
            }
            if copier.try_wait().unwrap().is_some() {
                copier = pair.begin(database);
            }
        }
        // However soon the last kill was, there were changes.
        let deadline = Instant::now() + PATIENCE;
        while done.load(Ordering::Relaxed) < CHANGES {
            assert!(Instant::now() < deadline, "nothing is written");
            // sleep: looking all the time would take the processor from who is waited for
            std::thread::sleep(Duration::from_millis(1));
        }
        copier.kill().unwrap();
        copier.wait().unwrap();
        over.store(true, Ordering::Relaxed);
    });
    let output = pair.command(database, "caught-up").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{database} {victims:?}: {words}");
    let differ = differences(pair, database);
    if !differ.is_empty() {
        let directory = pair.directory.path().display();
        panic!(
            "seed {seed}, {victims:?}, spool in {directory}: {}",
            differ.join("\n")
        );
    }
}

/// Rows that one side has and the other has not.
pub(super) fn differences(pair: &Pair, database: &str) -> Vec<String> {
    let read = |server: &Sandbox, table: &str, key: &str| -> Vec<Row> {
        let mut connection = Connection::connect(&server.dsn_socket()).unwrap();
        let sql = format!("SELECT * FROM {database}.{table} ORDER BY {key}");
        connection.query_rows(sql.as_bytes()).unwrap()
    };
    let mut differ = Vec::new();
    for (table, key) in [("t", "id"), ("s", "CAST(k AS BINARY), n")] {
        let (source, target) = (
            read(&pair.source, table, key),
            read(&pair.target, table, key),
        );
        assert!(!source.is_empty());
        let shown = |side: &str, row: &Row| {
            let value = |v: &Option<Vec<u8>>| {
                v.as_ref().map_or("NULL".into(), |v| {
                    String::from_utf8_lossy(&v[..v.len().min(40)]).into_owned()
                })
            };
            let values: Vec<String> = row.iter().map(value).collect();
            format!("{table}: only {side}: {}", values.join(" "))
        };
        let only = |these: &[Row], those: &[Row], side: &str| -> Vec<String> {
            let those: std::collections::HashSet<&Row> = those.iter().collect();
            let lonely = these.iter().filter(|row| !those.contains(row));
            lonely.take(10).map(|row| shown(side, row)).collect()
        };
        differ.extend(only(&source, &target, "source"));
        differ.extend(only(&target, &source, "target"));
        if differ.is_empty() && source.len() != target.len() {
            differ.push(format!(
                "{table}: {} and {} rows",
                source.len(),
                target.len()
            ));
        }
    }
    differ
}

#[test]
fn copies_survive_the_death_of_anybody() {
    for flavour in flavours() {
        let mut pair = Pair::new(flavour);
        let victims = [
            Victim::Copier,
            Victim::Target,
            Victim::Copier,
            Victim::Source,
            Victim::Copier,
        ];
        survive(&mut pair, "r1", 1, &victims);
    }
}

#[test]
#[ignore = "takes half an hour: WAGGLE_KILL_RUNS=200 cargo test ... copy::kill::many -- --ignored"]
fn many() {
    let number = |name: &str, otherwise: u64| {
        let value = std::env::var(name).ok();
        value.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (runs, first) = (
        number("WAGGLE_KILL_RUNS", 200),
        number("WAGGLE_KILL_SEED", 1),
    );
    for flavour in flavours() {
        let mut pair = Pair::new(flavour);
        for seed in first..first + runs {
            let mut random = Random(seed);
            let victims: Vec<Victim> = (0..1 + random.below(4))
                .map(|_| match random.below(6) {
                    0 => Victim::Source,
                    1 => Victim::Target,
                    _ => Victim::Copier,
                })
                .collect();
            survive(&mut pair, &format!("r{seed}"), seed, &victims);
            eprintln!("{flavour} seed {seed}: {victims:?}: equal");
            for server in [&pair.source, &pair.target] {
                let mut connection = Connection::connect(&server.dsn_socket()).unwrap();
                run(&mut connection, &format!("DROP DATABASE r{seed}")).unwrap();
            }
        }
    }
}
