//! MySQL and MariaDB through `waggle-wire`.

use std::time::Duration;

use waggle_wire::{Connection, Dsn, Error, Statement, Summary};

use super::{Driver, DriverError, Interrupter, Outcome, Prepared, Row, Session, Value};

/// Opens sessions with one server.
#[derive(Debug, Clone)]
pub struct MySql {
    dsn: Dsn,
    statement_timeout: Option<Duration>,
}

impl MySql {
    /// `statement_timeout` is the longest wait for an answer; `None` waits for ever.
    pub fn new(dsn: Dsn, statement_timeout: Option<Duration>) -> MySql {
        MySql {
            dsn,
            statement_timeout,
        }
    }
}

impl Driver for MySql {
    fn name(&self) -> &str {
        "mysql"
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        let mut connection = Connection::connect(&self.dsn)?;
        connection.set_timeout(self.statement_timeout);
        Ok(Box::new(MySqlSession {
            connection,
            statements: Vec::new(),
        }))
    }
}

#[derive(Debug)]
struct MySqlSession {
    connection: Connection,
    /// By handle; closed ones leave a hole.
    statements: Vec<Option<Kept>>,
}

/// What executing a handle means.
#[derive(Debug)]
enum Kept {
    Prepared(Statement),
    /// MySQL prepares neither BEGIN nor some other commands; they are sent as text.
    Text(Vec<u8>),
}

/// "This command is not supported in the prepared statement protocol yet".
const ER_UNSUPPORTED_PS: u16 = 1295;

impl Session for MySqlSession {
    fn query(&mut self, sql: &[u8]) -> Result<Outcome, DriverError> {
        Ok(self.connection.query(sql)?.into())
    }

    fn query_rows(&mut self, sql: &[u8]) -> Result<(Outcome, Vec<Row>), DriverError> {
        let rows = self.connection.query_rows(sql)?;
        let outcome = Outcome {
            result_sets: 1,
            rows: rows.len() as u64,
            ..Outcome::default()
        };
        Ok((outcome, rows))
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let (kept, params) = match self.connection.prepare(sql) {
            Ok(statement) => {
                let params = statement.params;
                (Kept::Prepared(statement), params)
            }
            Err(error) if error.errno() == Some(ER_UNSUPPORTED_PS) && !sql.contains(&b'?') => {
                (Kept::Text(sql.to_vec()), 0)
            }
            Err(error) => return Err(error.into()),
        };
        self.statements.push(Some(kept));
        Ok(Prepared {
            handle: self.statements.len() as u32 - 1,
            params,
        })
    }

    fn execute(&mut self, handle: u32, params: &[Value<'_>]) -> Result<Outcome, DriverError> {
        match self.statements.get(handle as usize) {
            Some(Some(Kept::Prepared(statement))) => {
                Ok(self.connection.execute(statement, params)?.into())
            }
            Some(Some(Kept::Text(sql))) => Ok(self.connection.query(sql)?.into()),
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
            Some(Kept::Text(_)) => Ok(()),
            None => Err(closed_statement()),
        }
    }

    fn interrupter(&self) -> Option<Interrupter> {
        None
    }

    fn close(self: Box<Self>) {
        // The server drops the session either way; a lost connection cannot say good-bye.
        let _ = self.connection.quit();
    }
}

fn closed_statement() -> DriverError {
    DriverError::Refused("the prepared statement was closed".to_owned())
}

impl From<Summary> for Outcome {
    fn from(summary: Summary) -> Outcome {
        Outcome {
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
            Error::Io(source) => {
                DriverError::Lost(format!("lost the connection to the server: {source}"))
            }
            other => DriverError::Lost(other.to_string()),
        }
    }
}
