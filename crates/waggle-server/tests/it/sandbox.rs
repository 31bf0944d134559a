//! Starting, refusing, stopping.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::cpu::{process_cpu_ns, process_rss_bytes};
use waggle_server::process::{find_servers, from_pid};
use waggle_server::sandbox::{Sandbox, SandboxError, SandboxSpec, ServerExit, registry};
use waggle_server::status::{GlobalStatus, variables};
use waggle_wire::{Connection, Dsn, Endpoint};

use crate::needs::flavours;

fn text(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    String::from_utf8(rows[0][0].clone().unwrap()).unwrap()
}

fn is_mounted(dir: &Path) -> bool {
    std::fs::read_to_string("/proc/self/mounts")
        .unwrap()
        .contains(dir.to_str().unwrap())
}

#[test]
fn a_server_answers_and_leaves_nothing() {
    for flavour in flavours() {
        let begin = Instant::now();
        let sandbox = Sandbox::start(&SandboxSpec::new(flavour).tcp()).unwrap();
        println!(
            "{flavour} {} answered after {:?}",
            sandbox.version(),
            begin.elapsed()
        );
        let dir = sandbox.entry().dir.clone();
        assert!(sandbox.socket().as_os_str().len() <= 107);

        for dsn in [sandbox.dsn(), sandbox.dsn_socket()] {
            let mut connection = Connection::connect(&dsn).unwrap();
            assert_eq!(connection.is_mariadb(), flavour == Flavour::MariaDb);
            assert_eq!(text(&mut connection, "SELECT DATABASE()"), "sbtest");
            assert_eq!(text(&mut connection, "SELECT @@performance_schema"), "0");
            assert_eq!(text(&mut connection, "SELECT @@log_bin"), "0");
            assert_eq!(
                text(&mut connection, "SELECT @@innodb_flush_log_at_trx_commit"),
                "1"
            );
        }
        finds_and_measures(&sandbox);

        let pid = sandbox.pid();
        sandbox.stop().unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(
            !dir.exists() && !is_mounted(&dir),
            "{} is left",
            dir.display()
        );
        assert!(registry::list().iter().all(|entry| entry.pid != pid));
    }
}

fn finds_and_measures(sandbox: &Sandbox) {
    let pid = sandbox.pid();
    let process = from_pid(pid).unwrap();
    assert_eq!(process.flavour, sandbox.flavour());
    assert_eq!(process.version.as_deref(), Some(sandbox.version()));
    assert_eq!(process.build_id, sandbox.program().build_id);
    assert_eq!(process.root, sandbox.program().root);
    assert_eq!(process.foreign_mounts, sandbox.program().root.is_some());
    assert!(find_servers().contains(&process));
    assert!(registry::list().contains(sandbox.entry()));

    let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
    let cpu = process_cpu_ns(pid).unwrap();
    let status = b"SHOW GLOBAL STATUS LIKE 'Threads_connected'";
    let deadline = Instant::now() + Duration::from_secs(60);
    // The end of a session is a question of its own, also of one that was left just before.
    while connection.query_rows(status).unwrap()[0][1].as_deref() != Some(b"1") {
        assert!(Instant::now() < deadline, "a session that does not end");
    }
    let before = GlobalStatus::read(&mut connection).unwrap();
    for _ in 0..10 {
        connection.query(b"DO 1").unwrap();
    }
    let after = GlobalStatus::read(&mut connection).unwrap();
    assert_eq!(after.questions.unwrap() - before.questions.unwrap(), 11);
    assert!(process_cpu_ns(pid).unwrap() > cpu);
    assert!(process_rss_bytes(pid).unwrap() > 10 << 20);
    let variables = variables(&mut connection).unwrap();
    assert_eq!(variables["port"], sandbox.port().unwrap().to_string());
    assert_eq!(variables["innodb_buffer_pool_size"], "268435456");
}

