//! The redo logs of the builds that are here, decoded: not one place off an instruction boundary,
//! and not one number that the code does not say.

use std::path::{Path, PathBuf};

use waggle_need::skip;
use waggle_symbols::boundary;
use waggle_symbols::function::Program;
use waggle_symbols::{Binary, TrapCost, redo};

fn mysqlds() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    let versions = std::fs::read_dir(cache.join("waggle/mysql"));
    let versions = versions.into_iter().flatten();
    let builds = versions.filter_map(|version| Some(version.ok()?.path().join("usr/sbin/mysqld")));
    builds.filter(|path| path.exists()).collect()
}

#[test]
fn mysql_tells_how_far_its_log_is() {
    let builds = mysqlds();
    if builds.is_empty() {
        skip("mysql", "no server binary; scripts/fetch-mysql gets one");
    }
    for path in builds {
        let program = Program::open(&path).unwrap();
        let found = redo::mysql(&program).unwrap();
        assert!(found.write_lsn < found.flushed_lsn, "{found:?}");
        for site in found.written.iter().chain(&found.flushed) {
            assert_eq!(site.trap, TrapCost::Emulated, "{site:?}");
            let again = boundary::at_offset(&program, site.file_offset, &site.bytes);
            assert_eq!(again.as_ref(), Ok(site));
        }
        assert_eq!((found.written.len(), found.flushed.len()), (1, 1));
        if program.path().to_string_lossy().contains("/9.7.4-") {
            assert_eq!((found.write_lsn, found.flushed_lsn), (0x1c0, 0x300));
            assert_eq!(found.paused, 0x140);
            assert_eq!(
                (found.write.address, found.flush.address),
                (0x28d_bb90, 0x28d_8c60)
            );
            assert_eq!(found.flushed[0].function_offset, 0xa1);
        }
    }
}

#[test]
fn mariadb_tells_its_group_commit() {
    let path = Path::new("/usr/sbin/mariadbd");
    if !path.exists() {
        return skip("mariadb", "no server binary on this host");
    }
    let program = Program::open(path).unwrap();
    let binary = Binary::open(path, redo::wanted).unwrap();
    let found = redo::mariadb(&program, &binary).unwrap();
    let apart = found.write_lock.abs_diff(found.flush_lock);
    assert!((64..=256).contains(&apart), "{found:x?}");
    assert!((8..=64).contains(&found.value), "{found:x?}");
    let build = binary
        .build_id()
        .map(ToString::to_string)
        .unwrap_or_default();
    if build.starts_with("439da8d9") {
        let functions = [&found.wait, &found.acquire, &found.release].map(|f| f.address);
        assert_eq!(functions, [0xd5_e2c0, 0xd6_e1e0, 0xd6_dd00]);
        assert_eq!(
            (found.write_lock, found.flush_lock),
            (0x216_b380, 0x216_b400)
        );
        assert_eq!(found.value, 0x28);
    }
}

#[test]
fn names_stand_for_functions() {
    for path in mysqlds() {
        let program = Program::open(&path).unwrap();
        for name in ["log_write_up_to", "_Z15log_write_up_toR5log_tmb"] {
            let found = program.function(name).unwrap();
            assert_eq!(found.name, "_Z15log_write_up_toR5log_tmb");
        }
        let found = program.function("MYSQL_BIN_LOG::ordered_commit").unwrap();
        assert!(found.name.contains("ordered_commit"));
        // Several functions have that name, and it is none's alone.
        let error = program.function("gis::Area::eval").unwrap_err().to_string();
        assert!(error.contains("may be any of"), "{error}");
        let error = program.function("log_write").unwrap_err().to_string();
        assert!(error.contains("exports no function log_write"), "{error}");
        assert!(program.address("log_sys").is_some());
    }
}
