//! Profiles to be shown: an example with everything in it, and what to make others of.

use std::sync::Arc;

use crate::model::{Builder, Digest, Frame, Kind, Profile, Stack, Timed, Who};

pub(super) fn frame(name: &str) -> Frame {
    Frame {
        name: name.into(),
        module: "mysqld".into(),
        file: None,
        line: None,
        inlined: false,
        kernel: false,
    }
}

pub(super) fn who(role: &str, digest: Option<&str>) -> Who {
    Who {
        process: "mysqld 7".into(),
        pid: 7,
        start_ns: None,
        role: role.into(),
        thread: None,
        digest: digest.map(Arc::from),
    }
}

/// A profile in the making.
pub(super) struct Made(pub(super) Builder);

impl Made {
    pub(super) fn new() -> Self {
        let mut all = Builder::default();
        all.profile.started = "2026-11-22T01:02:03.000Z".to_owned();
        all.profile.duration_ns = 30_000_000_000;
        all.profile.frequency_hz = 99;
        Self(all)
    }

    pub(super) fn add(&mut self, whose: Who, kind: Kind, frames: Vec<Frame>, ns: u64) -> &mut Self {
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

    pub(super) fn profile(self) -> Profile {
        self.0.finish()
    }
}

/// Two roles, two statements, all kinds, the kernel, an inlined call with its line.
pub(super) fn example() -> Profile {
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
