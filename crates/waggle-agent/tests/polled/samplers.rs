//! Samplers of processes and of servers' counters.

use waggle_agent::hosts::{ProcessSampler, StatusSampler};
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use crate::bed::{connect, flavours, server, wait_for};

fn value(status: &waggle_agent::host::ServerStatus, name: &str) -> Option<f64> {
    let found = status.values.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| *value)
}

#[test]
fn counters_of_a_server_grow_and_outlive_a_restart() {
    for flavour in flavours() {
        let mut server = server(flavour, &[("performance_schema", "ON")]);
        let mut sampler = StatusSampler::new(&server.dsn().into()).unwrap();
        let first = wait_for("a reading", || {
            Some(sampler.sample()).filter(|status| !status.values.is_empty())
        });
        assert_eq!(first.missing_because, None, "{flavour}");
        for name in [
            "innodb_buffer_pool_read_requests",
            "innodb_history_list_length",
            "innodb_checkpoint_age",
            "innodb_log_waits",
            "innodb_row_lock_waits",
            "created_tmp_disk_tables",
            "com_select",
            "threads_running",
        ] {
            assert!(value(&first, name).is_some(), "{flavour} has no {name}");
        }
        assert!(first.lag_s.is_empty(), "it replicates from nobody");
        let mut client = connect(&server);
        for _ in 0..100 {
            client.query(b"SELECT 1").unwrap();
        }
        let before = value(&first, "com_select").unwrap();
        wait_for("the selects to be counted", || {
            value(&sampler.sample(), "com_select").filter(|now| *now >= before + 100.0)
        });
        drop(client);
        // Other settings, so that the counters of before cannot be mistaken for those of after.
        server.restart(&[]).unwrap();
        wait_for("the counters of the new server", || {
            let status = sampler.sample();
            value(&status, "com_select").filter(|now| *now < before + 100.0)
        });
    }
}

#[test]
fn a_server_that_hangs_is_not_waited_for_and_is_back_when_it_is() {
    let Some(&flavour) = flavours().first() else {
        return;
    };
    let server = server(flavour, &[]);
    let signal = |signal| {
        // SAFETY: the pid is that of our own server, which its guardian has not reaped.
        assert_eq!(unsafe { libc::kill(server.pid().cast_signed(), signal) }, 0);
    };
    let mut sampler = StatusSampler::new(&server.dsn().into()).unwrap();
    let mut is_read = || sampler.sample().missing_because.is_none();
    wait_for("a reading", || is_read().then_some(()));
    signal(libc::SIGSTOP);
    wait_for("the time-out", || (!is_read()).then_some(()));
    signal(libc::SIGCONT);
    wait_for("a reading again", || is_read().then_some(()));
}

#[test]
fn a_server_that_is_not_there_has_no_counters() {
    let Some(&flavour) = flavours().first() else {
        return;
    };
    let server = server(flavour, &[]);
    let mut dsn = server.dsn();
    dsn.user = "nobody".into();
    dsn.password = Some(waggle_wire::Secret::new("planted-secret"));
    let mut sampler = StatusSampler::new(&dsn.into()).unwrap();
    let why = wait_for("a refusal", || {
        let status = sampler.sample();
        let why = status.missing_because.filter(|why| why.contains("1045"));
        why.filter(|_| status.values.is_empty())
    });
    assert!(!why.contains("planted-secret"));
}

#[test]
fn lag_of_a_replica_that_replicates() {
    for flavour in flavours() {
        let settings = [
            ("server_id", "1"),
            ("log_bin", "binlog"),
            ("skip_networking", "0"),
        ];
        let source = server(flavour, &settings);
        let replica = server(flavour, &[("server_id", "2")]);
        let mut client = connect(&replica);
        let (port, password) = (source.port().unwrap(), source.password().expose());
        let (change, start) = match flavour {
            Flavour::MySql => (
                format!(
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, \
                     SOURCE_USER='root', SOURCE_PASSWORD='{password}', \
                     GET_SOURCE_PUBLIC_KEY=1 FOR CHANNEL 'near'"
                ),
                "START REPLICA FOR CHANNEL 'near'",
            ),
            Flavour::MariaDb => (
                format!(
                    "CHANGE MASTER 'near' TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, \
                     MASTER_USER='root', MASTER_PASSWORD='{password}'"
                ),
                "START SLAVE 'near'",
            ),
        };
        client.query(change.as_bytes()).unwrap();
        client.query(start.as_bytes()).unwrap();
        await_applied(&source, &mut client);
        let mut sampler = StatusSampler::new(&replica.dsn().into()).unwrap();
        let lag = wait_for("the lag", || {
            let status = sampler.sample();
            assert_eq!(
                status
                    .missing_because
                    .as_deref()
                    .filter(|why| why.contains("lag")),
                None
            );
            Some(status.lag_s).filter(|lag| !lag.is_empty())
        });
        // Nothing was written on the source, so there is nothing to be behind of.
        assert_eq!(lag, [("near".to_owned(), 0.0)], "{flavour}");
    }
}

