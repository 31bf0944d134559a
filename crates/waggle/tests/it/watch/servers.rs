//! Several servers at once, restarts and kills in the middle, and the budget: always, captured +
//! lost = what was executed.

use serde_json::Value;
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;

use super::speed::PointSelects;
use super::stage::{
    Running, Watching, can_watch, connect, flavours, run, server, settle, turn, waggle, wait_until,
};

/// `waggle watch --all --json`.
fn watch_all(options: &[&str]) -> Running {
    let arguments = [&["watch", "--all", "--json"], options].concat();
    Running::start(&mut waggle(&arguments))
}

fn end(watching: Running) -> Value {
    watching.signal(libc::SIGINT);
    let ended = watching.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("a report")
}

/// How often `fingerprint` was counted of process `pid`.
fn count(report: &Value, pid: u32, fingerprint: &str) -> u64 {
    let digests = report["digests"].as_array().expect("digests");
    let of_server = digests.iter().filter(|d| d["server"] == pid);
    let found = of_server.filter(|d| d["fingerprint"] == fingerprint);
    found.map(|d| d["count"].as_u64().expect("a count")).sum()
}

fn of_pid(report: &Value, pid: u32) -> &Value {
    let servers = report["servers"].as_array().expect("servers");
    let found = servers.iter().find(|server| server["pid"] == pid);
    found.unwrap_or_else(|| panic!("no process {pid} in {report}"))
}

/// Runs `SELECT <name> AS marker` so many times, settled.
fn work(server: &Sandbox, times: usize) {
    let mut connection = connect(server);
    for _ in 0..times {
        run(&mut connection, &["SELECT 'x' AS marker"]);
    }
    settle(&mut connection);
}

const MARKER: &str = "select ? as marker";

#[test]
fn servers_on_one_binary_are_told_apart_through_a_restart_and_a_kill() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let watching = watch_all(&[]);
    let [mut first, second] = [(); 2].map(|()| server(Flavour::MariaDb));
    let (before, killed) = (first.pid(), second.pid());
    for pid in [before, killed] {
        watching.line(&format!("process {pid}: _Z18log_slow"));
    }
    work(&first, 30);
    work(&second, 7);
    // SAFETY: the throw-away server this test started.
    let result = unsafe { libc::kill(killed.cast_signed(), libc::SIGKILL) };
    assert_eq!(result, 0);
    watching.line(&format!("process {killed}: the server ended"));
    first.restart(&[]).expect("a restart");
    let after = first.pid();
    assert_ne!(before, after);
    watching.line(&format!("process {after}: _Z18log_slow"));
    work(&first, 11);
    let report = end(watching);
    let counts = [before, killed, after].map(|pid| count(&report, pid, MARKER));
    assert_eq!(counts, [30, 7, 11]);
    for pid in [before, killed] {
        let server = of_pid(&report, pid);
        assert_eq!(server["ended"], "the server ended");
        assert_eq!(server["lost"]["ring_full"], 0);
    }
    // A restart keeps its name, and is another server all the same.
    let (before, after) = (of_pid(&report, before), of_pid(&report, after));
    assert_eq!(before["instance"], after["instance"]);
    assert_ne!(before["id"], after["id"]);
    assert!(after["ended"].is_null(), "{after}");
}

#[test]
fn more_digests_than_are_kept_are_counted_and_statements_of_megabytes_too() {
    let _turn = turn();
    for flavour in flavours() {
        let server = server(flavour);
        let watching = Watching::start(server.pid(), &[]);
        let mut connection = connect(&server);
        for n in 0..4000 {
            run(&mut connection, &[&format!("SELECT 1 AS c{n}")]);
        }
        // As long as a packet may be, and not UTF-8.
        let mut long = b"SELECT LENGTH('".to_vec();
        long.resize((16 << 20) - 40, 0xe9);
        long.extend_from_slice(b"') AS long_text");
        run(
            &mut connection,
            &["SET GLOBAL max_allowed_packet = 33554432"],
        );
        let mut connection = connect(&server);
        connection.query(&long).expect("a statement of 16 MiB");
        settle(&mut connection);
        let report = watching.interrupt();
        let counted: u64 = report
            .digests()
            .iter()
            .map(|d| d["count"].as_u64().expect("a count"))
            .sum();
        let other = report.number("/servers/0/other/count");
        assert_eq!(report.digests().len(), 2000, "{flavour}");
        assert_eq!(report.number("/degraded/digests_beyond_bound"), other);
        assert_eq!(counted + other, report.captured(), "{flavour}");
        assert_eq!(report.captured(), 4002, "{flavour}");
        assert_eq!(report.lost(), 0, "{flavour}");
        assert!(report.number("/degraded/text_truncated") >= 1, "{flavour}");
    }
}

