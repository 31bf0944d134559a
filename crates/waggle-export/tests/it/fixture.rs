//! Views with known numbers.

use std::sync::Arc;

use waggle_agent::host::{
    CpuTimes, DiskSample, HostSample, NetworkSample, ProcessSample, ServerStatus,
};
use waggle_agent::lock::{LockKind, LockObject, LockWait, Party};
use waggle_agent::sink::SinkStatus;
use waggle_agent::source::{Abilities, SourceKind};
use waggle_agent::statement::ServerId;
use waggle_agent::view::{DigestView, LoadView, OwnView, ProbeCost, ServerView, SessionTime, View};

/// Time spent `factor` times.
pub(crate) fn time(factor: u64) -> SessionTime {
    let unit = factor as f64;
    let mut blocked_s = [0.0; 12];
    for (at, seconds) in blocked_s.iter_mut().enumerate() {
        *seconds = unit * (at as f64) / 64.0;
    }
    SessionTime {
        cpu_s: unit * 0.5,
        runnable_s: unit * 0.25,
        blocked_s,
        unclassified_s: unit * 0.125,
    }
}

/// A digest of which `count` statements ended.
pub(crate) fn digest(name: &str, count: u64) -> DigestView {
    let mut latency = waggle_stats::compact::CompactHistogram::default();
    for at in 0..count {
        latency.record(1000 + at * at * 7919);
    }
    DigestView {
        key: name.bytes().fold(7u64, |key, byte| {
            key.wrapping_mul(31).wrapping_add(u64::from(byte))
        }),
        digest: name.into(),
        fingerprint: format!("select {name} from t where id = ?").into(),
        summary: format!("SELECT {name}").into(),
        database: "shop".into(),
        user: "app".into(),
        seen_us: (1, 2),
        errors: count / 10,
        latency,
        time: time(count),
        rows_sent: Some(count * 3),
        rows_examined: Some(count * 5),
        rows_affected: Some(0),
        warnings: None,
        lock_s: Some(count as f64 / 8.0),
        tmp_tables: Some((count, 0)),
        full_scans: Some((1, 2)),
        no_index: Some(3),
        storage_bytes: Some((count * 4096, 512)),
        switches: Some((count, count / 2)),
    }
}

/// A server on a port, with these digests.
pub(crate) fn server(id: u32, instance: &str, digests: Vec<DigestView>) -> ServerView {
    let captured = digests.iter().map(|digest| digest.latency.count()).sum();
    ServerView {
        id: ServerId(id),
        pid: 1000 + id,
        flavour: "mysql",
        version: "9.7.4".into(),
        instance: instance.into(),
        source: SourceKind::Uprobe,
        abilities: Abilities::default(),
        started_us: 1_700_000_000_000_000 + u64::from(id) * 1_000_000,
        started_ns: 5_000_000_000 + u64::from(id) * 1_000_000_000,
        ended: None,
        hits: captured,
        retired: Some(digest("other", 4)),
        captured,
        in_routines: 7,
        own: 3,
        lost: vec![("ring_full", 4)],
        degraded: vec![("text_truncated", 2)],
        other_commands: 9,
        other: Some(digest("other", 6)),
        load: LoadView {
            all: time(captured),
            users: vec![("app".into(), time(2)), ("".into(), time(1))],
            databases: vec![("shop".into(), time(3))],
            hosts: vec![("10.0.0.1".into(), time(3))],
        },
        digests,
        waits: vec![wait(1, 2_500_000), wait(1, 2_500_000), wait(2, 4_000_000)],
        waits_ended: [(5, 1_500_000), (1, 250_000), (0, 0)],
        deadlocks: Vec::new(),
        deadlock_count: 2,
        process: Some(ProcessSample {
            cpu_s: (12.5, 3.25),
            runqueue_s: 0.5,
            rss_bytes: 1 << 30,
            storage_bytes: (4096, 8192),
            threads: 40,
            files: 100,
            switches: (1000, 10),
            missing: Vec::new(),
        }),
        status: Some(ServerStatus {
            values: vec![
                ("threads_running".to_owned(), 3.0),
                ("Innodb-history.list".to_owned(), 17.5),
            ],
            lag_s: vec![(String::new(), 1.5), ("second".to_owned(), 0.0)],
            missing_because: None,
        }),
    }
}

fn wait(id: u64, waited_us: u64) -> LockWait {
    LockWait {
        id,
        kind: LockKind::Row,
        waiter: Party::default(),
        blocker: Party::default(),
        object: LockObject::default(),
        since_us: 1,
        waited_us,
        ended: false,
    }
}

/// A view of these servers, taken `second` seconds after the agent began.
pub(crate) fn view(second: u64, servers: Vec<ServerView>) -> View {
    let started_us = 1_700_000_000_000_000;
    View {
        time_us: started_us + second * 1_000_000,
        time_ns: 5_000_000_000 + second * 1_000_000_000,
        started_us,
        host_name: "db1".into(),
        servers,
        host: Some(host(second)),
        forgotten: Default::default(),
        own: OwnView {
            server_us_per_statement: Some(1.25),
            probes: vec![ProbeCost {
                name: "statements",
                hits: 1000,
                trap_ns: Some(300.0),
                program_ns: Some(700.0),
            }],
            cpu_s: 0.5,
            rss_bytes: 30 << 20,
            shed: vec!["text"],
            ..OwnView::default()
        },
        sinks: vec![(
            "remote_write",
            SinkStatus {
                delivered: 70,
                dropped: vec![("rejected", 6)],
                waiting: 5,
                last_error: None,
            },
        )],
    }
}

fn host(second: u64) -> HostSample {
    HostSample {
        processors: 2,
        cpu_s: CpuTimes {
            user: 100.5,
            system: 50.25,
            idle: 1000.0,
            ..CpuTimes::default()
        },
        runnable: 3,
        blocked: 1,
        load: [0.5, 0.25, 0.125],
        memory_bytes: (8 << 30, 4 << 30),
        swap_bytes: (0, 0),
        pressure: Some([1.5, 0.0, 25.0]),
        disks: vec![DiskSample {
            name: "vda".to_owned(),
            operations: (10 + second, 20 + 2 * second),
            bytes: (4096, 8192),
            time_s: (0.5, 0.25),
            busy_s: 0.75,
        }],
        networks: vec![NetworkSample {
            name: "eth0".to_owned(),
            bytes: (100, 200),
            packets: (1, 2),
            failed: (0, 0),
        }],
    }
}

/// Text that tries to leave its quotes, and all kinds of characters.
pub(crate) fn hostile() -> Arc<str> {
    let mut text = String::from("a\"} 1\nm{b=\"\\\u{0}\r\t\u{202e}\u{1f600}\u{feff}\u{2028}");
    text.extend((1..0x250).filter_map(char::from_u32));
    text.into()
}
