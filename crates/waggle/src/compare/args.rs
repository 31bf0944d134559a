//! `waggle compare`: two run directories to a checked plan.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use waggle_profile::model::Kind;
use waggle_report::document::Document;
use waggle_report::run::Run;

use super::flame;

/// Lay two runs of lab, bench or profile beside each other: what differs around them, and how each
/// arm's effect changed
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the run to compare with
    #[arg(value_name = "RUN")]
    first: PathBuf,
    /// Directory of the run that is compared
    #[arg(value_name = "RUN")]
    second: PathBuf,
    /// Differences within this are called none, in percent of the first run's base: 1 is 1%
    /// (`waggle lab run --margin` is a share)
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    margin: f64,
    /// Write the differential flame graph of two runs with profiles to this file (SVG): as wide as
    /// the second, red where it has a larger share than the first
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    /// Write a page with both profiles to this file (HTML): their difference, searchable
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// The time that --flame shows: on-cpu, off-cpu or runnable
    #[arg(long, value_name = "KIND", default_value = "on-cpu", value_parser = flame::kind)]
    kind: Kind,
}

/// Two runs of the same kind, read.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) first: Side,
    pub(crate) second: Side,
    /// A share of the base.
    pub(crate) margin: f64,
    /// Where the differential flame graph goes.
    pub(crate) flame: Option<PathBuf>,
    /// Where the page with both profiles goes.
    pub(crate) page: Option<PathBuf>,
    /// What the flame graph is of.
    pub(crate) kind: Kind,
}

/// One of the two.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) path: PathBuf,
    pub(crate) run: Run,
    pub(crate) document: Document,
}

impl Args {
    /// Opens both runs and refuses what cannot be compared, with the reason. Nothing is written.
    pub(crate) fn plan(self) -> anyhow::Result<Plan> {
        if !(self.margin > 0.0 && self.margin <= 50.0) {
            bail!(
                "--margin {} is no margin; write a percentage above 0 and up to 50",
                self.margin
            );
        }
        if same(&self.first, &self.second) {
            bail!(
                "both runs are {}; a run has no difference to itself, name another",
                self.first.display()
            );
        }
        let plan = Plan {
            first: Side::read(&self.first)?,
            second: Side::read(&self.second)?,
            margin: self.margin / 100.0,
            flame: self.flame,
            page: self.page,
            kind: self.kind,
        };
        for side in [&plan.first, &plan.second] {
            let without = match side.document {
                Document::Other => " without a report",
                Document::Trace(_) | Document::Tune(_) => "",
                _ => continue,
            };
            bail!(
                "{} is a run of {}{without}; runs of lab, bench and profile can be compared",
                side.path.display(),
                side.run.facts().verb
            );
        }
        let (one, two) = (plan.first.document.kind(), plan.second.document.kind());
        if one != two {
            bail!(
                "{} is a {one} and {} a {two}: they measure different things",
                plan.first.path.display(),
                plan.second.path.display()
            );
        }
        Ok(plan)
    }
}

impl Side {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let run = Run::open(path).context("cannot compare this run")?;
        let document = Document::read(&run).context("cannot compare this run")?;
        Ok(Self {
            path: path.to_path_buf(),
            run,
            document,
        })
    }
}

fn same(one: &Path, two: &Path) -> bool {
    one == two
        || fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(two).is_ok_and(|two| one == two))
}
