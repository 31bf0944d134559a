//! `waggle doctor` as a user runs it. Nothing is started: it looks at what is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use waggle_need::{is_root, need};
use waggle_symbols::FieldName;

const MARIADBD: &str = "/usr/sbin/mariadbd";

fn doctor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
    command.arg("doctor").args(args);
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("waggle runs")
}

/// Its JSON document; the run must have ended with exit code 0.
fn report(command: &mut Command) -> Value {
    let output = run(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn has_mariadb() -> bool {
    need(
        "mariadb",
        Path::new(MARIADBD).exists(),
        "no /usr/sbin/mariadbd",
    )
}

fn server<'a>(report: &'a Value, binary: &Path) -> &'a Value {
    let servers = report["servers"].as_array().expect("a list of servers");
    let found = servers
        .iter()
        .find(|server| server["binary"].as_str() == binary.to_str());
    found.unwrap_or_else(|| panic!("no {} in {servers:#?}", binary.display()))
}

fn assert_all_fields_with(server: &Value, source: &str) {
    let fields = server["fields"].as_object().expect("fields by name");
    assert_eq!(fields.len(), FieldName::ALL.len());
    for (name, field) in fields {
        assert_eq!(field["ok"], true, "{name}: {field}");
        assert!(
            field["location"].as_str().unwrap().starts_with("THD+0x"),
            "{name}: {field}"
        );
        assert!(
            field["source"].as_str().unwrap().starts_with(source),
            "{name}: {field}"
        );
    }
}

#[test]
fn finds_mariadb_complete_and_emulated() {
    if !has_mariadb() {
        return;
    }
    let report = report(&mut doctor(&["--json"]));
    let server = server(&report, Path::new(MARIADBD));
    assert_eq!(server["flavour"], "mariadb");
    assert!(
        server["version"].as_str().unwrap().contains("MariaDB"),
        "{server}"
    );
    assert_eq!(server["stripped"], true);
    let probe = &server["probes"]["log_slow_statement"];
    assert_eq!(
        (&probe["ok"], &probe["emulated"]),
        (&true.into(), &true.into()),
        "{probe}"
    );
    assert_eq!(probe["reason"], Value::Null);
    assert_eq!(probe["site"]["register"], "rdi");
    let wait = &server["probes"]["thd_wait_begin"];
    assert_eq!(
        (&wait["ok"], &wait["emulated"], &wait["site"]["register"]),
        (&true.into(), &true.into(), &"rdi".into())
    );
    let redo = &server["probes"]["log_write_up_to"];
    assert_eq!((&redo["ok"], &redo["site"]), (&false.into(), &Value::Null));
    assert!(redo["reason"].as_str().unwrap().contains("does not export"));
    assert!(
        probe["site"]["function"]
            .as_str()
            .unwrap()
            .contains("log_slow_statement")
    );
    assert_all_fields_with(server, "");
}

#[test]
fn every_refusal_has_a_reason() {
    fn walk(at: &str, value: &Value, refused: &mut Vec<String>) {
        let Some(members) = value.as_object() else {
            return;
        };
        if members.get("ok").is_some_and(|ok| *ok != true) {
            assert!(members["reason"].is_string(), "{at}: {value}");
            refused.push(at.to_owned());
        }
        for (name, member) in members {
            walk(&format!("{at}.{name}"), member, refused);
        }
    }
    let report = report(&mut doctor(&["--json"]));
    let mut refused = Vec::new();
    walk("", &report["kernel"], &mut refused);
    for group in [
        "settings",
        "hooks",
        "program_types",
        "map_types",
        "helpers",
        "counters",
    ] {
        assert!(
            report["kernel"][group]
                .as_object()
                .is_some_and(|g| !g.is_empty()),
            "{group}"
        );
    }
    println!("refused or unknown here: {}", refused.join(" "));
}

#[test]
fn the_kernel_lets_the_probe_in_and_the_trap_is_measured() {
    if !need("bpf", is_root(), "not root") {
        return;
    }
    let report = report(&mut doctor(&["--json"]));
    let kernel = &report["kernel"];
    assert_eq!(
        kernel["statement_probe"]["ok"], true,
        "{}",
        kernel["statement_probe"]
    );
    let cost = kernel["trap_ns"].as_f64().expect("a measured cost");
    assert!((10.0..1e6).contains(&cost), "{cost} ns");
    assert_eq!(kernel["program_types"]["kprobe"]["ok"], true);
    assert_eq!(kernel["helpers"]["probe_read_user"]["ok"], true);
    // Found without securityfs being mounted, too.
    assert!(
        kernel["settings"]["lockdown"]["ok"].is_boolean(),
        "{kernel}"
    );
}

#[test]
fn without_root_it_says_what_it_cannot_know() {
    if !need("bpf", is_root(), "only root can become another user") {
        return;
    }
    // A copy where another user can reach it, wherever the build directory lies.
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = folder.path().join("waggle");
    fs::copy(env!("CARGO_BIN_EXE_waggle"), &program).expect("a copy");
    let as_nobody = |json: bool| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--clear-groups"])
            .arg(&program)
            .arg("doctor");
        if json {
            command.arg("--json");
        }
        command
    };

    let report = report(&mut as_nobody(true));
    assert_eq!(report["can_watch"]["ok"], false);
    let reason = report["can_watch"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("65534") && reason.contains("CAP_BPF"),
        "{reason}"
    );
    assert!(
        report["can_watch"]["remedy"]
            .as_str()
            .unwrap()
            .contains("root")
    );
    let kernel = &report["kernel"];
    assert_eq!(
        (&kernel["trap_ns"], &kernel["program_types"]["kprobe"]["ok"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        kernel["program_types"]["kprobe"]["reason"],
        "not tried: needs root"
    );

    let output = run(&mut as_nobody(false));
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.starts_with("this host can watch statements: no, because uid 65534"),
        "{text}"
    );
}

