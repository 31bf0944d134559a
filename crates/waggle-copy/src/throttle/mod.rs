//! What holds a copy back so that serving goes on.
//!
//! Neighbours: `ingest` asks before each slice; `watch` looks at the servers; `apply` heeds the
//! pause and its file only. Invariant: a copy that is held back holds no lock and no open
//! transaction at the target.

mod watch;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::error::CopyError;

pub use watch::watch;

/// How often a held copy looks whether it may go on.
const LOOK: Duration = Duration::from_millis(50);

/// Limits; none by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Bytes of row data a second.
    pub rate_bytes_per_s: Option<u64>,
    /// While this file exists the copy pauses.
    pub pause_file: Option<PathBuf>,
    /// Status counters of the source, such as `Threads_running`, and what they may be at most.
    pub load_max: Vec<(String, u64)>,
    /// The source's history list may be this long.
    pub history_max: Option<u64>,
    /// A replica of the target may be this far behind.
    pub lag_max: Option<Duration>,
}

impl Limits {
    /// Bytes that one of `workers` may copy in one transaction: no more than a second's share of
    /// the rate, so that the rate is even.
    pub fn slice_bytes(&self, slice_bytes: u64, workers: usize) -> u64 {
        match self.rate_bytes_per_s {
            Some(rate) => slice_bytes.min(rate / workers.max(1) as u64).max(1),
            None => slice_bytes,
        }
    }
}

/// Holds threads back, by all limits.
#[derive(Debug)]
pub struct Throttle {
    limits: Limits,
    /// Set by `watch` while a server is above a limit.
    is_loaded: AtomicBool,
    /// When the bytes so far are paid for.
    paid: Mutex<Instant>,
}

impl Throttle {
    /// Nothing copied yet.
    pub fn new(limits: &Limits) -> Throttle {
        Throttle {
            limits: limits.clone(),
            is_loaded: AtomicBool::new(false),
            paid: Mutex::new(Instant::now()),
        }
    }

    /// Waits until the next slice or batch may begin.
    ///
    /// # Errors
    /// [`CopyError::Stopped`].
    pub fn wait(&self, control: &Control) -> Result<(), CopyError> {
        loop {
            if control.is_stopping() {
                return Err(CopyError::Stopped);
            }
            let file = self.limits.pause_file.as_ref();
            let is_held = control.is_paused()
                || self.is_loaded.load(Ordering::Relaxed)
                || file.is_some_and(|file| file.exists());
            let now = Instant::now();
            let early = self.paid().saturating_duration_since(now);
            if !is_held && early.is_zero() {
                return Ok(());
            }
            std::thread::sleep(if is_held { LOOK } else { early.min(LOOK) });
        }
    }

    /// Counts bytes that were copied.
    pub fn pay(&self, bytes: u64) {
        let Some(rate) = self.limits.rate_bytes_per_s else {
            return;
        };
        let cost = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let mut paid = self
            .paid
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        // Time in which nothing was copied is not saved up.
        *paid = (*paid).max(Instant::now()) + cost;
    }

    fn paid(&self) -> Instant {
        *self
            .paid
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_makes_slices_small_and_takes_time() {
        let limits = Limits {
            rate_bytes_per_s: Some(1000),
            ..Limits::default()
        };
        assert_eq!(limits.slice_bytes(1 << 20, 4), 250);
        assert_eq!(limits.slice_bytes(10, 4), 10);
        assert_eq!(Limits::default().slice_bytes(1 << 20, 4), 1 << 20);
        let throttle = Throttle::new(&limits);
        let before = throttle.paid();
        throttle.pay(50_000);
        assert!(throttle.paid() >= before + Duration::from_secs(50));
    }

    #[test]
    fn a_pause_ends_with_its_file_and_a_stop_ends_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let limits = Limits {
            pause_file: Some(file.path().to_owned()),
            ..Limits::default()
        };
        let (throttle, control) = (Throttle::new(&limits), Control::new());
        std::thread::scope(|scope| {
            let held = scope.spawn(|| throttle.wait(&control).is_ok());
            drop(file);
            assert!(held.join().unwrap());
        });
        control.pause(true);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| throttle.wait(&control).is_err());
            control.stop();
            assert!(held.join().unwrap());
        });
    }
}
