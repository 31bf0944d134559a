//! MariaDB's bulk execution, on a real server; MySQL has none.

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{BulkRows, Compression, Connection, Dsn, Error, Value, bulk};

use crate::needs::flavours;

const TABLE: &[u8] =
    b"DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY, word VARCHAR(20))";
const LIKE: [Value<'_>; 2] = [Value::Int(0), Value::Bytes(b"")];

fn put(rows: &mut BulkRows, id: i64, word: Option<&str>) {
    bulk::put(rows.buffer(), Value::Int(id));
    let word = word.map_or(Value::Null, |word| Value::Bytes(word.as_bytes()));
    bulk::put(rows.buffer(), word);
}

fn value(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    String::from_utf8(rows[0][0].clone().unwrap_or_default()).unwrap()
}

#[test]
fn rows_are_stored_as_they_were_sent_or_the_error_is_told() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let plain = server.dsn_socket();
        let zlib = Dsn {
            compression: Compression::Zlib,
            ..plain.clone()
        };
        for dsn in [plain, zlib] {
            let mut connection = Connection::connect(&dsn).unwrap();
            connection.query(TABLE).unwrap();
            let insert = b"INSERT INTO t (id, word) VALUES (?, ?)";
            let statement = connection.prepare(insert).unwrap();
            let mut rows = BulkRows::new(&statement, &LIKE);
            put(&mut rows, -1, None);
            if flavour == Flavour::MySql {
                let error = connection.execute_bulk(&rows).unwrap_err();
                assert!(matches!(error, Error::Unsupported(_)), "{error}");
                assert!(connection.is_usable());
                continue;
            }
            for id in 1..=20_000 {
                put(&mut rows, id, Some("wørd"));
            }
            let stored = connection.execute_bulk(&rows).unwrap();
            assert_eq!((stored.affected, stored.warnings), (20_001, 0));
            let sums = "SELECT CONCAT(COUNT(*), ' ', SUM(id), ' ', SUM(word = 'wørd'), ' ',
                        SUM(word IS NULL)) FROM t";
            let expected = "20001 200009999 20000 1";
            assert_eq!(value(&mut connection, sums), expected);

            // A duplicate in the middle: what came before goes with the transaction.
            connection.query(b"BEGIN").unwrap();
            rows.clear();
            for id in [20_001, 20_002, 7, 20_003] {
                put(&mut rows, id, Some("again"));
            }
            let error = connection.execute_bulk(&rows).unwrap_err();
            assert_eq!(error.errno(), Some(1062), "{error}");
            connection.query(b"ROLLBACK").unwrap();
            assert_eq!(value(&mut connection, sums), expected);

            // Half a row is an error of the server, and the session goes on.
            rows.clear();
            bulk::put(rows.buffer(), Value::Int(30_000));
            let error = connection.execute_bulk(&rows).unwrap_err();
            assert!(error.errno().is_some(), "{error}");
            assert_eq!(value(&mut connection, sums), expected);
            connection.close_statement(statement).unwrap();
            connection.quit().unwrap();
        }
    }
}
