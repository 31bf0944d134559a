//! Asks the server's own tables about lock waits, if the user gave a DSN.
//!
//! A thread with one connection, so that nothing it waits for holds up the agent. It asks only
//! when told that somebody waits, at most so often, with limits on its own statements, and it
//! never waits for a lock itself. Neighbours: [`mysql`], [`mariadb`] know the tables.
//!
//! Invariants: only tables of the server about itself are read. Answers are bounded.

mod innodb_status;
mod mariadb;
mod mysql;
mod rows;

pub use innodb_status::{StatusDeadlock, StatusMember, latest_deadlock};
use std::sync::Arc;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use waggle_wire::Connection;

use crate::budget::rights;
use crate::sessions::Moment;
use crate::sql::{Access, MARK};

/// Least time between two questions.
const PAUSE: Duration = Duration::from_millis(200);
/// The same after a failure.
const PAUSE_FAILED: Duration = Duration::from_secs(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// One edge of a wait for a lock of the storage engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowWait {
    /// Connection ids.
    pub waiter: u64,
    /// For whom.
    pub blocker: u64,
    /// `schema.table`.
    pub table: String,
    /// The index; empty for a table's lock.
    pub index: String,
    /// The mode asked for.
    pub mode_wanted: String,
    /// The mode held.
    pub mode_held: String,
    /// Ages of both transactions, us.
    pub transaction_us: [Option<u64>; 2],
}

/// A metadata lock that is held, or waited for, on an object that somebody waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataHold {
    /// Connection id.
    pub connection_id: u64,
    /// `schema.table`, or the kind of object if that has no name.
    pub object: String,
    /// The mode.
    pub mode: String,
    /// It is waited for, not held.
    pub is_pending: bool,
}

/// What the tables said at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding {
    /// When they were asked, about.
    pub moment: Moment,
    /// Waits for locks of the storage engine.
    pub rows: Vec<RowWait>,
    /// Metadata locks on objects that somebody waits for.
    pub metadata: Vec<MetadataHold>,
    /// Ages of transactions, by connection, us.
    pub transactions: Vec<(u64, u64)>,
    /// The latest deadlock, if it was asked for and there was one.
    pub deadlock: Option<StatusDeadlock>,
    /// What could not be asked, and why.
    pub problem: Option<String>,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Who waits for whom.
    Waits,
    /// The same, and the latest deadlock.
    Deadlock,
}

/// The thread and the way to it.
#[derive(Debug)]
pub struct Inspector {
    questions: Option<SyncSender<Question>>,
    answers: Receiver<Finding>,
    connection_id: Arc<AtomicU64>,
    asked: Option<Instant>,
    pause: Duration,
    is_waiting: bool,
}

impl Inspector {
    /// Starts the thread; it connects when it is first asked.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(access: Access) -> std::io::Result<Self> {
        let access = access.for_another();
        let (questions, inbox) = sync_channel(1);
        let (outbox, answers) = sync_channel(1);
        let connection_id = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&connection_id);
        std::thread::Builder::new()
            .name("waggle-locks".into())
            .spawn(move || {
                // Refused where there are none to give up.
                let _ = rights::keep(access.task(), false);
                serve(&access, &inbox, &outbox, &shared);
            })?;
        Ok(Self {
            questions: Some(questions),
            answers,
            connection_id,
            asked: None,
            pause: PAUSE,
            is_waiting: false,
        })
    }

    /// Asks, unless an answer is still to come or the last question was just now. Does not block.
    /// Returns whether it asked.
    pub fn ask(&mut self, question: Question) -> bool {
        let is_soon = self.asked.is_some_and(|asked| asked.elapsed() < self.pause);
        if self.is_waiting || is_soon {
            return false;
        }
        let Some(questions) = &self.questions else {
            return false;
        };
        match questions.try_send(question) {
            Ok(()) => {
                self.is_waiting = true;
                self.asked = Some(Instant::now());
            }
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => self.questions = None,
        }
        self.is_waiting
    }

    /// The answer, if it has come. Does not block.
    pub fn answer(&mut self) -> Option<Finding> {
        let finding = self.answers.try_recv().ok()?;
        self.is_waiting = false;
        self.pause = match finding.problem {
            Some(_) => PAUSE_FAILED,
            None => PAUSE,
        };
        Some(finding)
    }

    /// Connection id of its own session, so that a reader can leave it out; 0 while there is none.
    pub fn connection_id(&self) -> u64 {
        self.connection_id.load(Ordering::Relaxed)
    }
}

/// The thread ends when the inspector is dropped: at once if it is idle, else when the question
/// it has is answered or its time is up.
fn serve(
    access: &Access,
    inbox: &Receiver<Question>,
    outbox: &SyncSender<Finding>,
    id: &AtomicU64,
) {
    let mut connection: Option<Connection> = None;
    while let Ok(question) = inbox.recv() {
        let before = Moment::now();
        let answer = connected(&mut connection, access).and_then(|connection| {
            id.store(connection.connection_id().into(), Ordering::Relaxed);
            let mut finding = if connection.is_mariadb() {
                mariadb::ask(connection)?
            } else {
                mysql::ask(connection)?
            };
            if question == Question::Deadlock {
                finding.deadlock = deadlock(connection)?;
            }
            Ok(finding)
        });
        if connection.as_ref().is_none_or(|c| !c.is_usable()) {
            connection = None;
            id.store(0, Ordering::Relaxed);
        }
        let mut finding = answer.unwrap_or_else(|error| Finding {
            problem: Some(error.to_string()),
            ..Finding::default()
        });
        finding.moment = before;
        if outbox.send(finding).is_err() {
            return;
        }
    }
}

/// Type, name, status: the text is in the third column.
fn deadlock(connection: &mut Connection) -> Result<Option<StatusDeadlock>, waggle_wire::Error> {
    let rows = rows::rows_of(connection, "SHOW ENGINE INNODB STATUS")?;
    let status = rows.first().and_then(|row| row.get(2)?.as_deref());
    Ok(status.and_then(latest_deadlock))
}

fn connected<'a>(
    connection: &'a mut Option<Connection>,
    access: &Access,
) -> Result<&'a mut Connection, waggle_wire::Error> {
    if let Some(connection) = connection {
        return Ok(connection);
    }
    let mut fresh = access.connect()?;
    fresh.set_timeout(Some(PATIENCE));
    let limit = match fresh.is_mariadb() {
        true => "max_statement_time = 2",
        false => "max_execution_time = 2000",
    };
    let limits = "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1";
    fresh.query(format!("{MARK}{limits}, {limit}").as_bytes())?;
    Ok(connection.insert(fresh))
}
