//! Holds the decoder against the stock servers installed on this host.

use std::path::{Path, PathBuf};

use waggle_need::skip;
use waggle_symbols::{
    Binary, FieldName, Hook, HookError, HookSite, Marks, Site, StatementLayout, TrapCost, hook,
    mark, recipe,
};

/// The stock server binaries that can be found here: MariaDB as installed, MySQL as fetched.
fn builds() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/usr/sbin/mariadbd")];
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| Path::new(&home).join(".cache"), PathBuf::from);
    if let Ok(entries) = std::fs::read_dir(cache.join("waggle/mysql")) {
        found.extend(entries.flatten().map(|e| e.path().join("usr/sbin/mysqld")));
    }
    found.retain(|path| path.exists());
    found
}

#[test]
fn stock_builds_decode_completely_and_agree_with_the_table() {
    let builds = builds();
    if builds.is_empty() {
        return skip("mariadb", "no server binary on this host");
    }
    for path in builds {
        let binary = Binary::open(&path, recipe::wanted).unwrap();
        let decoded = StatementLayout::decode(&binary);
        let missing: Vec<_> = decoded.missing().collect();
        assert!(missing.is_empty(), "{}: {missing:?}", path.display());
        let known = StatementLayout::find(&binary);
        for name in FieldName::ALL {
            assert_eq!(
                decoded.location(name),
                known.location(name),
                "{name:?} of {path:?}"
            );
        }
        let function = binary
            .function_by_prefix("_Z18log_slow_statementP3THD")
            .unwrap();
        let site = Site::find(&function, 0).unwrap();
        assert_eq!(site.trap, TrapCost::Emulated, "{site:?}");
        assert_eq!(site.register.to_string(), "rdi", "{site:?}");
    }
}

#[test]
fn hooks_are_found_with_their_arguments() {
    for path in builds() {
        let binary = Binary::open(&path, recipe::wanted).unwrap();
        let is_mariadb = binary.function("thd_query_string").is_some();
        for hook in Hook::ALL {
            let only_mysql = matches!(
                hook,
                Hook::RedoWrite
                    | Hook::BinlogCommit
                    | Hook::LockReport
                    | Hook::RowLockReport
                    | Hook::Deadlock
            );
            let only_mariadb = matches!(hook, Hook::BinlogWrite | Hook::ReplicationDeadlockCheck);
            let expected = !(only_mysql && is_mariadb || only_mariadb && !is_mariadb);
            match hook.find(&binary) {
                Ok(found) => {
                    assert!(expected, "{hook} of {path:?}");
                    assert_eq!(found.site.trap, TrapCost::Emulated, "{found:?}");
                    let names: Vec<_> = found.arguments.iter().map(|r| r.to_string()).collect();
                    let by_convention = hook.arguments().iter().map(|a| match a {
                        0 => "rdi",
                        1 => "rsi",
                        4 => "r8",
                        _ => unreachable!("no hook names another argument"),
                    });
                    assert_eq!(names, by_convention.collect::<Vec<_>>(), "{found:?}");
                }
                Err(why) => {
                    assert!(!expected, "{hook} of {path:?}: {why}");
                    assert_eq!(why, HookError::NotExported { hook });
                }
            }
        }
        let offset = hook::owner_offset(&binary);
        if is_mariadb {
            // The name of the thunk carries the offset too.
            assert!(offset.is_some_and(|o| o > 0), "{path:?}: {offset:?}");
        } else {
            assert_eq!(offset, Some(0), "{path:?}");
        }
    }
}

/// Each wait that a build announces is marked by begin and end, and only those are that need a
/// class; what MariaDB passes for every client's statement is not among them.
#[test]
fn waits_are_marked_where_they_are_called() {
    for path in builds() {
        let binary = Binary::open(&path, recipe::wanted).unwrap();
        let is_mariadb = binary.function("thd_query_string").is_some();
        let marks = Marks::find(&binary);
        assert!(marks.missing.is_empty(), "{path:?}: {:?}", marks.missing);
        let of = |hook: Hook| marks.sites.iter().filter(move |site| site.hook == hook);
        // Sleep, rows, position of a replica, its GTID; on MariaDB the group commit, a table's
        // lock and a replica's wait for the binary log too, on MySQL the engine's queue.
        let begins = if is_mariadb { 7 } else { 5 };
        assert_eq!(of(Hook::WaitBegin).count(), begins, "{path:?}: {marks:?}");
        let tables = if is_mariadb { 0 } else { 2 };
        assert_eq!(of(Hook::TableWait).count(), tables, "{path:?}: {marks:?}");
        let routine = mark::routine_end(&binary);
        let is_found = routine.as_ref().map(Option::is_some);
        assert_eq!(is_found, Ok(!is_mariadb), "{path:?}: {routine:?}");
        for begin in of(Hook::WaitBegin) {
            let same = |end: &&HookSite| end.site.function == begin.site.function;
            let jumps = begin.site.instruction == "jmp";
            assert!(
                of(Hook::WaitEnd).any(|end| same(&end) || jumps),
                "{begin:?}"
            );
        }
    }
}
