//! Commands that waggle's own client does not send, on real servers: cursors, bulk execution,
//! attributes, left-out definitions, pipelining.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use crate::stage::{Ear, flavours, server};

/// Protocol 4.1, with database, several statements and results, authentication plugins.
const BASE: u64 = 0x8 | 0x200 | 0x2000 | 0x8000 | 0x7_0000 | 0x8_0000;
const MYSQL: u64 = 1;
const DEPRECATE_EOF: u64 = 1 << 24;
const OPTIONAL_METADATA: u64 = 1 << 25;
const ATTRIBUTES: u64 = 1 << 27;
const BULK: u64 = 1 << 34;

struct Raw {
    stream: TcpStream,
    capabilities: u64,
    sequence: u8,
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend(payload);
    out
}

impl Raw {
    /// A session of an account of its own, which has no password.
    fn connect(server: &Sandbox, capabilities: u64) -> Raw {
        let capabilities = capabilities | BASE;
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        for sql in [
            "CREATE USER IF NOT EXISTS raw@'%'",
            "GRANT ALL ON *.* TO raw@'%'",
        ] {
            admin
                .query(sql.as_bytes())
                .expect("an account without a password");
        }
        let port = server.port().expect("it has TCP");
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).expect("a limit");
        stream.set_nodelay(true).expect("no delay");
        let mut raw = Raw {
            stream,
            capabilities,
            sequence: 0,
        };
        raw.read();
        let mut login = (capabilities as u32).to_le_bytes().to_vec();
        login.extend([0, 0, 0, 4, 45]);
        login.extend([0; 19]);
        login.extend(((capabilities >> 32) as u32).to_le_bytes());
        login.extend(b"raw\0\0sbtest\0mysql_native_password\0");
        raw.send(&login);
        raw.authenticated();
        raw
    }

    fn authenticated(&mut self) {
        loop {
            let packet = self.read();
            match packet.first() {
                Some(0) => return,
                Some(0xfe) => self.send(&[]),
                Some(1) => {}
                _ => panic!("refused: {}", String::from_utf8_lossy(&packet)),
            }
        }
    }

    fn send(&mut self, payload: &[u8]) {
        let bytes = packet(self.sequence, payload);
        self.stream.write_all(&bytes).expect("it is sent");
        self.sequence = self.sequence.wrapping_add(1);
    }

    fn read(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).expect("an answer");
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).expect("an answer");
        self.sequence = header[3].wrapping_add(1);
        payload
    }

    /// Sends a command.
    fn command(&mut self, code: u8, body: &[u8]) {
        self.sequence = 0;
        self.send(&[&[code], body].concat());
    }

    /// Reads up to the packet that is the last of so many that end rows, or to an error.
    fn ends(&mut self, mut count: usize) {
        while count > 0 {
            match self.read().first() {
                Some(0xfe) => count -= 1,
                Some(0xff) => return,
                _ => {}
            }
        }
    }

    /// How many packets end definitions and rows of one result.
    fn ends_of_a_set(&self) -> usize {
        if self.capabilities & DEPRECATE_EOF != 0 {
            1
        } else {
            2
        }
    }

    /// The body of a query with an attribute, if those were agreed on.
    fn query(&self, sql: &str) -> Vec<u8> {
        match self.capabilities & ATTRIBUTES {
            0 => sql.as_bytes().to_vec(),
            _ => [b"\x01\x01\0\x01\xfd\0\x01k\x05value", sql.as_bytes()].concat(),
        }
    }

    /// Prepares a statement with one parameter, and gives its id.
    fn prepare(&mut self, sql: &str) -> [u8; 4] {
        self.command(22, sql.as_bytes());
        let answer = self.read();
        assert_eq!(answer[0], 0, "{}", String::from_utf8_lossy(&answer));
        let columns = u16::from_le_bytes([answer[5], answer[6]]);
        let groups = 1 + usize::from(columns > 0);
        if self.capabilities & DEPRECATE_EOF == 0 {
            self.ends(groups);
        } else {
            (0..columns + 1).for_each(|_| drop(self.read()));
        }
        [answer[1], answer[2], answer[3], answer[4]]
    }
}

