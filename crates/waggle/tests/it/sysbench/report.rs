//! The report on a real server: parsed as wrappers parse it, and beside sysbench's own.

use super::bed::password;
use super::{mariadb, ours, scripts, theirs, without_numbers};

/// The number between two texts.
fn between(text: &str, before: &str, after: &str) -> f64 {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("no '{before}' in {text}"));
    let number = rest.split(after).next().unwrap_or(rest).trim();
    number
        .parse()
        .unwrap_or_else(|_| panic!("'{number}' after '{before}' is no number"))
}

#[test]
fn a_run_on_a_server_has_the_lines_of_sysbench_and_sums_that_fit() {
    let Some(server) = mariadb() else { return };
    let scripts = scripts();
    let socket = format!("--mysql-socket={}", server.socket().display());
    let password = password(&server);
    let words = |command: &'static str| {
        let words = "oltp_read_only --mysql-user=root --tables=2 --table-size=500 --threads=2 \
                     --events=60 --time=0";
        let words = words.split_whitespace().map(str::to_owned);
        let mut words: Vec<String> = words.collect();
        words.extend([socket.clone(), password.clone(), command.to_owned()]);
        words
    };
    let run_ours = |command| {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ours(&words, scripts.path())
    };
    let prepared = run_ours("prepare");
    assert_eq!(prepared.code, Some(0), "{}", prepared.stdout);
    let ran = run_ours("run");
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let text = &ran.stdout;
    assert_eq!(between(text, "    transactions:", "("), 60.0);
    assert_eq!(between(text, "        read:", "\n"), 840.0);
    assert_eq!(between(text, "        write:", "\n"), 0.0);
    assert_eq!(between(text, "        other:", "\n"), 120.0);
    assert_eq!(between(text, "    queries:", "("), 960.0);
    assert_eq!(between(text, "total number of events:", "\n"), 60.0);
    let (least, most) = (between(text, "min:", "\n"), between(text, "max:", "\n"));
    let mean = between(text, "avg:", "\n");
    assert!(least <= mean && mean <= most, "{text}");
    let words = words("run");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(theirs) = theirs(&words, scripts.path()) else {
        return;
    };
    assert_eq!(without_numbers(text), without_numbers(&theirs.stdout));
}

#[test]
fn a_statement_that_fails_is_shown_with_the_answer_and_what_was_counted() {
    let Some(server) = mariadb() else { return };
    let scripts = scripts();
    let socket = format!("--mysql-socket={}", server.socket().display());
    let password = password(&server);
    let words = ["query.lua", "--mysql-user=root", &password, &socket, "run"];
    let failed = ours(&words, scripts.path());
    assert_eq!(failed.code, Some(1));
    let wanted = [
        "FATAL: mysql_drv_query() returned error 1146 (Table 'sbtest.nope' doesn't exist) for \
         query 'SELECT * FROM nope'\n",
        "FATAL: `thread_run' function failed: query.lua:2: SQL error, errno = 1146, \
         state = '42S02': Table 'sbtest.nope' doesn't exist\n",
    ];
    for line in wanted {
        assert!(failed.stdout.contains(line), "{}", failed.stdout);
    }
    assert!(failed.stdout.contains("\nThreads fairness:\n"));
    // An error that never goes away ends with the time, not never.
    let words = [
        "query.lua",
        "--mysql-user=root",
        &password,
        &socket,
        "--mysql-ignore-errors=1146",
        "--time=1",
        "run",
    ];
    let ended = ours(&words, scripts.path());
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(between(&ended.stdout, "ignored errors:", "(") > 0.0);
}

#[test]
fn a_refused_account_is_told_in_two_lines() {
    let Some(server) = mariadb() else { return };
    let scripts = scripts();
    let path = server.socket().display().to_string();
    let socket = format!("--mysql-socket={path}");
    let words = ["query.lua", "--mysql-user=nobody", &socket, "run"];
    let refused = ours(&words, scripts.path());
    assert_eq!(refused.code, Some(1));
    let wanted = format!(
        "FATAL: unable to connect to MySQL server on socket '{path}', aborting...\n\
         FATAL: error 1045: Access denied for user 'nobody'@'localhost' (using password: NO)\n"
    );
    assert!(refused.stdout.contains(&wanted), "{}", refused.stdout);
    assert!(
        refused
            .stdout
            .ends_with("FATAL: Thread initialization failed!\n")
    );
}
