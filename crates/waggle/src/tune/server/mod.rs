//! One throw-away server under a load, as something that is tuned.
//!
//! The data is made once, on a server that is halted then and never touched again. Every server
//! that is measured starts on a copy of its data directory, so a restart for a static variable, or
//! after a crash, begins from the same tables. Variables that can be set while the server runs are;
//! the load's connections are opened anew after every switch, as sessions take many values when
//! they begin.
//!
//! Neighbours: `subject` says what is asked of it, `variables` sets and reads back, `life` starts
//! servers, `block` measures. Invariant: a value is in place only when it was read back.

mod block;
pub(super) mod life;
pub(super) mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_load::Load;
use waggle_report::run::ServerFacts;
use waggle_server::sandbox::Sandbox;
use waggle_stats::tune::same_value;

use super::subject::{Applied, BlockValue, Setup, Subject, TrialError};
use crate::experiment::facts;
use crate::interrupt;
use life::Life;
use variables::Setting;

/// How long a server that has dropped its connections may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// A throw-away server under a load.
pub(super) struct ServerSubject {
    setup: Setup,
    /// Holds the data; halted.
    base: Sandbox,
    /// The server that is measured; `None` only between two of them.
    life: Option<Life>,
    load: Option<Load>,
    /// Values before the first change, of every variable that was asked for.
    present: BTreeMap<String, Option<String>>,
    /// What differs from these now.
    current: BTreeMap<String, String>,
    /// Variables that were found to need a restart.
    fixed: BTreeSet<String>,
    /// The server was restarted since the last block.
    is_fresh: bool,
    loads: u64,
}

impl ServerSubject {
    /// Starts a server, fills it, and starts the one that is measured on a copy of its data.
    ///
    /// # Errors
    /// No server, or the workload cannot be prepared.
    pub(super) fn open(setup: &Setup) -> anyhow::Result<Self> {
        let base = life::prepared(setup)?;
        let life = Life::start(setup, &base, &[])
            .map_err(|error| anyhow!("{error}"))
            .context("starting the server on a copy of the data")?;
        Ok(Self {
            setup: setup.clone(),
            base,
            life: Some(life),
            load: None,
            present: BTreeMap::new(),
            current: BTreeMap::new(),
            fixed: setup.restart.iter().cloned().collect(),
            is_fresh: true,
            loads: 0,
        })
    }

    fn life(&mut self) -> Result<&mut Life, TrialError> {
        let gone = || TrialError::Broken(anyhow!("no server runs"));
        self.life.as_mut().ok_or_else(gone)
    }

    /// Reads what is not known yet of the values before the first change.
    fn learn(&mut self, names: &[String]) -> Result<(), TrialError> {
        for name in names {
            if self.present.contains_key(name) {
                continue;
            }
            let admin = &mut self.life()?.admin;
            match variables::read(admin, name) {
                Ok(value) => {
                    self.present.insert(name.clone(), value);
                }
                // There is none of that name, or none that is global.
                Err(error) if error.errno().is_some() && admin.is_usable() => {
                    return Err(TrialError::Refused {
                        why: format!("reading {name}: {error}"),
                    });
                }
                Err(error) => {
                    let error = anyhow!(error).context(format!("reading {name}"));
                    return Err(self.lost(error));
                }
            }
        }
        Ok(())
    }

    /// What has to change, with the value each variable shall have.
    fn changes(&self, config: &[(String, String)]) -> Vec<(String, Option<String>)> {
        let present = |name: &str| self.present.get(name).cloned().flatten();
        let now = |name: &str| match self.current.get(name) {
            Some(value) => Some(value.clone()),
            None => present(name),
        };
        let mut wanted: BTreeMap<&str, Option<String>> = BTreeMap::new();
        for name in self.current.keys() {
            wanted.insert(name, present(name));
        }
        for (name, value) in config {
            wanted.insert(name, Some(value.clone()));
        }
        let differs = |(name, value): &(&str, Option<String>)| match (now(name), value) {
            (Some(now), Some(value)) => !same_value(&now, value),
            (now, value) => now != *value,
        };
        let all = wanted.into_iter().filter(differs);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Sets what can be set while the server runs; `false`: a restart is needed.
    fn in_place(&mut self, changes: &[(String, Option<String>)]) -> Result<bool, TrialError> {
        if changes.iter().any(|(name, _)| self.fixed.contains(name)) {
            return Ok(false);
        }
        let admin = &mut self.life()?.admin;
        match variables::set(admin, changes) {
            Ok(Setting::Done) => Ok(true),
            Ok(Setting::NeedsRestart(name)) => {
                self.fixed.insert(name);
                Ok(false)
            }
            Ok(Setting::Refused(why)) => {
                self.put_back()?;
                Err(TrialError::Refused { why })
            }
            Err(error) => match self.lost(error) {
                // It lives and did not answer in time: the value's doing.
                TrialError::Broken(error) if self.life.is_some() => {
                    self.bring_back()?;
                    let why = format!("{error:#}");
                    Err(TrialError::Refused { why })
                }
                other => Err(other),
            },
        }
    }

    /// After a value that was refused: the present configuration again.
    fn put_back(&mut self) -> Result<(), TrialError> {
        let names = self.current.keys().cloned();
        let known = self.present.clone();
        let back: Vec<(String, Option<String>)> = names
            .chain(known.keys().cloned())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|name| !self.fixed.contains(name))
            .map(|name| (name.clone(), known.get(&name).cloned().flatten()))
            .collect();
        let started = self.life()?.settings.is_empty();
        let admin = &mut self.life()?.admin;
        let done = matches!(variables::set(admin, &back), Ok(Setting::Done));
        if done && started {
            self.current.clear();
            return Ok(());
        }
        self.bring_back()
    }

