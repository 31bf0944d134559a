//! Are the places where servers' threads sleep for latches found in the builds that are here?

use std::path::{Path, PathBuf};

use waggle_need::skip;
use waggle_symbols::latch::{RwMode, thread_number};
use waggle_symbols::{LatchHook, LatchLayout, TrapCost};

fn mysql() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    let versions = std::fs::read_dir(cache.join("waggle/mysql"));
    let versions = versions.into_iter().flatten().flatten();
    let roots = versions.map(|version| version.path());
    roots
        .filter(|root| root.join("usr/sbin/mysqld").exists())
        .collect()
}

#[test]
fn every_latch_of_mysql_has_its_places() {
    let roots = mysql();
    if roots.is_empty() {
        return skip("mysql", "there is no mysqld here (scripts/fetch-mysql)");
    }
    for root in roots {
        let layout = LatchLayout::open(&root.join("usr/sbin/mysqld")).unwrap();
        assert_eq!(layout.missing, [], "{root:?}");
        for hook in LatchHook::ALL {
            let site = layout
                .site(hook)
                .unwrap_or_else(|| panic!("{root:?}: {hook}"));
            assert_eq!(site.site.trap, TrapCost::Emulated, "{hook}: {site:?}");
            let within = [
                LatchHook::Sleeps,
                LatchHook::Wakes,
                LatchHook::MetadataWakes,
            ];
            assert_eq!(site.at_entry, !within.contains(&hook), "{hook}");
        }
        let mutex = layout.mutex.unwrap();
        assert_eq!((mutex.owner, mutex.event), (Some(0), 8));
        assert_eq!(mutex.latch_id, Some(0x20));
        let rw_lock = layout.rw_lock.unwrap();
        assert_eq!((rw_lock.writer, rw_lock.event), (0x10, 0x20));
        assert_eq!(rw_lock.made_at, 0x30);
        let number = |mode| {
            let mut types = layout.types.iter();
            types.find(|t| t.mode == Some(mode)).map(|t| t.number)
        };
        assert_eq!(number(RwMode::Shared), Some(4));
        assert_eq!(number(RwMode::SharedExclusive), Some(2));
        assert_eq!(number(RwMode::Exclusive), Some(5));
        assert_eq!(number(RwMode::ExclusiveDraining), Some(3));
        let mutexes = layout.types.iter().filter(|t| t.mode.is_none());
        assert_eq!(mutexes.map(|t| t.number).collect::<Vec<_>>(), [1, 18]);
        assert!(layout.names.is_some() && layout.key.is_some());
        let libc = root.join("usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(thread_number(&libc), Ok(0x2d0));
    }
}

#[test]
fn mariadb_has_metadata_locks() {
    let path = Path::new("/usr/sbin/mariadbd");
    if !path.exists() {
        return skip("mariadb", "there is no mariadbd here (scripts/setup test)");
    }
    let layout = LatchLayout::open(path).unwrap();
    assert_eq!(layout.missing, []);
    assert_eq!(layout.sites.len(), 3);
    assert_eq!(layout.key.map(|key| key.key), Some(8));
}

#[test]
fn a_program_that_is_no_server_has_no_places() {
    let own = std::env::current_exe().unwrap();
    let layout = LatchLayout::open(&own).unwrap();
    assert!(layout.sites.is_empty());
    assert_eq!(layout.missing.len(), 1, "{:?}", layout.missing);
}
