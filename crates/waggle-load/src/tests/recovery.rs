//! Lost connections, refused starts, threads that do not end, and what scripts count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{CONNECT, PATIENCE, lua, run_to_end, spec, start};
use crate::command::shared;
use crate::context::Context;
use crate::driver::scripted::{Scripted, ScriptedDriver, server_error};
use crate::driver::{DriverError, Outcome};
use crate::rand::{Rand, RandSettings, UniqueSource};
use crate::tally::Tally;
use crate::{LoadError, LoadState};

fn lost() -> DriverError {
    DriverError::Lost {
        errno: 2013,
        message: "lost the connection".into(),
    }
}

const PREPARED: &str = "
    function thread_init()
      con = sysbench.sql.driver():connect()
      one = con:prepare('SELECT c FROM sbtest1')
      two = con:prepare('SELECT c FROM sbtest22')
    end
    function event()
      con:query('begin')
      two:execute()
      one:execute()
      return true
    end";

#[test]
fn a_lost_connection_comes_back_with_its_statements() {
    let server = Scripted::answering(|_, asked| match (asked.session, asked.sql.as_str()) {
        (0, "SELECT c FROM sbtest1") => Err(lost()),
        _ => Ok(Outcome::default()),
    });
    *server.admits.lock().unwrap() = Box::new(|number| match number {
        1 | 2 => Err(server_error(1040, "Too many connections")),
        _ => Ok(()),
    });
    let mut spec = spec(lua(PREPARED));
    spec.ignore_errors = "1213,2013".parse().unwrap();
    let load = start(&spec, &server).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    let last = load.stop().unwrap().last;
    let asked = server.asked.lock().unwrap();
    let asked: Vec<_> = asked
        .iter()
        .map(|one| (one.session, one.sql.as_str()))
        .collect();
    let wanted = [
        (0, "begin"),
        (0, "SELECT c FROM sbtest22"),
        (0, "SELECT c FROM sbtest1"),
        (3, "begin"),
        (3, "SELECT c FROM sbtest22"),
        (3, "SELECT c FROM sbtest1"),
    ];
    assert_eq!(asked, wanted);
    let texts = ["SELECT c FROM sbtest1", "SELECT c FROM sbtest22"].map(str::to_owned);
    let prepared = [0, 3].map(|session| texts.clone().map(|text| (session, text)));
    assert_eq!(*server.prepared.lock().unwrap(), prepared.concat());
    assert_eq!((last.counters.reconnects, last.counters.errors), (1, 1));
    let error = &last.errors[&2013];
    assert_eq!(
        (error.count, error.example.as_str()),
        (1, "lost the connection")
    );
    assert!(
        last.downtime_ns >= 1_000_000,
        "the first attempt is repeated after 1 ms"
    );
}

