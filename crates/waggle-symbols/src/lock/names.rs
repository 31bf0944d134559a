//! By which names does a server export the functions of its locks?
//!
//! Of two names for one function, MySQL's and MariaDB's. Neighbours: who looks for sites, and for
//! offsets.

pub(super) const WAIT_BEGIN: [&str; 2] = ["_Z14thd_wait_beginP3THDi", "thd_wait_begin"];
pub(super) const WAIT_END: [&str; 2] = ["_Z12thd_wait_endP3THD", "thd_wait_end"];
pub(super) const STORAGE_LOCK_WAIT: &str = "thd_storage_lock_wait";
pub(super) const SUSPEND: &str = "_Z24lock_wait_suspend_threadP9que_thr_t";
pub(super) const REPORT: [&str; 2] = ["_Z20thd_report_lock_waitP3THDS0_b", "thd_report_lock_wait"];
pub(super) const REPORT_ROW: [&str; 2] = [
    "_Z24thd_report_row_lock_waitP3THDS0_",
    "thd_report_row_lock_wait",
];
pub(super) const DEADLOCK_CHECK: &str = "thd_rpl_deadlock_check";
pub(super) const NOTIFY_DEADLOCK: &str = "_Z26lock_notify_about_deadlockRK";
pub(super) const NOTIFY: &str = "_ZN17Deadlock_notifier6notifyERK";
pub(super) const PREFERENCE: &str = "thd_deadlock_victim_preference";
pub(super) const TIMED_WAIT: &str = "_ZN8MDL_wait10timed_waitEP17MDL_context_owner";
pub(super) const ENTER_NODE: &str = "_ZN26Deadlock_detection_visitor10enter_nodeEP11MDL_context";
pub(super) const VISIT_LOCK: &str =
    "_ZN8MDL_lock14visit_subgraphEP10MDL_ticketP26MDL_wait_for_graph_visitor";
pub(super) const VISIT_CONTEXT: &str =
    "_ZN11MDL_context14visit_subgraphEP26MDL_wait_for_graph_visitor";
pub(super) const TICKET_WEIGHT: &str = "_ZNK10MDL_ticket19get_deadlock_weightEv";
pub(super) const SET_STATUS: &str = "_ZN8MDL_wait10set_statusENS_16enum_wait_statusE";
pub(super) const GET_STATUS: &str = "_ZN8MDL_wait10get_statusEv";
pub(super) const IS_INTERRUPTED: &str = "_Z18trx_is_interruptedPK5trx_t";
pub(super) const GET_THD: &str = "_ZN3THD7get_thdEv";
pub(super) const GET_THD_THUNK: (&str, &str) = ("_ZThn", "_N3THD7get_thdEv");

/// True for the functions that are looked for.
pub(super) fn wanted(name: &str) -> bool {
    const PREFIXES: [&str; 19] = [
        WAIT_BEGIN[0],
        WAIT_BEGIN[1],
        WAIT_END[0],
        WAIT_END[1],
        STORAGE_LOCK_WAIT,
        SUSPEND,
        REPORT[0],
        REPORT[1],
        REPORT_ROW[0],
        REPORT_ROW[1],
        DEADLOCK_CHECK,
        NOTIFY_DEADLOCK,
        NOTIFY,
        PREFERENCE,
        TIMED_WAIT,
        SET_STATUS,
        GET_STATUS,
        IS_INTERRUPTED,
        GET_THD,
    ];
    [ENTER_NODE, VISIT_LOCK, VISIT_CONTEXT, TICKET_WEIGHT].contains(&name)
        || PREFIXES.iter().any(|wanted| name.starts_with(wanted))
        || name.starts_with(GET_THD_THUNK.0) && name.ends_with(GET_THD_THUNK.1)
}