#[test]
fn the_text_is_readable_at_100_columns() {
    let output = run(&mut doctor(&[]));
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.starts_with("this host can watch statements: "),
        "{text}"
    );
    for line in text.lines() {
        // Paths are shown whole, however long.
        assert!(line.chars().count() <= 100 || line.contains('/'), "{line}");
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn without_btf_it_says_so_and_what_to_do() {
    let report = report(doctor(&["--json"]).env("WAGGLE_BTF", "/nonexistent"));
    let btf = &report["kernel"]["settings"]["btf"];
    assert_eq!((&btf["ok"], &btf["needed"]), (&false.into(), &true.into()));
    assert!(
        btf["reason"]
            .as_str()
            .unwrap()
            .contains("no BTF at /nonexistent"),
        "{btf}"
    );
    assert!(
        btf["remedy"]
            .as_str()
            .unwrap()
            .contains("CONFIG_DEBUG_INFO_BTF"),
        "{btf}"
    );
    assert_eq!(report["can_watch"]["ok"], false);
    if is_root() {
        assert_eq!(report["can_watch"]["reason"], btf["reason"]);
    }
}

#[test]
fn an_unusable_binary_is_refused_by_name() {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cases = [
        (
            "/bin/ls",
            "does not carry the marks of a MySQL or MariaDB server",
        ),
        ("/nonexistent", "No such file"),
        ("/usr/bin", "not a file"),
        ("/dev/null", "not a file"),
        (text, "not an ELF program"),
    ];
    for (path, why) in cases {
        let output = run(&mut doctor(&["--binary", path]));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{path}: {stderr}");
        assert!(
            stderr.contains(path) && stderr.contains(why),
            "{path}: {stderr}"
        );
        assert_eq!(output.stdout, b"", "{path}");
    }
}

/// A copy of MariaDB under a build id that is in no table, and without `hidden` functions.
fn unknown_build(folder: &Path, hidden: &[&str]) -> PathBuf {
    let known = report(&mut doctor(&["--json"]));
    let id = server(&known, Path::new(MARIADBD))["build_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).expect("hex");
    let id: Vec<u8> = (0..id.len()).step_by(2).map(byte).collect();
    let mut program = fs::read(MARIADBD).expect("the program");
    let names = hidden.iter().map(|name| format!("\0{name}\0").into_bytes());
    for wanted in names.chain([id]) {
        let at = memchr::memmem::find(&program, &wanted).expect("it is in the file");
        // Another byte in the middle: the name, or the id, of something else.
        program[at + wanted.len() / 2] ^= 1;
    }
    let path = folder.join("mariadbd-unknown");
    fs::write(&path, program).expect("a copy");
    path.canonicalize().expect("a path")
}

#[test]
fn an_unknown_build_is_decoded() {
    if !has_mariadb() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let path = unknown_build(folder.path(), &[]);
    let name = path.to_str().unwrap();
    let report = report(&mut doctor(&["--json", "--binary", name]));
    assert_all_fields_with(server(&report, &path), "decoded from ");

    let output = run(&mut doctor(&["--binary", name]));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("22 of 22 fields") && text.contains("decoded from "),
        "{text}"
    );
}

#[test]
fn a_build_that_hides_functions_degrades_with_reasons() {
    if !has_mariadb() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let hidden = ["thd_get_thread_id", "_Z18log_slow_statementP3THD"];
    let path = unknown_build(folder.path(), &hidden);
    let report = report(&mut doctor(&["--json", "--binary", path.to_str().unwrap()]));
    let server = server(&report, &path);
    let probe = &server["probes"]["log_slow_statement"];
    assert_eq!(
        (&probe["ok"], &probe["site"]),
        (&false.into(), &Value::Null)
    );
    assert!(
        probe["reason"]
            .as_str()
            .unwrap()
            .contains("does not export"),
        "{probe}"
    );
    assert!(probe["remedy"].is_string(), "{probe}");
    let field = &server["fields"]["connection_id"];
    assert_eq!(
        (&field["ok"], &field["location"]),
        (&false.into(), &Value::Null)
    );
    assert!(
        field["reason"]
            .as_str()
            .unwrap()
            .contains("thd_get_thread_id"),
        "{field}"
    );
    assert_eq!(server["fields"]["query"]["ok"], true);
}

#[test]
fn one_file_is_one_entry_whatever_it_is_called() {
    if !has_mariadb() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let link = folder.path().join("my-server");
    std::os::unix::fs::symlink(MARIADBD, &link).expect("a link");
    let link = link.to_str().unwrap();
    let report = report(&mut doctor(&[
        "--json", "--binary", link, "--binary", MARIADBD,
    ]));
    let servers = report["servers"].as_array().unwrap();
    let same = servers.iter().filter(|server| server["binary"] == MARIADBD);
    assert_eq!(same.count(), 1, "{servers:#?}");
}
