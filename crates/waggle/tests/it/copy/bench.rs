//! `waggle copy bench`: every case and every measurement runs, at a size that takes no time.

use std::process::Command;

use serde_json::Value;

use super::flavours;

fn bench(args: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(["copy", "bench", "--json"])
        .args(args)
        .current_dir(directory.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_case_is_copied_while_it_is_written_to() {
    let cases = ["seed", "sysbench", "wide", "json", "many"];
    for flavour in flavours() {
        let mut args = vec![
            "--sandbox",
            flavour.name(),
            "--rows",
            "400",
            "--rounds",
            "1",
        ];
        args.extend(["--writes", "50", "--way", "floor", "--way", "waggle"]);
        args.extend(cases.iter().flat_map(|case| ["--case", case]));
        let document = bench(&args);
        for (i, case) in cases.iter().enumerate() {
            let measured = &document["cases"][i];
            assert_eq!(measured["case"], *case);
            assert_eq!(
                measured["skipped"],
                Value::Array(Vec::new()),
                "{flavour} {case}"
            );
            let ways = measured["ways"].as_array().unwrap();
            let names: Vec<&Value> = ways.iter().map(|way| &way["way"]).collect();
            assert_eq!(names, ["floor", "waggle"], "{flavour} {case}");
            let copy = &ways[1]["rounds"][0]["copy"];
            assert!(copy["bytes"].as_f64().unwrap() > 0.0);
            assert_eq!(copy["phases"][0]["phase"], "preflight");
        }
    }
}

#[test]
fn changes_are_followed_at_a_share_of_the_most() {
    for flavour in flavours() {
        let args = ["--sandbox", flavour.name(), "--replicate", "--rows", "400"];
        let more = ["--time", "2", "--threads", "2", "--share", "0.3"];
        let document = bench(&[&args[..], &more[..]].concat());
        let replicated = &document["replicate"];
        assert!(
            replicated["tps_max"].as_f64().unwrap() > 0.0,
            "{replicated}"
        );
        assert!(
            replicated["transactions"].as_u64().unwrap() > 0,
            "{replicated}"
        );
        assert!(
            replicated["lag_ms"]["samples"].as_u64().unwrap() > 0,
            "{replicated}"
        );
        assert!(
            replicated["copier_us"].as_f64().unwrap() > 0.0,
            "{replicated}"
        );
    }
}
