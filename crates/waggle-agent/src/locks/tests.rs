//! Waits and deadlocks of events that no server had to send.

use std::sync::Arc;

use waggle_probes::lock::{LockEvent, LockReport, Thread};

use super::analysis::Analysis;
use crate::lock::{LockKind, LockWait};
use crate::sessions::{Moment, Sessions, StatementEnd};

fn thread(id: u64) -> Thread {
    Thread {
        thd: id * 0x1000,
        connection_id: id,
    }
}

/// An analysis with its sessions and a clock in ms.
struct Stage {
    analysis: Analysis,
    sessions: Sessions,
}

impl Stage {
    fn new() -> Self {
        Self {
            analysis: Analysis::new(true, "not asked"),
            sessions: Sessions::new(),
        }
    }

    fn see(&mut self, ms: u64, tid: u32, report: LockReport<'_>) {
        let event = LockEvent {
            time_ns: ms * 1_000_000,
            tid,
            report,
        };
        self.analysis.observe(&event, &mut self.sessions);
    }

    fn edge(&mut self, ms: u64, waiter: u64, blocker: u64) {
        let (waiter, blocker) = (thread(waiter), thread(blocker));
        self.see(ms, 1, LockReport::RowEdge { waiter, blocker });
    }

    fn begin(&mut self, ms: u64, waiter: u64) {
        let waiter = thread(waiter);
        let is_table = false;
        self.see(ms, 1, LockReport::RowBegin { waiter, is_table });
    }

    fn end(&mut self, ms: u64, waiter: u64) {
        let waiter = thread(waiter);
        self.see(ms, 1, LockReport::RowEnd { waiter });
    }

    fn statement(&mut self, ms: u64, connection_id: u64, text: &str, error: u32) {
        let text: Arc<str> = text.into();
        self.sessions.statement_ended(&StatementEnd {
            end_ns: ms * 1_000_000,
            start_ns: None,
            connection_id,
            thd: None,
            tid: None,
            user: b"ann",
            database: b"shop",
            digest: &text,
            fingerprint: &text,
            in_transaction: None,
            error,
            is_within: false,
        });
    }

    fn moment(ms: u64) -> Moment {
        Moment {
            time_ns: ms * 1_000_000,
            unix_us: 1_000_000_000 + ms * 1000,
        }
    }

    fn settle(&mut self, ms: u64) -> Vec<LockWait> {
        self.analysis.settle(&self.sessions, &Self::moment(ms));
        self.analysis.take_ended()
    }

    fn waits(&self, ms: u64) -> Vec<LockWait> {
        self.analysis.waits(&self.sessions, &Self::moment(ms))
    }
}

#[test]
fn a_wait_ends_once_with_its_own_statement() {
    let mut stage = Stage::new();
    stage.statement(1, 7, "before", 0);
    stage.edge(10, 7, 8);
    assert!(stage.waits(11).is_empty(), "it may get the lock at once");
    stage.begin(11, 7);
    let waits = stage.waits(15);
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].waited_us, 4000);
    assert_eq!(waits[0].since_us, 1_000_011_000);
    stage.end(20, 7);
    assert!(stage.waits(21).is_empty());
    assert!(
        stage.settle(21).is_empty(),
        "its statement is not known yet"
    );
    stage.statement(22, 7, "update", 0);
    let ended = stage.settle(23);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].id, ended[0].waited_us), (waits[0].id, 9000));
    assert_eq!(&*ended[0].waiter.fingerprint, "update");
    assert_eq!(ended[0].blocker.connection_id, Some(8));
    assert!(stage.settle(5000).is_empty());
    assert_eq!(stage.analysis.ended_sums(), [(1, 9000), (0, 0), (0, 0)]);
}

#[test]
fn a_lock_that_was_granted_at_once_makes_no_wait() {
    let mut stage = Stage::new();
    stage.edge(10, 7, 8);
    stage.statement(12, 7, "update", 0);
    assert!(stage.settle(13).is_empty());
    assert!(stage.analysis.is_idle());
    // A thread without statements: the blocker is forgotten after a while.
    stage.edge(20, 9, 8);
    stage.settle(21);
    assert!(!stage.analysis.is_idle());
    stage.settle(20_000);
    assert!(stage.analysis.is_idle());
    assert_eq!(stage.analysis.ended_sums()[0], (0, 0));
}