/// Waits until the replica has applied what opens its source's log and told that it has: until
/// then MariaDB takes that log's age for its lag.
fn await_applied(source: &Sandbox, client: &mut Connection) {
    let is_mysql = source.flavour() == Flavour::MySql;
    let (status, function) = match is_mysql {
        true => ("SHOW BINARY LOG STATUS", "SOURCE_POS_WAIT"),
        false => ("SHOW MASTER STATUS", "MASTER_POS_WAIT"),
    };
    let place = connect(source).query_rows(status.as_bytes()).unwrap();
    let text = |at: usize| String::from_utf8_lossy(place[0][at].as_ref().unwrap()).into_owned();
    let wait = format!("SELECT {function}('{}', {}, 60, 'near')", text(0), text(1));
    let waited = client.query_rows(wait.as_bytes()).unwrap();
    assert!(waited[0][0].as_ref().is_some_and(|events| events != b"-1"));
    if is_mysql {
        return;
    }
    let caught_up = b"SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND = 'Slave_SQL' \
                      AND STATE LIKE 'Slave has read all relay log%'";
    wait_for("the replica to say that it has all", || {
        let rows = client.query_rows(caught_up).unwrap();
        (!rows.is_empty()).then_some(())
    });
}

#[test]
fn lag_of_a_replica_that_receives_nothing() {
    for flavour in flavours() {
        let server = server(flavour, &[("server_id", "7")]);
        let mut client = connect(&server);
        // To a port where nobody is: it never connects, and its threads run.
        let (change, start) = match flavour {
            Flavour::MySql => (
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, \
                 SOURCE_USER='x' FOR CHANNEL 'far'",
                "START REPLICA SQL_THREAD FOR CHANNEL 'far'",
            ),
            Flavour::MariaDb => (
                "CHANGE MASTER 'far' TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'",
                "START SLAVE 'far' SQL_THREAD",
            ),
        };
        client.query(change.as_bytes()).unwrap();
        client.query(start.as_bytes()).unwrap();
        let mut sampler = StatusSampler::new(&server.dsn().into()).unwrap();
        // Without a source there is no lag to tell: the channel counts as stopped, not as 0 s.
        let status = wait_for("the channel", || {
            let status = sampler.sample();
            value(&status, "replica_channels_stopped").map(|_| status)
        });
        let stopped = value(&status, "replica_channels_stopped");
        assert_eq!((stopped, status.lag_s), (Some(1.0), vec![]), "{flavour}");
        assert_eq!(status.missing_because, None);
    }
}

#[test]
fn a_servers_process() {
    for flavour in flavours() {
        let server = server(flavour, &[]);
        let mut sampler = ProcessSampler::new(server.pid()).unwrap();
        let before = sampler.sample().unwrap();
        assert_eq!(before.missing, [], "{flavour}");
        assert!(before.rss_bytes > 10 << 20 && before.threads > 5 && before.files > 10);
        let mut client = connect(&server);
        client.query(b"CREATE TABLE t (a INT, b LONGBLOB)").unwrap();
        let grown = wait_for("written bytes and switches", || {
            let insert = b"INSERT INTO t SELECT 1, REPEAT('x', 1000000)";
            client.query(insert).unwrap();
            let now = sampler.sample().unwrap();
            let wrote = now.storage_bytes.1 > before.storage_bytes.1;
            (wrote && now.switches.0 > before.switches.0).then_some(now)
        });
        let cpu = |s: &waggle_agent::host::ProcessSample| s.cpu_s.0 + s.cpu_s.1;
        assert!(cpu(&grown) >= cpu(&before) && grown.runqueue_s >= before.runqueue_s);
        server.stop().unwrap();
        assert!(sampler.sample().is_err());
    }
}
