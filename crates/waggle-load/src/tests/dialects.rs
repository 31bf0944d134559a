//! The two dialects: defaults, names of sysbench 0.5, options, commands, installed scripts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use waggle_need::skip;

use crate::Dialect::{V1_0, V1_1};
use crate::{LoadError, LoadSpec, OptionKind, OptionValue, Script, check, run_command};

use super::rows::{Rows, face, run};
use super::{lua, run_to_end, spec};
use crate::driver::scripted::{Scripted, ScriptedDriver};

fn told(spec: &mut LoadSpec) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    spec.log = Some(Arc::new(move |_, line| {
        sink.lock().unwrap().push(line.to_owned())
    }));
    lines
}

#[test]
fn the_api_of_0_5_is_there_in_1_0_alone() {
    run(
        V1_1,
        "assert(db_query == nil and sysbench.db == nil and sysbench.version == '1.1.0')
         assert(sysbench.opt.rand_type == 'uniform')",
    );
    run(
        V1_0,
        "assert(sysbench.version == '1.0.20' and sysbench.opt.rand_type == 'special')
         assert(thread_id == 1 and test == 'mine.lua' and db_driver == 'mysql')
         assert(mysql_table_engine == 'innodb' and myisam_max_rows == 1000000)
         assert(DB_ERROR_NONE == 0 and DB_ERROR_RESTART_TRANSACTION == 1 and DB_ERROR_FAILED == 2)
         fails_with('db_connect() has not been called', db_query, 'sets 1x1')
         db_connect()
         assert(db_query('sets 2x1').nrows == 2)
         db_bulk_insert_init('INSERT INTO t VALUES')
         db_bulk_insert_next('(1)')
         db_bulk_insert_done()
         local st = db_prepare('sets 1x1 ?, ?')
         local values = { 1, 'short' }
         db_bind_param(st, values)
         db_bind_result(st, {})
         local rs = db_execute(st)
         values[1], values[2] = 2, ('long'):rep(100)
         rs = db_execute(st)
         assert(db_store_results(rs).nrows == 1)
         assert(ffi.string(st.params[2].buffer, st.params[2].data_len[0]) == values[2])
         db_free_results(rs)
         db_close(st)
         db_disconnect()
         local r = sb_rand(1, 10)
         assert(r >= 1 and r <= 10 and sb_rand_uniform(3, 3) == 3 and sb_rand_special(4, 4) == 4)
         assert(sb_rand_gaussian(5, 5) == 5 and sb_rand_str('x#'):match('^x%d$'))
         local u = sb_rand_uniq(100, 199)
         assert(u >= 100 and u <= 199 and sb_rnd() >= 0)",
    );
}

#[test]
fn options_that_a_legacy_script_never_declared_are_its_globals() {
    let script = "function event() con = nil; print(oltp_table_size, type(oltp_table_size),
        sysbench.opt.oltp_table_size, num_threads, percentile); return true end";
    let mut legacy = spec(lua(script));
    legacy.options = BTreeMap::from([("oltp-table-size".to_owned(), "500".to_owned())]);
    legacy.general_options = BTreeMap::from([("percentile".to_owned(), OptionValue::Number(99.0))]);
    legacy.dialect = V1_0;
    let lines = told(&mut legacy);
    run_to_end(&legacy, &Scripted::silent()).unwrap();
    assert_eq!(*lines.lock().unwrap(), ["500\tstring\t500\t1\t99"]);

    let mut modern = legacy.clone();
    modern.dialect = V1_1;
    assert!(matches!(
        check(&modern),
        Err(LoadError::UnknownOption { .. })
    ));
    let declared = format!("sysbench.cmdline.options = {{ a = {{ 'x', 1 }} }} {script}");
    legacy.script = lua(&declared);
    assert!(matches!(
        check(&legacy),
        Err(LoadError::UnknownOption { .. })
    ));
}

