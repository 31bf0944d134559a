//! Are the places where servers report lock waits found in the builds that are here?

use std::path::{Path, PathBuf};

use waggle_symbols::{LockHook, LockLayout, TrapCost};

fn builds() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    let versions = std::fs::read_dir(cache.join("waggle/mysql"))
        .into_iter()
        .flatten();
    let mut builds: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("usr/sbin/mysqld")))
        .collect();
    builds.push("/usr/sbin/mariadbd".into());
    builds.retain(|path| Path::exists(path));
    builds
}

#[test]
fn stock_builds_tell_who_waits_for_whom() {
    for path in builds() {
        let layout = LockLayout::open(&path).unwrap();
        let is_mariadb = !layout.edge_replaces;
        assert!(layout.missing.is_empty(), "{path:?}: {:?}", layout.missing);
        assert!(layout.status_offset.is_some(), "{path:?}");
        let search = layout.search.expect("the search");
        assert_eq!(search.key, if is_mariadb { 8 } else { 6 }, "{path:?}");
        assert_eq!(layout.transaction_thd.is_none(), is_mariadb, "{path:?}");
        assert_eq!(layout.members_offset.is_none(), is_mariadb, "{path:?}");
        assert_eq!(layout.owner_offset > 0, is_mariadb, "{path:?}");
        for hook in LockHook::ALL {
            let foreign = match hook {
                LockHook::RowDeadlock => is_mariadb,
                LockHook::RowDeadlockPair => !is_mariadb,
                _ => false,
            };
            let site = layout.site(hook);
            assert_eq!(site.is_none(), foreign, "{path:?}: {hook}");
            if let Some(site) = site {
                assert_eq!(site.trap, TrapCost::Emulated, "{path:?}: {site:?}");
            }
        }
    }
}