#[test]
fn an_impossible_setting_gives_the_servers_own_words() {
    for flavour in flavours() {
        let spec = SandboxSpec::new(flavour).set("no_such_setting", "1");
        let error = Sandbox::start(&spec).unwrap_err();
        assert!(error.is_unusable());
        let SandboxError::Refused {
            exit, message, log, ..
        } = error
        else {
            panic!("{error}")
        };
        assert!(
            matches!(exit, ServerExit::Code(code) if code != 0),
            "{exit}"
        );
        assert!(
            message.contains("unknown variable 'no-such-setting=1'"),
            "{message}"
        );
        assert!(
            std::fs::read_to_string(&log)
                .unwrap()
                .contains("no-such-setting")
        );
        assert!(!PathBuf::from(log.to_str().unwrap().replace(".error.log", "")).exists());
        std::fs::remove_file(log).unwrap();
    }
}

#[test]
fn more_memory_than_there_is_gives_the_servers_own_words() {
    for flavour in flavours() {
        let spec = SandboxSpec::new(flavour).set("innodb_buffer_pool_size", "1T");
        let SandboxError::Refused { message, log, .. } = Sandbox::start(&spec).unwrap_err() else {
            panic!()
        };
        assert!(message.contains("Cannot "), "{message}");
        std::fs::remove_file(log).unwrap();
    }
}

#[test]
fn settings_reach_the_server_and_a_restart_changes_them() {
    for flavour in flavours() {
        let spec = SandboxSpec::new(flavour).set("max_connections", "77").tcp();
        let mut sandbox = Sandbox::start(&spec).unwrap();
        let (port, first) = (sandbox.port(), sandbox.pid());
        let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
        assert_eq!(text(&mut connection, "SELECT @@max_connections"), "77");
        connection
            .query(b"CREATE TABLE kept AS SELECT 42 AS answer")
            .unwrap();

        // What a replica that was killed leaves keeps the next applier from starting.
        let left = sandbox.entry().dir.join("tmp/SQL_LOAD-left");
        std::fs::write(&left, "").unwrap();
        sandbox
            .restart(&[("performance_schema".into(), "ON".into())])
            .unwrap();
        assert!(!left.exists());
        assert_eq!(sandbox.port(), port);
        assert_ne!(sandbox.pid(), first);
        let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
        assert_eq!(text(&mut connection, "SELECT @@performance_schema"), "1");
        assert_eq!(text(&mut connection, "SELECT @@max_connections"), "77");
        assert_eq!(text(&mut connection, "SELECT answer FROM kept"), "42");
        assert!(registry::list().contains(sandbox.entry()));

        let error = sandbox
            .restart(&[("nonsense".into(), "1".into())])
            .unwrap_err();
        assert!(
            matches!(&error, SandboxError::Refused { log, .. }
            if std::fs::remove_file(log).is_ok()),
            "{error}"
        );
        // The data is still there for a restart that can be.
        sandbox.restart(&[]).unwrap();
        let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
        assert_eq!(text(&mut connection, "SELECT answer FROM kept"), "42");
        let dir = sandbox.entry().dir.clone();
        drop(sandbox);
        assert!(!dir.exists());
    }
}

#[test]
fn a_page_size_gets_a_template_of_its_own() {
    for flavour in flavours() {
        let spec = SandboxSpec::new(flavour).set("innodb_page_size", "8192");
        let sandbox = Sandbox::start(&spec).unwrap();
        let mut connection = Connection::connect(&sandbox.dsn_socket()).unwrap();
        assert_eq!(text(&mut connection, "SELECT @@innodb_page_size"), "8192");
        sandbox.stop().unwrap();
    }
}

