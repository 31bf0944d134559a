//! A session that rules a server's replication: both families behind one set of words.
//!
//! Neighbours: `status` reads the row of a replica, `position` is what is counted; `replica` starts
//! servers; `wait` waits for a replica to come as far. Invariant: no answer is waited for without a
//! deadline.

mod wait;

use std::time::Duration;

use waggle_wire::{Connection, Dsn, Error as WireError, Secret};

use super::primary::PrimaryFacts;
use super::status::ReplicaStatus;
use super::{Position, TopologyError};
use crate::Flavour;
use crate::sandbox::{random_password, random_word};

/// How long one answer may take; stopping an applier waits for what it is at.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// Where a replica begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// After what it has: MySQL's own set of transactions, or this position of MariaDB's.
    At(Position),
    /// With the first transaction of the primary's logs.
    First,
}

/// The threads of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Receiving and applying.
    Both,
    /// Receiving only: the connection to the primary.
    Receiver,
    /// Applying only: coordinator and workers.
    Applier,
}

impl Part {
    fn sql(self, flavour: Flavour) -> &'static str {
        match (self, flavour) {
            (Self::Both, Flavour::MySql) => "REPLICA",
            (Self::Both, Flavour::MariaDb) => "SLAVE",
            (Self::Receiver, Flavour::MySql) => "REPLICA IO_THREAD",
            (Self::Receiver, Flavour::MariaDb) => "SLAVE IO_THREAD",
            (Self::Applier, Flavour::MySql) => "REPLICA SQL_THREAD",
            (Self::Applier, Flavour::MariaDb) => "SLAVE SQL_THREAD",
        }
    }
}

/// With what a replica logs in to its primary.
#[derive(Debug)]
pub struct Admission {
    user: String,
    password: Secret,
}

