//! What one Lua state owns on this side: its sessions, generator, counters and last error.
//!
//! The functions of `api` are thin: they turn C arguments into Rust ones and call a method here.
//! Invariant: a context belongs to one thread and is reached by one call at a time, because no
//! method here calls back into Lua.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::command::Progress;
use crate::driver::{Driver, DriverError, Interrupter, Outcome, Row, Session, Value};
use crate::gate::{Gate, Permit};
use crate::rand::{Rand, UniqueSource};
use crate::spec::IgnoreErrors;
use crate::tally::{Tally, locked};

/// Statements of a bulk insert stay below the packet limit of any server's default settings.
const BULK_INSERT_BYTES: usize = 512 * 1024;

/// Deadlock: the server has already rolled the whole transaction back.
const ER_LOCK_DEADLOCK: u16 = 1213;

/// Receives the progress of a command.
pub(crate) type ProgressSink = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// What all threads of one load or command share.
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) gate: Gate,
    /// The caller's wish to end a command.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// Another thread failed, or the sockets were shut down.
    pub(crate) abandoned: AtomicBool,
    pub(crate) ignore_errors: IgnoreErrors,
    pub(crate) restart_limit: u32,
    pub(crate) interrupters: Mutex<BTreeMap<(u32, u32), Interrupter>>,
    pub(crate) unique: UniqueSource,
    pub(crate) rows_inserted: AtomicU64,
    pub(crate) progress: Option<ProgressSink>,
}

impl Shared {
    /// Operations fail as stopped from now on, whatever the server says.
    fn is_over(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) || self.cancelled.load(Ordering::Relaxed)
    }
}

/// How an operation ended, as a script's prelude sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    Done = 0,
    /// An error of the list of ignored ones: the event may be restarted.
    Ignorable = 1,
    Fatal = 2,
    /// The run is over; nobody is to be blamed.
    Stopped = 3,
}

/// The error behind the last status that was not `Done`.
#[derive(Debug, Default)]
pub(crate) struct LastError {
    pub(crate) errno: u16,
    pub(crate) sqlstate: String,
    pub(crate) message: String,
    pub(crate) statement: String,
}

/// One connection of a state.
struct Slot {
    session: Box<dyn Session>,
    /// Text of each prepared statement, for error messages.
    statements: Vec<(u32, String)>,
    needs_rollback: bool,
    bulk: Bulk,
}

#[derive(Default)]
struct Bulk {
    head: Vec<u8>,
    buffer: Vec<u8>,
    rows: u64,
}

pub(crate) struct Context {
    thread: u32,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
    slots: Vec<Option<Slot>>,
    pub(crate) rand: Rand,
    pub(crate) last_error: LastError,
    pub(crate) row: Row,
    begun: Instant,
    restarts: u32,
    /// A server error that is not in the list of ignored ones; a hook of the script may still
    /// make a restart of it.
    fatal: Option<(u32, u16)>,
}

impl Context {
    pub(crate) fn new(thread: u32, shared: Arc<Shared>, tally: Arc<Tally>, rand: Rand) -> Context {
        Context {
            thread,
            shared,
            tally,
            slots: Vec::new(),
            rand,
            last_error: LastError::default(),
            row: Vec::new(),
            begun: Instant::now(),
            restarts: 0,
            fatal: None,
        }
    }

    pub(crate) fn driver_name(&self) -> &str {
        self.shared.driver.name()
    }

    pub(crate) fn unique_source(&self) -> UniqueSource {
        self.shared.unique.clone()
    }

    pub(crate) fn connect(&mut self) -> Result<u32, Status> {
        let session = match self.shared.driver.connect() {
            Ok(session) => session,
            Err(error) => return Err(self.failed(&error, String::new())),
        };
        let number = self.slots.len() as u32;
        if let Some(interrupter) = session.interrupter() {
            locked(&self.shared.interrupters).insert((self.thread, number), interrupter);
        }
        let bulk = Bulk::default();
        let slot = Slot {
            session,
            statements: Vec::new(),
            needs_rollback: false,
            bulk,
        };
        self.slots.push(Some(slot));
        Ok(number)
    }

    pub(crate) fn disconnect(&mut self, connection: u32) {
        if let Some(slot) = self
            .slots
            .get_mut(connection as usize)
            .and_then(Option::take)
        {
            locked(&self.shared.interrupters).remove(&(self.thread, connection));
            slot.session.close();
        }
    }

    pub(crate) fn disconnect_all(&mut self) {
        for connection in 0..self.slots.len() {
            self.disconnect(connection as u32);
        }
    }

