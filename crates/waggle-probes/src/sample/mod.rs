//! Which calls is a thread of a watched process in, each time that a processor's clock ticks?
//!
//! A clock of the kernel's on each processor, since virtual machines often have no counters; the
//! kernel half passes over what is nobody's concern. Neighbours: `timeline` tells what threads wait
//! for, and may share the maps by which stacks are walked; `bpf/unwind.h` walks them.
//!
//! An interrupt may come before a function has made its frame, or after it has left it, so the
//! innermost call is always found by the rows of `.eh_frame`, also in files that keep frame
//! pointers.
//!
//! Invariant: every tick in a watched thread is a record or is counted as lost.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/sample.skel.rs"));
}

mod cpus;
mod record;

pub use record::{Record, Sample};

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags};

use crate::clock::now_ns;
use crate::object::{Loaded, ProbeError, detach_all, refused, set_initial};
use crate::processors;
use crate::ring::{Ring, ring_bytes};
use crate::timeline::{Areas, Head};
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sample.bpf.o"));

/// Rows of `.eh_frame` of all files together: two servers of each kind, and their libraries; 16
/// bytes each.
const ROWS_MAX: u32 = 1 << 20;
/// Processes watched at a time, as many as the maps of watched ones hold, here and of the timeline.
const PROCESSES_MAX: u32 = 1024;
/// Of one file.
const ROWS_OF_FILE_MAX: usize = 700_000;

/// Most samples a second of one processor.
pub const FREQUENCY_HZ_MAX: u32 = 10_000;

/// Why there are no samples here.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The kernel refused the program, a map or an attachment.
    #[error("sampling: {0}")]
    Probe(#[from] ProbeError),
    /// The kernel refused a clock.
    #[error("starting the clock of processor {cpu}: {source}")]
    Clock {
        /// Which.
        cpu: i32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The process has ended, or may not be looked at.
    #[error("reading what process {pid} has mapped: {source}")]
    Process {
        /// Which.
        pid: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// The processors could not be listed.
    #[error("listing the processors: {0}")]
    Processors(std::io::Error),
}

/// How often samples are taken, and of what.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Samples a second, of each processor; 1 to [`FREQUENCY_HZ_MAX`].
    pub frequency_hz: u32,
    /// The kernel's own calls, too.
    pub kernel: bool,
    /// Room for records, bytes; taken up to a power of two.
    pub ring_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            frequency_hz: 99,
            kernel: false,
            ring_bytes: 4 << 20,
        }
    }
}

/// What the kernel half counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Ticks of all processors' clocks, whoever ran.
    pub ticks: u64,
    /// Samples written.
    pub taken: u64,
    /// Samples that found no room.
    pub lost: u64,
    /// Samples in the kernel whose calls there could not be read.
    pub kernel_unread: u64,
    /// Samples whose outermost calls of the kernel may be missing.
    pub kernel_deep: u64,
    /// Stacks walked.
    pub stacks: u64,
    /// Of these, that do not reach the thread's beginning.
    pub cut: u64,
    /// Stacks that found no room; each was tried again at its next occurrence.
    pub unsent: u64,
}

/// The loaded probe, for all watched processes.
#[derive(Debug)]
pub struct SampleProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<Link>,
    object: Loaded,
    ring: Ring,
    pids: BTreeSet<u32>,
    areas: Areas,
    period_ns: u64,
    /// Since when the clocks tick, if they do.
    ticking_ns: Option<u64>,
    /// Ticks that were due while they did.
    due: u64,
}