/// A session on a server, for what concerns replication.
pub struct Link {
    connection: Connection,
    name: String,
    flavour: Flavour,
    by_gtid: bool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.name)
            .field("flavour", &self.flavour)
            .field("by_gtid", &self.by_gtid)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Connects to a server, primary or replica, that errors will call `name`.
    ///
    /// # Errors
    /// [`TopologyError::Server`]: it cannot be reached or does not answer.
    pub fn open(name: &str, dsn: &Dsn) -> Result<Self, TopologyError> {
        let failed = |source| TopologyError::Server {
            doing: "connect".into(),
            name: name.to_owned(),
            source,
        };
        let mut connection = Connection::connect(dsn).map_err(failed)?;
        connection.set_timeout(Some(ANSWER_PATIENCE));
        let flavour = match connection.is_mariadb() {
            true => Flavour::MariaDb,
            false => Flavour::MySql,
        };
        let mut link = Self {
            connection,
            name: name.to_owned(),
            flavour,
            by_gtid: true,
        };
        if flavour == Flavour::MySql {
            // ON and ON_PERMISSIVE: what is written has GTIDs.
            link.by_gtid = link
                .value("SELECT @@GLOBAL.gtid_mode", "ask for the kind of positions")?
                .starts_with("ON");
        }
        Ok(link)
    }

    /// What errors call the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its family.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Whether positions are GTIDs, so that transactions can be counted.
    pub fn counts(&self) -> bool {
        self.by_gtid
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// [`TopologyError::Server`], with `doing` as what could not be done.
    pub fn run(&mut self, sql: &str, doing: &str) -> Result<(), TopologyError> {
        let ran = self.connection.query(sql.as_bytes());
        ran.map(drop).map_err(|source| self.failed(doing, source))
    }

    /// The first value of a statement; empty for NULL and for no row.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn value(&mut self, sql: &str, doing: &str) -> Result<String, TopologyError> {
        let row = self.row(sql, doing)?.unwrap_or_default();
        let value = row.first().cloned().flatten().unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// The first row of a statement.
    pub(super) fn row(
        &mut self,
        sql: &str,
        doing: &str,
    ) -> Result<Option<waggle_wire::Row>, TopologyError> {
        let rows = self.connection.query_rows(sql.as_bytes());
        rows.map(|rows| rows.into_iter().next())
            .map_err(|source| self.failed(doing, source))
    }

    fn failed(&self, doing: &str, source: WireError) -> TopologyError {
        TopologyError::Server {
            doing: doing.to_owned(),
            name: self.name.clone(),
            source,
        }
    }

    fn strange(&self, what: &'static str, text: impl Into<String>) -> TopologyError {
        TopologyError::Strange {
            name: self.name.clone(),
            what,
            text: text.into(),
        }
    }

    /// What the server has written to its binary log: as a primary, all that replicas will get.
    ///
    /// # Errors
    /// [`TopologyError::Server`], [`TopologyError::Strange`].
    pub fn written(&mut self) -> Result<Position, TopologyError> {
        let sql = match (self.flavour, self.by_gtid) {
            (Flavour::MySql, true) => "SELECT @@GLOBAL.gtid_executed",
            (Flavour::MySql, false) => return self.place_written(),
            (Flavour::MariaDb, _) => "SELECT @@GLOBAL.gtid_binlog_pos",
        };
        self.gtids(sql)
    }

    /// What the server, as a replica, has applied of other servers' transactions.
    ///
    /// # Errors
    /// [`TopologyError::Server`], [`TopologyError::Strange`].
    pub fn applied(&mut self) -> Result<Position, TopologyError> {
        let sql = match (self.flavour, self.by_gtid) {
            // What was written here itself was not replicated.
            (Flavour::MySql, true) => {
                "SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, \
                 CONCAT(@@GLOBAL.server_uuid, ':1-9223372036854775806'))"
            }
            (Flavour::MySql, false) => {
                let status = self.status()?;
                return status.map_or_else(
                    || Err(self.strange("the state of its replication", "")),
                    |status| Ok(status.applied_file),
                );
            }
            (Flavour::MariaDb, _) => "SELECT @@GLOBAL.gtid_slave_pos",
        };
        self.gtids(sql)
    }

    fn gtids(&mut self, sql: &str) -> Result<Position, TopologyError> {
        let text = self.value(sql, "read the position")?;
        let parsed = match self.flavour {
            Flavour::MySql => text.parse().map(Position::MySql).ok(),
            Flavour::MariaDb => text.parse().map(Position::MariaDb).ok(),
        };
        parsed.ok_or_else(|| self.strange("its position", text))
    }

    /// The end of the binary log, of a MySQL without GTIDs.
    fn place_written(&mut self) -> Result<Position, TopologyError> {
        let doing = "read the position";
        let row = match self.row("SHOW BINARY LOG STATUS", doing) {
            // Before 8.2.
            Err(error) if error.errno() == Some(1064) => self.row("SHOW MASTER STATUS", doing)?,
            other => other?,
        };
        let row = row.unwrap_or_default();
        let text = |at: usize| {
            let value = row.get(at).cloned().flatten().unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        match text(1).parse() {
            Ok(offset) => Ok(Position::File {
                file: text(0),
                offset,
            }),
            Err(_) => Err(self.strange("its binary log's position", text(1))),
        }
    }

    /// What the server says of its replication; `None`: it is no replica.
    ///
    /// # Errors
    /// [`TopologyError::Server`], [`TopologyError::Strange`].
    pub fn status(&mut self) -> Result<Option<ReplicaStatus>, TopologyError> {
        let sql = match self.flavour {
            Flavour::MySql => "SHOW REPLICA STATUS",
            Flavour::MariaDb => "SHOW SLAVE STATUS",
        };
        let Some(row) = self.row(sql, "ask for the state of replication")? else {
            return Ok(None);
        };
        ReplicaStatus::parse(&row, self.flavour, self.by_gtid)
            .map(Some)
            .map_err(|text| self.strange("the state of its replication", text))
    }

    /// Makes an account for one replica on this server, which is to be its primary. Replicas do not
    /// get the account, as it is in no binary log.
    ///
    /// # Errors
    /// [`TopologyError::Server`], [`TopologyError::Random`].
    pub fn admit(&mut self) -> Result<Admission, TopologyError> {
        let random = random_password().map_err(TopologyError::Random)?;
        // A user's name may have 32 characters.
        let (user, password) = (format!("replica_{}", random_word(12)), Secret::new(random));
        let doing = "make an account for a replica";
        self.run("SET SESSION sql_log_bin = 0", doing)?;
        let made = [
            format!(
                "CREATE USER '{user}'@'%' IDENTIFIED BY '{}'",
                password.expose()
            ),
            format!("GRANT REPLICATION SLAVE ON *.* TO '{user}'@'%'"),
        ]
        .iter()
        .try_for_each(|sql| self.run(sql, doing));
        self.run("SET SESSION sql_log_bin = 1", doing)?;
        made.map(|()| Admission { user, password })
    }

    /// Makes the server a replica of `primary`; nothing is started yet.
    ///
    /// # Errors
    /// [`TopologyError::Server`]: it runs as a replica already, for instance.
    pub fn follow(
        &mut self,
        primary: &PrimaryFacts,
        admission: &Admission,
        begin: &Begin,
    ) -> Result<(), TopologyError> {
        let port = primary.port;
        let (user, password) = (&admission.user, admission.password.expose());
        let doing = format!("follow {:?}", primary.name);
        let sql = match (self.flavour, begin) {
            (Flavour::MySql, begin) => {
                let from = match (self.by_gtid, begin) {
                    (true, _) => "SOURCE_AUTO_POSITION=1".to_owned(),
                    (false, Begin::At(Position::File { file, offset })) => {
                        format!("SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS={offset}")
                    }
                    (false, _) => {
                        format!("SOURCE_LOG_FILE='{}', SOURCE_LOG_POS=4", primary.first_log)
                    }
                };
                // Both ends are on one host, so nothing is gained by encrypting. Who took the port
                // of a primary that is gone could show a key of their own, and would get a password
                // that is good for that primary alone.
                format!(
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, \
                     SOURCE_USER='{user}', SOURCE_PASSWORD='{password}', SOURCE_SSL=0, \
                     GET_SOURCE_PUBLIC_KEY=1, \
                     SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, {from}"
                )
            }
            (Flavour::MariaDb, begin) => {
                let position = match begin {
                    Begin::At(position) => position.to_string(),
                    Begin::First => String::new(),
                };
                let set = format!("SET GLOBAL gtid_slave_pos = '{position}'");
                self.run(&set, &doing)?;
                format!(
                    "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, \
                     MASTER_USER='{user}', MASTER_PASSWORD='{password}', \
                     MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos"
                )
            }
        };
        self.run(&sql, &doing)
    }

    /// Starts threads of the replica; those that run already go on.
    ///
    /// # Errors
    /// [`TopologyError::Server`]. A thread that ends just after its start shows in the status.
    pub fn start(&mut self, part: Part) -> Result<(), TopologyError> {
        let sql = format!("START {}", part.sql(self.flavour));
        self.run(&sql, "start replication")
    }

    /// Stops threads of the replica. An applier first finishes what it is at, so that no
    /// transaction is half applied and none is missing before the last.
    ///
    /// # Errors
    /// [`TopologyError::Server`].
    pub fn stop(&mut self, part: Part) -> Result<(), TopologyError> {
        let sql = format!("STOP {}", part.sql(self.flavour));
        self.run(&sql, "stop replication")
    }
}
