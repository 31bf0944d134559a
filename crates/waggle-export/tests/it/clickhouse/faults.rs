//! Nothing acknowledged is lost and nothing is there twice, whatever breaks.

use std::time::Duration;

use waggle_agent::sink::Sink;
use waggle_export::clickhouse::ClickHouse;

use super::proxy::{Fault, Proxy};
use super::server::{Server, server};
use crate::views::{Simulated, view, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

fn assert_all_there_once(server: &Server, truth: u64) {
    let found = server.query("SELECT sum(count) FROM waggle.waggle_statements");
    assert_eq!(found, truth.to_string());
    server.assert_no_row_twice();
}

fn settled(sink: &ClickHouse) -> bool {
    let status = sink.status();
    status.waiting == 0 && status.delivered > 0
}

/// The server is killed with -9 in the middle of an insertion, and at its end, and comes back.
#[test]
fn a_server_that_is_killed_gets_every_row_once() {
    let Some(mut server) = server() else { return };
    let faults = [
        Fault::Pass,
        Fault::KillInTheMiddle,
        Fault::Pass,
        Fault::KillAtTheEnd,
        Fault::KillAtTheEnd,
    ];
    let proxy = Proxy::start(server.port, "waggle_statements", &faults);
    let mut sink = server.sink(proxy.port);
    let mut a = Simulated::new(0, "mariadb");
    for step in 0..5 {
        a.work(3000, 400);
        sink.view(&view(step, &[&a]));
    }
    for _ in 0..3 {
        let done = proxy.kills.recv_timeout(PATIENCE).expect("an insertion");
        server.kill();
        done.send(()).expect("the proxy");
        server.start();
    }
    wait_until("all is delivered", || settled(&sink));
    assert_eq!(proxy.faults.lock().expect("faults").len(), 0);
    sink.close(PATIENCE);
    assert_eq!(sink.status().dropped, []);
    assert_all_there_once(&server, 15_000);
}

/// An acknowledgement that is lost, and a body that is cut, again and again.
#[test]
fn broken_connections_repeat_nothing() {
    let Some(server) = server() else { return };
    let faults = [
        Fault::LoseAnswer,
        Fault::Half,
        Fault::LoseAnswer,
        Fault::Half,
        Fault::Half,
        Fault::Pass,
    ];
    let proxy = Proxy::start(server.port, "waggle_statements", &faults);
    let mut sink = server.sink(proxy.port);
    let mut a = Simulated::new(0, "mariadb");
    for step in 0..4 {
        a.work(500, 100);
        sink.view(&view(step, &[&a]));
    }
    wait_until("all is delivered", || settled(&sink));
    assert_eq!(proxy.faults.lock().expect("faults").len(), 0);
    sink.close(PATIENCE);
    assert_all_there_once(&server, 2000);
}

/// The agent ends while the answer is lost; the next one takes up its spool.
#[test]
fn the_next_agent_repeats_nothing_of_the_last_one() {
    let Some(server) = server() else { return };
    let proxy = Proxy::start(server.port, "waggle_statements", &[Fault::LoseAnswer]);
    let mut sink = server.sink(proxy.port);
    let mut a = Simulated::new(0, "mariadb");
    a.work(500, 100);
    sink.view(&view(0, &[&a]));
    let is_in = || {
        let there = server.query(
            "SELECT count() FROM system.tables WHERE database = 'waggle' \
             AND name = 'waggle_statements'",
        );
        there == "1" && server.query("SELECT sum(count) FROM waggle.waggle_statements") == "500"
    };
    wait_until("the rows are there", is_in);
    sink.close(Duration::ZERO);
    assert!(sink.status().waiting > 0, "{:?}", sink.status());
    drop(sink);
    // Its thread still waits for the lost answer, with the spool in its hands.
    let mut next = None;
    wait_until("the last one has let go", || {
        next = server.try_sink(server.port);
        next.is_some()
    });
    let mut next = next.expect("waited for");
    wait_until("all is delivered", || settled(&next));
    next.close(PATIENCE);
    assert_all_there_once(&server, 500);
}

/// ClickHouse is away from the start: the spool keeps, later it gets all.
#[test]
fn a_server_that_comes_late_gets_everything() {
    let Some(mut server) = server() else { return };
    server.kill();
    let mut sink = server.sink(server.port);
    let mut a = Simulated::new(0, "mariadb");
    for step in 0..5 {
        a.work(100, 10);
        sink.view(&view(step, &[&a]));
    }
    wait_until("it fails", || sink.status().last_error.is_some());
    server.start();
    wait_until("all is delivered", || settled(&sink));
    assert_eq!(sink.status().last_error, None);
    sink.close(PATIENCE);
    assert_all_there_once(&server, 500);
}

/// Somebody drops a table: it is made anew, and delivery goes on.
#[test]
fn a_table_that_was_dropped_comes_back() {
    let Some(server) = server() else { return };
    let mut sink = server.sink(server.port);
    let mut a = Simulated::new(0, "mariadb");
    a.work(100, 10);
    sink.view(&view(0, &[&a]));
    wait_until("all is delivered", || settled(&sink));
    server.query("DROP TABLE waggle.waggle_statements");
    a.work(40, 10);
    sink.view(&view(1, &[&a]));
    sink.close(PATIENCE);
    assert_eq!(sink.status().waiting, 0);
    assert_all_there_once(&server, 40);
}
