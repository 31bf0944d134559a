//! LOAD DATA LOCAL from memory, to real servers.

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Compression, Connection, Dsn, Error, Tls, TlsMode};

use crate::needs::flavours;

const LOAD: &[u8] = b"LOAD DATA LOCAL INFILE 'rows' INTO TABLE t CHARACTER SET utf8mb4 \
                      FIELDS ESCAPED BY '' (id, word)";

/// Sends `rows` rows from 1 on, about 50 KiB at a time.
fn load(connection: &mut Connection, rows: u64, word: &str) -> Result<u64, Error> {
    let mut next = 1;
    let mut fill = |buffer: &mut Vec<u8>| {
        let first = next;
        while next <= rows && next < first + 5000 {
            buffer.extend_from_slice(format!("{next}\t{word}\n").as_bytes());
            next += 1;
        }
        next - first
    };
    let summary = connection.load_local(LOAD, &mut fill)?;
    Ok(summary.affected)
}

fn value(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    String::from_utf8(rows[0][0].clone().unwrap_or_default()).unwrap()
}

/// A connection to a server with an empty table `t`.
fn with_table(dsn: &Dsn) -> Connection {
    let mut connection = Connection::connect(dsn).unwrap();
    connection
        .query(b"DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY, word VARCHAR(20))")
        .unwrap();
    connection
}

#[test]
fn rows_arrive_over_every_kind_of_connection() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let plain = server.dsn_socket();
        let zlib = Dsn {
            compression: Compression::Zlib,
            ..plain.clone()
        };
        let encrypted = Dsn {
            tls: Tls::of(TlsMode::Required),
            ..server.dsn()
        };
        let mut kinds = vec![plain, zlib];
        if flavour == Flavour::MySql {
            // It makes certificates for itself.
            kinds.push(encrypted);
        }
        for dsn in kinds {
            let mut connection = with_table(&dsn);
            // More than 256 packets: their numbers wrap.
            assert_eq!(load(&mut connection, 1_500_000, "wørd").unwrap(), 1_500_000);
            let sums = value(
                &mut connection,
                "SELECT CONCAT(COUNT(*), ' ', SUM(id), ' ', SUM(word = 'wørd')) FROM t",
            );
            assert_eq!(sums, "1500000 1125000750000 1500000", "{flavour} {dsn}");
            connection.quit().unwrap();
        }
    }
}

#[test]
fn what_the_server_would_pass_over_in_silence_is_an_error() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let mut connection = with_table(&server.dsn_socket());
        connection
            .query(b"INSERT INTO t VALUES (7, 'here')")
            .unwrap();
        let error = load(&mut connection, 20_000, "word").unwrap_err();
        assert!(
            matches!(
                error,
                Error::Load {
                    sent: 20_000,
                    stored: 19_999,
                    warnings: 1
                }
            ),
            "{flavour}: {error}"
        );
        connection.query(b"TRUNCATE t").unwrap();
        let long = "twenty-one characters";
        let error = load(&mut connection, 10, long).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Load {
                    sent: 10,
                    stored: 10,
                    warnings: 10
                }
            ),
            "{flavour}: {error}"
        );
        assert!(connection.is_usable());
        assert_eq!(value(&mut connection, "SELECT COUNT(*) FROM t"), "10");
    }
}

#[test]
fn a_server_that_fails_in_the_middle_is_heard_and_can_go_on() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let mut connection = with_table(&server.dsn_socket());
        connection
            .query(
                b"CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW \
                  IF NEW.id = 1000 THEN INSERT INTO missing VALUES (1); END IF",
            )
            .unwrap();
        let error = load(&mut connection, 500_000, "word").unwrap_err();
        assert_eq!(error.errno(), Some(1146), "{flavour}: {error}");
        assert_eq!(value(&mut connection, "SELECT COUNT(*) FROM t"), "0");
        // A table that is not there is refused before the first row.
        connection.query(b"DROP TABLE t").unwrap();
        let error = load(&mut connection, 1, "word").unwrap_err();
        assert_eq!(error.errno(), Some(1146), "{flavour}: {error}");
    }
}

#[test]
fn other_commands_give_a_server_nothing() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let mut connection = with_table(&server.dsn_socket());
        let error = connection
            .query(b"LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t")
            .unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{flavour}: {error}");
        assert_eq!(value(&mut connection, "SELECT COUNT(*) FROM t"), "0");
        connection.query(b"SET GLOBAL local_infile = OFF").unwrap();
        let mut connection = Connection::connect(&server.dsn_socket()).unwrap();
        let error = load(&mut connection, 1, "word").unwrap_err();
        assert!(
            matches!(error.errno(), Some(1148 | 3948 | 4166)),
            "{flavour}: {error}"
        );
    }
}
