//! Do profiles add up, and are broken ones refused?

use super::*;

fn frame(name: &str) -> Frame {
    Frame {
        name: name.into(),
        module: "target".into(),
        file: None,
        line: None,
        inlined: false,
        kernel: false,
    }
}

fn who(role: &str, digest: Option<&str>) -> Who {
    Who {
        process: "target 7".into(),
        pid: 7,
        role: role.into(),
        thread: None,
        digest: digest.map(Arc::from),
    }
}

fn profile(role: &str, names: &[&str], ns: u64) -> Profile {
    let mut all = Builder::default();
    let frames = names.iter().map(|name| all.frame(frame(name))).collect();
    let stack = all.stack(Stack {
        frames,
        truncated: false,
    });
    let who = all.who(who(role, Some("00000000000000aa")));
    all.add(who, Kind::OnCpu, stack, 1, ns);
    all.profile.timeline.push(Timed {
        at_ns: 5,
        tid: 7,
        who,
        kind: Kind::OnCpu,
        stack,
        ns,
    });
    all.profile.duration_ns = 100;
    all.profile.lost.count("ring full", 2);
    all.finish()
}

#[test]
fn merged_profiles_have_the_time_of_both() {
    let mut all = profile("user", &["main", "work"], 10);
    all.merge(&profile("user", &["main", "work"], 20));
    all.merge(&profile("purge", &["main", "sweep"], 5));
    assert_eq!(all.total_ns(Kind::OnCpu), 35);
    assert_eq!((all.entries.len(), all.entries[0].samples), (2, 2));
    assert_eq!(
        (all.frames.len(), all.stacks.len(), all.whos.len()),
        (3, 2, 2)
    );
    assert_eq!(all.duration_ns, 300);
    let times: Vec<u64> = all.timeline.iter().map(|timed| timed.at_ns).collect();
    assert_eq!(times, [5, 105, 205]);
    assert_eq!(all.lost.by_cause["ring full"], 6);
    let names: Vec<&str> = all.frames_of(StackId(1)).map(|f| &*f.name).collect();
    assert_eq!(names, ["main", "sweep"]);
}

#[test]
fn a_filter_keeps_what_it_names() {
    let mut all = profile("user", &["main", "work"], 10);
    all.merge(&profile("purge", &["main", "sweep"], 5));
    let of = |filter: Filter| all.filter(&filter).total_ns(Kind::OnCpu);
    let role = |role: &str| Filter {
        role: Some(role.to_owned()),
        ..Filter::default()
    };
    assert_eq!(of(Filter::default()), 15);
    assert_eq!(
        (of(role("user")), of(role("purge")), of(role("none"))),
        (10, 5, 0)
    );
    let digest = Filter {
        digest: Some("00000000000000aa".to_owned()),
        ..role("purge")
    };
    assert_eq!(of(digest), 5);
    let off = Filter {
        kinds: vec![Kind::OffCpu],
        ..Filter::default()
    };
    assert_eq!(of(off), 0);
}

#[test]
fn what_is_written_is_read_back_and_what_is_broken_is_not() {
    let all = profile("user", &["main", "work"], 10);
    let bytes = all.to_json();
    assert_eq!(Profile::from_json(&bytes).unwrap(), all);
    assert!(matches!(
        Profile::from_json(&bytes[..bytes.len() - 9]),
        Err(ModelError::Shape(_))
    ));
    let mut wild = all.clone();
    wild.entries[0].stack = StackId(9);
    assert!(matches!(
        Profile::from_json(&wild.to_json()),
        Err(ModelError::Index("an entry"))
    ));
    let mut wild = all.clone();
    wild.stacks[0].frames[0] = FrameId(u32::MAX);
    assert!(Profile::from_json(&wild.to_json()).is_err());
    let mut wild = all;
    wild.timeline[0].who = WhoId(1);
    assert!(Profile::from_json(&wild.to_json()).is_err());
}
