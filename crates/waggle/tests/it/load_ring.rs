//! Workers as fibers on rings against real servers: what they count, and every way to an end.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use waggle_load::{IgnoreErrors, Load, LoadError, LoadSpec, LoadState, Script, WaitBy};
use waggle_need::{need, skip};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

const WORKERS: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// Text and prepared statements, a statement that is closed again, and a transaction.
const WORKLOAD: &str = "
    function thread_init()
      con = sysbench.sql.driver():connect()
      kept = con:prepare('SELECT ?')
      value = kept:bind_create(sysbench.sql.type.INT)
      kept:bind_param(value)
    end
    function event()
      con:query('BEGIN')
      value:set(7)
      kept:execute()
      local once = con:prepare('SELECT 2')
      once:execute()
      once:close()
      con:query('COMMIT')
    end";

const CONNECT: &str = "function thread_init() con = sysbench.sql.driver():connect() end\n";

fn sandbox(flavour: Flavour) -> Option<Sandbox> {
    let found = installed_servers()
        .iter()
        .any(|server| server.flavour == flavour);
    if !need(flavour.name(), found, "no such server is installed") {
        return None;
    }
    let spec = SandboxSpec::new(flavour).set("max_connections", "600");
    Some(Sandbox::start(&spec).expect("a throw-away server"))
}

/// Many more workers than processors, on rings.
fn spec(server: &Sandbox, script: &str) -> LoadSpec {
    let script = Script::from_text("mine.lua", script);
    let mut spec = LoadSpec::new(server.dsn_socket(), script);
    spec.threads = WORKERS;
    spec.io = WaitBy::Ring;
    spec
}

/// `None` where this kernel has no rings.
fn started(spec: &LoadSpec) -> Option<Load> {
    match Load::start(spec) {
        Err(LoadError::NoRing) => {
            skip("io_uring", "this kernel refuses it");
            None
        }
        started => Some(started.expect("the load starts")),
    }
}

fn status(connection: &mut Connection, name: &str) -> u64 {
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let rows = connection.query_rows(sql.as_bytes()).expect("a status");
    let text = rows[0][1].as_deref().map(String::from_utf8_lossy);
    text.expect("a value").parse().expect("a number")
}

/// Waits until the load has done `events` more.
fn does(load: &Load, events: u64) {
    let goal = load.counters().transactions + events;
    while load.counters().transactions < goal {
        assert_eq!(load.state(), LoadState::Active);
        // sleep: looking all the time would take the processor from who is waited for
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn pauses_are_exact(flavour: Flavour) {
    let Some(server) = sandbox(flavour) else {
        return;
    };
    let Some(load) = started(&spec(&server, WORKLOAD)) else {
        return;
    };
    let mut control = Connection::connect(&server.dsn_socket()).expect("the server answers");
    for _ in 0..25 {
        load.pause();
        let (before, counted) = (status(&mut control, "Questions"), load.counters());
        // Also what a script closed without waiting for an answer is closed.
        let open = status(&mut control, "Prepared_stmt_count");
        assert_eq!(open, u64::from(WORKERS));
        load.resume();
        does(&load, 500);
        load.pause();
        let asked = status(&mut control, "Questions") - before;
        let mine = load.counters().since(&counted).queries;
        // Two are the control connection's.
        assert_eq!(asked, mine + 2);
        load.resume();
    }
    load.stop().expect("no worker failed");
}

#[test]
fn no_statement_is_under_way_in_a_pause_of_mariadb() {
    pauses_are_exact(Flavour::MariaDb);
}

#[test]
fn no_statement_is_under_way_in_a_pause_of_mysql() {
    pauses_are_exact(Flavour::MySql);
}

#[test]
fn loads_start_and_stop_again_and_again() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let mut spec = spec(&server, WORKLOAD);
    for round in 0..10 {
        // Also fewer workers than processors.
        spec.threads = if round % 2 == 0 { WORKERS } else { 1 };
        let Some(load) = started(&spec) else {
            return;
        };
        does(&load, 10);
        load.stop().expect("no worker failed");
    }
}

#[test]
fn killed_connections_come_back() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let mut spec = spec(&server, WORKLOAD);
    spec.ignore_errors = IgnoreErrors::All;
    let Some(load) = started(&spec) else {
        return;
    };
    let mut control = Connection::connect(&server.dsn_socket()).expect("the server answers");
    let own = control.connection_id();
    let mut killed = BTreeSet::new();
    for _ in 0..5 {
        let sql = format!(
            "SELECT id FROM information_schema.processlist
             WHERE id <> {own} AND user = 'root' ORDER BY rand() LIMIT 20"
        );
        for row in control.query_rows(sql.as_bytes()).expect("a list") {
            let id = row[0].as_deref().map(String::from_utf8_lossy);
            let id = id.expect("a number").into_owned();
            if control.query(format!("KILL {id}").as_bytes()).is_ok() {
                killed.insert(id);
            }
        }
        does(&load, 500);
    }
    // Not counted by reconnects: one that is killed while it is opened is tried again.
    let ids = killed.iter().cloned().collect::<Vec<_>>().join(",");
    let sql = format!("SELECT 1 FROM information_schema.processlist WHERE id IN ({ids})");
    while !control
        .query_rows(sql.as_bytes())
        .expect("a list")
        .is_empty()
        || status(&mut control, "Threads_connected") <= u64::from(WORKERS)
    {
        assert_eq!(load.state(), LoadState::Active);
    }
    assert!(load.counters().reconnects > 0);
    assert!(!killed.is_empty());
    load.stop().expect("no worker failed");
}

