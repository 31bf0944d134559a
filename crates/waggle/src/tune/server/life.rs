//! Servers that are measured, one after the other, each on a copy of the same data.
//!
//! Invariant: the log of a server that failed is told in the error and removed; nothing of a life
//! is left when it is dropped.

use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_load::LoadSpec;
use waggle_server::sandbox::{Sandbox, SandboxError, SandboxSpec};
use waggle_wire::Connection;

use super::super::subject::{Setup, TrialError};
use super::variables;
use crate::interrupt;

/// Threads that fill the server.
const PREPARE_THREADS: u32 = 8;
/// How long a server may take for a statement that reads or sets variables.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// A server from its start to its end.
pub(super) struct Life {
    pub(super) sandbox: Sandbox,
    pub(super) admin: Connection,
    /// What it was started with beside the settings of every server.
    pub(super) settings: Vec<(String, String)>,
}

/// A server that was filled and halted: its data is what every life begins with.
///
/// # Errors
/// There is no server, or it cannot be filled.
pub(super) fn prepared(setup: &Setup) -> anyhow::Result<Sandbox> {
    let mut base = Sandbox::start(&spec(setup, &[])).context("starting a throw-away server")?;
    let mut fill = LoadSpec::new(base.dsn_socket(), setup.script.clone());
    fill.threads = PREPARE_THREADS;
    fill.seed = setup.seed;
    fill.options = setup.options.clone();
    fill.cancel = interrupt::flag();
    waggle_load::prepare(&fill, |_| {}).context("preparing the workload")?;
    base.halt()
        .context("halting the server that holds the data")?;
    Ok(base)
}

impl Life {
    /// Starts a server with these settings on a copy of the data of `base`.
    pub(super) fn start(
        setup: &Setup,
        base: &Sandbox,
        config: &[(String, String)],
    ) -> Result<Self, TrialError> {
        let sandbox = Sandbox::start_on_copy(&spec(setup, config), base.datadir());
        let sandbox = sandbox.map_err(start_error)?;
        let admin = admin(&sandbox).map_err(|error| {
            let why = format!("it does not take a connection: {error}");
            TrialError::CannotRestart { why }
        })?;
        Ok(Self {
            sandbox,
            admin,
            settings: config.to_vec(),
        })
    }

    /// How the server ended, if it did within that time; gives the life back if it did not.
    pub(super) fn death(mut self, patience: Duration) -> Result<String, Box<Self>> {
        // One that still answers did not die. A session that a statement took too long on is
        // not asked again.
        if self.admin.is_usable() && self.admin.ping().is_ok() {
            return Err(Box::new(self));
        }
        match self.sandbox.ended(patience) {
            Ok(Some(exit)) => Ok(match self.sandbox.stop() {
                Err(error) => told(error),
                Ok(()) => exit.to_string(),
            }),
            Ok(None) | Err(_) => match admin(&self.sandbox) {
                Ok(admin) => Err(Box::new(Self { admin, ..self })),
                Err(error) => Ok(format!("it runs but does not take a connection: {error}")),
            },
        }
    }
}

/// The session that reads and sets variables.
fn admin(sandbox: &Sandbox) -> Result<Connection, waggle_wire::Error> {
    let mut admin = Connection::connect(&sandbox.dsn_socket())?;
    admin.set_timeout(Some(ANSWER_PATIENCE));
    Ok(admin)
}

fn spec(setup: &Setup, config: &[(String, String)]) -> SandboxSpec {
    let mut spec = SandboxSpec::new(setup.flavour);
    for (name, value) in setup.settings.iter().chain(config) {
        spec = spec.set(name, variables::option(value));
    }
    spec
}

/// What it means for a trial that a server did not start.
pub(in crate::tune) fn start_error(error: SandboxError) -> TrialError {
    match error {
        SandboxError::Refused { .. }
        | SandboxError::NotReady { .. }
        | SandboxError::Died { .. }
        | SandboxError::Killed { .. }
        | SandboxError::Template { .. } => TrialError::CannotRestart { why: told(error) },
        SandboxError::BadSetting { .. } => TrialError::Refused {
            why: error.to_string(),
        },
        other => TrialError::Broken(anyhow!(other)),
    }
}

/// The failure in words, on one line; the log that was kept for it is removed.
pub(in crate::tune) fn told(error: SandboxError) -> String {
    let (what, message, log) = match &error {
        SandboxError::Refused {
            exit, message, log, ..
        }
        | SandboxError::Died {
            exit, message, log, ..
        } => (exit.to_string(), message, log),
        SandboxError::NotReady {
            seconds,
            message,
            log,
            ..
        } => (format!("no answer within {seconds} s"), message, log),
        other => return other.to_string(),
    };
    let words: Vec<&str> = message.lines().map(str::trim).collect();
    let words = format!("{what}: {}", words.join("; "));
    let _ = std::fs::remove_file(log);
    words
}
