//! What did the programs count, and how long did they run?
//!
//! Neighbours: probes name their counters and programs. Invariant: a counter is the sum over all
//! processors, each of which has its own; a value that is too short has 0 there.

use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags};

use super::{Loaded, ProbeError, refused};
use crate::kernel;
use crate::record::word;
use crate::timeline::types::unwind_counters;

impl Loaded {
    /// The words at these offsets of a map's only value, each summed over all processors.
    ///
    /// # Errors
    /// The map cannot be read.
    pub(crate) fn sums<const N: usize>(
        &self,
        map: &str,
        at: [usize; N],
    ) -> Result<[u64; N], ProbeError> {
        let values = self.values(map)?;
        Ok(at.map(|at| values.iter().filter_map(|value| word(value, at)).sum()))
    }

    /// The word at this offset of a map's only value, by processor.
    ///
    /// # Errors
    /// The map cannot be read.
    pub(crate) fn by_processor(&self, map: &str, at: usize) -> Result<Vec<u64>, ProbeError> {
        let values = self.values(map)?.into_iter();
        Ok(values.map(|value| word(&value, at).unwrap_or(0)).collect())
    }

    /// Stacks that `bpf/unwind.h` walked, the calls in them, those that do not reach the thread's
    /// beginning, and those that found no room; 0 if the map cannot be read.
    pub(crate) fn walked(&self) -> [u64; 4] {
        let places = [
            offset_of!(unwind_counters, stacks),
            offset_of!(unwind_counters, frames),
            offset_of!(unwind_counters, cut),
            offset_of!(unwind_counters, unsent),
        ];
        let sums = self.sums("unwind_counters", places);
        sums.unwrap_or_default()
    }

    fn values(&self, map: &str) -> Result<Vec<Vec<u8>>, ProbeError> {
        let values = self
            .map(map)
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        Ok(values.map_err(refused)?.unwrap_or_default())
    }

    /// Runs and total run time (ns) of `program`, as the kernel counted them while
    /// [`kernel::RunTimeStats`] was held.
    pub(crate) fn run_time(&self, program: &str) -> Option<(u64, u64)> {
        let program = self.0.progs_mut().find(|p| p.name() == program)?;
        kernel::run_time(program.as_fd())
    }

    /// Name, runs and total run time (ns) of each of `programs`, counted likewise.
    pub(crate) fn run_times(&self, programs: &[&'static str]) -> Vec<(&'static str, u64, u64)> {
        let times = programs.iter().filter_map(|name| {
            let (runs, ns) = self.run_time(name)?;
            Some((*name, runs, ns))
        });
        times.collect()
    }

    /// Name and runs of every program that ran, counted likewise.
    pub(crate) fn runs(&self) -> Vec<(String, u64)> {
        let runs = self.0.progs_mut().filter_map(|program| {
            let (runs, _) = kernel::run_time(program.as_fd())?;
            (runs > 0).then(|| (program.name().to_string_lossy().into_owned(), runs))
        });
        runs.collect()
    }
}
