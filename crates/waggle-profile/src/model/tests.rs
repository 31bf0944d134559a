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
        start_ns: None,
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

/// A recording of a process of pid 7 that was started at this time, and used 100 ns.
fn recording(start_ns: Option<u64>, ns: u64) -> Profile {
    let mut one = profile("user", &["main", "work"], ns);
    one.whos[0].start_ns = start_ns;
    one.processes.push(Process {
        process: "target 7".into(),
        pid: 7,
        start_ns,
        cpu_ns: Some(100),
    });
    one
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let mut all = recording(Some(10), 1);
    all.merge(&recording(Some(20), 2));
    all.merge(&recording(Some(10), 4));
    all.merge(&recording(Some(20), 8));
    // One that was told apart already.
    let mut both = recording(Some(30), 16);
    both.merge(&recording(Some(20), 32));
    all.merge(&both);
    let of = |process: &str| {
        let filter = Filter {
            process: Some(process.to_owned()),
            ..Filter::default()
        };
        all.filter(&filter).total_ns(Kind::OnCpu)
    };
    let names = ["target 7", "target 7 (2)", "target 7 (3)"];
    assert_eq!(names.map(of), [5, 2 + 8 + 32, 16]);
    assert_eq!((all.whos.len(), all.entries.len()), (3, 3));
    assert_eq!(all.total_ns(Kind::OnCpu), 63);
    let seen: Vec<u32> = all.timeline.iter().map(|t| t.who.0).collect();
    assert_eq!(seen, [0, 1, 0, 1, 2, 1]);
    let processes: Vec<_> = all
        .processes
        .iter()
        .map(|p| (&*p.process, p.start_ns, p.cpu_ns))
        .collect();
    let expected = [
        ("target 7", Some(10), Some(200)),
        ("target 7 (2)", Some(20), Some(300)),
        ("target 7 (3)", Some(30), Some(100)),
    ];
    assert_eq!(processes, expected);
    assert_eq!(Profile::from_json(&all.to_json()).unwrap(), all);
}

#[test]
fn of_a_profile_that_knows_no_starts_the_pid_tells() {
    let mut all = recording(None, 1);
    all.merge(&recording(None, 2));
    assert_eq!((all.whos.len(), all.processes.len()), (1, 1));
    assert_eq!(all.processes[0].cpu_ns, Some(200));
    // An earlier version wrote no such field.
    let text = String::from_utf8(all.to_json()).unwrap();
    assert!(!text.contains("start_ns"), "{text}");
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
