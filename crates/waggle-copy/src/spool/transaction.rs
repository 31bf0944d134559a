//! From events to transactions: what of the log concerns the copied tables.
//!
//! Neighbours: `follow` gives the events in order, `write` takes the records. Invariants: a
//! transaction is written whole or not at all; one that has nothing for the tables costs a mark;
//! an event that is not understood and may matter is an error, never passed over.

use std::collections::HashSet;

use waggle_wire::binlog::event::{Event, Header, Query, kind};
use waggle_wire::binlog::gtid::{Gtid, MariaDbGtid};
use waggle_wire::binlog::mariadb;
use waggle_wire::binlog::payload::Payload;
use waggle_wire::binlog::table_map::TableMap;

use super::record::{Mark, Record};
use super::statement::{self, Meaning};
use super::write::Writer;
use crate::error::{CopyError, Side};
use crate::table::{Table, TableName};

/// MySQL: a transaction without an identifier.
const ANONYMOUS: u8 = 34;
/// Values and files of statements that changed rows; the statement follows and is looked at.
const OF_STATEMENTS: [u8; 7] = [5, 9, 11, 13, 14, 17, 18];
/// Group replication's.
const OF_GROUPS: [u8; 2] = [36, 37];

/// Puts transactions together.
pub(super) struct Assembler {
    names: Vec<TableName>,
    current: Option<Current>,
    plain: Vec<u8>,
}

/// The transaction that is being read.
struct Current {
    mark: Mark,
    committed_us: u64,
    /// A statement began it, so that another one ends it.
    is_open: bool,
    /// Something of it was written.
    is_written: bool,
    /// Numbers of tables that are copied.
    tables: HashSet<u64>,
    /// Where the writer was at each savepoint.
    savepoints: Vec<(Vec<u8>, u64)>,
}

fn wire(error: waggle_wire::Error) -> CopyError {
    CopyError::on(Side::Source, "reading the binary log")(error)
}

fn unsupported(what: String) -> CopyError {
    wire(waggle_wire::Error::Unsupported(what))
}

impl Assembler {
    pub(super) fn new(tables: &[Table]) -> Assembler {
        let names: Vec<TableName> = tables.iter().map(|table| table.source.clone()).collect();
        Assembler {
            names,
            current: None,
            plain: Vec::new(),
        }
    }

    /// Forgets the transaction that was being read: it comes again.
    pub(super) fn restart(&mut self, writer: &mut Writer) -> Result<(), CopyError> {
        self.current = None;
        writer.abandon()
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event<'_>, writer: &mut Writer) -> Result<(), CopyError> {
        let body = event.body;
        match event.header.kind {
            kind::GTID => self.begin_mysql(Gtid::parse(body).map_err(wire)?, event, writer),
            kind::GTID_TAGGED => {
                self.begin_mysql(Gtid::parse_tagged(body).map_err(wire)?, event, writer)
            }
            kind::MARIADB_GTID => {
                let server = event.header.server_id;
                let (gtid, flags) = MariaDbGtid::parse(server, body).map_err(wire)?;
                self.begin(Mark::MariaDb(gtid), seconds(event), writer)?;
                self.current()?.is_open = !flags.is_standalone();
                if flags.prepares() {
                    // In place of XA START. The name comes at the end; until then, this is it.
                    self.put(&Record::XaStart(gtid.to_string().as_bytes()), writer)?;
                }
                Ok(())
            }
            ANONYMOUS => Err(unsupported(
                "the source logs transactions without GTIDs; set gtid_mode = ON there".to_owned(),
            )),
            kind::TRANSACTION_PAYLOAD => {
                let mut payload = Payload::parse(body).map_err(wire)?;
                while let Some(event) = payload.next().map_err(wire)? {
                    self.inner(&event, writer)?;
                }
                Ok(())
            }
            _ => self.inner(event, writer),
        }
    }

