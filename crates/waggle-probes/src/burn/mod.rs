//! A cost that is known: a probe at the end of every statement that burns a set time.
//!
//! Where the statement probe observes, this one only costs, so that an instrument that measures
//! costs can be held against the truth. Neighbours: `statement` says where it attaches; `watch
//! --control` switches it for the lab; `cargo xtask calibrate` is what it is for.
//!
//! Invariant: what a run burned is never taken from what was asked. The program's own clock tells
//! it, and [`BurnProbe::run_time`] tells it by the kernel's clock, the program's prologue included.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/burn.skel.rs"));
}

use std::mem::offset_of;
use std::path::Path;

use libbpf_rs::Link;
use waggle_symbols::Site;

use crate::object::{Loaded, ProbeError};
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/burn.bpf.o"));

/// What each hit costs beside the trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burn {
    /// Nothing: the program returns at once.
    Nothing,
    /// This time, ns, and what the program needs besides; at most [`BURN_NS_MAX`].
    Ns(u64),
}

impl Burn {
    fn program(self) -> &'static str {
        match self {
            Self::Nothing => "statement_nothing",
            Self::Ns(_) => "statement_burn",
        }
    }
}

/// Most time one run may burn, ns.
pub const BURN_NS_MAX: u64 = types::burn_limit::BURN_NS_MAX.0 as u64;

/// Sums of the kernel half's counters over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BurnCounters {
    /// Statements that ended while the probe was attached.
    pub hits: u64,
    /// Of these, burned less than asked, since the loop's bound came first.
    pub unfinished: u64,
    /// Time between each run's first look at the clock and its last, ns.
    pub burned_ns: u64,
}

/// The loaded probe of one server process.
#[derive(Debug)]
pub struct BurnProbe {
    // Dropped first: a detached program runs no more.
    link: Option<Link>,
    object: Loaded,
    site: Site,
}

impl BurnProbe {
    /// Loads the kernel half. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses the program (rights, lockdown, age).
    pub fn load(site: &Site) -> Result<Self, ProbeError> {
        Ok(Self {
            link: None,
            object: Loaded::load(OBJECT, |_, _| Ok(()))?,
            site: site.clone(),
        })
    }

    /// Attaches in process `pid`, whose executable is `binary`, and burns a statement from then
    /// on; a former attachment is removed first.
    ///
    /// # Errors
    /// The bytes at the site differ from those that were decoded, or the kernel refuses.
    pub fn attach(&mut self, pid: i32, binary: &Path, burn: Burn) -> Result<(), ProbeError> {
        self.detach();
        if let Burn::Ns(ns) = burn {
            let ns = ns.min(BURN_NS_MAX);
            self.object.write(".data.burn", &ns.to_ne_bytes())?;
        }
        let program = burn.program();
        self.link = Some(self.object.attach(pid, binary, program, &self.site)?);
        Ok(())
    }

    /// Removes the probe from the process; harmless if it is not attached.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// What the kernel half counted so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<BurnCounters, ProbeError> {
        use types::burn_counters as in_kernel;
        let places = [
            offset_of!(in_kernel, hits),
            offset_of!(in_kernel, unfinished),
            offset_of!(in_kernel, burned_ns),
        ];
        let [hits, unfinished, burned_ns] = self.object.sums("counters", places)?;
        Ok(BurnCounters {
            hits,
            unfinished,
            burned_ns,
        })
    }

    /// Runs and total run time (ns) of the program that `burn` runs, as the kernel counted them
    /// while [`RunTimeStats`](crate::kernel::RunTimeStats) was held. The kernel's looks at its own
    /// clock are in it, so only the difference to [`Burn::Nothing`] is what burning cost.
    pub fn run_time(&self, burn: Burn) -> Option<(u64, u64)> {
        self.object.run_time(burn.program())
    }
}