#[test]
fn over_budget_it_leaves_out_says_so_and_counts_on() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let server = server(Flavour::MariaDb);
    // Less than this load costs on any machine.
    let watching = Watching::start(server.pid(), &["--max-cpu", "1", "--interval", "0.2"]);
    watching.0.line("rights kept");
    let group = format!("waggle-{}", watching.0.pid());
    let limited = own_groups(watching.0.pid()).contains(&group);
    let load = PointSelects::start(&server, 2, None);
    watching.0.line("texts are left out");
    let executed = load.end();
    // The ring has room again: this one is captured, without its text.
    let mut connection = connect(&server);
    run(&mut connection, &["SELECT 'after'"]);
    settle(&mut connection);
    let report = watching.interrupt();
    let shed = report.0["self"]["shed"].as_array().expect("what was shed");
    // What follows is left out only if this was not enough.
    assert_eq!(shed[0], "text");
    assert!(report.number("/degraded/text_shed") > 0);
    assert!(report.count("(text shed)") > 0, "{}", report.listing());
    let lost: u64 = report.0["lost"]
        .as_object()
        .expect("losses")
        .values()
        .map(|count| count.as_u64().expect("a count"))
        .sum();
    let seen = report.captured() + report.number("/other_commands");
    assert_eq!(seen + lost, report.number("/hits"));
    assert!(seen + lost > executed);
    if need("cgroup", limited, "no control group may be made here") {
        wait_until("the group is gone", || !has_group(&group));
    }
}

fn own_groups(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// True if a control group of this name is below any hierarchy.
fn has_group(name: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
    mounts
        .lines()
        .filter(|line| line.contains(" cgroup"))
        .filter_map(|line| line.split(' ').nth(1))
        .any(|path| std::path::Path::new(path).join(name).exists())
}

#[test]
fn host_only_watches_no_server_and_tells_what_the_host_uses() {
    let arguments = [
        "watch",
        "--host-only",
        "--json",
        "--duration",
        "0.3",
        "--interval",
        "0.1",
    ];
    let ended = Running::start(&mut waggle(&arguments)).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    assert!(report["host"]["processors"].as_u64().expect("processors") > 0);
    assert_eq!(report["servers"].as_array().map(Vec::len), Some(0));
}

/// The effective rights of a process's first thread.
fn rights(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    u64::from_str_radix(line.expect("rights").trim(), 16).expect("a number")
}

#[test]
fn rights_are_given_up_once_it_is_attached() {
    const SYS_PTRACE: u64 = 1 << 19;
    const DAC_READ_SEARCH: u64 = 1 << 2;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let server = server(Flavour::MariaDb);
    let watching = Watching::start(server.pid(), &[]);
    watching.0.line("rights kept: CAP_SYS_PTRACE");
    assert_eq!(rights(watching.0.pid()), SYS_PTRACE);
    work(&server, 3);
    assert_eq!(watching.interrupt().count(MARKER), 3);
    let following = watch_all(&[]);
    following.line("rights kept: ");
    let kept = SYS_PTRACE | DAC_READ_SEARCH | PERFMON_AND_BPF;
    assert_eq!(rights(following.pid()), kept);
    // These are enough for a server that comes later.
    let later = self::server(Flavour::MariaDb);
    following.line(&format!("process {}: _Z18log_slow", later.pid()));
    work(&later, 5);
    assert_eq!(count(&end(following), later.pid(), MARKER), 5);
}