    /// An event within a transaction, or of none.
    fn inner(&mut self, event: &Event<'_>, writer: &mut Writer) -> Result<(), CopyError> {
        let body = event.body;
        match event.header.kind {
            kind::TABLE_MAP => self.table(body, writer),
            kind::WRITE_ROWS_V1
            | kind::UPDATE_ROWS_V1
            | kind::DELETE_ROWS_V1
            | kind::WRITE_ROWS
            | kind::UPDATE_ROWS
            | kind::DELETE_ROWS
            | kind::PARTIAL_UPDATE_ROWS
            | kind::WRITE_ROWS_COMPRESSED_V1
            | kind::UPDATE_ROWS_COMPRESSED_V1
            | kind::DELETE_ROWS_COMPRESSED_V1 => self.rows(event, writer),
            kind::QUERY => self.statement(body, writer),
            kind::QUERY_COMPRESSED => {
                let mut plain = std::mem::take(&mut self.plain);
                mariadb::unpack(kind::QUERY_COMPRESSED, body, &mut plain).map_err(wire)?;
                let outcome = self.statement(&plain, writer);
                self.plain = plain;
                outcome
            }
            kind::XID => self.commit(writer),
            kind::XA_PREPARE => self.prepare(body, writer),
            kind::PARTIAL_ROW_DATA => Err(unsupported(
                "rows in the binary log that are too many for one event (PARTIAL_ROW_DATA); set \
                 binlog_row_event_fragment_threshold of the source higher"
                    .to_owned(),
            )),
            kind::INCIDENT => Err(unsupported(
                "the source says that its binary log lacks changes (an incident); begin anew"
                    .to_owned(),
            )),
            kind::STOP
            | kind::ROTATE
            | kind::FORMAT_DESCRIPTION
            | kind::HEARTBEAT
            | kind::HEARTBEAT_V2
            | kind::ROWS_QUERY
            | kind::PREVIOUS_GTIDS
            | kind::ANNOTATE_ROWS
            | kind::BINLOG_CHECKPOINT
            | kind::MARIADB_GTID_LIST
            | kind::START_ENCRYPTION => Ok(()),
            other if OF_STATEMENTS.contains(&other) || OF_GROUPS.contains(&other) => Ok(()),
            _ if event.header.is_ignorable() => Ok(()),
            other => Err(unsupported(format!("an event of kind {other}"))),
        }
    }

    fn begin_mysql(
        &mut self,
        gtid: Gtid,
        event: &Event<'_>,
        writer: &mut Writer,
    ) -> Result<(), CopyError> {
        let precise = Gtid::committed_us(event.header.kind, event.body);
        let committed_us = precise.unwrap_or_else(|| seconds(event));
        self.begin(Mark::MySql(gtid), committed_us, writer)
    }

