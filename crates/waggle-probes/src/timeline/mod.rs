//! When does each thread of a watched process leave and take a processor, why, in which calls, and
//! who wakes it?
//!
//! One object on the scheduler's raw tracepoints; no symbols and no probe in the process itself.
//! Neighbours: `sched` sums times in the kernel for the statement probe; here every switch is a
//! record, for `trace`. `bpf/unwind.h` walks the stacks.
//!
//! Invariant: records of one processor are in the order of their time; a record that was lost shows
//! in the head of the next of its processor.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/timeline.skel.rs"));
}

mod areas;
mod calls;
mod record;

pub use crate::record::{Head, Name, Stack, StackEnd, addresses};
pub(crate) use areas::Areas;
pub use areas::ROWS_OF_FILE_MAX;
pub use record::{Record, Why};

use std::collections::BTreeSet;
use std::mem::offset_of;

use libbpf_rs::{Link, Map, MapCore, MapFlags};

use crate::object::{Loaded, ProbeError, detach_all, refused, set_initial};
use crate::plain::{Plain, bytes_of};
use crate::ring::{Ring, ring_bytes};
use crate::sample::SampleProbe;
pub(crate) use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timeline.bpf.o"));
const PROGRAMS: [&str; 4] = [
    "sched_switch",
    "sched_waking",
    "sched_process_fork",
    "sched_process_exit",
];

/// Maps by which stacks are walked.
const SHARED: [&str; 3] = ["unwind_rows", "unwind_processes", "unwind_sent"];

/// Why there is no timeline here.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// The kernel refused the programs, a map or an attachment.
    #[error("following the scheduler: {0}")]
    Probe(#[from] ProbeError),
    /// The process has ended, or may not be looked at.
    #[error("reading what process {pid} has mapped: {source}")]
    Process {
        /// Which.
        pid: u32,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What is recorded, and how much room there is.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Room for records, bytes; taken up to a power of two.
    pub ring_bytes: u32,
    /// Keep the stacks of threads that begin to wait.
    pub stacks: bool,
    /// Keep the stacks of wakers.
    pub waker_stacks: bool,
    /// Tell only of threads that the point probes follow (`TimelineProbe::followed`).
    pub followed_only: bool,
}

impl Options {
    fn walks(&self) -> bool {
        self.stacks || self.waker_stacks
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ring_bytes: 16 << 20,
            stacks: true,
            waker_stacks: true,
            followed_only: false,
        }
    }
}

/// What the kernel half counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records written, stacks not among them.
    pub events: u64,
    /// Records that found no room.
    pub lost: u64,
    /// Stacks walked.
    pub stacks: u64,
    /// Calls in them.
    pub frames: u64,
    /// Stacks that do not reach the thread's beginning.
    pub cut: u64,
    /// Stacks that found no room; each was tried again at its next occurrence.
    pub unsent: u64,
}

/// The loaded probe, for all watched processes.
#[derive(Debug)]
pub struct TimelineProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<Link>,
    object: Loaded,
    ring: Ring,
    pids: BTreeSet<u32>,
    /// `None`: another probe has described them in maps that both share.
    areas: Option<Areas>,
    /// Stacks are walked, so their rows are needed.
    walks: bool,
}

impl TimelineProbe {
    /// Loads the kernel half. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses: it does not describe its types, is older than 5.17, or the rights lack.
    pub fn load(options: &Options) -> Result<Self, TimelineError> {
        Self::load_beside(options, None)
    }

