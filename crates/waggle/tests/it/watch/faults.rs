//! Killed watchers, dying servers, unusable arguments: nothing is left behind, nothing is touched.

use std::os::unix::fs::FileExt;

use serde_json::Value;
use waggle_need::{is_root, need};
use waggle_probes::statement::Fit;
use waggle_server::Flavour;
use waggle_server::process::from_pid;

use super::rights::copy_for_all;
use super::stage::{
    Ended, Running, Watching, can_watch, connect, mariadb_program, run, server, settle, waggle,
    wait_until,
};

/// The bytes in the server's memory at the probe's site.
fn bytes_at_site(pid: u32) -> (Vec<u8>, Vec<u8>) {
    let process = from_pid(pid).expect("the server");
    let site = Fit::of(&process.exe_file())
        .expect("a binary")
        .site
        .expect("a site");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let address = maps
        .lines()
        .find_map(|line| {
            let mut parts = line.split_ascii_whitespace();
            let (start, end) = parts.next()?.split_once('-')?;
            let executable = parts.next()?.contains('x');
            let (start, end, offset) = (hex(start), hex(end), hex(parts.next()?));
            let named = line.ends_with("mysqld") || line.ends_with("mariadbd");
            let within = (offset..offset + (end - start)).contains(&site.file_offset);
            (executable && named && within).then(|| start + site.file_offset - offset)
        })
        .expect("the site is mapped");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let mut found = vec![0; site.bytes.len()];
    memory
        .read_exact_at(&mut found, address)
        .expect("the site can be read");
    (found, site.bytes)
}

#[test]
fn a_killed_watcher_leaves_no_probe() {
    for flavour in super::stage::flavours() {
        let server = server(flavour);
        let watching = Watching::start(server.pid(), &[]);
        let (found, original) = bytes_at_site(server.pid());
        assert_eq!(
            (found[0], original[0]),
            (0xcc, 0x55),
            "{flavour}: the probe is in place"
        );
        watching.0.signal(libc::SIGKILL);
        watching.0.end();
        wait_until("the kernel has removed the probe", || {
            let (found, original) = bytes_at_site(server.pid());
            found == original
        });
        let mut connection = connect(&server);
        run(&mut connection, &["SELECT 1"]);
    }
}

#[test]
fn a_dead_server_ends_the_watch_with_a_report() {
    for flavour in super::stage::flavours() {
        let server = server(flavour);
        let watching = Watching::start(server.pid(), &[]);
        let mut connection = connect(&server);
        run(&mut connection, &["SELECT 1", "SELECT 2"]);
        settle(&mut connection);
        let pid = server.pid().cast_signed();
        // SAFETY: the throw-away server this test started.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        let ended = watching.0.end();
        let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
        assert_eq!(
            report["servers"][0]["ended"], "the server ended",
            "{flavour}"
        );
        assert_eq!(report["captured"], 2, "{flavour}: {report}");
    }
}

#[test]
fn all_follows_a_server_that_starts_later() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let watching = Running::start(&mut waggle(&["watch", "--all", "--json"]));
    let server = server(Flavour::MariaDb);
    watching.line(&format!("process {}:", server.pid()));
    let mut connection = connect(&server);
    // Whoever started the server may have sent statements of his own, so this one has a name.
    run(&mut connection, &["SELECT 'later' AS later"]);
    settle(&mut connection);
    watching.signal(libc::SIGINT);
    let ended = watching.end();
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    let own: u64 = report["digests"]
        .as_array()
        .expect("digests")
        .iter()
        .filter(|d| d["server"] == server.pid() && d["fingerprint"] == "select ? as later")
        .map(|d| d["count"].as_u64().expect("a count"))
        .sum();
    assert_eq!(own, 1, "{report}");
}

/// Runs `waggle` and expects exit code 2, nothing on stdout and `part` on stderr.
fn refused(command: &mut std::process::Command, part: &str) {
    let output = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_reason() {
    if !need("bpf", is_root(), "not root") {
        return;
    }
    let own = std::process::id().to_string();
    refused(
        &mut waggle(&["watch", "--pid", "999999999"]),
        "there is no process 999999999",
    );
    refused(
        &mut waggle(&["watch", "--pid", &own]),
        "not a MySQL or MariaDB server",
    );
    refused(&mut waggle(&["watch"]), "--pid");
    refused(
        &mut waggle(&["watch", "--all", "--interval", "0"]),
        "--interval",
    );
    refused(
        &mut waggle(&["watch", "--all", "--text-bytes", "1"]),
        "--text-bytes",
    );
    refused(
        waggle(&["watch", "--all"]).env("WAGGLE_BTF", "/nonexistent"),
        "CONFIG_DEBUG_INFO_BTF",
    );
    // The program may lie where nobody else may look.
    let (folder, program) = copy_for_all();
    let mut as_nobody = std::process::Command::new("setpriv");
    as_nobody
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["watch", "--all"]);
    refused(&mut as_nobody, "run as root");
    drop(folder);
}

/// Runs a shell script in a mount namespace of its own with a file system of `kib` at /mnt.
fn on_small_disk(kib: u32, script: &str) -> Ended {
    let script =
        format!("mount --make-rprivate / && mount -t tmpfs -o size={kib}k none /mnt && {script}");
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    Running::start(&mut command).end()
}

