//! `waggle compare`: what changed from one run to another?
//!
//! Reads two runs of lab, bench or profile. First it names what differs around them (kernel,
//! server, settings, load), then how the effect of each arm changed, with its interval. Runs that
//! do not measure the same thing are refused with the reason. It measures nothing, and writes
//! nothing but the drawings it was asked for.

mod args;
mod around;
mod bench;
mod change;
mod flame;
mod lab;
mod profile;
mod text;

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, anyhow};
use serde_json::json;
use waggle_report::document::Document;

pub(crate) use args::Args;
use args::Plan;
use lab::Compared;

use crate::cli::{Failure, Output};

/// Compares two runs.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan().map_err(Failure::unusable)?;
    let compared = compare(&plan).map_err(Failure::unusable)?;
    let changes = change::judge(compared.pairs);
    let written = flame::write(&plan).map_err(Failure::ran)?;
    let shown = if out.json {
        out.json(&json!({
            "a": plan.first.path,
            "b": plan.second.path,
            "margin": plan.margin,
            "differs": compared.around.differences,
            "comparisons": changes,
            "notes": compared.notes,
            "written": written,
        }))
    } else {
        let mut text = text::text(
            &plan,
            &compared.around.differences,
            &changes,
            &compared.notes,
            io::stdout().is_terminal(),
        );
        for file in &written {
            text.push_str(&format!("wrote {file}\n"));
        }
        io::stdout().lock().write_all(text.as_bytes())
    };
    match shown {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown
            .context("cannot write to standard output")
            .map_err(Failure::ran),
    }
}

fn compare(plan: &Plan) -> anyhow::Result<Compared> {
    let compared = match (&plan.first.document, &plan.second.document) {
        (Document::Lab(one), Document::Lab(two)) => lab::labs(one, two, plan.margin),
        (Document::Study(one), Document::Study(two)) => lab::studies(one, two, plan.margin),
        (Document::Bench(one), Document::Bench(two)) => bench::benches(one, two, plan.margin),
        (Document::Profile(one), Document::Profile(two)) => {
            profile::profiles(one, two, plan.margin)
        }
        // Such were refused before.
        _ => Err(anyhow!("they measure different things")),
    };
    compared.with_context(|| {
        format!(
            "{} and {} cannot be compared",
            plan.first.path.display(),
            plan.second.path.display()
        )
    })
}
