//! A primary and its replicas: made, counted, broken, mended.

use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxError, SandboxSpec};
use waggle_server::topology::{
    Link, Part, Position, Replica, ReplicaThread, Topology, TopologyError, primary_settings,
};
use waggle_wire::Connection;

use crate::needs::flavours;

const PATIENCE: Duration = Duration::from_secs(60);

fn primary_spec(flavour: Flavour) -> SandboxSpec {
    SandboxSpec {
        settings: primary_settings(flavour),
        ..SandboxSpec::new(flavour)
    }
}

fn connect(server: &Sandbox) -> Connection {
    Connection::connect(&server.dsn_socket()).unwrap()
}

fn text(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    String::from_utf8(rows[0][0].clone().unwrap_or_default()).unwrap()
}

/// A primary with a table of one row.
fn filled(flavour: Flavour) -> Sandbox {
    let primary = Sandbox::start(&primary_spec(flavour)).unwrap();
    let mut client = connect(&primary);
    client
        .query(b"CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB")
        .unwrap();
    client.query(b"INSERT INTO t VALUES (0, 0)").unwrap();
    primary
}

fn insert(client: &mut Connection, ids: std::ops::Range<u32>) {
    for id in ids {
        let sql = format!("INSERT INTO t VALUES ({id}, {id})");
        client.query(sql.as_bytes()).unwrap();
    }
}

/// A log of a server that a test made fail.
fn forget_log(error: SandboxError) {
    if let SandboxError::Died { log, .. } | SandboxError::Refused { log, .. } = error {
        std::fs::remove_file(log).unwrap();
    }
}

fn kill(server: &mut Sandbox) {
    // SAFETY: the pid is that of our own server, which its guardian has not reaped.
    unsafe { libc::kill(server.pid().cast_signed(), libc::SIGKILL) };
    assert!(server.ended(PATIENCE).unwrap().is_some());
    forget_log(server.halt().unwrap_err());
}

#[test]
fn replicas_have_the_data_and_transactions_are_counted() {
    for flavour in flavours() {
        let spec = SandboxSpec::new(flavour);
        let mut topology = Topology::around(filled(flavour), &[spec.clone(), spec]).unwrap();
        let before: Vec<Position> = topology
            .replicas()
            .iter_mut()
            .map(|replica| replica.link().applied().unwrap())
            .collect();
        let mut client = connect(topology.primary());
        insert(&mut client, 1..101);
        let written = topology.wait_caught_up(PATIENCE).unwrap();

        let mut identities = vec![identity(&mut client, flavour)];
        for (replica, before) in topology.replicas().iter_mut().zip(&before) {
            let applied = replica.link().applied().unwrap();
            assert_eq!(applied.since(before), Some(100), "{flavour}");
            assert!(applied.reaches(&written));
            let status = replica.link().status().unwrap().unwrap();
            assert_eq!(status.receiving, ReplicaThread::Running, "{status:?}");
            assert_eq!((&status.receive_fault, &status.apply_fault), (&None, &None));
            assert_eq!(status.primary_port, replica.primary().port);
            assert!(status.seconds_behind.is_some());
            let name = replica.primary().name.clone();
            assert_eq!(replica.sandbox().entry().replica_of, Some(name));
            let mut client = connect(replica.sandbox());
            assert_eq!(text(&mut client, "SELECT SUM(v) FROM t"), "5050");
            identities.push(identity(&mut client, flavour));
        }
        identities.sort();
        identities.dedup();
        assert_eq!(identities.len(), 3, "{identities:?}");
        topology.stop().unwrap();
    }
}

fn identity(client: &mut Connection, flavour: Flavour) -> String {
    let sql = match flavour {
        Flavour::MySql => "SELECT CONCAT(@@server_id, @@server_uuid)",
        Flavour::MariaDb => "SELECT @@server_id",
    };
    text(client, sql)
}

#[test]
fn an_applier_that_stands_has_a_backlog_that_is_counted() {
    for flavour in flavours() {
        let mut topology = Topology::around(filled(flavour), &[SandboxSpec::new(flavour)]).unwrap();
        let mut client = connect(topology.primary());
        let (primary, replica) = topology.both(0).unwrap();
        let link = replica.link();
        link.stop(Part::Applier).unwrap();
        let before = link.applied().unwrap();
        insert(&mut client, 1..51);
        let target = primary.written().unwrap();
        link.wait_received(&target, PATIENCE).unwrap();
        assert_eq!(link.applied().unwrap().since(&before), Some(0));
        assert_eq!(target.since(&before), Some(50));
        let error = link.wait_applied(&target, PATIENCE).unwrap_err();
        let words = error.to_string();
        assert!(words.contains("does not apply: it was stopped"), "{words}");
        let status = link.status().unwrap().unwrap();
        assert_eq!(status.applying, ReplicaThread::Stopped);
        assert_eq!(status.seconds_behind, None);

        link.start(Part::Applier).unwrap();
        link.wait_applied(&target, PATIENCE).unwrap();
        assert_eq!(link.applied().unwrap().since(&before), Some(50));
    }
}

