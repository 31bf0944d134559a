//! What has to be known of a primary before anything can replicate from it.
//!
//! Neighbours: `link` asks, `replica` uses the answers for the servers that it starts. Invariant:
//! a server that nothing can replicate from is refused before another one is started.

use super::TopologyError;
use super::link::Link;
use crate::Flavour;

/// Settings of a throw-away server that replicas are to follow: a binary log, with GTIDs, so that
/// transactions can be counted. What the user sets comes after them and wins.
pub fn primary_settings(flavour: Flavour) -> Vec<(String, String)> {
    // Replicas connect over TCP only.
    let mut settings = vec![
        ("log_bin", "binlog"),
        ("server_id", "1"),
        ("skip_networking", "0"),
    ];
    if flavour == Flavour::MySql {
        settings.extend([("gtid_mode", "ON"), ("enforce_gtid_consistency", "ON")]);
    }
    owned(&settings)
}

pub(super) fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A primary, as replicas have to know it.
#[derive(Debug, Clone)]
pub struct PrimaryFacts {
    /// Its name among the throw-away servers.
    pub name: String,
    /// Its family.
    pub flavour: Flavour,
    /// Its TCP port on 127.0.0.1.
    pub port: u16,
    /// Its oldest binary log.
    pub first_log: String,
    /// What its data directory's binary logs and their index are called, without their ends.
    pub log_base: String,
    /// `server_id`.
    pub server_id: u32,
    /// Whether its transactions have GTIDs.
    pub by_gtid: bool,
    /// `lower_case_table_names`, in which both ends have to agree.
    pub lower_case_table_names: String,
    /// What of its history is in no binary log any more, as the server shows it.
    pub purged: Option<String>,
}

impl PrimaryFacts {
    /// Asks the server.
    ///
    /// # Errors
    /// [`TopologyError::NoBinaryLog`], [`TopologyError::NoTcp`] and those of [`Link`].
    pub fn read(link: &mut Link, port: Option<u16>) -> Result<Self, TopologyError> {
        let (name, flavour) = (link.name().to_owned(), link.flavour());
        let mut ask = |what: &str| {
            let sql = format!("SELECT @@GLOBAL.{what}");
            link.value(&sql, "ask whether it can be replicated from")
        };
        if ask("log_bin")? != "1" {
            return Err(TopologyError::NoBinaryLog { name, flavour });
        }
        let Some(port) = port else {
            return Err(TopologyError::NoTcp { name });
        };
        let log_base = ask("log_bin_basename")?;
        let log_base = log_base.rsplit('/').next().unwrap_or_default().to_owned();
        let server_id = ask("server_id")?.parse().unwrap_or(0);
        let lower_case_table_names = ask("lower_case_table_names")?;
        let by_gtid = link.counts();
        let first_log = link.value("SHOW BINARY LOGS", "list its binary logs")?;
        let purged = match (flavour, by_gtid) {
            (Flavour::MySql, true) => {
                let purged = link.value("SELECT @@GLOBAL.gtid_purged", "ask what it purged")?;
                (!purged.is_empty()).then(|| format!("purged: {purged}"))
            }
            _ => (!first_log.ends_with(".000001")).then(|| format!("the oldest is {first_log}")),
        };
        Ok(Self {
            name,
            flavour,
            port,
            first_log,
            log_base,
            server_id,
            by_gtid,
            lower_case_table_names,
            purged,
        })
    }

    /// Refuses a primary of whose history something is missing in its logs.
    ///
    /// # Errors
    /// [`TopologyError::Purged`].
    pub fn check_whole(&self) -> Result<(), TopologyError> {
        match &self.purged {
            Some(what) => Err(TopologyError::Purged {
                name: self.name.clone(),
                what: what.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Whether an entry of its data directory is part of its binary log, which a replica does not
    /// take over.
    pub(super) fn is_log(&self, entry: &str) -> bool {
        let rest = entry.strip_prefix(self.log_base.as_str());
        rest.is_some_and(|rest| rest.starts_with('.'))
    }
}
