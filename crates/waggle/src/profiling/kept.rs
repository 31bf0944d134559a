//! A profile in the run directory: itself, and the files that are made of it.
//!
//! Every verb keeps its profiles here, so that a file is the same wherever it lies: `flame-`, the
//! profile's name if it has one, and `on-cpu`, `off-cpu`, `runnable` or `by-digest`.
//! Neighbour: `waggle report` makes the same forms of a `profile.json` that is there.
//!
//! Invariant: `profile.json` (or `profile-NAME.json`) is written first; a file of what there is
//! nothing of is left out; one that cannot be made is said.

use std::path::Path;

use clap::ValueEnum;
use waggle_profile::model::{Kind, Profile};
use waggle_profile::out::{OutError, Root, View, firefox, flame, folded, pprof};
use waggle_report::profile::{ProfilePart, ProfileReport};
use waggle_report::run::{RunDir, RunError};

const KINDS: [Kind; 3] = [Kind::OnCpu, Kind::OffCpu, Kind::Runnable];
/// So many processes are named in a heading.
const NAMED_MAX: usize = 3;

/// A file for people or for another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Flame graphs that can be zoomed and searched
    Svg,
    /// Folded stacks, a line each
    Folded,
    /// For pprof: profile.pb.gz
    Pprof,
    /// For profiler.firefox.com, with a time line
    Firefox,
}

/// Which files are made of a profile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// What stands below each stack; by default the process, where there are several.
    pub(crate) root: Option<Root>,
    /// Which files.
    pub(crate) formats: &'a [Format],
}

impl Wanted<'static> {
    /// What is kept beside what a verb measures.
    pub(crate) const FLAME_GRAPHS: Self = Self {
        root: None,
        formats: &[Format::Svg],
    };
}

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The files' names.
    pub(crate) files: Vec<String>,
    /// What a format's library refused to make, and why.
    pub(crate) refused: Vec<String>,
}

impl Kept {
    fn put(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.files.push(name.to_string_lossy().into_owned());
    }
}

/// Writes them; `name` tells several profiles of a run apart and is empty for the only one.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(
    run: &RunDir,
    name: &str,
    profile: &Profile,
    wanted: &Wanted<'_>,
) -> Result<Kept, RunError> {
    let whole = without_moments(profile);
    let mut kept = Kept::default();
    kept.put(&run.write_profile(name, &whole.to_json())?);
    let views = views(&whole, wanted.root);
    for format in wanted.formats {
        let made = match format {
            Format::Svg => drawings(&whole, name, &views),
            Format::Folded => foldings(&whole, name, &views),
            Format::Pprof => vec![(before(name, "profile.pb.gz"), pprof::bytes(&whole))],
            Format::Firefox => {
                let file = before(name, "profile.firefox.json");
                vec![(file, Ok(firefox::json(profile)))]
            }
        };
        for (file, bytes) in made {
            match bytes {
                Ok(bytes) => kept.put(&run.write_file(&file, &bytes)?),
                Err(OutError::Empty { .. }) => {}
                Err(error) => kept
                    .refused
                    .push(format!("{file} was not written: {error}")),
            }
        }
    }
    Ok(kept)
}

/// A file and what it holds.
type Made = (String, Result<Vec<u8>, OutError>);

fn drawings(profile: &Profile, name: &str, views: &[(&str, View)]) -> Vec<Made> {
    let title = title(name, profile);
    let stem = match name {
        "" => "flame".to_owned(),
        name => format!("flame-{name}"),
    };
    let drawn = views.iter().map(|(what, view)| {
        let svg = flame::svg(profile, view, &title);
        (format!("{stem}-{what}.svg"), svg)
    });
    drawn.collect()
}

fn foldings(profile: &Profile, name: &str, views: &[(&str, View)]) -> Vec<Made> {
    let folded = views.iter().map(|(what, view)| {
        let file = before(name, &format!("{what}.folded"));
        (file, Ok(folded::text(profile, view).into_bytes()))
    });
    folded.collect()
}

/// What is drawn, and what that is called in the files' names.
fn views(profile: &Profile, root: Option<Root>) -> Vec<(&'static str, View)> {
    let root = root.unwrap_or(match processes(profile).len() {
        0 | 1 => Root::All,
        _ => Root::Process,
    });
    let lines = has_lines(profile);
    let view = |kind, root| View {
        lines,
        ..View::of(kind).by(root)
    };
    let there = KINDS.into_iter().filter(|kind| profile.total_ns(*kind) > 0);
    let mut views: Vec<(&str, View)> = there.map(|kind| (kind.name(), view(kind, root))).collect();
    let has_digests = profile.whos.iter().any(|who| who.digest.is_some());
    if has_digests && root != Root::Digest && profile.total_ns(Kind::OnCpu) > 0 {
        views.push(("by-digest", view(Kind::OnCpu, Root::Digest)));
    }
    views
}

