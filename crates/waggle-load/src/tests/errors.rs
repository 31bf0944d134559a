//! Errors of the server and of scripts: which restart an event, which end the load, what is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{CONNECT, PATIENCE, lua, run_to_end, spec, start};
use crate::driver::scripted::{Scripted, server_error};
use crate::driver::{DriverError, Outcome};
use crate::{LoadError, LoadState, Script};

#[test]
fn ignorable_errors_restart_the_event_and_are_counted() {
    // Deadlock twice, then a lock wait time-out, then fine.
    let script = "
        function event()
          con:query('BEGIN')
          con:query('UPDATE')
          con:query('COMMIT')
          done = (done or 0) + 1
          return done == 2
        end";
    let server = Scripted::answering(|server, asked| {
        let nth = server
            .texts()
            .iter()
            .filter(|text| *text == "UPDATE")
            .count();
        match (asked.sql.as_str(), nth) {
            ("UPDATE", 0 | 1) => Err(server_error(1213, "Deadlock found")),
            ("UPDATE", 2) => Err(server_error(1205, "Lock wait timeout exceeded")),
            ("UPDATE", _) => Ok(Outcome {
                affected: 1,
                ..Outcome::default()
            }),
            _ => Ok(Outcome::default()),
        }
    });
    let load = start(&spec(lua(&format!("{CONNECT}{script}"))), &server).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    let report = load.stop().unwrap();
    let wanted = "BEGIN UPDATE BEGIN UPDATE BEGIN UPDATE ROLLBACK BEGIN UPDATE COMMIT \
                  BEGIN UPDATE COMMIT";
    assert_eq!(server.texts().join(" "), wanted);
    let counters = report.counters;
    // The event that returned true is not counted, as in sysbench.
    assert_eq!(
        (counters.queries, counters.transactions, counters.errors),
        (13, 1, 3)
    );
    assert_eq!((counters.reads, counters.writes, counters.other), (0, 2, 8));
    assert_eq!(
        report.errors_by_errno,
        BTreeMap::from([(1205, 1), (1213, 2)])
    );
    assert_eq!(report.latency.count(), 1);
}

#[test]
fn an_error_that_lasts_does_not_keep_a_load_from_stopping() {
    let mut spec = spec(lua(&format!(
        "{CONNECT}function event() con:query('UPDATE') end"
    )));
    spec.restart_limit = u32::MAX;
    let server = Scripted::answering(|_, asked| match asked.sql.as_str() {
        "UPDATE" => Err(server_error(1213, "Deadlock found")),
        _ => Ok(Outcome::default()),
    });
    let load = start(&spec, &server).unwrap();
    while load.counters().errors < 10 {
        assert_eq!(load.wait(Duration::from_millis(1)), LoadState::Active);
    }
    load.pause();
    assert_eq!(server.in_flight.load(Ordering::SeqCst), 0);
    load.resume();
    let report = load.stop().unwrap();
    assert_eq!(report.counters.transactions, 0);
}

#[test]
fn restarts_of_one_event_have_a_limit() {
    let mut spec = spec(lua(&format!(
        "{CONNECT}function event() con:query('UPDATE') end"
    )));
    spec.restart_limit = 5;
    let server = Scripted::answering(|_, _| Err(server_error(1213, "Deadlock found")));
    let error = run_to_end(&spec, &server).unwrap_err().to_string();
    assert!(
        error.contains("one event was restarted 5 times in a row"),
        "{error}"
    );
    assert!(error.contains("Deadlock found"), "{error}");
    assert_eq!(server.texts().len(), 6);
}

