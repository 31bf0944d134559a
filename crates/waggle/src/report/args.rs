//! `waggle report`: flags to a checked plan.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use waggle_profile::model::Profile;
use waggle_report::document::Document;
use waggle_report::run::{PAGE_FILE, Run};

use super::stacks::{self, Asked, By, Time};

/// Show a run again: as text, Markdown, CSV, JSON, as a page that needs no network, or its profile
/// as a flame graph and in the forms of other programs
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
    /// Of svg and folded: which time
    #[arg(long, value_enum, default_value_t = Time::OnCpu)]
    time: Time,
    /// Of svg and folded: what stands below the first call
    #[arg(long, value_enum, default_value_t = By::All)]
    by: By,
    /// Which profile, of a run with several
    #[arg(long, value_name = "NAME", default_value = "")]
    profile: String,
}

/// What a run can be shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences for a terminal
    Text,
    /// One self-contained HTML file (runs of lab, bench, trace, profile and tune)
    Html,
    /// Markdown with tables (runs of lab, bench, trace, profile and tune)
    Md,
    /// Lines of figures for programs (runs of lab, bench, trace, profile and tune)
    Csv,
    /// The whole document
    Json,
    /// The profile as an interactive flame graph
    Svg,
    /// The profile as folded stacks, ns
    Folded,
    /// The profile for `go tool pprof`
    Pprof,
    /// The profile for profiler.firefox.com
    Firefox,
}

/// What a line of CSV stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// What was measured: windows of lab, intervals of bench, figures of trace, functions of a
    /// profile, blocks of tune
    Windows,
    /// What came out: estimates with their intervals of lab, figures of trace, whose time a profile
    /// is of, configurations of tune (bench has none)
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
    /// What of its profile, for the forms that are made of one.
    pub(crate) stacks: Option<(Profile, Asked)>,
}

/// Where the result goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Stdout,
    File(PathBuf),
    /// The page in the run itself, which may be anyone's.
    Page(PathBuf),
}

impl Args {
    /// Opens the run and checks that it can be shown as asked. Nothing is written.
    pub(crate) fn plan(self, json: bool) -> anyhow::Result<Plan> {
        let run = Run::open(&self.run).context("cannot show this run")?;
        let document = Document::read(&run).context("cannot show this run")?;
        check(&document, self.format, self.rows, &run)?;
        let asked = Asked {
            profile: self.profile,
            time: self.time,
            by: self.by,
        };
        let stacks = match stacks::is_form(self.format) {
            true => Some((stacks::read(&run, &asked)?, asked)),
            false => None,
        };
        if self.format == Format::Pprof && self.output.is_none() && io::stdout().is_terminal() {
            bail!("pprof is no text: name a file with -o, or `-o -` for standard output");
        }
        let format = match self.format {
            Format::Text if json && self.output.is_none() => Format::Json,
            format => format,
        };
        let place = match self.output {
            Some(file) if file.as_os_str() == "-" => Place::Stdout,
            Some(file) => Place::File(file),
            None if format == Format::Html => Place::Page(run.path().join(PAGE_FILE)),
            None => Place::Stdout,
        };
        Ok(Plan {
            run,
            document,
            format,
            rows: self.rows,
            place,
            stacks,
        })
    }
}

/// What this run cannot be shown as, and what to ask for instead.
fn check(document: &Document, format: Format, rows: Rows, run: &Run) -> anyhow::Result<()> {
    let name = match format {
        Format::Text | Format::Json => return Ok(()),
        profile if stacks::is_form(profile) => return Ok(()),
        Format::Html => "html",
        Format::Md => "md",
        _ => "csv",
    };
    let path = run.path().display();
    match document {
        Document::Other => bail!(
            "{path} is a run of {verb} without a report, and `--format {name}` is made of runs of \
             lab, bench, trace, profile and tune only; leave it out to see the run as text",
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
