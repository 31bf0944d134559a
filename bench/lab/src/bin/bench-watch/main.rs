//! bench-watch: what does `waggle watch` cost, and what does it do when it may cost no more?
//!
//! `price` is CPU time a statement, by the lab, beside PERFORMANCE_SCHEMA in the same run;
//! `standing` is what the agent takes where there is little to do; `starved` is the share it
//! captures with a fraction of a core. `page` lays that beside what DBdoctor published.
//!
//! Invariant: every figure is of the released program as a user runs it, and a part that fails is
//! named where its figures would stand.

mod page;
mod plan;
mod price;
mod standing;
mod starved;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use serde::Serialize;
use waggle_bench_lab::filed::{self, Facts};
use waggle_bench_lab::waggle::Waggle;

use plan::{Args, Part, Plan};

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Results {
    /// The server.
    server: Option<String>,
    price: Vec<price::Priced>,
    standing: Option<standing::Standing>,
    starved: Vec<starved::Run>,
    /// Parts that failed, and why.
    failed: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench-watch: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// True if every part was measured and every statement is accounted for.
fn run(args: &Args) -> anyhow::Result<bool> {
    let started = Instant::now();
    let waggle = Waggle::at(&args.waggle)?;
    let facts = Facts::gather(&waggle, args.command());
    std::fs::create_dir_all(&args.state)
        .with_context(|| format!("making {}", args.state.display()))?;
    let plan = Plan::of(args);
    let mut results = Results::default();
    for part in &args.parts {
        eprintln!(
            "{:5.1} min: {part:?}",
            started.elapsed().as_secs_f64() / 60.0
        );
        let measured = match part {
            Part::Price => price::measure(args, &plan, &waggle, &mut results),
            Part::Standing => standing::measure(args, &waggle, &mut results),
            Part::Starved => starved::measure(args, &plan, &waggle, &mut results),
        };
        if let Err(error) = measured {
            let failed = format!("{part:?}: {error:#}");
            eprintln!("  {failed}");
            results.failed.push(failed);
        }
    }
    let page = page::page(&facts, &plan, &results);
    println!("{page}");
    if let Some(folder) = &args.results {
        let document = serde_json::json!({ "facts": facts, "plan": plan, "results": results });
        let path = filed::write(folder, &facts, "watch", &document, &page)?;
        eprintln!("filed as {}", path.display());
    }
    let accounted = results.starved.iter().all(starved::Run::is_accounted_for);
    Ok(results.failed.is_empty() && accounted)
}
