//! MySQL and MariaDB through `waggle-wire`.
//!
//! `loading` sends many rows at once; `errors` has the numbers that client libraries give to what
//! no server answered.

mod errors;
mod loading;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waggle_wire::{Connection, Dsn, Io, Statement, Summary};

use super::inline::Inline;
use super::{
    Driver, DriverError, ER_LOCK_DEADLOCK, Fill, Interrupter, LoadColumn, Outcome, Prepared,
    Session, TextResults, Value,
};
use crate::fiber::{self, FiberSocket};

/// Opens sessions with one server, or with several in turn.
#[derive(Debug)]
pub struct MySql {
    dsns: Vec<Dsn>,
    next: AtomicUsize,
    statement_timeout: Option<Duration>,
    client_prepare: bool,
}

impl MySql {
    /// `statement_timeout` is the longest wait for an answer; `None` waits for ever. Connections
    /// are handed out over `dsns` in turn.
    ///
    /// # Panics
    /// When `dsns` is empty.
    pub fn new(dsns: Vec<Dsn>, statement_timeout: Option<Duration>) -> MySql {
        assert!(!dsns.is_empty(), "a driver needs a server");
        MySql {
            dsns,
            next: AtomicUsize::new(0),
            statement_timeout,
            client_prepare: false,
        }
    }

    /// Whether parameters are put into the text, with no statement prepared on the server.
    pub fn with_client_prepare(mut self, client_prepare: bool) -> MySql {
        self.client_prepare = client_prepare;
        self
    }
}

impl Driver for MySql {
    fn name(&self) -> &str {
        "mysql"
    }

    fn waits_in_fibers(&self) -> bool {
        true
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        self.connect_breakably(&mut |_| true)
    }

    fn connect_breakably(
        &self,
        begun: &mut dyn FnMut(Interrupter) -> bool,
    ) -> Result<Box<dyn Session>, DriverError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let dsn = &self.dsns[turn % self.dsns.len()];
        let permit = fiber::permit();
        let connected = Connection::connect_with(dsn, &mut |socket, interrupter| {
            if !begun(Box::new(move || interrupter.interrupt())) {
                return Err(io::Error::other("the run is over"));
            }
            let io = || Box::new(FiberSocket::new(socket.clone())) as Box<dyn Io>;
            Ok(fiber::is_fiber().then(io))
        });
        drop(permit);
        let mut connection = connected.map_err(|error| errors::of_connecting(dsn, error))?;
        connection.set_timeout(self.statement_timeout);
        Ok(Box::new(MySqlSession {
            connection,
            statements: Vec::new(),
            client_prepare: self.client_prepare,
            ignored: TextResults::default(),
            local_infile: None,
        }))
    }
}

#[derive(Debug)]
struct MySqlSession {
    connection: Connection,
    /// By handle; closed ones leave a hole.
    statements: Vec<Option<Kept>>,
    client_prepare: bool,
    ignored: TextResults,
    /// Whether the server takes rows by LOAD DATA LOCAL; asked before the first.
    local_infile: Option<bool>,
}

/// What executing a handle means.
#[derive(Debug)]
enum Kept {
    Prepared(Statement),
    /// Sent as text: MySQL prepares neither BEGIN nor some other commands.
    Inline(Inline),
}

/// "This command is not supported in the prepared statement protocol yet".
const ER_UNSUPPORTED_PS: u16 = 1295;

impl Session for MySqlSession {
    fn query(&mut self, sql: &[u8], results: &mut TextResults) -> Result<Outcome, DriverError> {
        let summary = self.connection.query_text(sql, results)?;
        let mut outcome = Outcome::from(summary);
        outcome.statements = match is_call(sql) {
            true => 1,
            false => summary.results,
        };
        Ok(outcome)
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let kept = match self.client_prepare {
            true => Kept::Inline(Inline::new(sql)),
            false => match self.connection.prepare(sql) {
                Ok(statement) => Kept::Prepared(statement),
                Err(error) if error.errno() == Some(ER_UNSUPPORTED_PS) => {
                    Kept::Inline(Inline::new(sql))
                }
                Err(error) => return Err(error.into()),
            },
        };
        let params = match &kept {
            Kept::Prepared(statement) => statement.params(),
            Kept::Inline(inline) => inline.params(),
        };
        self.statements.push(Some(kept));
        Ok(Prepared {
            handle: self.statements.len() as u32 - 1,
            params,
        })
    }

    fn execute(&mut self, handle: u32, params: &[Value<'_>]) -> Result<Outcome, DriverError> {
        match self.statements.get_mut(handle as usize) {
            Some(Some(Kept::Prepared(statement))) => {
                Ok(self.connection.execute(statement, params)?.into())
            }
            Some(Some(Kept::Inline(inline))) => {
                let wanted = inline.params();
                let Some(sql) = inline.with(params) else {
                    let given = params.len();
                    let text = format!("the statement takes {wanted} parameters, not {given}");
                    return Err(DriverError::Refused(text));
                };
                let sent = self.connection.query_text(sql, &mut self.ignored);
                Ok(sent?.into())
            }
            _ => Err(closed_statement()),
        }
    }

    fn close_statement(&mut self, handle: u32) -> Result<(), DriverError> {
        match self
            .statements
            .get_mut(handle as usize)
            .and_then(Option::take)
        {
            Some(Kept::Prepared(statement)) => Ok(self.connection.close_statement(statement)?),
            Some(Kept::Inline(_)) => Ok(()),
            None => Err(closed_statement()),
        }
    }

    fn load(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Option<Outcome>, DriverError> {
        self.load_rows(table, columns, fill)
    }

    fn is_usable(&self) -> bool {
        self.connection.is_usable()
    }

    fn rolls_back_on(&self, errno: u16) -> bool {
        errno == ER_LOCK_DEADLOCK || !self.connection.in_transaction()
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let interrupter = self.connection.interrupter();
        Some(Box::new(move || interrupter.interrupt()))
    }

    fn close(self: Box<Self>) {
        // The server drops the session either way; a lost connection cannot say good-bye.
        let _ = self.connection.quit();
    }
}

/// A procedure has as many results as it likes and is one statement.
fn is_call(sql: &[u8]) -> bool {
    let word = sql.trim_ascii_start().get(..5);
    word.is_some_and(|word| {
        word[..4].eq_ignore_ascii_case(b"CALL") && !word[4].is_ascii_alphanumeric()
    })
}

fn closed_statement() -> DriverError {
    DriverError::Refused("the prepared statement was closed".to_owned())
}

impl From<Summary> for Outcome {
    fn from(summary: Summary) -> Outcome {
        Outcome {
            statements: 0,
            result_sets: summary.result_sets,
            rows: summary.rows,
            affected: summary.affected,
            last_insert_id: summary.last_insert_id,
        }
    }
}
