//! Where source, copier and target spend a phase of the copy: `copy bench --profile PHASE`.
//!
//! One copy more, beside the rounds that are timed: it runs in this process, so that its phases are
//! seen as they change and the copier is this process. The recorder is on in the phase asked for
//! alone. The run directory has the profile of each case, flame graphs and a page.
//!
//! Invariant: no time of a round is one of a profiled copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use waggle_copy::{Control, Phase, Plan, job};
use waggle_profile::model::Profile;
use waggle_report::run::{Outcome, RunDir, redact_argv};
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use super::case::Case;
use super::writes::Writes;
use super::{BenchArgs, Document, Stand, contender, query};
use crate::copy::args::CopyArgs;
use crate::profiling::kept::{self, Wanted};
use crate::profiling::{Extent, Profiling};

/// Between two looks at the phase: the error of its beginning and its end.
const LOOK: Duration = Duration::from_millis(2);

/// What of the copy is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Profiled {
    /// Rows are read and put into the target
    Copy,
    /// Secondary keys are built
    Keys,
    /// Changes since the snapshot are applied (needs --writes)
    CatchUp,
    /// All of it
    All,
}

impl Profiled {
    fn is(self, phase: Phase) -> bool {
        match self {
            Profiled::Copy => phase == Phase::Copy,
            Profiled::Keys => phase == Phase::Keys,
            Profiled::CatchUp => phase == Phase::CatchUp,
            Profiled::All => !matches!(phase, Phase::Preflight | Phase::Done),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Profiled::Copy => "copy",
            Profiled::Keys => "keys",
            Profiled::CatchUp => "catch-up",
            Profiled::All => "all",
        }
    }
}

/// A command line of `waggle copy`, as its own flags read it.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    copy: CopyArgs,
}

/// Copies the case once more, and records the phase.
///
/// # Errors
/// The copy or the recording fails, or the phase never came.
pub(super) fn record(
    stand: &Stand,
    case: Case,
    args: &BenchArgs,
    phase: Profiled,
) -> anyhow::Result<Profile> {
    if phase == Profiled::CatchUp && args.writes == 0 {
        bail!("--profile catch-up: nothing is caught up with unless --writes is above 0");
    }
    let mut target = Connection::connect(&stand.target.dsn_socket())?;
    for database in ["bench", "waggle_copy"] {
        query(&mut target, &format!("DROP DATABASE IF EXISTS {database}"))?;
    }
    query(&mut target, "CREATE DATABASE bench")?;
    let plan = plan(stand, args)?;
    let extent = Extent {
        off_cpu: true,
        ..Extent::default()
    };
    let pids = [stand.source.pid(), stand.target.pid(), std::process::id()];
    let profiling = Profiling::attach(&pids, extent)?;
    let writes = Writes::begin(&stand.source, case, args)?;
    let seen = watched(&plan, &profiling, phase)?;
    writes.end()?;
    let mut profile = profiling.finish()?;
    if !seen {
        bail!(
            "the phase {} was over before it could be recorded",
            phase.name()
        );
    }
    name_processes(&mut profile, stand);
    Ok(profile)
}

/// Runs the copy, recording while it is in the phase; whether it ever was.
fn watched(plan: &Plan, profiling: &Profiling, phase: Profiled) -> anyhow::Result<bool> {
    let control = Arc::new(Control::new());
    thread::scope(|scope| {
        let copier = {
            let control = Arc::clone(&control);
            thread::Builder::new()
                .name("copy".into())
                .spawn_scoped(scope, move || job::run(plan, &control, &mut |_| {}))
                .context("starting the copy's thread")?
        };
        let (mut is_on, mut seen) = (false, false);
        while !copier.is_finished() {
            let wants = phase.is(control.phase());
            if wants != is_on {
                match wants {
                    true => profiling.on(),
                    false => profiling.off(),
                }
                is_on = wants;
                seen |= wants;
            }
            thread::sleep(LOOK);
        }
        profiling.off();
        let copied = copier
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        copied.context("the profiled copy failed")?;
        Ok(seen)
    })
}

fn plan(stand: &Stand, args: &BenchArgs) -> anyhow::Result<Plan> {
    let dsn = |server: &Sandbox| contender::dsn(server, "bench");
    let spool = stand.directory.join("spool-profiled");
    if spool.exists() {
        std::fs::remove_dir_all(&spool).context("emptying the spool")?;
    }
    let until = if args.writes > 0 {
        "caught-up"
    } else {
        "copied"
    };
    let words = [
        "copy".to_owned(),
        "--until".to_owned(),
        until.to_owned(),
        "--ranges".to_owned(),
        args.ranges.to_string(),
        "--from".to_owned(),
        dsn(&stand.source),
        "--to".to_owned(),
        dsn(&stand.target),
        "--spool".to_owned(),
        spool.display().to_string(),
    ];
    Ok(Alone::try_parse_from(words)?.copy.plan()?.plan)
}

/// Two servers of one program are told apart by what they do here.
fn name_processes(profile: &mut Profile, stand: &Stand) {
    let named = |pid: u32, process: &str| {
        let part = match pid {
            pid if pid == stand.source.pid() => "source",
            pid if pid == stand.target.pid() => "target",
            _ => "copier",
        };
        format!("{part}: {process}").into()
    };
    for who in &mut profile.whos {
        who.process = named(who.pid, &who.process);
    }
    for process in &mut profile.processes {
        process.process = named(process.pid, &process.process);
    }
}

/// Writes the run directory; its page.
///
/// # Errors
/// It cannot be written.
pub(super) fn keep(
    root: &Path,
    phase: Profiled,
    profiles: &[(Case, Profile)],
    document: &Document,
) -> anyhow::Result<PathBuf> {
    let mut run = RunDir::create(root, "copy", &format!("bench-{}", phase.name()))?;
    let argv: Vec<String> = std::env::args().collect();
    run.record(|facts| facts.command = redact_argv(&argv))?;
    run.write_result(document)?;
    let mut parts = Vec::new();
    for (case, profile) in profiles {
        let name = format!("{case}-{}", phase.name());
        let kept = kept::write(&run, &name, profile, &Wanted::FLAME_GRAPHS)?;
        for file in &kept.refused {
            eprintln!("{file}");
        }
        parts.push(kept::part(&name, profile));
    }
    let page = run.write_profile_page(parts)?;
    run.finish(Outcome::Done, None)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_recorded_in_itself_alone() {
        assert!(Profiled::Copy.is(Phase::Copy) && !Profiled::Copy.is(Phase::Keys));
        assert!(Profiled::All.is(Phase::CatchUp) && !Profiled::All.is(Phase::Preflight));
        let names: Vec<&str> = Profiled::value_variants()
            .iter()
            .map(|p| p.name())
            .collect();
        assert_eq!(names, ["copy", "keys", "catch-up", "all"]);
    }
}