    fn begin(
        &mut self,
        mark: Mark,
        committed_us: u64,
        writer: &mut Writer,
    ) -> Result<(), CopyError> {
        if let Some(current) = &self.current {
            return Err(unsupported(format!(
                "a transaction ({:?}) that does not end before another one begins",
                current.mark
            )));
        }
        // A server sends what the position lacks; what it has already must not come twice.
        if mark.is_in(writer.position()) {
            return Err(unsupported(format!(
                "the source sent a transaction again ({mark:?})"
            )));
        }
        self.current = Some(Current {
            mark,
            committed_us,
            is_open: false,
            is_written: false,
            tables: HashSet::new(),
            savepoints: Vec::new(),
        });
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Current, CopyError> {
        self.current
            .as_mut()
            .ok_or_else(|| unsupported("a change outside of a transaction with a GTID".to_owned()))
    }

    fn put(&mut self, record: &Record<'_>, writer: &mut Writer) -> Result<(), CopyError> {
        let current = self.current()?;
        if !current.is_written {
            current.is_written = true;
            writer.put(&Record::Begin {
                mark: current.mark.clone(),
                committed_us: current.committed_us,
            })?;
        }
        writer.put(record)
    }

    fn table(&mut self, body: &[u8], writer: &mut Writer) -> Result<(), CopyError> {
        let (id, schema, name) = TableMap::name(body).map_err(wire)?;
        // Looked up in bytes, so that other tables cost no more than this.
        let is_copied = self
            .names
            .iter()
            .any(|table| table.name.as_bytes() == name && table.schema.as_bytes() == schema);
        let current = self.current()?;
        if !is_copied {
            current.tables.remove(&id);
            return Ok(());
        }
        current.tables.insert(id);
        self.put(&Record::Table(body), writer)
    }

    fn rows(&mut self, event: &Event<'_>, writer: &mut Writer) -> Result<(), CopyError> {
        let id = TableMap::id(event.body).map_err(wire)?;
        if !self.current()?.tables.contains(&id) {
            return Ok(());
        }
        self.put(&Record::Rows(event.header.kind, event.body), writer)
    }

    fn statement(&mut self, body: &[u8], writer: &mut Writer) -> Result<(), CopyError> {
        let query = Query::parse(body).map_err(wire)?;
        match statement::read(query.schema, query.sql, &self.names) {
            Meaning::Begin => self.current()?.is_open = true,
            Meaning::XaStart(xid) => {
                // Kept also when nothing of it concerns the tables: so that the end of one that
                // began before the copy did can be told from the end of one that does not matter.
                self.current()?.is_open = true;
                self.put(&Record::XaStart(&xid), writer)?;
            }
            Meaning::Commit => return self.commit(writer),
            Meaning::Rollback => {
                writer.abandon()?;
                self.current()?.is_written = false;
                return self.commit(writer);
            }
            Meaning::Savepoint(name) => {
                let offset = writer.offset();
                let current = self.current()?;
                // Before anything was written, there is nothing of it to keep.
                let offset = if current.is_written { offset } else { 0 };
                current.savepoints.retain(|(other, _)| *other != name);
                current.savepoints.push((name, offset));
            }
            Meaning::RollbackTo(name) => self.roll_back_to(&name, writer)?,
            Meaning::XaCommit(xid) => {
                self.put(&Record::XaCommit(&xid), writer)?;
                return self.commit(writer);
            }
            Meaning::XaRollback(xid) => {
                self.put(&Record::XaRollback(&xid), writer)?;
                return self.commit(writer);
            }
            Meaning::Concerns => self.put(&Record::Statement(query.sql), writer)?,
            Meaning::XaEnd | Meaning::Nothing => {}
        }
        match self.current()?.is_open {
            true => Ok(()),
            false => self.commit(writer),
        }
    }

    fn roll_back_to(&mut self, name: &[u8], writer: &mut Writer) -> Result<(), CopyError> {
        let current = self.current()?;
        let found = current
            .savepoints
            .iter()
            .position(|(other, _)| other == name);
        let Some(at) = found else {
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(unsupported(format!(
                "a rollback to {name}, which is no savepoint"
            )));
        };
        let offset = current.savepoints[at].1;
        current.savepoints.truncate(at + 1);
        if !current.is_written {
            return Ok(());
        }
        if offset == 0 {
            current.is_written = false;
            return writer.abandon();
        }
        writer.cut(offset)
    }

    fn commit(&mut self, writer: &mut Writer) -> Result<(), CopyError> {
        self.end(&Record::Commit, writer)
    }

    fn end(&mut self, record: &Record<'_>, writer: &mut Writer) -> Result<(), CopyError> {
        let Some(current) = self.current.take() else {
            return Err(unsupported("the end of no transaction".to_owned()));
        };
        let (mark, committed_us) = (current.mark, current.committed_us);
        if current.is_written {
            writer.put(record)?;
        } else {
            let mark = mark.clone();
            writer.put(&Record::Skipped { mark, committed_us })?;
        }
        writer.end(&mark)
    }

    fn prepare(&mut self, body: &[u8], writer: &mut Writer) -> Result<(), CopyError> {
        match prepared(body) {
            None => Err(unsupported(
                "a prepared transaction without a name".to_owned(),
            )),
            Some((true, _)) => self.commit(writer),
            Some((false, xid)) => self.end(&Record::Prepared(&xid), writer),
        }
    }
}

fn seconds(event: &Event<'_>) -> u64 {
    let Header { timestamp, .. } = event.header;
    u64::from(timestamp) * 1_000_000
}

/// Of the body of an XA_PREPARE: whether it commits at once, and the name as statements have it.
fn prepared(body: &[u8]) -> Option<(bool, Vec<u8>)> {
    let (one_phase, rest) = body.split_first()?;
    let (format, rest) = rest.split_first_chunk::<4>()?;
    let (global, rest) = rest.split_first_chunk::<4>()?;
    let (branch, rest) = rest.split_first_chunk::<4>()?;
    let global = usize::try_from(u32::from_le_bytes(*global)).ok()?;
    let branch = usize::try_from(u32::from_le_bytes(*branch)).ok()?;
    let (global, rest) = rest.split_at_checked(global)?;
    let branch = rest.get(..branch)?;
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let (global, branch) = (hex(global), hex(branch));
    let format = i32::from_le_bytes(*format);
    let name = format!("x'{global}',x'{branch}',{format}");
    Some((*one_phase != 0, name.into_bytes()))
}

#[cfg(test)]
mod tests;
