//! Are the formats what their readers expect, whatever the names?

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;
use std::sync::Arc;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use prost::Message;
use serde_json::Value;

use super::*;
use crate::model::{Builder, Digest, Frame, Kind, Profile, Stack, Timed, Who};

fn frame(name: &str) -> Frame {
    Frame {
        name: name.into(),
        module: "mysqld".into(),
        file: None,
        line: None,
        inlined: false,
        kernel: false,
    }
}

fn who(role: &str, digest: Option<&str>) -> Who {
    Who {
        process: "mysqld 7".into(),
        pid: 7,
        start_ns: None,
        role: role.into(),
        thread: None,
        digest: digest.map(Arc::from),
    }
}

struct Made(Builder);

impl Made {
    fn new() -> Self {
        let mut all = Builder::default();
        all.profile.started = "2026-11-22T01:02:03.000Z".to_owned();
        all.profile.duration_ns = 30_000_000_000;
        all.profile.frequency_hz = 99;
        Self(all)
    }

    fn add(&mut self, whose: Who, kind: Kind, frames: Vec<Frame>, ns: u64) -> &mut Self {
        let all = &mut self.0;
        let frames = frames.into_iter().map(|frame| all.frame(frame)).collect();
        let stack = all.stack(Stack {
            frames,
            truncated: false,
        });
        let who = all.who(whose);
        all.add(who, kind, stack, 1, ns);
        let at_ns = all
            .profile
            .timeline
            .last()
            .map_or(0, |last| last.at_ns + last.ns);
        all.profile.timeline.push(Timed {
            at_ns,
            tid: 8,
            who,
            kind,
            stack,
            ns,
        });
        self
    }

    fn profile(self) -> Profile {
        self.0.finish()
    }
}

/// Two roles, two statements, all kinds, the kernel, an inlined call with its line.
fn example() -> Profile {
    let mut made = Made::new();
    let inlined = Frame {
        file: Some("/src/row0sel.cc".into()),
        line: Some(42),
        inlined: true,
        ..frame("row_sel_get_clust_rec")
    };
    let kernel = Frame {
        module: "[kernel]".into(),
        kernel: true,
        ..frame("do_futex")
    };
    let user = || who("user thread", Some("00000000000000aa"));
    let search = vec![frame("main"), frame("row_search_mvcc"), inlined];
    made.add(user(), Kind::OnCpu, search, 3_000_000);
    made.add(
        user(),
        Kind::OnCpu,
        vec![frame("main"), frame("parse")],
        1_000_000,
    );
    let wait = vec![frame("log_writer"), frame("os_event_wait"), kernel];
    made.add(
        who("log writer", None),
        Kind::OffCpu,
        wait.clone(),
        9_000_000,
    );
    made.add(who("log writer", None), Kind::Runnable, wait, 500_000);
    made.0.profile.threads.insert(8, "connection".to_owned());
    made.0.profile.digests.push(Digest {
        digest: "00000000000000aa".into(),
        fingerprint: "select c from sbtest? where id=?".into(),
        statements: 10,
        cpu_ns: 4_000_000,
    });
    made.0.profile.lost.samples = 3;
    made.profile()
}

#[test]
fn folded_lines_are_what_flame_graph_programs_read() {
    let profile = example();
    assert_eq!(
        folded::text(&profile, &View::of(Kind::OnCpu).by(Root::Role)),
        "user thread;main;parse 1000000\n\
         user thread;main;row_search_mvcc;row_sel_get_clust_rec_[i] 3000000\n"
    );
    let lines = View {
        lines: true,
        unit: Unit::Samples,
        ..View::default()
    };
    assert_eq!(
        folded::text(&profile, &lines),
        "log_writer;os_event_wait;do_futex_[k];[off CPU] 1\n\
         log_writer;os_event_wait;do_futex_[k];[runnable] 1\n\
         main;parse 1\n\
         main;row_search_mvcc;row_sel_get_clust_rec row0sel.cc:42_[i] 1\n"
    );
    let by_digest = folded::text(&profile, &View::of(Kind::OnCpu).by(Root::Digest));
    assert!(
        by_digest.starts_with("00000000000000aa select c from sbtest? where id=?;main;parse "),
        "{by_digest}"
    );
    let by_thread = folded::text(&profile, &View::of(Kind::OffCpu).by(Root::Thread));
    assert_eq!(
        by_thread,
        "connection (8);log_writer;os_event_wait;do_futex_[k] 9000000\n"
    );
}

#[test]
fn a_flame_graph_has_its_times_and_what_was_lost() {
    let svg = flame::svg(&example(), &View::of(Kind::OnCpu), "mysqld <9>").expect("a graph");
    let svg = String::from_utf8(svg).expect("UTF-8");
    assert!(svg.contains("mysqld &lt;9&gt;"), "{svg}");
    assert!(svg.contains("row_search_mvcc (3,000 us"), "{svg}");
    assert!(svg.contains("lost: 3 samples"), "{svg}");
    let none = flame::svg(&Profile::default(), &View::of(Kind::OnCpu), "x");
    assert!(matches!(none, Err(OutError::Empty { .. })), "{none:?}");
}

