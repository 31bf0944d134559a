//! A whole session against a server whose every byte is made up.
//!
//! The fuzzer and the mutation test run it. Invariant: whatever the input, [`session`] ends, and
//! panics only for a fault of this crate.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use crate::binlog::event::{Framing, Query, Rotate};
use crate::binlog::gtid::Gtid;
use crate::binlog::payload::Payload;
use crate::binlog::rows::RowsEvent;
use crate::binlog::table_map::TableMap;
use crate::binlog::{json, mariadb};
use crate::stream::Stream;
use crate::{Connection, Dsn, Error, TextResults, Value};

/// What fits a socket's buffer without anybody reading.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Turns a fuzzer's input into what a server sends. The input is records of a kind, a length of
/// two bytes and that many bytes: `p` a packet, numbered after the last one; `c` the first packet
/// of the answer to a command; `s` a packet numbered after one of the client's; others as they
/// are. Without this almost no input would come past the first packet's number.
fn server_bytes(input: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sequence = 0u8;
    let mut rest = input;
    while let [kind, low, high, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (payload, later) = tail.split_at(length);
        rest = later;
        match kind {
            b'c' => sequence = 1,
            b's' => sequence = sequence.wrapping_add(1),
            b'p' => {}
            _ => {
                bytes.extend_from_slice(payload);
                continue;
            }
        }
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
        bytes.push(sequence);
        bytes.extend_from_slice(payload);
        sequence = sequence.wrapping_add(1);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

/// Logs in and runs each kind of command against a server that sends `input`. Gives how many
/// commands succeeded.
pub fn session(input: &[u8]) -> u32 {
    let Ok((near, mut far)) = UnixStream::pair() else {
        return 0;
    };
    let sent = far.write_all(&server_bytes(input));
    if sent.and_then(|()| far.shutdown(Shutdown::Write)).is_err() {
        return 0;
    }
    let dsn: Dsn = match "mysql://me:secret@h/db".parse() {
        Ok(dsn) => dsn,
        Err(_) => return 0,
    };
    let mut succeeded = 0;
    if let Ok(mut connection) = Connection::over(Stream::of(near, true), &dsn) {
        commands(&mut connection, &mut succeeded);
    }
    succeeded
}

fn commands(connection: &mut Connection, succeeded: &mut u32) {
    let mut results = TextResults::default();
    let mut check = |connection: &Connection, error: Option<Error>| {
        let Some(error) = error else {
            *succeeded += 1;
            return;
        };
        let breaks = matches!(error, Error::Io(_) | Error::Protocol(_) | Error::Auth(_));
        assert!(!(breaks && connection.is_usable()), "{error}");
    };
    let outcome = connection.query(b"SELECT 1").err();
    check(connection, outcome);
    let outcome = connection.query_text(b"SELECT 1", &mut results).err();
    check(connection, outcome);
    for set in 0..results.sets() {
        for row in 0..results.rows(set) {
            assert_eq!(results.row(set, row).count(), results.columns(set));
        }
    }
    let outcome = connection.query_rows(b"SELECT 1").err();
    check(connection, outcome);
    match connection.prepare(b"SELECT ?") {
        Err(error) => check(connection, Some(error)),
        Ok(mut statement) => {
            check(connection, None);
            let numbers = vec![Value::Int(1); usize::from(statement.params())];
            for _ in 0..2 {
                let outcome = connection.execute(&mut statement, &numbers).err();
                check(connection, outcome);
            }
            let texts = vec![Value::Bytes(b"x"); numbers.len()];
            let outcome = connection.execute_rows(&mut statement, &texts).err();
            check(connection, outcome);
            let outcome = connection.close_statement(statement).err();
            check(connection, outcome);
        }
    }
    let outcome = connection.ping().err();
    check(connection, outcome);
}

/// Reads the input as a server's binary log: records of a length of two bytes and an event.
pub fn binlog(input: &[u8]) {
    let mut tables = Vec::new();
    for has_checksum in [false, true] {
        let mut framing = Framing::new(has_checksum);
        let mut rest = input;
        while let [low, high, tail @ ..] = rest {
            let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
            let (bytes, later) = tail.split_at(length);
            rest = later;
            if let Ok(event) = framing.read(bytes) {
                self::event(event.header.kind, event.body, &mut tables);
            }
        }
    }
}

fn event(kind: u8, body: &[u8], tables: &mut Vec<TableMap>) {
    std::hint::black_box((
        Rotate::parse(body).is_ok(),
        Query::parse(body).is_ok(),
        Gtid::parse(body).is_ok(),
        Gtid::parse_tagged(body).is_ok(),
        Gtid::committed_us(kind, body),
    ));
    let mut unpacked = Vec::new();
    // An announced length is not believed further than this.
    if body.len() < 4096 {
        std::hint::black_box(mariadb::unpack(kind, body, &mut unpacked).is_ok());
    }
    let mut text = Vec::new();
    std::hint::black_box(json::put(body, &mut text).is_ok());
    if let Ok(mut payload) = Payload::parse(body) {
        while let Ok(Some(inner)) = payload.next() {
            std::hint::black_box(inner.body.len());
        }
    }
    if let Ok(table) = TableMap::parse(body)
        && tables.len() < 8
    {
        tables.push(table);
    }
    let Ok(Some(event)) = RowsEvent::parse(kind, body) else {
        return;
    };
    for table in tables.iter() {
        let Ok(mut rows) = event.rows(table) else {
            continue;
        };
        while let Ok(Some(change)) = rows.next() {
            for image in [change.before, change.after].into_iter().flatten() {
                std::hint::black_box(image.values().take_while(Result::is_ok).count());
            }
        }
    }
}

#[cfg(test)]
mod tests;
