//! How long do calls of chosen functions take, and how much of that off the processor?
//!
//! [`CallProbe::load`] takes the functions, `attach` places two probes at each (one where it
//! begins, one that runs when it returns) and one at the scheduler; `CallProbe::series` reads the
//! sums and histograms that the kernel half keeps. Neighbours: `waggle_symbols::Site` says where a
//! function can be watched; `waggle-trace` makes tables of what is read here.
//!
//! Invariant: a call is counted whole or not at all, and a call that is not counted is in a counter
//! with a name.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/call.skel.rs"));
}

mod cost;
mod plan;
mod read;

pub use cost::{CallCost, pair_ns};
pub use plan::{CHILDREN_MAX, FUNCTIONS_MAX, Options, Watched};
pub use read::{Counters, REASONS, Series, SlowCall, bucket_bounds};

pub use crate::object::ProbeError;

use std::fs;
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags};
use waggle_symbols::Site;

use crate::kernel;
use crate::object::{Loaded, Uprobe, check_bytes, detach_all, refused, set_initial};
use crate::plain::{Plain, bytes_of};
use crate::record::half;
use crate::ring::{Ring, ring_bytes};
use plan::Plan;
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/call.bpf.o"));

const ENTERED: &str = "call_entered";
const RETURNED: &str = "call_returned";
const NOTHING: &str = "call_nothing";
const SWITCHED: &str = "call_switched";
const ENDS: &str = "call_thread_ends";

/// The loaded probe of one process.
#[derive(Debug)]
pub struct CallProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<Link>,
    object: Loaded,
    ring: Ring,
    pid: u32,
    plan: Plan,
    control: types::call_control,
}

