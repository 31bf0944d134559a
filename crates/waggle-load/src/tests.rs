//! The engine against a scripted database: counting, restarts, pausing, errors, reproducibility.

mod barrier;
mod open;
mod recovery;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waggle_wire::Dsn;

use crate::driver::scripted::{Scripted, ScriptedDriver, server_error};
use crate::driver::{DriverError, Outcome};
use crate::{Counters, Load, LoadError, LoadSpec, LoadState, Progress, Script, check, command};

mod dialects;
mod face;
mod jit;
mod linkbench;
mod loading;
mod results;
mod rows;
mod symbols;
mod tpcc;

/// More than any test needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn spec(script: Script) -> LoadSpec {
    LoadSpec::new(
        Dsn::from_str("mysql://nobody@127.0.0.1:1/none").unwrap(),
        script,
    )
}

fn start(spec: &LoadSpec, server: &Arc<Scripted>) -> Result<Load, LoadError> {
    Load::start_with(spec, Arc::new(ScriptedDriver(server.clone())))
}

fn lua(text: &str) -> Script {
    Script::from_text("mine.lua", text)
}

/// Runs a script whose workers end by themselves.
fn run_to_end(spec: &LoadSpec, server: &Arc<Scripted>) -> Result<Counters, LoadError> {
    let load = start(spec, server)?;
    assert_ne!(load.wait(PATIENCE), LoadState::Active);
    load.stop().map(|report| report.counters)
}

const CONNECT: &str = "function thread_init() con = sysbench.sql.driver():connect() end\n";

#[test]
fn statements_of_the_shipped_workloads_are_the_documented_ones() {
    let wanted = [
        (
            "oltp_point_select",
            1,
            vec!["SELECT c FROM sbtest1 WHERE id=?"],
        ),
        (
            "oltp_read_only",
            16,
            vec![
                "BEGIN",
                "SELECT c FROM sbtest1 WHERE id=?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "COMMIT",
            ],
        ),
        (
            "oltp_read_write",
            20,
            vec![
                "BEGIN",
                "SELECT c FROM sbtest1 WHERE id=?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
                "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                "UPDATE sbtest1 SET k=k+1 WHERE id=?",
                "UPDATE sbtest1 SET c=? WHERE id=?",
                "DELETE FROM sbtest1 WHERE id=?",
                "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
                "COMMIT",
            ],
        ),
    ];
    for (name, statements, distinct) in wanted {
        let server = Scripted::silent();
        let load = start(&spec(Script::open(name).unwrap()), &server).unwrap();
        while load.counters().transactions == 0 {
            assert_eq!(load.wait(Duration::from_millis(1)), LoadState::Active);
        }
        load.stop().unwrap();
        let mut texts = server.texts();
        texts.truncate(statements);
        texts.dedup();
        assert_eq!(texts, distinct, "{name}");
    }
}

#[test]
fn prepare_fills_every_table_and_reports_rows() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.threads = 3;
    spec.options = BTreeMap::from([
        ("tables".to_owned(), "4".to_owned()),
        ("table-size".to_owned(), "5000".to_owned()),
        ("auto_inc".to_owned(), "off".to_owned()),
    ]);
    let server = Scripted::silent();
    let most_rows = Arc::new(Mutex::new(0));
    let seen = most_rows.clone();
    let progress = move |progress: Progress<'_>| {
        if let Progress::Rows { inserted } = progress {
            let mut most = seen.lock().unwrap();
            *most = inserted.max(*most);
        }
    };
    let driver = Arc::new(ScriptedDriver(server.clone()));
    command::run(&spec, "prepare", driver.clone(), Arc::new(progress)).unwrap();
    assert_eq!(*most_rows.lock().unwrap(), 20_000);

    let texts = server.texts();
    let count = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count("CREATE TABLE sbtest"), 4);
    assert_eq!(count("CREATE INDEX k_"), 4);
    // 5,000 rows of about 200 bytes do not fit one packet of 512 KiB.
    assert_eq!(count("INSERT INTO sbtest3 (id, k, c, pad) VALUES (1, "), 1);
    assert_eq!(count("INSERT INTO sbtest3 (id, k, c, pad) VALUES ("), 2);
    assert!(texts.iter().all(|text| text.len() <= 512 * 1024));

    command::run(&spec, "cleanup", driver, Arc::new(|_| {})).unwrap();
    assert_eq!(
        server
            .texts()
            .iter()
            .filter(|text| text.starts_with("DROP TABLE"))
            .count(),
        4
    );
}

