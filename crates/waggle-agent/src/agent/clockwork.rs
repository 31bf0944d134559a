//! The probe on the scheduler, which all servers share: loaded when the first server is, in place
//! while statements' time is split.
//!
//! Invariant: where it cannot be had, or is left out to keep within the budget, statements are
//! watched as ever, and their time is unclassified.

use std::collections::{BTreeSet, HashMap};

use waggle_probes::sched::{LiveThread, SchedProbe, THREADS_MAX};

/// The scheduler's probe.
#[derive(Debug, Default)]
pub(super) struct Clockwork {
    probe: Option<SchedProbe>,
    is_tried: bool,
    /// Why there is none.
    refused: Option<String>,
    is_attached: bool,
    /// Servers to be watched.
    pids: BTreeSet<u32>,
}

impl Clockwork {
    /// The probe, loaded at the first call.
    pub(super) fn probe(&mut self) -> Option<&SchedProbe> {
        if !std::mem::replace(&mut self.is_tried, true) {
            match SchedProbe::load(THREADS_MAX) {
                Ok(probe) => self.probe = Some(probe),
                Err(error) => self.refused = Some(error.to_string()),
            }
        }
        self.probe.as_ref()
    }

    /// Why time is not split, if it is not.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// What every thread of every server does now, by thread id; none while it is not in place.
    pub(super) fn threads(&self) -> HashMap<u32, LiveThread> {
        let mut threads = HashMap::new();
        if let Some(probe) = self.probe.as_ref().filter(|_| self.is_attached) {
            probe.each_thread(|thread| {
                threads.insert(thread.tid, thread);
            });
        }
        threads
    }

    /// A server is to be watched, now if it is in place, else once it is.
    pub(super) fn watch(&mut self, pid: u32) {
        self.pids.insert(pid);
        if self.is_attached {
            self.begin(pid);
        }
    }

    fn begin(&mut self, pid: u32) {
        if let Some(probe) = &mut self.probe
            && let Err(error) = probe.watch(pid)
        {
            self.refused = Some(error.to_string());
        }
    }

    /// The server is gone.
    pub(super) fn unwatch(&mut self, pid: u32) {
        self.pids.remove(&pid);
        if let Some(probe) = &mut self.probe {
            probe.unwatch(pid);
        }
    }

    /// Puts it in place, or takes it away. While it is away no thread is known: what is known of
    /// one would be of before, and its statements would seem to have been on a processor.
    pub(super) fn attach(&mut self, on: bool) {
        let Some(probe) = self.probe.as_mut().filter(|_| self.is_attached != on) else {
            return;
        };
        if !on {
            self.pids.iter().for_each(|pid| probe.unwatch(*pid));
            probe.detach();
        } else if let Err(error) = probe.attach() {
            self.refused = Some(error.to_string());
            return;
        }
        self.is_attached = on;
        if on {
            for pid in self.pids.clone() {
                self.begin(pid);
            }
        }
    }
}
