//! The observer of an arm, whichever kind it is: switched on, off, and what it saw.
//!
//! `waggle watch` on its probe stays and is told what to do (`control`), as loading the probe takes
//! a second; any other observer is a process that is started and ended (`command`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;
use waggle_wire::Secret;

use super::ObserverSpec;
use super::command::{Running, Start};
use super::control::{Control, Counts};
use crate::experiment::Observed;

/// The server an observer looks at.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its process.
    pub(crate) pid: u32,
    /// Its socket.
    pub(crate) socket: PathBuf,
    /// Its port on 127.0.0.1, if it has one.
    pub(crate) port: Option<u16>,
    /// Its data directory, as seen from outside.
    pub(crate) datadir: PathBuf,
    /// How to ask it.
    pub(crate) dsn: String,
    /// The password of its root.
    pub(crate) password: Secret,
    /// Its slow log, as seen from outside.
    pub(crate) slow_log: PathBuf,
}

impl Place {
    fn fill(&self, word: &str) -> String {
        word.replace("{pid}", &self.pid.to_string())
            .replace("{socket}", &self.socket.display().to_string())
            .replace("{port}", &self.port())
            .replace("{datadir}", &self.datadir.display().to_string())
    }

    /// Empty without TCP.
    fn port(&self) -> String {
        self.port.map(|port| port.to_string()).unwrap_or_default()
    }