#[test]
fn a_server_that_dies_ends_the_load_with_its_reason() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let Some(load) = started(&spec(&server, WORKLOAD)) else {
        return;
    };
    does(&load, 100);
    signal(&server, Signal::KILL);
    assert_eq!(load.wait(PATIENCE), LoadState::Failed);
    let error = load.stop().expect_err("the server is gone").to_string();
    assert!(error.contains("lost the connection"), "{error}");
}

#[test]
fn a_server_that_stands_still_does_not_keep_a_load_from_ending() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let mut spec = spec(&server, WORKLOAD);
    spec.ignore_errors = IgnoreErrors::All;
    // Some wait for an answer, then all of them try to connect.
    for timeout in [PATIENCE, Duration::from_millis(1)] {
        spec.statement_timeout = Some(timeout);
        let Some(load) = started(&spec) else {
            return;
        };
        does(&load, 100);
        signal(&server, Signal::STOP);
        if timeout < PATIENCE {
            while load
                .snapshot()
                .errors
                .values()
                .map(|e| e.count)
                .sum::<u64>()
                < u64::from(WORKERS)
            {
                // sleep: looking all the time would take the processor from who is waited for
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let (report, failure) = load.finish_within(Duration::ZERO);
        signal(&server, Signal::CONT);
        assert!(failure.is_none(), "{failure:?}");
        assert!(report.counters.transactions >= 100);
    }
}

#[test]
fn an_error_of_one_worker_ends_all() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let script = format!(
        "{CONNECT}
         function event(thread)
           con:query('DO 1')
           if thread == 7 then error('enough') end
         end"
    );
    let Some(load) = started(&spec(&server, &script)) else {
        return;
    };
    assert_eq!(load.wait(PATIENCE), LoadState::Failed);
    let error = load.stop().expect_err("a script failed").to_string();
    assert!(error.contains("enough"), "{error}");
}

#[test]
fn a_statement_over_its_limit_fails_alone() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    let script = format!(
        "{CONNECT}
         function event(thread)
           con:query(thread == 7 and 'DO SLEEP(3600)' or 'DO 1')
         end"
    );
    let mut spec = spec(&server, &script);
    spec.ignore_errors = "2013".parse().expect("a list");
    spec.statement_timeout = Some(Duration::from_millis(10));
    let Some(load) = started(&spec) else {
        return;
    };
    while load.counters().reconnects < 2 {
        assert_eq!(load.state(), LoadState::Active);
        // sleep: looking all the time would take the processor from who is waited for
        std::thread::sleep(Duration::from_millis(1));
    }
    let last = load.snapshot();
    let error = last.errors.values().next().expect("errors were counted");
    assert!(error.example.contains("no progress"), "{}", error.example);
    load.finish_within(Duration::ZERO);
}

fn signal(server: &Sandbox, signal: Signal) {
    let pid = Pid::from_raw(server.pid() as i32).expect("a process");
    kill_process(pid, signal).expect("a running server");
}