#[test]
fn options_have_the_types_that_scripts_give_them() {
    let script = "
        local c = sysbench.cmdline
        c.options = {
          a = { 'a number', 5 }, b = { 'a switch', true }, d = { 'a list', { 'p', 'q' } },
          e = { 'text without a default' }, f = { 'a size', '4K', c.ARG_SIZE },
          g = { 'whole', 3, c.ARG_INT }, ['rand-type'] = { 'not its own', 'x' },
          h = { 'checked', 1, c.ARG_INT, function(name, value) return value < 10 end },
        }
        at_top = sysbench.opt.a
        function event()
          local o = sysbench.opt
          print(o.a, o.b, o.d[2], o.e == '', o.f, o.g, o.rand_type, o.time, at_top)
          sysbench.cmdline.print_test_options()
          return true
        end";
    let mut spec = spec(lua(script));
    spec.argv = ["sysbench", "mine.lua", "run"].map(str::to_owned).into();
    spec.options = BTreeMap::from([("a".to_owned(), "7".to_owned())]);
    spec.general_options = BTreeMap::from([("time".to_owned(), OptionValue::Number(10.0))]);
    let lines = told(&mut spec);
    run_to_end(&spec, &Scripted::silent()).unwrap();
    let wanted = "7\ttrue\tq\ttrue\t4096\t3\tuniform\t10\t7
mine.lua options:
  --a=N                         a number [5]
  --b[=on|off]                  a switch [on]
  --d=[LIST,...]                a list [p,q]
  --e=STRING                    text without a default
  --f=SIZE                      a size [4K]
  --g=N                         whole [3]
  --h=N                         checked [1]
  --rand-type=STRING            not its own [x]
";
    assert_eq!(lines.lock().unwrap().join("\n"), wanted);
    let open = face(&spec).unwrap();
    let kinds: Vec<_> = open.options().iter().map(|option| option.kind).collect();
    use OptionKind::{Bool, Double, Int, List, Size, Text};
    assert_eq!(kinds, [Double, Bool, List, Text, Size, Int, Int]);
    spec.options.insert("h".into(), "11".into());
    let error = check(&spec).unwrap_err().to_string();
    assert!(
        error.contains("the script refuses the value '11'"),
        "{error}"
    );
}

#[test]
fn a_parallel_command_that_returns_false_fails_the_whole() {
    let script = "sysbench.cmdline.commands = {
          fill = { function() return sysbench.tid ~= 2 end, sysbench.cmdline.PARALLEL_COMMAND },
          alone = { function() assert(sysbench.cmdline.command == 'alone') end },
        }
        assert(sysbench.cmdline.command_defined('fill'))
        assert(sysbench.cmdline.command_parallel('fill'))
        assert(not sysbench.cmdline.command_parallel('alone'))
        assert(not sysbench.cmdline.call_command('none'))
        function event() end";
    let mut spec = spec(lua(script));
    spec.threads = 4;
    let driver = Arc::new(Rows::default());
    let error = run_command(&spec, "fill", driver.clone(), |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("thread 2: the command of the workload returned false"),
        "{text}"
    );
    run_command(&spec, "alone", driver.clone(), |_| {}).unwrap();
    let unknown = run_command(&spec, "prepare", driver, |_| {}).unwrap_err();
    assert!(matches!(unknown, LoadError::NoCommand { .. }), "{unknown}");
}

#[test]
fn parallel_commands_draw_the_same_values_for_the_same_seed() {
    let script = "
        local function fill()
          local c, r = sysbench.sql.driver():connect(), sysbench.rand
          for _ = 1, 20 do
            c:query(string.format('%d %d %s', sysbench.tid, r.default(1, 2 ^ 40), r.string('@#')))
          end
        end
        sysbench.cmdline.commands = { prepare = { fill, sysbench.cmdline.PARALLEL_COMMAND } }
        function event() end";
    let drawn = |seed| {
        let mut spec = spec(lua(script));
        (spec.threads, spec.seed) = (4, seed);
        let server = Scripted::silent();
        let driver = Arc::new(ScriptedDriver(server.clone()));
        run_command(&spec, "prepare", driver, |_| {}).unwrap();
        let mut texts = server.texts();
        texts.sort();
        texts
    };
    assert_eq!(drawn(3), drawn(3));
    assert_ne!(drawn(3), drawn(4));
    assert_eq!(drawn(3).len(), 80);
}

/// Those that Debian's package of sysbench installs, read from where it puts them.
#[test]
fn installed_scripts_load_in_both_dialects() {
    let directory = Path::new("/usr/share/sysbench");
    let Ok(entries) = directory.read_dir() else {
        let why = format!("{} is not there", directory.display());
        return skip("sysbench", &why);
    };
    let mut loaded = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.extension().is_none_or(|extension| extension != "lua") || name == "oltp_common" {
            continue;
        }
        let script = Script::open_sysbench(name).unwrap();
        for dialect in [V1_0, V1_1] {
            let mut spec = spec(script.clone());
            spec.dialect = dialect;
            let known = check(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(known.iter().any(|option| option.name == "rand_type"));
            let mut face = face(&spec).unwrap();
            assert!(
                face.has_function("event") && face.has_function("thread_init"),
                "{name}"
            );
            face.call_function("thread_init").unwrap();
        }
        loaded += 1;
    }
    assert!(
        loaded >= 10,
        "only {loaded} scripts in {}",
        directory.display()
    );
}