#[test]
fn a_full_disk_ends_the_recording_and_what_is_there_stays_readable() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let server = server(Flavour::MariaDb);
    let program = env!("CARGO_BIN_EXE_waggle");
    let watch = format!("{program} watch --pid {} --record /mnt", server.pid());
    // Too small for a run directory: nothing begins.
    let full = format!("head -c 4096 /dev/zero > /mnt/full; {watch} --duration 1");
    let ended = on_small_disk(4, &full);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("/mnt"), "{}", ended.stderr);
    // Full after a while: it ends, says so, and the samples until then can be read.
    let fills = format!(
        "{watch} --interval 0.02 --duration 30; code=$?; {program} report /mnt/*-watch-* \
         && exit $code"
    );
    let ended = on_small_disk(40, &fills);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    assert!(ended.stdout.contains("watch"), "{}", ended.stdout);
}

/// Replaces every occurrence of `from` in `bytes`; returns how many there were.
fn patch(bytes: &mut [u8], from: &[u8], to: &[u8]) -> usize {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = memchr::memmem::find_iter(bytes, from).collect();
    for place in &places {
        bytes[*place..*place + to.len()].copy_from_slice(to);
    }
    places.len()
}

/// The installed MariaDB with another build id and `renamed` symbols, running in `folder`.
pub(super) fn altered_mariadb(folder: &std::path::Path, renamed: &[&str]) -> Running {
    let original = mariadb_program();
    let mut bytes = std::fs::read(&original).expect("MariaDB");
    let fit = Fit::of(&original).expect("a binary");
    let id = fit.build_id.expect("a build id").to_string();
    let id: Vec<u8> = (0..id.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&id[at..at + 2], 16).expect("hex"))
        .collect();
    let other: Vec<u8> = id.iter().map(|byte| !byte).collect();
    assert_eq!(patch(&mut bytes, &id, &other), 1);
    for symbol in renamed {
        let mut to = symbol.as_bytes().to_vec();
        *to.last_mut().expect("a name") = b'#';
        assert!(patch(&mut bytes, symbol.as_bytes(), &to) > 0, "{symbol}");
    }
    let program = folder.join("mariadbd");
    super::stage::file(folder, "mariadbd", &bytes);
    let mut mode = std::fs::metadata(&program)
        .expect("it is there")
        .permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&program, mode).expect("a mode");
    let data = installed_data(folder);
    let running = Running::start(std::process::Command::new(&program).args([
        "--no-defaults",
        "--user=root",
        "--skip-networking",
        &format!("--datadir={}", data.display()),
        &format!("--socket={}", folder.join("s").display()),
    ]));
    running.line("ready for connections");
    running
}

/// A new data directory of MariaDB in `folder`.
pub(super) fn installed_data(folder: &std::path::Path) -> std::path::PathBuf {
    let data = folder.join("data");
    let installed = std::process::Command::new("mariadb-install-db")
        .args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ])
        .args(["--user=root", &format!("--datadir={}", data.display())])
        .output()
        .expect("mariadb-install-db");
    assert!(
        installed.status.success(),
        "{}",
        String::from_utf8_lossy(&installed.stderr)
    );
    data
}

#[test]
fn an_unknown_build_is_watched_as_far_as_it_can_be_decoded() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The name the build exports, not the one it calls: nothing in the server uses it.
    let server = altered_mariadb(folder.path(), &["thd_get_error_number", "thd_user_name"]);
    let watching = Watching::start(server.pid(), &[]);
    let dsn = format!(
        "mysql://root@/?socket={}",
        folder.path().join("s").display()
    );
    let mut connection =
        waggle_wire::Connection::connect(&dsn.parse().expect("a DSN")).expect("a connection");
    run(
        &mut connection,
        &[
            "SELECT 1",
            "SELECT table_name FROM information_schema.tables LIMIT 5",
        ],
    );
    settle(&mut connection);
    let report = watching.interrupt();
    let missing = report.0.pointer("/servers/0/missing").expect("missing");
    assert!(
        missing["error_number"]
            .as_str()
            .expect("why")
            .contains("thd_get_error_number")
    );
    assert!(
        missing["user"]
            .as_str()
            .expect("why")
            .contains("thd_user_name")
    );
    // What was decoded from the same functions is missing with them, and the blocker, which MariaDB
    // names with a binary log only.
    let names: Vec<&String> = missing.as_object().expect("missing").keys().collect();
    let expected = [
        "client_host",
        "error_number",
        "row-lock blocker",
        "rows_affected",
        "user",
        "warnings",
    ];
    assert_eq!(names, expected, "{missing}");
    assert_eq!(report.count("select ?"), 1);
    let rows = report.digest("select table_name from information_schema.tables limit ?");
    assert_eq!(rows["rows_sent"], 5);
    server.signal(libc::SIGKILL);
    server.end();
}

#[test]
fn a_build_without_the_function_is_refused() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = altered_mariadb(folder.path(), &["_Z18log_slow_statementP3THD"]);
    let pid = server.pid().to_string();
    refused(&mut waggle(&["watch", "--pid", &pid]), "log_slow_statement");
    server.signal(libc::SIGKILL);
    server.end();
}