    pub(crate) fn query(&mut self, connection: u32, sql: &[u8]) -> Result<Outcome, Status> {
        let result = self.on_session(connection, |session| session.query(sql));
        self.settled(result, connection, || text_of(sql))
    }

    /// Leaves the first row in `self.row`; empty if there was none.
    pub(crate) fn query_row(&mut self, connection: u32, sql: &[u8]) -> Result<bool, Status> {
        self.row.clear();
        let result = self.on_session(connection, |session| session.query_rows(sql));
        let (outcome, mut rows) = match result {
            Ok((outcome, rows)) => (Ok(outcome), rows),
            Err(error) => (Err(error), Vec::new()),
        };
        self.settled(outcome, connection, || text_of(sql))?;
        if rows.is_empty() {
            return Ok(false);
        }
        self.row = rows.swap_remove(0);
        Ok(true)
    }

    pub(crate) fn prepare(&mut self, connection: u32, sql: &[u8]) -> Result<u32, Status> {
        match self.on_session(connection, |session| session.prepare(sql)) {
            Ok(prepared) => {
                self.tally.prepared();
                if let Some(Some(slot)) = self.slots.get_mut(connection as usize) {
                    slot.statements.push((prepared.handle, text_of(sql)));
                }
                Ok(prepared.handle)
            }
            // Not one of the statements that a restart repeats, so never ignorable.
            Err(error) => Err(match self.failed(&error, text_of(sql)) {
                Status::Ignorable => Status::Fatal,
                status => status,
            }),
        }
    }

    pub(crate) fn execute(
        &mut self,
        connection: u32,
        statement: u32,
        params: &[Value<'_>],
    ) -> Result<Outcome, Status> {
        let result = self.on_session(connection, |session| session.execute(statement, params));
        match result {
            Ok(outcome) => {
                self.tally.statement_done(&outcome);
                Ok(outcome)
            }
            failed => {
                let text = self.statement_text(connection, statement);
                self.settled(failed, connection, || text)
            }
        }
    }

    pub(crate) fn close_statement(&mut self, connection: u32, statement: u32) -> Status {
        let text = self.statement_text(connection, statement);
        if let Some(Some(slot)) = self.slots.get_mut(connection as usize) {
            slot.statements.retain(|(handle, _)| *handle != statement);
        }
        match self.on_session(connection, |session| session.close_statement(statement)) {
            Ok(()) => Status::Done,
            Err(error) => self.failed(&error, text),
        }
    }

    pub(crate) fn bulk_begin(&mut self, connection: u32, head: &[u8]) -> Status {
        match self.slots.get_mut(connection as usize) {
            Some(Some(slot)) => {
                let buffer = Vec::with_capacity(BULK_INSERT_BYTES);
                slot.bulk = Bulk {
                    head: head.to_vec(),
                    buffer,
                    rows: 0,
                };
                Status::Done
            }
            _ => self.failed(&closed(), text_of(head)),
        }
    }

    pub(crate) fn bulk_add(&mut self, connection: u32, values: &[u8]) -> Result<(), Status> {
        let Some(Some(slot)) = self.slots.get(connection as usize) else {
            return Err(self.failed(&closed(), text_of(values)));
        };
        let filled = slot.bulk.buffer.len() + values.len() + 1;
        if slot.bulk.rows > 0 && filled > BULK_INSERT_BYTES {
            self.bulk_flush(connection)?;
        }
        if let Some(Some(Slot { bulk, .. })) = self.slots.get_mut(connection as usize) {
            let lead: &[u8] = if bulk.rows == 0 { &bulk.head } else { b"," };
            bulk.buffer.extend_from_slice(lead);
            if bulk.rows == 0 {
                bulk.buffer.push(b' ');
            }
            bulk.buffer.extend_from_slice(values);
            bulk.rows += 1;
        }
        Ok(())
    }

    pub(crate) fn bulk_flush(&mut self, connection: u32) -> Result<(), Status> {
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Err(self.failed(&closed(), String::new()));
        };
        if slot.bulk.rows == 0 {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut slot.bulk.buffer);
        let rows = std::mem::take(&mut slot.bulk.rows);
        self.query(connection, &buffer)?;
        buffer.clear();
        if let Some(Some(slot)) = self.slots.get_mut(connection as usize) {
            slot.bulk.buffer = buffer;
        }
        let inserted = self.shared.rows_inserted.fetch_add(rows, Ordering::Relaxed) + rows;
        if let Some(progress) = &self.shared.progress {
            progress(Progress::Rows { inserted });
        }
        Ok(())
    }

