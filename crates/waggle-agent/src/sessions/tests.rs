//! Sessions of made-up statements, and a `THD` that lives in this process.

use std::sync::Arc;

use waggle_symbols::layout::StartClock;
use waggle_symbols::{Field, FieldName, Location, Source, StatementLayout};

use super::memory::ServerMemory;
use super::{Moment, Running, Sessions, StatementEnd};

fn end(sessions: &mut Sessions, id: u64, ms: u64, text: &str, in_transaction: Option<bool>) {
    let text: Arc<str> = text.into();
    sessions.statement_ended(&StatementEnd {
        end_ns: ms * 1_000_000,
        start_ns: Some((ms - 1) * 1_000_000),
        connection_id: id,
        thd: None,
        tid: None,
        user: b"ann",
        database: b"shop",
        digest: &text,
        fingerprint: &text,
        in_transaction,
        error: 0,
        is_within: false,
    });
}

fn at(ms: u64) -> Moment {
    Moment {
        time_ns: ms * 1_000_000,
        unix_us: 5_000_000 + ms * 1000,
    }
}

#[test]
fn a_transaction_is_as_old_as_its_first_statement() {
    let mut sessions = Sessions::new();
    end(&mut sessions, 7, 10, "select ?", Some(false));
    end(&mut sessions, 7, 20, "update t", Some(true));
    end(&mut sessions, 7, 30, "select t", Some(true));
    // Began before anybody looked: its age is not known.
    end(&mut sessions, 8, 30, "select u", Some(true));
    end(&mut sessions, 9, 25, "begin", Some(true));
    end(&mut sessions, 6, 25, "commit", Some(false));
    let idle = sessions.idle_in_transaction(&at(50));
    let seen: Vec<_> = idle
        .iter()
        .map(|p| (p.connection_id, p.transaction_us, p.idle_us))
        .collect();
    assert_eq!(
        seen,
        [
            (Some(9), Some(26_000), Some(25_000)),
            (Some(7), Some(31_000), Some(20_000)),
            (Some(8), None, Some(20_000)),
        ]
    );
    assert_eq!(&*idle[1].fingerprint, "select t");
    end(&mut sessions, 7, 60, "commit", Some(false));
    assert_eq!(sessions.party(7, &at(61)).transaction_us, None);
}

#[test]
fn a_statement_within_a_routine_leaves_its_caller_running() {
    let mut sessions = Sessions::new();
    end(&mut sessions, 7, 10, "begin", Some(true));
    let call: Arc<str> = "call p".into();
    sessions.entry(7).expect("it is known").running = Some(Running {
        start_ns: 12_000_000,
        command: 3,
        digest: Arc::clone(&call),
        fingerprint: Arc::clone(&call),
    });
    let inner: Arc<str> = "update t".into();
    let within = StatementEnd {
        end_ns: 20_000_000,
        start_ns: Some(19_000_000),
        connection_id: 7,
        thd: Some(0x1000),
        tid: Some(44),
        user: b"ann",
        database: b"shop",
        digest: &inner,
        fingerprint: &inner,
        in_transaction: Some(true),
        error: super::ER_LOCK_DEADLOCK,
        is_within: true,
    };
    sessions.statement_ended(&within);
    let party = sessions.party(7, &at(30));
    assert!(party.is_running && party.idle_us.is_none());
    assert_eq!(&*party.fingerprint, "call p");
    assert!(sessions.idle_in_transaction(&at(30)).is_empty());
    let session = sessions.get(7).expect("it is known");
    assert_eq!(
        (session.end_ns, &*session.fingerprint),
        (10_000_000, "begin")
    );
    assert_eq!((session.thd, session.tid), (0x1000, 44));
    let victim = session.victim.as_ref().expect("it fell victim");
    assert_eq!(
        (victim.end_ns, &*victim.fingerprint),
        (20_000_000, "update t")
    );
    // Not so the end of the statement that called.
    sessions.statement_ended(&StatementEnd {
        is_within: false,
        ..within
    });
    let session = sessions.get(7).expect("it is known");
    assert_eq!((session.end_ns, &session.running), (20_000_000, &None));
}

#[test]
fn the_table_is_bounded() {
    let mut sessions = Sessions::new();
    for id in 1..=super::SESSIONS_MAX as u64 + 100 {
        end(&mut sessions, id, id + 1, "select", None);
    }
    assert!(sessions.len() <= super::SESSIONS_MAX);
    assert!(sessions.get(super::SESSIONS_MAX as u64 + 100).is_some());
    assert!(sessions.get(1).is_none());
    end(&mut sessions, 0, 5, "select", None);
    assert!(sessions.get(0).is_none());
}

/// What a server keeps of a session, as far as it is read.
#[repr(C)]
struct Thd {
    query: u64,
    length: u64,
    connection_id: u64,
    start_us: u64,
    command: u64,
    status: u64,
}

fn layout() -> StatementLayout {
    let place = |name, offset, width| Field {
        name,
        found: Ok((Location::direct(offset, width), Source::Table)),
    };
    StatementLayout {
        fields: vec![
            place(FieldName::Query, 0, 8),
            place(FieldName::ConnectionId, 16, 8),
            place(FieldName::StartTime, 24, 8),
            place(FieldName::Command, 32, 4),
            place(FieldName::ServerStatus, 40, 4),
        ],
        start_clock: StartClock::Monotonic,
    }
}

#[test]
fn memory_is_believed_only_if_it_is_that_of_the_session() {
    let memory = ServerMemory::open(std::process::id(), layout()).expect("our own memory");
    let text = b"SELECT name FROM t WHERE secret = 'hunter2'";
    let mut thd = Box::new(Thd {
        query: text.as_ptr() as u64,
        length: text.len() as u64,
        connection_id: 7,
        start_us: 40_000,
        command: 3,
        status: 1,
    });
    let address = std::ptr::from_ref(&*thd) as u64;
    let mut sessions = Sessions::new();
    sessions.note_thd(7, address);
    sessions.look_at(7, &memory, &at(50));
    let running = sessions.get(7).and_then(|s| s.running.clone());
    let running = running.expect("it runs");
    assert_eq!(&*running.fingerprint, "select name from t where secret = ?");
    assert_eq!(running.start_ns, 40_000_000);
    assert!(sessions.party(7, &at(50)).is_running);
    // Pointers and lengths that no statement has.
    for (query, length) in [
        (0, 9),
        (1 << 60, 9),
        (8, 9),
        (text.as_ptr() as u64, 1 << 40),
    ] {
        thd.query = query;
        thd.length = length;
        std::hint::black_box(&thd);
        sessions.look_at(7, &memory, &at(51));
        assert!(
            sessions.get(7).is_some_and(|s| s.running.is_none()),
            "{query:#x} {length}"
        );
    }
    thd.command = 0;
    std::hint::black_box(&thd);
    sessions.look_at(7, &memory, &at(52));
    let session = sessions.get(7).expect("it lives");
    assert_eq!((session.in_transaction, session.thd), (Some(true), address));
    // Another session got its place.
    thd.connection_id = 8;
    std::hint::black_box(&thd);
    sessions.look_at(7, &memory, &at(53));
    assert!(sessions.get(7).is_none_or(|s| s.thd == 0));
    sessions.note_thd(9, 0x10);
    sessions.look_at(9, &memory, &at(54));
    assert!(sessions.get(9).is_some_and(|s| s.running.is_none()));
}