    /// As [`load`](Self::load), but stacks are walked by what `sampler` knows of the processes,
    /// which has to watch them too; and threads that are preempted have their stacks as well.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_beside(
        options: &Options,
        sampler: Option<&SampleProbe>,
    ) -> Result<Self, TimelineError> {
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with(".rodata") {
                let config = config(options, sampler.is_some());
                set_initial(map, offset_of!(types::rodata, config), bytes_of(&config));
            } else if name == "events" {
                let bytes = ring_bytes(options.ring_bytes);
                map.set_max_entries(bytes).map_err(refused)?;
            } else if let Some(sampler) = sampler
                && SHARED.contains(&name)
            {
                let shared = sampler.with_map(name, |fd| map.reuse_fd(fd));
                shared.map_err(refused)?;
            } else if (name == "followed" && !options.followed_only)
                || (name == "unwind_rows" && !options.walks())
            {
                map.set_max_entries(1).map_err(refused)?;
            }
            Ok(())
        })?;
        Ok(Self {
            links: Vec::new(),
            ring: object.ring()?,
            object,
            pids: BTreeSet::new(),
            areas: sampler.is_none().then(Areas::default),
            walks: options.walks(),
        })
    }

    /// Attaches to the scheduler. Costs next to nothing until a process is watched.
    ///
    /// # Errors
    /// The kernel refuses; nothing is attached then.
    pub fn attach(&mut self) -> Result<(), TimelineError> {
        self.links.clear();
        self.links = self.object.at_tracepoints(&PROGRAMS)?;
        Ok(())
    }

    /// Leaves the scheduler alone. What was recorded can still be read.
    pub fn detach(&mut self) {
        detach_all(self.links.drain(..));
    }

    /// What is to be detached, for whoever detaches something else beside.
    pub(crate) fn take_links(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.links)
    }

    /// Watches a process's threads, those to come included. Called again, takes note of what the
    /// process has mapped since.
    ///
    /// # Errors
    /// The process has ended, or a map cannot be written.
    pub fn watch(&mut self, pid: u32) -> Result<(), TimelineError> {
        if let Some(areas) = &mut self.areas {
            let described = if self.walks {
                let rows = self.object.map("unwind_rows");
                let processes = self.object.map("unwind_processes");
                areas.describe(pid, &rows, &processes)
            } else {
                std::fs::metadata(format!("/proc/{pid}/maps")).map(drop)
            };
            described.map_err(|source| TimelineError::Process { pid, source })?;
        }
        if !self.pids.contains(&pid) {
            self.object
                .map("watched")
                .update(&pid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
                .map_err(refused)?;
            self.pids.insert(pid);
            self.write_bits()?;
        }
        Ok(())
    }

    /// The map of followed threads, for the point probes to keep.
    pub(crate) fn followed(&self) -> Map<'_> {
        self.object.map("followed")
    }

    /// Forgets a process; harmless if it is not watched.
    pub fn unwatch(&mut self, pid: u32) {
        self.pids.remove(&pid);
        let _ = self.write_bits();
        let own = if self.areas.is_some() {
            &["watched", "unwind_processes"][..]
        } else {
            &["watched"]
        };
        for map in own {
            let _ = self.object.map(map).delete(&pid.to_ne_bytes());
        }
    }

    /// Files whose code is walked by frame pointers, since they have no rows or too many.
    pub fn by_frame_pointers(&self) -> &[String] {
        self.areas.as_ref().map_or(&[], Areas::by_frame_pointers)
    }

    /// Lends every record that is there to `each`; returns how many.
    pub fn read(&mut self, mut each: impl FnMut(&Head, &Record<'_>)) -> usize {
        self.ring.consume(usize::MAX, |bytes| {
            if let Some((head, record)) = record::parse(bytes) {
                each(&head, &record);
            }
        })
    }

    /// What the kernel half counted so far.
    pub fn counters(&self) -> Counters {
        use types::timeline_counters as t;
        let records = [offset_of!(t, events), offset_of!(t, lost)];
        let records = self.object.sums("counters", records);
        let [events, lost] = records.unwrap_or_default();
        let [stacks, frames, cut, unsent] = self.object.walked();
        Counters {
            events,
            lost,
            stacks,
            frames,
            cut,
            unsent,
        }
    }

    /// Records that found no room so far, by processor.
    pub fn lost(&self) -> Vec<u64> {
        let at = offset_of!(types::timeline_counters, lost);
        let lost = self.object.by_processor("counters", at);
        lost.unwrap_or_default()
    }

    /// Name, runs and total run time (ns) of each program on the whole host, as the kernel counted
    /// them while [`RunTimeStats`](crate::kernel::RunTimeStats) was held.
    pub fn run_times(&self) -> Vec<(&'static str, u64, u64)> {
        self.object.run_times(&PROGRAMS)
    }

    fn write_bits(&self) -> Result<(), ProbeError> {
        use types::watched_bits as t;
        let mut watched = vec![0u8; size_of::<t>()];
        let words = offset_of!(t, words);
        let bits = size_of_val(&t::default().words) * 8;
        for pid in &self.pids {
            let bit = *pid as usize % bits;
            watched[words + bit / 8] |= 1 << (bit % 8);
        }
        if let (1, Some(only)) = (self.pids.len(), self.pids.first()) {
            let at = offset_of!(t, only);
            watched[at..at + 4].copy_from_slice(&only.to_ne_bytes());
        }
        self.object.write(".data.watched", &watched)
    }
}

/// What the kernel half is told; `preempted`: the stacks of threads that are preempted, too.
fn config(options: &Options, preempted: bool) -> types::timeline_config {
    let mut config = types::timeline_config {
        stacks: options.stacks.into(),
        waker_stacks: options.waker_stacks.into(),
        preempted_stacks: (options.stacks && preempted).into(),
        followed_only: options.followed_only.into(),
        ..Default::default()
    };
    calls::fill(&mut config.calls);
    config
}

// SAFETY: integers without padding.
unsafe impl Plain for types::timeline_config {}