#[test]
fn a_difference_compares_shares_and_not_lengths() {
    let mut twice = example();
    for entry in &mut twice.entries {
        entry.ns *= 2;
    }
    let view = View::of(Kind::OnCpu);
    let columns = diff::columns(&example(), &twice, &view).expect("a difference");
    for line in String::from_utf8(columns).expect("UTF-8").lines() {
        let mut numbers = line.rsplit(' ');
        assert_eq!(numbers.next(), numbers.next(), "{line}");
    }
    let svg = diff::svg(&example(), &twice, &view, "before and after").expect("a graph");
    assert!(String::from_utf8_lossy(&svg).contains("red: more than before"));
    let none = diff::svg(&Profile::default(), &twice, &view, "x");
    assert!(none.is_err_and(|error| error.to_string().contains("the first profile")));
}

fn pprof_of(profile: &Profile) -> pprof::Profile {
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
            eprintln!("skipped: go: {why}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if complaint.contains("no such tool") || complaint.contains("unknown tool") {
        eprintln!("skipped: go: its pprof is not installed");
        return;
    }
    assert!(output.status.success(), "{complaint}");
    assert!(said.contains("row_sel_get_clust_rec"), "{said}");
    assert!(said.contains("Type: cpu") && said.contains("4ms"), "{said}");
}

fn firefox_of(profile: &Profile) -> Value {
    serde_json::from_slice(&firefox::json(profile)).expect("JSON")
}

/// What the Firefox Profiler takes for granted.
fn check_firefox(document: &Value) {
    let shared = &document["shared"];
    let length = |table: &Value| table["length"].as_u64().expect("a length") as usize;
    for table in [
        "frameTable",
        "funcTable",
        "stackTable",
        "resourceTable",
        "sources",
    ] {
        let table = &shared[table];
        for (name, column) in table.as_object().expect("a table") {
            if let Value::Array(column) = column {
                assert_eq!(column.len(), length(table), "{name}");
            }
        }
    }
    let strings = shared["stringArray"].as_array().expect("strings").len();
    let within = |column: &Value, below: usize| {
        for value in column.as_array().expect("a column") {
            if let Some(index) = value.as_i64() {
                assert!(index == -1 || (0..below as i64).contains(&index), "{index}");
            }
        }
    };
    within(&shared["funcTable"]["name"], strings);
    within(&shared["funcTable"]["source"], length(&shared["sources"]));
    within(
        &shared["funcTable"]["resource"],
        length(&shared["resourceTable"]),
    );
    within(&shared["resourceTable"]["name"], strings);
    within(&shared["sources"]["filename"], strings);
    within(&shared["frameTable"]["func"], length(&shared["funcTable"]));
    let categories = document["meta"]["categories"]
        .as_array()
        .expect("categories");
    within(&shared["frameTable"]["category"], categories.len());
    within(
        &shared["stackTable"]["frame"],
        length(&shared["frameTable"]),
    );
    let prefixes = shared["stackTable"]["prefix"].as_array().expect("prefixes");
    for (at, prefix) in prefixes.iter().enumerate() {
        assert!(prefix.as_u64().is_none_or(|prefix| (prefix as usize) < at));
    }
    for thread in document["threads"].as_array().expect("threads") {
        let samples = &thread["samples"];
        within(&samples["stack"], prefixes.len());
        let times = samples["time"].as_array().expect("times");
        let times: Vec<f64> = times.iter().filter_map(Value::as_f64).collect();
        assert_eq!(times.len(), length(samples));
        assert!(times.is_sorted());
        assert!(thread["pid"].is_string() && thread["isMainThread"].is_boolean());
    }
}

#[test]
fn the_firefox_profiler_gets_threads_with_their_times() {
    let document = firefox_of(&example());
    check_firefox(&document);
    assert_eq!(
        document["meta"]["preprocessedProfileVersion"],
        firefox::VERSION
    );
    let threads = document["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 1);
    assert_eq!(threads[0]["name"], "connection (8)");
    assert_eq!(threads[0]["samples"]["weight"][0], 3.0);
    assert_eq!(document["shared"]["frameTable"]["inlineDepth"][2], 1);
    let without = Profile {
        timeline: Vec::new(),
        ..example()
    };
    let document = firefox_of(&without);
    check_firefox(&document);
    let names: Vec<&Value> = document["threads"]
        .as_array()
        .expect("threads")
        .iter()
        .map(|thread| &thread["name"])
        .collect();
    assert_eq!(names, ["log writer", "user thread"]);
}

/// Names as no compiler makes them.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z;<>&\"' \n\t\r0-9#_\\[\\]\u{0}\u{202e}\u{fffd}\u{ffff}]{0,40}",
        Just("f 42".to_owned()),
        Just("# f".to_owned()),
        Just("</script><img src=x onerror=alert(1)>".to_owned()),
        Just(String::from_utf8_lossy(b"a\xff\xfe;b").into_owned()),
        "[a-z]{1,3}".prop_map(|part| format!("std::vector<{}>", part.repeat(4_000))),
    ]
}

