//! What happened that an operator is told in a line: servers that come and go, what is shed.

use std::fmt;

use crate::source::Abilities;

/// One line for the operator.
#[derive(Debug, Clone)]
pub enum News {
    /// A server is watched from now on.
    Watching {
        /// Its process.
        pid: u32,
        /// `MySQL` or `MariaDB`, with the version.
        name: String,
        /// What the source can know.
        abilities: Box<Abilities>,
    },
    /// A server cannot be watched.
    Refused {
        /// Its process.
        pid: u32,
        /// What failed and why.
        error: String,
    },
    /// The program of a server was replaced; it runs the old one until it is restarted.
    Upgraded {
        /// Its process.
        pid: u32,
    },
    /// A server is watched no more.
    Ended {
        /// Its process.
        pid: u32,
        /// Why.
        why: String,
    },
    /// Something is left out to keep within the budget, or is back.
    Budget(String),
    /// Which rights are kept.
    Rights(String),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watching {
                pid,
                name,
                abilities,
            } => {
                write!(f, "watching {name}, process {pid}: {}", abilities.place)?;
                for (field, why) in &abilities.missing {
                    write!(f, "\n  not available: {field} ({why})")?;
                }
                Ok(())
            }
            Self::Refused { error, .. } => f.write_str(error),
            Self::Upgraded { pid } => write!(
                f,
                "process {pid}: its program was replaced; it is watched on, and looked at anew \
                 when it restarts"
            ),
            Self::Ended { pid, why } => write!(f, "process {pid}: {why}; its probe is gone"),
            Self::Budget(what) | Self::Rights(what) => f.write_str(what),
        }
    }
}
