//! The server's own counters, by SQL.
//!
//! Asks `SHOW GLOBAL STATUS`, `information_schema.INNODB_METRICS` and the tables of replication on
//! a thread of its own. Invariants: nobody waits for the server; a server that does not answer has
//! no counters rather than old ones.

use std::io;
use std::time::{Duration, Instant};

use crate::host::ServerStatus;
use crate::sql::{Access, Background, Failed, OWN_NAME, Session, number, text};

/// A reading older than this is not shown.
const STALE: Duration = Duration::from_secs(15);

/// Reads a server's counters.
pub struct StatusSampler {
    readings: Background<ServerStatus>,
    latest: ServerStatus,
    taken: Instant,
}

impl StatusSampler {
    /// A sampler of the server that `access` names; connects on a thread of its own, now and
    /// whenever
    /// the connection is lost.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(access: &Access) -> io::Result<Self> {
        let access = access.for_another();
        let task = access.task();
        let mut reader = Reader::new(Session::new(access));
        let mut readings = Background::start("waggle-status", task, move || reader.read())?;
        readings.ask();
        Ok(Self {
            readings,
            latest: missing("the server has not answered yet"),
            taken: Instant::now(),
        })
    }

    /// The newest reading, and asks for the next one: with a call a second, it is one second old.
    /// Never waits.
    pub fn sample(&mut self) -> ServerStatus {
        if let Some(reading) = self.readings.answer() {
            self.latest = reading;
            self.taken = Instant::now();
        } else if self.taken.elapsed() > STALE && self.latest.missing_because.is_none() {
            self.latest = missing(&format!("no answer for {} s", STALE.as_secs()));
        }
        self.readings.ask();
        self.latest.clone()
    }
}

fn missing(why: &str) -> ServerStatus {
    ServerStatus {
        missing_because: Some(why.to_owned()),
        ..ServerStatus::default()
    }
}

/// Counters of `SHOW GLOBAL STATUS` that are read, on servers that have them.
const WANTED: &str = "\
    Aborted_clients Aborted_connects Binlog_cache_disk_use Bytes_received Bytes_sent Com_begin \
    Com_call_procedure Com_commit Com_delete Com_insert Com_insert_select Com_load Com_replace \
    Com_rollback Com_select Com_stmt_execute Com_stmt_prepare Com_update Connections \
    Created_tmp_disk_tables Created_tmp_tables Handler_read_rnd_next \
    Innodb_buffer_pool_pages_data Innodb_buffer_pool_pages_dirty Innodb_buffer_pool_pages_free \
    Innodb_buffer_pool_pages_total Innodb_buffer_pool_read_requests Innodb_buffer_pool_reads \
    Innodb_buffer_pool_wait_free Innodb_checkpoint_age Innodb_data_fsyncs Innodb_data_read \
    Innodb_data_reads Innodb_data_writes Innodb_data_written Innodb_deadlocks \
    Innodb_history_list_length Innodb_log_waits Innodb_log_write_requests Innodb_log_writes \
    Innodb_os_log_fsyncs Innodb_os_log_written Innodb_page_size Innodb_redo_log_checkpoint_lsn \
    Innodb_redo_log_current_lsn Innodb_row_lock_current_waits Innodb_row_lock_time \
    Innodb_row_lock_time_max Innodb_row_lock_waits Innodb_rows_deleted Innodb_rows_inserted \
    Innodb_rows_read Innodb_rows_updated Max_used_connections Memory_used Open_files \
    Open_tables Opened_tables Queries Questions Select_full_join Select_scan Slow_queries \
    Sort_merge_passes Table_locks_waited Table_open_cache_misses Threads_cached \
    Threads_connected Threads_created Threads_running Uptime";

/// Names in `information_schema.INNODB_METRICS` of what MariaDB has among its status counters, and
/// the name it has there.
const METRICS: [(&str, &str); 2] = [
    ("trx_rseg_history_len", "innodb_history_list_length"),
    ("lock_deadlocks", "innodb_deadlocks"),
];

/// Unknown column or table, statement not understood: this server has no such thing.
const NOT_THERE: [u16; 4] = [1054, 1064, 1109, 1146];

/// Where `SHOW REPLICA STATUS` has what is wanted; MariaDB's `SHOW ALL SLAVES STATUS` has two
/// columns before these, the first of them the name of the connection.
const RECEIVES: usize = 10;
const APPLIES: usize = 11;
const SECONDS_BEHIND: usize = 32;
const CHANNEL_NAME: usize = 55;

struct Reader {
    session: Session,
    status_sql: String,
}

