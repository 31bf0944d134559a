//! PostgreSQL through the `postgres` crate: the same scripts on another database.
//!
//! It is here to prove that the seam holds, not to be fast: the crate builds every row, and this
//! driver copies the text ones once more. Scripts see the name `pgsql`. Parameters are written `?`
//! as for MySQL and become `$1`, `$2`, ... here.
//!
//! Errors keep PostgreSQL's state and words; scripts and ignore lists know numbers, so the states
//! that mean what a MySQL error means get its number (see `errno_of`), all others 1105.

use std::fmt;
use std::time::Duration;

use postgres::error::SqlState;
use postgres::types::{IsNull, ToSql, Type};
use postgres::{Client, Config, NoTls, SimpleQueryMessage, Statement};

use super::{Driver, DriverError, Outcome, Prepared, Session, TextResults, Value};

/// Where the server is. It has no `Debug`: it holds a password.
#[derive(Clone)]
pub struct PgTarget {
    /// Host name, address, or directory of the Unix socket.
    pub host: String,
    /// TCP port, and the number in the name of the Unix socket.
    pub port: u16,
    /// The role to log in as.
    pub user: String,
    /// Empty: none.
    pub password: String,
    /// The database.
    pub database: String,
}

/// Opens sessions with one PostgreSQL server.
pub struct Pgsql {
    config: Config,
    target: String,
}

impl Pgsql {
    /// `statement_timeout` is the longest a statement may take; the server keeps it.
    pub fn new(target: &PgTarget, statement_timeout: Option<Duration>) -> Pgsql {
        let mut config = Config::new();
        config
            .host(&target.host)
            .port(target.port)
            .user(&target.user)
            .dbname(&target.database)
            .application_name("waggle")
            .connect_timeout(Duration::from_secs(10));
        if !target.password.is_empty() {
            config.password(&target.password);
        }
        if let Some(limit) = statement_timeout {
            config.options(&format!("-c statement_timeout={}", limit.as_millis()));
        }
        Pgsql {
            config,
            target: format!("{} port {}", target.host, target.port),
        }
    }
}

impl fmt::Debug for Pgsql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pgsql({})", self.target)
    }
}

impl Driver for Pgsql {
    fn name(&self) -> &str {
        "pgsql"
    }

    fn connect(&self) -> Result<Box<dyn Session>, DriverError> {
        let client = self.config.connect(NoTls).map_err(|error| {
            let error = described(&error);
            match error {
                DriverError::Lost { message, .. } => DriverError::Lost {
                    errno: CR_CONN_HOST_ERROR,
                    message: format!("connecting to PostgreSQL at {}: {message}", self.target),
                },
                other => other,
            }
        })?;
        Ok(Box::new(PgsqlSession {
            client,
            statements: Vec::new(),
        }))
    }
}

const CR_CONN_HOST_ERROR: u16 = 2003;
const CR_SERVER_LOST: u16 = 2013;
const ER_UNKNOWN_ERROR: u16 = 1105;

struct PgsqlSession {
    client: Client,
    /// By handle; closed ones leave a hole.
    statements: Vec<Option<Statement>>,
}

impl PgsqlSession {
    fn statement(&self, handle: u32) -> Result<&Statement, DriverError> {
        let found = self
            .statements
            .get(handle as usize)
            .and_then(Option::as_ref);
        found.ok_or_else(closed)
    }
}

impl Session for PgsqlSession {
    fn query(&mut self, sql: &[u8], results: &mut TextResults) -> Result<Outcome, DriverError> {
        results.clear();
        let sql = std::str::from_utf8(sql)
            .map_err(|_| DriverError::Refused("the statement is not UTF-8".to_owned()))?;
        let messages = self.client.simple_query(sql).map_err(|e| described(&e))?;
        let mut outcome = Outcome::default();
        let mut in_set = false;
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    results.begin_set(columns.len());
                    outcome.result_sets += 1;
                    in_set = true;
                }
                SimpleQueryMessage::Row(row) => {
                    results.push_row((0..row.len()).map(|i| row.get(i).map(str::as_bytes)));
                    outcome.rows += 1;
                }
                // What ends a result set counts its rows again.
                SimpleQueryMessage::CommandComplete(_) if in_set => in_set = false,
                SimpleQueryMessage::CommandComplete(count) => outcome.affected += count,
                _ => {}
            }
        }
        Ok(outcome)
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError> {
        let sql = std::str::from_utf8(sql)
            .map_err(|_| DriverError::Refused("the statement is not UTF-8".to_owned()))?;
        let statement = self
            .client
            .prepare(&numbered(sql))
            .map_err(|e| described(&e))?;
        let params = statement.params().len() as u16;
        self.statements.push(Some(statement));
        Ok(Prepared {
            handle: self.statements.len() as u32 - 1,
            params,
        })
    }

    fn execute(&mut self, handle: u32, params: &[Value<'_>]) -> Result<Outcome, DriverError> {
        let statement = self.statement(handle)?.clone();
        let expected = statement.params().len();
        if expected != params.len() {
            return Err(DriverError::Refused(format!(
                "the statement has {expected} parameters and got {}",
                params.len()
            )));
        }
        let bound: Vec<Bound<'_>> = params.iter().map(|value| Bound(*value)).collect();
        let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        // The server's count: rows returned by a SELECT, rows changed by everything else.
        let count = self
            .client
            .execute(&statement, &bound)
            .map_err(|e| described(&e))?;
        Ok(match statement.columns().is_empty() {
            true => Outcome {
                affected: count,
                ..Outcome::default()
            },
            false => Outcome {
                result_sets: 1,
                rows: count,
                ..Outcome::default()
            },
        })
    }

    fn close_statement(&mut self, handle: u32) -> Result<(), DriverError> {
        let slot = self.statements.get_mut(handle as usize);
        // Dropping the last reference tells the server.
        slot.and_then(Option::take).map(drop).ok_or_else(closed)
    }

    fn is_usable(&self) -> bool {
        !self.client.is_closed()
    }

    fn rolls_back_on(&self, _errno: u16) -> bool {
        // After any error the transaction only waits for its ROLLBACK.
        false
    }

    fn close(self: Box<Self>) {
        // The server drops the session either way.
        let _ = self.client.close();
    }
}

