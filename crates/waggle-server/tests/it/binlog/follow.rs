//! What a log says, gathered for one table.

use waggle_server::sandbox::Sandbox;
use waggle_wire::Row;
use waggle_wire::binlog::event::{Event, Header, Query, kind};
use waggle_wire::binlog::gtid::{Gtid, GtidSet, MariaDbGtid};
use waggle_wire::binlog::json::{self, Operation};
use waggle_wire::binlog::mariadb;
use waggle_wire::binlog::payload::Payload;
use waggle_wire::binlog::rows::{Action, Image, RowsEvent};
use waggle_wire::binlog::stream::{Dump, Start};
use waggle_wire::binlog::table_map::TableMap;
use waggle_wire::binlog::value::ColumnValue;

use super::kinds::inform;
use super::{connect, request};

/// What the log says happened to the rows of one table, and the transactions seen.
#[derive(Default)]
pub(super) struct Followed {
    pub(super) table: Option<TableMap>,
    pub(super) changes: Vec<(Action, Option<Row>, Option<Row>)>,
    pub(super) fields: Vec<Vec<u8>>,
    pub(super) literals: Vec<Vec<u8>>,
    pub(super) gtids: Vec<String>,
    pub(super) statements: Vec<String>,
    pub(super) kinds: Vec<u8>,
    pub(super) previous: GtidSet,
}

/// Text of a value, or of the changes to it.
pub(super) fn text(value: &ColumnValue<'_>) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    let mut out = Vec::new();
    let Some(changes) = value.changes() else {
        value.text(&mut out).unwrap();
        return Some(out);
    };
    for change in changes.map(Result::unwrap) {
        let operation = format!("{:?} ", change.operation);
        out.extend_from_slice(operation.as_bytes());
        out.extend_from_slice(change.path);
        if change.operation != Operation::Remove {
            out.push(b' ');
            json::put(change.value, &mut out).unwrap();
        }
        out.push(b';');
    }
    Some(out)
}

fn row(image: &Image<'_>) -> Row {
    let values = image.values().map(Result::unwrap);
    values.map(|(_, value)| text(&value)).collect()
}

pub(super) fn follow(sandbox: &Sandbox, start: Start<'_>, table: &str) -> Followed {
    let mut dump = Dump::start(connect(sandbox), &request(start, true)).unwrap();
    let mut followed = Followed::default();
    while let Some(event) = dump.next().unwrap() {
        followed.take(&event, table);
    }
    followed
}

impl Followed {
    pub(super) fn take(&mut self, event: &Event<'_>, table: &str) {
        let body = event.body;
        self.kinds.push(event.header.kind);
        match event.header.kind {
            kind::TABLE_MAP => {
                let mut map = TableMap::parse(body).unwrap();
                inform(&mut map);
                self.table = (map.name == table.as_bytes()).then_some(map);
            }
            kind::GTID => self.gtids.push(Gtid::parse(body).unwrap().to_string()),
            kind::GTID_TAGGED => {
                let gtid = Gtid::parse_tagged(body).unwrap();
                self.gtids.push(gtid.to_string());
            }
            kind::MARIADB_GTID => {
                let (gtid, _) = MariaDbGtid::parse(event.header.server_id, body).unwrap();
                self.gtids.push(gtid.to_string());
            }
            kind::PREVIOUS_GTIDS => self.previous = GtidSet::parse_previous(body).unwrap(),
            kind::QUERY => {
                let sql = Query::parse(body).unwrap().sql;
                self.statements
                    .push(String::from_utf8_lossy(sql).into_owned());
            }
            kind::TRANSACTION_PAYLOAD => {
                let mut payload = Payload::parse(body).unwrap();
                while let Some(event) = payload.next().unwrap() {
                    self.take(&event, table);
                }
            }
            other => {
                let mut plain = Vec::new();
                match mariadb::unpack(other, body, &mut plain).unwrap() {
                    Some(kind) => {
                        let header = Header {
                            kind,
                            ..event.header
                        };
                        let body = &plain;
                        self.take(&Event { header, body }, table);
                    }
                    None => self.rows(other, body),
                }
            }
        }
    }

    fn rows(&mut self, kind: u8, body: &[u8]) {
        let Some(event) = RowsEvent::parse(kind, body).unwrap() else {
            return;
        };
        let Some(table) = &self.table else {
            return;
        };
        let mut rows = event.rows(table).unwrap();
        while let Some(change) = rows.next().unwrap() {
            let (before, after) = (change.before, change.after);
            if let Some(image) = &after {
                let (field, literal) = line(image);
                self.fields.push(field);
                self.literals.push(literal);
            }
            let (before, after) = (before.as_ref().map(row), after.as_ref().map(row));
            self.changes.push((event.action(), before, after));
        }
    }
}

/// A row as a line of `LOAD DATA` and as a list of literals.
fn line(image: &Image<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut field, mut literal) = (Vec::new(), Vec::new());
    for (at, value) in image.values().map(Result::unwrap) {
        if at > 0 {
            field.push(b'\t');
            literal.extend_from_slice(b", ");
        }
        if value.changes().is_none() {
            value.field(&mut field).unwrap();
            value.literal(&mut literal).unwrap();
        }
    }
    field.push(b'\n');
    (field, literal)
}
