//! A replica as what is tuned: how many transactions a second it applies, with these variables here
//! and those on its primary.
//!
//! `stage` is a primary, its replica and a load, and measures blocks; `meter` makes rates of
//! readings; `ends` knows which server a variable is of; `server::life` tells the log of one that
//! failed. Above is the engine, which knows a [`Subject`] only. Invariant: variables that are
//! dynamic are switched while the applier stands, so a block has one configuration from its first
//! transaction to its last.

mod ends;
mod meter;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_load::LoadError;
use waggle_report::run::ServerFacts;
use waggle_server::sandbox::Sandbox;
use waggle_server::status;
use waggle_server::topology::{Part, TopologyError};
use waggle_wire::Connection;

use super::server::{life, variables};
use super::subject::{Applied, BlockValue, Setup, Subject, TrialError};
use ends::{End, NotSet, Split};
use stage::{Stage, TooSlow};

/// How long a server that has dropped its connections may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_millis(500);
/// How long the replica may take to find its primary again.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// Settings that a reader needs to judge the figures, of the replica.
const VARIABLES: [&str; 16] = [
    "version_comment",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "sync_binlog",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    "replica_parallel_workers",
    "replica_parallel_type",
    "replica_preserve_commit_order",
    "slave_parallel_threads",
    "slave_parallel_mode",
    "performance_schema",
    "binlog_format",
];

/// A primary under load and its replica.
pub(crate) struct ReplicaSubject {
    stage: Stage,
    /// Values before the first `apply`, of what was changed since.
    present: BTreeMap<(End, String), String>,
    /// What is in place beside them.
    current: Split,
    /// Variables that take a restart.
    fixed: BTreeSet<(End, String)>,
    /// What the servers were last restarted with.
    at_start: Split,
}

impl ReplicaSubject {
    /// Starts a primary, fills it, gives it a replica with the same data, and a load that stands
    /// still. All of it goes with the value.
    ///
    /// # Errors
    /// A server, the workload or the replication cannot be had.
    pub(crate) fn start(setup: &Setup) -> anyhow::Result<Self> {
        Ok(Self {
            stage: Stage::start(setup)?,
            present: BTreeMap::new(),
            current: Split::default(),
            fixed: setup.restart.iter().map(|name| End::of(name)).collect(),
            at_start: Split::default(),
        })
    }

    fn link(&mut self, end: End) -> anyhow::Result<&mut waggle_server::topology::Link> {
        match end {
            End::Primary => Ok(self.stage.topology.primary_link()),
            End::Replica => Ok(self.stage.replica()?.link()),
        }
    }

    /// Puts a configuration in place; what was before stays where it fails.
    fn put(&mut self, wanted: &Split) -> Result<Applied, TrialError> {
        let mut applied = Applied::InPlace;
        let before = self.current.primary.clone();
        for end in End::BOTH {
            self.remember(end, wanted)?;
            // A variable shows that it takes a restart when it is set for the first time.
            while self.restart_if_needed(end, wanted)? | self.set_all(end, wanted)? {
                applied = Applied::Restarted;
            }
        }
        // Sessions take many values when they begin.
        if wanted.primary != before
            && let Err(error) = self.stage.start_load()
        {
            return Err(self.judge(error));
        }
        self.current = wanted.clone();
        Ok(applied)
    }

    /// Reads what is about to be changed for the first time.
    fn remember(&mut self, end: End, wanted: &Split) -> Result<(), TrialError> {
        for name in wanted.of(end).keys() {
            let key = (end, name.clone());
            if self.present.contains_key(&key) {
                continue;
            }
            let link = self.link(end).map_err(TrialError::Broken)?;
            let value = ends::read(link, name).map_err(|not| self.not_set(not))?;
            let value = value.ok_or_else(|| TrialError::Refused {
                why: format!("there is no variable {name}"),
            })?;
            self.present.insert(key, value);
        }
        Ok(())
    }

    /// Restarts an end whose variables of that kind are to be others; whether it did.
    fn restart_if_needed(&mut self, end: End, wanted: &Split) -> Result<bool, TrialError> {
        let mut fixed = wanted.of(end).clone();
        fixed.retain(|name, _| self.fixed.contains(&(end, name.clone())));
        if fixed == *self.at_start.of(end) {
            return Ok(false);
        }
        *self.at_start.of_mut(end) = fixed;
        self.restart(end)?;
        // All that was set while it ran is gone.
        self.current.of_mut(end).clear();
        for (name, value) in self.at_start.of(end).clone() {
            let link = self.link(end).map_err(TrialError::Broken)?;
            ends::check_started(link, &name, &value).map_err(|not| self.not_set(not))?;
        }
        Ok(true)
    }

