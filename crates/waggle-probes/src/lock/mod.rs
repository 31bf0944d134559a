//! Who waits for whose lock? Uprobes on the paths of sessions that are about to block.
//!
//! [`LockProbe::load`] makes the kernel half fit one server build, `attach` places it in one
//! process, `consume` reads what it saw. Neighbours: `waggle_symbols::lock` found the sites; the
//! agent makes waits, trees and deadlocks of the events.
//!
//! Invariant: a statement that gets its locks at once passes none of the sites. Every event that
//! the ring buffer had no room for is counted.

mod skeleton {
    #![expect(
        clippy::allow_attributes,
        clippy::undocumented_unsafe_blocks,
        unreachable_pub,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/lock.skel.rs"));
}

mod event;

pub use event::{LockEvent, LockReport, Thread};

use std::mem::offset_of;
use std::path::Path;

use libbpf_rs::Link;
use waggle_symbols::{FieldName, LockHook, LockLayout, StatementLayout};

use crate::object::{Loaded, ProbeError, detach_all, set_initial};
use crate::plain::{Plain, bytes_of};
use crate::ring::Ring;
use skeleton::types;

/// The kernel half, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lock.bpf.o"));

fn program(hook: LockHook) -> &'static str {
    match hook {
        LockHook::RowEdge => "row_edge",
        LockHook::RowBegin => "row_begin",
        LockHook::RowEnd => "row_end",
        LockHook::RowDeadlock => "row_deadlock",
        LockHook::RowDeadlockPair => "row_deadlock_pair",
        LockHook::MetadataBegin => "metadata_begin",
        LockHook::MetadataEnd => "metadata_end",
        LockHook::MetadataFrom => "metadata_from",
        LockHook::MetadataBy => "metadata_by",
        LockHook::MetadataVerdict => "metadata_verdict",
    }
}

/// Sums of the kernel half's counters over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockCounters {
    /// Times a site was passed.
    pub hits: u64,
    /// Events lost because the ring buffer was full.
    pub ring_full: u64,
    /// Time that the programs ran for these hits, ns; without the trap.
    pub run_ns: u64,
}

/// The loaded probe of one server process.
#[derive(Debug)]
pub struct LockProbe {
    // Dropped first: a detached program runs no more.
    links: Vec<(LockHook, Link)>,
    object: Loaded,
    layout: LockLayout,
    ring: Ring,
}

impl LockProbe {
    /// Loads the kernel half for one build. Attaches nothing.
    ///
    /// # Errors
    /// The kernel refuses the program (rights, lockdown, age).
    pub fn load(statement: &StatementLayout, layout: &LockLayout) -> Result<Self, ProbeError> {
        let config = config(statement, layout);
        let object = Loaded::load(OBJECT, |name, map| {
            if name.ends_with(".rodata") {
                set_initial(map, offset_of!(types::rodata, config), bytes_of(&config));
            }
            Ok(())
        })?;
        let ring = object.ring()?;
        Ok(Self {
            links: Vec::new(),
            object,
            layout: layout.clone(),
            ring,
        })
    }

    /// Attaches every site in process `pid`, whose executable is `binary`; what was attached
    /// before is removed first. The bytes at each site are compared with those that were decoded.
    ///
    /// # Errors
    /// The bytes differ, or the kernel refuses; nothing is attached then.
    pub fn attach(&mut self, pid: i32, binary: &Path) -> Result<(), ProbeError> {
        self.detach();
        let mut links = Vec::new();
        for site in &self.layout.sites {
            let program = program(site.hook);
            let link = self.object.attach(pid, binary, program, &site.site)?;
            links.push((site.hook, link));
        }
        self.links = links;
        Ok(())
    }

    /// Removes all from the process; harmless if nothing is attached.
    pub fn detach(&mut self) {
        detach_all(self.links.drain(..).map(|(_, link)| link));
    }

    /// Removes only the two sites that are passed once for each blocker of a metadata lock: with
    /// thousands of sessions behind one lock the server passes them millions of times.
    pub fn detach_metadata_edges(&mut self) {
        self.links
            .retain(|(hook, _)| !matches!(hook, LockHook::MetadataFrom | LockHook::MetadataBy));
    }

    /// True while anything is attached.
    pub fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// The sites, and what is missing with its reason.
    pub fn layout(&self) -> &LockLayout {
        &self.layout
    }

    /// Lends every finished event to `each`, at most `limit`; returns how many.
    pub fn consume(&mut self, limit: usize, mut each: impl FnMut(LockEvent<'_>)) -> usize {
        self.ring.consume(limit, |record| {
            if let Some(event) = LockEvent::parse(record) {
                each(event);
            }
        })
    }

    /// Bytes waiting to be read.
    pub fn backlog_bytes(&self) -> u64 {
        self.ring.backlog_bytes()
    }

    /// What the kernel half counted so far.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<LockCounters, ProbeError> {
        use types::lock_counters as in_kernel;
        let places = [
            offset_of!(in_kernel, hits),
            offset_of!(in_kernel, ring_full),
            offset_of!(in_kernel, run_ns),
        ];
        let [hits, ring_full, run_ns] = self.object.sums("counters", places)?;
        Ok(LockCounters {
            hits,
            ring_full,
            run_ns,
        })
    }
}

// SAFETY: integers without padding.
unsafe impl Plain for types::lock_config {}

fn config(statement: &StatementLayout, layout: &LockLayout) -> types::lock_config {
    let connection_id = statement.location(FieldName::ConnectionId);
    let optional = |offset: Option<u32>| offset.map_or(-1, u32::cast_signed);
    types::lock_config {
        connection_id: optional(connection_id.map(|l| l.offset)),
        connection_id_width: connection_id.map_or(8, |l| l.width.into()),
        owner: layout.owner_offset.cast_signed(),
        transaction_thd: optional(layout.transaction_thd),
        members: optional(layout.members_offset),
        status: optional(layout.status_offset),
        depth: optional(layout.search.map(|s| s.depth)),
        ticket_context: optional(layout.search.map(|s| s.ticket_context)),
        ticket_mode: optional(layout.search.map(|s| s.ticket_mode)),
        key: optional(layout.search.map(|s| s.key)),
    }
}
