//! The tables of the oltp_* workloads: what prepare leaves in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use waggle_load::driver::mysql::MySql;
use waggle_load::{LoadSpec, Script, run_command};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

/// More than one streamed statement, and no multiple of one.
const ROWS: u64 = 130_001;

fn value(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).expect(sql);
    let value = rows[0].last().expect("a column").clone();
    String::from_utf8(value.unwrap_or_default()).expect("text")
}

/// Loads two tables in two threads; what is in them, as far as one line can say it.
fn prepared(server: &Sandbox, seed: u64) -> Vec<String> {
    let options = [("tables", "2".to_owned()), ("table-size", ROWS.to_string())];
    let spec = LoadSpec {
        options: options.map(|(name, value)| (name.to_owned(), value)).into(),
        threads: 2,
        seed,
        log: Some(Arc::new(|_, _| ())),
        ..LoadSpec::new(
            server.dsn_socket(),
            Script::open("oltp_read_write").unwrap(),
        )
    };
    let driver = || Arc::new(MySql::new(vec![spec.dsn.clone()], None));
    run_command(&spec, "prepare", driver(), |_| {}).expect("prepare");
    let mut connection = Connection::connect(&server.dsn_socket()).expect("the server answers");
    let mut found = Vec::new();
    for table in ["sbtest1", "sbtest2"] {
        found.push(value(
            &mut connection,
            &format!(
                "SELECT CONCAT_WS(' ', COUNT(*), MIN(id), MAX(id), MIN(LENGTH(c)), \
                 MAX(LENGTH(c)), MIN(LENGTH(pad)), MIN(k) > 0, MAX(k) <= {ROWS}) FROM {table}"
            ),
        ));
        found.push(value(
            &mut connection,
            &format!("CHECKSUM TABLE {table} EXTENDED"),
        ));
        let index = format!("k_{}", &table[6..]);
        let shown = value_of_create(&mut connection, table);
        assert!(shown.contains(&format!("KEY `{index}` (`k`)")), "{shown}");
        assert!(
            shown.contains(&format!("AUTO_INCREMENT={}", ROWS + 1)),
            "{shown}"
        );
    }
    run_command(&spec, "cleanup", driver(), |_| {}).expect("cleanup");
    found
}

fn value_of_create(connection: &mut Connection, table: &str) -> String {
    value(connection, &format!("SHOW CREATE TABLE {table}"))
}

#[test]
fn tables_have_the_same_content_by_seed_however_they_are_loaded() {
    for flavour in [Flavour::MySql, Flavour::MariaDb] {
        let found = installed_servers()
            .iter()
            .any(|server| server.flavour == flavour);
        if !need(flavour.name(), found, "no such server is installed") {
            continue;
        }
        let server = Sandbox::start(&SandboxSpec::new(flavour)).expect("a throw-away server");
        let mut connection = Connection::connect(&server.dsn_socket()).expect("the server answers");
        let mut inserts = BTreeMap::new();
        let mut contents = Vec::new();
        for (way, seed) in [("ON", 7), ("OFF", 7), ("ON", 8)] {
            let set = format!("SET GLOBAL local_infile = {way}");
            connection.query(set.as_bytes()).expect("root may");
            let counter = "SHOW GLOBAL STATUS LIKE 'Com_insert'";
            let before: u64 = value(&mut connection, counter).parse().expect("a number");
            contents.push(prepared(&server, seed));
            let after: u64 = value(&mut connection, counter).parse().expect("a number");
            inserts.insert(way, after - before);
        }
        if flavour == Flavour::MariaDb {
            assert!(inserts["ON"] > 0, "in bulk");
            assert_eq!(
                inserts["ON"], inserts["OFF"],
                "in bulk, whatever the setting"
            );
        } else {
            assert_eq!(inserts["ON"], 0, "streamed");
            assert!(inserts["OFF"] > 0, "in INSERTs");
        }
        assert_eq!(contents[0][0], format!("{ROWS} 1 {ROWS} 119 119 59 1 1"));
        assert_eq!(contents[0], contents[1], "{flavour}: one seed, two ways");
        assert_ne!(contents[0], contents[2], "{flavour}: another seed");
        assert_ne!(contents[0][1], contents[0][3], "{flavour}: two tables");
    }
}
