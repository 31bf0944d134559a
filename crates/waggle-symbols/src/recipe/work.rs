//! Recipes for what a statement did and who had it carried out.
//!
//! Neighbours: the parent holds the recipes of a statement's identity and the tools both use.
//! Status counters are believed only within the bounds of the session's own status block, which
//! an exported function shows; a counter of the same name outside it counts something else.

use std::ops::Range;

use super::{Recipe, counter, mysql_area, mysql_context, offset, returned, single, traced};
use crate::elf::Binary;
use crate::hook;
use crate::layout::{FieldName, Location};
use crate::trace::{Access, Trace, operands};

const INC_LOCK: &str = "_ZN3THD13inc_lock_usecEy";
const SET_OK: &str = "_ZN16Diagnostics_area13set_ok_statusEyyPKc";
const SET_EOF: &str = "_ZN16Diagnostics_area14set_eof_statusEP3THD";
const RESET_AREA: &str = "_ZN16Diagnostics_area22reset_diagnostics_areaEv";
const NO_INDEX: &str = "_ZN3THD24set_status_no_index_usedEv";
const NO_GOOD_INDEX: &str = "_ZN3THD29set_status_no_good_index_usedEv";
const NOTIFY_SHARED_LOCK: &str = "_ZN3THD18notify_shared_lockEP17MDL_context_ownerb";
const SCHEDULER_START: &str = "_ZN15Event_scheduler5startEPi";
const IS_BOOTSTRAP: &str = "_Z23thd_is_bootstrap_threadP3THD";
const CONTEXT_INIT: &str = "_ZN16Security_context4initEv";
const SKIP_GRANTS: [&str; 2] = [
    "_ZN16Security_context11skip_grantsEPKcS1_",
    "_ZN16Security_context11skip_grantsEv",
];
const STATUS_BLOCK: &str = "_Z18get_thd_status_varP3THDPb";
const STATUS_INIT: &str = "_ZN3THD19set_status_var_initEv";
const INC_TMP: &str = "_ZN3THD29inc_status_created_tmp_tablesEv";
const INC_TMP_DISK: &str = "_ZN3THD34inc_status_created_tmp_disk_tablesEv";
const INC_SCAN: &str = "_ZN3THD22inc_status_select_scanEv";
const INC_FULL_JOIN: &str = "_ZN3THD27inc_status_select_full_joinEv";
const BYTES_SENT: [&str; 2] = ["thd_increment_bytes_sent", "_Z24thd_increment_bytes_sentm"];
const BYTES_RECEIVED: [&str; 2] = [
    "thd_increment_bytes_received",
    "_Z28thd_increment_bytes_receivedm",
];

/// Mangled names that these recipes need, besides those of the parent.
pub(super) const NAMES: [&str; 22] = [
    INC_LOCK,
    SET_OK,
    SET_EOF,
    RESET_AREA,
    NO_INDEX,
    NO_GOOD_INDEX,
    NOTIFY_SHARED_LOCK,
    SCHEDULER_START,
    IS_BOOTSTRAP,
    CONTEXT_INIT,
    SKIP_GRANTS[0],
    SKIP_GRANTS[1],
    STATUS_BLOCK,
    STATUS_INIT,
    INC_TMP,
    INC_TMP_DISK,
    INC_SCAN,
    INC_FULL_JOIN,
    BYTES_SENT[0],
    BYTES_SENT[1],
    BYTES_RECEIVED[0],
    BYTES_RECEIVED[1],
];

/// What `system_thread` says of an event scheduler's thread, on either server.
const EVENT_SCHEDULER: u64 = 8;
/// `SERVER_QUERY_NO_GOOD_INDEX_USED`, `SERVER_QUERY_NO_INDEX_USED`.
const NO_INDEX_FLAGS: [u64; 2] = [0x10, 0x20];
/// Length of "connecting host", the name of a client before it is known.
const CONNECTING_HOST: u64 = 15;