#[test]
fn a_failed_thread_of_prepare_ends_the_others_and_is_reported() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.threads = 2;
    spec.options = BTreeMap::from([("tables".to_owned(), "2".to_owned())]);
    let server = Scripted::answering(
        |_, asked| match asked.sql.contains("CREATE TABLE sbtest2") {
            true => Err(server_error(1114, "The table is full")),
            false => Ok(Outcome::default()),
        },
    );
    let driver = Arc::new(ScriptedDriver(server));
    let error = command::run(&spec, "prepare", driver, Arc::new(|_| {})).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("thread 1") && text.contains("The table is full"),
        "{text}"
    );
    assert!(text.contains("at oltp_common.lua:"), "{text}");
    assert!(
        !spec.cancel.load(Ordering::Relaxed),
        "the caller's flag is the caller's"
    );
}

#[test]
fn threads_draw_the_same_values_for_the_same_seed() {
    let script = "
        local left = 50
        function event()
          left = left - 1
          con:query(string.format('%d %d %s', sysbench.tid, sysbench.rand.default(1, 1000000),
            sysbench.rand.string('@@@###')))
          return left == 0
        end";
    let drawn = |seed| {
        let mut spec = spec(lua(&format!("{CONNECT}{script}")));
        (spec.threads, spec.seed) = (4, seed);
        let server = Scripted::silent();
        run_to_end(&spec, &server).unwrap();
        let mut texts = server.texts();
        texts.sort();
        texts
    };
    assert_eq!(drawn(11), drawn(11));
    assert_ne!(drawn(11), drawn(12));
    assert_eq!(drawn(11).len(), 200);
}

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
fn pause_leaves_no_statement_in_flight_and_counts_exactly() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.threads = 4;
    let server = Scripted::silent();
    let load = start(&spec, &server).unwrap();
    let mut before = 0;
    for _ in 0..100 {
        load.pause();
        assert_eq!(server.in_flight.load(Ordering::SeqCst), 0);
        assert_eq!(server.open_transactions.load(Ordering::SeqCst), 0);
        let counters = load.counters();
        assert_eq!(counters.queries, server.asked.lock().unwrap().len() as u64);
        assert_eq!(counters.queries, counters.transactions * 20);
        before = counters.transactions;
        load.resume();
        while load.counters().transactions == before {
            std::thread::yield_now();
        }
    }
    assert!(load.stop().unwrap().counters.transactions > before);
}

