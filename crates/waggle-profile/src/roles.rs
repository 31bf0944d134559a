//! What is a thread there for?
//!
//! Its name says it, where a server names its threads (MySQL); where they all have the program's
//! name (MariaDB), the outermost of the program's own calls does. A thread of a pool does one task
//! after the other, so its role is its task's: that of the stack. Neighbours:
//! `waggle_trace::threads` knows what the names mean, `waggle_trace::stack` finds the outermost
//! calls.
//!
//! Invariant: a thread of which nothing is known is called by its name.

use waggle_foreign::is_harmful;
use waggle_trace::threads::role_of;

/// The role of threads that carry out clients' statements.
pub const USER: &str = "user thread";

/// What the outermost calls of MariaDB's threads are for.
const ROOTS: &[(&str, &str)] = &[
    ("handle_one_connection", USER),
    ("do_handle_one_connection", USER),
    ("thd_prepare_connection", USER),
    ("do_command", USER),
    ("worker_main", USER),
    ("threadpool_worker_main", USER),
    ("handle_connection", USER),
    ("buf_flush_page_cleaner", "page cleaner"),
    ("buf_flush_page_coordinator_thread", "page cleaner"),
    ("buf_flush_page_cleaner_thread", "page cleaner"),
    ("log_writer", "log writer"),
    ("log_flusher", "log flusher"),
    ("log_write_notifier", "log write notifier"),
    ("log_flush_notifier", "log flush notifier"),
    ("log_checkpointer", "log checkpointer"),
    ("log_files_governor", "log files governor"),
    ("srv_purge_coordinator_thread", "purge"),
    ("srv_worker_thread", "purge"),
    ("srv_master_thread", "InnoDB master"),
    ("srv_monitor_thread", "InnoDB monitor"),
    ("srv_error_monitor_thread", "InnoDB monitor"),
    ("lock_wait_timeout_thread", "InnoDB monitor"),
    ("io_handler_thread", "I/O"),
    ("fil_aio_wait", "I/O"),
    ("dict_stats_thread", "statistics"),
    ("buf_dump_thread", "buffer pool dump"),
    ("fts_optimize_thread", "full-text optimiser"),
    ("handle_slave_sql", "replica coordinator"),
    ("handle_slave_io", "replica receiver"),
    ("handle_rpl_parallel_thread", "replica worker"),
    ("handle_slave_worker", "replica worker"),
    ("handle_slave_background", "replica background"),
    ("binlog_background_thread", "binary log background"),
    ("ack_receive_handler", "semi-sync receiver"),
    ("event_scheduler_thread", "event scheduler"),
    ("event_worker_thread", USER),
    ("timer_handler", "timer"),
    ("signal_hand", "signal handler"),
    ("ma_checkpoint_background", "Aria checkpointer"),
    ("handle_manager", "manager"),
    ("mysqld_main", "listener"),
    ("main", "main"),
    ("srv_monitor_task", "InnoDB monitor"),
    ("fts_optimize_callback", "full-text optimiser"),
];

/// Calls that tell the task of a thread of a pool.
const TASKS: &[(&str, &str)] = &[
    ("purge_worker_callback", "purge"),
    ("purge_coordinator_callback", "purge"),
    ("srv_purge", "purge"),
    ("trx_purge", "purge"),
    ("io_callback", "I/O"),
    ("fil_aio_callback", "I/O"),
    ("log_checkpoint", "log checkpointer"),
    ("srv_monitor_task", "InnoDB monitor"),
    ("srv_master_callback", "InnoDB master"),
    ("dict_stats_func", "statistics"),
    ("fts_optimize_callback", "full-text optimiser"),
    ("ibuf_merge", "change buffer"),
];

/// What is known of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its own name, if it was seen.
    pub name: Option<&'a str>,
    /// What threads of the process are called that have no name of their own.
    pub program: &'a str,
    /// The outermost of the program's own calls, if there is one.
    pub root: Option<&'a str>,
}

/// The role of a thread in calls of these names.
///
/// `calls` are the names of the stack's calls, in any order.
pub fn of<'a>(known: Known<'_>, mut calls: impl Iterator<Item = &'a str>) -> String {
    let named = known.name.filter(|name| *name != known.program);
    if let Some(name) = named {
        return plain(match role_of(name) {
            "user connection" => USER,
            role => role,
        });
    }
    let Some(root) = known.root else {
        return plain(known.name.unwrap_or(known.program));
    };
    if is_by_stack(root) {
        let task = calls.find_map(|call| look_up(TASKS, call));
        let unknown = || match is_pool(root) {
            true => "task pool".to_owned(),
            false => plain(root),
        };
        return task.map_or_else(unknown, str::to_owned);
    }
    look_up(ROOTS, root).map_or_else(|| plain(short(root)), str::to_owned)
}

fn is_pool(root: &str) -> bool {
    root.trim_start_matches('~').starts_with("tpool::")
}

/// True if what the thread is for shows in its stack, not in its outermost call: it is of a pool,
/// or that call has no name of its own.
fn is_by_stack(root: &str) -> bool {
    is_pool(root) || root.starts_with(['~', '['])
}

fn look_up(table: &[(&str, &'static str)], call: &str) -> Option<&'static str> {
    let call = short(call);
    table
        .iter()
        .find(|(name, _)| *name == call)
        .map(|(_, r)| *r)
}

/// Without parameters and how a compiler split the function.
fn short(call: &str) -> &str {
    call.split(['(', '.']).next().unwrap_or(call)
}

/// The kernel allows every byte in a name, and it goes to a terminal.
fn plain(name: &str) -> String {
    let plain = |c: char| if is_harmful(c) { '?' } else { c };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: Option<&str>, root: Option<&str>, calls: &[&str]) -> String {
        let known = Known {
            name,
            program: "mariadbd",
            root,
        };
        of(known, calls.iter().copied())
    }

    #[test]
    fn roles_come_from_names_then_from_calls() {
        assert_eq!(role(Some("connection"), None, &[]), USER);
        assert_eq!(role(Some("ib_log_writer"), None, &[]), "log writer");
        assert_eq!(role(Some("rpl_rca_wkr-3"), None, &[]), "replica worker");
        let root = Some("do_handle_one_connection(CONNECT*, bool)");
        assert_eq!(role(Some("mariadbd"), root, &[]), USER);
        let root = Some("buf_flush_page_cleaner");
        assert_eq!(role(Some("mariadbd"), root, &[]), "page cleaner");
        // The function behind another is not that one.
        let root = Some("~do_command+0x10");
        assert_eq!(role(Some("mariadbd"), root, &[]), "~do_command+0x10");
        assert_eq!(role(Some("mariadbd"), root, &["~", "trx_purge"]), "purge");
        assert_eq!(role(None, Some("some_work"), &[]), "some_work");
        assert_eq!(role(None, None, &[]), "mariadbd");
        assert_eq!(role(Some("a\x1bb"), None, &[]), "a?b");
    }

    #[test]
    fn a_thread_of_a_pool_has_the_role_of_its_task() {
        let root = Some("tpool::thread_pool_generic::worker_main");
        let calls = ["tpool::task::execute", "purge_worker_callback", "row_purge"];
        assert_eq!(role(Some("mariadbd"), root, &calls), "purge");
        assert_eq!(role(Some("mariadbd"), root, &calls[..1]), "task pool");
    }
}
