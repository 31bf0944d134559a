//! `waggle report`: what did this run find?
//!
//! Reads a run directory and shows it again: a lab run as its report (text, page or JSON), any
//! other run as its facts, its final result and the count of its samples. It measures nothing and
//! changes nothing but the file it was asked to write.

mod args;

use std::fs;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde_json::json;
use waggle_report::run::Run;
use waggle_report::{page, summary};

pub(crate) use args::Args;
use args::{Format, Place, Plan};

use crate::cli::{Failure, Output};

/// Shows a run again.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan().map_err(Failure::unusable)?;
    if out.json && plan.format == Format::Text && plan.place == Place::Stdout {
        return document(&plan.run, out).map_err(Failure::ran);
    }
    let text = render(&plan).map_err(Failure::ran)?;
    write(&plan.place, &text).map_err(Failure::ran)?;
    match &plan.place {
        Place::File(file) if out.json => out
            .json(&json!({ "report": file }))
            .context("cannot write to standard output")
            .map_err(Failure::ran),
        Place::File(file) => {
            eprintln!("wrote {}", file.display());
            Ok(())
        }
        Place::Stdout => Ok(()),
    }
}

/// The lab report if there is one, or else the facts and the result, as one JSON document.
fn document(run: &Run, out: &Output) -> anyhow::Result<()> {
    match run.lab()? {
        Some(report) => out.json(&report),
        None => out.json(&json!({ "run": run.facts(), "result": run.result()? })),
    }
    .context("cannot write to standard output")
}

fn render(plan: &Plan) -> anyhow::Result<String> {
    match plan.format {
        Format::Text => {
            let bold = plan.place == Place::Stdout && io::stdout().is_terminal();
            Ok(summary::text(&plan.run, bold)?)
        }
        Format::Html => {
            let report = plan
                .run
                .lab()?
                .context("the lab report of the run is gone")?;
            Ok(page::render(&report))
        }
    }
}

fn write(place: &Place, text: &str) -> anyhow::Result<()> {
    match place {
        Place::Stdout => match io::stdout().lock().write_all(text.as_bytes()) {
            // Whoever reads has seen enough, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to standard output"),
        },
        Place::File(file) => fs::write(file, text).with_context(|| {
            format!(
                "cannot write the report to {}; name another file with -o",
                file.display()
            )
        }),
    }
}
