//! What another user of the machine gets out of a throw-away server, and what somebody inside.
//!
//! Users are changed for one thread, by the system calls themselves: rights are a thread's. Nothing
//! here waits for a time.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

use waggle_need::{is_root, need};
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxError, SandboxSpec};
use waggle_server::topology::{Topology, primary_settings};
use waggle_wire::{Connection, Dsn, Endpoint, Secret, ServerKey};

use crate::needs::flavours;

/// Somebody who has an account on the machine.
const STRANGER: u32 = 65_534;

fn can_be_others() -> bool {
    need("root", is_root(), "only root can act as another user")
}

/// Does something as another user, without groups and rights.
fn as_user<T: Send>(id: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: integers and an empty list; the bare calls change this thread alone, which
            // ends with the closure.
            unsafe {
                let nobody: *const libc::gid_t = std::ptr::null();
                assert_eq!(libc::syscall(libc::SYS_setgroups, 0, nobody), 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, id, id, id), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, id, id, id), 0);
            }
            work()
        });
        thread.join().unwrap()
    })
}

fn refused<T>(result: std::io::Result<T>, what: &str) {
    let error = result.err().unwrap_or_else(|| panic!("{what} is open"));
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
}

fn text(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    let texts = rows.iter().map(|row| row[0].clone().unwrap_or_default());
    let texts: Vec<String> = texts.map(|t| String::from_utf8(t).unwrap()).collect();
    texts.join(",")
}

fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn_socket()).unwrap()
}

fn errno(connection: &mut Connection, sql: &str) -> Option<u16> {
    connection
        .query(sql.as_bytes())
        .err()
        .and_then(|e| e.errno())
}

#[test]
fn another_user_gets_neither_into_the_directory_nor_into_the_server() {
    if !can_be_others() {
        return;
    }
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour).tcp()).unwrap();
        let entry = server.entry().clone();
        as_user(STRANGER, || {
            refused(fs::read_dir(&entry.dir), "the directory");
            for name in [
                "password",
                "error.log",
                "lock",
                "data/ibdata1",
                "run/mysqld.pid",
            ] {
                refused(File::open(entry.dir.join(name)), name);
            }
            refused(UnixStream::connect(&entry.socket), "the socket");
            let endpoint = Endpoint::Tcp {
                host: "127.0.0.1".into(),
                port: entry.port.unwrap(),
            };
            for user in ["root", "", "mysql", "nobody"] {
                for password in [None, Some(Secret::new("root"))] {
                    let password = password.clone();
                    let dsn = Dsn {
                        password,
                        server_key: ServerKey::Asked,
                        ..Dsn::new(endpoint.clone(), user)
                    };
                    let error = Connection::connect(&dsn).unwrap_err();
                    // Of one that does not exist, MySQL makes up how it would be asked.
                    let is_denied = matches!(error.errno(), Some(1045 | 1698));
                    assert!(user != "root" || is_denied, "{error}");
                }
            }
        });
        // What is printed and published names the file and does not hold the password.
        let published = serde_json::to_string(&entry).unwrap();
        let password = server.password().expose();
        assert!(password.len() >= 26 && !published.contains(password));
        assert!(published.contains("password-file="));
        let dsn: Dsn = entry.dsn.parse().unwrap();
        Connection::connect(&dsn).unwrap();
    }
}

#[test]
fn every_account_that_can_log_in_has_a_password() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let sql = match flavour {
            Flavour::MySql => {
                "SELECT CONCAT(user, '@', host) FROM mysql.user \
                 WHERE account_locked = 'N' AND (authentication_string = '' OR user = '') \
                 UNION SELECT CONCAT('open: ', user) FROM mysql.user \
                 WHERE account_locked = 'N' AND user <> 'root'"
            }
            Flavour::MariaDb => {
                "SELECT CONCAT(User, '@', Host, Priv) FROM mysql.global_priv \
                 WHERE NOT COALESCE(JSON_VALUE(Priv, '$.account_locked'), 0) \
                 AND (User <> 'root' \
                 OR COALESCE(JSON_VALUE(Priv, '$.authentication_string'), '') IN ('', 'invalid'))"
            }
        };
        assert_eq!(text(&mut connect(&server), sql), "", "{flavour}");
    }
}

/// Of `/proc/PID/status`.
fn status(pid: u32) -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn assert_has_no_rights(server: &Sandbox) {
    let uid = server.uid().expect("a user of its own").to_string();
    let status = status(server.pid());
    let of = |name: &str| {
        let found = status.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    for ids in ["Uid", "Gid"] {
        assert!(
            of(ids).split_whitespace().all(|id| id == uid),
            "{}",
            of(ids)
        );
    }
    assert_eq!(of("Groups"), "");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(of(set), "0000000000000000", "{set}");
    }
    assert_eq!(of("NoNewPrivs"), "1");
}

