//! How does a batch get into its table once, whatever happens on the way?
//!
//! ClickHouse acknowledges an insertion when its parts are in place. If no acknowledgement comes,
//! nobody knows whether they are: so before a batch is sent again, this asks which of its rows are
//! there, after the earlier attempt is no longer among the server's processes, and sends the
//! others. That also mends an insertion of which only some parts came to be (two days, or a request
//! cut at a row's end). Should a repetition slip through all the same (a proxy that delivers late),
//! the tables' engine drops it when it merges, since the batch and the row are in the key.
//! Neighbours: the courier calls; `row` holds the batch. Invariant: `Delivered` is said only after
//! the server acknowledged or showed every row.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::connection::{Connection, Failure, FailureKind, Place};
use super::row::Packed;
use super::schema;
use crate::spool::courier::{Outcome, Transport};
use crate::spool::{Batch, BatchId};

/// Old days are looked for so often.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

pub(super) struct ToClickHouse {
    connection: Connection,
    retention_days: Option<u32>,
    schema_is_ready: bool,
    /// The server missed a table or a column.
    schema_is_damaged: bool,
    /// The last batch was sent and not acknowledged.
    is_in_doubt: bool,
    /// Batches written before may have been sent by an earlier process.
    started_us: u64,
    attempt: u64,
    forgot: Option<Instant>,
}

impl ToClickHouse {
    pub(super) fn new(place: Place, timeout: Duration, retention_days: Option<u32>) -> Self {
        Self {
            connection: Connection::new(place, timeout),
            retention_days,
            schema_is_ready: false,
            schema_is_damaged: false,
            is_in_doubt: false,
            started_us: now().as_micros() as u64,
            attempt: 0,
            forgot: None,
        }
    }

    fn try_send(&mut self, batch: &Batch, packed: &Packed<'_>) -> Result<(), Failure> {
        if !self.schema_is_ready {
            schema::migrate(&self.connection, self.schema_is_damaged)?;
            (self.schema_is_ready, self.schema_is_damaged) = (true, false);
        }
        let mut there = HashSet::new();
        if self.is_in_doubt || batch.written_us < self.started_us {
            there = self.rows_there(batch.id, packed)?;
        }
        if there.len() < packed.count() {
            let body = packed.body(batch.id, |row| !there.contains(&row));
            let sql = format!(
                "INSERT INTO {} (batch_run,batch_sequence,batch_row,{}) FORMAT RowBinary",
                packed.table, packed.columns
            );
            self.attempt += 1;
            let query_id = format!("{}{}", name(batch.id), self.attempt);
            self.is_in_doubt = true;
            self.connection.insert(&sql, &query_id, &body)?;
        }
        self.is_in_doubt = false;
        self.forget_if_due();
        Ok(())
    }

    /// Places of the rows of this batch that the table has.
    fn rows_there(&self, id: BatchId, packed: &Packed<'_>) -> Result<HashSet<u32>, Failure> {
        let running = self.connection.run(&format!(
            "SELECT count() FROM system.processes WHERE startsWith(query_id, '{}')",
            name(id)
        ))?;
        if running.trim() != "0" {
            return Err(Failure {
                kind: FailureKind::Later,
                why: "ClickHouse still carries out an earlier attempt of the same batch".into(),
                after: None,
            });
        }
        // By time, so that only the partitions of the batch are read.
        let times = packed.times.map_or(String::new(), |(first, last)| {
            format!(" AND time >= toDateTime({first}, 'UTC') AND time <= toDateTime({last}, 'UTC')")
        });
        let rows = self.connection.run(&format!(
            "SELECT DISTINCT batch_row FROM {} WHERE batch_run = {} AND batch_sequence = {}{times}",
            packed.table, id.run, id.sequence
        ))?;
        Ok(rows.lines().filter_map(|row| row.parse().ok()).collect())
    }

    /// A failure to forget is no failure to deliver: it is tried again an hour later.
    fn forget_if_due(&mut self) {
        let Some(days) = self.retention_days else {
            return;
        };
        if self
            .forgot
            .is_none_or(|last| last.elapsed() >= FORGET_EVERY)
        {
            self.forgot = Some(Instant::now());
            let _ = schema::forget(&self.connection, days, now().as_secs());
        }
    }
}

impl Transport for ToClickHouse {
    fn send(&mut self, batch: &Batch) -> Outcome {
        let Some(packed) = Packed::read(&batch.payload) else {
            return Outcome::Rejected {
                why: "a batch in the spool is of a layout that this version does not know".into(),
                cause: "damaged",
            };
        };
        match self.try_send(batch, &packed) {
            Ok(()) => Outcome::Delivered,
            Err(failure) => match failure.kind {
                FailureKind::Refused => {
                    self.is_in_doubt = false;
                    Outcome::Rejected {
                        why: failure.why,
                        cause: "rejected",
                    }
                }
                FailureKind::Schema | FailureKind::Later => {
                    if failure.kind == FailureKind::Schema {
                        (self.schema_is_ready, self.schema_is_damaged) = (false, true);
                    }
                    Outcome::Later {
                        why: failure.why,
                        after: failure.after,
                    }
                }
            },
        }
    }
}

/// What the names of all attempts of a batch begin with.
fn name(id: BatchId) -> String {
    format!("waggle-{id}-")
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
