//! Are the formats what their readers expect, whatever the names?
//!
//! Neighbours: `made` has the profiles, a module each reads what is hard to read, `hostile` the
//! names.

mod hostile;
mod made;
mod read_firefox;
mod read_pprof;

use super::*;
use crate::model::{Kind, Profile};
use made::example;
use read_firefox::{check_firefox, firefox_of};
use read_pprof::pprof_of;

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
