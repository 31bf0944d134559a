//! What does each thread of a server do now, and where did its statement's time go so far?
//!
//! Invariant: what is read here may be written at the same moment, so every number is bounded by
//! the others, and none is trusted beyond that.

use super::types;
use crate::record::{half, word};
use crate::statement::Times;
use crate::wait::WaitClass;

/// What a thread does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// On a processor.
    OnCpu,
    /// Preempted: ready to run, but not running.
    Runnable,
    /// Blocked. One that was woken and waits for a processor still counts as blocked here.
    Blocked(WaitClass),
    /// Waits for the client's next statement.
    Idle,
}

/// A server's thread at the moment of looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveThread {
    /// Thread id.
    pub tid: u32,
    /// Process id of the server.
    pub pid: u32,
    /// What it does.
    pub doing: Doing,
    /// Since when, ns of the monotonic clock; 0 if it has not been seen to switch yet.
    pub since_ns: u64,
    /// The session object of its last finished statement; 0 if it has finished none.
    pub thd: u64,
    /// When that statement ended, ns of the monotonic clock; 0 if none has.
    pub last_end_ns: u64,
    /// Since when the times below are counted: since a statement came in or another ended.
    counted_since_ns: u64,
    runnable_ns: u64,
    blocked_ns: [u64; WaitClass::COUNT],
}

impl LiveThread {
    /// One entry of the map `threads`.
    pub(super) fn parse(key: &[u8], value: &[u8]) -> Option<Self> {
        use std::mem::offset_of;
        use types::thread_state as state;
        let word = |value: &[u8], at| word(value, at).unwrap_or(0);
        let out_ns = word(value, offset_of!(state, out_ns));
        let in_ns = word(value, offset_of!(state, in_ns));
        let away = half(value, offset_of!(state, away))?;
        let is_running = word(value, offset_of!(state, start_running)) != 0;
        let tally = if is_running {
            offset_of!(state, whole)
        } else {
            offset_of!(state, recent)
        };
        let since_ns = word(value, tally + offset_of!(types::tally, since_ns));
        let seen = half(value, tally + offset_of!(types::tally, seen))?;
        let mut thread = Self {
            tid: half(key, 0)?,
            pid: half(value, offset_of!(state, tgid))?,
            doing: if out_ns > in_ns {
                doing(away)
            } else {
                Doing::OnCpu
            },
            since_ns: out_ns.max(in_ns),
            thd: word(value, offset_of!(state, thd)),
            last_end_ns: word(value, offset_of!(state, end_ns)),
            counted_since_ns: since_ns,
            runnable_ns: word(value, tally + offset_of!(types::tally, runnable_ns)),
            blocked_ns: [0; WaitClass::COUNT],
        };
        let blocked = tally + offset_of!(types::tally, blocked_ns);
        for (class, ns) in thread.blocked_ns.iter_mut().enumerate() {
            if seen & 1 << class != 0 {
                *ns = word(value, blocked + 8 * class);
            }
        }
        thread.add_last_time_away(away, out_ns, in_ns);
        Some(thread)
    }

    /// The kernel half accounts for a time away when the thread leaves again, or ends a statement.
    fn add_last_time_away(&mut self, away: u32, out_ns: u64, in_ns: u64) {
        let away_ns = in_ns.saturating_sub(out_ns);
        match doing(away) {
            _ if away == types::departure::AWAY_NOT.0 => {}
            Doing::Blocked(class) => self.blocked_ns[class.index()] += away_ns,
            Doing::Runnable => self.runnable_ns += away_ns,
            // It waited for this statement.
            _ if in_ns > out_ns => {
                self.counted_since_ns = in_ns;
                self.runnable_ns = 0;
                self.blocked_ns = [0; WaitClass::COUNT];
            }
            _ => {}
        }
    }

    /// Since when its times are counted, ns of the monotonic clock: since its statement came in, or
    /// the one before ended. 0 if that is not known.
    pub fn counted_since_ns(&self) -> u64 {
        self.counted_since_ns
    }

    /// Where the time went until `now_ns` of what it carries out since `start_ns`, both on the
    /// monotonic clock; `None` if it waits for a statement.
    pub fn times(&self, start_ns: u64, now_ns: u64) -> Option<Times> {
        let wall_ns = now_ns.saturating_sub(start_ns);
        let known_ns = now_ns.saturating_sub(self.counted_since_ns).min(wall_ns);
        let mut left_ns = known_ns;
        let mut take = |ns: u64| {
            let taken = ns.min(left_ns);
            left_ns -= taken;
            taken
        };
        let away_ns = now_ns.saturating_sub(self.since_ns);
        let mut times = Times::default();
        match self.doing {
            Doing::Idle => return None,
            Doing::OnCpu => {}
            Doing::Runnable => times.runnable_ns = take(away_ns),
            Doing::Blocked(class) => times.blocked_ns[class.index()] = take(away_ns),
        }
        times.runnable_ns += take(self.runnable_ns);
        for (sum, ns) in times.blocked_ns.iter_mut().zip(self.blocked_ns) {
            *sum += take(ns);
        }
        times.cpu_ns = left_ns;
        times.remainder_ns = wall_ns - known_ns;
        Some(times)
    }
}

fn doing(away: u32) -> Doing {
    match away {
        class if class < types::wait_class::WAIT_CLASSES.0 => {
            Doing::Blocked(WaitClass::ALL[class as usize])
        }
        other if other == types::departure::AWAY_RUNNABLE.0 => Doing::Runnable,
        other if other == types::departure::AWAY_CLIENT.0 => Doing::Blocked(WaitClass::NetworkRead),
        _ => Doing::Idle,
    }
}