/// The ways to find `name`, each with the functions it reads; none for the parent's fields.
pub(super) fn recipes(name: FieldName) -> &'static [(&'static str, Recipe)] {
    match name {
        FieldName::LockTime => &[
            ("THD::inc_lock_usec", mysql_lock_time),
            ("thd_storage_lock_wait", mariadb_lock_time),
        ],
        FieldName::RowsAffected => &[("Diagnostics_area::set_ok_status", rows_affected)],
        FieldName::Warnings => &[(
            "Diagnostics_area::set_ok_status and reset_diagnostics_area",
            warnings,
        )],
        FieldName::ServerStatus => &[(
            "THD::set_status_no_index_used and set_status_no_good_index_used",
            server_status,
        )],
        FieldName::SystemThread => &[
            ("Event_scheduler::start", scheduler_thread),
            ("thd_is_bootstrap_thread", mysql_system_thread),
            ("THD::notify_shared_lock", mariadb_system_thread),
        ],
        FieldName::Routine => &[("Diagnostics_area::set_eof_status", routine)],
        FieldName::ClientHost => &[
            (
                "thd_get_security_context, Security_context::init and skip_grants",
                mysql_client_host,
            ),
            (
                "thd_user_name, Security_context::init and skip_grants",
                mariadb_client_host,
            ),
        ],
        FieldName::TmpTables => &[("THD::inc_status_created_tmp_tables", |binary| {
            status(binary, FieldName::TmpTables)
        })],
        FieldName::TmpDiskTables => &[("THD::inc_status_created_tmp_disk_tables", |binary| {
            status(binary, FieldName::TmpDiskTables)
        })],
        FieldName::SelectScan => &[("THD::inc_status_select_scan", |binary| {
            status(binary, FieldName::SelectScan)
        })],
        FieldName::SelectFullJoin => &[("THD::inc_status_select_full_join", |binary| {
            status(binary, FieldName::SelectFullJoin)
        })],
        FieldName::BytesReceived => &[("thd_increment_bytes_received", |binary| {
            status(binary, FieldName::BytesReceived)
        })],
        FieldName::BytesSent => &[("thd_increment_bytes_sent", |binary| {
            status(binary, FieldName::BytesSent)
        })],
        _ => &[],
    }
}

fn mysql_lock_time(binary: &Binary) -> Option<Location> {
    counter(binary, INC_LOCK)
}

fn mariadb_lock_time(binary: &Binary) -> Option<Location> {
    // On MySQL this function only jumps to THD::inc_lock_usec and shows nothing.
    counter(binary, "thd_storage_lock_wait")
}

/// The offset in `THD` of the pointer to its diagnostics area.
fn area(binary: &Binary) -> Option<i64> {
    match traced(binary, "thd_get_error_number") {
        Some(accessor) => Some(*returned(&accessor, 2)?.derefs.first()?),
        None => mysql_area(binary),
    }
}

fn rows_affected(binary: &Binary) -> Option<Location> {
    let ok = traced(binary, SET_OK)?;
    let at = single(ok.direct(0, 8).filter_map(|a| {
        let stored = a.stored.as_ref()?;
        let argument = stored.argument == 1 && stored.derefs.is_empty() && stored.offset == 0;
        (a.writes && argument).then_some(a.address.offset)
    }))?;
    Some(Location::behind(offset(area(binary)?)?, offset(at)?, 8))
}

fn warnings(binary: &Binary) -> Option<Location> {
    // The count so far, kept elsewhere in the area, becomes the finished statement's.
    let ok = traced(binary, SET_OK)?;
    let at = single(ok.direct(0, 4).filter_map(|a| {
        let stored = a.stored.as_ref()?;
        let counted = stored.argument == 0 && !stored.derefs.is_empty() && stored.width == 4;
        (a.writes && counted).then_some(a.address.offset)
    }))?;
    let zeroed = |a: &Access| a.writes && a.immediate == Some(0) && a.address.offset == at;
    let reset = traced(binary, RESET_AREA)?;
    let is_reset = reset.direct(0, 4).any(zeroed);
    let place = Location::behind(offset(area(binary)?)?, offset(at)?, 4);
    is_reset.then_some(place)
}

fn server_status(binary: &Binary) -> Option<Location> {
    let flag_at = |function, flag| {
        let set = traced(binary, function)?;
        single(
            set.direct(0, 4)
                .filter(|a| a.reads && a.writes && a.immediate == Some(flag))
                .map(|a| a.address.offset),
        )
    };
    let no_good_index = flag_at(NO_GOOD_INDEX, NO_INDEX_FLAGS[0])?;
    let no_index = flag_at(NO_INDEX, NO_INDEX_FLAGS[1])?;
    (no_index == no_good_index).then(|| offset(no_index).map(|at| Location::direct(at, 4)))?
}

/// `thd->system_thread = SYSTEM_THREAD_EVENT_SCHEDULER` on the thread it makes.
fn scheduler_thread(binary: &Binary) -> Option<Location> {
    let start = binary.function(SCHEDULER_START)?;
    let at = single(
        operands(&start)
            .filter(|o| o.is_move && o.writes && o.size == 4)
            .filter(|o| o.immediate == Some(EVENT_SCHEDULER))
            .map(|o| o.displacement),
    )?;
    offset(at).map(|at| Location::direct(at, 4))
}

fn mysql_system_thread(binary: &Binary) -> Option<Location> {
    let bootstrap = traced(binary, IS_BOOTSTRAP)?;
    let at = single(
        bootstrap
            .direct(0, 4)
            .filter(|a| a.reads)
            .map(|a| a.address.offset),
    )?;
    offset(at).map(|at| Location::direct(at, 4))
}

