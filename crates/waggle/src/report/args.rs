//! `waggle report`: flags to a checked plan.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use waggle_report::document::Document;
use waggle_report::run::{PAGE_FILE, Run};

/// Show a run again: as text, Markdown, CSV, JSON, or as a page that needs no network
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the run, as in `waggle-runs/<time>-<verb>-<name>`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// What to make of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// What the lines of a CSV are
    #[arg(long, value_enum, default_value_t = Rows::Windows)]
    rows: Rows,
    /// Where to write it: to standard output by default, a page to RUN/report.html; `-` is standard
    /// output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a run can be shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences for a terminal
    Text,
    /// One self-contained HTML file (runs of lab, bench and trace)
    Html,
    /// Markdown with tables (runs of lab, bench and trace)
    Md,
    /// Lines of figures for other programs (runs of lab, bench and trace)
    Csv,
    /// The whole document
    Json,
}

/// What a line of CSV stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// A window of lab, an interval of bench: what was measured
    Windows,
    /// An estimate with its interval: what came out (lab runs)
    Results,
}

/// What was asked for, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) run: Run,
    pub(crate) document: Document,
    pub(crate) format: Format,
    pub(crate) rows: Rows,
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
    pub(crate) fn plan(self, json: bool) -> anyhow::Result<Plan> {
        let run = Run::open(&self.run).context("cannot show this run")?;
        let document = Document::read(&run).context("cannot show this run")?;
        check(&document, self.format, self.rows, &run)?;
        let format = match self.format {
            Format::Text if json && self.output.is_none() => Format::Json,
            format => format,
        };
        let place = match self.output {
            Some(file) if file.as_os_str() == "-" => Place::Stdout,
            Some(file) => Place::File(file),
            None if format == Format::Html => Place::File(run.path().join(PAGE_FILE)),
            None => Place::Stdout,
        };
        Ok(Plan {
            run,
            document,
            format,
            rows: self.rows,
            place,
        })
    }
}

/// What this run cannot be shown as, and what to ask for instead.
fn check(document: &Document, format: Format, rows: Rows, run: &Run) -> anyhow::Result<()> {
    let name = match format {
        Format::Text | Format::Json => return Ok(()),
        Format::Html => "html",
        Format::Md => "md",
        Format::Csv => "csv",
    };
    let path = run.path().display();
    match document {
        Document::Other => bail!(
            "{path} is a run of {verb} without a lab report, and `--format {name}` is made of lab \
             and bench runs only; leave it out to see the run as text",
            verb = match run.facts().verb.as_str() {
                "" => "an unknown verb",
                verb => verb,
            },
        ),
        Document::Bench(_) if format == Format::Csv && rows == Rows::Results => bail!(
            "{path} is a run of bench, whose results are one document; use `--format json`, or \
             `--rows windows` for its intervals"
        ),
        _ => Ok(()),
    }
}