type Expected = (&'static str, u64, Option<u64>);

/// Says something of everything, and what is expected of it.
fn say_all(raw: &mut Raw, flavour: Flavour) -> Vec<Expected> {
    let set = raw.ends_of_a_set();
    raw.command(3, &raw.query("SELECT 1"));
    raw.ends(set);
    let id = raw.prepare("SELECT ? UNION SELECT 2");
    // With a cursor, and its rows by two fetches.
    let bound: &[u8] = match raw.capabilities & ATTRIBUTES {
        0 => b"\x01\x01\0\0\0\0\x01\x08\0\x07\0\0\0\0\0\0\0",
        // The count of parameters comes with it, and their names.
        _ => b"\x09\x01\0\0\0\x01\0\x01\x08\0\0\x07\0\0\0\0\0\0\0",
    };
    raw.command(23, &[&id[..], bound].concat());
    raw.ends(1);
    raw.command(28, &[id, [1, 0, 0, 0]].concat());
    raw.ends(1);
    raw.command(28, &[id, [9, 0, 0, 0]].concat());
    raw.ends(1);
    raw.command(26, &id);
    raw.read();
    raw.command(25, &id);
    raw.command(3, &raw.query("SELECT 1; DO 2; SELECT 3 UNION SELECT 4"));
    raw.ends(2 * set);
    raw.command(
        17,
        b"raw\0\0information_schema\0\x2d\0mysql_native_password\0",
    );
    raw.authenticated();
    // Before the answers are there.
    let queries = ["DO 1", "DO 22", "DO 333"].map(|sql| [b"\x03", &raw.query(sql)[..]].concat());
    let sent = queries.map(|query| packet(0, &query)).concat();
    raw.stream.write_all(&sent).expect("it is sent");
    (0..3).for_each(|_| drop(raw.read()));
    raw.command(31, b"");
    raw.read();
    let mut expected: Vec<Expected> = vec![
        ("SELECT 1", 1, Some(0)),
        ("SELECT ? UNION SELECT 2", 0, Some(0)),
        ("SELECT ? UNION SELECT 2", 1, Some(0)),
        ("SELECT ? UNION SELECT 2", 1, Some(0)),
        ("SELECT 1", 1, Some(0)),
        ("DO 2", 0, Some(0)),
        ("SELECT 3 UNION SELECT 4", 2, Some(0)),
        ("", 0, Some(0)),
        ("DO 1", 0, Some(0)),
        ("DO 22", 0, Some(0)),
        ("DO 333", 0, Some(0)),
        ("", 0, Some(0)),
    ];
    if raw.capabilities & OPTIONAL_METADATA != 0 && flavour == Flavour::MySql {
        raw.command(3, &raw.query("SET resultset_metadata = NONE"));
        raw.read();
        raw.command(3, &raw.query("SELECT 5, 6"));
        raw.ends(1);
        expected.push(("SET resultset_metadata = NONE", 0, Some(0)));
        expected.push(("SELECT 5, 6", 1, Some(0)));
    }
    if raw.capabilities & BULK != 0 {
        let id = raw.prepare("INSERT INTO sbtest.t VALUES (?)");
        let rows = b"\x80\0\x08\0\0\x01\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0";
        raw.command(250, &[&id[..], rows].concat());
        raw.read();
        expected.push(("INSERT INTO sbtest.t VALUES (?)", 0, Some(2)));
    }
    raw.command(3, &raw.query("DO 'the end'"));
    raw.read();
    expected.push(("DO 'the end'", 0, Some(0)));
    expected
}

#[test]
fn commands_that_few_clients_send_are_understood() {
    for flavour in flavours() {
        let server = server(flavour);
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a connection");
        admin
            .query(b"CREATE TABLE sbtest.t (a BIGINT)")
            .expect("it runs");
        let all = match flavour {
            Flavour::MySql => [
                MYSQL,
                MYSQL | DEPRECATE_EOF | OPTIONAL_METADATA,
                MYSQL | ATTRIBUTES,
            ],
            Flavour::MariaDb => [MYSQL, MYSQL | DEPRECATE_EOF, DEPRECATE_EOF | BULK],
        };
        for capabilities in all {
            let mut ear = Ear::at(&server);
            let mut raw = Raw::connect(&server, capabilities);
            let expected = say_all(&mut raw, flavour);
            ear.until_text("DO 'the end'");
            let seen: Vec<_> = ear
                .statements
                .iter()
                .map(|seen| (seen.text.as_str(), seen.rows.unwrap_or(99), seen.affected))
                .collect();
            assert_eq!(seen, expected, "{flavour} {capabilities:#x}");
            assert_eq!(
                ear.lost.len(),
                0,
                "{flavour} {capabilities:#x}: {:?}",
                ear.lost
            );
            let last = ear.statements.last().expect("the end");
            let place = (last.user.as_str(), last.database.as_str());
            assert_eq!(place, ("raw", "information_schema"));
        }
    }
}
