//! Why servers do not replicate, in words a user can act on.

use waggle_wire::Error as WireError;

use super::Position;
use crate::Flavour;
use crate::sandbox::SandboxError;

/// Why a primary and its replicas could not be had, or do not do what they should.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// One of the servers could not be started or stopped.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The primary is of the other family.
    #[error("a {replica} cannot replicate from {name:?}, which is a {primary}")]
    OtherFlavour {
        /// Name of the primary.
        name: String,
        /// The family of the primary.
        primary: Flavour,
        /// The family asked for.
        replica: Flavour,
    },
    /// The primary writes no binary log.
    #[error(
        "nothing can replicate from {name:?}: it writes no binary log; start it with \
         `waggle server up {} --primary`",
        flavour.name()
    )]
    NoBinaryLog {
        /// Name of the primary.
        name: String,
        /// Its family.
        flavour: Flavour,
    },
    /// The primary has no TCP port, and replicas connect over TCP only.
    #[error(
        "nothing can replicate from {name:?}: it has no TCP port, and replicas connect over TCP; \
         start it with `waggle server up --tcp` or `--primary`"
    )]
    NoTcp {
        /// Name of the primary.
        name: String,
    },
    /// The primary's binary logs do not begin with its first transaction.
    #[error(
        "a replica of {name:?} would lack what was written before its binary logs begin ({what}); \
         start a primary anew and keep its logs"
    )]
    Purged {
        /// Name of the primary.
        name: String,
        /// What is missing, as the server shows it.
        what: String,
    },
    /// A statement that replication needs failed.
    #[error("cannot {doing} on server {name:?}: {source}")]
    Server {
        /// What was being done.
        doing: String,
        /// Name of the server.
        name: String,
        /// The failure.
        source: WireError,
    },
    /// A server's answer is not of the kind known here.
    #[error("server {name:?} shows {what} in a form that is not known here: {text:?}")]
    Strange {
        /// Name of the server.
        name: String,
        /// What was asked for.
        what: &'static str,
        /// What it answered.
        text: String,
    },
    /// The copied data is not what the primary has.
    #[error("the replica {name:?} begins at {replica} where its primary stands at {primary}")]
    OtherData {
        /// Name of the replica.
        name: String,
        /// Where the replica is.
        replica: Position,
        /// Where the primary is.
        primary: Position,
    },
    /// A thread of the replica has stopped, with or without an error.
    #[error("the replica {name:?} does not {doing}: {why}")]
    Stopped {
        /// Name of the replica.
        name: String,
        /// `receive` or `apply`.
        doing: &'static str,
        /// The server's own words.
        why: String,
    },
    /// No password could be made up.
    #[error("cannot make up a password for the replica: {0}")]
    Random(std::io::Error),
    /// A deadline passed.
    #[error("the replica {name:?} did not {doing} within {seconds:.1} s: {why}")]
    Late {
        /// Name of the replica.
        name: String,
        /// What it was waited for.
        doing: &'static str,
        /// How long.
        seconds: f64,
        /// How far it is.
        why: String,
    },
}

impl TopologyError {
    /// Whether the request itself cannot be met (a primary that nothing can replicate from, a
    /// wrong name or setting), as opposed to a failure of something that had begun.
    pub fn is_unusable(&self) -> bool {
        match self {
            Self::Sandbox(error) => error.is_unusable(),
            Self::OtherFlavour { .. }
            | Self::NoBinaryLog { .. }
            | Self::NoTcp { .. }
            | Self::Purged { .. } => true,
            _ => false,
        }
    }

    /// The server's error number, if a statement failed with one.
    pub fn errno(&self) -> Option<u16> {
        match self {
            Self::Server { source, .. } => source.errno(),
            _ => None,
        }
    }
}
