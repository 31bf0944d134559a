//! What one Lua state owns on this side: its sessions, generator, counters and last error.
//!
//! The functions of `api` are thin: they turn C arguments into Rust ones and call a method here.
//! Invariant: a context belongs to one thread and is reached by one call at a time, because no
//! method here calls back into Lua. `session` and `statement` talk to servers, `recovery` judges
//! their errors, `event` frames what is measured.

mod event;
mod loading;
mod recovery;
mod result;
mod session;
mod statement;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::LoadError;
use crate::barrier::Barrier;
use crate::command::Progress;
use crate::driver::{Driver, DriverError, Interrupter, Session};
use crate::gate::Gate;
use crate::pace::{Pace, TooMany};
use crate::rand::{Rand, UniqueSource};
use crate::recorder::Sum;
use crate::snapshot::ErrorCount;
use crate::spec::IgnoreErrors;
use crate::tally::{OperationRecorders, Tally, locked};

pub(crate) use result::{Field, NoRow};
use session::Slot;

/// Receives the progress of a command.
pub(crate) type ProgressSink = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// What all threads of one load or command share.
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) gate: Gate,
    /// For commands; the threads of a run are not to wait for each other.
    pub(crate) barrier: Option<Barrier>,
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
    /// Open loop: the plan all workers follow.
    pub(crate) pace: Option<Pace>,
    pub(crate) budget: Budget,
    pub(crate) reconnect_limit: Duration,
    pub(crate) times_statements: bool,
    /// Contexts made so far: their names in `interrupters`.
    pub(crate) contexts: AtomicU32,
    /// Errors that restarted an event or broke a connection.
    pub(crate) errors: Mutex<BTreeMap<u16, ErrorCount>>,
    pub(crate) operations: Names,
    pub(crate) statements: Names,
    pub(crate) user_counters: Names,
}

impl Shared {
    /// Operations fail as stopped from now on, whatever the server says.
    fn is_over(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) || self.cancelled.load(Ordering::Relaxed)
    }

    /// Ends the load because its backlog is longer than it may be.
    pub(crate) fn overflowed(&self, too_many: TooMany) {
        self.gate.fail(LoadError::Overflow {
            waiting: too_many.waiting,
            age: Duration::from_nanos(too_many.age_ns),
        });
    }

    /// Breaks every wait for a server; statements fail as stopped from now on.
    pub(crate) fn interrupt_all(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        for interrupt in locked(&self.interrupters).values() {
            interrupt();
        }
    }

    /// Opens a session, which can be interrupted under this name from its first wait on.
    fn open_session(&self, name: (u32, u32)) -> Result<Box<dyn Session>, DriverError> {
        locked(&self.interrupters).remove(&name);
        self.driver.connect_breakably(&mut |interrupter| {
            locked(&self.interrupters).insert(name, interrupter);
            // Who interrupts sets this first: either this sees it, or he sees the entry.
            !self.is_over()
        })
    }

    fn count_error(&self, errno: u16, message: &str) {
        let mut errors = locked(&self.errors);
        let entry = errors.entry(errno).or_insert_with(|| ErrorCount {
            count: 0,
            example: message.to_owned(),
        });
        entry.count += 1;
    }
}

/// Names that scripts give to things they count, each with a number; the same in all threads.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Vec<String>>);

impl Names {
    /// The number of a name, a new one if it is new.
    pub(crate) fn number_of(&self, name: &str) -> u32 {
        let mut names = locked(&self.0);
        let known = names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        number as u32
    }

    /// The same, but above `most` names all new ones share one.
    fn number_of_few(&self, name: &str, most: usize) -> u32 {
        let is_known = {
            let names = locked(&self.0);
            names.len() < most || names.iter().any(|known| known == name)
        };
        self.number_of(if is_known { name } else { "(others)" })
    }

    /// By number.
    pub(crate) fn all(&self) -> Vec<String> {
        locked(&self.0).clone()
    }
}

/// How many events may still be begun, over all threads.
#[derive(Debug)]
pub(crate) struct Budget(AtomicI64);

/// So far from zero that no run comes near: no limit, and no shared cache line to write.
const UNLIMITED: i64 = i64::MAX;

impl Budget {
    pub(crate) fn new(limit: Option<u64>) -> Budget {
        let budget = Budget(AtomicI64::new(0));
        budget.set(limit);
        budget
    }

    pub(crate) fn set(&self, limit: Option<u64>) {
        let left = limit.map_or(UNLIMITED, |limit| i64::try_from(limit).unwrap_or(UNLIMITED));
        self.0.store(left, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) == UNLIMITED || self.0.fetch_sub(1, Ordering::Relaxed) > 0
    }

    fn give_back(&self) {
        if self.0.load(Ordering::Relaxed) != UNLIMITED {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
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
    /// The server's own words, where a server answered.
    pub(crate) words: String,
    pub(crate) statement: String,
}

pub(crate) struct Context {
    id: u32,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
    slots: Vec<Option<Slot>>,
    pub(crate) rand: Rand,
    pub(crate) last_error: LastError,
    /// The row that was fetched last; valid until the next operation.
    pub(crate) row: Vec<Field>,
    event: event::Event,
    words: statement::Words,
    operations: Vec<Option<Arc<OperationRecorders>>>,
    user_counters: Vec<Option<Arc<Sum>>>,
    /// A server error that is not in the list of ignored ones; a hook of the script may still
    /// make a restart of it.
    fatal: Option<(u32, u16)>,
}

impl Context {
    pub(crate) fn new(shared: Arc<Shared>, tally: Arc<Tally>, rand: Rand) -> Context {
        Context {
            id: shared.contexts.fetch_add(1, Ordering::Relaxed),
            words: statement::Words::default(),
            shared,
            tally,
            slots: Vec::new(),
            rand,
            last_error: LastError::default(),
            row: Vec::new(),
            event: event::Event::default(),
            operations: Vec::new(),
            user_counters: Vec::new(),
            fatal: None,
        }
    }

    pub(crate) fn driver_name(&self) -> &str {
        self.shared.driver.name()
    }

    pub(crate) fn unique_source(&self) -> UniqueSource {
        self.shared.unique.clone()
    }

    fn failed(&mut self, error: &DriverError, statement: String) -> Status {
        if self.shared.is_over() {
            return Status::Stopped;
        }
        let (sqlstate, words) = match error {
            DriverError::Server {
                sqlstate, message, ..
            } => (sqlstate.clone(), message.clone()),
            DriverError::Lost { message, .. } => ("HY000".to_owned(), message.clone()),
            DriverError::Refused(reason) => (String::new(), reason.clone()),
        };
        self.last_error = LastError {
            errno: error.script_errno(),
            sqlstate,
            message: error.to_string(),
            words,
            statement,
        };
        match self.is_ignored(error) {
            true => Status::Ignorable,
            false => Status::Fatal,
        }
    }
}