#[test]
fn a_server_that_root_starts_has_a_user_of_its_own_and_no_rights() {
    if !can_be_others() {
        return;
    }
    for flavour in flavours() {
        let spec = SandboxSpec {
            settings: primary_settings(flavour),
            ..SandboxSpec::new(flavour)
        };
        let primary = Sandbox::start(&spec).unwrap();
        let mut topology = Topology::around(primary, &[SandboxSpec::new(flavour)]).unwrap();
        assert_has_no_rights(topology.primary());
        let primary = topology.primary().uid();
        let replica = topology.replicas()[0].sandbox();
        assert_has_no_rights(replica);
        assert_ne!(replica.uid(), primary);
        topology.stop().unwrap();
    }
}

#[test]
fn who_has_the_password_writes_and_reads_no_file_outside() {
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let mut connection = connect(&server);
        let plugins = text(&mut connection, "SELECT @@plugin_dir");
        let data = text(&mut connection, "SELECT @@datadir");
        for place in ["/etc/", "/tmp/", "/", &plugins, &data] {
            let (file, name) = (format!("{place}/waggle-proof-{}", server.name()), place);
            for kind in ["OUTFILE", "DUMPFILE"] {
                let sql = format!("SELECT 'x' INTO {kind} '{file}'");
                assert_eq!(errno(&mut connection, &sql), Some(1290), "{flavour} {name}");
            }
            assert!(!Path::new(&file).exists(), "{file}");
        }
        let seen = text(&mut connection, "SELECT LOAD_FILE('/etc/passwd') IS NULL");
        assert_eq!(seen, "1");
        assert!(
            errno(
                &mut connection,
                "CREATE FUNCTION f RETURNS INTEGER SONAME '../x.so'"
            )
            .is_some()
        );

        // Its own directory is what it can write to, as itself.
        let inside = server.path_in_server(&server.files().join("own")).unwrap();
        let sql = format!("SELECT 'x' INTO OUTFILE '{}'", inside.display());
        assert_eq!(errno(&mut connection, &sql), None);
        let made = fs::metadata(server.files().join("own")).unwrap();
        // SAFETY: geteuid has no arguments and cannot fail.
        let own = unsafe { libc::geteuid() };
        assert_eq!(made.uid(), server.uid().unwrap_or(own));
    }
}

#[test]
fn the_program_and_its_plugins_are_not_the_servers_to_change() {
    if !can_be_others() {
        return;
    }
    for flavour in flavours() {
        let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let plugins = text(&mut connect(&server), "SELECT @@plugin_dir");
        let root = format!("/proc/{}/root", server.pid());
        let below = |place: &str| Path::new(&root).join(place.trim_start_matches('/'));
        let (plugins, top) = (below(&plugins), below("/"));
        let exe = server.program().exe.clone();
        for place in [plugins.as_path(), &top, exe.parent().unwrap()] {
            // MariaDB's is made when there is a plugin; what is above it decides until then.
            let there = place.ancestors().find(|place| place.exists()).unwrap();
            let facts = fs::metadata(there).unwrap();
            assert_eq!(facts.uid(), 0, "{}", place.display());
            assert_eq!(facts.mode() & 0o022, 0, "{}", place.display());
        }
        let dir = &server.entry().dir;
        as_user(server.uid().unwrap(), || {
            // It may pass through its directory, and change nothing of what is the starter's.
            refused(fs::rename(dir.join("data"), dir.join("x")), "renaming");
            refused(fs::write(dir.join("x"), "x"), "writing beside");
            for name in ["password", "error.log", "lock"] {
                refused(File::open(dir.join(name)), name);
                refused(fs::remove_file(dir.join(name)), name);
            }
            File::open(dir.join("data/ibdata1")).unwrap();
        });
    }
}

