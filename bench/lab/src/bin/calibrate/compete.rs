//! A process that takes processor time, twice as much in every other 20 s.
//!
//! It is a thread of this process, which shares nothing with server, load and observer but the
//! machine. Invariant: it ends with its value.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long each of the two loads lasts.
const PHASE: Duration = Duration::from_secs(20);
/// Busy and idle together.
const TURN: Duration = Duration::from_millis(10);
/// Share of a core in the two phases: the second is twice the first.
const SHARES: [f64; 2] = [0.5, 1.0];

/// The competitor.
#[derive(Debug)]
pub(crate) struct Competitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Competitor {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            while !told.load(Ordering::Relaxed) {
                let turn = Instant::now();
                let busy = TURN.mul_f64(share(started.elapsed()));
                while turn.elapsed() < busy {
                    std::hint::spin_loop();
                }
                std::thread::sleep(TURN.saturating_sub(turn.elapsed()));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

/// Share of a core at this time since the start.
fn share(elapsed: Duration) -> f64 {
    SHARES[(elapsed.as_secs() / PHASE.as_secs() % 2) as usize]
}

impl Drop for Competitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_doubles_and_halves_every_20_s() {
        let at = |s| share(Duration::from_secs(s));
        assert_eq!([0, 19, 20, 39, 40].map(at), [0.5, 0.5, 1.0, 1.0, 0.5]);
    }
}