    /// True when the worker may begin another event.
    pub(crate) fn may_run(&self) -> bool {
        self.shared.gate.may_run() != Permit::Stop
    }

    pub(crate) fn event_begin(&mut self) {
        self.restarts = 0;
        self.begun = Instant::now();
    }

    pub(crate) fn event_end(&self) {
        self.tally
            .transaction_done(self.begun.elapsed().as_nanos() as u64);
    }

    /// After an ignorable error: leaves no transaction open, then waits at the gate. The retry
    /// ends with the run, unlike an error that would last for ever.
    pub(crate) fn may_retry(&mut self) -> Status {
        if let Some((connection, errno)) = self.fatal.take() {
            self.restart_from(connection, errno);
        }
        for number in 0..self.slots.len() {
            let Some(Some(slot)) = self.slots.get_mut(number) else {
                continue;
            };
            if !std::mem::take(&mut slot.needs_rollback) {
                continue;
            }
            let result = slot.session.rollback();
            let connection = number as u32;
            if let Err(status) = self.settled(result, connection, || "ROLLBACK".to_owned()) {
                return if status == Status::Stopped {
                    status
                } else {
                    Status::Fatal
                };
            }
        }
        self.restarts += 1;
        if self.restarts > self.shared.restart_limit {
            let (restarts, cause) = (self.restarts - 1, &self.last_error.message);
            self.last_error.message =
                format!("one event was restarted {restarts} times in a row; last: {cause}");
            return Status::Fatal;
        }
        match self.shared.gate.may_run() {
            Permit::Run { held } => {
                self.exclude(held);
                Status::Done
            }
            Permit::Stop => Status::Stopped,
        }
    }

    /// Time spent paused between two attempts is not the server's.
    fn exclude(&mut self, held: Duration) {
        self.begun += held;
    }

    fn on_session<T>(
        &mut self,
        connection: u32,
        operation: impl FnOnce(&mut dyn Session) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        if self.shared.is_over() {
            return Err(DriverError::Lost("stopped".to_owned()));
        }
        match self.slots.get_mut(connection as usize) {
            Some(Some(slot)) => operation(slot.session.as_mut()),
            _ => Err(closed()),
        }
    }

    /// Counts what a statement did, or keeps its error for the script to ask for.
    fn settled(
        &mut self,
        result: Result<Outcome, DriverError>,
        connection: u32,
        statement: impl FnOnce() -> String,
    ) -> Result<Outcome, Status> {
        let error = match result {
            Ok(outcome) => {
                self.tally.statement_done(&outcome);
                return Ok(outcome);
            }
            Err(error) => error,
        };
        if error.errno().is_some() {
            self.tally.statement_failed();
        }
        let status = self.failed(&error, statement());
        match (status, error.errno()) {
            (Status::Ignorable, Some(errno)) => self.restart_from(connection, errno),
            (Status::Fatal, Some(errno)) => self.fatal = Some((connection, errno)),
            _ => {}
        }
        Err(status)
    }

    fn restart_from(&mut self, connection: u32, errno: u16) {
        self.tally.error_ignored(errno);
        // A lock wait time-out leaves the transaction open with half of its changes; the BEGIN
        // of the next attempt would commit them.
        if let Some(Some(slot)) = self.slots.get_mut(connection as usize) {
            slot.needs_rollback |= errno != ER_LOCK_DEADLOCK;
        }
    }

    fn failed(&mut self, error: &DriverError, statement: String) -> Status {
        if self.shared.is_over() {
            return Status::Stopped;
        }
        let (errno, sqlstate) = match error {
            DriverError::Server {
                errno, sqlstate, ..
            } => (*errno, sqlstate.clone()),
            DriverError::Lost(_) | DriverError::Refused(_) => (0, String::new()),
        };
        self.last_error = LastError {
            errno,
            sqlstate,
            message: error.to_string(),
            statement,
        };
        match error.errno() {
            Some(errno) if self.shared.ignore_errors.contains(errno) => Status::Ignorable,
            _ => Status::Fatal,
        }
    }

    fn statement_text(&self, connection: u32, statement: u32) -> String {
        let Some(Some(slot)) = self.slots.get(connection as usize) else {
            return String::new();
        };
        let found = slot
            .statements
            .iter()
            .find(|(handle, _)| *handle == statement);
        found.map(|(_, text)| text.clone()).unwrap_or_default()
    }
}

fn closed() -> DriverError {
    DriverError::Refused("the connection is closed".to_owned())
}

fn text_of(sql: &[u8]) -> String {
    String::from_utf8_lossy(sql).into_owned()
}
