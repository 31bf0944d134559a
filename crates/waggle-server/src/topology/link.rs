//! A session that rules a server's replication: both families behind one set of words.
//!
//! Neighbours: `status` reads the row of a replica, `position` is what is counted; `replica` starts
//! servers. Invariant: nothing is waited for without a deadline, and a thread of the replica that
//! stopped ends a wait at once, with the server's words.

use std::thread;
use std::time::{Duration, Instant};

use waggle_wire::{Connection, Dsn, Error as WireError};

use super::primary::PrimaryFacts;
use super::status::{ReplicaStatus, ReplicaThread};
use super::{Position, TopologyError};
use crate::Flavour;

/// How long one answer may take; stopping an applier waits for what it is at.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How long the server waits for a position before the replica's health is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same where nothing but looking tells.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

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

    /// Makes the server a replica of `primary`; nothing is started yet.
    ///
    /// # Errors
    /// [`TopologyError::Server`]: it runs as a replica already, for instance.
    pub fn follow(&mut self, primary: &PrimaryFacts, begin: &Begin) -> Result<(), TopologyError> {
        let port = primary.port;
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
                // Both ends are on one host, so nothing is gained by encrypting.
                format!(
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, \
                     SOURCE_USER='root', SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, \
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
                     MASTER_USER='root', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos"
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

    /// Waits until the replica has its connection to the primary and applies.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`], [`TopologyError::Late`], and those of [`status`](Self::status).
    pub fn wait_running(&mut self, patience: Duration) -> Result<(), TopologyError> {
        self.look_until("connect to its primary", patience, |status| {
            (status.receiving == ReplicaThread::Running).then_some(())
        })
    }

    /// Waits until the replica has received all of `target`, applied or not.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`], [`TopologyError::Late`], and those of [`status`](Self::status).
    pub fn wait_received(
        &mut self,
        target: &Position,
        patience: Duration,
    ) -> Result<(), TopologyError> {
        let applied = self.applied()?;
        self.look_until("receive what its primary wrote", patience, |status| {
            has_received(status, &applied, target).then_some(())
        })
    }

    fn look_until(
        &mut self,
        doing: &'static str,
        patience: Duration,
        is_done: impl Fn(&ReplicaStatus) -> Option<()>,
    ) -> Result<(), TopologyError> {
        let deadline = Instant::now() + patience;
        loop {
            let Some(status) = self.status()? else {
                return Err(self.strange("the state of its replication", ""));
            };
            if is_done(&status).is_some() {
                return Ok(());
            }
            if status.receiving == ReplicaThread::Stopped {
                return Err(TopologyError::Stopped {
                    name: self.name.clone(),
                    doing: "receive",
                    why: status.receive_trouble().unwrap_or_default(),
                });
            }
            if Instant::now() >= deadline {
                let why = status.receive_trouble();
                let why = why.unwrap_or_else(|| format!("it has received {}", status.received));
                return Err(self.late(doing, patience, why));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until the replica has applied all of `target`.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`]: it does not apply, or what is missing will not come;
    /// [`TopologyError::Late`] says how far it is; and those of [`status`](Self::status).
    pub fn wait_applied(
        &mut self,
        target: &Position,
        patience: Duration,
    ) -> Result<(), TopologyError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // To servers, no time is one without end.
            let time = left.clamp(LOOK_AGAIN, LOOK_EVERY);
            if self.server_waits(target, time)? {
                return Ok(());
            }
            let status = self.check_health(target)?;
            if left.is_zero() {
                let applied = self.applied()?;
                let mut why = match target.since(&applied) {
                    Some(missing) => format!("{missing} transactions are missing"),
                    None => format!("it is at {applied}, not yet at {target}"),
                };
                if let Some(trouble) = status.receive_trouble() {
                    why = format!("{why}, and it receives none: {trouble}");
                }
                return Err(self.late("apply what its primary wrote", patience, why));
            }
        }
    }

    /// Lets the server wait for a position; whether it is reached. An empty one always is.
    fn server_waits(&mut self, target: &Position, time: Duration) -> Result<bool, TopologyError> {
        let seconds = time.as_secs_f64();
        let sql = match target {
            Position::MySql(set) => {
                format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {seconds:.3})")
            }
            Position::MariaDb(position) => {
                format!("SELECT MASTER_GTID_WAIT('{position}', {seconds:.3})")
            }
            Position::File { .. } => {
                let reached = self.applied()?.reaches(target);
                if !reached {
                    thread::sleep(LOOK_AGAIN.min(time));
                }
                return Ok(reached);
            }
        };
        let answer = self.value(&sql, "wait for a position")?;
        Ok(answer == "0" || (answer.is_empty() && self.applied()?.reaches(target)))
    }

    /// Whether what is missing can still come.
    fn check_health(&mut self, target: &Position) -> Result<ReplicaStatus, TopologyError> {
        let Some(status) = self.status()? else {
            return Err(self.strange("the state of its replication", ""));
        };
        if let Some(why) = status.apply_trouble() {
            return Err(self.applier_stopped(why));
        }
        if status.receiving == ReplicaThread::Stopped
            && !has_received(&status, &self.applied()?, target)
        {
            return Err(TopologyError::Stopped {
                name: self.name.clone(),
                doing: "receive",
                why: status.receive_trouble().unwrap_or_default(),
            });
        }
        Ok(status)
    }

    /// That the applier stands, with the words of the worker that failed, if one did: MySQL's
    /// coordinator says only which.
    fn applier_stopped(&mut self, why: String) -> TopologyError {
        let mut all = why;
        if self.flavour == Flavour::MySql {
            let words = self.value(
                "SELECT LAST_ERROR_MESSAGE FROM \
                 performance_schema.replication_applier_status_by_worker \
                 WHERE LAST_ERROR_NUMBER <> 0 ORDER BY LAST_ERROR_TIMESTAMP LIMIT 1",
                "ask the workers",
            );
            // A server without that table has said what it says.
            if let Some(words) = words.ok().filter(|words| !words.is_empty()) {
                all = format!("{all}; the worker: {words}");
            }
        }
        TopologyError::Stopped {
            name: self.name.clone(),
            doing: "apply",
            why: all,
        }
    }

    /// Refuses a replica whose applier does not run.
    ///
    /// # Errors
    /// [`TopologyError::Stopped`], with the server's words, and those of [`status`](Self::status).
    pub fn check_applying(&mut self) -> Result<(), TopologyError> {
        let status = self.status()?;
        match status.and_then(|status| status.apply_trouble()) {
            None => Ok(()),
            Some(why) => Err(self.applier_stopped(why)),
        }
    }

    fn late(&self, doing: &'static str, patience: Duration, why: String) -> TopologyError {
        TopologyError::Late {
            name: self.name.clone(),
            doing,
            seconds: patience.as_secs_f64(),
            why,
        }
    }
}

/// Whether all of `target` has arrived. MySQL's set of what was received begins anew with the
/// server.
fn has_received(status: &ReplicaStatus, applied: &Position, target: &Position) -> bool {
    match (&status.received, applied) {
        (Position::MySql(received), Position::MySql(applied)) => {
            let mut all = received.clone();
            all.union(applied);
            Position::MySql(all).reaches(target)
        }
        (received, applied) => received.reaches(target) || applied.reaches(target),
    }
}
