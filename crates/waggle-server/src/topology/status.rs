//! What a replica says of its own replication: one row of the server, as data.
//!
//! `SHOW REPLICA STATUS` (MySQL) and `SHOW SLAVE STATUS` (MariaDB) have the same columns in the
//! same places up to the 39th. Neighbour: `link` asks. Invariant: a row whose columns are not
//! where they are known to be is refused, never read as something else.

use serde::Serialize;
use waggle_wire::Row;

use super::Position;
use crate::Flavour;

const SOURCE_PORT: usize = 3;
const READ_FILE: usize = 5;
const READ_OFFSET: usize = 6;
const APPLIED_FILE: usize = 9;
const RECEIVES: usize = 10;
const APPLIES: usize = 11;
const APPLIED_OFFSET: usize = 21;
const SECONDS_BEHIND: usize = 32;
const RECEIVE_ERRNO: usize = 34;
const RECEIVE_ERROR: usize = 35;
const APPLY_ERRNO: usize = 36;
const APPLY_ERROR: usize = 37;
/// MariaDB's `Gtid_IO_Pos`.
const RECEIVED_MARIADB: usize = 43;
/// MySQL's `Retrieved_Gtid_Set`.
const RECEIVED_MYSQL: usize = 51;

/// A thread of replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaThread {
    /// It runs; the one that receives has its connection to the primary.
    Running,
    /// It runs and tries to reach the primary.
    Connecting,
    /// It does not run.
    Stopped,
}

/// A server's error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplicaFault {
    /// Its number.
    pub errno: u16,
    /// The server's words.
    pub message: String,
}

/// What a replica says of its replication, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplicaStatus {
    /// Port of the primary that it was told to follow.
    pub primary_port: u16,
    /// The thread that receives from the primary.
    pub receiving: ReplicaThread,
    /// The thread that applies what was received, or coordinates those that do.
    pub applying: ReplicaThread,
    /// The last failure of receiving, until it goes on.
    pub receive_fault: Option<ReplicaFault>,
    /// The last failure of applying, until it goes on.
    pub apply_fault: Option<ReplicaFault>,
    /// The server's own lag: age of the transaction being applied, in whole seconds. `None` while
    /// a thread does not run; 0 also while an idle primary has nothing.
    pub seconds_behind: Option<u64>,
    /// What was received since the server started: its place in the primary's logs, or GTIDs.
    pub received: Position,
    /// The place in the primary's logs up to which everything is applied.
    pub applied_file: Position,
}

