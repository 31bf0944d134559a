//! The loop of a worker is compiled: no trace of it is given up, and nothing is left to interpret.

use std::sync::{Arc, Mutex};

use crate::{Dialect, Load, LoadState};

use super::rows::Rows;
use super::{PATIENCE, lua, spec};

/// Reasons to give up a trace that only mean that it begins elsewhere: a loop was left while it
/// was recorded, or a function was hot before the loop that calls it. By LuaJIT's numbers.
const BEGINS_ELSEWHERE: [u32; 2] = [8, 16];

/// Runs 20,000 events. What the compiler did, a line each: `abort REASON PLACE` and `loop PLACE`
/// (a whole loop became a trace that begins there).
///
/// The compiler is watched between `thread_init` and `thread_done` only. It counts calls in 64
/// counters chosen by address, so that what is called once is now and then taken for hot, and a
/// closure made there would be an abort of its own.
fn compiled(dialect: Dialect, setup: &str, event: &str) -> Vec<String> {
    let script = format!(
        "local util, did, left, starts = require('jit.util'), {{}}, 20000, {{}}
         local function place(func, pc)
           return (util.funcinfo(func, pc).loc or 'C'):gsub(':%d+$', '')
         end
         local function watcher(what, trace, func, pc, code)
           if what == 'start' then
             starts[trace] = place(func, pc)
           elseif what == 'abort' then
             did[#did + 1] = 'abort ' .. tostring(code) .. ' ' .. place(func, pc)
           elseif what == 'stop' then
             if util.traceinfo(trace).linktype == 'loop' then
               did[#did + 1] = 'loop ' .. starts[trace]
             end
           end
         end
         function thread_init()
           con = sysbench.sql.driver():connect()
           {setup}
           jit.attach(watcher, 'trace')
         end
         local function one()
           {event}
         end
         function event()
           one()
           left = left - 1
           return left == 0
         end
         function thread_done()
           jit.attach(watcher)
           for _, line in ipairs(did) do print(line) end
         end"
    );
    let mut spec = spec(lua(&script));
    spec.dialect = dialect;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    spec.log = Some(Arc::new(move |_, line| {
        sink.lock().unwrap().push(line.to_owned())
    }));
    let load = Load::start_with(&spec, Arc::new(Rows::default())).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    load.stop().unwrap();
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[track_caller]
fn assert_compiled(setup: &str, event: &str) {
    for dialect in [Dialect::V1_0, Dialect::V1_1] {
        let did = compiled(dialect, setup, event);
        let is_fine = |line: &String| match line.split(' ').collect::<Vec<_>>()[..] {
            ["abort", reason, _] => BEGINS_ELSEWHERE.contains(&reason.parse().unwrap()),
            [kind, ..] => kind == "loop",
            _ => false,
        };
        assert!(did.iter().all(is_fine), "{did:#?}");
        let worker = "loop prelude/sysbench.lua".to_owned();
        assert!(
            did.contains(&worker),
            "the worker's loop is interpreted: {did:#?}"
        );
    }
}

#[test]
#[should_panic(expected = "abort 7")]
fn what_the_compiler_cannot_do_is_seen() {
    // A closure made in an event ends a trace.
    assert_compiled("", "local n = left; (function() return n end)()");
}

#[test]
fn a_point_select_is_compiled_without_a_rest() {
    assert_compiled(
        "st = con:prepare('sets 1x1 ?')
         id = st:bind_create(sysbench.sql.type.INT)
         st:bind_param(id)",
        "id:set(sysbench.rand.default(1, 1000))
         st:execute()",
    );
}

#[test]
fn counting_through_the_stand_in_of_ffi_c_is_compiled() {
    assert_compiled(
        "ffi.cdef[[ void sb_counter_inc(int, sb_counter_type); int toupper(int); ]]",
        "ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
         ffi.C.toupper(97)",
    );
}

#[test]
fn text_statements_and_strings_are_compiled() {
    assert_compiled(
        "c = con:prepare('affects 1 ?')
         text = c:bind_create(sysbench.sql.type.CHAR, 120)
         c:bind_param(text)",
        "text:set_rand_str('###-@@@')
         c:execute()
         text:set(sysbench.rand.string('##'))
         local rs = con:query('sets 2x1')
         rs:fetch_row()",
    );
}

#[test]
fn single_rows_are_compiled() {
    assert_compiled(
        "",
        "local a, b = con:query_row('sets 1x2')
         assert(a == '0.0.0' and b == nil)",
    );
}
