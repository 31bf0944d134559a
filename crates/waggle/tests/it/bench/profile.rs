//! `--profile`: where the measured time went, kept beside what was measured.

use std::fs;

use super::{document, has, run, stderr};
use waggle_need::{is_root, need};
use waggle_server::Flavour;

fn waggle(arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(arguments)
        .output()
        .expect("the binary starts")
}

#[test]
fn a_profiled_run_keeps_flame_graphs_and_every_form() {
    if !need("root", is_root(), "a profile needs the rights to trace") || !has(Flavour::MariaDb) {
        return;
    }
    let runs = tempfile::tempdir().expect("a directory");
    let flags = "--json oltp_point_select --sandbox mariadb --threads 2 --time 2 \
                 --table-size 1000 --profile";
    let output = run(flags, runs.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let path = document(&output)["run"].as_str().expect("a run").to_owned();
    let names: Vec<String> = fs::read_dir(&path)
        .expect("the run")
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect();
    for file in ["profile.json", "flame-on-cpu.svg", "flame-off-cpu.svg"] {
        assert!(names.iter().any(|name| name == file), "{file}: {names:?}");
    }
    let page = waggle(&["report", &path, "--format", "html", "-o", "-"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("id=\"waggle-profile-report\""));
    let folded = waggle(&["report", &path, "--format", "folded", "--by", "process"]);
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
    assert!(folded.contains("mariadbd"), "{folded}");
    assert!(folded.contains("waggle"), "the client is in it: {folded}");
    let packed = waggle(&["report", &path, "--format", "pprof", "-o", "-"]);
    assert!(packed.stdout.starts_with(&[0x1f, 0x8b]), "gzip");
}

#[test]
fn a_profile_without_a_place_or_a_run_is_refused() {
    let runs = tempfile::tempdir().expect("a directory");
    for (flags, why) in [
        (
            "oltp_point_select --sandbox mariadb --profile --no-record",
            "--no-record",
        ),
        (
            "oltp_point_select prepare --dsn mysql://root@127.0.0.1:1/ --profile",
            "--profile is of a measured run",
        ),
    ] {
        let output = run(flags, runs.path());
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
