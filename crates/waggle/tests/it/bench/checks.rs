//! What a workload says of its own run: labelled operations, counters, checks.

use waggle_server::Flavour;

use super::{database, document, dsn, run, sandbox, script, stderr};

/// Every third event is a `write`; each counts 5 units.
const WORKLOAD: &str = r#"
local reading, writing = waggle.operation("read"), waggle.operation("write")
local units = waggle.counter("units")
local done = 0
sysbench.cmdline.options = { most = {"Most units", 1000000} }
function thread_init() con = sysbench.sql.driver():connect() end
function event()
  done = done + 1
  waggle.label(done % 3 == 0 and writing or reading)
  waggle.add(units, 5)
  con:query("DO 1")
end
function checks(run)
  local units, most = run.counters.units, sysbench.opt.most
  return {
    { name = "units", value = units, unit = "u", high = most, ok = units <= most },
    { name = "writes", value = run.operations.write.count },
  }
end
"#;

#[test]
fn operations_counters_and_checks_are_reported_and_a_failed_check_is_exit_code_1() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = script(runs.path(), WORKLOAD);
    let load = format!("{} --dsn {} --events 300", path.display(), dsn(&server));
    let good = run(&format!("{load} --json"), runs.path());
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let result = document(&good);
    assert_eq!(result["operations"]["read"]["count"], 200, "{result}");
    assert_eq!(result["operations"]["write"]["count"], 100, "{result}");
    assert_eq!(result["user_counters"]["units"], 1500.0, "{result}");
    assert_eq!(result["checks"][0]["ok"], true, "{result}");
    assert_eq!(result["checks"][1]["value"], 100.0, "{result}");

    let bad = run(&format!("{load} -o most=1499"), runs.path());
    assert_eq!(bad.status.code(), Some(1), "{}", stderr(&bad));
    let (text, stderr) = (String::from_utf8_lossy(&bad.stdout), stderr(&bad));
    assert!(
        text.contains("at most 1499") && text.contains("FAILED"),
        "{text}"
    );
    assert!(
        stderr.contains("checks of the workload failed: units"),
        "{stderr}"
    );
}