fn closed() -> DriverError {
    DriverError::Refused("the prepared statement was closed".to_owned())
}

/// `?` outside of quotes, comments and names become `$1`, `$2`, ...
fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 8);
    let mut quote = None;
    let mut count = 0;
    for c in sql.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if c == '?' => {
                count += 1;
                out.push('$');
                out.push_str(&count.to_string());
                continue;
            }
            None => {}
        }
        out.push(c);
    }
    out
}

/// A script's value in the form of the parameter's type: scripts bind INT where the column may be
/// of any width, and CHAR where it may be of any text type.
#[derive(Debug)]
struct Bound<'a>(Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let refused = || format!("a parameter of type {kind} cannot be given as {:?}", self.0);
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => match *kind {
                Type::INT2 => i16::try_from(number)?.to_sql(kind, out),
                Type::INT4 => i32::try_from(number)?.to_sql(kind, out),
                Type::INT8 => number.to_sql(kind, out),
                Type::FLOAT4 => (number as f32).to_sql(kind, out),
                Type::FLOAT8 => (number as f64).to_sql(kind, out),
                Type::TEXT | Type::VARCHAR | Type::BPCHAR => number.to_string().to_sql(kind, out),
                _ => Err(refused().into()),
            },
            Value::UInt(number) => Bound(Value::Int(i64::try_from(number)?)).to_sql(kind, out),
            Value::Double(number) => match *kind {
                Type::FLOAT4 => (number as f32).to_sql(kind, out),
                Type::FLOAT8 => number.to_sql(kind, out),
                _ => Err(refused().into()),
            },
            Value::Bytes(bytes) => match *kind {
                Type::BYTEA => bytes.to_sql(kind, out),
                _ => std::str::from_utf8(bytes)?.to_sql(kind, out),
            },
        }
    }

    fn accepts(_kind: &Type) -> bool {
        true
    }

    postgres::types::to_sql_checked!();
}

/// The number of the MySQL error that means the same.
fn errno_of(state: &SqlState) -> u16 {
    if *state == SqlState::T_R_DEADLOCK_DETECTED || *state == SqlState::T_R_SERIALIZATION_FAILURE {
        1213
    } else if *state == SqlState::LOCK_NOT_AVAILABLE {
        1205
    } else if *state == SqlState::UNIQUE_VIOLATION {
        1062
    } else if *state == SqlState::UNDEFINED_TABLE {
        1146
    } else if *state == SqlState::DUPLICATE_TABLE {
        1050
    } else if *state == SqlState::SYNTAX_ERROR {
        1064
    } else if *state == SqlState::TOO_MANY_CONNECTIONS {
        1040
    } else {
        ER_UNKNOWN_ERROR
    }
}

fn described(error: &postgres::Error) -> DriverError {
    if let Some(server) = error.as_db_error() {
        return DriverError::Server {
            errno: errno_of(server.code()),
            sqlstate: server.code().code().to_owned(),
            message: server.message().to_owned(),
        };
    }
    if error.is_closed() {
        return DriverError::Lost {
            errno: CR_SERVER_LOST,
            message: "the server closed the connection".to_owned(),
        };
    }
    // What went wrong is in the causes; the error itself names the step only.
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        message = format!("{message}: {source}");
        cause = source.source();
    }
    match std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>()) {
        true => DriverError::Lost {
            errno: CR_SERVER_LOST,
            message,
        },
        false => DriverError::Refused(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered_outside_of_quotes() {
        let sql = r#"SELECT '?', "a?" FROM t WHERE a = ? AND b IN (?, ?) AND c = 'it''s ?'"#;
        let wanted = r#"SELECT '?', "a?" FROM t WHERE a = $1 AND b IN ($2, $3) AND c = 'it''s ?'"#;
        assert_eq!(numbered(sql), wanted);
        assert_eq!(numbered("COMMIT"), "COMMIT");
    }

    #[test]
    fn states_get_the_numbers_that_ignore_lists_know() {
        assert_eq!(errno_of(&SqlState::T_R_DEADLOCK_DETECTED), 1213);
        assert_eq!(errno_of(&SqlState::UNIQUE_VIOLATION), 1062);
        assert_eq!(errno_of(&SqlState::DIVISION_BY_ZERO), ER_UNKNOWN_ERROR);
    }

    #[test]
    fn nothing_listens_on_a_port_of_nobody() {
        let target = PgTarget {
            host: "127.0.0.1".to_owned(),
            port: 1,
            user: "me".to_owned(),
            password: "secret".to_owned(),
            database: "db".to_owned(),
        };
        let driver = Pgsql::new(&target, None);
        assert!(!format!("{driver:?}").contains("secret"));
        let Err(DriverError::Lost { errno, message }) = driver.connect() else {
            panic!("there is no server");
        };
        assert_eq!(errno, CR_CONN_HOST_ERROR);
        assert!(message.contains("127.0.0.1 port 1"), "{message}");
    }
}
