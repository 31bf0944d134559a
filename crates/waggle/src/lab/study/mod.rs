//! The published studies, one command each.
//!
//! A study is a list of cells, what is computed from them, and the published figures beside it.
//! Neighbours: `lab::run` measures the cells, `lab::outcome` turns each into a report of its own;
//! here they become one [`StudyReport`].
//!
//! Invariant: a study that ends early is reported with what there is, and says why it ended.

mod dbdoctor;
pub(crate) mod published;
mod values;
mod vividcortex;
mod watcher;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use waggle_report::lab::LabReport;
use waggle_report::run::{Outcome as Ending, RunDir, shell_line};
use waggle_report::study::{STUDY_FORMAT_VERSION, StudyCell, StudyReport};
use waggle_server::Flavour;

use crate::cli::{Failure, Output};
use crate::experiment::flags::duration;
use crate::interrupt::{self, Interrupt};
use crate::lab::args;
use crate::lab::cell::{CellRun, CellSpec};
use crate::lab::outcome::{cell_report, checks, server_of};
use crate::lab::run::open;

/// Repeat a published study of what watching costs.
#[derive(Debug, clap::Args)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, Subcommand)]
enum Study {
    Dbdoctor(dbdoctor::Args),
    Vividcortex(vividcortex::Args),
}

/// What every study takes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Common {
    /// At most fifteen minutes
    #[arg(long, conflicts_with = "budget")]
    pub(super) quick: bool,

    /// Time to spend, such as 15m or 8h; seconds without a unit
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub(super) budget: Option<Duration>,

    /// Which server to start [default: mysql, or mariadb if there is no MySQL]
    #[arg(long, value_name = "mysql|mariadb")]
    pub(super) sandbox: Option<Flavour>,

    /// Seed of the order of windows and of the load
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    /// Where the run directory is made
    #[arg(long, value_name = "DIR", default_value = "waggle-runs")]
    pub(super) runs: PathBuf,

    /// Go on with a run that was killed; flags are taken from it
    #[arg(long, value_name = "RUN")]
    pub(super) resume: Option<PathBuf>,
}

/// A time that a study can be done in.
fn budget(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_secs(15) {
        return Err("a study needs at least 15 s, and more to say something".to_owned());
    }
    if time > Duration::from_secs(30 * 86_400) {
        return Err(format!("'{text}': a study takes 30d at most"));
    }
    Ok(time)
}

impl StudyArgs {
    fn common(&mut self) -> &mut Common {
        match &mut self.study {
            Study::Dbdoctor(args) => args.common(),
            Study::Vividcortex(args) => args.common(),
        }
    }

    /// The flags that count: with `--resume`, those of the run that is resumed.
    fn effective(mut self) -> Result<Self, Failure> {
        let asked = self.common().clone();
        let Some(path) = &asked.resume else {
            return Ok(self);
        };
        let mut before = args::study_of(path)?;
        let common = before.common();
        common.budget = asked.budget.or(common.budget);
        common.resume = asked.resume;
        Ok(before)
    }
}

/// Runs the verb.
pub(crate) fn run(args: StudyArgs, out: &Output) -> Result<(), Failure> {
    match args.effective()?.study {
        Study::Dbdoctor(args) => dbdoctor::run(args, out),
        Study::Vividcortex(args) => vividcortex::run(args, out),
    }
}

/// A study being measured: where it is written, what it runs on, what ends it.
pub(super) struct Opened {
    pub(super) run: RunDir,
    pub(super) flavour: Flavour,
    pub(super) interrupt: Interrupt,
    pub(super) started: Instant,
}

impl Opened {
    /// Makes the run directory for these cells, or takes up the one to resume; no server is
    /// started yet.
    ///
    /// # Errors
    /// Too little disk or memory, or the directory cannot be written: nothing was touched.
    pub(super) fn create(
        common: &Common,
        name: &str,
        flavour: Flavour,
        cells: &[CellSpec],
    ) -> Result<Self, Failure> {
        let run = open(cells, common.resume.as_deref(), &common.runs, name)?;
        let interrupt = interrupt::catch()
            .context("catching signals")
            .map_err(Failure::Unusable)?;
        Ok(Self {
            run,
            flavour,
            interrupt,
            started: Instant::now(),
        })
    }

    /// A report with what every study has in common; nothing measured yet.
    pub(super) fn report(&self, name: &str) -> StudyReport {
        let mut argv = vec!["waggle".to_owned()];
        argv.extend(self.run.facts().command.iter().skip(1).cloned());
        StudyReport {
            format_version: STUDY_FORMAT_VERSION,
            name: name.to_owned(),
            command: shell_line(&argv),
            waggle_version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.run.facts().started.clone(),
            duration_s: self.started.elapsed().as_secs_f64(),
            environment: self.run.facts().host.clone(),
            ..StudyReport::default()
        }
    }

    /// Writes the report and shows it.
    ///
    /// # Errors
    /// `error`, which ended the study early, or what went wrong with writing.
    pub(super) fn close(
        self,
        report: &StudyReport,
        error: Option<anyhow::Error>,
        out: &Output,
    ) -> Result<(), Failure> {
        let page = self.run.write_study(report).map_err(Failure::ran)?;
        let ending = match error {
            None => Ending::Done,
            Some(_) => Ending::Failed,
        };
        let why = error.as_ref().map(|error| format!("{error:#}"));
        self.run.finish(ending, why).map_err(Failure::ran)?;
        if out.json {
            let mut document = json!(report);
            document["report"] = json!(page);
            out.json(&document)
                .context("stdout")
                .map_err(Failure::Ran)?;
        } else {
            print!("{}", waggle_report::study::text(report, false));
            println!("\nreport: {}", page.display());
        }
        match error {
            None => Ok(()),
            Some(error) => Err(Failure::Ran(error)),
        }
    }
}

/// Takes the notes that all cells have out of them: they are said once, of the study.
fn common_notes(cells: &mut [StudyCell]) -> Vec<String> {
    let Some((first, others)) = cells.split_first() else {
        return Vec::new();
    };
    let shared = |note: &&String| others.iter().all(|cell| cell.notes.contains(note));
    let common: Vec<String> = first.notes.iter().filter(shared).cloned().collect();
    for cell in cells {
        cell.notes.retain(|note| !common.contains(note));
    }
    common
}

/// What did not hold in a cell, each as an error for the user. Some of many A/A checks fail by
/// chance: such a cell claims nothing, and that is all.
fn failed_in(run: &CellRun, report: &LabReport) -> Vec<String> {
    let checked = LabReport {
        aa_clean: true,
        ..report.clone()
    };
    checks::failed(run, &checked)
}

/// What a verdict among those of many cells is worth.
fn within_cells(cells: usize) -> Option<String> {
    (cells > 1).then(|| {
        format!(
            "Verdicts are corrected for the arms of one cell (Holm), not over the {cells} cells: \
             where nothing made a difference in any, up to one cell in twenty would still show \
             one."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_cells_note_is_noted_once() {
        let cell = |notes: &[&str]| StudyCell {
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            ..StudyCell::default()
        };
        let mut cells = [cell(&["own", "shared"]), cell(&["shared"])];
        assert_eq!(common_notes(&mut cells), ["shared"]);
        assert_eq!(cells[0].notes, ["own"]);
        assert!(cells[1].notes.is_empty());
        assert!(common_notes(&mut []).is_empty());
    }
}
