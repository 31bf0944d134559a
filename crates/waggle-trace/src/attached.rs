//! For how long are programs attached, in which part of that does the kernel count their run times,
//! and what did they take in all?
//!
//! Neighbours: the sources of points and of latches attach and detach in turns; the kernel's own
//! counters are sampled, since they cost every program a little.
//!
//! Invariant: what is scaled, and what it is scaled by, are of the same time.

use waggle_probes::clock::now_ns;
use waggle_probes::kernel::SampledRunTimes;

/// Name, runs and run time (ns) of programs.
pub(crate) type RunTimes = Vec<(&'static str, u64, u64)>;

/// The time in which something is attached.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Since when something is, and for how long something was before, ns.
    since_ns: u64,
    before_ns: u64,
    is_attached: bool,
    /// `None`: run times are not wanted.
    counting: Option<SampledRunTimes>,
    /// Of no account.
    forgotten: RunTimes,
}

impl Attached {
    /// From now on; run times are counted if they are wanted.
    pub(crate) fn from_now(counted: bool) -> Self {
        let since_ns = now_ns();
        let mut counting = counted.then(SampledRunTimes::default);
        if let Some(counting) = &mut counting {
            counting.at(0);
        }
        Self {
            since_ns,
            before_ns: 0,
            is_attached: true,
            counting,
            forgotten: Vec::new(),
        }
    }

    /// It took until now before anything was.
    pub(crate) fn only_now(&mut self) {
        self.since_ns = now_ns();
    }

    /// Since when, ns of the monotonic clock.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// For how long so far, ns.
    pub(crate) fn ns(&self) -> u64 {
        let now_ns = if self.is_attached {
            now_ns().saturating_sub(self.since_ns)
        } else {
            0
        };
        self.before_ns + now_ns
    }

    /// Has the kernel begin or stop to count, when that is due. To be called often.
    pub(crate) fn look(&mut self) {
        let attached_ns = self.ns();
        if self.is_attached
            && let Some(counting) = &mut self.counting
        {
            counting.at(attached_ns);
        }
    }

    /// It is going to be detached.
    pub(crate) fn ends(&mut self) {
        self.before_ns = self.ns();
        self.is_attached = false;
        if let Some(counting) = &mut self.counting {
            counting.release(self.before_ns);
        }
    }

    /// It is going to be attached again.
    pub(crate) fn begins_again(&mut self) {
        self.since_ns = now_ns();
        self.is_attached = true;
        if let Some(counting) = &mut self.counting {
            counting.at(self.before_ns);
        }
    }

    /// The time before now is of no account, nor is what the programs took in it.
    pub(crate) fn forget(&mut self, times: RunTimes) {
        self.forgotten = times;
        self.before_ns = 0;
        if let Some(counting) = &mut self.counting {
            *counting = SampledRunTimes::default();
        }
    }

    /// What programs took that have been counted with these run times: without what is forgotten,
    /// scaled to all the time from the part of it in which the kernel counted.
    pub(crate) fn scaled(&self, times: RunTimes) -> RunTimes {
        let attached_ns = self.ns();
        let counting = self.counting.as_ref();
        let scale = counting.map_or(1.0, |counting| counting.scale(attached_ns));
        let scaled = |n: u64| (n as f64 * scale).round() as u64;
        let times = times.into_iter().map(|(name, runs, ns)| {
            let before = self.forgotten.iter().find(|before| before.0 == name);
            let (runs_before, ns_before) = before.map_or((0, 0), |before| (before.1, before.2));
            let runs = runs.saturating_sub(runs_before);
            (name, scaled(runs), scaled(ns.saturating_sub(ns_before)))
        });
        times.collect()
    }

    /// Share of the time in which the kernel counted, 0 to 1; `None` if run times are not wanted.
    pub(crate) fn counted_share(&self) -> Option<f64> {
        let attached_ns = self.ns();
        let counted_ns = self.counting.as_ref()?.counted_ns(attached_ns);
        Some(counted_ns as f64 / attached_ns.max(1) as f64)
    }
}