impl ReplicaStatus {
    /// Reads the row; the text is what of it is not understood.
    pub(super) fn parse(row: &Row, flavour: Flavour, by_gtid: bool) -> Result<Self, String> {
        let text = |at: usize| match row.get(at) {
            Some(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        let number = |at: usize| text(at).parse::<u64>().map_err(|_| text(at));
        let thread = |at: usize| match text(at).as_str() {
            "Yes" => Ok(ReplicaThread::Running),
            "Connecting" | "Preparing" => Ok(ReplicaThread::Connecting),
            "No" => Ok(ReplicaThread::Stopped),
            other => Err(other.to_owned()),
        };
        let fault = |errno: usize, message: usize| -> Result<Option<ReplicaFault>, String> {
            let errno_text = text(errno);
            let errno = errno_text.parse().map_err(|_| errno_text)?;
            let message = text(message);
            Ok((errno != 0).then_some(ReplicaFault { errno, message }))
        };
        let place = |file: usize, offset: usize| -> Result<Position, String> {
            Ok(Position::File {
                file: text(file),
                offset: number(offset)?,
            })
        };
        let received = match (by_gtid, flavour) {
            (false, _) => place(READ_FILE, READ_OFFSET)?,
            (true, Flavour::MySql) => {
                let set = text(RECEIVED_MYSQL).parse();
                Position::MySql(set.map_err(|_| text(RECEIVED_MYSQL))?)
            }
            (true, Flavour::MariaDb) => {
                let position = text(RECEIVED_MARIADB).parse();
                Position::MariaDb(position.map_err(|_| text(RECEIVED_MARIADB))?)
            }
        };
        let behind = text(SECONDS_BEHIND);
        Ok(Self {
            primary_port: text(SOURCE_PORT).parse().map_err(|_| text(SOURCE_PORT))?,
            receiving: thread(RECEIVES)?,
            applying: thread(APPLIES)?,
            receive_fault: fault(RECEIVE_ERRNO, RECEIVE_ERROR)?,
            apply_fault: fault(APPLY_ERRNO, APPLY_ERROR)?,
            seconds_behind: match behind.as_str() {
                "" => None,
                _ => Some(behind.parse().map_err(|_| behind)?),
            },
            received,
            applied_file: place(APPLIED_FILE, APPLIED_OFFSET)?,
        })
    }

    /// Why it does not receive; `None` while it does.
    pub fn receive_trouble(&self) -> Option<String> {
        let fault = self.receive_fault.as_ref().map(ReplicaFault::to_string);
        match self.receiving {
            ReplicaThread::Running => None,
            ReplicaThread::Connecting => {
                Some(fault.unwrap_or_else(|| "it is about to connect".into()))
            }
            ReplicaThread::Stopped => Some(fault.unwrap_or_else(|| "it was stopped".into())),
        }
    }

    /// Why it does not apply; `None` while it does.
    pub fn apply_trouble(&self) -> Option<String> {
        let fault = self.apply_fault.as_ref().map(ReplicaFault::to_string);
        match self.applying {
            ReplicaThread::Stopped => Some(fault.unwrap_or_else(|| "it was stopped".into())),
            ReplicaThread::Running | ReplicaThread::Connecting => None,
        }
    }
}

impl std::fmt::Display for ReplicaFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error {}: {}", self.errno, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fill: &[(usize, &str)]) -> Row {
        let mut row: Row = vec![Some(b"0".to_vec()); 60];
        for (at, text) in [(RECEIVES, "Yes"), (APPLIES, "Yes"), (SOURCE_PORT, "3306")]
            .iter()
            .chain(fill)
        {
            row[*at] = Some(text.as_bytes().to_vec());
        }
        row
    }

    #[test]
    fn states_faults_and_positions_are_read() {
        let mut stopped = row(&[
            (RECEIVES, "Connecting"),
            (APPLIES, "No"),
            (RECEIVE_ERRNO, "2003"),
            (RECEIVE_ERROR, "nobody there"),
            (APPLIED_FILE, "binlog.000003"),
            (APPLIED_OFFSET, "157"),
            (RECEIVED_MARIADB, "0-1-12"),
        ]);
        stopped[SECONDS_BEHIND] = None;
        let status = ReplicaStatus::parse(&stopped, Flavour::MariaDb, true).unwrap();
        assert_eq!(status.seconds_behind, None);
        assert_eq!(status.received.to_string(), "0-1-12");
        assert_eq!(status.applied_file.to_string(), "binlog.000003:157");
        assert_eq!(
            status.receive_trouble().unwrap(),
            "error 2003: nobody there"
        );
        assert_eq!(status.apply_trouble().unwrap(), "it was stopped");
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["received"], "0-1-12");
        assert_eq!(json["applying"], "stopped");
    }

    #[test]
    fn a_row_of_another_order_is_refused() {
        let mut empty = row(&[(RECEIVED_MYSQL, "")]);
        assert!(ReplicaStatus::parse(&empty, Flavour::MySql, true).is_ok());
        empty[RECEIVED_MYSQL] = Some(b"0".to_vec());
        assert_eq!(
            ReplicaStatus::parse(&empty, Flavour::MySql, true),
            Err("0".into())
        );
        for (at, wrong) in [
            (RECEIVES, "binlog.1"),
            (SOURCE_PORT, "x"),
            (APPLY_ERRNO, "-"),
        ] {
            let wrong = row(&[(at, wrong)]);
            assert!(ReplicaStatus::parse(&wrong, Flavour::MySql, false).is_err());
        }
        assert!(ReplicaStatus::parse(&Vec::new(), Flavour::MySql, false).is_err());
    }
}