#[test]
fn an_applier_that_fails_ends_the_wait_with_the_servers_words() {
    for flavour in flavours() {
        let mut topology = Topology::around(filled(flavour), &[SandboxSpec::new(flavour)]).unwrap();
        let mut client = connect(topology.primary());
        let (primary, replica) = topology.both(0).unwrap();
        // Somebody wrote on the replica what the primary is about to write.
        insert(&mut connect(replica.sandbox()), 7..8);
        insert(&mut client, 7..8);
        let target = primary.written().unwrap();
        let error = replica.link().wait_applied(&target, PATIENCE).unwrap_err();
        assert!(
            matches!(error, TopologyError::Stopped { doing: "apply", .. }),
            "{error}"
        );
        assert!(error.to_string().contains("Duplicate entry"), "{error}");
    }
}

#[test]
fn a_primary_that_is_killed_and_comes_back() {
    for flavour in flavours() {
        let mut topology = Topology::around(filled(flavour), &[SandboxSpec::new(flavour)]).unwrap();
        let written = topology.wait_caught_up(PATIENCE).unwrap();
        kill(topology.primary_mut());
        let link = topology.replicas()[0].link();
        // It has what it had, and says why nothing comes.
        link.wait_applied(&written, PATIENCE).unwrap();
        let more = match &written {
            Position::MariaDb(_) => "0-1-1000000".parse().map(Position::MariaDb).unwrap(),
            other => {
                let uuid = other.to_string();
                let (uuid, _) = uuid.split_once(':').unwrap();
                format!("{uuid}:1-1000000")
                    .parse()
                    .map(Position::MySql)
                    .unwrap()
            }
        };
        let error = link
            .wait_applied(&more, Duration::from_secs(3))
            .unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, TopologyError::Late { .. }), "{words}");
        assert!(words.contains("transactions are missing"), "{words}");
        assert!(words.contains("it receives none"), "{words}");

        topology.restart_primary(&[]).unwrap();
        topology.replicas()[0]
            .link()
            .wait_running(PATIENCE)
            .unwrap();
        insert(&mut connect(topology.primary()), 1..11);
        topology.wait_caught_up(PATIENCE).unwrap();
        let mut client = connect(topology.replicas()[0].sandbox());
        assert_eq!(text(&mut client, "SELECT COUNT(*) FROM t"), "11");
    }
}

#[test]
fn a_replica_that_is_killed_and_comes_back() {
    for flavour in flavours() {
        let mut topology = Topology::around(filled(flavour), &[SandboxSpec::new(flavour)]).unwrap();
        kill(topology.replicas()[0].sandbox_mut());
        assert!(topology.replicas()[0].link().status().is_err());
        // The primary does not mind.
        insert(&mut connect(topology.primary()), 1..11);
        topology.replicas()[0].restart(&[]).unwrap();
        topology.wait_caught_up(PATIENCE).unwrap();
        let mut client = connect(topology.replicas()[0].sandbox());
        assert_eq!(text(&mut client, "SELECT COUNT(*) FROM t"), "11");
        topology.stop().unwrap();
    }
}

#[test]
fn a_replica_of_a_server_that_runs_gets_all_of_its_history() {
    for flavour in flavours() {
        let primary = filled(flavour);
        insert(&mut connect(&primary), 1..21);
        let mut replica = Replica::of_running(&SandboxSpec::new(flavour), primary.entry()).unwrap();
        let target = Link::open("p", &primary.dsn_socket())
            .unwrap()
            .written()
            .unwrap();
        replica.link().wait_applied(&target, PATIENCE).unwrap();
        let mut client = connect(replica.sandbox());
        assert_eq!(text(&mut client, "SELECT SUM(v) FROM t"), "210");
        // And one of the replica.
        let sandbox = replica.into_sandbox();
        let mut second = Replica::of_running(&SandboxSpec::new(flavour), sandbox.entry()).unwrap();
        insert(&mut connect(&primary), 21..22);
        let target = Link::open("p", &primary.dsn_socket())
            .unwrap()
            .written()
            .unwrap();
        second.link().wait_applied(&target, PATIENCE).unwrap();
        let mut client = connect(second.sandbox());
        assert_eq!(text(&mut client, "SELECT COUNT(*) FROM t"), "22");
    }
}

