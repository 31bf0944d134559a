//! `waggle report`: flags to a checked plan.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use waggle_report::run::{PAGE_FILE, Run};

/// Show a run again: as text, or as a page that opens in a browser without a network
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the run, as in `waggle-runs/<time>-<verb>-<name>`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// What to make of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Where to write it: text goes to standard output by default, a page to RUN/report.html;
    /// `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a run can be shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences for a terminal
    Text,
    /// One self-contained HTML file (lab runs)
    Html,
}

/// What was asked for, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) run: Run,
    pub(crate) format: Format,
    pub(crate) place: Place,
}

/// Where the result goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Stdout,
    File(PathBuf),
}

impl Args {
    /// Opens the run and checks that it can be shown as asked. Nothing is written.
    pub(crate) fn plan(self) -> anyhow::Result<Plan> {
        let run = Run::open(&self.run).context("cannot show this run")?;
        if self.format == Format::Html && run.lab()?.is_none() {
            bail!(
                "{} holds no lab report, and pages are made of those only; leave out \
                 `--format html` to see it as text",
                run.path().display()
            );
        }
        let place = match self.output {
            Some(file) if file.as_os_str() == "-" => Place::Stdout,
            Some(file) => Place::File(file),
            None if self.format == Format::Html => Place::File(run.path().join(PAGE_FILE)),
            None => Place::Stdout,
        };
        Ok(Plan {
            run,
            format: self.format,
            place,
        })
    }
}
