//! Which processes are watched by now? Children begin, servers map libraries, processes end.
//!
//! Invariant: a process that ended stays in the profile, and its id is free for another.

use std::collections::{BTreeSet, HashSet};

use super::Capture;
use crate::processes::{Process, descendants};

impl Capture {
    /// Takes note of what the processes have mapped since, and of children if they are followed.
    pub(crate) fn refresh(&mut self) {
        self.part();
        if self.options.children {
            self.meet();
        }
        for process in self.processes.iter_mut().filter(|p| !p.ended) {
            let pid = process.pid;
            let mut is_watched = self.sampler.watch(pid).is_ok();
            if let Some(scheduler) = &mut self.scheduler {
                is_watched &= scheduler.watch(pid).is_ok();
            }
            let is_named = self.names.watch(pid).is_ok();
            // One that has ended meanwhile stays as it was.
            if !(is_watched && is_named) && process.is_there() {
                process.unwatched = true;
            }
        }
    }

    /// Forgets processes that have ended, so that there is room for others, and their ids may be
    /// others'.
    fn part(&mut self) {
        let Self {
            processes,
            sampler,
            scheduler,
            ..
        } = self;
        for process in processes.iter_mut().filter(|p| !p.ended && !p.is_there()) {
            process.end();
            sampler.unwatch(process.pid);
            if let Some(scheduler) = scheduler {
                scheduler.unwatch(process.pid);
            }
        }
    }

    /// Takes note of children, and of what they are called by now.
    fn meet(&mut self) {
        let known: HashSet<u32> = self
            .processes
            .iter()
            .filter(|process| !process.ended)
            .map(|process| process.pid)
            .collect();
        let parents = self.options.pids.iter().filter(|pid| known.contains(pid));
        let children: BTreeSet<u32> = parents.flat_map(|pid| descendants(*pid)).collect();
        for pid in children.into_iter().filter(|pid| !known.contains(pid)) {
            // It may have ended by now.
            if let Ok(mut process) = Process::open(pid) {
                process.begin();
                self.processes.push(process);
            }
        }
        let there = self.processes.iter_mut().filter(|p| !p.ended);
        there.for_each(Process::rename);
    }
}
