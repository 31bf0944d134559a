//! The thread that reads the source's log, and comes back to it when it is lost.
//!
//! Neighbours: the stream of `waggle-wire` gives events, `transaction` puts them together.
//! Invariants: a stream begins after the last whole transaction that was kept; a source that does
//! not have what comes next, or has not done what was kept, ends the thread with an error.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use waggle_wire::binlog::event::kind;
use waggle_wire::binlog::stream::{Dump, DumpRequest, Start};
use waggle_wire::{Connection, Dsn, Interrupter};

use super::state::Shared;
use super::transaction::Assembler;
use super::write::Writer;
use crate::control::Control;
use crate::error::{CopyError, Side};
use crate::position::Position;
use crate::session;
use crate::table::Table;

/// A source that says nothing for three of these is taken for lost.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// So long the source may not know of a transaction that it sent.
const HISTORY_PATIENCE: Duration = Duration::from_secs(30);
/// So long a source may be away.
const PATIENCE: Duration = Duration::from_secs(600);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(2);
/// The source cannot go on from the position: the log was purged, or never had it.
const CANNOT_GO_ON: u16 = 1236;
/// Damaged bytes this often in a row, with nothing whole between, are no accident.
const DAMAGES_MAX: u32 = 3;

/// Where the log comes from, and a way to end the wait for it.
#[derive(Debug)]
pub(super) struct Source {
    dsn: Dsn,
    wait: Mutex<Option<Interrupter>>,
}

impl Source {
    pub(super) fn new(dsn: Dsn) -> Source {
        let wait = Mutex::new(None);
        Source { dsn, wait }
    }

    pub(super) fn interrupt(&self) {
        let wait = self.wait.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(interrupter) = wait.as_ref() {
            interrupter.interrupt();
        }
    }

    fn waits_on(&self, interrupter: Interrupter) {
        let mut wait = self.wait.lock().unwrap_or_else(|p| p.into_inner());
        *wait = Some(interrupter);
    }
}

pub(super) struct Follower {
    source: Arc<Source>,
    assembler: Assembler,
    writer: Writer,
    shared: Arc<Shared>,
    control: Arc<Control>,
    server_id: u32,
}

/// How a stream ended that may be followed by another one.
enum End {
    Lost(CopyError),
    Closed,
}

impl Follower {
    pub(super) fn new(
        source: &Arc<Source>,
        tables: &[Table],
        writer: Writer,
        shared: &Arc<Shared>,
        control: &Arc<Control>,
    ) -> Follower {
        Follower {
            source: Arc::clone(source),
            assembler: Assembler::new(tables),
            writer,
            shared: Arc::clone(shared),
            control: Arc::clone(control),
            server_id: server_id(),
        }
    }

    /// Reads until nobody wants more.
    pub(super) fn run(mut self) {
        let _watched = Watched(Arc::clone(&self.shared));
        if let Err(error) = self.follow()
            && !self.shared.is_closed()
        {
            self.shared.fail(error);
        }
    }

    fn follow(&mut self) -> Result<(), CopyError> {
        let mut progress = Instant::now();
        let mut pause = RETRY_FIRST;
        let mut damages = 0;
        loop {
            let before = self.writer.position().clone();
            let lost = match self.stream()? {
                End::Closed => return Ok(()),
                End::Lost(error) => error,
            };
            if *self.writer.position() != before {
                (progress, pause, damages) = (Instant::now(), RETRY_FIRST, 0);
            }
            damages += u32::from(is_damage(&lost));
            if progress.elapsed() > PATIENCE || damages >= DAMAGES_MAX {
                return Err(lost);
            }
            if self.shared.pause(pause) {
                return Ok(());
            }
            pause = (2 * pause).min(RETRY_MOST);
        }
    }

