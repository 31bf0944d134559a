//! `waggle copy`: how do tables get to another server while they are written to, and how far is it?
//!
//! [`args`] checks the flags, `waggle-copy` copies in a thread, [`screen`] shows its counters,
//! [`record`] keeps them in the run directory, [`result`] is what is printed at the end; [`verify`]
//! and [`mod@bench`] are subjects of their own.
//!
//! Invariant: an error while checks run means that nothing was touched (exit code 2); any later one
//! leaves the target's progress as it is, for the same command to go on from.

mod args;
mod bench;
mod record;
mod result;
mod screen;
mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use waggle_copy::{Control, CopyError, Finding, Outcome, Phase, Plan, Until, job};

pub(crate) use args::Args;
use record::Record;
use result::CopyResult;
use screen::{Glance, Screen};

use crate::cli::{Failure, Output};
use crate::interrupt;

/// Between two looks at signals, and at the counters on a terminal.
const LOOK: Duration = Duration::from_millis(100);
/// Between two samples in the run directory, and lines where there is no terminal.
const SAMPLE: Duration = Duration::from_secs(1);

/// Runs the verb.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    if let Some(subject) = args.subject {
        return match subject {
            args::Subject::Verify(args) => verify::run(args, out),
            args::Subject::Bench(args) => bench::run(args, out),
        };
    }
    let checked = args.copy.plan().map_err(Failure::Unusable)?;
    let signals = Signals::catch().map_err(Failure::Unusable)?;
    let control = Arc::new(Control::new());
    let mut screen = Screen::new();
    let mut record = None;
    let began = Instant::now();
    let outcome = copy(
        &checked.plan,
        &control,
        &signals,
        &mut |glance, is_sample| {
            screen.show(glance);
            if is_sample && glance.phase != Phase::Preflight {
                if record.is_none() {
                    record = Some(Record::open(&checked.out, &checked.plan)?);
                }
                if let Some(record) = &mut record {
                    record.append(glance)?;
                }
            }
            Ok(())
        },
    );
    screen.done();
    let is_untouched = control.phase() == Phase::Preflight;
    if is_untouched && let Err(error) = outcome {
        return Err(Failure::Unusable(error));
    }
    let result = CopyResult::new(&outcome, &control, began.elapsed());
    // A copy shorter than a sample has a run directory too.
    let kept = match record {
        Some(record) => Ok(record),
        None => Record::open(&checked.out, &checked.plan),
    };
    let kept = kept.and_then(|record| record.finish(&result));
    result.print(out).map_err(Failure::ran)?;
    outcome.map_err(Failure::Ran)?;
    let path = kept
        .context("writing the run directory")
        .map_err(Failure::Ran)?;
    eprintln!("kept in {}", path.display());
    match result.differences {
        Some(differences) if differences > 0 => Err(Failure::ran(anyhow::anyhow!(
            "{differences} rows differ between source and target; `waggle copy verify` names them"
        ))),
        _ => Ok(()),
    }
}

/// Runs the copy in a thread of its own and calls `watch` meanwhile.
fn copy(
    plan: &Plan,
    control: &Arc<Control>,
    signals: &Signals,
    watch: &mut dyn FnMut(&Glance, bool) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let mut warn = |finding: &Finding| eprintln!("warning: {finding}");
    thread::scope(|scope| {
        let (over, ends) = mpsc::channel::<()>();
        let worker = {
            let (plan, control) = (plan.clone(), Arc::clone(control));
            // Warnings come before anything is copied, so they do not get into the bar.
            thread::Builder::new()
                .name("copy".into())
                .spawn_scoped(scope, move || {
                    let _over = over;
                    let mut findings = Vec::new();
                    let outcome = job::run(&plan, &control, &mut |finding| {
                        findings.push(finding.clone());
                    });
                    (outcome, findings)
                })
                .context("starting the copy's thread")?
        };
        let mut next_sample = began + SAMPLE;
        let mut watched = Ok(());
        while !worker.is_finished() {
            // Its end is not waited for longer than it takes.
            let waited = ends.recv_timeout(LOOK);
            if waited == Err(mpsc::RecvTimeoutError::Disconnected) {
                break;
            }
            signals.pass_on(control);
            let is_sample = Instant::now() >= next_sample;
            if is_sample {
                next_sample += SAMPLE;
            }
            if watched.is_ok() {
                watched = watch(&Glance::of(control, began.elapsed()), is_sample);
                if watched.is_err() {
                    control.stop();
                }
            }
        }
        let (outcome, findings) = worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        findings.iter().for_each(&mut warn);
        watched?;
        finish(outcome, plan, signals)
    })
}

/// A replication that was asked to end has done what it should.
fn finish(
    outcome: Result<Outcome, CopyError>,
    plan: &Plan,
    signals: &Signals,
) -> anyhow::Result<Outcome> {
    let outcome = outcome.map_err(anyhow::Error::from);
    match outcome {
        Err(error) if plan.until == Until::Stopped && signals.ends.requested() => {
            Err(error.context("ended while rows were copied; the same command goes on"))
        }
        other => other,
    }
}

/// What others ask of a running copy.
struct Signals {
    ends: interrupt::Interrupt,
    pauses: Arc<AtomicBool>,
    resumes: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> anyhow::Result<Signals> {
        let signals = Signals {
            ends: interrupt::catch().context("catching signals")?,
            pauses: Arc::default(),
            resumes: Arc::default(),
        };
        for (signal, flag) in [(SIGUSR1, &signals.pauses), (SIGUSR2, &signals.resumes)] {
            signal_hook::flag::register(signal, Arc::clone(flag)).context("catching signals")?;
        }
        Ok(signals)
    }

    fn pass_on(&self, control: &Control) {
        if self.ends.requested() {
            control.stop();
        }
        if self.pauses.swap(false, Ordering::Relaxed) {
            control.pause(true);
        }
        if self.resumes.swap(false, Ordering::Relaxed) {
            control.pause(false);
        }
    }
}
