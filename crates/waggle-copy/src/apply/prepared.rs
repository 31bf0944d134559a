//! Transactions that are prepared (XA) and wait for their end.
//!
//! A prepared transaction has a place in the log, and none of its changes is to be seen until
//! another one, much later, commits it. Its records are kept at the target, in the transaction
//! that moves the position past it. Neighbour: the parent reads them when the end comes.
//! Invariant: what is prepared survives whatever the target's rows survive.

use waggle_wire::binlog::value::escape_literal;

use super::target::Target;
use crate::error::CopyError;
use crate::spool::Record;

/// Bytes kept here before they go to the target.
const PART_BYTES: usize = 1 << 20;

pub(super) struct Stash {
    job: String,
    /// The transaction that is being read, if it may be prepared.
    xid: Option<Vec<u8>>,
    records: Vec<u8>,
    parts: u32,
}

impl Stash {
    pub(super) fn new(job: &str) -> Stash {
        Stash {
            job: job.to_owned(),
            xid: None,
            records: Vec::new(),
            parts: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.xid = None;
        self.records.clear();
        self.parts = 0;
    }

    pub(super) fn begin(&mut self, xid: &[u8]) {
        self.clear();
        self.xid = Some(xid.to_vec());
    }

    pub(super) fn is_open(&self) -> bool {
        self.xid.is_some()
    }

    pub(super) fn open_name(&self) -> Option<Vec<u8>> {
        self.xid.clone()
    }

    pub(super) fn keep(
        &mut self,
        record: &Record<'_>,
        target: &mut Target<'_>,
    ) -> Result<(), CopyError> {
        record.put(&mut self.records);
        match (self.records.len() >= PART_BYTES, self.xid.clone()) {
            (true, Some(xid)) => self.store(&xid, target),
            _ => Ok(()),
        }
    }

    fn store(&mut self, xid: &[u8], target: &mut Target<'_>) -> Result<(), CopyError> {
        let mut sql = format!(
            "INSERT INTO waggle_copy.prepared VALUES ('{}', _binary'",
            self.job
        );
        let mut sql = std::mem::take(&mut sql).into_bytes();
        escape_literal(&mut sql, xid);
        sql.extend_from_slice(format!("', {}, _binary'", self.parts).as_bytes());
        escape_literal(&mut sql, &self.records);
        sql.extend_from_slice(b"')");
        self.parts += 1;
        self.records.clear();
        target.add(&sql)
    }

    /// The transaction that is being read is prepared. One without changes is kept, too: so that
    /// its end is known for what it is.
    pub(super) fn prepare(&mut self, xid: &[u8], target: &mut Target<'_>) -> Result<(), CopyError> {
        let begun = self.xid.clone().unwrap_or_default();
        if begun != xid && self.parts > 0 {
            // MariaDB names it only now.
            let hex: String = xid.iter().map(|byte| format!("{byte:02x}")).collect();
            let sql = format!(
                "UPDATE waggle_copy.prepared SET xid = X'{hex}' WHERE {}",
                self.condition(&begun)
            );
            target.add(sql.as_bytes())?;
        }
        self.store(xid, target)?;
        self.clear();
        Ok(())
    }

    /// The statement that forgets a prepared transaction.
    pub(super) fn removal(&self, xid: &[u8]) -> String {
        format!(
            "DELETE FROM waggle_copy.prepared WHERE {}",
            self.condition(xid)
        )
    }

    fn condition(&self, xid: &[u8]) -> String {
        let hex: String = xid.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("job = '{}' AND xid = X'{hex}'", self.job)
    }

    /// The records of a transaction that is committed now, in order.
    ///
    /// # Errors
    /// [`CopyError::Progress`] for one that was prepared before the copy began: what it changed is
    /// neither in the snapshot nor in the log since.
    pub(super) fn take(
        &mut self,
        xid: &[u8],
        target: &mut Target<'_>,
    ) -> Result<Vec<Vec<u8>>, CopyError> {
        let is_open = self.xid.as_deref() == Some(xid);
        let last = std::mem::take(&mut self.records);
        let has_parts = self.parts > 0;
        self.clear();
        if is_open && !has_parts {
            return Ok(vec![last]);
        }
        let condition = self.condition(xid);
        let sql = format!("SELECT body FROM waggle_copy.prepared WHERE {condition} ORDER BY part");
        let rows = target.rows(&sql)?;
        if rows.is_empty() {
            return Err(CopyError::Progress(format!(
                "the source committed a transaction ({}) that it had prepared before the copy \
                 began; begin anew, when XA RECOVER shows none",
                String::from_utf8_lossy(xid)
            )));
        }
        let removal = self.removal(xid);
        target.add(removal.as_bytes())?;
        let mut bodies: Vec<Vec<u8>> = rows.into_iter().flatten().flatten().collect();
        if is_open {
            bodies.push(last);
        }
        Ok(bodies)
    }
}
