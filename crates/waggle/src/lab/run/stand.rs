//! A throw-away server with its data, the load of one cell on it, and the switch of its arms.
//!
//! Cells with equal [`Key`]s share a stand: only the load is started anew, since a server with its
//! data takes ten seconds and a load a tenth of one.
//!
//! Invariant: the load stands still whenever it is not being measured or warmed up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use waggle_load::{IgnoreErrors, Load, LoadSpec, Script};
use waggle_report::run::ServerFacts;
use waggle_server::confine::Confinement;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_server::{Flavour, status};
use waggle_stats::arrivals::{Arrivals, Spacing};
use waggle_stats::compare::WindowCounters;
use waggle_wire::{Connection, Dsn};

use super::housekeeping::Housekeeping;
use crate::experiment::{Bed, Observed};
use crate::lab::arm::leftover::State;
use crate::lab::arm::observing::Place;
use crate::lab::arm::switch::Switch;
use crate::lab::arm::{ArmSpec, ObserverSpec};
use crate::lab::cell::{CellSpec, DataSpec, Limits};
use crate::profiling::Profiling;

/// Threads that fill the server.
const PREPARE_THREADS: u32 = 8;
/// A load that has lost its server gives up after this.
const RECONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How long a server that has dropped its connections may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);
/// How long a load may take to end.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What cells must agree in to share a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    flavour: Flavour,
    settings: Vec<(String, String)>,
    data: DataSpec,
    tcp: bool,
    slow_log: bool,
}

impl Key {
    pub(super) fn of(cell: &CellSpec) -> Self {
        let packets = |arm: &ArmSpec| {
            let observer = arm.observer.as_ref();
            observer.is_some_and(
                |o| matches!(o, ObserverSpec::Watch { source, .. } if source == "packets"),
            )
        };
        let slow_log = |arm: &ArmSpec| {
            let mut statements = arm.on.iter();
            statements.any(|sql| sql.to_ascii_lowercase().contains("slow_query_log"))
        };
        Self {
            flavour: cell.flavour,
            settings: cell.settings.clone(),
            data: cell.data.clone(),
            tcp: cell.over_tcp || cell.arms.iter().any(packets),
            slow_log: cell.arms.iter().any(slow_log),
        }
    }

    /// Settings of the server. A session takes `long_query_time` when it connects, so where an arm
    /// is the slow log it is 0 from the start, and the log itself is the switch. MariaDB's sessions
    /// take that when they connect too: see [`Stand::take_up`].
    fn settings(&self, extra: &[(String, String)]) -> Vec<(String, String)> {
        let mut all = vec![("performance_schema".to_owned(), "OFF".to_owned())];
        if self.slow_log {
            all.push(("long_query_time".to_owned(), "0".to_owned()));
            all.push(("slow_query_log".to_owned(), "OFF".to_owned()));
        }
        all.extend(self.settings.iter().chain(extra).cloned());
        all
    }
}

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
        for (name, value) in key.settings(extra) {
            spec = spec.set(name, value);
        }
        let server = Sandbox::start(&spec)?;
        waggle_load::prepare(&prepare_spec(key, &server, seed)?, |_| {})
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
        let spec = load_spec(&self.key, cell, &self.server);
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
                .keep_threads_off()
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
        thread::sleep(time);
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
        self.normal = self.switch.normal()?;
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
            false => DEATH_PATIENCE,
        };
        let ended = self.server.ended(patience).ok()??;
        Some(format!("the server ended ({ended:?})"))
    }

    /// The server as a report names it.
    pub(super) fn facts(&mut self) -> anyhow::Result<ServerFacts> {
        let process = waggle_server::process::from_pid(self.server.pid())?;
        let all =
            status::variables(self.switch.admin()).context("reading the server's variables")?;
        let chosen = VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), all.get(*name)?.clone())))
            .collect();
        Ok(ServerFacts {
            flavour: match process.flavour {
                Flavour::MySql => "MySQL".to_owned(),
                Flavour::MariaDb => "MariaDB".to_owned(),
            },
            version: all
                .get("version")
                .cloned()
                .or(process.version)
                .unwrap_or_default(),
            build_id: process.build_id,
            variables: chosen,
        })
    }

    /// Ends load, observers and server; the first thing that went wrong is the error.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.switch.end();
        let stopped = match self.load {
            Some((_, load)) => load.stop().map(drop).context("ending the load"),
            None => Ok(()),
        };
        drop(self.confinement);
        self.server.stop().context("stopping the server")?;
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
        slow_log: server.datadir().join(name.unwrap_or_default()),
    })
}

