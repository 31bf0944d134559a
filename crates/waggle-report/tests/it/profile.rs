//! A profile from its run directory in every form.

use std::fs;

use proptest::prelude::*;
use waggle_report::document::Document;
use waggle_report::page::{PROFILE_ID, render_bench};
use waggle_report::profile::{ProfilePage, ProfilePart, ProfileReport};
use waggle_report::run::{Outcome, PROFILE_FILE, RUN_FILE, Run, RunDir};
use waggle_report::{profile, summary};

use crate::profile_example::{alone, compared, report};

#[test]
fn a_profile_survives_its_run_directory_in_every_form() {
    let root = tempfile::tempdir().expect("a directory");
    let run = RunDir::create(root.path(), "profile", "mysqld").expect("a run");
    let json = serde_json::to_vec(&report(false)).expect("JSON");
    run.write_profile("", &json).expect("a profile");
    let path = run.finish(Outcome::Done, None).expect("an end");
    let run = Run::open(&path).expect("a run");
    let document = Document::read(&run).expect("a document");
    assert_eq!(document.kind(), "profile");
    let html = document.html().expect("a page");
    assert!(!html.contains("<img src=x"), "a name became markup");
    assert_eq!(
        html.matches("<script").count(),
        html.matches("</script>").count()
    );
    let read: ProfileReport =
        serde_json::from_value(document.json(&run).expect("JSON")).expect("a profile");
    assert_eq!(read, report(false));
    let functions = document.windows_csv().expect("CSV");
    let most = functions.lines().nth(1).expect("a function");
    assert_eq!(
        most,
        ",on-cpu,row_sel_get_clust_rec,mysqld,1001,10111111010,1001,10111111010"
    );
    let whos = document.results_csv().expect("CSV");
    assert!(
        whos.contains(",on-cpu,mysqld 4711,user thread,connection 4712,"),
        "{whos}"
    );
    let markdown = document.markdown().expect("Markdown");
    assert!(!markdown.contains("<img"), "{markdown}");
    assert!(markdown.contains("3 samples did not arrive"), "{markdown}");
    let text = summary::text(&run, false).expect("text");
    assert!(
        text.contains("row_search_mvcc") && text.contains("ring full"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 130),
        "{text}"
    );
}

#[test]
fn the_answer_names_role_and_function() {
    assert_eq!(
        alone().headline(),
        "mysqld 4711 spent 19.31 s on CPU in 30 s, 78.5% of it in the role user thread; the \
         function with most time of its own is row_sel_get_clust_rec (52.4%)."
    );
    assert_eq!(
        ProfilePage::default().headline(),
        "The run holds no profile."
    );
    let empty = ProfilePage {
        parts: vec![ProfilePart::default()],
        ..ProfilePage::default()
    };
    assert_eq!(empty.headline(), "Nothing was sampled.");
    assert!(profile::text(&ProfileReport::default(), false).contains("nothing was sampled"));
}

#[test]
fn a_bench_run_with_profiles_has_them_on_its_page() {
    let root = tempfile::tempdir().expect("a directory");
    let path = crate::bench_example::write(root.path(), false);
    for (name, heavier) in [("", false), ("watch", true)] {
        let file = match name {
            "" => PROFILE_FILE.to_owned(),
            name => format!("profile-{name}.json"),
        };
        let json = serde_json::to_vec(&report(heavier)).expect("JSON");
        fs::write(path.join(file), json).expect("a file");
    }
    let run = Run::open(&path).expect("a run");
    let Document::Bench(bench) = Document::read(&run).expect("a document") else {
        panic!("no bench run");
    };
    let names: Vec<&str> = bench
        .profile
        .iter()
        .flat_map(|page| page.parts.iter().map(|part| part.name.as_str()))
        .collect();
    assert_eq!(names, ["", "watch"]);
    let html = render_bench(&bench);
    assert!(html.contains(&format!("id=\"{PROFILE_ID}\"")));
    assert!(!html.contains("<img src=x"), "a name became markup");
    let text = summary::text(&run, false).expect("text");
    assert!(text.contains("== watch"), "{text}");
}

#[test]
fn every_index_of_the_page_leads_somewhere() {
    let data = profile::page_data(&compared());
    assert_eq!((data.shown, data.against), (1, Some(0)));
    for part in &data.parts {
        let (frames, nodes) = (part.frames.name.len(), part.nodes.frame.len());
        assert!(
            part.frames
                .name
                .iter()
                .chain(&part.frames.module)
                .all(|at| *at < part.strings.len())
        );
        assert!(part.nodes.frame.iter().all(|at| *at < frames));
        for (at, parent) in part.nodes.parent.iter().enumerate() {
            assert!((-1..at as i64).contains(parent));
        }
        assert!(
            part.entries
                .node
                .iter()
                .all(|at| (-1..nodes as i64).contains(at))
        );
        assert!(part.entries.who.iter().all(|at| *at < part.whos.len()));
        let longest = part.strings.iter().map(|name| name.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest < 2_100));
        let ns: u64 = part.entries.ns.iter().sum();
        assert!(ns > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_damaged_profile_is_refused_or_shown_and_never_panics(
        at in 0_usize..60_000,
        with in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'9'), Just(b'[')], 0..6),
        cut in any::<bool>(),
    ) {
        let mut json = serde_json::to_vec(&report(false)).expect("JSON");
        let at = at % json.len();
        if cut {
            json.truncate(at);
        } else {
            json.splice(at..at, with.iter().copied());
        }
        let root = tempfile::tempdir().expect("a directory");
        let facts = r#"{"format_version":1,"verb":"profile","name":"x"}"#;
        fs::write(root.path().join(RUN_FILE), facts).expect("a file");
        fs::write(root.path().join(PROFILE_FILE), json).expect("a file");
        let run = Run::open(root.path()).expect("a run");
        if let Ok(document) = Document::read(&run) {
            let html = document.html().expect("a page");
            prop_assert!(!html.contains("<img src=x"));
            let _ = (document.markdown(), document.windows_csv(), document.results_csv());
            let text = summary::text(&run, false).expect("text");
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
