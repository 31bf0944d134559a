//! Where do the facts of waits and deadlocks stand in a server's own objects?
//!
//! Neighbour: `trace` says which memory of its arguments a function touches. Invariant: what a
//! function reads at two places is not known.

use super::SearchLayout;
use super::names::{
    ENTER_NODE, GET_STATUS, GET_THD, GET_THD_THUNK, IS_INTERRUPTED, NOTIFY, TICKET_WEIGHT,
    VISIT_LOCK,
};
use crate::elf::{Binary, Function};
use crate::trace::trace;

/// The thunk's name carries the distance; a `THD` that begins with its owner needs no thunk.
pub(super) fn owner_offset(binary: &Binary) -> Option<u32> {
    let thunk = binary.function_by_prefix(GET_THD_THUNK.0);
    match thunk {
        Some(thunk) => thunk
            .name
            .strip_prefix(GET_THD_THUNK.0)?
            .strip_suffix(GET_THD_THUNK.1)?
            .parse()
            .ok(),
        None => binary.function(GET_THD).map(|_| 0),
    }
}

/// The pointer that `trx_is_interrupted` hands to `thd_killed`.
pub(super) fn transaction_thd(binary: &Binary) -> Option<u32> {
    only_read(&binary.function(IS_INTERRUPTED)?, 8)
}

/// The two neighbours in the vector that `Deadlock_notifier::notify` reads.
pub(super) fn members_offset(binary: &Binary) -> Option<u32> {
    let trace = trace(&binary.function_by_prefix(NOTIFY)?);
    let reads = trace.direct(0, 8).filter(|a| a.reads);
    let offsets: Vec<i64> = reads.map(|a| a.address.offset).collect();
    let (first, last) = (*offsets.iter().min()?, *offsets.iter().max()?);
    u32::try_from(first).ok().filter(|_| last == first + 8)
}

/// The one number that `MDL_wait::get_status` reads.
pub(super) fn status_offset(binary: &Binary) -> Option<u32> {
    only_read(&binary.function(GET_STATUS)?, 4)
}

/// Each is the only one, or the first, of its size that its function touches.
pub(super) fn search(binary: &Binary) -> Option<SearchLayout> {
    let enter = trace(&binary.function(ENTER_NODE)?);
    let depth = enter.direct(0, 4).find(|a| a.writes)?.address.offset;
    let visit = trace(&binary.function(VISIT_LOCK)?);
    let context = visit.direct(1, 8).find(|a| a.reads)?.address.offset;
    let weight = trace(&binary.function(TICKET_WEIGHT)?);
    let mode = weight.direct(0, 4).find(|a| a.reads)?.address.offset;
    let mut kinds = weight.accesses.iter().filter(|a| {
        a.size == 1 && a.reads && a.address.argument == 0 && a.address.derefs.len() == 1
    });
    let key = kinds.next()?.address.offset;
    Some(SearchLayout {
        depth: u32::try_from(depth).ok()?,
        ticket_context: u32::try_from(context).ok()?,
        ticket_mode: u32::try_from(mode).ok()?,
        key: u32::try_from(key)
            .ok()
            .filter(|key| (4..=16).contains(key))?,
    })
}

/// The one place of its first argument that a function reads so many bytes of.
fn only_read(function: &Function, bytes: u8) -> Option<u32> {
    let trace = trace(function);
    let mut reads = trace.direct(0, bytes).filter(|a| a.reads);
    let offset = reads.next()?.address.offset;
    let alone = reads.all(|a| a.address.offset == offset);
    u32::try_from(offset).ok().filter(|_| alone)
}
