//! Scripts that look at what they may do, and try what they may not, in every verb that runs any.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use waggle_need::{can_probe, is_root, need};
use waggle_server::Flavour;

use super::{CALLER, NOBODY, child_named, open_folder, private_file};
use crate::watch::rights::copy_for_all;
use crate::watch::stage::{Running, can_watch, turn, waggle, wait_until};

/// A workload that says, wherever it is called, as whom it runs, what it may do, which of the two
/// files it can read, and whether it can write into root's home.
const LOOK: &str = r#"
local function field(name)
    for line in io.lines("/proc/thread-self/status") do
        local value = line:match("^" .. name .. ":%s*(%w+)")
        if value then return value end
    end
end
local function can(path, mode)
    local file = io.open(path, mode)
    if file then file:close() end
    return tostring(file ~= nil)
end
local function look(where)
    print(table.concat({"looked", "where=" .. where, "uid=" .. field("Uid"),
        "eff=" .. field("CapEff"), "prm=" .. field("CapPrm"), "bnd=" .. field("CapBnd"),
        "nnp=" .. field("NoNewPrivs"), "roots=" .. can("ROOTS", "r"),
        "others=" .. can("OTHERS", "r"), "planted=" .. can("PLANTED", "w")}, " "))
end
look("file")
function prepare() look("prepare") end
function thread_init()
    con = sysbench.sql.driver():connect()
    look("thread")
end
function event() con:query("SELECT 1") end
"#;

/// The workload and the files it tries.
struct Bed {
    folder: tempfile::TempDir,
    script: PathBuf,
    planted: PathBuf,
}

impl Bed {
    fn new() -> Bed {
        let folder = open_folder();
        let roots = private_file(folder.path(), "roots", 0);
        let others = private_file(folder.path(), "others", CALLER + 1);
        let planted = Path::new("/root").join(format!("waggle-planted-{}", std::process::id()));
        let text = [
            ("ROOTS", &roots),
            ("OTHERS", &others),
            ("PLANTED", &planted),
        ];
        let text = text.iter().fold(LOOK.to_owned(), |text, (name, path)| {
            text.replace(name, path.to_str().expect("a path"))
        });
        let script = folder.path().join("look.lua");
        fs::write(&script, text).expect("a script");
        Bed {
            folder,
            script,
            planted,
        }
    }

    fn script(&self) -> &str {
        self.script.to_str().expect("a path")
    }

    fn folder(&self) -> &str {
        self.folder.path().to_str().expect("a path")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.planted);
    }
}

/// What the script said, each time.
fn looks(said: &str) -> Vec<BTreeMap<&str, &str>> {
    let lines = said.lines().filter_map(|line| line.split_once("looked "));
    lines
        .map(|(_, line)| {
            line.split(' ')
                .filter_map(|pair| pair.split_once('='))
                .collect()
        })
        .collect()
}

/// Wherever the script ran, there was nothing to be had; it ran as `uid`, and in `places`.
fn assert_harmless(said: &str, uid: u32, places: &[&str]) {
    let looks = looks(said);
    for place in places {
        assert!(
            looks.iter().any(|look| look["where"] == *place),
            "the script ran in {place}: {said}"
        );
    }
    for look in &looks {
        assert_eq!(look["uid"], uid.to_string(), "{look:?}");
        for set in ["eff", "prm", "bnd"] {
            assert_eq!(look[set], "0000000000000000", "{look:?}");
        }
        assert_eq!(look["nnp"], "1", "{look:?}");
        assert_eq!(look["others"], "false", "{look:?}");
        if uid != 0 {
            assert_eq!(
                (look["roots"], look["planted"]),
                ("false", "false"),
                "{look:?}"
            );
        }
    }
}

