//! Real logs, damaged: whatever comes, it is answered, in memory that fits it.

use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;
use waggle_wire::binlog::event::{Framing, Query, Rotate, kind};
use waggle_wire::binlog::gtid::{Gtid, GtidSet, MariaDbGtid, MariaDbPosition};
use waggle_wire::binlog::payload::Payload;
use waggle_wire::binlog::rows::RowsEvent;
use waggle_wire::binlog::stream::{Dump, Start};
use waggle_wire::binlog::table_map::TableMap;
use waggle_wire::binlog::{json, mariadb};

use super::kinds::{create, types};
use super::{connect, each_server, request, run};

const ROUNDS: u64 = 40;

/// SplitMix64: repeatable without a crate.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit as u64) as usize
    }
}

/// Reads an event with everything that reads events; gives how many values came out.
fn read(kind: u8, body: &[u8], table: &mut Option<TableMap>, out: &mut Vec<u8>) -> usize {
    let _ = (Query::parse(body), Rotate::parse(body), Gtid::parse(body));
    let _ = (Gtid::parse_tagged(body), GtidSet::parse_previous(body));
    let _ = (
        MariaDbGtid::parse(1, body),
        MariaDbPosition::parse_list(body),
    );
    if kind == kind::TABLE_MAP {
        *table = TableMap::parse(body).ok();
    }
    if kind == kind::TRANSACTION_PAYLOAD {
        let mut count = 0;
        if let Ok(mut payload) = Payload::parse(body) {
            while let Ok(Some(event)) = payload.next() {
                count += read(event.header.kind, event.body, table, out);
            }
        }
        return count;
    }
    let mut plain = Vec::new();
    if let Ok(Some(kind)) = mariadb::unpack(kind, body, &mut plain) {
        return read(kind, &plain, table, out);
    }
    let (Ok(Some(event)), Some(table)) = (RowsEvent::parse(kind, body), table) else {
        return 0;
    };
    let mut count = 0;
    let Ok(mut rows) = event.rows(table) else {
        return 0;
    };
    while let Ok(Some(change)) = rows.next() {
        for image in [change.before, change.after].into_iter().flatten() {
            for value in image.values() {
                let Ok((_, value)) = value else {
                    continue;
                };
                out.clear();
                let _ = (value.text(out), value.field(out), value.literal(out));
                if let Some(changes) = value.changes() {
                    for change in changes.filter_map(Result::ok) {
                        let _ = json::put(change.value, out);
                    }
                }
                // Escapes double, numbers and JSON grow, BINARY is filled up.
                assert!(out.len() <= 64 * body.len() + (16 << 10), "{}", out.len());
                count += 1;
            }
        }
    }
    count
}

/// Kinds and bodies of a log with every type, plain and compressed.
fn corpus(flavour: Flavour, sandbox: &Sandbox, connection: &mut Connection) -> Vec<(u8, Vec<u8>)> {
    let types = types(flavour);
    create(connection, "kinds", &types);
    let (on, off) = match flavour {
        Flavour::MySql => (
            "SET binlog_transaction_compression = ON, binlog_row_value_options = PARTIAL_JSON",
            "SET binlog_transaction_compression = OFF",
        ),
        Flavour::MariaDb => (
            "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
            "SET GLOBAL log_bin_compress = OFF",
        ),
    };
    for (at, setting) in [off, on].into_iter().enumerate() {
        run(connection, setting);
        for (i, (_, values)) in types.iter().enumerate() {
            let id = at * 1000 + i;
            let value = values[0];
            run(
                connection,
                &format!("INSERT INTO kinds (id, c{i}) VALUES ({id}, {value})"),
            );
        }
        if let Some(i) = types.iter().position(|t| t.0 == "JSON") {
            let set = format!("UPDATE kinds SET c{i} = JSON_SET(c{i}, '$.b', 2.5)");
            run(connection, &set);
        }
        run(
            connection,
            &format!("DELETE FROM kinds WHERE id >= {}", at * 1000),
        );
    }
    let start = Start::File {
        name: "bin.000001",
        position: 4,
    };
    let mut dump = Dump::start(connect(sandbox), &request(start, true)).unwrap();
    let mut events = Vec::new();
    while let Some(event) = dump.next().unwrap() {
        events.push((event.header.kind, event.body.to_vec()));
    }
    events
}

fn damage(random: &mut Random, body: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        // Most of what matters stands at the beginning.
        let near = body.len().min(64);
        let limit = if random.below(2) == 0 {
            near
        } else {
            body.len()
        };
        let at = random.below(limit);
        body[at] = random.below(256) as u8;
    }
    if random.below(8) == 0 {
        body.truncate(random.below(body.len()));
    }
}

#[test]
fn damaged_logs_of_real_servers_are_answered() {
    each_server(|flavour, sandbox, connection| {
        let events = corpus(flavour, sandbox, connection);
        let (mut table, mut out) = (None, Vec::new());
        let mut count = 0;
        for (kind, body) in &events {
            count += read(*kind, body, &mut table, &mut out);
        }
        assert!(count > 4 * types(flavour).len(), "{count} values");
        let mut random = Random(1);
        for _ in 0..ROUNDS {
            for (kind, body) in events.iter().filter(|(_, body)| !body.is_empty()) {
                let mut body = body.clone();
                damage(&mut random, &mut body);
                read(*kind, &body, &mut table, &mut out);
                let _ = Framing::new(random.below(2) == 0).read(&body);
            }
        }
    });
}
