//! What Prometheus's own checker says of the text, and what the numbers in it are.

use std::io::Write;
use std::process::{Command, Stdio};

use waggle_export::prometheus::{Bounds, Exposition};
use waggle_need::{program, skip};

use crate::fixture::{digest, hostile, server, time, view};

/// The value of the one line that begins with `series` and a space.
fn value(text: &str, series: &str) -> f64 {
    let mut found = text
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = found
        .next()
        .unwrap_or_else(|| panic!("no {series} in\n{text}"));
    assert_eq!(found.next(), None, "{series} is there twice");
    value.parse().unwrap()
}

#[test]
fn names_and_types_are_as_prometheus_wants_them() {
    let Some(promtool) = program(&["promtool"]) else {
        skip("prometheus", "promtool is not installed");
        return;
    };
    let mut servers = vec![
        server(0, "3306", vec![digest("0xA", 100), digest("0xB", 10)]),
        server(1, "/run/mysqld/mysqld.sock", vec![digest("0xA", 5)]),
    ];
    servers[0].digests[0].fingerprint = hostile();
    servers[1].instance = hostile();
    let text = Exposition::new(Bounds::default()).text(&view(1, servers));
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = text.clone().into_bytes();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// Of the fixture with one digest of 100 statements.
const EXPECTED: &[(&str, f64)] = &[
    ("waggle_statements_captured_total{server=\"3306\"}", 100.0),
    ("waggle_statements_in_routines_total{server=\"3306\"}", 7.0),
    (
        "waggle_statements_lost_total{server=\"3306\",cause=\"ring_full\"}",
        4.0,
    ),
    (
        "waggle_statement_seconds_total{server=\"3306\",digest=\"0xA\",class=\"cpu\"}",
        50.0,
    ),
    (
        "waggle_statement_seconds_total\
             {server=\"3306\",digest=\"0xA\",class=\"metadata_lock\"}",
        100.0 / 64.0,
    ),
    (
        "waggle_statement_seconds_total{server=\"3306\",digest=\"other\",class=\"runnable\"}",
        2.5,
    ),
    (
        "waggle_statement_duration_seconds_count{server=\"3306\",digest=\"0xA\"}",
        100.0,
    ),
    (
        "waggle_statement_duration_seconds_bucket\
             {server=\"3306\",digest=\"0xA\",le=\"+Inf\"}",
        100.0,
    ),
    // 1000 + 7919 n^2 ns is below 131,072 ns for n up to 4.
    (
        "waggle_statement_duration_seconds_bucket\
             {server=\"3306\",digest=\"0xA\",le=\"0.000131072\"}",
        5.0,
    ),
    (
        "waggle_statement_lock_seconds_total{server=\"3306\",digest=\"0xA\"}",
        12.5,
    ),
    ("waggle_lock_waiting{server=\"3306\",kind=\"row\"}", 2.0),
    (
        "waggle_lock_wait_longest_seconds{server=\"3306\",kind=\"row\"}",
        4.0,
    ),
    (
        "waggle_lock_wait_seconds_total{server=\"3306\",kind=\"row\"}",
        1.5,
    ),
    ("waggle_deadlocks_total{server=\"3306\"}", 2.0),
    (
        "waggle_server_cpu_seconds_total{server=\"3306\",mode=\"system\"}",
        3.25,
    ),
    ("waggle_status_threads_running{server=\"3306\"}", 3.0),
    ("waggle_status_innodb_history_list{server=\"3306\"}", 17.5),
    (
        "waggle_replication_lag_seconds{server=\"3306\",channel=\"\"}",
        1.5,
    ),
    ("waggle_host_pressure_ratio{resource=\"io\"}", 0.25),
    ("waggle_host_memory_available_bytes", (4u64 << 30) as f64),
    ("waggle_agent_server_seconds_per_statement", 0.00000125),
    ("waggle_agent_shed{what=\"text\"}", 1.0),
    ("waggle_sink_delivered_total{sink=\"remote_write\"}", 70.0),
    (
        "waggle_sink_dropped_total{sink=\"remote_write\",cause=\"rejected\"}",
        6.0,
    ),
    ("waggle_sink_waiting{sink=\"remote_write\"}", 5.0),
];

#[test]
fn the_numbers_are_those_of_the_view() {
    let view = view(3, vec![server(0, "3306", vec![digest("0xA", 100)])]);
    let text = Exposition::new(Bounds::default()).text(&view);
    for (series, expected) in EXPECTED {
        assert_eq!(value(&text, series), *expected, "{series}");
    }
    // A reading that did not happen is not a zero.
    assert!(!text.contains("waggle_statement_warnings_total"));
}

#[test]
fn text_is_a_label_of_one_series_a_digest() {
    let mut both = vec![
        server(0, "3306", vec![digest("0xA", 100)]),
        server(1, "3307", vec![digest("0xA", 7)]),
    ];
    both[0].digests[0].fingerprint = "select secret_shape from t".into();
    both[1].digests[0].fingerprint = "select secret_shape from t".into();
    let text = Exposition::new(Bounds::default()).text(&view(1, both));
    let lines = text.lines().filter(|line| line.contains("secret_shape"));
    assert_eq!(lines.count(), 1);
}

#[test]
fn a_restarted_server_takes_its_predecessors_place() {
    let mut exposition = Exposition::new(Bounds::default());
    let before = server(0, "3306", vec![digest("0xA", 100)]);
    exposition.text(&view(1, vec![before.clone()]));
    let mut ended = before;
    ended.ended = Some("the process ended".into());
    let after = server(1, "3306", vec![digest("0xA", 3)]);
    let text = exposition.text(&view(2, vec![ended.clone(), after]));
    let captured = "waggle_statements_captured_total{server=\"3306\"}";
    assert_eq!(value(&text, captured), 3.0);
    assert_eq!(value(&text, "waggle_server_watched{server=\"3306\"}"), 1.0);
    let start = "waggle_server_watch_start_time_seconds{server=\"3306\"}";
    assert_eq!(value(&text, start), 1_700_000_001.0);
    // Alone, it keeps its last numbers.
    let text = Exposition::new(Bounds::default()).text(&view(3, vec![ended]));
    assert_eq!(value(&text, captured), 100.0);
    assert_eq!(value(&text, "waggle_server_watched{server=\"3306\"}"), 0.0);
}

#[test]
fn series_are_bounded_whatever_the_servers_do() {
    let digests: Vec<_> = (0..3000)
        .map(|n| digest(&format!("0x{n:X}"), 3 + n % 40))
        .collect();
    let expected: u64 = digests.iter().map(|d| d.latency.count()).sum();
    let bounds = Bounds {
        digests: 20,
        dimension: 5,
    };
    let mut busy = server(0, "3306", digests);
    busy.load.users = (0..1000)
        .map(|n| (format!("u{n}").into(), time(n)))
        .collect();
    let mut exposition = Exposition::new(bounds);
    let text = exposition.text(&view(1, vec![busy]));
    assert!(text.lines().count() < 2000, "{}", text.lines().count());
    let counts = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("waggle_statement_duration_seconds_count{")?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    // The view's own rests, of 6 and 4, are in it.
    assert_eq!(counts.sum::<f64>(), (expected + 10) as f64);
}
