//! What scripts reach through the FFI, and histograms of their own.

use std::sync::Arc;

use crate::Dialect::{V1_0, V1_1};
use crate::{Load, LoadState};

use super::rows::{Rows, run};
use super::{PATIENCE, lua, spec};

#[test]
fn functions_of_sysbench_and_of_the_c_library_are_found() {
    run(
        V1_1,
        "local ffi = require('ffi')
         local C = ffi.C
         ffi.cdef[[
           void sb_counter_inc(int, sb_counter_type);
           int usleep(unsigned int);
           int toupper(int);
         ]]
         C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
         _G.ffi.C.sb_counter_add(0, C.SB_CNT_ERROR, 2)
         assert(C.sb_counter_val(0, C.SB_CNT_ERROR) == 3)
         assert(C.usleep(1) == 0 and C.toupper(97) == 65)
         assert(C.SB_CNT_READ == 1 and C.SB_CNT_TRX == 3 and C.SB_CNT_EVENT == 3)
         fails_with('nothing_of_that_name', function() return C.nothing_of_that_name end)
         local value = C.sb_rand_uniform(5, 5)
         assert(value == 5 and C.sb_rand_default(7, 7) == 7)
         local out = ffi.new('char[5]')
         C.sb_rand_str('##-@@', out)
         assert(ffi.string(out, 5):match('^%d%d%-%l%l$'))
         assert(ffi.sizeof('sql_value') == 16 and ffi.new('sb_arg_t').type == 0)
         assert(tostring(ffi.typeof('sql_connection *')) ~= nil)
         local drv = C.db_create(nil)
         assert(C.db_query(con, 'sets 2x1', 8).nrows == 2 and tostring(drv) == '<sql_driver>')
         assert(bit.bor(1, 2) == 3 and jit ~= nil)",
    );
}

/// A worker that sleeps by the C library still ends with the run.
#[test]
fn sleeps_of_the_c_library_end_with_the_run() {
    let sleeps = [
        "ffi.C.usleep(1e9)",
        "ffi.C.sleep(3600)",
        "ffi.C.poll(nil, 0, 3600000)",
        "ffi.C.nanosleep(ffi.new('waggle_time', {3600, 0}), nil)",
    ];
    for sleep in sleeps {
        let script = format!(
            "ffi.cdef[[
               typedef struct {{ long tv_sec; long tv_nsec; }} waggle_time;
               int usleep(unsigned int); unsigned int sleep(unsigned int);
               int nanosleep(const waggle_time *, waggle_time *);
               int poll(void *, unsigned long, int);
             ]]
             asleep = waggle.counter('asleep')
             function event() waggle.add(asleep); {sleep} end"
        );
        let load = Load::start_with(&spec(lua(&script)), Arc::new(Rows::default())).unwrap();
        while load.snapshot().user_counters["asleep"] == 0.0 {
            std::thread::yield_now();
        }
        let last = load.stop().unwrap().last;
        assert_eq!(last.counters.transactions, 1, "{sleep}");
    }
}

#[test]
fn a_script_may_count_and_may_run_its_events_itself() {
    let script = "
        ffi.cdef[[ void sb_counter_inc(int, sb_counter_type); bool sb_more_events(int); ]]
        local left = 5
        function event() left = left - 1 end
        function thread_run(tid)
          while left > 0 and ffi.C.sb_more_events(tid) do
            ffi.C.sb_event_start(tid)
            event(tid)
            ffi.C.sb_counter_inc(tid, ffi.C.SB_CNT_OTHER)
            ffi.C.sb_event_stop(tid)
          end
        end";
    let load = Load::start_with(&spec(lua(script)), Arc::new(Rows::default())).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    let counters = load.stop().unwrap().counters;
    assert_eq!((counters.transactions, counters.other), (5, 5));
}

#[test]
fn histograms_print_their_distribution() {
    run(
        V1_0,
        "local lines, sink = {}, print
         print = function(line) lines[#lines + 1] = line end
         local h = sysbench.histogram.new(1024, 1, 1000)
         for _ = 1, 20 do h:update(10) end
         h:update(0.5)
         h:update(5000)
         h:print()
         print = sink
         assert(lines[1] == '       value  ------------- distribution ------------- count')
         assert(lines[2] == '       1.000 |**                                       1', lines[2])
         assert(lines[3] == '      10.000 |**************************************** 20', lines[3])
         assert(lines[4] == '    1000.000 |**                                       1', lines[4])
         fails_with('size of 2 or more', sysbench.histogram.new, 1, 1, 2)",
    );
}

#[test]
fn random_values_work_beyond_32_bits() {
    run(
        V1_1,
        "local r, above = sysbench.rand, 0
         local high = 2 ^ 40
         for _ = 1, 1000 do
           local value = r.uniform(2 ^ 33, high)
           assert(value >= 2 ^ 33 and value <= high and value % 1 == 0)
           if value > 2 ^ 39 then above = above + 1 end
           assert(r.zipfian(2 ^ 33, high) <= high and r.pareto(2 ^ 33, high) >= 2 ^ 33)
           assert(r.default(1, high) <= high and r.special(1, high) >= 1)
           local unit = r.uniform_double()
           assert(unit >= 0 and unit < 1)
         end
         assert(above > 300 and above < 700, above)
         assert(ffi.istype('uint64_t', r.uniform_uint64()))
         assert(#r.varstring(3, 7) >= 3 and r.varstring(0, 0) == '')
         assert(#r.string(('#'):rep(5000)) == 5000)
         fails_with('0 <= min <= max', r.varstring, 7, 3)",
    );
}

#[test]
fn the_waggle_table_counts_and_labels() {
    let script = "
        local pay, back = waggle.operation('pay'), waggle.counter('rolled_back')
        local left = 4
        function event()
          left = left - 1
          if left % 2 == 0 then waggle.label(pay) end
          waggle.add(back)
          waggle.add(back, 0.5)
          assert(waggle.sleep(0))
          waggle.begin_event()
          assert(not pcall(waggle.label, 99) and not pcall(waggle.add, 99, 1))
          assert(not pcall(waggle.label, nil))
          return left == 0
        end";
    let load = Load::start_with(&spec(lua(script)), Arc::new(Rows::default())).unwrap();
    assert_eq!(load.wait(PATIENCE), LoadState::Ended);
    let seen = load.snapshot();
    load.stop().unwrap();
    assert_eq!(seen.operations["pay"].response.count(), 1);
    assert_eq!(seen.user_counters["rolled_back"], 6.0);
}
