//! The search for the highest rate, against a server whose capacity is arithmetic.

use waggle_server::Flavour;

use super::{database, document, dsn, run, sandbox, statement, stderr};

/// Two threads at 10 ms an event carry at most 200 a second, whatever the machine.
#[test]
fn no_rate_above_the_capacity_is_claimed() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = statement(runs.path(), "DO SLEEP(0.01)");
    // At equal gaps: of arrivals at random, a step may by chance have fewer than its rate says.
    let arguments = format!(
        "{} --dsn {} --threads 2 --rate-search p50<50ms --arrivals uniform --time 0.5 --json",
        path.display(),
        dsn(&server)
    );
    let output = run(&arguments, runs.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = document(&output);
    let search = &result["rate_search"];
    assert_eq!(search["limit"], "p50<50ms");
    assert_eq!(search["found"], "between", "{search}");
    let rate = |field: &str| search[field].as_f64().unwrap_or_else(|| panic!("{search}"));
    let (holds, fails) = (rate("holds"), rate("fails"));
    assert!(holds < 1.03 * 200.0 && holds < fails, "{search}");
    let steps = search["steps"].as_array().expect("steps");
    let held = steps
        .iter()
        .filter(|step| step["rate"].as_f64() == Some(holds) && step["holds"] == true);
    assert!(held.count() >= 2, "{search}");
    // The figures are those of the rate that was found.
    let offered = result["offered_rate"].as_f64().expect("a rate");
    assert!((offered / holds - 1.0).abs() < 0.35, "{offered} {holds}");
}
