//! The two beds of a lab run: one server for the arms that can be switched while it lives, and
//! pairs of servers for the arm that cannot.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use waggle_load::{Load, LoadSpec};
use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::Connection;

use super::args::Plan;
use super::arms::Arm;
use super::observer::{Counts, Observer};
use crate::experiment::{Bed, Observed};

/// How long each load runs before the first window.
const WARM_UP: Duration = Duration::from_secs(2);

/// A throw-away server under load; the load stands still until it is resumed.
pub(super) struct Stand {
    pub(super) server: Sandbox,
    load: Load,
}

impl Stand {
    /// Starts a server with PERFORMANCE_SCHEMA on or off, fills it and starts the load, which
    /// runs until [`warmed`](Self::warmed).
    pub(super) fn start(plan: &Plan, flavour: Flavour, perfschema: bool) -> anyhow::Result<Self> {
        let mut spec = SandboxSpec::new(flavour);
        for (name, value) in settings(perfschema, flavour)
            .into_iter()
            .chain(plan.settings.clone())
        {
            spec = spec.set(name, value);
        }
        let server = Sandbox::start(&spec)?;
        let load_spec = load_spec(plan, &server);
        waggle_load::prepare(&load_spec, |_| {}).context("preparing the workload")?;
        let load = Load::start(&load_spec).context("starting the load")?;
        if flavour == Flavour::MariaDb {
            let mut admin = Connection::connect(&server.dsn_socket())?;
            admin
                .query(b"SET GLOBAL slow_query_log = OFF")
                .context("switching the slow log off")?;
        }
        Ok(Self { server, load })
    }

    /// The load stands still from here on.
    fn warmed(&self) {
        self.load.pause();
    }

    /// Ends load and server; the first thing that went wrong with the load is the error.
    pub(super) fn end(self) -> anyhow::Result<()> {
        let stopped = self.load.stop().context("ending the load");
        self.server.stop().context("stopping the server")?;
        stopped.map(drop)
    }
}

