//! MariaDB's positions: the last transaction of each domain.
//!
//! Neighbour: MySQL's sets, one module up. Invariant: a position has one transaction a domain.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::GtidError;
use crate::Error;
use crate::cursor::Cursor;

/// One MariaDB transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MariaDbGtid {
    /// The stream of transactions that it is in.
    pub domain: u32,
    /// The server that it was made on.
    pub server: u32,
    /// Its number in the domain.
    pub sequence: u64,
}

impl fmt::Display for MariaDbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl MariaDbGtid {
    /// Reads the body of MariaDB's GTID event, whose server is in the header.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one.
    pub fn parse(server: u32, body: &[u8]) -> Result<(MariaDbGtid, MariaDbFlags), Error> {
        let mut cursor = Cursor::new(body, "MariaDB GTID event");
        let sequence = cursor.u64()?;
        let domain = cursor.u32()?;
        let flags = MariaDbFlags(cursor.u8()?);
        let gtid = MariaDbGtid {
            domain,
            server,
            sequence,
        };
        Ok((gtid, flags))
    }
}

/// What MariaDB says of a transaction before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MariaDbFlags(u8);

impl MariaDbFlags {
    /// Whether it is one statement with no end of its own.
    pub fn is_standalone(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether it is a DDL statement.
    pub fn is_ddl(self) -> bool {
        self.0 & 32 != 0
    }

    /// Whether it ends in a prepared, not a committed state.
    pub fn prepares(self) -> bool {
        self.0 & 64 != 0
    }

    /// Whether it commits or rolls back what was prepared before.
    pub fn completes_prepared(self) -> bool {
        self.0 & 128 != 0
    }
}

/// A position in MariaDB's logs: the last transaction of each domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MariaDbPosition {
    domains: BTreeMap<u32, (u32, u64)>,
}

impl MariaDbPosition {
    /// Moves on to a transaction that was seen.
    pub fn advance(&mut self, gtid: MariaDbGtid) {
        self.domains
            .insert(gtid.domain, (gtid.server, gtid.sequence));
    }

    /// The last transactions, by domain.
    pub fn iter(&self) -> impl Iterator<Item = MariaDbGtid> + '_ {
        self.domains
            .iter()
            .map(|(&domain, &(server, sequence))| MariaDbGtid {
                domain,
                server,
                sequence,
            })
    }

    /// Whether this one lies at or after `gtid`, by the numbers of its domain.
    pub fn contains(&self, gtid: MariaDbGtid) -> bool {
        self.domains
            .get(&gtid.domain)
            .is_some_and(|(_, sequence)| *sequence >= gtid.sequence)
    }

    /// Reads the body of the event that says what the logs before this one hold: the last
    /// transaction of each domain comes last.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one.
    pub fn parse_list(body: &[u8]) -> Result<MariaDbPosition, Error> {
        const COUNT_MASK: u32 = (1 << 28) - 1;
        let mut cursor = Cursor::new(body, "MariaDB GTID list event");
        let mut position = MariaDbPosition::default();
        for _ in 0..cursor.u32()? & COUNT_MASK {
            position.advance(MariaDbGtid {
                domain: cursor.u32()?,
                server: cursor.u32()?,
                sequence: cursor.u64()?,
            });
        }
        Ok(position)
    }
}

impl fmt::Display for MariaDbPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for gtid in self.iter() {
            write!(f, "{before}{gtid}")?;
            before = ",";
        }
        Ok(())
    }
}

impl FromStr for MariaDbPosition {
    type Err = GtidError;

    /// Reads `domain-server-sequence,…`, one entry for each domain.
    fn from_str(text: &str) -> Result<MariaDbPosition, GtidError> {
        let mut position = MariaDbPosition::default();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let parse = || {
                let mut parts = entry.splitn(3, '-');
                Some(MariaDbGtid {
                    domain: parts.next()?.parse().ok()?,
                    server: parts.next()?.parse().ok()?,
                    sequence: parts.next()?.parse().ok()?,
                })
            };
            let gtid = parse().filter(|gtid| !position.domains.contains_key(&gtid.domain));
            position.advance(gtid.ok_or_else(|| GtidError {
                text: entry.to_owned(),
                what: "MariaDB GTID (domain-server-sequence) of a domain of its own",
            })?);
        }
        Ok(position)
    }
}
