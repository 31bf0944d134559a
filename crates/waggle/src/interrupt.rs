//! Ctrl-C and its kin as a flag: a run ends early, cleans up and reports. A second signal ends the
//! process at once; what it leaves to the kernel and to guardians is cleaned up by them.

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The flag; set by the first SIGINT, SIGTERM or SIGHUP after [`catch`].
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// True once a signal came.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Catches the signals from now on.
///
/// # Errors
/// The handlers cannot be installed.
pub(crate) fn catch() -> io::Result<Interrupt> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Interrupt(Arc::clone(flag)));
    }
    let set = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the flag set and ends the process.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&set))?;
        flag::register(signal, Arc::clone(&set))?;
    }
    Ok(Interrupt(Arc::clone(FLAG.get_or_init(|| set))))
}
