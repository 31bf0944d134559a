//! What do readers of pprof find? Decoded again, and by Go's own tool.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;

use flate2::read::GzDecoder;
use prost::Message;
use waggle_need::skip;

use super::made::example;
use crate::model::Profile;
use crate::out::pprof;

pub(super) fn pprof_of(profile: &Profile) -> pprof::Profile {
    let packed = pprof::bytes(profile).expect("packed");
    let mut bytes = Vec::new();
    GzDecoder::new(packed.as_slice())
        .read_to_end(&mut bytes)
        .expect("gzip");
    pprof::Profile::decode(bytes.as_slice()).expect("a message")
}

#[test]
fn pprof_has_every_sum_with_its_labels_and_inlined_calls() {
    let read = pprof_of(&example());
    let text = |at: i64| read.string_table[at as usize].as_str();
    let types: Vec<&str> = read.sample_type.iter().map(|t| text(t.r#type)).collect();
    assert_eq!(types, ["samples", "cpu", "off_cpu", "runnable"]);
    assert_eq!(text(read.default_sample_type), "cpu");
    assert_eq!(read.time_nanos, 1_795_309_323_000_000_000);
    let first = &read.sample[0];
    assert_eq!(first.value, [1, 3_000_000, 0, 0]);
    let locations = first.location_id.iter();
    let names: Vec<Vec<&str>> = locations
        .map(|id| {
            let lines = &read.location[*id as usize - 1].line;
            let name = |line: &pprof::Line| text(read.function[line.function_id as usize - 1].name);
            lines.iter().map(name).collect()
        })
        .collect();
    let expected: [&[&str]; 2] = [&["row_sel_get_clust_rec", "row_search_mvcc"], &["main"]];
    assert_eq!(names, expected);
    let labels: BTreeMap<&str, &str> = first
        .label
        .iter()
        .map(|label| (text(label.key), text(label.str)))
        .collect();
    assert_eq!(labels["role"], "user thread");
    assert!(labels["digest"].ends_with("where id=?"), "{labels:?}");
}

#[test]
fn go_reads_pprof() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("profile.pb.gz");
    std::fs::write(&file, pprof::bytes(&example()).expect("packed")).expect("written");
    let go = Command::new("go")
        .args(["tool", "pprof", "-top", "-nodecount=5"])
        .arg(&file)
        .env("PPROF_TMPDIR", directory.path())
        .output();
    let output = match go {
        Ok(output) => output,
        Err(why) => {
            skip("go", &why.to_string());
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if complaint.contains("no such tool") || complaint.contains("unknown tool") {
        skip("go", "its pprof is not installed");
        return;
    }
    assert!(output.status.success(), "{complaint}");
    assert!(said.contains("row_sel_get_clust_rec"), "{said}");
    assert!(said.contains("Type: cpu") && said.contains("4ms"), "{said}");
}
