//! How far a server has come in a stream of transactions, as something that can be counted.
//!
//! Neighbours: `link` reads positions from servers; the arithmetic of MySQL's sets is
//! `waggle-wire`'s. Invariant: a count is of transactions and exact, or it is not there.

use std::fmt;

use serde::{Serialize, Serializer};
use waggle_wire::binlog::gtid::{GtidSet, MariaDbPosition};

/// What a server wrote, received or applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// MySQL with GTIDs: every transaction there is.
    MySql(GtidSet),
    /// MariaDB: the last transaction of each domain.
    MariaDb(MariaDbPosition),
    /// MySQL without GTIDs: a place in the primary's binary logs.
    File {
        /// Name of the log, whose end is a number.
        file: String,
        /// Bytes from its beginning.
        offset: u64,
    },
}

impl Position {
    /// Transactions that are here and not yet in `earlier`; exact. `None`: positions of different
    /// kinds, a place in a file (which counts bytes), a domain that went back.
    ///
    /// MariaDB numbers the transactions of a domain without gaps, so the difference of two numbers
    /// is their count as long as one primary writes to the domain.
    pub fn since(&self, earlier: &Position) -> Option<u64> {
        match (self, earlier) {
            (Self::MySql(now), Self::MySql(before)) => {
                let mut new = now.clone();
                new.subtract(before);
                Some(new.count())
            }
            (Self::MariaDb(now), Self::MariaDb(before)) => {
                let mut count = 0u64;
                for gtid in now.iter() {
                    let old = before.iter().find(|old| old.domain == gtid.domain);
                    let old = old.map_or(0, |old| old.sequence);
                    count = count.checked_add(gtid.sequence.checked_sub(old)?)?;
                }
                Some(count)
            }
            _ => None,
        }
    }

    /// Whether everything of `target` is here.
    pub fn reaches(&self, target: &Position) -> bool {
        match (self, target) {
            (Self::MySql(now), Self::MySql(target)) => target.is_subset(now),
            (Self::MariaDb(now), Self::MariaDb(target)) => {
                target.iter().all(|gtid| now.contains(gtid))
            }
            (
                Self::File { file, offset },
                Self::File {
                    file: target_file,
                    offset: target_offset,
                },
            ) => {
                let (log, target_log) = (number_of(file), number_of(target_file));
                log > target_log || (log == target_log && offset >= target_offset)
            }
            _ => false,
        }
    }
}

/// The number at the end of a binary log's name; 0 where there is none.
fn number_of(file: &str) -> u64 {
    let digits = file.rsplit('.').next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MySql(set) => set.fmt(f),
            Self::MariaDb(position) => position.fmt(f),
            Self::File { file, offset } => write!(f, "{file}:{offset}"),
        }
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn mysql(text: &str) -> Position {
        Position::MySql(text.parse().unwrap())
    }

    fn mariadb(text: &str) -> Position {
        Position::MariaDb(text.parse().unwrap())
    }

    fn file(file: &str, offset: u64) -> Position {
        let file = file.to_owned();
        Position::File { file, offset }
    }

    #[test]
    fn transactions_are_counted_through_gaps_and_domains() {
        let (before, now) = (
            mysql(&format!("{A}:1-10")),
            mysql(&format!("{A}:1-12:15:20-21")),
        );
        assert_eq!(now.since(&before), Some(5));
        assert_eq!(before.since(&now), Some(0));
        assert!(now.reaches(&before) && !before.reaches(&now));
        assert_eq!(mysql("").since(&mysql("")), Some(0));

        let (before, now) = (mariadb("0-1-10"), mariadb("0-1-25,7-1-3"));
        assert_eq!(now.since(&before), Some(18));
        assert!(now.reaches(&before) && !before.reaches(&now));
        assert_eq!(before.since(&mariadb("0-1-11")), None);
        assert!(mariadb("").reaches(&mariadb("")));
    }

    #[test]
    fn places_in_files_are_compared_and_not_counted() {
        let (a, b) = (file("binlog.000009", 900), file("binlog.000010", 4));
        assert!(b.reaches(&a) && !a.reaches(&b) && a.reaches(&a));
        assert_eq!(b.since(&a), None);
        assert!(!b.reaches(&mariadb("0-1-1")));
        // Six digits are not the end of it.
        assert!(file("x.1000000", 4).reaches(&file("x.999999", 4)));
    }
}
