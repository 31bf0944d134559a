//! Who sleeps for a latch, and who lets go of one that is slept for?
//!
//! [`LatchProbe::load`] makes the kernel half fit one process, `attach_server` places it in a
//! server at what `waggle_symbols::latch` found, `attach_futexes` at the kernel's calls,
//! `attach_static` at a program's own probes; `read` hands out records. Neighbours: `bpf/unwind.h`
//! walks the stacks; `waggle-trace` joins sleeps and releases.
//!
//! Invariant: nothing runs for a latch that is free, except where an event is set that nobody
//! sleeps for. Records of one processor are in the order of their time; a record that was lost
//! shows in the head of the next of its processor, and in [`LatchProbe::lost`].

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/latch.skel.rs"));
}

mod config;
mod record;

pub use config::StaticProbe;
pub use record::{Record, Sleep, Source};

use std::mem::offset_of;
use std::path::Path;

use libbpf_rs::Link;
use waggle_symbols::{LatchHook, LatchLayout, Site, TrapCost};

pub use crate::object::ProbeError;
use crate::object::{Loaded, Uprobe, check_bytes, detach_all, refused, set_initial};
use crate::plain::bytes_of;
use crate::ring::{Ring, ring_bytes};
use crate::timeline::{Areas, Head};
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/latch.bpf.o"));
const PROGRAMS: [&str; 12] = [
    "latch_wanted",
    "latch_sleeps",
    "latch_wakes",
    "latch_sets",
    "metadata_sleeps",
    "metadata_wakes",
    "metadata_told",
    "futex_begins",
    "futex_ends",
    "static_sleeps",
    "static_wakes",
    "static_releases",
];

fn program(hook: LatchHook) -> &'static str {
    match hook {
        LatchHook::Wanted => "latch_wanted",
        LatchHook::Sleeps => "latch_sleeps",
        LatchHook::Wakes => "latch_wakes",
        LatchHook::Sets => "latch_sets",
        LatchHook::MetadataSleeps => "metadata_sleeps",
        LatchHook::MetadataWakes => "metadata_wakes",
        LatchHook::MetadataTold => "metadata_told",
    }
}

/// Of the counts of sleepers in the kernel half.
const SLEPT_ON_BYTES: usize = 4 * types::latch_limit::LATCH_SLEPT_ON.0 as usize;

/// Most static probes of one process; those beyond are not attached.
pub const STATIC_MAX: usize = 64;

/// What is recorded, and how much room there is.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Room for records, bytes; taken up to a power of two.
    pub ring_bytes: u32,
    /// Sleeps with `FUTEX_WAIT_BITSET` too: rw-locks of the C library, and conditions.
    pub bitset: bool,
}

/// A place where a program of the kernel half was to be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What it reports.
    pub name: String,
    /// Function and offset, or the kernel's own point.
    pub place: String,
    /// The kernel emulates the instruction there; `None`: it is no instruction of the process.
    pub emulated: Option<bool>,
    /// Why it is not attached.
    pub refused: Option<String>,
}

/// What the kernel half counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Runs that were no one else's concern.
    pub hits: u64,
    /// Records written, stacks not among them.
    pub records: u64,
    /// Records that found no room.
    pub lost: u64,
    /// Events set, and futexes woken, that nobody slept on.
    pub sets: u64,
    /// Stacks walked.
    pub stacks: u64,
    /// Stacks that do not reach the thread's beginning.
    pub cut: u64,
    /// Stacks that found no room; each was tried again at its next occurrence.
    pub unsent: u64,
}

/// The loaded probe of one process.
#[derive(Debug)]
pub struct LatchProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<Link>,
    object: Loaded,
    ring: Ring,
    areas: Areas,
    pid: u32,
}