    fn restart(&mut self, end: End) -> Result<(), TrialError> {
        let values = self.at_start.of(end).iter();
        let settings: Vec<(String, String)> = values
            .map(|(name, value)| (name.clone(), variables::option(value)))
            .collect();
        let restarted = match end {
            End::Primary => {
                self.stage.end_load();
                self.stage.topology.restart_primary(&settings)
            }
            End::Replica => {
                let replica = self.stage.replica().map_err(TrialError::Broken)?;
                replica.restart(&settings)
            }
        };
        let error = match restarted.map(|()| self.after_restart()) {
            Ok(Ok(())) => return Ok(()),
            Err(TopologyError::Sandbox(error)) => return Err(life::start_error(error)),
            Ok(Err(error)) => error,
            Err(error) => anyhow!(error),
        };
        Err(match self.judge(error) {
            TrialError::Refused { why } => TrialError::CannotRestart { why },
            other => other,
        })
    }

    fn after_restart(&mut self) -> anyhow::Result<()> {
        if !self.stage.has_load() {
            self.stage.start_load()?;
        }
        let replica = self.stage.replica()?;
        replica.link().wait_running(CONNECT_PATIENCE)?;
        self.stage.settle()
    }

    /// Sets what can be set while the servers run; whether it met something that cannot.
    fn set_all(&mut self, end: End, wanted: &Split) -> Result<bool, TrialError> {
        let mut names: BTreeSet<String> = wanted.of(end).keys().cloned().collect();
        names.extend(self.current.of(end).keys().cloned());
        let mut found_fixed = false;
        for name in names {
            let key = (end, name);
            if self.fixed.contains(&key) {
                continue;
            }
            let name = &key.1;
            let now = self.current.of(end).get(name);
            let value = wanted.of(end).get(name);
            if now == value {
                continue;
            }
            let Some(value) = value.or(self.present.get(&key)).cloned() else {
                continue;
            };
            let link = self.link(end).map_err(TrialError::Broken)?;
            match ends::set(link, name, &value) {
                Ok(()) => {
                    // Known as it goes, so that a refusal of the next one undoes this one too.
                    self.current.of_mut(end).insert(name.clone(), value);
                }
                Err(NotSet::Fixed) => {
                    self.fixed.insert(key);
                    found_fixed = true;
                }
                Err(not) => {
                    // It may have been taken in part.
                    self.current.of_mut(end).insert(name.clone(), value);
                    return Err(self.not_set(not));
                }
            }
        }
        Ok(found_fixed)
    }

    fn not_set(&mut self, not: NotSet) -> TrialError {
        match not {
            NotSet::Refused(why) => TrialError::Refused { why },
            NotSet::Fixed => TrialError::Refused {
                why: "the variable takes a restart".to_owned(),
            },
            NotSet::Lost(error) => self.judge(anyhow!(error)),
        }
    }