#[test]
fn a_server_that_stays_away_ends_the_load_after_the_limit() {
    let server = Scripted::answering(|_, _| Err(lost()));
    *server.admits.lock().unwrap() = Box::new(|number| match number {
        0 => Ok(()),
        _ => Err(lost()),
    });
    let mut spec = spec(lua(&format!(
        "{CONNECT}function event() con:query('SELECT') end"
    )));
    spec.ignore_errors = crate::IgnoreErrors::All;
    spec.reconnect_limit = Duration::from_millis(5);
    let error = run_to_end(&spec, &server).unwrap_err().to_string();
    let wanted = "lost the connection; it could not be opened again within 0.0 s: \
                  lost the connection; statement: SELECT; at mine.lua:2";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn a_load_stops_and_pauses_while_it_waits_for_a_server() {
    let server = Scripted::answering(|_, _| Err(lost()));
    *server.admits.lock().unwrap() = Box::new(|number| match number {
        0 | 1 => Ok(()),
        _ => Err(lost()),
    });
    let mut spec = spec(lua(&format!(
        "{CONNECT}function event() con:query('SELECT') end"
    )));
    spec.ignore_errors = "2013".parse().unwrap();
    (spec.threads, spec.reconnect_limit) = (2, Duration::from_secs(3_600));
    let load = start(&spec, &server).unwrap();
    while load
        .snapshot()
        .errors
        .get(&2013)
        .is_none_or(|error| error.count < 2)
    {
        std::thread::yield_now();
    }
    load.pause();
    load.resume();
    let last = load.stop().unwrap().last;
    assert_eq!(
        (last.counters.reconnects, last.counters.transactions),
        (0, 0)
    );
}

#[test]
fn a_connection_lost_for_good_by_the_servers_last_words_is_opened_again() {
    let server = Scripted::answering(|_, asked| match asked.session {
        0 => Err(server_error(1053, "Server shutdown in progress")),
        _ => Ok(Outcome::default()),
    });
    let script = "function event() con:query('SELECT'); return true end";
    let mut spec = spec(lua(&format!("{CONNECT}{script}")));
    spec.ignore_errors = "2013".parse().unwrap();
    let counters = run_to_end(&spec, &server).unwrap();
    assert_eq!((counters.reconnects, counters.errors), (1, 1));
    assert_eq!(
        server.texts(),
        ["SELECT", "SELECT"],
        "there is nothing to roll back"
    );
}

#[test]
fn a_refused_start_says_how_many_were_connected() {
    let server = Scripted::silent();
    *server.admits.lock().unwrap() = Box::new(|number| match number {
        0..3 => Ok(()),
        _ => Err(server_error(1040, "Too many connections")),
    });
    let mut spec = spec(lua(&format!("{CONNECT}function event() end")));
    spec.threads = 50;
    let error = start(&spec, &server).err().unwrap();
    assert!(error.is_connect());
    let LoadError::Connect {
        connected, threads, ..
    } = error
    else {
        panic!("another error: {error}")
    };
    assert!(connected <= 3 && threads == 50);
    assert!(
        error.to_string().contains("Too many connections"),
        "{error}"
    );
}

#[test]
fn a_script_that_never_comes_back_is_left_behind_with_a_report() {
    let script = "
        local ffi = require('ffi')
        ffi.cdef('int usleep(unsigned int);')
        function event()
          con:query('SELECT')
          while true do ffi.C.usleep(10000) end
        end";
    let mut spec = spec(lua(&format!("{CONNECT}{script}")));
    spec.stop_grace = Duration::from_millis(1);
    let load = start(&spec, &Scripted::silent()).unwrap();
    while load.counters().queries == 0 {
        std::thread::yield_now();
    }
    let (report, failure) = load.finish();
    assert_eq!(report.counters.queries, 1);
    assert!(matches!(failure, Some(LoadError::Stuck { threads: 1, .. })));
}

#[test]
fn statements_are_timed_by_shape_and_first_word_when_asked() {
    let mut spec = spec(lua(PREPARED));
    (spec.threads, spec.statement_latency) = (2, true);
    let load = start(&spec, &Scripted::silent()).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    let last = load.stop().unwrap().last;
    let counts = last
        .statements
        .iter()
        .map(|(name, latency)| (name.as_str(), latency.count()));
    let wanted = [("BEGIN", 2), ("SELECT c FROM sbtestN", 4)];
    assert_eq!(counts.collect::<Vec<_>>(), wanted);
    spec.statement_latency = false;
    let load = start(&spec, &Scripted::silent()).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    assert!(load.stop().unwrap().last.statements.is_empty());
}

#[test]
fn scripts_name_kinds_of_events_and_count() {
    let spec = spec(lua("function event() end"));
    let driver = Arc::new(ScriptedDriver(Scripted::silent()));
    let shared = Arc::new(shared(&spec, driver, Arc::default(), None));
    let tallies: Vec<Arc<Tally>> = (0..2).map(|_| Arc::default()).collect();
    shared.gate.resume();
    for tally in &tallies {
        let rand = Rand::new(1, 0, RandSettings::default(), UniqueSource::default());
        let mut context = Context::new(shared.clone(), tally.clone(), rand);
        let (pay, order) = (context.operation("payment"), context.operation("order"));
        let money = context.counter("money");
        for operation in [pay, order, order] {
            assert!(context.may_run());
            context.event_begin();
            context.label(operation);
            assert!(context.begin_event());
            context.add(money, 0.25);
            context.event_end();
        }
        context.event_begin();
        context.event_end();
    }
    let now = crate::snapshot::read(&shared, &tallies);
    assert_eq!(now.operations["payment"].response.count(), 2);
    assert_eq!(now.operations["order"].response.count(), 4);
    assert!(
        now.operations["order"].service.is_empty(),
        "a closed loop has one time"
    );
    assert_eq!(now.response.count(), 8);
    assert_eq!(
        now.user_counters,
        BTreeMap::from([("money".to_owned(), 1.5)])
    );
    let none = now.since(&now.clone());
    assert_eq!(none.operations["order"].response.count(), 0);
    assert_eq!(none.user_counters["money"], 0.0);
}