    /// What only the command and root can read of it: `MYSQL_PWD` is what clients look for.
    fn environment(&self) -> [(&'static str, String); 6] {
        let file = self.password.file().unwrap_or(Path::new(""));
        [
            ("WAGGLE_SERVER_PID", self.pid.to_string()),
            ("WAGGLE_SERVER_SOCKET", self.socket.display().to_string()),
            ("WAGGLE_SERVER_PORT", self.port()),
            ("WAGGLE_SERVER_PASSWORD_FILE", file.display().to_string()),
            ("MYSQL_PWD", self.password.expose().to_owned()),
            ("WAGGLE_SERVER_DATADIR", self.datadir.display().to_string()),
        ]
    }
}

/// The observers of one server.
#[derive(Debug)]
pub(crate) struct Observers {
    place: Place,
    /// `waggle watch` under control, by its further flags; started when first needed.
    control: BTreeMap<Vec<String>, Control>,
    on: Option<On>,
}

/// What is on.
#[derive(Debug)]
enum On {
    /// With the counts before it, if it counts statements.
    Control {
        args: Vec<String>,
        before: Option<Counts>,
    },
    Watch(Running),
    Command(Running),
}

impl Observers {
    /// None yet.
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            control: BTreeMap::new(),
            on: None,
        }
    }

    /// Starts what stays while arms are switched, so that the first window does not wait for it.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn stand_by(&mut self, spec: &ObserverSpec) -> anyhow::Result<()> {
        match control_args(spec) {
            Some(args) => self.controlled(&args).map(drop),
            None => Ok(()),
        }
    }

    /// Switches an observer on.
    ///
    /// # Errors
    /// It cannot be started or attached; nothing is left of it.
    pub(crate) fn on(&mut self, spec: &ObserverSpec) -> anyhow::Result<()> {
        if let Some(args) = control_args(spec) {
            let order = match spec {
                ObserverSpec::ProbeEmpty => "empty".to_owned(),
                ObserverSpec::Burn { ns } => format!("burn {ns}"),
                _ => "attach".to_owned(),
            };
            let before = self.controlled(&args)?.order(&order)?;
            let before = matches!(spec, ObserverSpec::Watch { .. }).then_some(before);
            self.on = Some(On::Control { args, before });
            return Ok(());
        }
        self.on = Some(match spec {
            ObserverSpec::Watch { source, args } => On::Watch(self.watch(source, args)?),
            ObserverSpec::Command { argv, ready } => {
                let argv: Vec<String> = argv.iter().map(|word| self.place.fill(word)).collect();
                On::Command(Running::start(&Start {
                    argv: &argv,
                    environment: &self.place.environment(),
                    ready: ready.as_deref(),
                    keep_output: false,
                })?)
            }
            ObserverSpec::ProbeEmpty | ObserverSpec::Burn { .. } => return Ok(()),
        });
        Ok(())
    }

    /// Switches off what is on.
    ///
    /// # Errors
    /// It ended before, or does not obey. It is gone even so.
    pub(crate) fn off(&mut self) -> anyhow::Result<Observed> {
        match self.on.take() {
            None => Ok(Observed::default()),
            Some(On::Control { args, before }) => {
                let detached = self.controlled(&args)?.order("detach");
                if detached.is_err() {
                    // With the process goes its probe.
                    self.control.remove(&args);
                }
                let after = detached?;
                Ok(before.map_or_else(Observed::default, |before| after.since(&before)))
            }
            Some(On::Watch(running)) => watched(&running.end()?),
            Some(On::Command(running)) => running.end().map(|_| Observed::default()),
        }
    }

    /// The processes that stay while arms are switched.
    pub(crate) fn standing(&self) -> Vec<u32> {
        self.control.values().map(Control::pid).collect()
    }

    /// The processes that are on.
    pub(crate) fn tools(&self) -> Vec<u32> {
        match &self.on {
            None => Vec::new(),
            Some(On::Control { args, .. }) => self
                .control
                .get(args)
                .map(Control::pid)
                .into_iter()
                .collect(),
            Some(On::Watch(running)) => vec![running.pid()],
            Some(On::Command(running)) => super::leftover::family(running.pid()),
        }
    }

    fn controlled(&mut self, args: &[String]) -> anyhow::Result<&mut Control> {
        if self.control.get_mut(args).is_some_and(|c| !c.is_running()) {
            self.control.remove(args);
            bail!("waggle watch ended by itself");
        }
        if !self.control.contains_key(args) {
            let control = Control::start(self.place.pid, args)?;
            self.control.insert(args.to_vec(), control);
        }
        self.control.get_mut(args).context("it was just started")
    }

    fn watch(&self, source: &str, args: &[String]) -> anyhow::Result<Running> {
        let program = std::env::current_exe().context("finding this program")?;
        let pid = self.place.pid.to_string();
        let mut environment = Vec::new();
        let mut argv = vec![program.display().to_string()];
        argv.extend(["watch", "--json", "--pid", &pid, "--source", source].map(str::to_owned));
        match source {
            // Arguments are everybody's to read, and the name of a server may have a password.
            "perfschema" => environment.push(("WAGGLE_DSN", self.place.dsn.clone())),
            "slowlog" => argv.extend([
                "--slow-log".to_owned(),
                self.place.slow_log.display().to_string(),
            ]),
            _ => {}
        }
        argv.extend(args.iter().cloned());
        Running::start(&Start {
            argv: &argv,
            environment: &environment,
            ready: Some("watching "),
            keep_output: true,
        })
    }
}

/// Flags of the controlled `waggle watch` that serves this observer; `None`: it is not one.
fn control_args(spec: &ObserverSpec) -> Option<Vec<String>> {
    match spec {
        ObserverSpec::ProbeEmpty | ObserverSpec::Burn { .. } => Some(Vec::new()),
        ObserverSpec::Watch { source, args } if source == "uprobe" => Some(args.clone()),
        _ => None,
    }
}

impl Counts {
    /// What was seen since `before`.
    fn since(&self, before: &Self) -> Observed {
        let since = |(cause, now): (&String, &u64)| {
            let then = before.lost.get(cause).copied().unwrap_or(0);
            (cause.clone(), now.saturating_sub(then))
        };
        Observed {
            captured: Some(self.captured.saturating_sub(before.captured)),
            lost: self.lost.iter().map(since).collect(),
        }
    }
}

/// What the document of a `waggle watch` says.
fn watched(document: &[u8]) -> anyhow::Result<Observed> {
    let value: Value = serde_json::from_slice(document).context("reading what it saw")?;
    let lost = value["lost"].as_object().into_iter().flatten();
    Ok(Observed {
        captured: value["captured"].as_u64(),
        lost: lost
            .filter_map(|(cause, count)| Some((cause.clone(), count.as_u64()?)))
            .collect(),
    })
}