#[test]
fn links_that_a_server_left_are_not_followed_by_root() {
    if !can_be_others() {
        return;
    }
    for flavour in flavours() {
        let victims = tempfile::tempdir().unwrap();
        let (folder, file) = (victims.path().join("folder"), victims.path().join("file"));
        fs::create_dir(&folder).unwrap();
        for file in [&folder.join("kept"), &file] {
            fs::write(file, "precious").unwrap();
        }
        let mut server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let dir = server.entry().dir.clone();
        as_user(server.uid().unwrap(), || {
            for place in ["tmp", "files", "run", "data"] {
                symlink(&folder, dir.join(place).join("to-folder")).unwrap();
                symlink(&file, dir.join(place).join("to-file")).unwrap();
            }
            symlink(&folder, dir.join("data/sbtest/to-folder")).unwrap();
            fs::create_dir(dir.join("tmp/below")).unwrap();
            symlink(&folder, dir.join("tmp/below/to-folder")).unwrap();
        });
        server.restart(&[]).unwrap();
        assert_eq!(fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
        server.halt().unwrap();
        let copy = Sandbox::start_on_copy(&SandboxSpec::new(flavour), server.datadir()).unwrap();
        for name in ["to-file", "to-folder", "sbtest/to-folder"] {
            assert!(
                fs::symlink_metadata(copy.datadir().join(name)).is_err(),
                "{name}"
            );
        }
        assert_ne!(copy.password(), server.password());
        connect(&copy);
        drop((server, copy));
        assert!(!dir.exists());
        for kept in [folder.join("kept"), file] {
            assert_eq!(fs::read_to_string(&kept).unwrap(), "precious");
            assert_eq!(fs::metadata(&kept).unwrap().uid(), 0);
        }

        // A table space that is a link makes a copy of somebody else's file.
        let data = victims.path().join("data");
        fs::create_dir(&data).unwrap();
        symlink("/etc/shadow", data.join("ibdata1")).unwrap();
        let error = Sandbox::start_on_copy(&SandboxSpec::new(flavour), &data).unwrap_err();
        assert!(matches!(error, SandboxError::Io { .. }), "{error}");
    }
}

#[test]
fn a_process_that_left_the_servers_group_ends_with_the_server() {
    if !can_be_others() {
        return;
    }
    let Some(&flavour) = flavours().first() else {
        return;
    };
    let server = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
    // As code within a server would do it: another session, the same user.
    let id = server.uid().unwrap();
    let mut command = std::process::Command::new("sleep");
    let command = std::os::unix::process::CommandExt::uid(command.arg("600"), id);
    let command = std::os::unix::process::CommandExt::gid(command, id);
    let mut left = std::os::unix::process::CommandExt::process_group(command, 0)
        .spawn()
        .unwrap();
    server.stop().unwrap();
    let ended = left.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended),
        Some(libc::SIGKILL)
    );
}

#[test]
fn the_password_is_there_first_and_in_no_binary_log() {
    for flavour in flavours() {
        let mut spec = SandboxSpec {
            settings: primary_settings(flavour),
            ..SandboxSpec::new(flavour)
        };
        // The strictest of what forbids writing, and statements of the user that come after.
        let strict = match flavour {
            Flavour::MySql => "super_read_only",
            Flavour::MariaDb => "read_only",
        };
        let own = tempfile::NamedTempFile::new().unwrap();
        fs::write(own.path(), "SET GLOBAL max_connections = 99;\n").unwrap();
        spec = spec.set(strict, "ON");
        spec = spec.set("init-file", own.path().to_str().unwrap());
        let mut server = Sandbox::start(&spec).unwrap();
        for _ in 0..2 {
            let mut connection = connect(&server);
            let written = match flavour {
                Flavour::MySql => "SELECT @@GLOBAL.gtid_executed",
                Flavour::MariaDb => "SELECT @@GLOBAL.gtid_binlog_pos",
            };
            assert_eq!(text(&mut connection, written), "", "{flavour}");
            assert_eq!(text(&mut connection, &format!("SELECT @@{strict}")), "1");
            assert_eq!(text(&mut connection, "SELECT @@max_connections"), "99");
            assert_eq!(text(&mut connection, "SELECT @@sql_log_bin"), "1");
            let left = server.entry().dir.join("init.sql");
            assert!(!left.exists(), "the statements with the password are left");
            let without = Dsn {
                password: None,
                ..server.dsn_socket()
            };
            let error = Connection::connect(&without).unwrap_err();
            assert_eq!(error.errno(), Some(1045), "{error}");
            server.restart(&[]).unwrap();
        }
    }
}

#[test]
fn settings_that_would_open_a_server_are_refused() {
    let spec = SandboxSpec::new(Flavour::MariaDb);
    for (name, value) in [
        ("skip-grant-tables", "1"),
        ("loose_skip_grant_tables", "1"),
        ("plugin_dir", "/tmp"),
        ("secure_file_priv", ""),
        ("wsrep_provider", "/tmp/x.so"),
    ] {
        let error = Sandbox::start(&spec.clone().set(name, value)).unwrap_err();
        assert!(
            matches!(error, SandboxError::BadSetting { .. }),
            "{name}: {error}"
        );
    }
}
