//! Made-up profiles that use every part of their document; names in them are hostile.

use waggle_report::profile::{
    ProfileDigest, ProfileEntry, ProfileFrame, ProfileKind, ProfileLosses, ProfilePage,
    ProfilePart, ProfileProcess, ProfileReport, ProfileStack, ProfileWho,
};
use waggle_report::run::RunFacts;

pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)>|`</script>;\n 42";

fn frame(name: &str, module: &str) -> ProfileFrame {
    ProfileFrame {
        name: name.to_owned(),
        module: module.to_owned(),
        ..ProfileFrame::default()
    }
}

fn frames() -> Vec<ProfileFrame> {
    let inlined = ProfileFrame {
        file: Some("row0sel.cc".to_owned()),
        line: Some(42),
        inlined: true,
        ..frame("row_sel_get_clust_rec", "mysqld")
    };
    let kernel = ProfileFrame {
        kernel: true,
        ..frame("do_futex", "[kernel]")
    };
    vec![
        frame("handle_connection", "mysqld"),
        frame("row_search_mvcc", "mysqld"),
        inlined,
        frame(HOSTILE, "mysqld"),
        frame(
            &format!("std::map<{}>", "std::string, ".repeat(900)),
            "libstdc++.so.6",
        ),
        kernel,
        frame("", ""),
    ]
}

fn digests() -> Vec<ProfileDigest> {
    vec![
        ProfileDigest {
            digest: "00000000000000aa".to_owned(),
            fingerprint: "select c from sbtest? where id=?".to_owned(),
            statements: 200_000,
            cpu_ns: 15_000_000_000,
        },
        ProfileDigest {
            digest: "00000000000000bb".to_owned(),
            fingerprint: HOSTILE.to_owned(),
            ..ProfileDigest::default()
        },
    ]
}

/// A server under load; `heavier` doubles the time in one function.
pub(crate) fn report(heavier: bool) -> ProfileReport {
    let stack = |frames: &[u32], truncated| ProfileStack {
        frames: frames.to_vec(),
        truncated,
    };
    let who = |role: &str, digest: Option<&str>| ProfileWho {
        process: "mysqld 4711".to_owned(),
        pid: 4711,
        start_ns: Some(1_230_000_000),
        role: role.to_owned(),
        thread: digest.map(|_| "connection 4712".to_owned()),
        digest: digest.map(str::to_owned),
    };
    let entry = |who, kind, stack, samples| ProfileEntry {
        who,
        kind,
        stack,
        samples,
        ns: samples * 10_101_010,
    };
    let (on, off) = (ProfileKind::OnCpu, ProfileKind::OffCpu);
    ProfileReport {
        started: "2026-11-21T10:03:12.481Z".to_owned(),
        duration_ns: 30_000_000_000,
        frequency_hz: 99,
        frames: frames(),
        stacks: vec![
            stack(&[0, 1, 2], false),
            stack(&[0, 3], false),
            stack(&[0, 4, 4], true),
            stack(&[0, 5], false),
            stack(&[6], false),
            stack(&[], false),
        ],
        whos: vec![
            who("user thread", Some("00000000000000aa")),
            who("log writer", None),
            who(HOSTILE, Some("00000000000000bb")),
        ],
        entries: vec![
            entry(0, on, 0, if heavier { 2_000 } else { 1_000 }),
            entry(0, on, 1, 500),
            entry(2, on, 2, 300),
            entry(1, on, 4, 100),
            entry(1, on, 5, 10),
            entry(1, off, 3, 2_000),
            entry(1, ProfileKind::Runnable, 3, 30),
            // Damaged: these lead nowhere.
            entry(99, on, 0, 1),
            entry(0, on, 99, 1),
        ],
        threads: [(4712, "connection".to_owned())].into(),
        digests: digests(),
        processes: vec![ProfileProcess {
            process: "mysqld 4711".to_owned(),
            pid: 4711,
            start_ns: Some(1_230_000_000),
            cpu_ns: Some(19_400_000_000),
        }],
        notes: vec![format!("no frames described in {HOSTILE}")],
        lost: ProfileLosses {
            samples: 3,
            truncated: 300,
            by_cause: [("ring full".to_owned(), 3)].into(),
            ..ProfileLosses::default()
        },
    }
}

fn facts(verb: &str) -> RunFacts {
    RunFacts {
        verb: verb.to_owned(),
        command: ["waggle", verb, "--pid", "4711"]
            .map(str::to_owned)
            .to_vec(),
        started: "2026-11-21T10:03:12.481Z".to_owned(),
        waggle_version: "0.1.0".to_owned(),
        ..RunFacts::default()
    }
}

/// The only profile of a run.
pub(crate) fn alone() -> ProfilePage {
    let part = ProfilePart {
        name: String::new(),
        report: report(false),
    };
    ProfilePage::new(vec![part], &facts("profile"))
}

/// Two, the second shown against the first.
pub(crate) fn compared() -> ProfilePage {
    let part = |name: &str, heavier| ProfilePart {
        name: name.to_owned(),
        report: report(heavier),
    };
    let parts = vec![part("before", false), part(HOSTILE, true)];
    ProfilePage {
        shown: (1, Some(0)),
        answer: Some("What changed.".to_owned()),
        ..ProfilePage::new(parts, &facts("compare"))
    }
}
