//! Which flags count when a run is resumed?
//!
//! Those that the run was started with, read again from its `run.json`, but for what decides when
//! it ends. Neighbours: [`run::command_of`] finds the command line of a run.

use std::path::Path;

use anyhow::anyhow;
use clap::{Parser, Subcommand};

use super::{Args, RunArgs, Subject, unusable};
use crate::cli::Failure;
use crate::lab::run;
use crate::lab::study::StudyArgs;

/// A command line that is read again.
#[derive(Debug, clap::Parser)]
struct Again {
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Lab(Args),
}

/// The flags of the study that this run was.
pub(in crate::lab) fn study_of(path: &Path) -> Result<StudyArgs, Failure> {
    let command = run::command_of(path)?;
    let again = Again::try_parse_from(&command)
        .map_err(|error| Failure::unusable(anyhow!("cannot resume {}: {error}", path.display())))?;
    let Verb::Lab(Args {
        subject: Subject::Study(before),
        ..
    }) = again.verb
    else {
        return unusable(format!("cannot resume {}: it is no study", path.display()));
    };
    Ok(before)
}

impl RunArgs {
    /// The flags that count: with `--resume`, those of the run that is resumed.
    pub(super) fn effective(self) -> Result<Self, Failure> {
        let Some(path) = &self.resume else {
            return Ok(self);
        };
        let command = run::command_of(path)?;
        let again = Again::try_parse_from(&command).map_err(|error| {
            Failure::unusable(anyhow!("cannot resume {}: {error}", path.display()))
        })?;
        let Verb::Lab(Args {
            subject: Subject::Run(before),
            ..
        }) = again.verb
        else {
            return unusable(format!("cannot resume {}: it is a study", path.display()));
        };
        Ok(Self {
            budget: self.budget.or(before.budget),
            until: self.until.or(before.until),
            resume: self.resume,
            ..*before
        })
    }
}
