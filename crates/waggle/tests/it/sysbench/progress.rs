//! Lines of progress and reports of a run: with a rate, hooks, checkpoints and a warm-up.

use waggle_server::Flavour;

use super::bed::{Bed, Counts, Tool};
use super::without_numbers;

const QUICK: &str = "
    function thread_init() con = sysbench.sql.driver():connect() end
    function event() con:query('SELECT 1') end
";

fn open() -> Option<Bed> {
    let bed = Bed::open(Flavour::MariaDb, &[])?;
    bed.script("quick.lua", QUICK);
    for format in ["default", "csv", "json"] {
        let hook = format!("{QUICK}sysbench.hooks.report_intermediate = sysbench.report_{format}");
        bed.script(&format!("{format}.lua"), &hook);
    }
    Some(bed)
}

/// What every line looks like; lines of the same kind one after the other are one.
fn kinds(report: &str) -> Vec<String> {
    let (_, report) = report
        .split_once("Threads started!\n")
        .expect("it has begun");
    let mut kinds = without_numbers(report);
    for kind in &mut kinds {
        if kind.starts_with(|c: char| c.is_ascii_digit()) {
            *kind = format!("{} fields", kind.split(',').count());
        }
    }
    kinds
}

/// Without repetitions: how many intervals end before a run does is chance.
fn once(report: &str) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for kind in kinds(report) {
        if kind.is_empty() || !seen.contains(&kind) {
            seen.push(kind);
        }
    }
    seen
}

#[test]
fn a_rate_is_kept_and_its_queue_told_in_the_lines_of_sysbench() {
    let Some(bed) = open() else { return };
    let line = "quick.lua run --threads=4 --time=3 --rate=200 --report-interval=2";
    let (ours, theirs) = bed.both_well(line);
    assert!(ours.contains("\nTarget transaction rate: 200/sec\n"));
    assert!(ours.contains("s ] queue length: "), "{ours}");
    // Six standard deviations of a Poisson count of 600.
    let events = Counts::of(&ours).events;
    assert!((453..=747).contains(&events), "{events} events of 600");
    if let Some(theirs) = theirs {
        assert_eq!(once(&ours), once(&theirs));
    }
}

#[test]
fn hooks_print_the_formats_of_sysbench() {
    let Some(bed) = open() else { return };
    // No interval ends with the run: sysbench's last line may then lie in its report.
    for (format, time) in [("default", 3), ("csv", 3), ("json", 5)] {
        let line = format!("{format}.lua run --time={time} --report-interval=2");
        let (ours, theirs) = bed.both_well(&line);
        if format == "json" {
            let (from, to) = (ours.find("[\n  {"), ours.find("\n]\n"));
            let text = &ours[from.expect("an array")..to.expect("its end") + 2];
            let parsed: serde_json::Value = serde_json::from_str(text).expect(text);
            let entries = parsed.as_array().expect("an array");
            assert!(entries.len() >= 2, "{text}");
            assert_eq!(entries[0]["threads"], 1);
            assert!(entries[0]["qps"]["reads"].as_f64() > Some(0.0), "{text}");
        }
        if let Some(theirs) = theirs {
            assert_eq!(once(&ours), once(&theirs), "{format}");
        }
    }
}

#[test]
fn an_array_of_json_is_closed_before_the_report_of_a_hook() {
    let Some(bed) = open() else { return };
    let script = format!(
        "{QUICK}sysbench.hooks.report_intermediate = sysbench.report_json\n\
         function sysbench.hooks.report_cumulative(stat) print('in all ' .. stat.events) end\n"
    );
    bed.script("both.lua", &script);
    let ours = bed.well(Tool::Waggle, "both.lua run --time=3 --report-interval=1");
    let (close, report) = (ours.find("\n]\n"), ours.find("\nin all "));
    assert!(close.is_some() && close < report, "{ours}");
}

#[test]
fn checkpoints_are_reports_that_add_up() {
    let Some(bed) = open() else { return };
    let line = "quick.lua run --threads=2 --time=3 --report-checkpoints=1,2";
    let (ours, theirs) = bed.both_well(line);
    if let Some(theirs) = theirs {
        // On a busy machine sysbench may come too late for a checkpoint, which takes its blank
        // lines with it.
        let shape = |report: &str| once(report).into_iter().filter(|kind| !kind.is_empty());
        assert!(shape(&ours).eq(shape(&theirs)), "{ours}\n{theirs}");
    }
    assert_eq!(ours.matches("Checkpoint report:").count(), 2, "{ours}");
    let reports: Vec<&str> = ours.split("SQL statistics:").skip(1).collect();
    assert_eq!(reports.len(), 3);
    for report in reports {
        let counts = Counts::of(report);
        // Two threads are at work while a checkpoint is taken.
        assert!(counts.events > 0 && counts.read.abs_diff(counts.events) <= 2);
    }
}

#[test]
fn the_other_dialect_has_its_report_and_a_warm_up_that_does_not_count() {
    let Some(mut bed) = open() else { return };
    let before = bed.statements();
    let line = "--dialect=1.1 quick.lua run --threads=2 --time=2 --warmup-time=1 \
                --report-interval=1 --percentile=50,99";
    let report = bed.well(Tool::Waggle, line);
    let sent = bed.statements()["Com_select"] - before["Com_select"];
    let counts = Counts::of(&report);
    assert!(report.starts_with("sysbench 1.1.0 (waggle "));
    let began = report.find("\nWarming up for 1 seconds...\n");
    let first = report.find("\n[ ");
    assert!(began.is_some() && began < first, "{report}");
    for wanted in [
        "\nWarmup time: 1s\n",
        "\nThroughput:\n    events/s (eps): ",
        "\n    time elapsed: ",
        "\n         50th percentile: ",
        "\n         99th percentile: ",
    ] {
        assert!(report.contains(wanted), "no '{wanted}' in {report}");
    }
    assert!(!report.contains("General statistics:"), "{report}");
    // The server saw the warm-up too.
    assert!(
        counts.read > 0 && sent > counts.read as i64,
        "{sent} {counts:?}"
    );
}