fn hostile_profile() -> impl Strategy<Value = Profile> {
    let stack = proptest::collection::vec((hostile(), any::<bool>(), any::<bool>()), 0..6);
    let kinds = prop_oneof![Just(Kind::OnCpu), Just(Kind::OffCpu), Just(Kind::Runnable)];
    let one = (
        hostile(),
        proptest::option::of(hostile()),
        kinds,
        stack,
        1u64..1 << 40,
    );
    proptest::collection::vec(one, 1..6).prop_map(|all| {
        let mut made = Made::new();
        for (role, digest, kind, stack, ns) in all {
            let calls = stack.iter().map(|(name, inlined, kernel)| Frame {
                inlined: *inlined,
                kernel: *kernel,
                file: kernel.then(|| name.as_str().into()),
                line: inlined.then_some(7),
                module: name.as_str().into(),
                ..frame(name)
            });
            made.add(who(&role, digest.as_deref()), kind, calls.collect(), ns);
        }
        made.0.profile.threads.insert(8, "<t>;\n 9".to_owned());
        made.profile()
    })
}

/// Whether it is well-formed as far as a drawing's names could break it.
fn check_xml(svg: &[u8]) {
    let text = std::str::from_utf8(svg).expect("UTF-8");
    let allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    assert!(
        text.chars()
            .all(|c| allowed(c) && !matches!(c, '\u{fffe}' | '\u{ffff}'))
    );
    // The drawing's own script stands in CDATA; what follows it is made of elements only.
    let body = text.rsplit_once("]]>").map_or(text, |(_, body)| body);
    let mut open = Vec::new();
    for tag in body.split('<').skip(1) {
        let (tag, content) = tag.split_once('>').expect("an element ends");
        assert!(!content.contains('>'), "{content}");
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(name), _) if open.is_empty() => {
                assert!(["script", "style"].contains(&name) || name == "svg")
            }
            (Some(name), _) => assert_eq!(open.pop().as_deref(), Some(name)),
            (None, true) => {}
            (None, false) => open.push(tag.split_whitespace().next().unwrap_or("").to_owned()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_name_breaks_folded_lines(profile in hostile_profile()) {
        for root in [Root::All, Root::Role, Root::Digest, Root::Process, Root::Thread] {
            let view = View::default().by(root);
            let text = folded::text(&profile, &view);
            let mut sum = 0;
            for line in text.lines() {
                let (stack, weight) = line.rsplit_once(' ').expect("a weight");
                sum += weight.parse::<u64>().expect("a number");
                let last = stack.rsplit_once(' ').map(|(_, last)| last);
                prop_assert!(last.is_none_or(|last| last.parse::<f64>().is_err()), "{}", line);
                prop_assert!(!stack.is_empty() && stack.split(';').all(|call| !call.is_empty()));
                prop_assert!(!line.starts_with("# "));
            }
            prop_assert_eq!(sum, profile.entries.iter().map(|entry| entry.ns).sum::<u64>());
        }
    }

    #[test]
    fn no_name_breaks_a_drawing(profile in hostile_profile()) {
        let view = View::default().by(Root::Digest);
        check_xml(&flame::svg(&profile, &view, "a <title> & \u{1b}[31m").expect("a graph"));
        check_xml(&diff::svg(&profile, &profile, &view, "x").expect("a graph"));
    }

    #[test]
    fn no_name_breaks_pprof(profile in hostile_profile()) {
        let read = pprof_of(&profile);
        let strings = read.string_table.len() as i64;
        prop_assert_eq!(read.string_table[0].as_str(), "");
        prop_assert_eq!(read.sample.len(), profile.entries.len());
        let total: i64 = read.sample.iter().flat_map(|sample| &sample.value[1..]).sum();
        prop_assert_eq!(total as u64, profile.entries.iter().map(|entry| entry.ns).sum::<u64>());
        for sample in &read.sample {
            for id in &sample.location_id {
                prop_assert!((1..=read.location.len() as u64).contains(id));
            }
            for label in &sample.label {
                prop_assert!((0..strings).contains(&label.key) && label.str < strings);
            }
        }
        for location in &read.location {
            prop_assert!((1..=read.mapping.len() as u64).contains(&location.mapping_id));
            for line in &location.line {
                prop_assert!((1..=read.function.len() as u64).contains(&line.function_id));
            }
        }
    }

    #[test]
    fn no_name_breaks_the_firefox_profiler(profile in hostile_profile()) {
        check_firefox(&firefox_of(&profile));
        let without = Profile { timeline: Vec::new(), ..profile };
        check_firefox(&firefox_of(&without));
    }
}

#[test]
fn an_index_that_leads_nowhere_is_damage_and_no_panic() {
    let mut profile = example();
    profile.frames.truncate(1);
    profile.stacks.truncate(1);
    profile.whos.clear();
    profile.timeline[0].tid = 99;
    let folded = folded::text(&profile, &View::default().by(Root::Role));
    assert!(folded.contains("[damaged]"), "{folded}");
    assert!(flame::svg(&profile, &View::default(), "x").is_ok());
    check_firefox(&firefox_of(&profile));
    assert_eq!(pprof_of(&profile).sample.len(), 4);
}