/// The options that the data's size is.
fn data_options(data: &DataSpec) -> BTreeMap<String, String> {
    let mut options = data.options.clone();
    for (name, value) in [
        ("tables", u64::from(data.tables)),
        ("table-size", data.table_size),
    ] {
        // 0: the workload has no such option.
        if value > 0 {
            options.insert(name.to_owned(), value.to_string());
        }
    }
    options
}

fn prepare_spec(key: &Key, server: &Sandbox, seed: u64) -> anyhow::Result<LoadSpec> {
    let mut spec = LoadSpec::new(server.dsn_socket(), Script::open(&key.data.script)?);
    spec.threads = PREPARE_THREADS;
    spec.seed = seed;
    spec.options = data_options(&key.data);
    Ok(spec)
}

fn load_spec(key: &Key, cell: &CellSpec, server: &Sandbox) -> LoadSpec {
    let dsn: Dsn = if key.tcp {
        server.dsn()
    } else {
        server.dsn_socket()
    };
    let mut spec = LoadSpec::new(dsn, cell.script.clone());
    spec.threads = cell.threads;
    spec.seed = cell.seed;
    spec.options = data_options(&key.data);
    spec.options.extend(cell.options.clone());
    spec.start_paused = true;
    // Errors are counted, arm by arm: one that has them and another that has not is a finding.
    spec.ignore_errors = IgnoreErrors::All;
    spec.restart_limit = u32::MAX;
    spec.reconnect_limit = RECONNECT_LIMIT;
    spec.stop_grace = STOP_GRACE;
    spec.arrivals = cell
        .rate
        .map(|rate| Arrivals::constant(rate, Spacing::default()));
    spec
}

/// Where the arms of a cell run: one server, or two that take turns.
pub(super) struct Seat<'a> {
    pub(super) cell: &'a CellSpec,
    /// The server without settings of an arm.
    pub(super) base: &'a mut Stand,
    /// The server with them.
    pub(super) set: Option<&'a mut Stand>,
}

impl Seat<'_> {
    fn stand(&self, arm: usize) -> &Stand {
        match (&self.set, self.cell.arm(arm)) {
            (Some(set), Some(arm)) if !arm.is_in_life() => set,
            _ => self.base,
        }
    }

    pub(super) fn stand_mut(&mut self, arm: usize) -> &mut Stand {
        match (&mut self.set, self.cell.arm(arm)) {
            (Some(set), Some(arm)) if !arm.is_in_life() => set,
            _ => self.base,
        }
    }

    pub(super) fn stands(&mut self) -> Vec<&mut Stand> {
        let set = self.set.as_deref_mut();
        std::iter::once(&mut *self.base).chain(set).collect()
    }

    /// Why a server of the seat cannot be used any more.
    pub(super) fn lost(&mut self) -> Option<String> {
        self.stands().into_iter().find_map(|stand| {
            let spoiled = stand.switch.spoiled().map(str::to_owned);
            stand.death().or(spoiled)
        })
    }
}

impl Bed for Seat<'_> {
    fn subject(&self, arm: usize) -> (&Load, u32) {
        let stand = self.stand(arm);
        let load = stand.load.as_ref().map(|(_, load)| load);
        // A seat is taken only after `take_up`.
        (load.expect("a load was started"), stand.server.pid())
    }

    fn on(&mut self, arm: usize) -> anyhow::Result<()> {
        let Some(spec) = self.cell.switched(arm) else {
            return Ok(());
        };
        let stand = self.stand_mut(arm);
        stand.switch.on(spec)?;
        let tools = stand.switch.tools();
        let Some(confinement) = &mut stand.confinement else {
            return Ok(());
        };
        let mut tools = tools.into_iter();
        if let Err(error) = tools.try_for_each(|pid| confinement.add(pid)) {
            let error = anyhow!(error);
            return Err(match stand.switch.off(spec) {
                Ok(_) => error,
                Err(back) => error.context(format!("and not back: {back:#}")),
            });
        }
        Ok(())
    }

    fn off(&mut self, arm: usize) -> anyhow::Result<Observed> {
        match self.cell.switched(arm) {
            Some(spec) => self.stand_mut(arm).switch.off(spec),
            None => Ok(Observed::default()),
        }
    }

    fn counters(&mut self, arm: usize) -> Option<WindowCounters> {
        self.stand_mut(arm).window_counters()
    }

    fn tools(&self, arm: usize) -> Vec<u32> {
        match self.cell.switched(arm) {
            Some(_) => self.stand(arm).switch.tools(),
            None => Vec::new(),
        }
    }
}
