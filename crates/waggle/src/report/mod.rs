//! `waggle report`: what did this run find?
//!
//! Reads a run directory and shows it again: lab runs, studies, bench runs, traces, profiles and
//! tuning runs as text, a page, Markdown, CSV or JSON; any other run as its facts, its final result
//! and the count of its samples. [`stacks`] shows a profile in the forms of other programs. It
//! measures nothing and changes nothing but the file it was asked to write.

mod args;
mod stacks;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use serde_json::json;
use waggle_report::summary;

pub(crate) use args::Args;
use args::{Format, Place, Plan, Rows};

use crate::cli::{Failure, Output};

/// Shows a run again.
pub(crate) fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let plan = args.plan(out.json).map_err(Failure::unusable)?;
    let bytes = render(&plan).map_err(Failure::ran)?;
    write(&plan.place, &bytes).map_err(Failure::ran)?;
    match &plan.place {
        Place::File(file) | Place::Page(file) if out.json => out
            .json(&json!({ "report": file }))
            .context("cannot write to standard output")
            .map_err(Failure::ran),
        Place::File(file) | Place::Page(file) => {
            eprintln!("wrote {}", file.display());
            Ok(())
        }
        Place::Stdout => Ok(()),
    }
}

fn render(plan: &Plan) -> anyhow::Result<Vec<u8>> {
    if let Some((profile, asked)) = &plan.stacks {
        return stacks::render(profile, plan.format, asked);
    }
    let document = &plan.document;
    let made = match plan.format {
        Format::Text => {
            let bold = plan.place == Place::Stdout && io::stdout().is_terminal();
            Some(summary::text(&plan.run, bold)?)
        }
        Format::Html => document.html(),
        Format::Md => document.markdown(),
        Format::Csv if plan.rows == Rows::Results => document.results_csv(),
        Format::Csv => document.windows_csv(),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(&document.json(&plan.run)?)?;
            text.push('\n');
            Some(text)
        }
        Format::Svg | Format::Folded | Format::Pprof | Format::Firefox => None,
    };
    let made = made.context("this run has no such form")?;
    Ok(made.into_bytes())
}

fn write(place: &Place, bytes: &[u8]) -> anyhow::Result<()> {
    match place {
        Place::Stdout => match io::stdout().lock().write_all(bytes) {
            // Whoever reads has seen enough, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to standard output"),
        },
        Place::File(file) => waggle_files::write(file, bytes).with_context(|| no_report(file)),
        // Of a run directory that is somebody else's, a link of that name is not followed.
        Place::Page(file) => waggle_files::replace(file, bytes).with_context(|| no_report(file)),
    }
}

fn no_report(file: &Path) -> String {
    let file = file.display();
    format!("cannot write the report to {file}; name another file with -o")
}