#[test]
fn without_gtids_places_in_files_serve() {
    let flavour = Flavour::MySql;
    if !flavours().contains(&flavour) {
        return;
    }
    let spec = SandboxSpec::new(flavour)
        .set("log_bin", "logs")
        .set("server_id", "1")
        .set("gtid_mode", "OFF")
        .tcp();
    let primary = Sandbox::start(&spec).unwrap();
    let mut client = connect(&primary);
    client
        .query(b"CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        .unwrap();
    let mut running = Replica::of_running(&SandboxSpec::new(flavour), primary.entry()).unwrap();
    insert(&mut client, 0..10);
    let target = Link::open("p", &primary.dsn_socket())
        .unwrap()
        .written()
        .unwrap();
    running.link().wait_applied(&target, PATIENCE).unwrap();
    assert_eq!(target.since(&target), None);
    drop(running);

    let mut topology = Topology::around(primary, &[SandboxSpec::new(flavour)]).unwrap();
    insert(&mut connect(topology.primary()), 10..20);
    topology.wait_caught_up(PATIENCE).unwrap();
    let mut client = connect(topology.replicas()[0].sandbox());
    assert_eq!(text(&mut client, "SELECT COUNT(*) FROM t"), "20");
}

#[test]
fn what_nothing_can_replicate_from_is_refused() {
    for flavour in flavours() {
        let own = SandboxSpec::new(flavour);
        let refused = |primary: &Sandbox, spec: &SandboxSpec| {
            let error = Replica::of_running(spec, primary.entry()).unwrap_err();
            assert!(error.is_unusable(), "{error}");
            error.to_string()
        };
        let plain = Sandbox::start(&own).unwrap();
        let words = refused(&plain, &own);
        assert!(words.contains("writes no binary log"), "{words}");
        assert!(words.contains("--primary"), "{words}");
        let other = match flavour {
            Flavour::MySql => Flavour::MariaDb,
            Flavour::MariaDb => Flavour::MySql,
        };
        let words = refused(&plain, &SandboxSpec::new(other));
        assert!(words.contains("cannot replicate from"), "{words}");

        let spec = primary_spec(flavour).set("skip_networking", "1");
        let words = refused(&Sandbox::start(&spec).unwrap(), &own);
        assert!(words.contains("no TCP port"), "{words}");

        let purged = filled(flavour);
        purge(&mut connect(&purged));
        let words = refused(&purged, &own);
        assert!(words.contains("would lack what was written"), "{words}");
    }
}

/// Removes the first binary log, once the server needs it no more.
fn purge(client: &mut Connection) {
    let deadline = Instant::now() + PATIENCE;
    client.query(b"FLUSH BINARY LOGS").unwrap();
    while text(client, "SHOW BINARY LOGS").ends_with(".000001") {
        assert!(Instant::now() < deadline, "the log is not removed");
        client
            .query(b"PURGE BINARY LOGS TO 'binlog.000002'")
            .unwrap();
    }
}

#[test]
fn a_server_on_a_copy_of_another_ones_data() {
    for flavour in flavours() {
        let mut first = filled(flavour);
        let spec = SandboxSpec::new(flavour);
        let running = Sandbox::start_on_copy(&spec, first.datadir()).unwrap_err();
        assert!(
            matches!(running, SandboxError::DataInUse { .. }) && running.is_unusable(),
            "{running}"
        );
        let identity_of_first = identity(&mut connect(&first), Flavour::MariaDb);
        first.halt().unwrap();
        first.halt().unwrap();
        let second = Sandbox::start_on_copy(&spec, first.datadir()).unwrap();
        let mut client = connect(&second);
        assert_eq!(text(&mut client, "SELECT COUNT(*) FROM t"), "1");
        insert(&mut client, 1..5);
        assert_eq!(identity(&mut client, Flavour::MariaDb), identity_of_first);
        // They are two servers now.
        first.restart(&[]).unwrap();
        let mut client = connect(&first);
        assert_eq!(text(&mut client, "SELECT COUNT(*) FROM t"), "1");

        let nothing = Sandbox::start_on_copy(&spec, &first.entry().dir).unwrap_err();
        assert!(matches!(nothing, SandboxError::NoData { .. }), "{nothing}");
    }
}