impl SampleProbe {
    /// Loads the kernel half. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses: it does not describe its types, is older than 5.17, or the rights lack.
    pub fn load(options: &Options) -> Result<Self, SampleError> {
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with(".rodata") {
                let at =
                    offset_of!(types::rodata, config) + offset_of!(types::sample_config, kernel);
                set_initial(map, at, &u32::from(options.kernel).to_ne_bytes());
                return Ok(());
            }
            let entries = match name {
                "events" => ring_bytes(options.ring_bytes),
                "unwind_rows" => ROWS_MAX,
                "unwind_processes" => PROCESSES_MAX,
                _ => return Ok(()),
            };
            map.set_max_entries(entries).map_err(refused)
        })?;
        let frequency_hz = options.frequency_hz.clamp(1, FREQUENCY_HZ_MAX);
        Ok(Self {
            links: Vec::new(),
            ring: object.ring()?,
            object,
            pids: BTreeSet::new(),
            areas: Areas::interrupted(ROWS_OF_FILE_MAX),
            period_ns: 1_000_000_000 / u64::from(frequency_hz),
            ticking_ns: None,
            due: 0,
        })
    }

    /// The time of its thread that a sample stands for, ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Starts the clocks of all processors that run.
    ///
    /// # Errors
    /// The kernel refuses; none ticks then.
    pub fn attach(&mut self) -> Result<(), SampleError> {
        self.detach();
        let cpus = processors::online().map_err(SampleError::Processors)?;
        let program = self.object.program("sample");
        let links = cpus.into_iter().map(|cpu| {
            cpus::start(&program, cpu, self.period_ns)
                .map_err(|source| SampleError::Clock { cpu, source })
        });
        self.links = links.collect::<Result<_, _>>()?;
        self.ticking_ns = Some(now_ns());
        Ok(())
    }

    /// Stops the clocks. What was recorded can still be read.
    pub fn detach(&mut self) {
        self.due = self.due();
        self.ticking_ns = None;
        detach_all(self.links.drain(..));
    }

    /// Watches a process's threads, those to come included. Called again, takes note of what the
    /// process has mapped since.
    ///
    /// # Errors
    /// The process has ended, or a map cannot be written.
    pub fn watch(&mut self, pid: u32) -> Result<(), SampleError> {
        let rows = self.object.map("unwind_rows");
        let processes = self.object.map("unwind_processes");
        self.areas
            .describe(pid, &rows, &processes)
            .map_err(|source| SampleError::Process { pid, source })?;
        if !self.pids.contains(&pid) {
            self.object
                .map("watched")
                .update(&pid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
                .map_err(refused)?;
            self.pids.insert(pid);
        }
        Ok(())
    }

    /// Forgets a process; harmless if it is not watched.
    pub fn unwatch(&mut self, pid: u32) {
        self.pids.remove(&pid);
        for map in ["watched", "unwind_processes"] {
            let _ = self.object.map(map).delete(&pid.to_ne_bytes());
        }
    }

    /// Files whose code is walked by frame pointers alone, since they have no rows or too many.
    pub fn by_frame_pointers(&self) -> &[String] {
        self.areas.by_frame_pointers()
    }

    /// Lends every record that is there to `each`; returns how many.
    pub fn read(&mut self, mut each: impl FnMut(&Head, &Record<'_>)) -> usize {
        self.ring.consume(usize::MAX, |bytes| {
            if let Some((head, record)) = record::parse(bytes) {
                each(&head, &record);
            }
        })
    }

    /// Ticks that were due on all processors while the clocks ticked. That fewer came is no loss of
    /// a few at the edges; of many, the kernel throttled the clocks or a host kept its processors.
    pub fn due(&self) -> u64 {
        let ticking = self.ticking_ns.map_or(0, |since_ns| {
            now_ns().saturating_sub(since_ns) / self.period_ns * self.links.len() as u64
        });
        self.due + ticking
    }

    /// What the kernel half counted so far.
    pub fn counters(&self) -> Counters {
        use types::sample_counters as t;
        let samples = [
            offset_of!(t, ticks),
            offset_of!(t, taken),
            offset_of!(t, lost),
            offset_of!(t, kernel_unread),
            offset_of!(t, kernel_deep),
        ];
        let samples = self.object.sums("counters", samples);
        let [ticks, taken, lost, kernel_unread, kernel_deep] = samples.unwrap_or_default();
        let [stacks, _, cut, unsent] = self.object.walked();
        Counters {
            ticks,
            taken,
            lost,
            kernel_unread,
            kernel_deep,
            stacks,
            cut,
            unsent,
        }
    }

    /// Runs and total run time (ns) of the program on the whole host, as the kernel counted them
    /// while [`RunTimeStats`](crate::kernel::RunTimeStats) was held.
    pub fn run_time(&self) -> Option<(u64, u64)> {
        self.object.run_time("sample")
    }

    /// Lends a map of the kernel half, by its name.
    pub(crate) fn with_map<T>(&self, name: &str, share: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        let map = self.object.map(name);
        share(map.as_fd())
    }
}
