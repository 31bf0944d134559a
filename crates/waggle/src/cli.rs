//! What every verb shares with the shell: exit codes, the shape of an error, where output goes.
//!
//! Invariant: nothing below `main` ends the process; a verb returns, its guards clean up, and only
//! then the exit code is decided.

use std::io::{self, Write};

use serde::Serialize;

/// Why a verb did not end with "done and every check held".
#[derive(Debug)]
pub(crate) enum Failure {
    /// Arguments or environment cannot be used; nothing was touched. Exit code 2.
    Unusable(anyhow::Error),
    /// It ran and something failed; what there is was reported. Exit code 1.
    Ran(anyhow::Error),
}

impl Failure {
    /// An error found before anything was opened or changed (exit code 2).
    pub(crate) fn unusable(error: impl Into<anyhow::Error>) -> Self {
        Self::Unusable(error.into())
    }

    /// An error of something that had begun (exit code 1).
    pub(crate) fn ran(error: impl Into<anyhow::Error>) -> Self {
        Self::Ran(error.into())
    }

    /// The process exit code this failure stands for.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unusable(_) => 2,
            Self::Ran(_) => 1,
        }
    }

    /// The error itself, for printing.
    pub(crate) fn error(&self) -> &anyhow::Error {
        match self {
            Self::Unusable(error) | Self::Ran(error) => error,
        }
    }
}

/// As whom a workload runs where this process has rights that a script must not have.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LoadUser {
    /// As root: run the workload as this user, never as root [default: who called sudo, else
    /// nobody]
    #[arg(long, value_name = "NAME", global = true)]
    load_user: Option<String>,
}

impl LoadUser {
    /// The user, if one was named.
    pub(crate) fn name(&self) -> Option<&str> {
        self.load_user.as_deref()
    }
}

/// How results are printed: text for people, or one JSON document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// `--json` was given: stdout carries one JSON document and nothing else.
    pub(crate) json: bool,
}

impl Output {
    /// Writes the one JSON document of this run to stdout.
    pub(crate) fn json(&self, document: &impl Serialize) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer_pretty(&mut stdout, document)?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    }
}
