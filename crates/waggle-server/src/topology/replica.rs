//! A throw-away server that replicates from another one.
//!
//! It begins either with the template's empty schema and all of the primary's binary logs, or with
//! a copy of the stopped primary's data. Neighbours: `link` rules its replication, `primary` says
//! what it has to agree in. Invariant: server ids and UUIDs of a topology are distinct.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::link::{Admission, Begin, Link};
use super::primary::{PrimaryFacts, owned};
use super::{Position, TopologyError};
use crate::Flavour;
use crate::sandbox::registry::ServerEntry;
use crate::sandbox::{Sandbox, SandboxSpec, random_number};

/// How long a new replica may take until it has its connection to the primary.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// A throw-away server that replicates, and the session that rules its replication.
///
/// Dropping it kills the server, as dropping a [`Sandbox`] does.
#[derive(Debug)]
pub struct Replica {
    // The session goes before the server, or it would see it die.
    link: Link,
    sandbox: Sandbox,
    primary: PrimaryFacts,
}

impl Replica {
    /// Starts a replica of a throw-away server that runs, with `spec` as its own settings, and
    /// returns when it has its connection to the primary. It is filled from the primary's binary
    /// logs, so it may be behind at first.
    ///
    /// # Errors
    /// [`TopologyError::OtherFlavour`], [`TopologyError::NoBinaryLog`], [`TopologyError::NoTcp`],
    /// [`TopologyError::Purged`] before anything is started; then those of [`Sandbox::start`] and
    /// [`Link`].
    pub fn of_running(spec: &SandboxSpec, entry: &ServerEntry) -> Result<Self, TopologyError> {
        if entry.flavour != spec.flavour {
            return Err(TopologyError::OtherFlavour {
                name: entry.name.clone(),
                primary: entry.flavour,
                replica: spec.flavour,
            });
        }
        let mut link = open(&entry.name, &entry.dsn_socket)?;
        let primary = PrimaryFacts::read(&mut link, entry.port)?;
        primary.check_whole()?;
        let sandbox = Sandbox::start(&with_defaults(spec, &primary))?;
        Self::begin(sandbox, primary, &link.admit()?, &Begin::First)
    }

    /// Starts a server on a copy of the stopped primary's data; it does not replicate yet.
    pub(super) fn copied(
        spec: &SandboxSpec,
        primary: &PrimaryFacts,
        datadir: &Path,
    ) -> Result<Sandbox, TopologyError> {
        let is_log = |entry: &OsStr| entry.to_str().is_some_and(|entry| primary.is_log(entry));
        let sandbox = Sandbox::start_on_part(&with_defaults(spec, primary), datadir, &is_log)?;
        Ok(sandbox)
    }

    /// Makes a server the replica of a primary that stood at `position` when its data was copied.
    pub(super) fn after_copy(
        sandbox: Sandbox,
        primary: PrimaryFacts,
        admission: &Admission,
        position: &Position,
    ) -> Result<Self, TopologyError> {
        let mut replica = Self::begin(sandbox, primary, admission, &Begin::At(position.clone()))?;
        // Of a place in a file there is nothing on the replica's side to compare.
        if replica.link.counts() {
            let own = replica.link.applied()?;
            if !own.reaches(position) {
                return Err(TopologyError::OtherData {
                    name: replica.link.name().to_owned(),
                    replica: own,
                    primary: position.clone(),
                });
            }
        }
        Ok(replica)
    }

    fn begin(
        mut sandbox: Sandbox,
        primary: PrimaryFacts,
        admission: &Admission,
        begin: &Begin,
    ) -> Result<Self, TopologyError> {
        sandbox.set_replica_of(Some(primary.name.clone()))?;
        let mut link = Link::open(sandbox.name(), &sandbox.dsn_socket())?;
        link.follow(&primary, admission, begin)?;
        link.start(super::Part::Both)?;
        link.wait_running(CONNECT_PATIENCE)?;
        Ok(Self {
            link,
            sandbox,
            primary,
        })
    }

    /// The session that rules its replication.
    pub fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The server.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The same, to halt it or to ask how it ended.
    pub fn sandbox_mut(&mut self) -> &mut Sandbox {
        &mut self.sandbox
    }

    /// Its primary, as it was when the replica was made.
    pub fn primary(&self) -> &PrimaryFacts {
        &self.primary
    }

