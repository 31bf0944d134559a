//! The end of every wait for a server, once this process was told to end.
//!
//! A session's thread sits in poll(2), or in a ring's wait, and sees no flag. So each socket is
//! noted here when it is made, and when the process is told to end, a thread of the verb's runs
//! [`end_waits`]: it shuts down the sockets on which somebody waits for what does not come. A
//! server that answers is not cut off: what a verb still has to ask or to put right, it can.
//! Neighbours: [`crate::socket`] notes its waits, [`Interrupter`](crate::Interrupter) ends those of
//! one session.
//!
//! Invariants: a socket is held weakly; a session that nobody tells to end pays two stores a wait.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

/// A server that is silent for this long after the end was asked for is not waited for.
const SILENCE: Duration = Duration::from_millis(700);
/// So long may a command that had begun before go on that does get bytes, but no end.
const COMMAND: Duration = Duration::from_millis(800);
/// The same for what is only begun after that: what a verb puts right at its end.
const SILENCE_LATE: Duration = Duration::from_millis(150);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// When the end was asked for.
static BEGUN: OnceLock<Instant> = OnceLock::new();

static SOCKETS: Mutex<Sockets> = Mutex::new(Sockets {
    noted: Vec::new(),
    prune_at: 64,
});

struct Sockets {
    noted: Vec<Noted>,
    /// Those that are gone are forgotten when there are this many.
    prune_at: usize,
}

struct Noted {
    socket: Weak<OwnedFd>,
    pulse: Arc<Pulse>,
    seen: Option<Seen>,
}

/// What the last look found, and since when it has been so.
#[derive(Clone, Copy)]
struct Seen {
    waits: u64,
    waits_since: Instant,
    commands: u64,
    commands_since: Instant,
}

/// What a session does, as far as others have to know. Written by the session's thread alone.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Waits begun and ended: odd while there is one.
    waits: AtomicU64,
    commands: AtomicU64,
}

impl Pulse {
    /// A wait begins, or ends.
    pub(crate) fn wait(&self) {
        Pulse::step(&self.waits);
    }

    /// A command begins.
    pub(crate) fn command(&self) {
        Pulse::step(&self.commands);
    }

    /// One writer: no locked instruction.
    fn step(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Notes a socket; what it does is told through what this gives.
pub(crate) fn note(socket: &Arc<OwnedFd>) -> Arc<Pulse> {
    let pulse = Arc::new(Pulse::default());
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    if sockets.noted.len() >= sockets.prune_at {
        sockets
            .noted
            .retain(|noted| noted.socket.strong_count() > 0);
        sockets.prune_at = 64.max(2 * sockets.noted.len());
    }
    sockets.noted.push(Noted {
        socket: Arc::downgrade(socket),
        pulse: Arc::clone(&pulse),
        seen: None,
    });
    pulse
}

/// Whether this process was told to end.
pub(crate) fn is_begun() -> bool {
    BEGUN.get().is_some()
}

/// Whether what is silent now is not waited for any more.
pub(crate) fn is_due() -> bool {
    BEGUN.get().is_some_and(|begun| begun.elapsed() >= SILENCE)
}

/// From now on no session of this process waits long for a server that says nothing: a wait ends
/// after seven tenths of a second, a command that goes on and on a little later, both as
/// [`Error::Io`](crate::Error::Io). Names are no longer resolved. Goes on until the process ends,
/// so it takes a thread of its own.
pub fn end_waits() -> ! {
    let begun = *BEGUN.get_or_init(Instant::now);
    loop {
        let now = Instant::now();
        let is_late = now.duration_since(begun) >= COMMAND;
        let silence = if is_late { SILENCE_LATE } else { SILENCE };
        let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
        for noted in &mut sockets.noted {
            if noted.is_to_end(now, silence)
                && let Some(socket) = noted.socket.upgrade()
            {
                // Fails for one that is not connected yet, and is tried again.
                let _ = shutdown(&*socket, Shutdown::Both);
            }
        }
        drop(sockets);
        thread::sleep(LOOK);
    }
}

impl Noted {
    /// Looks at the session: whether it waits, or goes on with one command, for too long.
    fn is_to_end(&mut self, now: Instant, silence: Duration) -> bool {
        let waits = self.pulse.waits.load(Ordering::Relaxed);
        let commands = self.pulse.commands.load(Ordering::Relaxed);
        let seen = self.seen.get_or_insert(Seen {
            waits,
            waits_since: now,
            commands,
            commands_since: now,
        });
        let is_busy = waits % 2 == 1 || waits != seen.waits;
        if waits != seen.waits {
            (seen.waits, seen.waits_since) = (waits, now);
        }
        if commands != seen.commands {
            (seen.commands, seen.commands_since) = (commands, now);
        }
        let is_silent = waits % 2 == 1 && now.duration_since(seen.waits_since) >= silence;
        is_silent || is_busy && now.duration_since(seen.commands_since) >= COMMAND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted() -> Noted {
        Noted {
            socket: Weak::new(),
            pulse: Arc::default(),
            seen: None,
        }
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_wait_ends_when_it_has_lasted() {
        let (mut noted, began) = (noted(), Instant::now());
        noted.pulse.wait();
        assert!(!noted.is_to_end(began, SILENCE));
        assert!(!noted.is_to_end(began + SILENCE - MS, SILENCE));
        assert!(noted.is_to_end(began + SILENCE, SILENCE));
        // An answer came, and the next wait has only begun.
        noted.pulse.wait();
        noted.pulse.command();
        noted.pulse.wait();
        assert!(!noted.is_to_end(began + SILENCE, SILENCE));
    }

    #[test]
    fn a_command_that_gets_bytes_and_no_end_is_ended_too() {
        let (mut noted, began) = (noted(), Instant::now());
        noted.pulse.command();
        let mut at = began;
        while at < began + COMMAND {
            assert!(!noted.is_to_end(at, SILENCE));
            noted.pulse.wait();
            noted.pulse.wait();
            at += 10 * MS;
        }
        noted.pulse.wait();
        assert!(noted.is_to_end(began + COMMAND, SILENCE));
    }

    #[test]
    fn a_session_without_a_wait_is_left_alone() {
        let (mut noted, began) = (noted(), Instant::now());
        assert!(!noted.is_to_end(began, SILENCE));
        assert!(!noted.is_to_end(began + 100 * COMMAND, SILENCE));
    }
}
