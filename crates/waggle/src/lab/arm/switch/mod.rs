//! Switches arms on one server, and makes sure that off is off.
//!
//! An arm is rehearsed before it is measured: switched on and off once with the load at rest, and
//! everything it could forget compared. From then on the settings it is known to touch are read
//! back after each switching off. [`undo`] takes back what is left of an arm. Neighbours:
//! `leftover` compares, `observing` has the processes.
//!
//! Invariant: what an arm changed is undone before its error is returned, or [`Switch::spoiled`]
//! says that it could not be; then the server is not used any more.

mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use waggle_server::status;
use waggle_wire::Connection;

use super::ArmSpec;
use super::leftover::{Leftover, State};
use super::observing::{Observers, Place};
use super::spec::shown_sql;
use crate::experiment::Observed;

/// The longest wait for the server to carry out a switch.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(20);

/// What else can be switched while a server lives, read as if it were variables.
const FURTHER: [(&str, &str); 2] = [
    (
        "plugin ",
        "SELECT plugin_name, plugin_status FROM information_schema.plugins",
    ),
    (
        "consumer ",
        "SELECT name, enabled FROM performance_schema.setup_consumers",
    ),
];

/// Switches arms on one server.
#[derive(Debug)]
pub(crate) struct Switch {
    admin: Connection,
    datadir: PathBuf,
    observers: Observers,
    /// Variables that change by themselves.
    moving: BTreeSet<String>,
    /// By arm: the variables it touches, with their values while it is off.
    touched: Vec<(ArmSpec, BTreeMap<String, String>)>,
    spoiled: Option<String>,
}

impl Switch {
    /// Switches over `admin`.
    pub(crate) fn new(mut admin: Connection, place: Place) -> Self {
        admin.set_timeout(Some(STATEMENT_PATIENCE));
        Self {
            admin,
            datadir: place.datadir.clone(),
            observers: Observers::new(place),
            moving: BTreeSet::new(),
            touched: Vec::new(),
            spoiled: None,
        }
    }

    /// The connection, for other questions.
    pub(crate) fn admin(&mut self) -> &mut Connection {
        &mut self.admin
    }

    /// Why the server cannot be used any more, if something could not be undone.
    pub(crate) fn spoiled(&self) -> Option<&str> {
        self.spoiled.as_deref()
    }

    /// The processes that observe now.
    pub(crate) fn tools(&self) -> Vec<u32> {
        self.observers.tools()
    }