#[test]
fn a_reset_forgets_exactly_what_was_before_it() {
    let server = Scripted::silent();
    let mut spec = spec(Script::open("oltp_read_only").unwrap());
    spec.threads = 2;
    spec.start_paused = true;
    let load = start(&spec, &server).unwrap();
    assert_eq!(load.counters(), Counters::default());
    load.resume();
    while load.counters().transactions < 20 {
        std::thread::yield_now();
    }
    load.pause();
    load.reset();
    assert_eq!(load.counters(), Counters::default());
    assert!(load.take_latency().is_empty());
    let before = server.asked.lock().unwrap().len() as u64;
    load.resume();
    while load.counters().transactions < 20 {
        std::thread::yield_now();
    }
    let report = load.stop().unwrap();
    let after = server.asked.lock().unwrap().len() as u64;
    assert_eq!(report.counters.queries, after - before);
    assert_eq!(report.latency.count(), report.counters.transactions);
    assert!(report.cpu_ns > 0);
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

#[test]
fn options_are_checked_before_anything_is_connected() {
    let mut spec = spec(Script::open("oltp_point_select").unwrap());
    let known = check(&spec).unwrap();
    assert!(known.iter().any(|option| option.name == "table_size"));
    spec.options.insert("table-sise".into(), "10".into());
    let error = check(&spec).unwrap_err().to_string();
    assert!(error.contains("no option 'table_sise'"), "{error}");
    assert!(
        error.contains("skip_trx, sum_ranges, table_size, tables"),
        "{error}"
    );
    spec.options = BTreeMap::from([("rand-type".into(), "bell".into())]);
    let error = check(&spec).unwrap_err().to_string();
    assert!(
        error.contains("uniform, gaussian, special, pareto or zipfian, not 'bell'"),
        "{error}"
    );
}

#[test]
fn values_pass_between_scripts_and_server_unchanged() {
    let script = "
        local t = sysbench.sql.type
        function event()
          local st = con:prepare('?, ?, ?, ?')
          local i, d = st:bind_create(t.BIGINT), st:bind_create(t.DOUBLE)
          local s, n = st:bind_create(t.VARCHAR, 5), st:bind_create(t.CHAR, 5)
          st:bind_param(i, d, s, n)
          i:set(-9007199254740991); d:set(0.5); s:set('longer than five'); n:set(nil)
          st:execute()
          local a, b, c = con:query_row('row')
          con:query(a .. tostring(b) .. c)
          return true
        end";
    let server = Scripted::silent();
    run_to_end(&spec(lua(&format!("{CONNECT}{script}"))), &server).unwrap();
    let asked = server.asked.lock().unwrap();
    let wanted = ["Int(-9007199254740991)", "Double(0.5)", "longe", "Null"];
    assert_eq!(asked[0].params.as_deref().unwrap(), wanted);
    assert_eq!(asked[2].sql, "onenilthree");
}

#[test]
fn a_worker_that_will_not_end_is_interrupted_then_reported() {
    let mut spec = spec(lua(&format!(
        "{CONNECT}function event() con:query('SELECT') end"
    )));
    spec.stop_grace = Duration::from_millis(20);
    // The server answers only when the socket is shut down.
    let server = Scripted::answering(|server, _| {
        while server.interrupted.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        Err(DriverError::Lost {
            errno: 2013,
            message: "the socket was shut down".into(),
        })
    });
    let load = start(&spec, &server).unwrap();
    while server.in_flight.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // What breaks because of the stop is no failure of the load.
    let report = load.stop().unwrap();
    assert_eq!(report.counters, Counters::default());
    assert_eq!(*server.interrupted.lock().unwrap(), [0]);
}

#[test]
fn init_and_done_run_once_around_the_workers() {
    let script = "
        function init() local c = sysbench.sql.driver():connect(); c:query('init') end
        function event() con:query('event'); return true end
        function done() local c = sysbench.sql.driver():connect(); c:query('done') end";
    let mut spec = spec(lua(&format!("{CONNECT}{script}")));
    spec.threads = 2;
    let server = Scripted::silent();
    let counters = run_to_end(&spec, &server).unwrap();
    assert_eq!(server.texts(), ["init", "event", "event", "done"]);
    assert_eq!(counters.queries, 2);
}

#[test]
fn what_a_script_prints_goes_to_the_sink() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let mut spec = spec(lua("function event() print('a', 1, nil); return true end"));
    spec.log = Some(Arc::new(move |thread, line| {
        sink.lock().unwrap().push(format!("{thread}: {line}"));
    }));
    run_to_end(&spec, &Scripted::silent()).unwrap();
    assert_eq!(*lines.lock().unwrap(), ["0: a\t1\tnil"]);
}

#[test]
fn a_user_file_finds_modules_beside_itself_before_the_shipped_ones() {
    let dir = tempfile::tempdir().unwrap();
    let main =
        "local m = require('oltp_common'); require('helper'); function event() return true end
        function thread_init() print(m.mine, helped) end";
    std::fs::write(dir.path().join("main.lua"), main).unwrap();
    std::fs::write(
        dir.path().join("oltp_common.lua"),
        "return { mine = 'yes' }",
    )
    .unwrap();
    std::fs::write(dir.path().join("helper.lua"), "helped = 'too'").unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let script = Script::open(dir.path().join("main.lua").to_str().unwrap()).unwrap();
    let mut spec = spec(script);
    spec.log = Some(Arc::new(move |_, line| {
        sink.lock().unwrap().push(line.to_owned())
    }));
    run_to_end(&spec, &Scripted::silent()).unwrap();
    assert_eq!(*lines.lock().unwrap(), ["yes\ttoo"]);
}
