//! Where threads sleep for metadata locks, and the way from a wait to its lock's key.
//!
//! Neighbours: [`crate::lock`] has the sites, the parent names what is missing. Invariant: all
//! sites or none, so that no sleep is seen without its end.

use super::code::{TICKET_ACCEPT, VISIT_CONTEXT};
use super::{KeyPath, LatchHook, LatchLayout, LatchSite};
use crate::elf::Binary;
use crate::lock::{LockHook, LockLayout};
use crate::trace::trace;

impl LatchLayout {
    pub(super) fn find_metadata(&mut self, binary: &Binary, locks: &LockLayout) {
        let pairs = [
            (LatchHook::MetadataSleeps, LockHook::MetadataBegin),
            (LatchHook::MetadataWakes, LockHook::MetadataEnd),
            (LatchHook::MetadataTold, LockHook::MetadataVerdict),
        ];
        let sites = pairs.map(|(hook, lock)| (hook, locks.site(lock).cloned()));
        if sites.iter().any(|(_, site)| site.is_none()) {
            let why = locks
                .missing
                .iter()
                .find(|(hook, _)| pairs.iter().any(|(_, lock)| lock == hook));
            let why = why.map_or_else(String::new, |(_, why)| why.clone());
            return self.miss("metadata locks", &why);
        }
        for (hook, site) in sites {
            let at_entry = hook != LatchHook::MetadataWakes;
            self.sites.extend(site.map(|site| LatchSite {
                hook,
                site,
                at_entry,
            }));
        }
        self.key = key_path(binary, locks);
        if self.key.is_none() {
            self.miss(
                "names of metadata locks",
                "the way to a wait's key was not recognised",
            );
        }
    }
}

/// The one pointer in a context whose first word is read too, as for a virtual call: what it waits
/// for. The one that a ticket hands on: its lock.
fn key_path(binary: &Binary, locks: &LockLayout) -> Option<KeyPath> {
    let visit = trace(&binary.function(VISIT_CONTEXT)?);
    let mut called = visit.accesses.iter().filter(|a| {
        a.reads
            && a.size == 8
            && a.address.argument == 0
            && a.address.derefs.len() == 1
            && a.address.offset == 0
    });
    let ticket = *called.next()?.address.derefs.first()?;
    let accept = trace(&binary.function(TICKET_ACCEPT)?);
    let lock = accept.direct(0, 8).find(|a| a.reads)?.address.offset;
    Some(KeyPath {
        ticket: u32::try_from(ticket).ok()?,
        lock: u32::try_from(lock).ok()?,
        key: locks.search?.key,
    })
}
