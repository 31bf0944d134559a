//! The versioned facts of a run, the content of `run.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::HostFacts;

/// Version of the run directory's format. Raised when an old reader would misread a new run.
pub const FORMAT_VERSION: u32 = 1;

/// How a run ended. A run whose `run.json` has no outcome is still running or was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Done, and every check held.
    Done,
    /// It ran and something failed; `RunFacts::error` says what.
    Failed,
    /// Stopped by the user before its end.
    Interrupted,
}

/// What ran, when, on what, with which settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// Version of the waggle that wrote the run.
    pub waggle_version: String,
    /// The verb, such as `lab`.
    pub verb: String,
    /// The run's name as the user knows it, such as the workload.
    pub name: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// End, UTC, RFC 3339; absent while running or after a kill.
    pub finished: Option<String>,
    /// How it ended; absent while running or after a kill.
    pub outcome: Option<Outcome>,
    /// What failed, in words, when the outcome is `failed`.
    pub error: Option<String>,
    /// The command line, program first. Pass it through [`super::redact_argv`].
    pub command: Vec<String>,
    /// The machine.
    pub host: HostFacts,
    /// The server measured, if there was one.
    pub server: Option<ServerFacts>,
    /// The verb's own settings, as typed values.
    pub settings: BTreeMap<String, Value>,
}

/// The server that a run measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerFacts {
    /// `MySQL` or `MariaDB`, or a fork's own name.
    pub flavour: String,
    /// The version as the server states it, such as `9.7.4`.
    pub version: String,
    /// The build id of the binary, hexadecimal.
    pub build_id: Option<String>,
    /// Global variables that matter for the run, by name.
    #[serde(alias = "settings")]
    pub variables: BTreeMap<String, String>,
}
