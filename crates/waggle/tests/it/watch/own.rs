//! What the agent itself asks of a server is counted, and counted apart: of every source, captured
//! is what others ran.

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use super::stage::{Report, Watching, connect, flavours, run, settle, turn, wait_until};

/// Statements of a test; each has this digest.
const MARKED: &str = "SELECT 'x' AS marked";
const DIGEST: &str = "select ? as marked";

fn with(flavour: Flavour, settings: &[(&str, &str)]) -> Sandbox {
    let mut spec = SandboxSpec::new(flavour);
    for (name, value) in settings {
        spec = spec.set(*name, *value);
    }
    Sandbox::start(&spec).expect("a server")
}

/// Sessions of the server, but for the one that asks; asked with a digest of its own.
fn others(admin: &mut Connection) -> usize {
    let sql = b"SELECT COUNT(*) AS looks FROM information_schema.processlist \
                WHERE command <> 'Daemon' AND id <> CONNECTION_ID()";
    let rows = admin.query_rows(sql).expect("the process list");
    let count = rows[0][0].as_deref().expect("a count");
    String::from_utf8_lossy(count).parse().expect("a number")
}

/// No digest is the agent's, and every captured statement is in one.
fn assert_apart(flavour: Flavour, report: &Report) {
    assert!(report.number("/own") > 0, "{flavour}\n{}", report.listing());
    for digest in report.digests() {
        let text = digest["fingerprint"].as_str().expect("a fingerprint");
        let is_own = [
            "show global status",
            "innodb_",
            "replica status",
            "slaves status",
        ]
        .iter()
        .any(|own| text.contains(own));
        assert!(!is_own, "{flavour}: {text}");
    }
    let counted = report.digests().iter().map(|d| d["count"].as_u64());
    let counted: u64 = counted.map(|count| count.expect("a count")).sum();
    assert_eq!(
        counted,
        report.captured(),
        "{flavour}\n{}",
        report.listing()
    );
}

#[test]
fn the_probe_tells_the_agents_sessions_from_others() {
    let _turn = turn();
    for flavour in flavours() {
        let server = with(flavour, &[]);
        let mut admin = connect(&server);
        run(
            &mut admin,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY)",
                "INSERT INTO t VALUES (1)",
            ],
        );
        settle(&mut admin);
        let dsn = server.dsn_socket().to_string();
        let watching = Watching::start(server.pid(), &["--dsn", &dsn]);
        let [mut holder, mut waiter] = [(); 2].map(|()| connect(&server));
        run(&mut holder, &["BEGIN", "UPDATE t SET id = 2 WHERE id = 1"]);
        let waiting = std::thread::spawn(move || {
            run(&mut waiter, &["UPDATE t SET id = 3 WHERE id = 1"]);
            settle(&mut waiter);
        });
        // Holder and waiter; then the two of the agent: one asks for counters, one about the wait.
        wait_until("the agent asks about the wait", || others(&mut admin) == 4);
        for _ in 0..100 {
            run(&mut admin, &[MARKED]);
        }
        run(&mut holder, &["COMMIT"]);
        waiting.join().expect("the waiter");
        [&mut admin, &mut holder].into_iter().for_each(settle);
        let report = watching.interrupt();
        assert_apart(flavour, &report);
        let looks = "select count(*) as looks from information_schema.processlist \
                     where command <> ? and id <> connection_id()";
        assert_eq!(report.count(DIGEST), 100, "{flavour}");
        // BEGIN, two UPDATEs, COMMIT.
        let known = 100 + 4 + report.count(looks);
        assert_eq!(report.captured(), known, "{flavour}\n{}", report.listing());
        let seen = report.captured() + report.number("/own") + report.number("/other_commands");
        assert_eq!(seen + report.lost(), report.number("/hits"), "{flavour}");
    }
}

#[test]
fn packets_and_slow_log_know_them_too() {
    let _turn = turn();
    for flavour in flavours() {
        let more = match flavour {
            Flavour::MySql => ("log_slow_extra", "ON"),
            Flavour::MariaDb => ("log_slow_verbosity", "query_plan"),
        };
        let log = [("slow_query_log", "ON"), ("long_query_time", "0"), more];
        let settings = [&log[..], &[("skip_networking", "0")]].concat();
        let server = with(flavour, &settings);
        let dsn = server.dsn().to_string();
        for source in ["packets", "slowlog"] {
            let mut client = Connection::connect(&server.dsn()).expect("a connection over TCP");
            // Without --slow-log the server is asked which file it is.
            let options = ["--source", source, "--dsn", &dsn, "--interval", "0.1"];
            let watching = Watching::start(server.pid(), &options);
            wait_until("the agent asks", || others(&mut client) >= 1);
            for _ in 0..100 {
                run(&mut client, &[MARKED]);
            }
            settle(&mut client);
            let report = watching.interrupt();
            assert_apart(flavour, &report);
            let looks = report
                .digests()
                .iter()
                .filter(|d| {
                    d["fingerprint"]
                        .as_str()
                        .is_some_and(|f| f.contains("as looks"))
                })
                .map(|d| d["count"].as_u64().expect("a count"))
                .sum::<u64>();
            assert_eq!(report.count(DIGEST), 100, "{flavour} {source}");
            let captured = report.captured();
            assert_eq!(
                captured,
                100 + looks,
                "{flavour} {source}\n{}",
                report.listing()
            );
            client.quit().expect("it leaves");
        }
    }
}

#[test]
fn performance_schema_keeps_their_name() {
    let _turn = turn();
    for flavour in flavours() {
        let server = with(flavour, &[("performance_schema", "ON")]);
        let dsn = server.dsn().to_string();
        let options = ["--source", "perfschema", "--dsn", &dsn, "--interval", "0.1"];
        let watching = Watching::start(server.pid(), &options);
        let mut client = connect(&server);
        let grouping = "SELECT a.seq FROM (SELECT 1 AS seq UNION SELECT 2) a GROUP BY a.seq";
        for _ in 0..20 {
            run(&mut client, &[MARKED, grouping]);
        }
        settle(&mut client);
        let report = watching.interrupt();
        assert_apart(flavour, &report);
        let of = |part: &str| {
            let mut digests = report.digests().iter();
            let found =
                digests.find(|d| d["fingerprint"].as_str().is_some_and(|f| f.contains(part)));
            found.unwrap_or_else(|| panic!("{flavour}: {part}\n{}", report.listing()))
        };
        assert_eq!(of("marked")["count"], 20, "{flavour}");
        // Sums that only a table of digests has.
        let grouped = of("group by");
        let tables = grouped["tmp_tables"][0].as_u64().expect("temporary tables");
        assert!(
            grouped["count"] == 20 && tables >= 20,
            "{flavour}: {grouped}"
        );
        assert_eq!(grouped["warnings"], 0, "{grouped}");
    }
}