    /// Stops the server and starts it again on the same data with further settings, as
    /// [`Sandbox::restart`] does; replication goes on where it was.
    ///
    /// # Errors
    /// Those of [`Sandbox::restart`] and [`Link`].
    pub fn restart(&mut self, settings: &[(String, String)]) -> Result<(), TopologyError> {
        self.sandbox.restart(settings)?;
        self.link = Link::open(self.sandbox.name(), &self.sandbox.dsn_socket())?;
        // What it says of itself may be that replication is not to start by itself.
        self.link.start(super::Part::Both)?;
        self.link.wait_running(CONNECT_PATIENCE)
    }

    /// The server alone, which goes on replicating.
    pub fn into_sandbox(self) -> Sandbox {
        self.sandbox
    }
}

fn open(name: &str, dsn: &str) -> Result<Link, TopologyError> {
    match dsn.parse() {
        Ok(dsn) => Link::open(name, &dsn),
        Err(_) => Err(TopologyError::Strange {
            name: name.to_owned(),
            what: "its address",
            text: dsn.to_owned(),
        }),
    }
}

/// The settings of a replica: what it has to agree in with its primary, a binary log of its own, as
/// replicas have where somebody may have to take over; then those of the user.
fn with_defaults(spec: &SandboxSpec, primary: &PrimaryFacts) -> SandboxSpec {
    let id = distinct_id(primary.server_id).to_string();
    let case = primary.lower_case_table_names.as_str();
    let mut settings = vec![
        ("server_id", id.as_str()),
        ("log_bin", "binlog"),
        ("relay_log", "relay"),
        // What a crash left half received is received again.
        ("relay_log_recovery", "ON"),
        ("read_only", "ON"),
        // So that it can have replicas, too.
        ("skip_networking", "0"),
    ];
    match (primary.flavour, primary.by_gtid) {
        (Flavour::MySql, true) => {
            settings.extend([("gtid_mode", "ON"), ("enforce_gtid_consistency", "ON")]);
        }
        (Flavour::MySql, false) => settings.push(("gtid_mode", "OFF")),
        (Flavour::MariaDb, _) => settings.push(("log_slave_updates", "ON")),
    }
    if case != "0" {
        settings.push(("lower_case_table_names", case));
    }
    let mut all = owned(&settings);
    all.extend(spec.settings.iter().cloned());
    SandboxSpec {
        settings: all,
        ..spec.clone()
    }
}

/// A server id that others of the topology do not have: one of four thousand million, and not the
/// primary's.
fn distinct_id(primary: u32) -> u32 {
    loop {
        // Small ones are what people give by hand.
        let id = random_number() | 1 << 20;
        if id != primary {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary(flavour: Flavour) -> PrimaryFacts {
        PrimaryFacts {
            name: "p".into(),
            flavour,
            port: 3306,
            first_log: "binlog.000001".into(),
            log_base: "binlog".into(),
            server_id: 1,
            by_gtid: true,
            lower_case_table_names: "1".into(),
            purged: None,
        }
    }

    #[test]
    fn a_replicas_settings_agree_with_the_primary_and_the_user_wins() {
        for flavour in [Flavour::MySql, Flavour::MariaDb] {
            let spec = SandboxSpec::new(flavour).set("read_only", "OFF");
            let all = with_defaults(&spec, &primary(flavour)).settings;
            let of = |name: &str| {
                let found = all.iter().rev().find(|(known, _)| known == name);
                found.map(|(_, value)| value.as_str())
            };
            assert_eq!(of("read_only"), Some("OFF"));
            assert_eq!(of("lower_case_table_names"), Some("1"));
            assert_eq!(of("gtid_mode").is_some(), flavour == Flavour::MySql);
            assert!(of("server_id").unwrap().parse::<u32>().unwrap() > 1);
        }
    }

    #[test]
    fn only_the_logs_of_a_data_directory_are_logs() {
        let facts = primary(Flavour::MariaDb);
        for log in ["binlog.000001", "binlog.index", "binlog.state"] {
            assert!(facts.is_log(log), "{log}");
        }
        for other in ["binlog", "binlogs", "sbtest", "ibdata1", "mysql.ibd"] {
            assert!(!facts.is_log(other), "{other}");
        }
        let missing = PrimaryFacts {
            purged: Some("the oldest is binlog.000004".into()),
            ..facts
        };
        let words = missing.check_whole().unwrap_err();
        assert!(words.is_unusable() && words.to_string().contains("binlog.000004"));
    }
}
