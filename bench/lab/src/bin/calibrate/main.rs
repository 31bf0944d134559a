//! calibrate: is what the lab says true?
//!
//! Three questions, each with a truth that is known beforehand. Are equal things called different
//! no more often than they may be? Does the interval cover a cost that was put in? Does it still,
//! while the machine's speed goes up and down? `plan` says what to measure, `session` measures one
//! piece of it on the `processors` that were asked for, `state` keeps pieces so that a run can be
//! stopped and gone on with, `truth` asks the kernel what a known cost really was, `compete`
//! disturbs, `findings` draws the conclusions, `page` writes them down. docs/design/0007 says why
//! the truth is what it is.
//!
//! Invariant: what is compared is what `waggle lab run` recorded, by the comparison that the lab
//! itself uses; nothing is left out for what it shows.

mod compete;
mod findings;
mod page;
mod plan;
mod processors;
mod session;
mod state;
mod truth;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use waggle_bench_lab::filed::{self, Facts};
use waggle_bench_lab::waggle::Waggle;

use findings::Findings;
use plan::{Args, next_kind};
use state::State;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("calibrate: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// True if no criterion was missed; one that has too few trials yet is not missed.
fn run(args: &Args) -> anyhow::Result<bool> {
    let started = Instant::now();
    let waggle = Waggle::at(&args.waggle)?;
    let facts = Facts::gather(&waggle, args.command());
    args.processors.keep()?;
    let mut state = State::open(&args.state, args.sandbox, args.processors, args.threads)?;
    let mut failed_in_a_row = 0;
    while let Some(kind) = next_kind(args, &state.progress(), started.elapsed()) {
        eprintln!(
            "{:5.1} min: {}, {} s",
            started.elapsed().as_secs_f64() / 60.0,
            kind.name(),
            args.session_s(kind)
        );
        let session = session::measure(args, &waggle, &facts, &state, kind);
        failed_in_a_row = match &session.error {
            None => 0,
            Some(error) => {
                eprintln!("  lost: {error}");
                failed_in_a_row + 1
            }
        };
        state.keep(session)?;
        // One that is lost costs itself only; what fails every time has to be looked at.
        if failed_in_a_row == 3 {
            break;
        }
    }
    let findings = Findings::draw(&state).context("drawing conclusions")?;
    let page = page::page(&facts, args, state.sessions(), &findings);
    println!("{page}");
    if let Some(folder) = &args.results {
        let document = serde_json::json!({
            "facts": facts,
            "findings": findings,
            "sessions": state.sessions(),
        });
        let path = filed::write(folder, &facts, "calibrate", &document, &page)?;
        eprintln!("filed as {}", path.display());
    }
    Ok(failed_in_a_row == 0 && findings.criteria.iter().all(|c| c.holds != Some(false)))
}
