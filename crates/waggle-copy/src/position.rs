//! Where in a server's history a state of its tables is.
//!
//! A snapshot has one, the binary log is read from one, the target keeps the one that its rows
//! are at. Neighbour: the sets and lists of `waggle-wire`. Invariant: what is printed parses to an
//! equal position.

use std::fmt;
use std::str::FromStr;

use waggle_wire::binlog::gtid::{GtidSet, MariaDbPosition};

/// A place in a history: every transaction in it has happened, no other has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// MySQL: the transactions that have happened.
    MySql(GtidSet),
    /// MariaDB: the last transaction of each domain.
    MariaDb(MariaDbPosition),
}

impl Position {
    /// Whether everything that has happened here has happened at `other`, too. Positions of two
    /// flavours have nothing in common.
    pub fn is_within(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::MySql(these), Position::MySql(those)) => these.is_subset(those),
            (Position::MariaDb(these), Position::MariaDb(those)) => {
                these.iter().all(|gtid| those.contains(gtid))
            }
            _ => false,
        }
    }

    /// Reads what a server gave: `@@gtid_executed` or a GTID list.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(is_mariadb: bool, text: &str) -> Result<Position, PositionError> {
        let wrong = |why: &dyn fmt::Display| PositionError {
            text: text.to_owned(),
            why: why.to_string(),
        };
        match is_mariadb {
            true => text.parse().map(Position::MariaDb).map_err(|e| wrong(&e)),
            false => text.parse().map(Position::MySql).map_err(|e| wrong(&e)),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::MySql(set) => write!(f, "mysql:{set}"),
            Position::MariaDb(list) => write!(f, "mariadb:{list}"),
        }
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Position, PositionError> {
        match text.split_once(':') {
            Some(("mysql", set)) => Position::parse(false, set),
            Some(("mariadb", list)) => Position::parse(true, list),
            _ => Err(PositionError {
                text: text.to_owned(),
                why: "it says of no flavour that it is one".to_owned(),
            }),
        }
    }
}

/// A text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("position {text:?}: {why}")]
pub struct PositionError {
    text: String,
    why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_parses() {
        for text in [
            "mysql:",
            "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7",
            "mariadb:",
            "mariadb:0-1-270",
        ] {
            let position: Position = text.parse().unwrap();
            assert_eq!(position.to_string(), text);
        }
        let position = |text: &str| text.parse::<Position>().unwrap();
        assert!(position("mariadb:0-1-5").is_within(&position("mariadb:0-2-6,1-1-1")));
        assert!(!position("mariadb:0-1-5,1-1-2").is_within(&position("mariadb:0-2-6,1-1-1")));
        assert!(!position("mariadb:").is_within(&position("mysql:")));
        assert!("0-1-2".parse::<Position>().is_err());
        assert!("mysql:0-1-2".parse::<Position>().is_err());
    }
}
