//! Prepared statements of a session: preparing, executing, in bulk, giving back.
//!
//! Neighbour: the parent sends the commands and keeps the session in step. Invariant: what the
//! server was told of the parameters' types, and has said of the columns, stays with the statement:
//! neither has to be sent again.

use super::{Connection, Summary};
use crate::bulk::COM_STMT_BULK_EXECUTE;
use crate::cursor::Cursor;
use crate::execution::Execution;
use crate::result::{Kept, Rows};
use crate::rows::{Column, Encoding, Row};
use crate::{BulkRows, Error, Value, reply, result};

const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_CLOSE: u8 = 0x19;

/// An execution up to this size leaves as it lies in the statement.
const PACKET_BYTES_READY: usize = 1 << 20;

/// A prepared statement of one connection, of use on that one only.
///
/// It holds what the server knows of it, so it cannot be copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Statement {
    id: u32,
    params: u16,
    columns: u16,
    /// The columns as the server last described them, where it may leave that out.
    described: Vec<Column>,
    execution: Execution,
}

impl Statement {
    /// The server's number for it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Number of parameter markers.
    pub fn params(&self) -> u16 {
        self.params
    }

    /// Number of columns of its result set; 0 if it has none.
    pub fn columns(&self) -> u16 {
        self.columns
    }
}

impl Connection {
    /// Prepares a statement.
    ///
    /// # Errors
    /// Any [`Error`]; 1461 when the server has `max_prepared_stmt_count` of them.
    pub fn prepare(&mut self, sql: &[u8]) -> Result<Statement, Error> {
        self.command(COM_STMT_PREPARE, sql, |connection| {
            let terms = connection.terms;
            let channel = &mut connection.channel;
            let mut statement = parse_prepared(channel.packet()?)?;
            result::skip_definitions(channel, statement.params, terms)?;
            if terms.may_omit_columns {
                statement.described = result::definitions(channel, statement.columns, terms)?;
            } else {
                result::skip_definitions(channel, statement.columns, terms)?;
            }
            Ok(statement)
        })
    }

    /// Executes a prepared statement, reads every result to its end and skips the rows.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Parameters`] when `params` has another length than the statement.
    pub fn execute(
        &mut self,
        statement: &mut Statement,
        params: &[Value<'_>],
    ) -> Result<Summary, Error> {
        self.run_prepared(statement, params, Rows::Skip)
    }

    /// Executes a prepared statement and keeps the rows of the first result set, as text. For
    /// small results, as [`Connection::query_rows`].
    ///
    /// Values read as the text protocol gives them, but floating point numbers, which have as
    /// many digits as they need, and ZEROFILL, which is not applied.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn execute_rows(
        &mut self,
        statement: &mut Statement,
        params: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        let mut kept = Kept::new(Encoding::Binary);
        self.run_prepared(statement, params, Rows::First(&mut kept))?;
        Ok(kept.rows)
    }

    /// Whether the server takes [`Connection::execute_bulk`].
    pub fn takes_bulk(&self) -> bool {
        self.terms.may_omit_columns
    }

    /// Executes the statement of `rows` once for each row; none is an error of the caller's. The
    /// packet must not be longer than the server's `max_allowed_packet`.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Unsupported`] when the server does not take it. Rows before the one
    /// that failed are stored, unless a transaction is rolled back.
    pub fn execute_bulk(&mut self, rows: &BulkRows) -> Result<Summary, Error> {
        if !self.takes_bulk() {
            let what = format!("server {} without bulk execution", self.version);
            return Err(Error::Unsupported(what));
        }
        self.command(COM_STMT_BULK_EXECUTE, rows.body(), |connection| {
            result::read(
                &mut connection.channel,
                &mut connection.terms,
                None,
                Rows::Skip,
            )
        })
    }

    fn run_prepared(
        &mut self,
        statement: &mut Statement,
        params: &[Value<'_>],
        rows: Rows<'_>,
    ) -> Result<Summary, Error> {
        if params.len() != usize::from(statement.params) {
            return Err(Error::Parameters {
                expected: statement.params.into(),
                given: params.len(),
            });
        }
        self.check_usable()?;
        let columns = &mut statement.described;
        let packet = statement.execution.packet(params);
        let outcome = self.exchange(|connection| {
            let channel = &mut connection.channel;
            if packet.len() <= PACKET_BYTES_READY {
                channel.send_ready(packet)?;
            } else {
                let (command, body) = (packet[4], &packet[5..]);
                channel.send_command(command, body)?;
            }
            result::read(channel, &mut connection.terms, Some(columns), rows)
        });
        // The server may have failed before it took the types.
        statement.execution.set_bound(outcome.is_ok());
        outcome
    }

    /// Gives a prepared statement back to the server, which does not answer.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be sent.
    pub fn close_statement(&mut self, statement: Statement) -> Result<(), Error> {
        // Without an answer to wait for, it would else leave with the next command.
        self.command(COM_STMT_CLOSE, &statement.id.to_le_bytes(), |connection| {
            Ok(connection.channel.transport.flush()?)
        })
    }
}

/// Reads the answer to a prepare command.
fn parse_prepared(packet: &[u8]) -> Result<Statement, Error> {
    if packet.first() == Some(&reply::ERROR) {
        return Err(reply::server_error(packet)?);
    }
    let mut cursor = Cursor::new(packet, "prepared statement");
    if cursor.u8()? != 0 {
        return Err(cursor.error("it does not start as one"));
    }
    let id = cursor.u32()?;
    let columns = cursor.u16()?;
    let params = cursor.u16()?;
    Ok(Statement {
        id,
        params,
        columns,
        described: Vec::new(),
        execution: Execution::new(id, params),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_prepare_answer_is_answered(mut bytes in proptest::collection::vec(0u8.., 0..20)) {
            let _ = parse_prepared(&bytes);
            bytes.insert(0, 0);
            let _ = parse_prepared(&bytes);
        }
    }
}
