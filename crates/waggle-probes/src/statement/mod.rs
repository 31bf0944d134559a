//! What did each statement do? One uprobe at the end of every statement.
//!
//! [`StatementProbe::load`] makes the kernel half fit one server build, `attach` places it in one
//! process, [`Events`] reads what it saw. Neighbours: `waggle_symbols` found the site and the
//! offsets; the reader of the events is the agent.
//!
//! Invariant: captured + lost = executed. The kernel half counts every hit; a statement for which
//! the ring buffer had no room is counted too.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/statement.skel.rs"));
}

mod cost;
mod event;
mod fit;
mod plan;
mod reader;
mod times;

pub use cost::trap_ns;
pub use event::StatementEvent;
pub use fit::Fit;
pub use reader::Events;
pub use times::Times;

pub use crate::object::ProbeError;

use std::mem::offset_of;
use std::path::Path;

use libbpf_rs::Link;
use waggle_symbols::hook::{Hook, HookSite};
use waggle_symbols::{Site, StatementLayout};

use crate::object::{Loaded, detach_all, refused, set_initial};
use crate::plain::{Plain, bytes_of};
use crate::ring::ring_bytes;
use crate::sched::SchedProbe;
use plan::Plan;
use skeleton::types;

/// The kernel half, compiled by the build script: without the breakdown of time, and with it.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/statement.bpf.o"));
const OBJECT_TIMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/statement_times.bpf.o"));

/// Most bytes of text one event carries.
pub const TEXT_BYTES_MAX: u32 = 8192;

/// Which program an attachment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Capture the statement.
    Capture,
    /// Return at once: the price of the trap alone.
    Empty,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Capture => "statement_end",
            Self::Empty => "statement_empty",
        }
    }
}

/// How a probe is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Most text to copy of one statement, bytes; at most [`TEXT_BYTES_MAX`].
    pub text_bytes_max: u32,
    /// Room between kernel and agent, bytes; rounded up to a power of two.
    pub ring_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            text_bytes_max: 2048,
            ring_bytes: 8 << 20,
        }
    }
}

/// Sums of the kernel half's counters over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statements that ended while the probe was attached.
    pub hits: u64,
    /// Of these, lost because the ring buffer was full.
    pub ring_full: u64,
    /// Of these, without a breakdown of time, because their thread is not known.
    pub threads_unknown: u64,
    /// Of these, only counted, as [`StatementProbe::leave_out`] asked.
    pub left_out: u64,
}

/// What splitting a statement's time needs beside the statement's end.
#[derive(Debug, Clone, Copy)]
pub struct Breakdown<'a> {
    /// Tells when threads run; the server has to be watched there too.
    pub sched: &'a SchedProbe,
    /// Functions of the server that tell why a thread waits, as far as they were found; others
    /// than those are passed over.
    pub hooks: &'a [HookSite],
}

/// The program for a hook that tells why a thread waits.
fn program_for(hook: Hook) -> Option<&'static str> {
    match hook {
        Hook::WaitBegin => Some("wait_begin"),
        Hook::WaitEnd => Some("wait_end"),
        Hook::RedoWrite => Some("redo_entered"),
        Hook::BinlogCommit | Hook::BinlogWrite => Some("binary_log_entered"),
        Hook::MetadataWait => Some("metadata_wait"),
        Hook::TableWait => Some("table_wait"),
        _ => None,
    }
}

/// The loaded probe of one server process.
#[derive(Debug)]
pub struct StatementProbe {
    // Dropped first: a detached program runs no more.
    link: Option<Link>,
    other_links: Vec<Link>,
    object: Loaded,
    site: Site,
    /// Where some statements end that do not pass `site`.
    other_sites: Vec<Site>,
    hooks: Vec<HookSite>,
    refused_hooks: Vec<(Hook, String)>,
    plan: Plan,
}

impl StatementProbe {
    /// Loads the kernel half for one build. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses the program (rights, lockdown, age).
    pub fn load(
        layout: &StatementLayout,
        site: &Site,
        options: &Options,
    ) -> Result<Self, ProbeError> {
        Self::load_object(OBJECT, layout, site, options, None)
    }

    /// As [`load`](Self::load), with the breakdown of each statement's time.
    ///
    /// # Errors
    /// The kernel refuses the program; [`load`](Self::load) may still work.
    pub fn load_with_times(
        layout: &StatementLayout,
        site: &Site,
        options: &Options,
        breakdown: &Breakdown<'_>,
    ) -> Result<Self, ProbeError> {
        Self::load_object(OBJECT_TIMES, layout, site, options, Some(breakdown))
    }

    fn load_object(
        object: &[u8],
        layout: &StatementLayout,
        site: &Site,
        options: &Options,
        breakdown: Option<&Breakdown<'_>>,
    ) -> Result<Self, ProbeError> {
        let hooks = breakdown.map_or(&[][..], |b| b.hooks);
        let plan = Plan::of(layout);
        let config = plan.config(layout, site, hooks, options);
        let object = Loaded::load(object, |name, map| {
            if name.ends_with(".rodata") {
                set_initial(map, offset_of!(types::rodata, config), bytes_of(&config));
            } else if name == "events" {
                map.set_max_entries(ring_bytes(options.ring_bytes))
                    .map_err(refused)?;
            } else if name == "threads"
                && let Some(breakdown) = breakdown
            {
                let shared = breakdown.sched.with_threads(|fd| map.reuse_fd(fd));
                shared.map_err(refused)?;
            }
            Ok(())
        })?;
        Ok(Self {
            link: None,
            other_links: Vec::new(),
            object,
            site: site.clone(),
            other_sites: Vec::new(),
            hooks: hooks.to_vec(),
            refused_hooks: Vec::new(),
            plan,
        })
    }

