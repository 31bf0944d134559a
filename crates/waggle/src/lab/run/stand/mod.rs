//! A throw-away server with its data, the load of one cell on it, and the switch of its arms.
//!
//! Cells with equal [`Key`]s share a stand: only the load is started anew, since a server with its
//! data takes ten seconds and a load a tenth of one. A [`Seat`] is a stand, or two, to measure a
//! cell on.
//!
//! Invariant: the load stands still whenever it is not being measured or warmed up.

mod key;
mod seat;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use waggle_load::Load;
use waggle_report::run::ServerFacts;
use waggle_server::confine::Confinement;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::{Flavour, status};
use waggle_stats::compare::WindowCounters;
use waggle_wire::Connection;

use super::housekeeping::Housekeeping;
use crate::experiment::facts;
use crate::interrupt;
use crate::lab::arm::ArmSpec;
use crate::lab::arm::leftover::State;
use crate::lab::arm::observing::Place;
use crate::lab::arm::switch::Switch;
use crate::lab::cell::{CellSpec, Limits};
use crate::profiling::Profiling;
pub(super) use key::Key;
pub(super) use seat::Seat;

/// How long a server that has dropped its connections may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// A server, its load and its arms.
pub(super) struct Stand {
    key: Key,
    server: Sandbox,
    switch: Switch,
    load: Option<(String, Load)>,
    limits: Limits,
    confinement: Option<Confinement>,
    normal: State,
    housekeeping: Option<Housekeeping>,
    /// Records where the server's time goes, if that was asked for.
    pub(super) profiling: Option<Profiling>,
}

impl Stand {
    /// Starts a server with further settings and fills it.
    pub(super) fn start(key: &Key, extra: &[(String, String)], seed: u64) -> anyhow::Result<Self> {
        let mut spec = SandboxSpec::new(key.flavour);
        spec.tcp = key.listens;
        for (name, value) in key.settings(extra) {
            spec = spec.set(name, value);
        }
        let server = Sandbox::start(&spec)?;
        waggle_load::prepare(&key.prepare_spec(&server, seed)?, |_| {})
            .context("preparing the workload")?;
        let mut admin =
            Connection::connect(&server.dsn_socket()).context("connecting to switch the arms")?;
        let place = place(&server, &mut admin)?;
        Ok(Self {
            key: key.clone(),
            switch: Switch::new(admin, place),
            server,
            load: None,
            limits: Limits::default(),
            confinement: None,
            normal: State::default(),
            housekeeping: None,
            profiling: None,
        })
    }

    /// Starts the load of `cell` in place of another's; it stands still.
    pub(super) fn take_up(&mut self, cell: &CellSpec) -> anyhow::Result<bool> {
        if self.load.as_ref().is_some_and(|(id, _)| *id == cell.id) {
            return Ok(false);
        }
        if let Some((_, load)) = self.load.take() {
            load.stop().context("ending the load of another cell")?;
        }
        let spec = self.key.load_spec(cell, &self.server);
        let for_sessions = self.key.slow_log && self.key.flavour == Flavour::MariaDb;
        if for_sessions {
            self.set_slow_log("ON")?;
        }
        let load = Load::start(&spec).context("starting the load")?;
        if for_sessions {
            self.set_slow_log("OFF")?;
        }
        self.load = Some((cell.id.clone(), load));
        self.confine(cell)?;
        Ok(true)
    }

    fn set_slow_log(&mut self, on: &str) -> anyhow::Result<()> {
        let sql = format!("SET GLOBAL slow_query_log = {on}");
        let admin = self.switch.admin();
        admin.query(sql.as_bytes()).context(sql)?;
        Ok(())
    }

    fn confine(&mut self, cell: &CellSpec) -> anyhow::Result<()> {
        if self.limits != cell.limits {
            self.confinement = cell.limits.confinement(self.server.datadir());
            self.limits = cell.limits;
            if let Some(confinement) = &mut self.confinement {
                confinement.add(self.server.pid())?;
            }
        }
        if let Some(confinement) = &mut self.confinement {
            confinement
                .keep_threads_off(waggle_load::apart::process())
                .context("keeping the load off the server's processors")?;
        }
        Ok(())
    }

    /// What the kernel enforces of the cell's limits, and what it does not, a sentence each.
    pub(super) fn limits_told(&self) -> (Vec<String>, Vec<String>) {
        self.confinement
            .as_ref()
            .map_or_else(Default::default, |c| {
                (c.applied().to_vec(), c.refused().to_vec())
            })
    }

