//! A profile in the run directory: itself, and a flame graph of each kind of time.
//!
//! Invariant: `profile.json` (or `profile-NAME.json`) is written first; a drawing that cannot be
//! made, since there is nothing of its kind, is left out.

use std::path::PathBuf;

use waggle_profile::model::{Kind, Profile};
use waggle_profile::out::{Root, View, flame};
use waggle_report::profile::{ProfilePart, ProfileReport};
use waggle_report::run::{RunDir, RunError};

/// Writes them; `name` tells several profiles of a run apart and is empty for the only one.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(run: &RunDir, name: &str, profile: &Profile) -> Result<Vec<PathBuf>, RunError> {
    // Single samples were for dividing it; they would be most of the bytes.
    let whole = Profile {
        timeline: Vec::new(),
        ..profile.clone()
    };
    let mut written = vec![run.write_profile(name, &whole.to_json())?];
    for (file, svg) in drawings(&whole, name) {
        written.push(run.write_file(&file, &svg)?);
    }
    Ok(written)
}

/// Files and what they hold.
fn drawings(profile: &Profile, name: &str) -> Vec<(String, Vec<u8>)> {
    let stem = match name {
        "" => "flame".to_owned(),
        name => format!("flame-{name}"),
    };
    let mut processes: Vec<&str> = profile.whos.iter().map(|who| &*who.process).collect();
    processes.sort_unstable();
    processes.dedup();
    let title = match name {
        "" => processes.join(", "),
        name => format!("{name}: {}", processes.join(", ")),
    };
    let root = match processes.len() {
        0 | 1 => Root::All,
        _ => Root::Process,
    };
    let mut views = vec![
        ("on-cpu", View::of(Kind::OnCpu).by(root)),
        ("off-cpu", View::of(Kind::OffCpu).by(root)),
    ];
    if profile.whos.iter().any(|who| who.digest.is_some()) {
        views.push(("by-digest", View::of(Kind::OnCpu).by(Root::Digest)));
    }
    let drawn = views.into_iter().filter_map(|(what, view)| {
        let svg = flame::svg(profile, &view, &title).ok()?;
        Some((format!("{stem}-{what}.svg"), svg))
    });
    drawn.collect()
}

/// The profile as a report has it.
pub(crate) fn part(name: &str, profile: &Profile) -> ProfilePart {
    let whole = Profile {
        timeline: Vec::new(),
        ..profile.clone()
    };
    // What was written by one and is read by the other; a test of the report holds them together.
    let report = serde_json::from_slice::<ProfileReport>(&whole.to_json()).unwrap_or_default();
    ProfilePart {
        name: name.to_owned(),
        report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_profile::model::{Builder, Digest, Frame, Process, Stack, Who};

    fn profile() -> Profile {
        let mut all = Builder::default();
        let frame = all.frame(Frame {
            name: "row_search_mvcc".into(),
            module: "mysqld".into(),
            file: Some("row0sel.cc".into()),
            line: Some(42),
            inlined: true,
            kernel: false,
        });
        let stack = all.stack(Stack {
            frames: [frame].into(),
            truncated: true,
        });
        let who = all.who(Who {
            process: "mysqld 7".into(),
            pid: 7,
            role: "user thread".into(),
            thread: Some("connection 8".into()),
            digest: Some("00000000000000aa".into()),
        });
        all.add(who, Kind::OnCpu, stack, 3, 30_000_000);
        all.add(who, Kind::Runnable, stack, 1, 5_000);
        all.profile.started = "2026-11-22T01:02:03.000Z".to_owned();
        all.profile.duration_ns = 1_000_000_000;
        all.profile.frequency_hz = 99;
        all.profile.digests.push(Digest {
            digest: "00000000000000aa".into(),
            fingerprint: "select ?".into(),
            statements: 4,
            cpu_ns: 29_000_000,
        });
        all.profile.lost.count("ring full", 2);
        all.profile.notes.push("by frame pointers".to_owned());
        all.profile.processes.push(Process {
            process: "mysqld 7".into(),
            pid: 7,
            cpu_ns: Some(31_000_000),
        });
        all.finish()
    }

    #[test]
    fn a_report_reads_all_that_a_profile_writes() {
        let profile = profile();
        let read = part("x", &profile).report;
        let back = serde_json::to_vec(&read).expect("JSON");
        let mut kept = Profile::from_json(&with_timeline(&back)).expect("a profile");
        kept.timeline = profile.timeline.clone();
        assert_eq!(kept, profile);
    }

    /// A report leaves the timeline out, which a profile must have.
    fn with_timeline(json: &[u8]) -> Vec<u8> {
        let mut value: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        value["timeline"] = serde_json::json!([]);
        serde_json::to_vec(&value).expect("JSON")
    }

    #[test]
    fn the_run_has_a_drawing_of_each_kind_that_there_is() {
        let root = tempfile::tempdir().expect("a directory");
        let run = RunDir::create(root.path(), "bench", "x").expect("a run");
        let written = write(&run, "watch", &profile()).expect("files");
        let names: Vec<String> = written
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        let expected = [
            "profile-watch.json",
            "flame-watch-on-cpu.svg",
            "flame-watch-by-digest.svg",
        ];
        assert_eq!(names, expected);
    }
}
