//! Which end of a replication a variable is of, and how it gets its value there.
//!
//! Neighbour: `mod` puts configurations in place with it. Invariant: a value that the server took
//! otherwise than it was given is refused, with what it took.

use std::collections::BTreeMap;

use waggle_server::topology::{Link, TopologyError};
use waggle_stats::tune::{amount, same_value};

/// Unknown variable.
const ER_UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;
/// The variable is fixed while the server runs.
const ER_READ_ONLY: u16 = 1238;

/// An end of a replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Primary,
    Replica,
}

impl End {
    /// Both, in the order in which they are put in place: replicas need their primary.
    pub(super) const BOTH: [Self; 2] = [Self::Primary, Self::Replica];

    /// Where a variable of the space belongs, and its own name there. `primary.` and `replica.`
    /// before the name say it; without, what delays the primary's group commit is the primary's
    /// and all else the replica's.
    pub(super) fn of(name: &str) -> (Self, String) {
        let plain = name.trim().replace('-', "_").to_ascii_lowercase();
        for (prefix, end) in [("primary.", Self::Primary), ("replica.", Self::Replica)] {
            if let Some(own) = plain.strip_prefix(prefix) {
                return (end, own.to_owned());
            }
        }
        let is_primary = ["binlog_group_commit_", "binlog_commit_wait_"]
            .iter()
            .any(|family| plain.starts_with(family));
        match is_primary {
            true => (Self::Primary, plain),
            false => (Self::Replica, plain),
        }
    }
}

/// A configuration by its ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) primary: BTreeMap<String, String>,
    pub(super) replica: BTreeMap<String, String>,
}

impl Split {
    pub(super) fn new(config: &[(String, String)]) -> Self {
        let mut split = Self::default();
        for (name, value) in config {
            let (end, name) = End::of(name);
            split.of_mut(end).insert(name, value.clone());
        }
        split
    }

    pub(super) fn of(&self, end: End) -> &BTreeMap<String, String> {
        match end {
            End::Primary => &self.primary,
            End::Replica => &self.replica,
        }
    }

    pub(super) fn of_mut(&mut self, end: End) -> &mut BTreeMap<String, String> {
        match end {
            End::Primary => &mut self.primary,
            End::Replica => &mut self.replica,
        }
    }
}

/// Why a value is not in place.
#[derive(Debug)]
pub(super) enum NotSet {
    /// It takes a restart.
    Fixed,
    /// The server does not want it.
    Refused(String),
    /// The server does not answer.
    Lost(TopologyError),
}

/// A value as `SET` takes it: numbers plain, with suffixes worked out, all else quoted.
fn literal(value: &str) -> String {
    let value = value.trim();
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    let plain = value.parse::<f64>().is_ok() && value.chars().all(of_number);
    let suffixed = value.starts_with(|c: char| c.is_ascii_digit());
    match amount(value) {
        _ if plain => value.to_owned(),
        Some(number) if suffixed && number.fract() == 0.0 => format!("{number:.0}"),
        _ => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''")),
    }
}

/// The value of a variable; `None`: the server has none of that name.
pub(super) fn read(link: &mut Link, name: &str) -> Result<Option<String>, NotSet> {
    check(name)?;
    match link.value(&format!("SELECT @@GLOBAL.{name}"), "read a variable") {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.errno() == Some(ER_UNKNOWN_SYSTEM_VARIABLE) => Ok(None),
        Err(error) if error.errno().is_some() => Err(NotSet::Refused(error.to_string())),
        Err(error) => Err(NotSet::Lost(error)),
    }
}

/// Sets a variable and reads it back.
pub(super) fn set(link: &mut Link, name: &str, value: &str) -> Result<(), NotSet> {
    check(name)?;
    let sql = format!("SET GLOBAL {name} = {}", literal(value));
    match link.run(&sql, &format!("set {name} to {value}")) {
        Ok(()) => {}
        Err(error) if error.errno() == Some(ER_READ_ONLY) => return Err(NotSet::Fixed),
        Err(error) if error.errno().is_some() => return Err(NotSet::Refused(error.to_string())),
        Err(error) => return Err(NotSet::Lost(error)),
    }
    match read(link, name)? {
        Some(now) if same_value(&now, value) => Ok(()),
        now => Err(NotSet::Refused(format!(
            "{name} was set to {value}, and {:?} took {}",
            link.name(),
            now.unwrap_or_default()
        ))),
    }
}

/// Whether a server has a value that it was started with.
pub(super) fn check_started(link: &mut Link, name: &str, value: &str) -> Result<(), NotSet> {
    match read(link, name)? {
        Some(now) if same_value(&now, value) => Ok(()),
        now => Err(NotSet::Refused(format!(
            "{:?} was started with {name} = {value}, and took {}",
            link.name(),
            now.unwrap_or_default()
        ))),
    }
}

/// A name is put into statements as it is.
fn check(name: &str) -> Result<(), NotSet> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    match !name.is_empty() && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(NotSet::Refused(format!(
            "{name:?} is no name of a variable"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_find_their_end() {
        for (name, end, own) in [
            (
                "replica_parallel_workers",
                End::Replica,
                "replica_parallel_workers",
            ),
            (
                "slave-parallel-threads",
                End::Replica,
                "slave_parallel_threads",
            ),
            ("sync_binlog", End::Replica, "sync_binlog"),
            ("primary.sync_binlog", End::Primary, "sync_binlog"),
            (
                "binlog_group_commit_sync_delay",
                End::Primary,
                "binlog_group_commit_sync_delay",
            ),
            (
                "replica.binlog_commit_wait_usec",
                End::Replica,
                "binlog_commit_wait_usec",
            ),
        ] {
            assert_eq!(End::of(name), (end, own.to_owned()), "{name}");
        }
        let config = [("primary.a", "1"), ("b", "2")];
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let split = Split::new(&config);
        assert_eq!(split.of(End::Primary)["a"], "1");
        assert_eq!(split.of(End::Replica)["b"], "2");
    }

    #[test]
    fn values_are_literals() {
        for (value, text) in [
            ("8", "8"),
            ("-1", "-1"),
            ("1.5", "1.5"),
            ("1M", "1048576"),
            ("ON", "'ON'"),
            ("a'b\\", "'a''b\\\\'"),
            ("1; DROP", "'1; DROP'"),
            ("inf", "'inf'"),
            ("", "''"),
        ] {
            assert_eq!(literal(value), text, "{value}");
        }
        assert!(check("a;b").is_err() && check("").is_err() && check("a.b_c1").is_ok());
    }
}
