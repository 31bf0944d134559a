//! MySQL and MariaDB through `waggle-wire`.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waggle_wire::{BulkRows, Connection, Dsn, Endpoint, Error, Io, Statement, Summary};

use super::inline::Inline;
use super::{
    Driver, DriverError, ER_LOCK_DEADLOCK, Fill, Interrupter, LoadColumn, Outcome, Prepared,
    RowForm, Session, TextResults, Value,
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
        let mut connection = connected.map_err(|error| match error {
            Error::Io(source) => DriverError::Lost {
                errno: match &dsn.endpoint {
                    // No address has no such file.
                    Endpoint::Tcp { .. } if source.kind() == ErrorKind::NotFound => CR_UNKNOWN_HOST,
                    _ => CR_CONNECTION_ERROR,
                },
                message: format!("no connection to the server: {source}"),
            },
            other => other.into(),
        })?;
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

/// What client libraries call a server that cannot be reached.
const CR_CONNECTION_ERROR: u16 = 2002;

/// What client libraries call a name that has no address.
const CR_UNKNOWN_HOST: u16 = 2005;

/// What client libraries call TLS that was asked for and cannot be had.
const CR_SSL_CONNECTION_ERROR: u16 = 2026;

/// What client libraries call a connection that broke during a statement.
const CR_SERVER_LOST: u16 = 2013;

/// LOAD DATA LOCAL is not allowed, in the words of MySQL 5.7 and MariaDB, of MySQL 8, and of
/// MariaDB where the client is to blame.
const LOCAL_INFILE_REFUSED: [u16; 3] = [1148, 3948, 4166];

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

    /// By bulk execution where there is one (MariaDB), else by LOAD DATA LOCAL where the server's
    /// `local_infile` allows it; nothing is set here.
    fn load(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Option<Outcome>, DriverError> {
        if self.connection.takes_bulk() {
            return self.load_in_bulk(table, columns, fill).map(Some);
        }
        if !self.takes_local_files()? {
            return Ok(None);
        }
        // Nothing is escaped, whatever the SQL mode: the rows hold no tab or newline.
        let names = names(columns);
        let sql = format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET utf8mb4 \
             FIELDS ESCAPED BY '' ({names})"
        );
        let mut lines = |out: &mut Vec<u8>| fill(RowForm::Lines, out);
        match self.connection.load_local(sql.as_bytes(), &mut lines) {
            Ok(summary) => Ok(Some(summary.into())),
            // It says so before it asks for the first row.
            Err(error) if is_local_infile_refusal(&error) => {
                self.local_infile = Some(false);
                Ok(None)
            }
            Err(error @ Error::Load { .. }) => {
                let warning = self.first_warning();
                Err(DriverError::Refused(format!("{error}{warning}")))
            }
            Err(error) => Err(error.into()),
        }
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

impl MySqlSession {
    /// All rows in one transaction, or in the one that is open.
    fn load_in_bulk(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Outcome, DriverError> {
        let (names, marks) = (names(columns), vec!["?"; columns.len()].join(", "));
        let sql = format!("INSERT INTO {table} ({names}) VALUES ({marks})");
        let statement = self.connection.prepare(sql.as_bytes())?;
        let is_own = !self.connection.in_transaction();
        if is_own {
            self.connection.query(b"BEGIN")?;
        }
        let sent = self.send_in_bulk(&statement, columns, fill);
        if is_own && self.connection.is_usable() {
            let end: &[u8] = match sent {
                Ok(_) => b"COMMIT",
                Err(_) => b"ROLLBACK",
            };
            let ended = self.connection.query(end);
            if sent.is_ok() {
                ended?;
            }
        }
        if self.connection.is_usable() {
            self.connection.close_statement(statement)?;
        }
        sent
    }

    fn send_in_bulk(
        &mut self,
        statement: &Statement,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Outcome, DriverError> {
        let like: Vec<Value<'_>> = columns
            .iter()
            .map(|column| match column.is_text {
                true => Value::Bytes(b""),
                false => Value::Int(0),
            })
            .collect();
        let mut rows = BulkRows::new(statement, &like);
        let mut sum = Outcome::default();
        loop {
            rows.clear();
            let sent = fill(RowForm::Parameters, rows.buffer());
            if sent == 0 {
                return Ok(sum);
            }
            let summary = self.connection.execute_bulk(&rows)?;
            if (summary.affected, summary.warnings) != (sent, 0) {
                let warning = self.first_warning();
                let (stored, warnings) = (summary.affected, summary.warnings);
                return Err(DriverError::Refused(format!(
                    "bulk execution: {sent} rows were sent, the server stored {stored} and gave \
                     {warnings} warnings{warning}"
                )));
            }
            sum.affected += summary.affected;
            sum.last_insert_id = summary.last_insert_id;
        }
    }

    fn takes_local_files(&mut self) -> Result<bool, DriverError> {
        if let Some(known) = self.local_infile {
            return Ok(known);
        }
        let known = match self.connection.query_rows(b"SELECT @@local_infile") {
            Ok(rows) => {
                let value = rows.first().and_then(|row| row.first()?.as_deref());
                value == Some(b"1")
            }
            // A server of the same protocol that has no such variable.
            Err(Error::Server { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        self.local_infile = Some(known);
        Ok(known)
    }

    /// What the last statement was warned of first, to go behind its error.
    fn first_warning(&mut self) -> String {
        let rows = self.connection.query_rows(b"SHOW WARNINGS LIMIT 1");
        let message = rows.ok().and_then(|rows| rows.first()?.get(2)?.clone());
        message.map_or_else(String::new, |message| {
            format!("; the first: {}", String::from_utf8_lossy(&message))
        })
    }
}

/// The names of the columns as a statement lists them.
fn names(columns: &[LoadColumn<'_>]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}

fn is_local_infile_refusal(error: &Error) -> bool {
    error
        .errno()
        .is_some_and(|errno| LOCAL_INFILE_REFUSED.contains(&errno))
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

impl From<Error> for DriverError {
    fn from(error: Error) -> DriverError {
        match error {
            Error::Server {
                errno,
                sqlstate,
                message,
            } => DriverError::Server {
                errno,
                sqlstate: String::from_utf8_lossy(&sqlstate).into_owned(),
                message,
            },
            Error::Parameters { .. } => DriverError::Refused(error.to_string()),
            Error::Io(source) => DriverError::Lost {
                errno: CR_SERVER_LOST,
                message: format!("lost the connection to the server: {source}"),
            },
            Error::Tls(_) => DriverError::Lost {
                errno: CR_SSL_CONNECTION_ERROR,
                message: error.to_string(),
            },
            other => DriverError::Lost {
                errno: CR_SERVER_LOST,
                message: other.to_string(),
            },
        }
    }
}
