//! PERFORMANCE_SCHEMA of real servers, held against what was sent.

use std::collections::BTreeMap;

use waggle_agent::source::perfschema::{PerfschemaError, PerfschemaSource};
use waggle_agent::source::{Observation, Source};
use waggle_agent::statement::Text;
use waggle_digest::Fingerprinter;
use waggle_server::Flavour;
use waggle_wire::Connection;

use crate::bed::{connect, flavours, server, wait_for};

/// What came of one text.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sums {
    count: u64,
    errors: u64,
    rows: [u64; 3],
    latency_ns: u64,
    bars: u64,
    warnings: u64,
}

/// What the agent's own statements are called here.
const OWN: &str = "(own)";

/// Sums by fingerprint.
type ByText = BTreeMap<String, Sums>;

fn poll(source: &mut PerfschemaSource, sums: &mut ByText) {
    let mut fingerprinter = Fingerprinter::new();
    let mut each = |observation: Observation<'_>| {
        let summed = match observation {
            Observation::Summed(summed) => summed,
            // The agent's own are told, and apart.
            Observation::Own(count) => {
                sums.entry(OWN.into()).or_default().count += count;
                return;
            }
            other => panic!("{other:?}"),
        };
        let text = match summed.statement.text {
            Text::Whole { sql, .. } => fingerprinter.fingerprint(sql),
            // As the server writes it, which is another form of the same.
            Text::Normalised(text) => fingerprinter.fingerprint(text),
            Text::Unknown => b"unknown",
        };
        let text: String = String::from_utf8_lossy(text)
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '`')
            .collect();
        let one = sums.entry(text).or_default();
        one.count += summed.count;
        one.errors += summed.errors;
        one.latency_ns += summed.latency_ns;
        one.warnings += summed.warnings.unwrap();
        for (sum, more) in one.rows.iter_mut().zip(summed.rows) {
            *sum += more.unwrap();
        }
        let bars: u64 = summed.bars.iter().map(|(_, count)| count).sum();
        assert!(
            bars == 0 || bars == summed.count,
            "{bars} of {}",
            summed.count
        );
        one.bars += bars;
    };
    source.poll(&mut each).unwrap();
}

/// A source that has its baseline.
fn ready(dsn: &waggle_wire::Dsn) -> PerfschemaSource {
    let mut source = PerfschemaSource::open(dsn).unwrap();
    let mut nothing = ByText::new();
    wait_for("the first reading", || {
        poll(&mut source, &mut nothing);
        (source.readings() > 0).then_some(())
    });
    assert!(
        nothing.is_empty(),
        "the first reading counts nothing: {nothing:?}"
    );
    source
}

/// Waits until the server has filed so many statements: it does after it has answered them.
fn await_filed(client: &mut Connection, like: &str, count: u64) {
    let sql = format!(
        "SELECT 1 FROM performance_schema.events_statements_summary_by_digest \
         WHERE DIGEST_TEXT LIKE '{like}' AND COUNT_STAR >= {count}"
    );
    wait_for("what was sent to be filed", || {
        let rows = client.query_rows(sql.as_bytes()).unwrap();
        (!rows.is_empty()).then_some(())
    });
}

fn until(source: &mut PerfschemaSource, sums: &mut ByText, text: &str, count: u64) -> Sums {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    wait_for(&format!("{count} of {text}"), || {
        poll(source, sums);
        sums.get(&text).filter(|sums| sums.count >= count).cloned()
    })
}

#[test]
fn counts_are_those_that_were_sent() {
    for flavour in flavours() {
        let server = server(flavour, &[("performance_schema", "ON")]);
        let mut client = connect(&server);
        client
            .query(b"CREATE TABLE t (a INT PRIMARY KEY, b INT)")
            .unwrap();
        client
            .query(b"INSERT INTO t VALUES (1, 1), (2, 2)")
            .unwrap();
        client.query(b"SELECT a FROM t WHERE b = 1").unwrap();
        await_filed(&mut client, "SELECT%WHERE%b%=%", 1);
        let mut source = ready(&server.dsn());
        let mut sums = ByText::new();
        for _ in 0..30 {
            client.query(b"SELECT a FROM t WHERE b = 1").unwrap();
            client.query(b"INSERT INTO t VALUES (1, 1)").unwrap_err();
            client.query(b"UPDATE t SET b = b + 5 WHERE a > 0").unwrap();
        }
        let select = until(&mut source, &mut sums, "select a from t where b=?", 30);
        assert_eq!((select.count, select.errors), (30, 0), "{flavour}");
        assert!(select.rows[1] >= 60 && select.latency_ns > 0);
        let update = until(&mut source, &mut sums, "update t set b=b+? where a>?", 30);
        assert_eq!((update.count, update.rows[2]), (30, 60), "{flavour}");
        let insert = "insertintotvalues";
        let failed = wait_for("the failed ones", || {
            poll(&mut source, &mut sums);
            let found = sums.iter().find(|(text, _)| text.starts_with(insert));
            found
                .map(|(_, sums)| sums.clone())
                .filter(|sums| sums.count >= 30)
        });
        assert_eq!((failed.count, failed.errors), (30, 30), "{flavour}");
        // A digest that is followed has bars from its second reading on.
        if flavour == Flavour::MySql {
            wait_for("bars", || {
                client.query(b"SELECT a FROM t WHERE b = 1").unwrap();
                poll(&mut source, &mut sums);
                Some(()).filter(|()| sums.values().any(|sums| sums.bars > 0))
            });
        }
        let own: Vec<_> = sums
            .keys()
            .filter(|text| text.contains("waggle_own"))
            .collect();
        assert!(
            own.is_empty(),
            "the agent's own statements are counted apart: {own:?}"
        );
        assert!(sums[OWN].count > 0, "{flavour}");
        assert_eq!(source.trouble(), None);
    }
}