/// Runs the verb to its end, which is a good one; everything that was said.
fn said(arguments: &[&str], sudo: Option<u32>) -> String {
    let (code, said) = run(arguments, sudo);
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

/// Runs the verb to its end; its exit code, and everything that was said.
fn run(arguments: &[&str], sudo: Option<u32>) -> (Option<i32>, String) {
    let mut command = waggle(arguments);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    if let Some(uid) = sudo {
        command.env("SUDO_UID", uid.to_string());
        command.env("SUDO_GID", uid.to_string());
    }
    let ended = Running::start(&mut command).end();
    (ended.status.code(), ended.stdout + &ended.stderr)
}

fn can_start() -> bool {
    need("root", is_root(), "rights are root's to lose") && can_watch(Flavour::MariaDb)
}

#[test]
fn verbs_that_need_no_rights_have_none_when_they_read_a_script() {
    let _turn = turn();
    if !can_start() {
        return;
    }
    let bed = Bed::new();
    let server = crate::watch::stage::server(Flavour::MariaDb);
    let socket = server.socket().display().to_string();
    let dsn = server.dsn_socket().to_string();
    let bench = [
        "bench",
        bed.script(),
        "--dsn",
        &dsn,
        "--threads",
        "2",
        "--events",
        "4",
        "--no-record",
    ];
    assert_harmless(&said(&bench, None), 0, &["file", "thread"]);
    let socket = format!("--mysql-socket={socket}");
    let password = format!("--mysql-password={}", server.password().expose());
    let sysbench = [
        "sysbench",
        bed.script(),
        "--db-driver=mysql",
        "--mysql-user=root",
        &password,
        &socket,
        "--events=4",
        "--time=0",
        "run",
    ];
    assert_harmless(&said(&sysbench, None), 0, &["file", "thread"]);
    // Who was named is who it is, also where nothing would have to be given up.
    let named = [&bench[..], &["--load-user", "daemon"]].concat();
    assert_harmless(&said(&named, None), 1, &["file", "thread"]);
}

#[test]
fn a_script_beside_a_throw_away_server_or_a_profile_runs_as_the_caller_of_sudo() {
    let _turn = turn();
    if !can_start() || !can_probe() {
        return;
    }
    let bed = Bed::new();
    let places = ["file", "prepare", "thread"];
    let plain = [
        "bench",
        bed.script(),
        "--sandbox",
        "mariadb",
        "--threads",
        "2",
        "--time",
        "0.5",
        "--run-dir",
        bed.folder(),
    ];
    assert_harmless(&said(&plain, Some(CALLER)), CALLER, &places);
    let profiled = [&plain[..], &["--profile"]].concat();
    assert_harmless(&said(&profiled, None), NOBODY, &places);
}

#[test]
fn scripts_of_the_lab_and_of_tune_run_as_the_caller_of_sudo_or_nobody() {
    let _turn = turn();
    if !can_start() {
        return;
    }
    let bed = Bed::new();
    let places = ["file", "thread"];
    let lab = [
        "lab",
        "run",
        "--sandbox",
        "mariadb",
        "--workload",
        bed.script(),
        "--threads",
        "2",
        "--windows",
        "2",
        "--arm",
        "q:on SET GLOBAL long_query_time = 9; off SET GLOBAL long_query_time = 10",
        "--runs",
        bed.folder(),
    ];
    // So few windows may be too few for any claim, which is exit code 1.
    let (code, said_by_lab) = run(&lab, None);
    assert!(matches!(code, Some(0 | 1)), "{said_by_lab}");
    assert!(said_by_lab.contains("report: "), "{said_by_lab}");
    assert_harmless(&said_by_lab, NOBODY, &places);
    let tune = [
        "tune",
        "--sandbox",
        "mariadb",
        "--workload",
        bed.script(),
        "--threads",
        "2",
        "--set",
        "innodb_io_capacity=100,200",
        "--block",
        "100ms",
        "--warm-up",
        "50ms",
        "--rounds",
        "2",
        "--budget",
        "1m",
        "--runs",
        bed.folder(),
    ];
    assert_harmless(&said(&tune, Some(CALLER)), CALLER, &places);
}

/// The program as an administrator may have installed it, run by somebody.
fn with_rights_for_all(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).uid(NOBODY).gid(NOBODY);
    command.stdin(Stdio::null()).env_remove("WAGGLE_DSN");
    command
}

/// The program in a folder of its own, with the rights that watching takes on its file.
fn copy_with_rights() -> Option<(tempfile::TempDir, PathBuf)> {
    if !need("root", is_root(), "setcap takes root") {
        return None;
    }
    let (folder, program) = copy_for_all();
    let set = Command::new("setcap")
        .arg("cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep")
        .arg(&program)
        .status();
    let is_set = set.is_ok_and(|set| set.success());
    need("setcap", is_set, "no setcap here").then_some((folder, program))
}