/// Whether source lines were asked for and are known, so that drawings tell them.
pub(crate) fn has_lines(profile: &Profile) -> bool {
    profile.frames.iter().any(|frame| frame.line.is_some())
}

/// The file of a profile with a name; what begins with `profile-` is a profile itself.
fn before(name: &str, file: &str) -> String {
    match name {
        "" => file.to_owned(),
        name => format!("{name}-{file}"),
    }
}

/// What a drawing is headed with: the profile's name, if it has one, and its processes.
pub(crate) fn title(name: &str, profile: &Profile) -> String {
    let processes = processes(profile);
    let more = processes.len().saturating_sub(NAMED_MAX);
    let mut title = processes[..processes.len() - more].join(", ");
    if more > 0 {
        title.push_str(&format!(" and {more} more"));
    }
    match name {
        "" => title,
        name => format!("{name}: {title}"),
    }
}

/// The processes that were seen, each once.
fn processes(profile: &Profile) -> Vec<&str> {
    let mut processes: Vec<&str> = profile.whos.iter().map(|who| &*who.process).collect();
    processes.sort_unstable();
    processes.dedup();
    processes
}

/// Single samples were for dividing it and for a time line; they would be most of the bytes.
fn without_moments(profile: &Profile) -> Profile {
    Profile {
        timeline: Vec::new(),
        ..profile.clone()
    }
}

/// The profile as a report has it.
pub(crate) fn part(name: &str, profile: &Profile) -> ProfilePart {
    let json = without_moments(profile).to_json();
    // What was written by one and is read by the other; a test of the report holds them together.
    let report = serde_json::from_slice::<ProfileReport>(&json).unwrap_or_default();
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
            start_ns: Some(40_000_000),
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
            start_ns: Some(40_000_000),
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
        let kept = write(&run, "watch", &profile(), &Wanted::FLAME_GRAPHS).expect("files");
        let expected = [
            "profile-watch.json",
            "flame-watch-on-cpu.svg",
            "flame-watch-runnable.svg",
            "flame-watch-by-digest.svg",
        ];
        assert_eq!(kept.files, expected);
        assert!(kept.refused.is_empty(), "{:?}", kept.refused);
    }

    #[test]
    fn the_only_profile_has_files_without_a_name_in_every_form() {
        let root = tempfile::tempdir().expect("a directory");
        let run = RunDir::create(root.path(), "profile", "x").expect("a run");
        let wanted = Wanted {
            root: Some(Root::Digest),
            formats: Format::value_variants(),
        };
        let kept = write(&run, "", &profile(), &wanted).expect("files");
        // By digest each drawing is anyway.
        let expected = [
            "profile.json",
            "flame-on-cpu.svg",
            "flame-runnable.svg",
            "on-cpu.folded",
            "runnable.folded",
            "profile.pb.gz",
            "profile.firefox.json",
        ];
        assert_eq!(kept.files, expected);
        assert!(kept.refused.is_empty(), "{:?}", kept.refused);
        for file in &kept.files {
            assert!(run.path().join(file).is_file(), "{file}");
        }
        let folded = std::fs::read_to_string(run.path().join("on-cpu.folded")).expect("a file");
        assert!(folded.contains("row0sel.cc:42"), "{folded}");
    }

    #[test]
    fn of_nothing_there_are_no_drawings() {
        let root = tempfile::tempdir().expect("a directory");
        let run = RunDir::create(root.path(), "bench", "x").expect("a run");
        let kept = write(&run, "", &Profile::default(), &Wanted::FLAME_GRAPHS).expect("files");
        assert_eq!(kept.files, ["profile.json"]);
        assert!(kept.refused.is_empty(), "{:?}", kept.refused);
    }

    #[test]
    fn a_heading_names_some_processes_and_counts_the_others() {
        let of = |count: u32| {
            let mut all = Builder::default();
            for pid in 1..=count {
                all.who(Who {
                    process: format!("sh {pid}").into(),
                    pid,
                    start_ns: None,
                    role: "sh".into(),
                    thread: None,
                    digest: None,
                });
            }
            all.finish()
        };
        assert_eq!(title("", &of(1)), "sh 1");
        assert_eq!(title("watch", &of(3)), "watch: sh 1, sh 2, sh 3");
        assert_eq!(title("", &of(5)), "sh 1, sh 2, sh 3 and 2 more");
    }
}
