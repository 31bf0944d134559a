//! Ctrl-C and its kin: a run ends early, cleans up and reports. A second signal ends the process at
//! once; what it leaves to the kernel and to guardians is cleaned up by them.
//!
//! The first signal sets a flag, which loops look at, and wakes a thread that ends the waits for
//! servers that say nothing ([`waggle_wire::end_waits`]): none outlives it by more than a second.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use waggle_load::Load;

/// How soon a signal is noticed by what has to look for it.
const LOOK: Duration = Duration::from_millis(100);

/// The flag; set by the first SIGINT, SIGTERM or SIGHUP after [`catch`].
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// True once a signal came.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The flag of this process; one that nothing sets before [`catch`].
fn flag_of_process() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// Whether a signal came.
pub(crate) fn is_requested() -> bool {
    flag_of_process().load(Ordering::Relaxed)
}

/// The flag itself, for a load that it is to cancel.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(flag_of_process())
}

/// How long something may be waited for: no longer at all once a signal came.
pub(crate) fn patience(usual: Duration) -> Duration {
    match is_requested() {
        true => Duration::ZERO,
        false => usual,
    }
}

/// Holds a load between two transactions; false if a statement is in flight after this time, or a
/// moment after a signal.
pub(crate) fn hold(load: &Load, limit: Duration) -> bool {
    let mut deadline = Instant::now() + limit;
    loop {
        if is_requested() {
            deadline = deadline.min(Instant::now() + LOOK);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if load.pause_within(left.min(LOOK)) {
            return true;
        }
        if left <= LOOK {
            return false;
        }
    }
}

/// Told by the thread that waits for signals, so that nobody has to look for one now and then.
static CAME: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Waits, but no longer than until a signal comes.
pub(crate) fn pause(length: Duration) {
    let came = CAME.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = CAME.1.wait_timeout_while(came, length, |came| !*came);
    drop(waited);
}

/// Catches the signals from now on.
///
/// # Errors
/// The handlers cannot be installed.
pub(crate) fn catch() -> io::Result<Interrupt> {
    static CAUGHT: OnceLock<()> = OnceLock::new();
    let set = flag();
    if CAUGHT.get().is_some() {
        return Ok(Interrupt(set));
    }
    let (wakes, mut waits) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the flag set and ends the process.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&set))?;
        flag::register(signal, Arc::clone(&set))?;
        pipe::register(signal, wakes.try_clone()?)?;
    }
    let ending = move || {
        // Refused where there are none to give up; then there is nothing to do.
        let _ = waggle_load::rights::give_up_all();
        // The handlers keep the other end open, so there is no other way out of this.
        while !matches!(waits.read(&mut [0]), Ok(1..)) {}
        *CAME.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        CAME.1.notify_all();
        waggle_wire::end_waits()
    };
    thread::Builder::new()
        .name("waggle-signals".to_owned())
        .spawn(ending)?;
    let () = CAUGHT.get_or_init(|| ());
    Ok(Interrupt(set))
}