    /// Lets the load run for a while; what changes meanwhile changes by itself.
    pub(super) fn warm_up(stands: &mut [&mut Self], time: Duration) -> anyhow::Result<()> {
        let mut before = Vec::new();
        for stand in &mut *stands {
            stand.housekeeping = None;
            before.push(stand.switch.look()?);
            stand.load()?.resume();
        }
        interrupt::pause(time);
        for (stand, before) in stands.iter_mut().zip(before) {
            let load = stand.load()?;
            load.pause();
            let counted = load.counters();
            if counted.transactions == 0 && counted.errors > 0 {
                let errors = load.snapshot().errors;
                let example = errors.values().next().map(|e| e.example.clone());
                bail!(
                    "every transaction of the workload failed: {}",
                    example.unwrap_or_default()
                );
            }
            stand.switch.learn_moving(&before)?;
        }
        Ok(())
    }

    /// What everything is like with all arms off.
    pub(super) fn know_normal(&mut self) -> anyhow::Result<()> {
        self.normal = self.switch.look()?;
        Ok(())
    }

    /// What is not normal after arms were switched; undone. In words, if there is anything.
    pub(super) fn settle(&mut self, arms: &[ArmSpec]) -> anyhow::Result<Option<String>> {
        let left = self.switch.settle(&self.normal, arms)?;
        for arm in arms {
            self.switch.clear(arm);
        }
        Ok((!left.is_empty()).then(|| left.words()))
    }

    /// The server's process.
    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(super) fn switch(&mut self) -> &mut Switch {
        &mut self.switch
    }

    pub(super) fn load(&self) -> anyhow::Result<&Load> {
        let load = self.load.as_ref().map(|(_, load)| load);
        load.ok_or_else(|| anyhow!("no load was started"))
    }

    /// What the server's counters moved by since the last look; `None` for a load that only reads,
    /// which has no checkpoints.
    fn window_counters(&mut self) -> Option<WindowCounters> {
        let writes = self
            .load
            .as_ref()
            .is_some_and(|(_, load)| load.counters().writes > 0);
        if !writes {
            return None;
        }
        let now = Housekeeping::read(self.switch.admin()).ok()?;
        let before = self.housekeeping.replace(now)?;
        Some(now.since(&before))
    }

    /// How the server died, if it did.
    pub(super) fn death(&mut self) -> Option<String> {
        // Who has lost the connection hears of the server's end a moment before its guardian does.
        let patience = match self.switch.admin().is_usable() {
            true => Duration::ZERO,
            false => interrupt::patience(DEATH_PATIENCE),
        };
        let ended = self.server.ended(patience).ok()??;
        Some(format!("the server ended ({ended:?})"))
    }

    /// The server as a report names it.
    pub(super) fn facts(&mut self) -> anyhow::Result<ServerFacts> {
        let pid = self.server.pid();
        facts::of_server(self.switch.admin(), self.key.flavour, pid, &VARIABLES)
            .context("reading the server's variables")
    }

    /// Ends load, observers and server; the first thing that went wrong is the error.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.switch.end();
        let stopped = match self.load {
            Some((_, load)) => load.stop().map(drop).context("ending the load"),
            None => Ok(()),
        };
        drop(self.confinement);
        // After a signal nobody waits for an orderly end of what is thrown away.
        if !interrupt::is_requested() {
            self.server.stop().context("stopping the server")?;
        }
        stopped
    }
}

/// Settings that a reader needs to judge the figures.
const VARIABLES: [&str; 14] = [
    "performance_schema",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_flush_method",
    "innodb_doublewrite",
    "log_bin",
    "sync_binlog",
    "long_query_time",
    "slow_query_log",
    "general_log",
    "thread_handling",
    "max_connections",
];

fn place(server: &Sandbox, admin: &mut Connection) -> anyhow::Result<Place> {
    let variables = status::variables(admin).context("reading the server's variables")?;
    let file = variables.get("slow_query_log_file").map(PathBuf::from);
    let name = file.as_deref().and_then(Path::file_name);
    Ok(Place {
        pid: server.pid(),
        socket: server.socket().to_owned(),
        port: server.port(),
        datadir: server.datadir().to_owned(),
        dsn: server.dsn().to_string(),
        password: server.password().clone(),
        slow_log: server.datadir().join(name.unwrap_or_default()),
    })
}
