//! What a script gets and gives: options, values, modules, random numbers, lines it prints.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{CONNECT, lua, run_to_end, spec};
use crate::driver::scripted::Scripted;
use crate::{Script, check};

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