#[test]
fn an_end_that_was_lost_is_made_up_for() {
    let mut stage = Stage::new();
    stage.begin(10, 7);
    stage.statement(30, 7, "update", 1205);
    let ended = stage.settle(31);
    assert_eq!((ended.len(), ended[0].waited_us), (1, 20_000));
    // The event comes after all, from another processor's view of things.
    stage.end(29, 7);
    assert!(stage.settle(32).is_empty());
    // The next wait of the session begins while the end of the first was lost.
    stage.begin(40, 7);
    stage.begin(50, 7);
    stage.end(60, 7);
    stage.statement(61, 7, "update", 0);
    let waited: Vec<u64> = stage.settle(62).iter().map(|w| w.waited_us).collect();
    assert_eq!(waited, [10_000, 10_000]);
}

#[test]
fn the_blocker_changes_and_all_are_in_the_record() {
    let mut stage = Stage::new();
    stage.edge(10, 7, 8);
    stage.begin(10, 7);
    stage.edge(20, 7, 9);
    let waits = stage.waits(21);
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].blocker.connection_id, Some(9));
    stage.end(30, 7);
    let ended = stage.settle(2000);
    let blockers: Vec<_> = ended.iter().map(|w| w.blocker.connection_id).collect();
    assert_eq!(blockers, [Some(8), Some(9)]);
}

/// A search that visits 7 (waits for 8 and 9), then 8 (waits for 6).
fn search(stage: &mut Stage, ms: u64) {
    let context = |id: u64| id * 0x1000 + 0x160;
    let key = b"\x04shop\0orders\0";
    let from = |id, depth| LockReport::MetadataFrom {
        waiter: thread(id),
        context: context(id),
        depth,
        mode: 10,
        key,
    };
    let by = |id, depth| LockReport::MetadataBy {
        blocker: thread(id),
        context: context(id),
        depth,
    };
    for report in [
        by(7, 0),
        from(7, 0),
        by(8, 1),
        from(8, 1),
        by(6, 2),
        by(9, 1),
    ] {
        stage.see(ms, 70, report);
    }
}

fn metadata(stage: &mut Stage, ms: u64, id: u64, is_final: bool) {
    let report = LockReport::MetadataBegin {
        waiter: thread(id),
        context: id * 0x1000 + 0x160,
        is_final,
    };
    stage.see(ms, u32::try_from(id * 10).unwrap_or(0), report);
}

#[test]
fn a_metadata_wait_in_parts_is_one_wait() {
    let mut stage = Stage::new();
    metadata(&mut stage, 5, 8, true);
    search(&mut stage, 10);
    metadata(&mut stage, 10, 7, false);
    let waits = stage.waits(11);
    let edges: Vec<_> = waits
        .iter()
        .map(|w| (w.waiter.connection_id, w.blocker.connection_id))
        .collect();
    // The search passed 8 on its way, and told whom that waits for.
    assert_eq!(
        edges,
        [(Some(8), Some(6)), (Some(7), Some(8)), (Some(7), Some(9))]
    );
    assert_eq!(waits[1].kind, LockKind::Metadata);
    assert_eq!(waits[1].object.table, "shop.orders");
    assert_eq!(waits[1].object.mode_wanted, "EXCLUSIVE");
    let end = |is_decided| LockReport::MetadataEnd {
        waiter: thread(7),
        context: 0x7160,
        is_decided,
    };
    stage.see(1010, 70, end(false));
    assert_eq!(stage.waits(1011).len(), 3, "it may go on");
    metadata(&mut stage, 1012, 7, true);
    stage.see(1500, 70, end(true));
    stage.statement(1501, 7, "alter", 0);
    let ended = stage.settle(1502);
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|w| w.waited_us == 1_490_000), "{ended:#?}");
}

