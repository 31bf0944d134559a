//! The two families of servers. Every module of this crate names them through [`Flavour`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The family a server belongs to. Percona Server and other builds of MySQL count as
/// [`Flavour::MySql`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// MySQL and its builds.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Flavour {
    /// Lower-case name, as written on the command line and in reports: `mysql`, `mariadb`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

/// A name that is neither `mysql` nor `mariadb`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of server; it is `mysql` or `mariadb`")]
pub struct FlavourError(String);

impl FromStr for Flavour {
    type Err = FlavourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "mysql" => Ok(Self::MySql),
            "mariadb" => Ok(Self::MariaDb),
            _ => Err(FlavourError(text.to_owned())),
        }
    }
}
