//! A primary under a load and its replica: started, and brought back to where blocks begin.
//!
//! Neighbours: `block` measures with them, the subject above puts configurations in place.
//! Invariant: before and after a block the load and the applier stand still and the replica has
//! everything.

mod block;

use std::fmt;
use std::time::Duration;

use anyhow::{Context, anyhow};
use waggle_load::{Load, LoadSpec, LoadState};
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::topology::{Link, Part, Replica, Topology, primary_settings};

use crate::interrupt;
use crate::tune::subject::Setup;

/// Threads that fill the primary.
const PREPARE_THREADS: u32 = 4;
/// How long the load may take to come to a stop.
const PAUSE_PATIENCE: Duration = Duration::from_secs(30);
/// How long the replica may take for a backlog.
const DRAIN_PATIENCE: Duration = Duration::from_secs(120);

/// Settings of both ends: logs small enough that those that were read can be removed.
const LOG_SETTINGS: [(&str, &str); 1] = [("max_binlog_size", "134217728")];

/// Something took too long, in words: it says something of the values that are in place.
#[derive(Debug)]
pub(super) struct TooSlow(String);

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TooSlow {}

/// A primary, its replica, and the load on the primary.
pub(super) struct Stage {
    pub(super) topology: Topology,
    setup: Setup,
    load: Option<Load>,
    /// Transactions that a block drains; known after the first.
    backlog: Option<u64>,
}

impl Stage {
    /// Starts both servers, with the workload's tables filled, and the load, paused.
    pub(super) fn start(setup: &Setup) -> anyhow::Result<Self> {
        let mut spec = SandboxSpec::new(setup.flavour);
        let logs = LOG_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        spec.settings = primary_settings(setup.flavour);
        spec.settings.extend(logs.clone());
        spec.settings.extend(setup.settings.iter().cloned());
        let primary = Sandbox::start(&spec)?;
        let mut fill = LoadSpec::new(primary.dsn_socket(), setup.script.clone());
        fill.threads = PREPARE_THREADS;
        fill.seed = setup.seed;
        fill.options = setup.options.clone();
        waggle_load::prepare(&fill, |_| {}).context("preparing the workload on the primary")?;
        let mut spec = SandboxSpec::new(setup.flavour);
        spec.settings.extend(logs);
        spec.settings.extend(setup.settings.iter().cloned());
        let topology = Topology::around(primary, &[spec])?;
        let mut stage = Self {
            topology,
            setup: setup.clone(),
            load: None,
            backlog: None,
        };
        stage.replica()?.link().stop(Part::Applier)?;
        stage.start_load()?;
        Ok(stage)
    }

    /// Starts the load, paused, in place of one that lost its server.
    pub(super) fn start_load(&mut self) -> anyhow::Result<()> {
        // What it had to say it said when it failed.
        drop(self.load.take());
        let dsn = self.topology.primary().dsn_socket();
        let spec = self.setup.load_spec(dsn, self.setup.seed);
        let load = Load::start(&spec).context("starting the load on the primary")?;
        self.load = Some(load);
        Ok(())
    }

    /// Ends the load, which stands still otherwise, for a primary that is to be restarted.
    pub(super) fn end_load(&mut self) {
        drop(self.load.take());
    }

    pub(super) fn has_load(&self) -> bool {
        self.load.is_some()
    }

    pub(super) fn replica(&mut self) -> anyhow::Result<&mut Replica> {
        let replica = self.topology.replicas().first_mut();
        replica.ok_or_else(|| anyhow!("there is no replica"))
    }

    fn load(&self) -> anyhow::Result<&Load> {
        self.load
            .as_ref()
            .ok_or_else(|| anyhow!("there is no load"))
    }

    /// Both sessions and the load.
    fn parts(&mut self) -> anyhow::Result<(&mut Link, &mut Link, &Load)> {
        let load = self.load.as_ref();
        let load = load.ok_or_else(|| anyhow!("there is no load"))?;
        let both = self.topology.both(0);
        let (primary, replica) = both.ok_or_else(|| anyhow!("there is no replica"))?;
        Ok((primary, replica.link(), load))
    }

    /// Back to where blocks begin, after one that failed: the replica has everything and its
    /// applier stands.
    pub(super) fn settle(&mut self) -> anyhow::Result<()> {
        let stands = |load: &Load| load.state() == LoadState::Active && pause(load).is_ok();
        if !self.load.as_ref().is_some_and(stands) {
            self.start_load()?;
        }
        let (primary, replica, _) = self.parts()?;
        let target = primary.written()?;
        replica.start(Part::Both)?;
        replica.wait_applied(&target, DRAIN_PATIENCE)?;
        replica.stop(Part::Applier)?;
        Ok(())
    }
}

fn pause(load: &Load) -> anyhow::Result<()> {
    match interrupt::hold(load, PAUSE_PATIENCE) {
        true => Ok(()),
        false => {
            let limit = PAUSE_PATIENCE.as_secs();
            let words = format!("the load did not come to a stop within {limit} s");
            Err(TooSlow(words).into())
        }
    }
}