    /// One connection's worth of the log.
    fn stream(&mut self) -> Result<End, CopyError> {
        self.assembler.restart(&mut self.writer)?;
        let mut dump = match self.begin() {
            Ok(dump) => dump,
            Err(error) if may_pass(&error) => return Ok(End::Lost(error)),
            Err(error) => return Err(error),
        };
        self.source.waits_on(dump.interrupter());
        loop {
            if self.shared.is_closed() {
                return Ok(End::Closed);
            }
            let event = match dump
                .next()
                .map_err(CopyError::source("reading the binary log"))
            {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let gone = std::io::ErrorKind::UnexpectedEof.into();
                    let error = waggle_wire::Error::Io(gone);
                    return Ok(End::Lost(CopyError::source("reading the binary log")(
                        error,
                    )));
                }
                Err(error) if error.errno() == Some(CANNOT_GO_ON) => return Err(purged(error)),
                Err(error) if may_pass(&error) => return Ok(End::Lost(error)),
                Err(error) => return Err(error),
            };
            let is_beat = matches!(event.header.kind, kind::HEARTBEAT | kind::HEARTBEAT_V2);
            self.assembler.take(&event, &mut self.writer)?;
            if is_beat {
                self.writer.sync_sometimes()?;
            }
            self.control
                .spool_bytes
                .store(self.shared.bytes_ahead(), Ordering::Relaxed);
        }
    }

    fn begin(&mut self) -> Result<Dump, CopyError> {
        let mut connection = session::source(&self.source.dsn)?;
        check_history(&mut connection, self.writer.position(), &self.shared)?;
        let start = match self.writer.position() {
            Position::MySql(set) => Start::Gtids(set),
            Position::MariaDb(list) => Start::MariaDb(list),
        };
        let request = DumpRequest {
            server_id: self.server_id,
            start,
            heartbeat: HEARTBEAT,
            ends: false,
        };
        Dump::start(connection, &request).map_err(CopyError::source("asking for the binary log"))
    }
}

/// Tells whoever waits for more that none will come, if this thread panics.
struct Watched(Arc<Shared>);

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "the thread that follows the binary log panicked";
            self.0.fail(CopyError::Progress(why.to_owned()));
        }
    }
}

/// A server that was restored from a backup, or another one, would pass over what it believes was
/// read already.
///
/// A transaction is sent a moment before the source counts it as executed, longer where it waits
/// for replicas; so it is asked again for a while.
fn check_history(
    connection: &mut Connection,
    position: &Position,
    shared: &Shared,
) -> Result<(), CopyError> {
    let begun = Instant::now();
    loop {
        let now = now(connection)?;
        // MariaDB says so itself, because it is asked to be strict.
        if connection.is_mariadb() || position.is_within(&now) {
            return Ok(());
        }
        if begun.elapsed() > HISTORY_PATIENCE {
            return Err(CopyError::Progress(format!(
                "the copy has read up to {position}, and the source is at {now}: it is another \
                 server, or was set back to an earlier state; begin anew"
            )));
        }
        // Whoever closed it does not want to hear of it.
        if shared.pause(RETRY_FIRST) {
            return Ok(());
        }
    }
}

/// Where a source is.
///
/// # Errors
/// What it says.
pub fn now(connection: &mut Connection) -> Result<Position, CopyError> {
    let is_mariadb = connection.is_mariadb();
    let sql: &[u8] = match is_mariadb {
        true => b"SELECT @@global.gtid_binlog_pos",
        false => b"SELECT @@global.gtid_executed",
    };
    let rows = connection.query_rows(sql);
    let rows = rows.map_err(CopyError::source("asking where it is"))?;
    let text = rows
        .into_iter()
        .flatten()
        .next()
        .flatten()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    Position::parse(is_mariadb, &text).map_err(|error| CopyError::Progress(error.to_string()))
}

fn purged(error: CopyError) -> CopyError {
    CopyError::Progress(format!(
        "the source cannot go on from where the copy is: {error}; its log is kept for too short a \
         time (binlog_expire_logs_seconds), or was purged: begin anew"
    ))
}

fn is_damage(error: &CopyError) -> bool {
    matches!(
        error,
        CopyError::Server {
            error: waggle_wire::Error::Protocol(_),
            ..
        }
    )
}

/// Whether another connection may do better. Too many connections, or a server that starts, pass.
fn may_pass(error: &CopyError) -> bool {
    const PASSING: [u16; 5] = [1040, 1053, 1158, 1159, 1203];
    error.is_lost()
        || is_damage(error)
        || error.errno().is_some_and(|errno| PASSING.contains(&errno))
        || matches!(
            error,
            CopyError::Server {
                side: Side::Source,
                error: waggle_wire::Error::Tls(_),
                ..
            }
        )
}

/// A number that no other replica has: two of the same end each other's streams.
fn server_id() -> u32 {
    let mut bytes = [0; 4];
    // SAFETY: the buffer is as long as is said.
    let read = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random = match read {
        4 => u32::from_ne_bytes(bytes),
        _ => std::process::id(),
    };
    // High ones, where people do not number their servers.
    random | 1 << 31
}