    /// Another server with the present configuration, whatever became of the one before.
    fn bring_back(&mut self) -> Result<(), TrialError> {
        self.replace(&[]).map_err(|error| match error {
            TrialError::Broken(error) => TrialError::Broken(error),
            other => TrialError::Broken(anyhow!(
                "the server could not be put back to the present configuration: {other}"
            )),
        })
    }

    /// A server with this configuration from its start, on the data as it was made.
    fn replace(&mut self, config: &[(String, String)]) -> Result<(), TrialError> {
        self.load = None;
        self.life = None;
        self.current.clear();
        let life = Life::start(&self.setup, &self.base, config)?;
        self.life = Some(life);
        self.current = config.iter().cloned().collect();
        self.is_fresh = true;
        let values: Vec<_> = config
            .iter()
            .map(|(name, value)| (name.clone(), Some(value.clone())))
            .collect();
        match variables::differing(&mut self.life()?.admin, &values) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(TrialError::Refused { why }),
            Err(error) => Err(self.lost(error)),
        }
    }

    /// A restart that may fail; the present configuration runs after it did.
    fn restart(&mut self, config: &[(String, String)]) -> Result<(), TrialError> {
        let failed = match self.replace(config) {
            Ok(()) => return Ok(()),
            Err(TrialError::Broken(error)) => return Err(TrialError::Broken(error)),
            Err(failed) => failed,
        };
        self.bring_back()?;
        Err(failed)
    }

    /// What it means that a connection was lost: the server's end, or an error of its own.
    fn lost(&mut self, error: anyhow::Error) -> TrialError {
        let died = self.life.take().and_then(|life| {
            match life.death(interrupt::patience(DEATH_PATIENCE)) {
                Ok(why) => Some(why),
                Err(life) => {
                    self.life = Some(*life);
                    None
                }
            }
        });
        let Some(why) = died.filter(|_| !interrupt::is_requested()) else {
            return TrialError::Broken(error);
        };
        match self.bring_back() {
            Ok(()) => TrialError::Crashed { why },
            Err(broken) => broken,
        }
    }
}

impl Subject for ServerSubject {
    fn apply(&mut self, config: &[(String, String)]) -> Result<Applied, TrialError> {
        let names: Vec<String> = config.iter().map(|(name, _)| name.clone()).collect();
        self.learn(&names)?;
        let changes = self.changes(config);
        // Sessions take many values when they begin; and every block begins alike.
        if let Some(load) = self.load.take() {
            drop(load.finish());
        }
        if changes.is_empty() {
            return Ok(Applied::InPlace);
        }
        if self.in_place(&changes)? {
            self.current = config.iter().cloned().collect();
            return Ok(Applied::InPlace);
        }
        self.restart(config)?;
        Ok(Applied::Restarted)
    }

    fn block(&mut self, seconds: f64) -> Result<BlockValue, TrialError> {
        self.start_load()?;
        let warm_up = match std::mem::take(&mut self.is_fresh) {
            true => self.setup.warm_up_restarted,
            false => self.setup.warm_up,
        };
        if let Some(load) = &self.load {
            load.resume();
        }
        self.run_for(warm_up)?;
        self.measure(seconds)
    }

    fn restore(&mut self) -> anyhow::Result<()> {
        if let Some(load) = self.load.take() {
            drop(load.finish());
        }
        let mut back = self.changes(&[]);
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        // What a restart put in place goes with the server, which nobody needs any more.
        let is_started_with = |name: &str| life.settings.iter().any(|(own, _)| own == name);
        back.retain(|(name, _)| !self.fixed.contains(name) && !is_started_with(name));
        match variables::set(&mut life.admin, &back)? {
            Setting::Done => Ok(()),
            Setting::NeedsRestart(name) => Err(anyhow!("{name} cannot be set any more")),
            Setting::Refused(why) => Err(anyhow!(why)),
        }
    }

    fn present(&mut self, names: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
        let mut known = BTreeMap::new();
        for name in names {
            match self.learn(std::slice::from_ref(name)) {
                Ok(()) => {}
                // Said of every trial with it.
                Err(TrialError::Refused { .. }) => continue,
                Err(error) => return Err(anyhow!("{error}")),
            }
            if let Some(value) = self.present.get(name).cloned().flatten() {
                known.insert(name.clone(), value);
            }
        }
        Ok(known)
    }

    fn facts(&mut self) -> Option<ServerFacts> {
        let life = self.life.as_mut()?;
        let pid = life.sandbox.pid();
        facts::of_server(&mut life.admin, self.setup.flavour, pid, &FACTS).ok()
    }
}

/// Settings that a reader needs to judge the figures.
const FACTS: [&str; 10] = [
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_flush_method",
    "innodb_doublewrite",
    "log_bin",
    "sync_binlog",
    "performance_schema",
    "max_connections",
];
