//! Report hooks and checks of a script, as the reporting side calls them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use waggle_stats::latency::LatencyHistogram;

use crate::{Check, CommandInfo, Counters, Operation, OptionValue, ReportStat, Snapshot};

use super::rows::face;
use super::{lua, spec};

const STAT: ReportStat = ReportStat {
    threads_running: 2,
    time_interval: 2.0,
    time_total: 2.0004,
    latency_pct: 0.00112,
    events: 3642,
    reads: 20,
    writes: 10,
    other: 4,
    errors: 1,
    reconnects: 0,
    queue_length: 7,
    concurrency: 2,
    latency_min: 0.001,
    latency_max: 0.004,
    latency_avg: 0.002,
    latency_sum: 6.0,
};

#[test]
fn hooks_report_in_the_known_formats_and_close_what_they_opened() {
    let script = "
        local reports = 0
        sysbench.hooks.report_intermediate = function(stat)
          assert(stat.queue_length == 7 and stat.latency_min == nil and sysbench.tid == 1)
          reports = reports + 1
          if reports == 1 then
            sysbench.report_default(stat)
            sysbench.report_csv(stat)
          end
          sysbench.report_json(stat)
        end
        function event() end";
    let mut spec = spec(lua(script));
    let percentile = ("percentile".to_owned(), OptionValue::Number(99.0));
    spec.general_options = BTreeMap::from([percentile]);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    spec.log = Some(Arc::new(move |_, line| {
        sink.lock().unwrap().push(line.to_owned())
    }));
    let mut open = face(&spec).unwrap();
    assert!(open.report_intermediate(&STAT).unwrap());
    assert!(open.report_intermediate(&STAT).unwrap());
    assert!(!open.report_cumulative(&STAT).unwrap());
    drop(open);
    let object = "  {
    \"time\":    2,
    \"threads\": 2,
    \"tps\": 1821.00,
    \"qps\": {
      \"total\": 17.00,
      \"reads\": 10.00,
      \"writes\": 5.00,
      \"other\": 2.00
    },
    \"latency\": 1.12,
    \"errors\": 0.50,
    \"reconnects\": 0.00
  }";
    let wanted = format!(
        "[ 2s ] thds: 2 tps: 1821.00 qps: 17.00 (r/w/o: 10.00/5.00/2.00) lat (ms,99%): 1.12 \
         err/s 0.50 reconn/s: 0.00\n\
         2,2,1821.00,17.00,10.00,5.00,2.00,1.12,0.50,0.00\n[\n{object},\n{object}\n]"
    );
    assert_eq!(lines.lock().unwrap().join("\n"), wanted);
}

#[test]
fn a_hook_that_fails_says_where() {
    let script = "sysbench.hooks.report_cumulative = function(stat)
          assert(stat.latency_sum == 6 and stat.concurrency == nil)
          nothing()
        end
        sysbench.cmdline.commands = { warm = { print }, fill = { print, true } }
        function event() end";
    let mut open = face(&spec(lua(script))).unwrap();
    let error = open.report_cumulative(&STAT).unwrap_err().to_string();
    assert!(
        error.contains("mine.lua:3: attempt to call global 'nothing'"),
        "{error}"
    );
    let info = |name: &str, parallel| CommandInfo {
        name: name.to_owned(),
        parallel,
    };
    assert_eq!(open.commands(), [info("fill", true), info("warm", false)]);
    assert!(open.has_function("event") && !open.has_function("init"));
    assert_eq!(open.call_function("init").unwrap(), None);
}

fn snapshot() -> Snapshot {
    let mut response = LatencyHistogram::new();
    for _ in 0..10 {
        response.record(2_000_000);
    }
    let operation = Operation {
        response,
        ..Operation::default()
    };
    Snapshot {
        at: Instant::now(),
        counters: Counters {
            transactions: 100,
            errors: 2,
            ..Counters::default()
        },
        response: LatencyHistogram::new(),
        service: LatencyHistogram::new(),
        wait: LatencyHistogram::new(),
        lag: LatencyHistogram::new(),
        operations: BTreeMap::from([("pay".to_owned(), operation)]),
        statements: BTreeMap::new(),
        errors: BTreeMap::new(),
        user_counters: BTreeMap::from([("rolled_back".to_owned(), 1.0)]),
        offered: None,
        cpu_ns: 0,
        downtime_ns: 0,
        threads: Vec::new(),
        threads_running: 0,
    }
}

#[test]
fn checks_see_the_run_and_answer_with_figures() {
    let script = "
        function event() end
        function checks(run)
          local pay = run.operations.pay
          assert(run.duration_s == 5 and run.transactions == 100 and run.errors == 2)
          assert(pay.count == 10 and pay.p99_us > 1900 and pay.p90_us == pay.p50_us)
          assert(pay.max_us < 2100 and pay.mean_us > 1900 and pay.p95_us > 0)
          return {
            { name = 'rollbacks', value = run.counters.rolled_back, unit = '%',
              low = 0.9, high = 1.1, ok = true },
            { name = 'rows', ok = false, note = 'one is missing' },
          }
        end";
    let mut open = face(&spec(lua(script))).unwrap();
    let checks = open.checks(&snapshot(), Duration::from_secs(5)).unwrap();
    let rollbacks = Check {
        name: "rollbacks".into(),
        value: Some(1.0),
        unit: Some("%".into()),
        low: Some(0.9),
        high: Some(1.1),
        ok: Some(true),
        note: None,
    };
    assert_eq!(checks[0], rollbacks);
    assert_eq!((checks[1].ok, checks[1].value), (Some(false), None));
    let mut none = face(&spec(lua("function event() end"))).unwrap();
    assert_eq!(
        none.checks(&snapshot(), Duration::from_secs(5)).unwrap(),
        []
    );
    let mut wrong = face(&spec(lua("function event() end function checks() end"))).unwrap();
    let error = wrong
        .checks(&snapshot(), Duration::from_secs(5))
        .unwrap_err();
    assert!(error.to_string().contains("returns an array"), "{error}");
}