    /// Statements end at `site` too, which is passed by those alone that do not pass the one the
    /// probe was loaded for, with the session object in the same register.
    pub fn ends_too_at(&mut self, site: &Site) {
        self.other_sites.push(site.clone());
    }

    /// Attaches `program` in process `pid`, whose executable is `binary`; a former attachment is
    /// removed first. The bytes at the site are compared with those that were decoded.
    ///
    /// # Errors
    /// The bytes differ, or the kernel refuses; nothing is attached then.
    pub fn attach(&mut self, pid: i32, binary: &Path, program: Program) -> Result<(), ProbeError> {
        self.detach();
        if program == Program::Capture {
            self.attach_hooks(pid, binary);
            for site in &self.other_sites {
                match self.link_at(pid, binary, program.name(), site) {
                    Ok(link) => self.other_links.push(link),
                    Err(error) => return Err(self.given_up(error)),
                }
            }
        }
        // Last: each takes the kernel some time, in which what is captured already is not read.
        match self.link_at(pid, binary, program.name(), &self.site) {
            Ok(link) => self.link = Some(link),
            Err(error) => return Err(self.given_up(error)),
        }
        Ok(())
    }

    /// What is attached already is removed again.
    fn given_up(&mut self, error: ProbeError) -> ProbeError {
        self.detach();
        error
    }

    /// Attaches at the functions that tell why a thread waits; those that cannot be had are told
    /// by [`refused_hooks`](Self::refused_hooks).
    fn attach_hooks(&mut self, pid: i32, binary: &Path) {
        self.refused_hooks.clear();
        let (ends, others): (Vec<_>, Vec<_>) =
            self.hooks.iter().partition(|h| h.hook == Hook::WaitEnd);
        let mut refused = Vec::new();
        let mut links = Vec::new();
        for hook in ends.into_iter().chain(others) {
            let Some(program) = program_for(hook.hook) else {
                continue;
            };
            // Without its end a wait would never be over.
            let endless = refused.iter().find(|(hook, _)| *hook == Hook::WaitEnd);
            if let (Hook::WaitBegin, Some((_, why))) = (hook.hook, endless) {
                let why = format!("its end cannot be attached to: {why}");
                refused.push((hook.hook, why));
                continue;
            }
            match self.link_at(pid, binary, program, &hook.site) {
                Ok(link) => links.push(link),
                Err(error) => refused.push((hook.hook, error.to_string())),
            }
        }
        self.other_links.extend(links);
        self.refused_hooks = refused;
    }

    /// Functions that tell why a thread waits, but could not be attached to, with the reason.
    pub fn refused_hooks(&self) -> &[(Hook, String)] {
        &self.refused_hooks
    }

    fn link_at(
        &self,
        pid: i32,
        binary: &Path,
        program: &str,
        site: &Site,
    ) -> Result<Link, ProbeError> {
        self.object.attach(pid, binary, program, site)
    }

    /// Removes the probe from the process; harmless if it is not attached.
    pub fn detach(&mut self) {
        detach_all(
            self.link
                .take()
                .into_iter()
                .chain(self.other_links.drain(..)),
        );
    }

    /// True while attached.
    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// The site it attaches at.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Opens the ring buffer for reading.
    ///
    /// # Errors
    /// The ring buffer cannot be mapped.
    pub fn events(&self) -> Result<Events, ProbeError> {
        Ok(Events::new(self.object.ring()?, self.plan.places))
    }

    /// What the kernel half counted so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Counters, ProbeError> {
        use types::statement_counters as in_kernel;
        let places = [
            offset_of!(in_kernel, hits),
            offset_of!(in_kernel, ring_full),
            offset_of!(in_kernel, threads_unknown),
            offset_of!(in_kernel, left_out),
        ];
        let [hits, ring_full, threads_unknown, left_out] = self.object.sums("counters", places)?;
        Ok(Counters {
            hits,
            ring_full,
            threads_unknown,
            left_out,
        })
    }

    /// Leaves statements' texts out, or all but their count, from now on; or nothing any more. The
    /// probe stays in place, so that no statement goes uncounted.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn leave_out(&self, text: bool, all: bool) -> Result<(), ProbeError> {
        let bit = |on: bool, bit: types::statement_left_out| if on { bit.0 } else { 0 };
        let bits = bit(text, types::statement_left_out::LEAVE_TEXT)
            | bit(all, types::statement_left_out::LEAVE_ALL);
        self.object.write(".data.left_out", &bits.to_ne_bytes())
    }

    /// Runs and total run time (ns) of the capturing program, as the kernel counted them while
    /// [`RunTimeStats`](crate::kernel::RunTimeStats) was held.
    pub fn run_time(&self) -> Option<(u64, u64)> {
        self.object.run_time(Program::Capture.name())
    }

    /// Name and runs of every program that ran, as the kernel counted them while
    /// [`RunTimeStats`](crate::kernel::RunTimeStats) was held: what a statement passes on its way.
    pub fn runs(&self) -> Vec<(String, u64)> {
        self.object.runs()
    }
}

// SAFETY: integers without padding.
unsafe impl Plain for types::statement_config {}
