//! Where a server may be asked, and which sessions there are the agent's own.
//!
//! Every statement the agent sends begins with [`MARK`], and every session it opens is noted
//! before its first statement, so that sources know both when the statement comes by. Invariants: a
//! statement is the agent's own if its session and its beginning say so, never by one alone: with a
//! DSN of another server, its sessions have the numbers of strangers here; each asker has sessions
//! of its own here, so that one that connects often does not make another's unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use waggle_wire::{Connection, Dsn, Endpoint};

use crate::budget::rights::Task;

/// What the agent's statements begin with.
pub(crate) const MARK: &str = "/* waggle */ ";
/// A name in those of its statements that take one: a server's digests keep names, and no comments.
pub(crate) const OWN_NAME: &str = "waggle_own";
/// Askers told apart: the counters' and the locks' of one server, a source's, and of followed
/// servers those of the newest.
const ASKERS: usize = 16;
/// Sessions remembered of each: the newest, and those before it that their last statements may
/// still be on the way of.
const SESSIONS: usize = 4;
/// Set beside a number once a statement of this session had the mark; no server counts so far.
const CONFIRMED: u64 = 1 << 63;

/// Sessions of one asker.
#[derive(Debug, Default)]
struct Asker {
    /// Connection ids, some with [`CONFIRMED`]; 0 is none.
    ids: [AtomicU64; SESSIONS],
    /// How many were noted so far.
    noted: AtomicUsize,
}

/// The agent's sessions on one server; written by the threads that ask, read by who counts.
#[derive(Debug, Default)]
pub struct OwnSessions {
    askers: [Asker; ASKERS],
    /// How many askers there were so far.
    begun: AtomicUsize,
}

impl OwnSessions {
    /// A new asker's number.
    pub fn asker(&self) -> usize {
        self.begun.fetch_add(1, Ordering::AcqRel)
    }

    /// Notes a session of this asker, before its first statement.
    pub fn note(&self, asker: usize, connection_id: u64) {
        let asker = &self.askers[asker % ASKERS];
        let at = asker.noted.fetch_add(1, Ordering::AcqRel);
        asker.ids[at % SESSIONS].store(connection_id & !CONFIRMED, Ordering::Release);
    }

    /// True if the statement of this session with this text is the agent's own. Of a text that was
    /// left out, the session decides, if one of its statements had the mark.
    #[inline]
    pub fn owns(&self, connection_id: Option<u64>, text: &[u8]) -> bool {
        let begun = self.begun.load(Ordering::Acquire);
        if begun == 0 {
            return false;
        }
        let Some(id) = connection_id.filter(|id| *id & !CONFIRMED != 0) else {
            return false;
        };
        let askers = &self.askers[..begun.min(ASKERS)];
        let mut own = askers.iter().flat_map(|asker| &asker.ids);
        own.any(|own| {
            let known = own.load(Ordering::Acquire);
            if known & !CONFIRMED != id {
                return false;
            }
            let is_confirmed = known & CONFIRMED != 0;
            if text.is_empty() {
                return is_confirmed;
            }
            let is_own = text.starts_with(MARK.trim_end().as_bytes());
            if is_own && !is_confirmed {
                // Lost only if another session has taken the place meanwhile.
                let confirmed = known | CONFIRMED;
                let _ = own.compare_exchange(known, confirmed, Ordering::AcqRel, Ordering::Relaxed);
            }
            is_own
        })
    }
}

/// A server that may be asked, by one asker.
#[derive(Debug, Clone)]
pub struct Access {
    /// Where.
    pub dsn: Dsn,
    /// The agent's sessions there.
    pub own: Arc<OwnSessions>,
    asker: usize,
}

impl From<Dsn> for Access {
    fn from(dsn: Dsn) -> Self {
        let own = Arc::<OwnSessions>::default();
        let asker = own.asker();
        Self { dsn, own, asker }
    }
}

impl Access {
    /// The same for one more asker.
    pub(crate) fn for_another(&self) -> Self {
        Self {
            dsn: self.dsn.clone(),
            own: Arc::clone(&self.own),
            asker: self.own.asker(),
        }
    }

    /// What a thread that asks has to do: only a socket may lie where nobody else may look.
    pub(crate) fn task(&self) -> Task {
        match self.dsn.endpoint {
            Endpoint::Socket(_) => Task::Ask,
            Endpoint::Tcp { .. } => Task::Deliver,
        }
    }

    /// A connection whose session is noted.
    ///
    /// # Errors
    /// There is none.
    pub fn connect(&self) -> Result<Connection, waggle_wire::Error> {
        let connection = Connection::connect(&self.dsn)?;
        let id = connection.connection_id().into();
        self.own.note(self.asker, id);
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_and_the_mark_together_are_own() {
        let own = OwnSessions::default();
        let asker = own.asker();
        let marked = format!("{MARK}SELECT 1");
        assert!(!own.owns(Some(7), marked.as_bytes()));
        own.note(asker, 7);
        // The number alone may be a stranger's.
        assert!(!own.owns(Some(7), b""));
        assert!(own.owns(Some(7), marked.as_bytes()));
        assert!(own.owns(Some(7), b""));
        assert!(!own.owns(Some(7), b"SELECT 1"));
        assert!(!own.owns(Some(8), marked.as_bytes()));
        assert!(!own.owns(None, marked.as_bytes()) && !own.owns(Some(0), b""));
        assert!(!own.owns(Some(CONFIRMED | 7), marked.as_bytes()));
        // A stranger who gets the number after it was noted anew.
        own.note(asker, 7);
        (0..SESSIONS as u64).for_each(|id| own.note(asker, 100 + id));
        assert!(!own.owns(Some(7), marked.as_bytes()) && !own.owns(Some(7), b""));
    }

    #[test]
    fn an_asker_that_connects_often_leaves_the_others_known() {
        let first = Access::from("mysql://root@127.0.0.1:3306".parse::<Dsn>().expect("a DSN"));
        let second = first.for_another();
        let marked = format!("{MARK}SELECT 1");
        first.own.note(first.asker, 7);
        (100..1000).for_each(|id| second.own.note(second.asker, id));
        assert!(first.own.owns(Some(7), marked.as_bytes()));
        assert!(first.own.owns(Some(999), marked.as_bytes()));
        assert!(!first.own.owns(Some(100), marked.as_bytes()));
    }

    #[test]
    fn only_a_socket_needs_a_right() {
        let task = |dsn: &str| Access::from(dsn.parse::<Dsn>().expect("a DSN")).task();
        assert_eq!(task("mysql://root@/?socket=/run/s"), Task::Ask);
        assert_eq!(task("mysql://root@127.0.0.1:3306"), Task::Deliver);
    }
}