/// Whether the lock's owner is a thread of delayed inserts is one bit of its `system_thread`.
fn mariadb_system_thread(binary: &Binary) -> Option<Location> {
    let owner = hook::owner_offset(binary).filter(|offset| *offset > 0)?;
    let notify = traced(binary, NOTIFY_SHARED_LOCK)?;
    let at = single(
        notify
            .direct(1, 1)
            .filter(|a| a.reads && !a.writes && a.immediate == Some(1))
            .map(|a| a.address.offset),
    )?;
    let at = at.checked_add(i64::from(owner))?;
    offset(at).map(|at| Location::direct(at, 4))
}

fn routine(binary: &Binary) -> Option<Location> {
    // Within a routine a result set has no warnings of its own to report.
    let eof = traced(binary, SET_EOF)?;
    let read = eof.direct(1, 8).filter(|a| a.reads);
    let at = single(read.map(|a| a.address.offset))?;
    offset(at).map(|at| Location::direct(at, 8))
}

/// 8-byte members of `Security_context` that get a value which is no plain number.
fn pointers_set(trace: &Trace) -> Vec<i64> {
    trace
        .direct(0, 8)
        .filter(|a| a.writes && a.immediate.is_none())
        .map(|a| a.address.offset)
        .collect()
}

fn skip_grants(binary: &Binary) -> Option<Trace> {
    SKIP_GRANTS.iter().find_map(|name| traced(binary, name))
}

fn mysql_client_host(binary: &Binary) -> Option<Location> {
    let (init, skip) = (traced(binary, CONTEXT_INIT)?, skip_grants(binary)?);
    let text_of = |trace: &Trace, length: u64| {
        let pointers = pointers_set(trace);
        single(
            trace
                .direct(0, 8)
                .filter(|a| a.writes && a.immediate == Some(length))
                .map(|a| a.address.offset - 8)
                .filter(|at| pointers.contains(at)),
        )
    };
    let at = text_of(&init, CONNECTING_HOST)?;
    if text_of(&skip, 0)? != at {
        return None;
    }
    let mut location = Location::behind(mysql_context(binary)?, offset(at)?, 8);
    location.length_follows = true;
    Some(location)
}

fn mariadb_client_host(binary: &Binary) -> Option<Location> {
    let user = returned(&traced(binary, "thd_user_name")?, 2)?;
    let skipped = pointers_set(&skip_grants(binary)?);
    let at = single(
        pointers_set(&traced(binary, CONTEXT_INIT)?)
            .into_iter()
            .filter(|at| skipped.contains(at)),
    )?;
    Some(Location::behind(offset(user.derefs[0])?, offset(at)?, 8))
}

/// Where the session's status counters stand in `THD`.
fn status_block(binary: &Binary) -> Option<Range<i64>> {
    if let Some(accessor) = traced(binary, STATUS_BLOCK) {
        // The flag that says whether the block was added to the global one stands behind it.
        let end = single(
            accessor
                .direct(0, 1)
                .filter(|a| a.reads)
                .map(|a| a.address.offset),
        )?;
        return Some(returned(&accessor, 0)?.offset..end);
    }
    let init = traced(binary, STATUS_INIT)?;
    let zeroed = || {
        let zeros = init.direct(0, 8).filter(|a| a.immediate == Some(0));
        zeros.map(|a| a.address.offset)
    };
    Some(zeroed().min()?..zeroed().max()?)
}

/// The one counter in the status block that `function` adds 1 to.
fn status_counter(binary: &Binary, function: &str) -> Option<Location> {
    let block = status_block(binary)?;
    let increment = traced(binary, function)?;
    let at = single(
        increment
            .direct(0, 8)
            .filter(|a| a.reads && a.writes && a.immediate == Some(1))
            .map(|a| a.address.offset)
            .filter(|at| block.contains(at)),
    )?;
    offset(at).map(|at| Location::direct(at, 8))
}

/// The one counter in the status block that `names` adds to. MySQL takes the session from the
/// thread, so that only the operand shows its place.
fn bytes(binary: &Binary, names: &[&str]) -> Option<Location> {
    let block = status_block(binary)?;
    let function = names.iter().find_map(|name| binary.function(name))?;
    let at = single(
        operands(&function)
            .filter(|o| o.is_add && o.writes && o.size == 8 && o.immediate.is_none())
            .map(|o| o.displacement)
            .filter(|at| block.contains(at)),
    )?;
    offset(at).map(|at| Location::direct(at, 8))
}

/// The cumulative status counters of a session.
fn status(binary: &Binary, name: FieldName) -> Option<Location> {
    match name {
        FieldName::TmpTables => status_counter(binary, INC_TMP),
        FieldName::TmpDiskTables => status_counter(binary, INC_TMP_DISK),
        FieldName::SelectScan => status_counter(binary, INC_SCAN),
        FieldName::SelectFullJoin => status_counter(binary, INC_FULL_JOIN),
        FieldName::BytesReceived => bytes(binary, &BYTES_RECEIVED),
        FieldName::BytesSent => bytes(binary, &BYTES_SENT),
        _ => None,
    }
}