#[test]
fn a_hook_may_make_any_error_a_restart() {
    let script = "
        function sysbench.hooks.sql_error_ignorable(err)
          return err.sql_errno == 1317 and err.sql_state == 'HY000'
        end
        function sysbench.hooks.before_restart_event(err) con:query('AGAIN ' .. err.query) end
        function event() con:query('SELECT'); return true end";
    let server = Scripted::answering(|server, asked| {
        match asked.sql == "SELECT" && server.texts().is_empty() {
            true => Err(server_error(1317, "Query execution was interrupted")),
            false => Ok(Outcome::default()),
        }
    });
    let counters = run_to_end(&spec(lua(&format!("{CONNECT}{script}"))), &server).unwrap();
    assert_eq!(
        server.texts(),
        ["SELECT", "AGAIN SELECT", "ROLLBACK", "SELECT"]
    );
    assert_eq!((counters.queries, counters.errors), (4, 1));
}

#[test]
fn a_fatal_error_stops_the_load_and_names_thread_statement_and_line() {
    let mut spec = spec(lua(&format!(
        "{CONNECT}\nfunction event()\n  con:query('SELECT ' .. sysbench.tid)\nend"
    )));
    spec.threads = 3;
    let server = Scripted::answering(|_, asked| match asked.sql.as_str() {
        "SELECT 2" => Err(server_error(1146, "Table 'sbtest.sbtest1' doesn't exist")),
        _ => Ok(Outcome::default()),
    });
    let load = start(&spec, &server).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Failed);
    // A pause of a failed load must not wait for workers that will never come.
    load.pause();
    let LoadError::Worker(error) = load.stop().unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(error.thread, 2);
    assert_eq!(error.errno, Some(1146));
    assert_eq!(error.statement.as_deref(), Some("SELECT 2"));
    assert_eq!(error.at.as_deref(), Some("mine.lua:4"));
    let wanted = "thread 2: error 1146 (HY000): Table 'sbtest.sbtest1' doesn't exist; \
                  statement: SELECT 2; at mine.lua:4";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn a_failed_execution_names_the_prepared_statement() {
    let script = "
        function event()
          local st = con:prepare('SELECT c FROM t WHERE id=?')
          local id = st:bind_create(sysbench.sql.type.INT)
          st:bind_param(id)
          id:set(7)
          st:execute()
        end";
    let server = Scripted::answering(|_, _| {
        Err(DriverError::Lost {
            errno: 2013,
            message: "the server went away".into(),
        })
    });
    let error = run_to_end(&spec(lua(&format!("{CONNECT}{script}"))), &server).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the server went away; statement: SELECT c FROM t WHERE id=?"),
        "{text}"
    );
    assert_eq!(
        server.asked.lock().unwrap()[0].params,
        Some(vec!["Int(7)".to_owned()])
    );
}

#[test]
fn a_refused_connection_fails_the_start() {
    let mut server = Scripted::silent();
    Arc::get_mut(&mut server).unwrap().refuse_connect = true;
    let error = start(&spec(Script::open("oltp_read_only").unwrap()), &server)
        .err()
        .unwrap();
    assert!(error.is_connect());
    assert!(
        error
            .to_string()
            .contains("Access denied for user 'nobody'"),
        "{error}"
    );
}

#[test]
fn script_errors_have_file_and_line() {
    let server = Scripted::silent();
    let at_load = start(&spec(lua("local x = 1\nx.y.z = 2")), &server)
        .err()
        .unwrap()
        .to_string();
    assert!(at_load.contains("mine.lua:2:"), "{at_load}");
    let syntax = start(&spec(lua("function event(\n")), &server)
        .err()
        .unwrap()
        .to_string();
    assert!(syntax.contains("mine.lua:2:"), "{syntax}");
    let at_run = run_to_end(&spec(lua("\nfunction event()\n  nothing()\nend")), &server);
    let at_run = at_run.unwrap_err().to_string();
    assert!(
        at_run.contains("mine.lua:3: attempt to call global 'nothing'"),
        "{at_run}"
    );
    let no_event = start(&spec(lua("x = 1")), &server)
        .err()
        .unwrap()
        .to_string();
    assert!(
        no_event.contains("defines no event() function"),
        "{no_event}"
    );
}