#[test]
fn a_file_that_an_argument_names_is_opened_without_the_programs_rights() {
    let Some((folder, program)) = copy_with_rights() else {
        return;
    };
    let secret = private_file(folder.path(), "secret", 0);
    let dsn = format!("mysql://u@127.0.0.1:1/?password-file={}", secret.display());
    for verb in [
        &["watch", "--pid", "1"][..],
        &["bench", "oltp_point_select", "--profile"],
        &["trace", "latch"],
    ] {
        let mut command = with_rights_for_all(&program, verb);
        let run = command.args(["--dsn", &dsn]).output().expect("it starts");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{verb:?}: {said}");
        assert!(said.contains("ermission denied"), "{verb:?}: {said}");
    }
}

#[test]
fn rights_on_the_programs_file_are_not_a_scripts() {
    let Some((_folder, program)) = copy_with_rights() else {
        return;
    };
    let bed = Bed::new();
    let nowhere = "mysql://nobody@127.0.0.1:1/db";
    for verb in [
        &["bench", bed.script(), "--dsn", nowhere, "--no-record"][..],
        &["bench", bed.script(), "--dsn", nowhere, "--profile"],
        &[
            "sysbench",
            bed.script(),
            "--mysql-host=127.0.0.1",
            "--mysql-port=1",
            "run",
        ],
        &[
            "lab",
            "run",
            "--sandbox",
            "mariadb",
            "--workload",
            bed.script(),
        ],
    ] {
        let mut command = with_rights_for_all(&program, verb);
        command.current_dir("/");
        let ended = Running::start(&mut command).end();
        let said = ended.stdout + &ended.stderr;
        let looks = looks(&said);
        assert!(!looks.is_empty(), "{verb:?}: {said}");
        for look in looks {
            assert_eq!(look["uid"], NOBODY.to_string(), "{verb:?}");
            for (set, nothing) in [("eff", "0000000000000000"), ("prm", "0000000000000000")] {
                assert_eq!(look[set], nothing, "{verb:?}: {look:?}");
            }
            assert_eq!(look["nnp"], "1", "{verb:?}");
            assert_eq!(
                (look["roots"], look["others"]),
                ("false", "false"),
                "{verb:?}"
            );
        }
    }
    let doctor = with_rights_for_all(&program, &["doctor"])
        .output()
        .expect("doctor");
    let report = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        report.contains("every user of this host may run it"),
        "{report}"
    );
}

/// A run with a throw-away server that goes on until it is ended.
fn running(script: &Path, folder: &Path) -> Running {
    let mut command = waggle(&[
        "bench",
        "--sandbox",
        "mariadb",
        "--time",
        "600",
        "--run-dir",
    ]);
    command.arg(folder).arg(script);
    Running::start(&mut command)
}

#[test]
fn a_killed_run_leaves_no_process_of_the_load() {
    let _turn = turn();
    if !can_start() {
        return;
    }
    let bed = Bed::new();
    let running = running(&bed.script, bed.folder.path());
    running.line("where=thread");
    let child = child_named(running.pid(), "waggle-load").expect("the process of the load");
    running.signal(libc::SIGKILL);
    wait_until("it is gone", || {
        fs::read_link(format!("/proc/{child}/exe")).is_err()
    });
}

#[test]
fn a_script_that_ends_or_crashes_its_process_is_an_error_and_no_hang() {
    let _turn = turn();
    if !can_start() {
        return;
    }
    let folder = open_folder();
    let script = folder.path().join("ends.lua");
    for (event, how) in [
        ("os.exit(3)", "ended with exit code 3"),
        (
            "require('ffi').cast('int *', 0)[0] = 1",
            "was ended by signal 11",
        ),
    ] {
        let text = format!(
            "function prepare() end\n\
             function thread_init() con = sysbench.sql.driver():connect() end\n\
             function event() {event} end\n"
        );
        fs::write(&script, text).expect("a script");
        let ended = running(&script, folder.path()).end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(how), "{}", ended.stderr);
    }
}

#[test]
fn root_cannot_be_the_user_of_a_workload() {
    if !need("root", is_root(), "only root could be refused") {
        return;
    }
    let run = ["lab", "run", "--load-user", "root"];
    let ended = Running::start(&mut waggle(&run)).end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("root is root"), "{}", ended.stderr);
}
