//! The flags of `waggle doctor`, and the plan they are checked into.

use std::path::PathBuf;

use crate::cli::Failure;

use super::servers::Server;

/// What can be done on this machine, and why not the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  waggle doctor                               this kernel, the servers that run or are installed
  waggle doctor --binary /opt/mysql/bin/mysqld
  waggle doctor --json | jq .can_watch

In front of each answer: ok, NO (watching needs it), no (watching does without), ? (not known).
Nothing is attached to a server and nothing is changed. Root sees more; without it, what cannot be
known is said. Exit code 0 means that the report was made, whatever stands in it.")]
pub(crate) struct Args {
    /// Look at this server program too; may be given several times
    #[arg(long, value_name = "PATH")]
    binary: Vec<PathBuf>,
}

/// What `doctor` was asked to look at, checked.
#[derive(Debug)]
pub(super) struct Plan {
    /// The server programs named on the command line, already read.
    pub(super) given: Vec<Server>,
}

impl Args {
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let given = self.binary.iter().map(|path| Server::given(path));
        let given = given
            .collect::<anyhow::Result<_>>()
            .map_err(Failure::Unusable)?;
        Ok(Plan { given })
    }
}