impl LatchProbe {
    /// Loads the kernel half for process `pid`. Attaches nothing. `thread_number` is the offset in
    /// a `pthread_t` of the process's C library, if known.
    ///
    /// # Errors
    /// The kernel refuses: it does not describe its types, is older than 5.17, or the rights lack.
    pub fn load(
        pid: u32,
        layout: &LatchLayout,
        thread_number: Option<u32>,
        statics: &[StaticProbe],
        options: &Options,
    ) -> Result<Self, ProbeError> {
        let config = config::config(pid, layout, thread_number, statics, options.bitset);
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with(".rodata") {
                set_initial(map, offset_of!(types::rodata, config), bytes_of(&config));
            } else if name == "events" {
                let bytes = ring_bytes(options.ring_bytes);
                map.set_max_entries(bytes).map_err(refused)?;
            }
            Ok(())
        })?;
        let mut probe = Self {
            links: Vec::new(),
            ring: object.ring()?,
            object,
            areas: Areas::default(),
            pid,
        };
        probe.look_at_mappings()?;
        Ok(probe)
    }

    /// Takes note of what the process has mapped by now, for the stacks.
    ///
    /// # Errors
    /// The process has ended, or a map cannot be written.
    pub fn look_at_mappings(&mut self) -> Result<(), ProbeError> {
        let rows = self.object.map("unwind_rows");
        let processes = self.object.map("unwind_processes");
        self.areas
            .describe(self.pid, &rows, &processes)
            .map_err(|source| ProbeError::Io {
                doing: format!("reading what process {} has mapped", self.pid),
                source,
            })
    }

    /// Attaches at every site of a server. The ends of sleeps come first, so that no sleep is told
    /// without its end.
    pub fn attach_server(&mut self, binary: &Path, layout: &LatchLayout) -> Vec<Placed> {
        let order = [
            LatchHook::Wakes,
            LatchHook::MetadataWakes,
            LatchHook::Sets,
            LatchHook::MetadataTold,
            LatchHook::Sleeps,
            LatchHook::MetadataSleeps,
            LatchHook::Wanted,
        ];
        let sites = order.iter().filter_map(|hook| layout.site(*hook));
        let mut placed = Vec::new();
        for site in sites {
            let name = site.hook.as_str();
            placed.push(self.attach(name, binary, program(site.hook), &site.site, (0, 0)));
        }
        placed
    }

    /// Attaches at the kernel's futex calls.
    pub fn attach_futexes(&mut self) -> Vec<Placed> {
        let points = [("futex_ends", "sys_exit"), ("futex_begins", "sys_enter")];
        let mut placed = Vec::new();
        for (name, point) in points {
            let made = self.object.program(name).attach_raw_tracepoint(point);
            let made = made.map_err(|error| error.to_string());
            placed.push(Placed {
                name: "futex".into(),
                place: format!("raw tracepoint {point}"),
                emulated: None,
                refused: self.keep(made),
            });
        }
        placed
    }

    /// Attaches at a program's own probes, as they were given to [`Self::load`].
    pub fn attach_static(&mut self, statics: &[StaticProbe]) -> Vec<Placed> {
        let mut placed = Vec::new();
        for (cookie, probe) in (0u64..).zip(statics.iter().take(STATIC_MAX)) {
            let (name, program) = (probe.name(), probe.program());
            let read = (cookie, probe.semaphore.unwrap_or(0));
            placed.push(self.attach(name, &probe.binary, program, &probe.site, read));
        }
        placed
    }

    /// Attaches `program` at `site`, for what is called `name` in reports.
    fn attach(
        &mut self,
        name: &str,
        binary: &Path,
        program: &str,
        site: &Site,
        (cookie, semaphore): (u64, u64),
    ) -> Placed {
        let pid = i32::try_from(self.pid).unwrap_or(i32::MAX);
        let place = Uprobe {
            offset: site.file_offset,
            cookie,
            semaphore,
        };
        let made = check_bytes(binary, site.file_offset, &site.bytes)
            .map_err(|error| error.to_string())
            .and_then(|()| {
                let made = self.object.uprobes(pid, binary, program, &[place], false);
                made.map_err(|error| error.to_string())
            });
        Placed {
            name: name.to_owned(),
            place: format!("{}+{:#x}", site.function, site.function_offset),
            emulated: Some(site.trap == TrapCost::Emulated),
            refused: self.keep(made),
        }
    }

    /// Keeps what was attached; returns why it was not.
    fn keep(&mut self, made: Result<Link, String>) -> Option<String> {
        match made {
            Ok(link) => {
                self.links.push(link);
                None
            }
            Err(why) => Some(why),
        }
    }

    /// Leaves the process alone. What was recorded can still be read.
    pub fn detach(&mut self) {
        detach_all(self.links.drain(..));
    }

    /// Forgets who sleeps for what. To be called while nothing is attached, so that no sleep whose
    /// end was not seen is left when it is attached again.
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn forget_sleepers(&self) -> Result<(), ProbeError> {
        self.object.clear("sleepers")?;
        self.object.write(".bss.slept", &vec![0; SLEPT_ON_BYTES])
    }

    /// Lends every record that is there to `each`; returns how many.
    pub fn read(&mut self, mut each: impl FnMut(&Head, &Record<'_>)) -> usize {
        self.ring.consume(usize::MAX, |bytes| {
            if let Some((head, record)) = record::parse(bytes) {
                each(&head, &record);
            }
        })
    }

    /// Bytes waiting to be read.
    pub fn backlog_bytes(&self) -> u64 {
        self.ring.backlog_bytes()
    }

    /// What the kernel half counted so far.
    pub fn counters(&self) -> Counters {
        use types::latch_counters as c;
        let counted = [
            offset_of!(c, hits),
            offset_of!(c, records),
            offset_of!(c, lost),
            offset_of!(c, sets),
        ];
        let counted = self.object.sums("counters", counted);
        let [hits, records, lost, sets] = counted.unwrap_or_default();
        let [stacks, _, cut, unsent] = self.object.walked();
        Counters {
            hits,
            records,
            lost,
            sets,
            stacks,
            cut,
            unsent,
        }
    }

    /// Records lost so far, by processor.
    pub fn lost(&self) -> Vec<u64> {
        let at = offset_of!(types::latch_counters, lost);
        let lost = self.object.by_processor("counters", at);
        lost.unwrap_or_default()
    }

    /// Name, runs and total run time (ns) of each program that ran, as the kernel counted them
    /// while [`RunTimeStats`](crate::kernel::RunTimeStats) was held.
    pub fn run_times(&self) -> Vec<(&'static str, u64, u64)> {
        let mut times = self.object.run_times(&PROGRAMS);
        times.retain(|(_, runs, _)| *runs > 0);
        times
    }
}
