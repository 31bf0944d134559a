//! The rights that the service of `contrib/` names are enough, and are no more than are used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use waggle_server::Flavour;

use super::stage::{Running, can_watch, connect, run, server, settle, turn};

/// Rights by the names that the unit uses, and their numbers.
const NUMBERS: [(&str, u32); 4] = [
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
];
/// A user that owns nothing here.
const NOBODY: u32 = 65534;

/// What the unit gives the service.
fn of_the_unit() -> Vec<String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/waggle-watch.service");
    let unit = std::fs::read_to_string(unit).expect("the unit");
    let of = |key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key));
        let names = lines.next().expect("rights").split(' ');
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let ambient = of("AmbientCapabilities=");
    assert_eq!(ambient, of("CapabilityBoundingSet="));
    ambient
}

/// The program where everybody may run it; removed with the folder.
pub(crate) fn copy_for_all() -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), readable).expect("a mode");
    let program = folder.path().join("waggle");
    std::fs::copy(env!("CARGO_BIN_EXE_waggle"), &program).expect("a copy");
    (folder, program)
}

/// `program watch ...` as a user without rights but for these.
fn as_nobody(program: &Path, rights: &[String], arguments: &[&str]) -> Command {
    let names: Vec<String> = rights
        .iter()
        .map(|name| name.trim_start_matches("CAP_").to_ascii_lowercase())
        .collect();
    let plus = |name: &String| format!("+{name}");
    let list = names.iter().map(plus).collect::<Vec<_>>().join(",");
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")])
        .args(["--clear-groups", "--no-new-privs"])
        .args([
            format!("--inh-caps=-all,{list}"),
            format!("--ambient-caps=-all,{list}"),
            format!("--bounding-set=-all,{list}"),
        ])
        .arg(program)
        .arg("watch")
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("WAGGLE_DSN");
    command
}

/// The different sets of rights of this name that its threads have, in ascending order.
fn rights(pid: u32, set: &str) -> Vec<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let of = |path: PathBuf| {
        // A thread that has just ended has none.
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(set))?;
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).ok()
    };
    let mut all: Vec<u64> = threads.flatten().filter_map(|t| of(t.path())).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn what_the_unit_names_is_enough_and_less_is_not() {
    let _turn = turn();
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let unit = of_the_unit();
    let bits = |names: &[String]| {
        let number = |name: &String| NUMBERS.iter().find(|(known, _)| known == name);
        let all = names
            .iter()
            .map(|name| number(name).expect("a known right"));
        all.fold(0, |bits, (_, number)| bits | 1_u64 << number)
    };
    let (folder, program) = copy_for_all();
    let server = server(Flavour::MariaDb);
    let watching = Running::start(&mut as_nobody(
        &program,
        &unit,
        &["--all", "--json", "--listen", "127.0.0.1:0"],
    ));
    watching.line(&format!("process {}: _Z18log_slow", server.pid()));
    watching.line("rights kept: ");
    // All of them, in whatever thread: a server that comes later has to be attached to.
    let kept = rights(watching.pid(), "CapEff");
    assert!(kept.contains(&bits(&unit)), "{kept:x?}");
    assert!(
        kept.iter().all(|kept| kept & !bits(&unit) == 0),
        "{kept:x?}"
    );
    // The sink's threads have none; nothing can be won back.
    assert!(kept.contains(&0), "{kept:x?}");
    assert_eq!(rights(watching.pid(), "CapAmb"), [0], "given up");
    assert_eq!(rights(watching.pid(), "CapPrm"), kept, "given up");
    let later = self::server(Flavour::MariaDb);
    watching.line(&format!("process {}: _Z18log_slow", later.pid()));
    for server in [&server, &later] {
        let mut connection = connect(server);
        run(&mut connection, &["SELECT 'seen' AS marked"]);
        settle(&mut connection);
    }
    watching.signal(libc::SIGINT);
    let ended = watching.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a report");
    check_servers(&report, [server.pid(), later.pid()]);
    less_is_told(&program, &unit, server.pid());
    drop(folder);
}

/// What is missing of the server, watched with `rights`; `None`: it was refused.
fn missing_with(program: &Path, rights: &[String], pid: u32) -> Option<BTreeSet<String>> {
    let pid = pid.to_string();
    let arguments = ["--pid", &pid, "--json", "--duration", "0.5"];
    let ended = Running::start(&mut as_nobody(program, rights, &arguments)).end();
    if ended.status.code() == Some(2) {
        println!("refused: {}", ended.stderr);
        return None;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a report");
    let missing = report["servers"][0]["missing"].as_object();
    Some(missing.expect("what is missing").keys().cloned().collect())
}

/// With one right less, it is refused aloud, or more is missing, and named.
fn less_is_told(program: &Path, unit: &[String], pid: u32) {
    let with_all = missing_with(program, unit, pid).expect("the unit's rights are enough");
    for name in unit {
        let less: Vec<String> = unit.iter().filter(|one| one != &name).cloned().collect();
        let Some(missing) = missing_with(program, &less, pid) else {
            continue;
        };
        assert!(
            missing.is_superset(&with_all) && missing.len() > with_all.len(),
            "without {name}: {missing:?}, with all: {with_all:?}"
        );
    }
}

/// Each was seen, and nothing but what the kernel tells an administrator alone is missing.
fn check_servers(report: &serde_json::Value, pids: [u32; 2]) {
    // Others may run servers on this machine.
    let ours = pids.map(u64::from);
    let is_ours = |value: &serde_json::Value| value.as_u64().is_some_and(|pid| ours.contains(&pid));
    let servers = report["servers"].as_array().expect("servers");
    let servers: Vec<_> = servers.iter().filter(|s| is_ours(&s["pid"])).collect();
    assert_eq!(servers.len(), 2);
    let digests = report["digests"].as_array().expect("digests");
    for server in servers {
        // Whoever started the server may have sent statements of his own.
        let marked: u64 = digests
            .iter()
            .filter(|d| d["server"] == server["pid"] && d["fingerprint"] == "select ? as marked")
            .map(|d| d["count"].as_u64().expect("a count"))
            .sum();
        assert_eq!(marked, 1, "{report}");
        // Only what the kernel tells nobody but an administrator is missing.
        let missing = server["missing"].as_object().expect("what is missing");
        let known = |name: &&String| {
            !["row-lock blocker", "wait class"]
                .iter()
                .any(|k| name.contains(k))
        };
        let missing: Vec<&String> = missing.keys().filter(known).collect();
        assert_eq!(missing, [""; 0], "{server}");
    }
}