#[test]
fn the_victim_is_who_failed_in_whatever_order_it_is_read() {
    for statement_first in [false, true] {
        let mut stage = Stage::new();
        let pair = LockReport::RowPair {
            one: thread(7),
            two: thread(8),
        };
        if statement_first {
            stage.statement(11, 8, "delete", 1213);
        }
        stage.see(10, 80, pair);
        if !statement_first {
            stage.settle(10);
            stage.statement(11, 8, "delete", 1213);
        }
        stage.statement(12, 8, "rollback", 0);
        stage.settle(13);
        let deadlocks = stage.analysis.take_deadlocks();
        assert_eq!(deadlocks.len(), 1);
        assert_eq!(deadlocks[0].victim.connection_id, Some(8));
        assert_eq!(&*deadlocks[0].victim.fingerprint, "delete");
        assert_eq!(deadlocks[0].cycle.len(), 2);
        stage.settle(20_000);
        assert!(stage.analysis.take_deadlocks().is_empty());
        assert_eq!(stage.analysis.dropped(), 0);
    }
}

#[test]
fn nobody_is_a_victim_who_did_not_fail() {
    let mut stage = Stage::new();
    let pair = LockReport::RowPair {
        one: thread(7),
        two: thread(8),
    };
    stage.statement(5, 7, "delete", 1213);
    stage.see(10, 80, pair);
    stage.statement(12, 7, "update", 0);
    stage.settle(20_000);
    assert!(stage.analysis.take_deadlocks().is_empty());
    assert_eq!(stage.analysis.dropped(), 1);
    // A metadata deadlock whose victim's statement the server carried out anew.
    search(&mut stage, 30_000);
    let victim = LockReport::MetadataVictim {
        victim: thread(7),
        context: 0x7160,
    };
    stage.see(30_000, 70, victim);
    stage.statement(30_001, 7, "select", 0);
    stage.settle(30_002);
    assert!(stage.analysis.take_deadlocks().is_empty());
    assert_eq!(stage.analysis.dropped(), 1);
}

#[test]
fn the_end_of_the_server_ends_every_wait_once() {
    let mut stage = Stage::new();
    stage.begin(10, 7);
    stage.edge(10, 9, 7);
    for _ in 0..2 {
        let moment = Stage::moment(50);
        stage.analysis.server_ended(&stage.sessions, &moment);
    }
    let ended = stage.analysis.take_ended();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].waited_us, ended[0].ended), (40_000, true));
    assert!(stage.waits(60).is_empty());
}

/// Events in any order, for any thread: tables stay bounded and every wait ends once.
#[test]
fn any_events_are_survived() {
    let mut random = waggle_stats::random::Random::new(11);
    let mut stage = Stage::new();
    let mut ended = std::collections::HashSet::new();
    for ms in 0..20_000 {
        let id = 1 + random.next_below(12) as u64;
        let other = 1 + random.next_below(12) as u64;
        match random.next_below(8) {
            0 => stage.edge(ms, id, other),
            1 => stage.begin(ms, id),
            2 => stage.end(ms, id),
            3 => search(&mut stage, ms),
            4 => metadata(&mut stage, ms, id, id.is_multiple_of(2)),
            5 => stage.statement(ms, id, "update", if id == 3 { 1213 } else { 0 }),
            6 => stage.see(
                ms,
                1,
                LockReport::RowPair {
                    one: thread(id),
                    two: thread(other),
                },
            ),
            _ => stage.see(
                ms,
                70,
                LockReport::MetadataVictim {
                    victim: thread(id),
                    context: id * 0x1000 + 0x160,
                },
            ),
        }
        let over = stage.settle(ms);
        let ids: std::collections::HashSet<u64> = over.iter().map(|w| w.id).collect();
        for id in ids {
            assert!(ended.insert(id), "wait {id} ended twice");
        }
        let live = stage.waits(ms);
        assert!(live.iter().all(|w| !ended.contains(&w.id)));
        assert!(live.len() <= 12 * 16);
    }
    assert!(ended.len() > 1000);
}