impl CallProbe {
    /// Loads the kernel half for the threads of `pid`. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses the programs (rights, lockdown, age, no description of its types).
    pub fn load(pid: u32, functions: &[Watched], options: &Options) -> Result<Self, ProbeError> {
        let plan = Plan::of(functions, options);
        let config = plan.config(pid, functions, options);
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with(".rodata") {
                set_initial(map, offset_of!(types::rodata, config), bytes_of(&config));
            } else if name == "all_series" {
                map.set_max_entries(plan.series()).map_err(refused)?;
            } else if name == "callers" {
                map.set_max_entries(plan.callers.max(1)).map_err(refused)?;
            } else if name == "events" {
                let bytes = ring_bytes(options.ring_bytes);
                map.set_max_entries(bytes).map_err(refused)?;
            }
            Ok(())
        })?;
        let ring = object.ring()?;
        Ok(Self {
            links: Vec::new(),
            object,
            ring,
            pid,
            plan,
            control: types::call_control::default(),
        })
    }

    /// Attaches at every function of `binary`, the executable of the process, and at the
    /// scheduler. Nothing is counted until [`start`](Self::start).
    ///
    /// # Errors
    /// The bytes at a site differ, or the kernel refuses; nothing is attached then.
    pub fn attach(&mut self, binary: &Path) -> Result<(), ProbeError> {
        self.detach();
        let sites = self.plan.sites.clone();
        let mut links = Vec::new();
        for (program, point) in [(SWITCHED, "sched_switch"), (ENDS, "sched_process_exit")] {
            let link = self.object.program(program).attach_raw_tracepoint(point);
            links.push(link.map_err(refused)?);
        }
        // Returns first, so that every call that is seen to begin is seen to return.
        for (program, returns) in [(RETURNED, true), (ENTERED, false)] {
            links.extend(self.attach_at(self.pid, binary, program, &sites, returns)?);
        }
        self.links = links;
        Ok(())
    }

    /// Attaches `program` at each of `sites`, whose number it reads as its cookie.
    fn attach_at(
        &self,
        pid: u32,
        binary: &Path,
        program: &str,
        sites: &[Site],
        returns: bool,
    ) -> Result<Vec<Link>, ProbeError> {
        for site in sites {
            check_bytes(binary, site.file_offset, &site.bytes)?;
        }
        let pid = pid.cast_signed();
        let places = sites.iter().zip(0..).map(|(site, cookie)| Uprobe {
            offset: site.file_offset,
            cookie,
            ..Uprobe::default()
        });
        let places: Vec<Uprobe> = places.collect();
        let link = |at: Range<usize>| {
            let link = self
                .object
                .uprobes(pid, binary, program, &places[at.clone()], returns);
            link.map_err(|source| {
                let names: Vec<_> = sites[at].iter().map(|s| s.function.as_str()).collect();
                ProbeError::Attach {
                    path: binary.to_path_buf(),
                    site: names.join(", "),
                    source,
                }
            })
        };
        if kernel::has_uprobe_multi() {
            return Ok(vec![link(0..sites.len())?]);
        }
        (0..sites.len()).map(|at| link(at..at + 1)).collect()
    }

    /// Calls that begin from now on are counted. Returns the time, ns of the monotonic clock.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn start(&mut self) -> Result<u64, ProbeError> {
        self.find_trampoline()?;
        self.control.since_ns = crate::clock::now_ns();
        self.control.counting = 1;
        self.write_control()?;
        Ok(self.control.since_ns)
    }

    /// Calls that end from now on are not counted. Returns the time.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn stop(&mut self) -> Result<u64, ProbeError> {
        self.control.counting = 0;
        self.write_control()?;
        Ok(crate::clock::now_ns())
    }

    /// Looks where the kernel makes calls return to, until that is known: only then is a call from
    /// the same place as one that was left by `longjmp` told from a function that was jumped to.
    /// The kernel makes the place when the first watched function is called.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn find_trampoline(&mut self) -> Result<(), ProbeError> {
        if self.control.trampoline != 0 {
            return Ok(());
        }
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        if let Some(address) = trampoline_in(&maps) {
            self.control.trampoline = address;
            self.write_control()?;
        }
        Ok(())
    }

    fn write_control(&self) -> Result<(), ProbeError> {
        self.object.write(".data.control", bytes_of(&self.control))
    }

    /// Removes all; harmless if nothing is attached.
    pub fn detach(&mut self) {
        detach_all(self.links.drain(..));
    }

    /// Calls of the chosen function with this number.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn chosen(&self, chosen: usize) -> Result<Series, ProbeError> {
        self.series(chosen)
    }

    /// Calls of a child within the chosen function with this number.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn child(&self, chosen: usize, child: usize) -> Result<Series, ProbeError> {
        self.series(self.plan.chosen + chosen * self.plan.children + child)
    }

    /// Calls of the chosen functions by the place they were called from.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn callers(&self) -> Result<Vec<Series>, ProbeError> {
        let fixed = self.plan.fixed();
        let all = (fixed..self.plan.series() as usize).map(|number| self.series(number));
        let mut all = all.collect::<Result<Vec<_>, _>>()?;
        all.retain(|series| series.count > 0 && series.caller != 0);
        Ok(all)
    }

    fn series(&self, number: usize) -> Result<Series, ProbeError> {
        let key = u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes();
        let value = self.object.map("all_series").lookup(&key, MapFlags::ANY);
        let value = value.map_err(refused)?.unwrap_or_default();
        Ok(Series::parse(&value).unwrap_or_default())
    }

    /// Calls that are under way now, of those that were seen to begin.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn under_way(&self) -> Result<u64, ProbeError> {
        let map = self.object.map("threads");
        let at = offset_of!(types::call_thread, depth);
        let threads = map.keys().filter_map(|key| {
            // A thread may end between the two.
            map.lookup(&key, MapFlags::ANY).ok().flatten()
        });
        let depth = threads.filter_map(|thread| half(&thread, at));
        Ok(depth.map(u64::from).sum())
    }

    /// Lends every slow call since the last time to `each`.
    pub fn each_slow(&mut self, mut each: impl FnMut(SlowCall)) {
        self.ring.consume(usize::MAX, |record| {
            if let Some(call) = SlowCall::parse(record) {
                each(call);
            }
        });
    }

    /// What the kernel half counted so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Counters, ProbeError> {
        let sums = self.object.sums("counters", Counters::PLACES);
        sums.map(Counters::of)
    }

    /// What the programs took since the kernel counts, which it does while
    /// [`kernel::RunTimeStats`] is held.
    pub fn cost(&self) -> CallCost {
        let of = |name| self.object.run_time(name).unwrap_or_default();
        CallCost {
            entered: of(ENTERED),
            returned: of(RETURNED),
            switched: of(SWITCHED),
        }
    }
}

/// Where the page begins that the kernel adds to a process with probes: at its first instruction
/// watched calls return.
fn trampoline_in(maps: &str) -> Option<u64> {
    let line = maps.lines().find(|line| line.ends_with(" [uprobes]"))?;
    let (start, _) = line.split_once('-')?;
    u64::from_str_radix(start, 16).ok()
}

// SAFETY: integers without padding.
unsafe impl Plain for types::call_config {}
// SAFETY: integers without padding.
unsafe impl Plain for types::call_control {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_kernel_is_found_by_its_whole_name() {
        let maps = "55d0-55e0 r-xp 00000000 08:01 12 /usr/sbin/mysqld\n\
                    7ff000000000-7ff000001000 r-xp 00000000 00:00 0   [uprobes-trampoline]\n\
                    7fffffffe000-7ffffffff000 --xp 00000000 00:00 0                 [uprobes]\n";
        assert_eq!(trampoline_in(maps), Some(0x7fff_ffff_e000));
        assert_eq!(
            trampoline_in("7ff-800 r-xp 0 0 0 [uprobes-trampoline]\n"),
            None
        );
        assert_eq!(trampoline_in(""), None);
    }
}
