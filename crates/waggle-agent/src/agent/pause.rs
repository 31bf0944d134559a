//! How long does the loop rest between two turns, and what ends the rest early?
//!
//! Neighbours: the binary's loop asks for the pause and waits. Invariant: the end of a server is
//! learnt of by its descriptor, so no turn has to look for it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Agent, reborrow};
use crate::aggregate::Tap;

/// Pause between two turns: while statements come, and while none do.
const PAUSE_BUSY: Duration = Duration::from_millis(20);
const PAUSE_IDLE: Duration = Duration::from_millis(100);
/// A turn that brought so many observations is followed by the next at once.
const BACKLOG: usize = 8192;

impl Agent {
    /// How long to pause after a turn with so many observations.
    pub fn pause(events: usize) -> Duration {
        match events {
            0 => PAUSE_IDLE,
            // There may be more.
            BACKLOG.. => Duration::ZERO,
            _ => PAUSE_BUSY,
        }
    }

    /// Waits for `pause`, or until a server ends, a signal comes, or `other` can be read; returns
    /// whether it can.
    pub fn wait(
        &mut self,
        pause: Duration,
        other: Option<BorrowedFd<'_>>,
        mut tap: Option<&mut (dyn Tap + '_)>,
    ) -> bool {
        let alive: Vec<usize> = (0..self.servers.len())
            .filter(|i| self.servers[*i].ended.is_none())
            .collect();
        let mut fds: Vec<PollFd<'_>> = alive
            .iter()
            .map(|i| PollFd::new(&self.servers[*i].pidfd, PollFlags::IN))
            .collect();
        fds.extend(other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = Timespec {
            tv_sec: pause.as_secs().cast_signed(),
            tv_nsec: pause.subsec_nanos().into(),
        };
        if !matches!(poll(&mut fds, Some(&timeout)), Ok(count) if count > 0) {
            return false;
        }
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let ended = alive.iter().zip(&happened).filter(|(_, ended)| **ended);
        for (index, _) in ended {
            self.end(*index, "the server ended", reborrow(&mut tap));
        }
        other.is_some() && happened.last() == Some(&true)
    }
}
