//! Messages, streams and exit codes, each against the sysbench of this machine.

use super::{Said, ours, scripts, theirs, without_numbers};

/// Lines that need no server and end in a message or a short run.
const LINES: [&str; 28] = [
    "--foo=1 plain.lua run --threads=1 --events=1 extra",
    "--foo=1 options.lua run",
    "options.lua run --b=maybe",
    "plain.lua run extra",
    "--threads=abc plain.lua run",
    "--threads=0 plain.lua run",
    "--threads=5x plain.lua run",
    "--threads 4 plain.lua run",
    "--debug=maybe plain.lua run",
    "--percentile=101 plain.lua run",
    "--histogram --percentile=0 plain.lua run",
    "--rand-type=foo plain.lua run",
    "--report-checkpoints=1,x plain.lua run",
    "--forced-shutdown=abc plain.lua run",
    "--verbosity=9 plain.lua run",
    "--version plain.lua run",
    "nonexist run",
    "nonexist.lua",
    "no_event.lua run",
    "syntax.lua run",
    "thread_init.lua run",
    "commands.lua one",
    "commands.lua no",
    "commands.lua bad",
    "commands.lua cleanup",
    "commands.lua help",
    "commands.lua bogus",
    "options.lua help",
];

/// Runs that end well: same lines but for the numbers.
const RUNS: [&str; 7] = [
    "plain.lua run --events=4",
    "plain.lua run --events=4 --threads=2 --percentile=0",
    "plain.lua run --events=3 --rand-seed=5 --validate --report-checkpoints=50,60",
    "plain.lua run --verbosity=0 --events=1",
    "plain.lua run --num-threads=2 --max-requests=5 --max-time=3 --tx-rate=1000",
    "plain.lua run --num-threads=1 --max-requests=0 --max-time=0 --tx-rate=0 --events=2",
    "plain.lua run --anything=5 --events=1 --forced_shutdown=1",
];

fn comparable(said: Said) -> (Option<i32>, Vec<String>, String) {
    (said.code, without_numbers(&said.stdout), said.stderr)
}

#[test]
fn messages_are_those_of_sysbench() {
    let scripts = scripts();
    for line in LINES.iter().chain(&RUNS) {
        let words: Vec<&str> = line.split(' ').collect();
        let Some(theirs) = theirs(&words, scripts.path()) else {
            return;
        };
        let ours = ours(&words, scripts.path());
        assert_eq!(comparable(ours), comparable(theirs), "{line}");
    }
}

#[test]
fn an_error_of_the_script_ends_with_its_message_and_a_report() {
    let scripts = scripts();
    let ours = ours(&["boom.lua", "run"], scripts.path());
    assert_eq!(ours.code, Some(1));
    let failed = "FATAL: `thread_run' function failed: boom.lua:1: boom\n";
    assert!(ours.stdout.contains(failed), "{}", ours.stdout);
    let after = ours.stdout.split(failed).nth(1).unwrap_or_default();
    assert!(
        after.contains("total number of events:              0\n"),
        "{after}"
    );
}

#[test]
fn a_parallel_command_that_fails_is_a_failure() {
    let scripts = scripts();
    let ours = ours(&["commands.lua", "all_bad", "--threads=2"], scripts.path());
    assert_eq!(ours.code, Some(1), "{}", ours.stdout);
}

#[test]
fn tests_without_a_database_are_declined_in_one_line() {
    let scripts = scripts();
    for test in ["fileio", "cpu", "memory", "threads", "mutex"] {
        let ours = ours(&[test, "run"], scripts.path());
        assert_eq!(ours.code, Some(1));
        let wanted = format!("FATAL: the '{test}' test loads no database");
        assert!(ours.stdout.contains(&wanted), "{}", ours.stdout);
    }
}

#[test]
fn the_help_has_the_layout_of_sysbench() {
    let scripts = scripts();
    let Some(theirs) = theirs(&["--help"], scripts.path()) else {
        return;
    };
    let ours = ours(&["--help"], scripts.path());
    assert_eq!(ours.code, Some(0));
    let names = |text: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_prefix("  --"));
        names
            .map(|line| {
                line.split([' ', '=', '['])
                    .next()
                    .unwrap_or(line)
                    .to_owned()
            })
            .collect()
    };
    let mut wanted = names(&theirs.stdout);
    wanted.push("dialect".to_owned());
    assert_eq!(names(&ours.stdout), wanted);
}
