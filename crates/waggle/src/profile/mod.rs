//! `waggle profile`: where do processes spend their time, in which threads and for which statement?
//!
//! Flags become a plan ([`args`]); [`target`] finds the processes; `waggle-profile` records;
//! [`document`] shows it, and `profiling` keeps it in files, as those that it takes beside what
//! other verbs measure.
//!
//! Invariant: processes are only looked at; what was attached goes with this process.

mod args;
mod document;
mod target;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use waggle_profile::model::Profile;
use waggle_profile::{RecordError, Recorder, RecorderOptions};
use waggle_report::profile::ProfilePage;
use waggle_report::run::{Outcome, PAGE_FILE, RunDir, redact_argv};

pub(crate) use args::Args;
use args::{By, Plan, Target};
use target::Processes;

use crate::cli::{Failure, Output};
use crate::interrupt::{self, Interrupt};
use crate::profiling::kept::{self, Format, Wanted};
use crate::rights::{self, Needs};

/// How soon a signal or the end of the processes is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan()?;
    crate::preflight::can_trace()?;
    let interrupt = interrupt::catch()
        .context("catching signals")
        .map_err(Failure::Unusable)?;
    let switched = plan.signal.map(switch).transpose()?;
    let mut processes = Processes::find(&plan.target, out.json)?;
    if processes.is_command() {
        // It was started with everything; this process goes on with less.
        rights::keep(Needs::AttachAndEnd)?;
    }
    let mut run = RunDir::create(&plan.out, "profile", name(&plan)).map_err(Failure::unusable)?;
    let argv: Vec<String> = std::env::args().collect();
    run.record(|facts| facts.command = redact_argv(&argv))
        .map_err(Failure::unusable)?;
    // Before there is a thread that would keep more.
    if let Err(failure) = rights::narrow() {
        return Err(failed(run, failure));
    }
    let recorder = match start(&plan, &mut processes) {
        Ok(recorder) => recorder,
        Err(error) => return Err(failed(run, Failure::unusable(error))),
    };
    // Everything is attached: who waits for this line may begin.
    match plan.signal {
        Some(_) => eprintln!(
            "profiling {:?}, switched off until the signal",
            processes.pids
        ),
        None => eprintln!("profiling {:?}", processes.pids),
    }
    if let Err(failure) = processes.go() {
        return Err(failed(run, failure));
    }
    follow(&plan, &recorder, &mut processes, &interrupt, switched);
    // Ctrl-C reaches the command, too; and whatever it does from here on was asked for.
    let command = match interrupt.requested() {
        true => None,
        false => processes.failure(),
    };
    let profile = match recorder.stop().context("ending the recording") {
        Ok(profile) => profile,
        Err(error) => return Err(failed(run, Failure::Ran(error))),
    };
    processes.end();
    show(&plan, run, &profile, command, out, &interrupt)
}

/// Starts recording. Of all servers of the host, one that has ended since is left out.
fn start(plan: &Plan, processes: &mut Processes) -> Result<Recorder, RecordError> {
    loop {
        let started = Recorder::start(options(plan, processes));
        if started.is_ok() || !matches!(plan.target, Target::All) || !processes.part() {
            return started;
        }
    }
}

/// Ends the run directory as of a run that failed.
fn failed(run: RunDir, failure: Failure) -> Failure {
    let (Failure::Unusable(error) | Failure::Ran(error)) = &failure;
    let _ = run.finish(Outcome::Failed, Some(format!("{error:#}")));
    failure
}

fn name(plan: &Plan) -> &'static str {
    match plan.by {
        By::Digest => "digests",
        By::Role | By::Thread | By::Process => "cpu",
    }
}

fn options(plan: &Plan, processes: &Processes) -> RecorderOptions {
    RecorderOptions {
        pids: processes.pids.clone(),
        frequency_hz: plan.hz,
        on_cpu: true,
        off_cpu: plan.off_cpu,
        kernel: plan.kernel,
        by_digest: plan.by == By::Digest,
        by_thread: plan.by == By::Thread,
        inlined: plan.inlined,
        lines: plan.lines,
        timeline: plan.formats.contains(&Format::Firefox),
        children: processes.is_command(),
        paused: plan.signal.is_some(),
        ring_bytes: plan.ring_bytes,
    }
}

/// How often the signal came.
fn switch(signal: i32) -> Result<Arc<AtomicUsize>, Failure> {
    let came = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&came);
    let count = move || _ = counter.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the handler adds to an atomic number and does nothing else, so that it may interrupt
    // anything; the number lives as long as the handler, which owns a part of it.
    unsafe { signal_hook::low_level::register(signal, count) }
        .context("catching the signal that switches")
        .map_err(Failure::Unusable)?;
    Ok(came)
}

fn follow(
    plan: &Plan,
    recorder: &Recorder,
    processes: &mut Processes,
    interrupt: &Interrupt,
    switched: Option<Arc<AtomicUsize>>,
) {
    let began = Instant::now();
    let mut on = false;
    while !interrupt.requested()
        && plan.duration.is_none_or(|most| began.elapsed() < most)
        && processes.are_alive()
    {
        let times = switched
            .as_ref()
            .map_or(0, |s| s.swap(0, Ordering::Relaxed));
        for _ in 0..times {
            on = !on;
            recorder.toggle(on);
            eprintln!("{}", if on { "switched on" } else { "switched off" });
        }
        let left = plan
            .duration
            .map(|most| most.saturating_sub(began.elapsed()));
        // sleep: signals and the end of processes are looked for at intervals.
        std::thread::sleep(left.map_or(POLL, |left| left.min(POLL)));
    }
}

/// Puts it into the run directory; the files' names.
fn keep(plan: &Plan, run: &RunDir, profile: &Profile) -> anyhow::Result<Vec<String>> {
    let wanted = Wanted {
        root: Some(plan.by.root()),
        formats: &plan.formats,
    };
    let kept = kept::write(run, "", profile, &wanted)?;
    run.write_profile_page(vec![kept::part("", profile)])?;
    if !kept.refused.is_empty() {
        bail!("{}", kept.refused.join("; "));
    }
    let mut files = kept.files;
    files.push(PAGE_FILE.to_owned());
    Ok(files)
}

fn show(
    plan: &Plan,
    run: RunDir,
    profile: &Profile,
    command: Option<String>,
    out: &Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let written = keep(plan, &run, profile)
        .context("writing the profile")
        .map_err(Failure::Ran);
    let path = run.path().to_path_buf();
    let names = written.as_deref().unwrap_or_default();
    let shown = if out.json {
        out.json(&document::of(profile, names, &path))
    } else {
        let page = ProfilePage::new(vec![kept::part("", profile)], run.facts());
        let text = page.text(false) + &document::accounts(profile);
        io::stdout().lock().write_all(text.as_bytes())
    };
    let shown = match shown {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown.context("writing to stdout"),
    };
    let is_command = matches!(plan.target, Target::Command(_));
    let failed = command.or_else(|| document::failure(profile));
    let outcome = match (&failed, &written) {
        (None, Ok(_)) if interrupt.requested() && (plan.duration.is_some() || is_command) => {
            Outcome::Interrupted
        }
        (None, Ok(_)) => Outcome::Done,
        _ => Outcome::Failed,
    };
    let ended = run.finish(outcome, failed.clone()).map(drop);
    eprintln!("recorded in {}", path.display());
    written?;
    shown.map_err(Failure::Ran)?;
    ended
        .context("recording the profile")
        .map_err(Failure::Ran)?;
    failed.map_or(Ok(()), |failed| Err(Failure::Ran(anyhow!(failed))))
}
