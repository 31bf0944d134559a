//! Many rows at once, in the fastest way that the server has.
//!
//! Neighbours: `waggle_wire` has bulk execution and LOAD DATA LOCAL; `crate::context` makes the
//! rows. Invariant: a row that the server did not store as it was sent is an error.

use waggle_wire::{BulkRows, Error, Statement};

use super::MySqlSession;
use crate::driver::{DriverError, Fill, LoadColumn, Outcome, RowForm, Value};

/// LOAD DATA LOCAL is not allowed, in the words of MySQL 5.7 and MariaDB, of MySQL 8, and of
/// MariaDB where the client is to blame.
const LOCAL_INFILE_REFUSED: [u16; 3] = [1148, 3948, 4166];

impl MySqlSession {
    /// By bulk execution where there is one (MariaDB), else by LOAD DATA LOCAL where the server's
    /// `local_infile` allows it; nothing is set here.
    pub(super) fn load_rows(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Option<Outcome>, DriverError> {
        if self.connection.takes_bulk() {
            return self.load_in_bulk(table, columns, fill).map(Some);
        }
        if !self.takes_local_files()? {
            return Ok(None);
        }
        // Nothing is escaped, whatever the SQL mode: the rows hold no tab or newline.
        let names = names(columns);
        let sql = format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET utf8mb4 \
             FIELDS ESCAPED BY '' ({names})"
        );
        let mut lines = |out: &mut Vec<u8>| fill(RowForm::Lines, out);
        match self.connection.load_local(sql.as_bytes(), &mut lines) {
            Ok(summary) => Ok(Some(summary.into())),
            // It says so before it asks for the first row.
            Err(error) if is_local_infile_refusal(&error) => {
                self.local_infile = Some(false);
                Ok(None)
            }
            Err(error @ Error::Load { .. }) => {
                let warning = self.first_warning();
                Err(DriverError::Refused(format!("{error}{warning}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// All rows in one transaction, or in the one that is open.
    fn load_in_bulk(
        &mut self,
        table: &str,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Outcome, DriverError> {
        let (names, marks) = (names(columns), vec!["?"; columns.len()].join(", "));
        let sql = format!("INSERT INTO {table} ({names}) VALUES ({marks})");
        let statement = self.connection.prepare(sql.as_bytes())?;
        let is_own = !self.connection.in_transaction();
        if is_own {
            self.connection.query(b"BEGIN")?;
        }
        let sent = self.send_in_bulk(&statement, columns, fill);
        if is_own && self.connection.is_usable() {
            let end: &[u8] = match sent {
                Ok(_) => b"COMMIT",
                Err(_) => b"ROLLBACK",
            };
            let ended = self.connection.query(end);
            if sent.is_ok() {
                ended?;
            }
        }
        if self.connection.is_usable() {
            self.connection.close_statement(statement)?;
        }
        sent
    }

    fn send_in_bulk(
        &mut self,
        statement: &Statement,
        columns: &[LoadColumn<'_>],
        fill: &mut Fill<'_>,
    ) -> Result<Outcome, DriverError> {
        let like: Vec<Value<'_>> = columns
            .iter()
            .map(|column| match column.is_text {
                true => Value::Bytes(b""),
                false => Value::Int(0),
            })
            .collect();
        let mut rows = BulkRows::new(statement, &like);
        let mut sum = Outcome::default();
        loop {
            rows.clear();
            let sent = fill(RowForm::Parameters, rows.buffer());
            if sent == 0 {
                return Ok(sum);
            }
            let summary = self.connection.execute_bulk(&rows)?;
            if (summary.affected, summary.warnings) != (sent, 0) {
                let warning = self.first_warning();
                let (stored, warnings) = (summary.affected, summary.warnings);
                return Err(DriverError::Refused(format!(
                    "bulk execution: {sent} rows were sent, the server stored {stored} and gave \
                     {warnings} warnings{warning}"
                )));
            }
            sum.affected += summary.affected;
            sum.last_insert_id = summary.last_insert_id;
        }
    }

    fn takes_local_files(&mut self) -> Result<bool, DriverError> {
        if let Some(known) = self.local_infile {
            return Ok(known);
        }
        let known = match self.connection.query_rows(b"SELECT @@local_infile") {
            Ok(rows) => {
                let value = rows.first().and_then(|row| row.first()?.as_deref());
                value == Some(b"1")
            }
            // A server of the same protocol that has no such variable.
            Err(Error::Server { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        self.local_infile = Some(known);
        Ok(known)
    }

    /// What the last statement was warned of first, to go behind its error.
    fn first_warning(&mut self) -> String {
        let rows = self.connection.query_rows(b"SHOW WARNINGS LIMIT 1");
        let message = rows.ok().and_then(|rows| rows.first()?.get(2)?.clone());
        message.map_or_else(String::new, |message| {
            format!("; the first: {}", String::from_utf8_lossy(&message))
        })
    }
}

/// The names of the columns as a statement lists them.
fn names(columns: &[LoadColumn<'_>]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}

fn is_local_infile_refusal(error: &Error) -> bool {
    error
        .errno()
        .is_some_and(|errno| LOCAL_INFILE_REFUSED.contains(&errno))
}
