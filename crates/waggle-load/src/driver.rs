//! The seam to a database: what a workload may ask of a server, in about ten operations.
//!
//! [`mysql`] is the product's own, [`pgsql`] proves that the seam holds; the tests bring a
//! scripted one. Scripts never see more of a
//! database than this, so a further driver is a further file here.

mod inline;
pub mod mysql;
pub mod pgsql;
#[cfg(test)]
pub(crate) mod scripted;

pub use waggle_wire::{TextResults, Value};

/// Deadlock: MySQL and MariaDB have already rolled the whole transaction back.
const ER_LOCK_DEADLOCK: u16 = 1213;

/// Opens sessions; shared by all threads of a load.
pub trait Driver: Send + Sync {
    /// The name a script sees, for example `mysql`.
    fn name(&self) -> &str;
    /// Whether a session's waits leave the thread to other fibers, when it was opened in one. If
    /// not, every worker gets a thread of its own.
    fn waits_in_fibers(&self) -> bool {
        false
    }
    /// Opens one session. A refusal carries the server's own words.
    fn connect(&self) -> Result<Box<dyn Session>, DriverError>;
    /// The same, for a caller who may want to break it off: `begun` gets a way to break every
    /// wait from there on, and says whether to go on. What is not usable before the session is
    /// open is handed over after that.
    fn connect_breakably(
        &self,
        begun: &mut dyn FnMut(Interrupter) -> bool,
    ) -> Result<Box<dyn Session>, DriverError> {
        let session = self.connect()?;
        if let Some(interrupter) = session.interrupter() {
            begun(interrupter);
        }
        Ok(session)
    }
}

/// One session with a server, used by one thread.
pub trait Session: Send {
    /// Runs a text of one or more statements and keeps the rows of every result set in `results`,
    /// in place of what was there.
    fn query(&mut self, sql: &[u8], results: &mut TextResults) -> Result<Outcome, DriverError>;
    /// Prepares a statement.
    fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, DriverError>;
    /// Executes a prepared statement and skips its rows.
    fn execute(&mut self, handle: u32, params: &[Value<'_>]) -> Result<Outcome, DriverError>;
    /// Forgets a prepared statement.
    fn close_statement(&mut self, handle: u32) -> Result<(), DriverError>;
    /// Sends rows to a table in the fastest way the server has for many of them. `fill` appends
    /// whole rows to the buffer it gets, in the form it is asked for, and says how many; appending
    /// nothing ends them. `None`, with `fill` not called, when there is no such way.
    ///
    /// # Errors
    /// Also when the server did not store every row as it was sent.
    fn load(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Option<Outcome>, DriverError> {
        _ = (table, columns, fill);
        Ok(None)
    }
    /// Ends an open transaction without its changes.
    fn rollback(&mut self) -> Result<Outcome, DriverError> {
        self.query(b"ROLLBACK", &mut TextResults::default())
    }
    /// Whether no transaction is left to be ended after this error: the server has rolled it back
    /// (a deadlock, for MySQL), or none was open.
    fn rolls_back_on(&self, errno: u16) -> bool {
        errno == ER_LOCK_DEADLOCK
    }
    /// Whether another operation may be tried; once false, connect again.
    fn is_usable(&self) -> bool;
    /// A way to break a wait for the server from another thread; `None` if there is none.
    fn interrupter(&self) -> Option<Interrupter> {
        None
    }
    /// Says good-bye to the server.
    fn close(self: Box<Self>);
}

/// A column that [`Session::load`] fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadColumn<'a> {
    /// Its name, of letters, digits and `_`.
    pub name: &'a str,
    /// Its values are texts; else they are signed integers.
    pub is_text: bool,
}

/// What rows look like on their way to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowForm {
    /// Lines of values with tabs between, nothing escaped.
    Lines,
    /// Parameters of MariaDB's bulk execution, as [`waggle_wire::bulk`] writes them.
    Parameters,
}

/// Appends rows in this form to a buffer and says how many.
pub type Fill<'a> = dyn FnMut(RowForm, &mut Vec<u8>) -> u64 + 'a;

/// Breaks the wait of one session; the session is unusable afterwards.
pub type Interrupter = Box<dyn Fn() + Send>;

/// A prepared statement of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// What [`Session::execute`] takes.
    pub handle: u32,
    /// Parameters the statement has.
    pub params: u16,
}

/// What one statement did, or a text of several, counted without looking at its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Statements of a text, as the server counts them; 0 where that is one in any case.
    pub statements: u32,
    /// Result sets the server sent.
    pub result_sets: u32,
    /// Rows in them.
    pub rows: u64,
    /// Rows changed.
    pub affected: u64,
    /// The identifier generated by an insert; 0 if none.
    pub last_insert_id: u64,
}

/// A failed operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The server answered with an error; the session can go on.
    #[error("error {errno} ({sqlstate}): {message}")]
    Server {
        /// The server's error number.
        errno: u16,
        /// Five characters.
        sqlstate: String,
        /// The server's words.
        message: String,
    },
    /// The session is gone, or was never there: socket error, time limit, bytes nobody understands.
    #[error("{message}")]
    Lost {
        /// The number client libraries use for it: 2002 or 2003 (cannot connect), 2006 (gone
        /// away), 2013 (lost during a statement).
        errno: u16,
        /// What happened.
        message: String,
    },
    /// Refused on this side; the session can go on.
    #[error("{0}")]
    Refused(String),
}

impl DriverError {
    /// The server's error number, if a server answered.
    pub fn errno(&self) -> Option<u16> {
        match self {
            DriverError::Server { errno, .. } => Some(*errno),
            DriverError::Lost { .. } | DriverError::Refused(_) => None,
        }
    }

    /// The number scripts and ignore lists know: the server's, else the client library's; 0 for
    /// what was refused here.
    pub fn script_errno(&self) -> u16 {
        match self {
            DriverError::Server { errno, .. } | DriverError::Lost { errno, .. } => *errno,
            DriverError::Refused(_) => 0,
        }
    }
}
