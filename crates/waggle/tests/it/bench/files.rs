//! The files for other programs.

use std::path::Path;

use serde_json::Value;
use waggle_server::Flavour;
use waggle_stats::latency::LatencyHistogram;

use super::{database, document, dsn, run, sandbox, stderr};

#[test]
fn intervals_are_written_as_csv_and_as_a_histogram_log() {
    let Some(server) = sandbox(Flavour::MariaDb) else {
        return;
    };
    database(&server);
    let runs = tempfile::tempdir().unwrap();
    let path = runs.path().join("labelled.lua");
    let script = "local connection, kinds\n\
        function thread_init()\n\
          connection = sysbench.sql.driver():connect()\n\
          kinds = { waggle.operation(\"one, quoted\"), waggle.operation(\"two\") }\n\
        end\n\
        function event()\n\
          waggle.label(kinds[sysbench.rand.uniform(1, 2)])\n\
          connection:query(\"DO 1\")\n\
        end\n";
    std::fs::write(&path, script).unwrap();
    let file = |name: &str| runs.path().join(name);
    let arguments = format!(
        "{} --dsn {} --threads 2 --rate 300 --warmup 0.5 --time 1 --report-interval 0.25 \
         --percentiles 90,99.9 --csv {} --hdr-log {} --json",
        path.display(),
        dsn(&server),
        file("run.csv").display(),
        file("run.hlog").display()
    );
    let output = run(&arguments, runs.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = document(&output);
    csv(&file("run.csv"), &result);
    let log = std::fs::read_to_string(file("run.hlog")).expect("a log");
    for tag in [
        "response",
        "service",
        "wait",
        "operation:one__quoted",
        "operation:two",
    ] {
        let lines = log
            .lines()
            .filter(|line| line.starts_with(&format!("Tag={tag},")));
        assert!(lines.count() >= 5, "{log}");
    }
    histograms(&result);
}

fn csv(path: &Path, result: &Value) {
    let text = std::fs::read_to_string(path).expect("a table");
    // The one name with a comma in it is quoted.
    let text = text.replace("\"one, quoted\"", "one");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    for column in [
        "transactions",
        "response_us_p99.9",
        "wait_us_p90",
        "lag_us_max",
    ] {
        assert!(header.contains(&column), "{header:?}");
    }
    let column = header.iter().position(|name| *name == "transactions");
    let (mut measured, mut labelled) = (0, 0);
    for row in lines {
        assert_eq!(row.len(), header.len(), "{text}");
        let count = || row[column.unwrap()].parse::<u64>().expect("a count");
        match (row[0], row[1]) {
            ("interval", "") => measured += count(),
            ("interval", "one" | "two") => labelled += count(),
            (kind, _) => assert_eq!(kind, "warm-up"),
        }
    }
    let total = result["transactions"].as_u64().unwrap();
    // What ended after the last interval, while the load was being held, is in none; and counters
    // of a running load are read one after the other.
    for counted in [measured, labelled] {
        assert!(
            counted <= total && counted * 10 >= total * 9,
            "{counted} of {total}"
        );
    }
}

fn histograms(result: &Value) {
    let run = Path::new(result["run"].as_str().expect("a run directory"));
    for name in ["response", "service", "wait", "lag"] {
        let bytes = std::fs::read(run.join(format!("histograms/{name}.hdr"))).expect(name);
        let histogram = LatencyHistogram::from_v2_bytes(&bytes).expect(name);
        let wanted = &result[format!("{name}_us")]["count"];
        assert_eq!(Some(histogram.count()), wanted.as_u64(), "{name}");
    }
}