    /// Everything an arm could change.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn look(&mut self) -> anyhow::Result<State> {
        let variables = self.variables()?;
        Ok(State::look(variables, &self.datadir))
    }

    fn variables(&mut self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut all = status::variables(&mut self.admin).context("reading the settings")?;
        for (kind, sql) in FURTHER {
            // A server without PERFORMANCE_SCHEMA has no consumers to forget.
            for row in self.admin.query_rows(sql.as_bytes()).unwrap_or_default() {
                let mut texts = row
                    .into_iter()
                    .map(|value| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned());
                let (name, value) = (texts.next(), texts.next());
                all.insert(
                    format!("{kind}{}", name.unwrap_or_default()),
                    value.unwrap_or_default(),
                );
            }
        }
        Ok(all)
    }

    /// What changes between two looks with nothing switched changes by itself.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn learn_moving(&mut self, earlier: &State) -> anyhow::Result<()> {
        let now = self.look()?;
        self.moving.extend(earlier.moved(&now));
        Ok(())
    }

    /// Switches `arm` on and off once and looks whether anything is left of it.
    ///
    /// # Errors
    /// It cannot be switched, or leaves something; that is undone, unless
    /// [`spoiled`](Self::spoiled).
    pub(crate) fn rehearse(&mut self, arm: &ArmSpec) -> anyhow::Result<()> {
        if let Some(observer) = &arm.observer {
            self.observers
                .stand_by(observer)
                .context("it cannot be started")?;
        }
        let does_nothing = arm.on.is_empty() && arm.observer.is_none();
        if does_nothing || self.touched.iter().any(|(known, _)| known == arm) {
            return Ok(());
        }
        let before = self.look()?;
        let declared = self.declared(arm, &before.variables);
        let switched = self.rehearse_switch(arm, &before);
        let after = self.look()?;
        let left = before.left(&after, &self.moving, &declared);
        let undone = self.undo(&before, &left, &declared);
        if let Err(error) = &undone {
            self.spoiled = Some(format!("{error:#}"));
        }
        switched?;
        if left.is_empty() {
            return Ok(());
        }
        let mut why = format!("after it was switched off, {}", left.words());
        why.push_str(match undone {
            Ok(()) => "; that was undone",
            Err(_) => "; the server was given up",
        });
        if !left.files.is_empty() {
            why.push_str(
                " (an arm that writes a log names the variable of its file, such as \
                 files = [\"general_log_file\"])",
            );
        }
        Err(anyhow!(why))
    }

    fn rehearse_switch(&mut self, arm: &ArmSpec, before: &State) -> anyhow::Result<()> {
        self.on(arm).context("it could not be switched on")?;
        let during = self.variables().map(|variables| State {
            variables,
            ..State::default()
        });
        let off = self.off(arm).context("it could not be switched off");
        let during = during?;
        let mut touched = BTreeMap::new();
        for name in before.moved(&during) {
            if self.moving.contains(&name) || name.contains(' ') {
                continue;
            }
            if let Some(value) = before.variables.get(&name) {
                touched.insert(name, value.clone());
            }
        }
        self.touched.push((arm.clone(), touched));
        off.map(drop)
    }

    /// Switches `arm` on.
    ///
    /// # Errors
    /// It cannot be; what was switched is switched back.
    pub(crate) fn on(&mut self, arm: &ArmSpec) -> anyhow::Result<()> {
        let on = self.statements(&arm.on).and_then(|()| match &arm.observer {
            Some(observer) => self.observers.on(observer),
            None => Ok(()),
        });
        if let Err(error) = on {
            let back = self.off(arm);
            return Err(match back {
                Ok(_) => error,
                Err(back) => error.context(format!("and not back: {back:#}")),
            });
        }
        Ok(())
    }

    /// Switches `arm` off and reads back the settings it is known to touch.
    ///
    /// # Errors
    /// It cannot be, or something is not as it was; that is undone unless
    /// [`spoiled`](Self::spoiled).
    pub(crate) fn off(&mut self, arm: &ArmSpec) -> anyhow::Result<Observed> {
        let observed = self.observers.off();
        let off = self.statements(&arm.off);
        let known = self.touched.iter().find(|(known, _)| known == arm);
        let Some(touched) = known.map(|(_, t)| t.clone()).filter(|t| !t.is_empty()) else {
            // Nothing is known by which to tell, or to undo, what of it is still on. In a rehearsal
            // everything is compared.
            if let (Err(error), Some(_)) = (&off, known) {
                self.spoiled = Some(format!("it could not be switched off: {error:#}"));
            }
            off?;
            return observed;
        };
        let now = self.read(&touched).context("reading back what it touched");
        let changed = now.map(|now| {
            let differs = |(name, before): (&String, &String)| {
                let now = now.get(name)?;
                (now != before).then(|| (name.clone(), before.clone(), now.clone()))
            };
            touched.iter().filter_map(differs).collect()
        });
        let left = match changed {
            Ok(variables) => Leftover {
                variables,
                ..Leftover::default()
            },
            Err(error) => {
                self.spoiled = Some(format!("{error:#}"));
                return Err(error);
            }
        };
        if !left.is_empty() {
            self.put_back(&left);
            let again = self.read(&touched);
            if again.is_ok_and(|now| now == touched) {
                off?;
                bail!(
                    "after it was switched off, {}; that was undone",
                    left.words()
                );
            }
            self.spoiled = Some(left.words());
            bail!(
                "after it was switched off, {}; the server was given up",
                left.words()
            );
        }
        off?;
        observed
    }

    fn statements(&mut self, statements: &[String]) -> anyhow::Result<()> {
        for sql in statements {
            self.admin
                .query(sql.as_bytes())
                .with_context(|| shown_sql(sql))?;
        }
        Ok(())
    }

    /// The values of these variables now.
    fn read(
        &mut self,
        wanted: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let names: Vec<String> = wanted.keys().map(|name| format!("'{name}'")).collect();
        let sql = format!(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})",
            names.join(",")
        );
        let text = |value: Option<Vec<u8>>| {
            String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
        };
        let rows = self.admin.query_rows(sql.as_bytes())?.into_iter();
        Ok(rows
            .filter_map(|row| {
                let mut values = row.into_iter();
                Some((text(values.next()?), text(values.next()?)))
            })
            .collect())
    }

    /// Ends the observers and the connection.
    pub(crate) fn end(self) {
        drop(self.observers);
        self.admin.quit().ok();
    }
}
