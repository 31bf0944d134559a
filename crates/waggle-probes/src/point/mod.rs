//! Which threads pass the points of a plan, when, and with what values?
//!
//! One set of programs for every kind of point: a function's entry or return, an instruction, a
//! static probe, a store to a watched word, a tracepoint. What is read at each is data ([`spec`]),
//! found by the cookie of the attachment. Neighbours: `waggle-trace` plans and reads; `ring` reads
//! records.
//!
//! Invariant: nothing is attached at a place whose bytes are not those that were decoded. Every
//! passing is a record or is counted as lost; hits are counted before any test.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/point.skel.rs"));
}

mod attach;
mod encode;
mod record;
pub mod spec;
mod watch;

pub use crate::object::ProbeError;
pub use record::PointRecord;
pub use spec::{
    Attach, Base, Comparison, Follow, Place, PointSpec, Register, STEPS_MAX, Step, Test, TrapCost,
    Value,
};

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::{Link, MapCore, MapFlags};

use crate::object::{Loaded, detach_all, refused, set_initial};
use crate::plain::bytes_of;
use crate::ring::{Ring, ring_bytes};
use crate::timeline::TimelineProbe;
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/point.bpf.o"));

/// Most places that a probe has, over all its points.
pub const SPECS_MAX: usize = types::point_limit::POINT_SPECS.0 as usize;

/// A process to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Where it has its binary's address 0.
    pub image: u64,
}

/// A place that could not be attached, with the reason.
#[derive(Debug)]
pub struct Refused {
    /// Index of the place among the specs.
    pub spec: usize,
    /// Why.
    pub error: ProbeError,
}

/// What one place cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceCost {
    /// Times that a watched process' thread came by, also those that a test ruled out.
    pub hits: u64,
    /// Time in the program, ns, without the trap that led there; the programs' own mean times
    /// hits, while [`RunTimeStats`](crate::kernel::RunTimeStats) was held.
    pub run_ns: u64,
}

/// Attached points of one or more processes.
#[derive(Debug)]
pub struct PointProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<Link>,
    watches: Vec<watch::Watch>,
    ring: Ring,
    object: Loaded,
    specs: Vec<PointSpec>,
    processes: Vec<Process>,
    refused: Vec<Refused>,
}

impl PointProbe {
    /// Loads the kernel half and attaches every place it can in these processes, which all run
    /// the binaries that the specs name. What is refused is left out: see [`PointProbe::refused`].
    /// A `scheduler` that tells of followed threads only is told here which those are.
    ///
    /// # Errors
    /// The kernel refuses the programs or a map, or there are more places than [`SPECS_MAX`].
    pub fn attach(
        specs: &[PointSpec],
        processes: &[Process],
        bytes: u32,
        scheduler: Option<&TimelineProbe>,
    ) -> Result<Self, ProbeError> {
        if specs.len() > SPECS_MAX {
            return Err(ProbeError::Io {
                doing: format!("attaching {} places of at most {SPECS_MAX}", specs.len()),
                source: std::io::ErrorKind::InvalidInput.into(),
            });
        }
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with("events") {
                map.set_max_entries(ring_bytes(bytes)).map_err(refused)?;
            } else if name == "followed"
                && let Some(scheduler) = scheduler
            {
                let theirs = scheduler.followed();
                map.set_max_entries(theirs.max_entries()).map_err(refused)?;
                map.reuse_fd(theirs.as_fd()).map_err(refused)?;
            } else if name.ends_with(".rodata")
                && let [only] = processes
            {
                use types::point_config as t;
                let at = offset_of!(types::rodata, config);
                set_initial(map, at + offset_of!(t, image), &only.image.to_ne_bytes());
                set_initial(map, at + offset_of!(t, tgid), &only.pid.to_ne_bytes());
            }
            Ok(())
        })?;
        for process in processes {
            let image = process.image.to_ne_bytes();
            let map = object.map("processes");
            map.update(&process.pid.to_ne_bytes(), &image, MapFlags::ANY)
                .map_err(refused)?;
        }
        for (number, spec) in (0u32..).zip(specs) {
            let spec = encode::spec(spec);
            let map = object.map("specs");
            map.update(&number.to_ne_bytes(), bytes_of(&spec), MapFlags::ANY)
                .map_err(refused)?;
        }
        let mut probe = Self {
            links: Vec::new(),
            watches: Vec::new(),
            ring: object.ring()?,
            object,
            specs: specs.to_vec(),
            processes: processes.to_vec(),
            refused: Vec::new(),
        };
        probe.attach_all(processes);
        Ok(probe)
    }

    /// The places that are not attached.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The places asked for.
    pub fn specs(&self) -> &[PointSpec] {
        &self.specs
    }

    /// Lends every finished record to `each`, at most `limit`; returns how many.
    pub fn consume(&mut self, limit: usize, mut each: impl FnMut(PointRecord<'_>)) -> usize {
        self.ring.consume(limit, |record| {
            if let Some(record) = PointRecord::parse(record) {
                each(record);
            }
        })
    }

    /// Bytes waiting to be read.
    pub fn backlog_bytes(&self) -> u64 {
        self.ring.backlog_bytes()
    }

    /// Records for which the ring had no room, by processor.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn lost(&self) -> Result<Vec<u64>, ProbeError> {
        let at = offset_of!(types::point_counters, lost);
        self.object.by_processor("counters", at)
    }

    /// What each place cost so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn cost(&self) -> Result<Vec<PlaceCost>, ProbeError> {
        let mut runs: BTreeMap<&str, Option<(u64, u64)>> = BTreeMap::new();
        let mut costs = Vec::new();
        for (index, spec) in self.specs.iter().enumerate() {
            let at = offset_of!(types::point_counters, hits) + 8 * index;
            let [hits] = self.object.sums("counters", [at])?;
            let program = attach::program(&spec.attach);
            let run = runs
                .entry(program)
                .or_insert_with(|| self.object.run_time(program));
            let run_ns = run.map_or(0, |(runs, ns)| {
                let total = u128::from(ns) * u128::from(hits) / u128::from(runs.max(1));
                u64::try_from(total).unwrap_or(u64::MAX)
            });
            costs.push(PlaceCost { hits, run_ns });
        }
        Ok(costs)
    }

    /// Removes every probe; records that are already written can still be read.
    pub fn detach(&mut self) {
        detach_all(self.take_links());
    }

    /// The same, and `scheduler` is detached beside: neither stays for as long as the kernel waits
    /// for the other.
    pub fn detach_with(&mut self, scheduler: Option<&mut TimelineProbe>) {
        let mut links = self.take_links();
        if let Some(scheduler) = scheduler {
            links.extend(scheduler.take_links());
        }
        detach_all(links);
    }

    fn take_links(&mut self) -> Vec<Link> {
        let watches = self.watches.drain(..).map(watch::Watch::into_link);
        self.links.drain(..).chain(watches).collect()
    }

    /// Forgets which threads are followed. To be called while nothing is attached, so that nothing
    /// from before is left when it is attached again.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn forget_threads(&self) -> Result<(), ProbeError> {
        self.object.clear("followed")
    }

    /// Attaches after [`PointProbe::detach`] what was attached before; nothing is loaded. True if
    /// no place was refused that was not the first time.
    pub fn attach_again(&mut self) -> bool {
        let first = std::mem::take(&mut self.refused);
        let processes = self.processes.clone();
        self.attach_all(&processes);
        let again = std::mem::replace(&mut self.refused, first);
        again.len() <= self.refused.len()
    }
}

impl Drop for PointProbe {
    fn drop(&mut self) {
        self.detach();
    }
}