impl Reader {
    fn new(session: Session) -> Self {
        let names: Vec<_> = WANTED.split_ascii_whitespace().collect();
        let names = names.join("','");
        Self {
            session,
            status_sql: format!(
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('{names}') \
                 AND 1 IN (SELECT 1 AS {OWN_NAME})"
            ),
        }
    }

    fn read(&mut self) -> ServerStatus {
        let mut status = ServerStatus::default();
        let mut reasons = Vec::new();
        if let Err(error) = self.counters(&mut status) {
            return missing(&error.to_string());
        }
        if let Err(error) = self.metrics(&mut status) {
            reasons.push(format!("history list length: {error}"));
        }
        if let Err(why) = self.lag(&mut status) {
            reasons.push(format!("replication lag: {why}"));
        }
        if !reasons.is_empty() {
            status.missing_because = Some(reasons.join("; "));
        }
        status
    }

    fn counters(&mut self, status: &mut ServerStatus) -> Result<(), Failed> {
        let rows = self.session.rows(&self.status_sql)?;
        status.values = rows
            .iter()
            .filter_map(|row| {
                let value = text(row, 1).parse::<f64>().ok().filter(|v| v.is_finite())?;
                Some((text(row, 0).to_ascii_lowercase(), value))
            })
            .collect();
        // MySQL gives both ends of the redo log, MariaDB the difference.
        let of = |name: &str| status.values.iter().find(|(known, _)| known == name);
        let current = of("innodb_redo_log_current_lsn");
        if let (Some(current), Some(flushed)) = (current, of("innodb_redo_log_checkpoint_lsn")) {
            let age = (current.1 - flushed.1).max(0.0);
            status.values.push(("innodb_checkpoint_age".into(), age));
        }
        Ok(())
    }

    fn metrics(&mut self, status: &mut ServerStatus) -> Result<(), Failed> {
        let wanted: Vec<_> = METRICS
            .iter()
            .filter(|(_, name)| !status.values.iter().any(|(known, _)| known == name))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = wanted.iter().map(|(metric, _)| *metric).collect();
        // A metric that is off stands still, which is not a reading. MariaDB's column is another.
        let is_mariadb = self
            .session
            .connection()
            .map_err(Failed::NoConnection)?
            .is_mariadb();
        let is_on = if is_mariadb {
            "ENABLED = 1"
        } else {
            "STATUS = 'enabled'"
        };
        let rows = self.session.rows(&format!(
            "SELECT NAME, COUNT, 1 AS {OWN_NAME} FROM information_schema.INNODB_METRICS \
             WHERE {is_on} AND NAME IN ('{}')",
            names.join("','")
        ))?;
        for row in rows {
            let metric = text(&row, 0);
            if let Some((_, name)) = wanted.iter().find(|(known, _)| *known == metric)
                && let Ok(value) = text(&row, 1).parse()
            {
                status.values.push(((*name).to_owned(), value));
            }
        }
        Ok(())
    }

    fn lag(&mut self, status: &mut ServerStatus) -> Result<(), String> {
        let session = &mut self.session;
        let is_mariadb = session.connection()?.is_mariadb();
        let (rows, first) = if is_mariadb {
            (session.rows("SHOW ALL SLAVES STATUS"), 2)
        } else {
            match session.rows("SHOW REPLICA STATUS") {
                // Before 8.0.22.
                Err(e) if e.errno() == Some(1064) => (session.rows("SHOW SLAVE STATUS"), 0),
                other => (other, 0),
            }
        };
        let rows = match rows {
            Err(e) if e.errno().is_some_and(|n| NOT_THERE.contains(&n)) => return Ok(()),
            other => other.map_err(|error| error.to_string())?,
        };
        let mut stopped = 0;
        for row in &rows {
            let is_state = |at| {
                let state = text(row, first + at);
                matches!(state.as_str(), "Yes" | "No" | "Connecting" | "Preparing")
            };
            if !is_state(RECEIVES) || !is_state(APPLIES) {
                return Err("the server shows it in an order that is not known here".into());
            }
            let channel = text(row, if is_mariadb { 0 } else { CHANNEL_NAME });
            // While nothing is received, a server that has applied all it has says 0: no reading.
            let runs = [RECEIVES, APPLIES]
                .iter()
                .all(|at| text(row, first + at) == "Yes");
            match number(row, first + SECONDS_BEHIND).filter(|_| runs) {
                Some(seconds) => status.lag_s.push((channel, seconds as f64)),
                None => stopped += 1,
            }
        }
        if !rows.is_empty() {
            status
                .values
                .push(("replica_channels_stopped".into(), f64::from(stopped)));
        }
        Ok(())
    }
}