#[test]
fn without_tcp_the_socket_serves() {
    let Some(&flavour) = flavours().first() else {
        return;
    };
    // Nobody asked for TCP, or somebody asked for none.
    for spec in [
        SandboxSpec::new(flavour),
        SandboxSpec::new(flavour).tcp().set("skip_networking", "1"),
    ] {
        let sandbox = Sandbox::start(&spec).unwrap();
        assert!(matches!(sandbox.dsn().endpoint, Endpoint::Socket(_)));
        assert_eq!(sandbox.entry().dsn.parse::<Dsn>(), Ok(sandbox.dsn()));
        assert_eq!(sandbox.port(), None);
        let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
        assert_eq!(text(&mut connection, "SELECT @@skip_networking"), "1");
    }
}

#[test]
fn many_at_once_get_ports_and_names_of_their_own() {
    let Some(&flavour) = flavours().first() else {
        return;
    };
    let starts: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || Sandbox::start(&SandboxSpec::new(flavour).tcp()).unwrap())
        })
        .collect();
    let running: Vec<Sandbox> = starts
        .into_iter()
        .map(|start| start.join().unwrap())
        .collect();
    let mut ports: Vec<u16> = running.iter().filter_map(Sandbox::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 4);
    let mut users: Vec<u32> = running.iter().filter_map(Sandbox::uid).collect();
    users.sort_unstable();
    users.dedup();
    assert!(users.is_empty() || users.len() == 4, "{users:?}");

    let taken = SandboxSpec {
        name: Some(running[0].name().into()),
        ..SandboxSpec::new(flavour)
    };
    assert!(matches!(
        Sandbox::start(&taken),
        Err(SandboxError::NameTaken { .. })
    ));
}

#[test]
fn a_server_that_is_killed_is_reported_with_its_log() {
    for flavour in flavours() {
        let mut sandbox = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        assert_eq!(sandbox.ended(Duration::ZERO).unwrap(), None);
        // SAFETY: the pid is that of our own server, which its guardian has not reaped.
        unsafe { libc::kill(sandbox.pid() as i32, libc::SIGABRT) };
        let exit = sandbox.ended(Duration::from_secs(60)).unwrap();
        assert!(
            exit.is_some_and(|exit| exit != ServerExit::Code(0)),
            "{exit:?}"
        );
        assert!(
            registry::list()
                .iter()
                .all(|entry| entry.name != sandbox.name())
        );
        let dir = sandbox.entry().dir.clone();
        let SandboxError::Died { log, .. } = sandbox.stop().unwrap_err() else {
            panic!()
        };
        assert!(std::fs::metadata(&log).unwrap().len() > 0);
        std::fs::remove_file(log).unwrap();
        assert!(!dir.exists());
    }
}

#[test]
fn files_have_a_name_in_the_server() {
    for flavour in flavours() {
        let sandbox = Sandbox::start(&SandboxSpec::new(flavour)).unwrap();
        let file = sandbox.files().join("rows.txt");
        std::fs::write(&file, "1\n2\n3\n").unwrap();
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&file, readable).unwrap();
        let inside = sandbox.path_in_server(&file).unwrap();
        let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
        connection.query(b"CREATE TABLE loaded (i INT)").unwrap();
        let load = format!("LOAD DATA INFILE '{}' INTO TABLE loaded", inside.display());
        connection.query(load.as_bytes()).unwrap();
        assert_eq!(text(&mut connection, "SELECT SUM(i) FROM loaded"), "6");
    }
}

#[test]
fn a_request_that_cannot_be_met_touches_nothing() {
    let spec = SandboxSpec::new(Flavour::MariaDb);
    for name in ["", "../x", "-x", "a b", &"x".repeat(33)] {
        let error = Sandbox::start(&SandboxSpec {
            name: Some(name.into()),
            ..spec.clone()
        })
        .unwrap_err();
        assert!(
            matches!(error, SandboxError::BadName { .. }) && error.is_unusable(),
            "{error}"
        );
    }
    let error = Sandbox::start(&spec.clone().set("datadir", "/x")).unwrap_err();
    assert!(
        matches!(error, SandboxError::BadSetting { .. }) && error.is_unusable(),
        "{error}"
    );
}