    /// How a server died, if one did. Its log is told and removed.
    fn death(&mut self) -> Option<String> {
        let mut words = Vec::new();
        let topology = &mut self.stage.topology;
        if let Some(word) = death_of(topology.primary_mut()) {
            words.push(word);
        }
        for replica in topology.replicas() {
            words.extend(death_of(replica.sandbox_mut()));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// The present configuration on living servers, after a trial that failed.
    fn recover(&mut self) -> anyhow::Result<()> {
        for end in End::BOTH {
            if !self.is_kept(end)? {
                self.renew(end)?;
            }
        }
        self.put(&Split::default())
            .map_err(|error| anyhow!("{error}"))?;
        self.after_restart()
    }

    fn sandbox(&mut self, end: End) -> anyhow::Result<&mut Sandbox> {
        match end {
            End::Primary => Ok(self.stage.topology.primary_mut()),
            End::Replica => Ok(self.stage.replica()?.sandbox_mut()),
        }
    }

    /// Whether an end can go on as it is: it lives, answers, and was started with nothing.
    fn is_kept(&mut self, end: End) -> anyhow::Result<bool> {
        let ended = self.sandbox(end)?.ended(Duration::ZERO);
        if !ended.is_ok_and(|exit| exit.is_none()) || !self.at_start.of(end).is_empty() {
            return Ok(false);
        }
        let link = self.link(end)?;
        Ok(match end {
            End::Primary => link.written().is_ok(),
            // MariaDB takes another number of workers only while the applier stands.
            End::Replica => link.stop(Part::Applier).is_ok(),
        })
    }

    /// Another life of an end, started with nothing.
    fn renew(&mut self, end: End) -> anyhow::Result<()> {
        if end == End::Primary {
            self.stage.end_load();
        }
        if let Err(error) = self.sandbox(end)?.halt() {
            // The error of the trial says why it comes to this; the log of the end goes.
            drop(life::told(error));
        }
        self.at_start.of_mut(end).clear();
        self.current.of_mut(end).clear();
        match end {
            End::Primary => self.stage.topology.restart_primary(&[])?,
            End::Replica => self.stage.replica()?.restart(&[])?,
        }
        Ok(())
    }

    /// Puts the servers back after a failure, which is the answer unless that fails too.
    fn fall_back(&mut self, error: TrialError) -> TrialError {
        if matches!(error, TrialError::Broken(_)) {
            return error;
        }
        match self.recover() {
            Ok(()) => error,
            Err(worse) => TrialError::Broken(
                worse.context(format!("putting the servers back after a trial ({error})")),
            ),
        }
    }

    /// What an error means for the trial in which it came.
    fn judge(&mut self, error: anyhow::Error) -> TrialError {
        if let Some(why) = self.death() {
            return TrialError::Crashed { why };
        }
        // Too slow, stopped, no answer in time: the value's doing, on servers that live.
        let of_servers = error.downcast_ref().map(TopologyError::to_string);
        let of_block = || error.downcast_ref().map(TooSlow::to_string);
        let of_load = |error: &LoadError| format!("the load did not start: {error}");
        let why = of_servers
            .or_else(of_block)
            .or_else(|| error.downcast_ref().map(of_load));
        match why {
            Some(why) => TrialError::Refused { why },
            None => TrialError::Broken(error),
        }
    }
}

impl Subject for ReplicaSubject {
    fn apply(&mut self, config: &[(String, String)]) -> Result<Applied, TrialError> {
        let wanted = Split::new(config);
        match self.put(&wanted) {
            Ok(applied) => Ok(applied),
            Err(error) => Err(self.fall_back(error)),
        }
    }

    fn block(&mut self, seconds: f64) -> Result<BlockValue, TrialError> {
        match self.stage.block(seconds) {
            Ok(value) => Ok(value),
            Err(error) => {
                let error = self.judge(error);
                Err(self.fall_back(error))
            }
        }
    }

    fn restore(&mut self) -> anyhow::Result<()> {
        self.put(&Split::default())
            .map(drop)
            .map_err(|error| anyhow!("{error}"))
            .context("putting the servers' variables back")
    }

    fn present(&mut self, names: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
        let mut values = BTreeMap::new();
        for name in names {
            let (end, own) = End::of(name);
            let known = self.present.get(&(end, own.clone())).cloned();
            let value = match known {
                Some(value) => Some(value),
                None => match ends::read(self.link(end)?, &own) {
                    Ok(value) => value,
                    Err(NotSet::Lost(error)) => return Err(anyhow!(error)),
                    Err(NotSet::Refused(_) | NotSet::Fixed) => None,
                },
            };
            values.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(values)
    }

    fn facts(&mut self) -> Option<ServerFacts> {
        let sandbox = self.stage.replica().ok()?.sandbox();
        let mut connection = Connection::connect(&sandbox.dsn_socket()).ok()?;
        let mut variables = status::variables(&mut connection).ok()?;
        variables.retain(|name, _| VARIABLES.contains(&name.as_str()));
        Some(ServerFacts {
            flavour: sandbox.flavour().to_string(),
            version: sandbox.version().to_owned(),
            build_id: sandbox.program().build_id.clone(),
            variables,
        })
    }
}

fn death_of(sandbox: &mut Sandbox) -> Option<String> {
    // Who has lost the connection hears of the server's end a moment before its guardian does.
    let ended = sandbox.ended(DEATH_PATIENCE);
    let exit = ended.ok().flatten()?;
    let how = match sandbox.halt() {
        Err(error) => life::told(error),
        Ok(()) => exit.to_string(),
    };
    Some(format!("server {:?} ended ({how})", sandbox.name()))
}

#[cfg(test)]
mod tests;