/// Settings the arms need: a session takes `long_query_time` when it connects, so it is 0 from
/// the start, and the slow log itself is the switch. MariaDB's sessions take that when they
/// connect too, and the global one counts only for those that have it: it is on until the load
/// has connected.
fn settings(perfschema: bool, flavour: Flavour) -> Vec<(String, String)> {
    let switch = if perfschema { "ON" } else { "OFF" };
    let slow_log = if flavour == Flavour::MariaDb {
        "ON"
    } else {
        "OFF"
    };
    [
        ("performance_schema", switch),
        ("long_query_time", "0"),
        ("slow_query_log", slow_log),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn load_spec(plan: &Plan, server: &Sandbox) -> LoadSpec {
    let mut spec = LoadSpec::new(server.dsn_socket(), plan.script.clone());
    spec.threads = plan.threads;
    spec.seed = plan.seed;
    spec.options = BTreeMap::from([
        ("tables".to_owned(), plan.tables.to_string()),
        ("table-size".to_owned(), plan.table_size.to_string()),
    ]);
    spec
}

/// One server life in which arms are switched.
pub(super) struct InLife {
    stand: Stand,
    observer: Observer,
    admin: Connection,
    before: Counts,
}

impl InLife {
    /// Starts the server, its load and the observer.
    pub(super) fn start(plan: &Plan, flavour: Flavour) -> anyhow::Result<Self> {
        let stand = Stand::start(plan, flavour, false)?;
        std::thread::sleep(WARM_UP);
        stand.warmed();
        let admin = Connection::connect(&stand.server.dsn_socket())
            .context("connecting to switch the arms")?;
        let observer = Observer::start(stand.server.pid())?;
        Ok(Self {
            stand,
            observer,
            admin,
            before: Counts::default(),
        })
    }

    pub(super) fn server(&self) -> &Sandbox {
        &self.stand.server
    }

    pub(super) fn admin(&mut self) -> &mut Connection {
        &mut self.admin
    }

    /// Ends observer, load and server.
    pub(super) fn end(self) -> anyhow::Result<()> {
        drop(self.observer);
        self.admin.quit().ok();
        self.stand.end()
    }

    fn set(&mut self, variable: &str, on: bool) -> anyhow::Result<Observed> {
        let sql = format!("SET GLOBAL {variable} = {}", if on { "ON" } else { "OFF" });
        self.admin
            .query(sql.as_bytes())
            .with_context(|| sql.clone())?;
        Ok(Observed::default())
    }
}

impl Bed for InLife {
    fn subject(&self, _arm: usize) -> (&Load, u32) {
        (&self.stand.load, self.stand.server.pid())
    }

    fn on(&mut self, arm: usize) -> anyhow::Result<()> {
        match Arm::from_number(arm) {
            Some(Arm::ProbeEmpty) => self.observer.order("empty").map(drop),
            Some(Arm::Watch) => {
                self.before = self.observer.order("attach")?;
                Ok(())
            }
            Some(Arm::GeneralLog) => self.set("general_log", true).map(drop),
            Some(Arm::SlowLogAll) => self.set("slow_query_log", true).map(drop),
            None | Some(Arm::NoneAgain | Arm::Perfschema) => Ok(()),
        }
    }

    fn off(&mut self, arm: usize) -> anyhow::Result<Observed> {
        match Arm::from_number(arm) {
            Some(Arm::ProbeEmpty) => self.observer.order("detach").map(|_| Observed::default()),
            Some(Arm::Watch) => {
                let after = self.observer.order("detach")?;
                let lost = after.ring_full - self.before.ring_full;
                Ok(Observed {
                    captured: Some(after.captured - self.before.captured),
                    lost: BTreeMap::from([("ring_full".to_owned(), lost)]),
                })
            }
            Some(Arm::GeneralLog) => self.set("general_log", false),
            Some(Arm::SlowLogAll) => self.set("slow_query_log", false),
            None | Some(Arm::NoneAgain | Arm::Perfschema) => Ok(Observed::default()),
        }
    }

    fn tool(&self, arm: usize) -> Option<u32> {
        (Arm::from_number(arm) == Some(Arm::Watch)).then(|| self.observer.pid())
    }
}

/// Two servers that live at the same time, one with PERFORMANCE_SCHEMA; the load of one stands
/// still while the other's runs, so that both see the same drift of the machine.
pub(super) struct Lives {
    off: Stand,
    on: Stand,
}

impl Lives {
    /// Starts both servers; `on_first` says which is started first.
    pub(super) fn start(plan: &Plan, flavour: Flavour, on_first: bool) -> anyhow::Result<Self> {
        let first = Stand::start(plan, flavour, on_first)?;
        // A load beside it would stretch the start of the second.
        first.load.pause();
        let second = Stand::start(plan, flavour, !on_first)?;
        first.load.resume();
        std::thread::sleep(WARM_UP);
        first.warmed();
        second.warmed();
        let (on, off) = if on_first {
            (first, second)
        } else {
            (second, first)
        };
        Ok(Self { off, on })
    }

    /// Ends both.
    pub(super) fn end(self) -> anyhow::Result<()> {
        let on = self.on.end();
        self.off.end()?;
        on
    }
}

impl Bed for Lives {
    fn subject(&self, arm: usize) -> (&Load, u32) {
        let perfschema = Arm::from_number(arm) == Some(Arm::Perfschema);
        let stand = if perfschema { &self.on } else { &self.off };
        (&stand.load, stand.server.pid())
    }

    fn on(&mut self, _arm: usize) -> anyhow::Result<()> {
        Ok(())
    }

    fn off(&mut self, _arm: usize) -> anyhow::Result<Observed> {
        Ok(Observed::default())
    }

    fn tool(&self, _arm: usize) -> Option<u32> {
        None
    }
}