#[test]
fn a_truncated_table_and_a_restart_count_nothing_twice() {
    for flavour in flavours() {
        let mut server = server(flavour, &[("performance_schema", "ON")]);
        let mut client = connect(&server);
        for _ in 0..50 {
            client.query(b"DO 1").unwrap();
        }
        await_filed(&mut client, "DO%", 50);
        let mut source = ready(&server.dsn());
        let mut sums = ByText::new();
        client.query(b"DO 1").unwrap();
        until(&mut source, &mut sums, "do ?", 1);
        let truncate = b"TRUNCATE TABLE performance_schema.events_statements_summary_by_digest";
        client.query(truncate).unwrap();
        for _ in 0..3 {
            client.query(b"DO 1").unwrap();
        }
        let after = until(&mut source, &mut sums, "do ?", 4);
        assert_eq!(after.count, 4, "{flavour}");
        drop(client);
        server.restart(&[]).unwrap();
        let mut client = connect(&server);
        client.query(b"DO 1").unwrap();
        let after = until(&mut source, &mut sums, "do ?", 5);
        assert_eq!(after.count, 5, "{flavour}");
    }
}

#[test]
fn digests_beyond_the_servers_table_are_one() {
    for flavour in flavours() {
        let settings = [
            ("performance_schema", "ON"),
            ("performance_schema_digests_size", "10"),
        ];
        let server = server(flavour, &settings);
        let mut client = connect(&server);
        for at in 0..20 {
            client
                .query(format!("SELECT 1 AS c{at}").as_bytes())
                .unwrap();
        }
        let mut source = ready(&server.dsn());
        let mut sums = ByText::new();
        for at in 20..40 {
            client
                .query(format!("SELECT 1 AS c{at}").as_bytes())
                .unwrap();
        }
        // The agent's own statements are among those that nobody can tell apart there.
        until(&mut source, &mut sums, "unknown", 20);
    }
}

#[test]
fn what_runs_now() {
    for flavour in flavours() {
        let server = server(flavour, &[("performance_schema", "ON")]);
        let mut source = ready(&server.dsn());
        let mut client = connect(&server);
        let id = client.connection_id();
        let thread = std::thread::spawn(move || client.query(b"SELECT SLEEP(600)").map(|_| ()));
        let mut sums = ByText::new();
        let running = wait_for("the statement that sleeps", || {
            poll(&mut source, &mut sums);
            source
                .running()
                .iter()
                .find(|one| one.fingerprint.contains("sleep"))
                .cloned()
        });
        assert_eq!(
            (running.connection_id, &*running.user),
            (u64::from(id), "root")
        );
        assert_eq!(
            (&*running.database, &*running.fingerprint),
            ("sbtest", "select sleep(?)")
        );
        connect(&server)
            .query(format!("KILL QUERY {id}").as_bytes())
            .unwrap();
        let _ = thread.join().unwrap();
    }
}

#[test]
fn a_server_without_it_is_told_what_to_try() {
    for flavour in flavours() {
        let off = server(flavour, &[]);
        let error = PerfschemaSource::open(&off.dsn()).err().unwrap();
        assert!(matches!(error, PerfschemaError::Off), "{flavour}: {error}");
        assert!(error.to_string().contains("--source uprobe"));
        off.stop().unwrap();
        let on = server(flavour, &[("performance_schema", "ON")]);
        let mut client = connect(&on);
        client
            .query(b"CREATE USER weak@'%' IDENTIFIED BY 'planted-secret'")
            .unwrap();
        let mut dsn = on.dsn();
        dsn.user = "weak".into();
        dsn.database = None;
        dsn.password = Some(waggle_wire::Secret::new("planted-secret"));
        let error = PerfschemaSource::open(&dsn).err().unwrap();
        assert!(
            matches!(error, PerfschemaError::Denied(_)),
            "{flavour}: {error}"
        );
        let update = b"UPDATE performance_schema.setup_consumers SET ENABLED='NO' \
                       WHERE NAME='statements_digest'";
        client.query(update).unwrap();
        let error = PerfschemaSource::open(&on.dsn()).err().unwrap();
        assert!(
            matches!(error, PerfschemaError::NoDigests(_)),
            "{flavour}: {error}"
        );
    }
}
