//! May a job go on here, with these tables? Whose it is, and that no other has them.
//!
//! Neighbours: the parent has the tables and what is kept of a job that goes on; `job` asks before
//! anything is changed, and again when it begins. Invariant: a job keeps its source, its tables in
//! their order and its way of copying JSON, and shares no table that another one made.

use waggle_wire::{Connection, Row};

use super::{DATABASE, Job, TABLES, gone, number, rows, text};
use crate::error::CopyError;
use crate::range::hex;
use crate::session::run;
use crate::table::{Table, TableName};

/// Of a job whose JSON, if it has any, is what its text says; jobs of numbers that are not known
/// are refused.
const FORMAT_TEXT: u32 = 1;
/// Of a job whose JSON has its types as well: one that changed its way would lack them in the rows
/// that it has copied already.
const FORMAT_TYPED: u32 = 2;

impl Job {
    /// Makes the tables where they are not there, and the job's row, and takes the job over: a
    /// copier that had it before cannot move the position any more, whatever became of its lock.
    ///
    /// # Errors
    /// What the target says, and [`CopyError::Progress`] for a job of another source or layout.
    pub fn install(
        &mut self,
        target: &mut Connection,
        source: &str,
        tables: &[Table],
    ) -> Result<(), CopyError> {
        let job = self.name().to_owned();
        let database = format!("CREATE DATABASE IF NOT EXISTS {DATABASE}");
        for sql in [database.as_str()].into_iter().chain(TABLES) {
            run(target, sql, "making the tables of progress")?;
        }
        let sql = format!(
            "INSERT IGNORE INTO waggle_copy.jobs (job, format, source) \
             VALUES ('{job}', {}, X'{}')",
            format(tables),
            hex(source.as_bytes())
        );
        run(target, &sql, "noting the job")?;
        self.check_source(target, source, tables)?;
        let doing = "taking the job over";
        run(target, "BEGIN", doing)?;
        let sql = format!(
            "UPDATE waggle_copy.jobs SET owner = owner + 1, \
             format = IF(position IS NULL, {}, format) WHERE job = '{job}'",
            format(tables)
        );
        run(target, &sql, doing)?;
        let sql = format!("SELECT owner FROM waggle_copy.jobs WHERE job = '{job}'");
        let found = rows(target, &sql, doing)?;
        self.owner = number(found.first().ok_or_else(|| gone("the job's row"))?, 0)?;
        run(target, "COMMIT", doing)
    }

    /// Whether the target's notes allow this job, before anything is changed: those of another
    /// source, of other tables or of another layout do not.
    ///
    /// # Errors
    /// What the target says, and [`CopyError::Progress`].
    pub fn check(
        &self,
        target: &mut Connection,
        source: &str,
        tables: &[Table],
    ) -> Result<(), CopyError> {
        let sql = format!(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{DATABASE}' \
             AND TABLE_NAME IN ('jobs', 'tables')"
        );
        if rows(target, &sql, "looking for the tables of progress")?.len() < 2 {
            return Ok(());
        }
        self.check_source(target, source, tables)?;
        match self.noted(target)? {
            noted if noted.is_empty() => self.refuse_shared(target, tables),
            noted => self.refuse_others(&noted, tables),
        }
    }

    /// Takes these tables, in this order, as the job's, or sees that they are: ranges and steps are
    /// kept by a table's number.
    ///
    /// # Errors
    /// What the target says, and [`CopyError::Progress`] when the job has others.
    pub fn claim(&self, target: &mut Connection, tables: &[Table]) -> Result<(), CopyError> {
        let doing = "noting the tables";
        let job = self.name();
        let noted = self.noted(target)?;
        if !noted.is_empty() {
            return self.refuse_others(&noted, tables);
        }
        self.refuse_shared(target, tables)?;
        run(target, "BEGIN", doing)?;
        for table in tables {
            let sql = format!(
                "INSERT INTO waggle_copy.tables VALUES ('{job}', {}, X'{}', X'{}', X'{}')",
                table.number,
                hex(table.source.to_string().as_bytes()),
                hex(table.target.to_string().as_bytes()),
                hex(table.definition.as_bytes())
            );
            run(target, &sql, doing)?;
        }
        run(target, "COMMIT", doing)
    }

    /// The names of the job's tables, at the source and at the target, in their order.
    fn noted(&self, target: &mut Connection) -> Result<Vec<(String, String)>, CopyError> {
        let sql = format!(
            "SELECT source_name, target_name FROM waggle_copy.tables WHERE job = '{}' \
             ORDER BY table_no",
            self.name()
        );
        let found = rows(target, &sql, "reading the tables")?;
        let names = |row: &Row| Ok((text(row, 0)?.to_owned(), text(row, 1)?.to_owned()));
        found.iter().map(names).collect()
    }

    fn refuse_others(&self, noted: &[(String, String)], tables: &[Table]) -> Result<(), CopyError> {
        let asked = |table: &Table| (table.source.to_string(), table.target.to_string());
        if noted.iter().cloned().eq(tables.iter().map(asked)) {
            return Ok(());
        }
        let names: Vec<&str> = noted.iter().map(|(source, _)| source.as_str()).collect();
        Err(CopyError::Progress(format!(
            "job {} copies {}, which are not the tables asked for now; name the same with \
             --tables to go on with it, or give this copy another --job",
            self.name(),
            names.join(", ")
        )))
    }

    /// Whether the job's row, if it is there, is of this source and layout.
    fn check_source(
        &self,
        target: &mut Connection,
        source: &str,
        tables: &[Table],
    ) -> Result<(), CopyError> {
        let job = self.name();
        let sql = format!(
            "SELECT format, source, position IS NOT NULL FROM waggle_copy.jobs WHERE job = '{job}'"
        );
        let found = rows(target, &sql, "reading the job")?;
        let Some(row) = found.first() else {
            return Ok(());
        };
        let noted = number(row, 0)?;
        if ![FORMAT_TEXT, FORMAT_TYPED].map(u64::from).contains(&noted) {
            return Err(CopyError::Progress(format!(
                "job {job} was begun by another version; drop database {DATABASE} and the copied \
                 tables to begin anew"
            )));
        }
        let has_json = tables.iter().any(|table| table.json().next().is_some());
        let has_begun = number(row, 2)? != 0;
        if has_json && has_begun && noted != u64::from(format(tables)) {
            let way = match noted == u64::from(FORMAT_TEXT) {
                true => {
                    "copies JSON as its text, as --json-as-text and earlier versions do; go on \
                     with --json-as-text and run `waggle copy verify --repair` when it is done"
                }
                false => "copies the types inside of JSON; go on without --json-as-text",
            };
            return Err(CopyError::Progress(format!(
                "job {job} {way}, or drop the copied tables and give this copy another --job to \
                 begin anew"
            )));
        }
        if text(row, 1)? != source {
            return Err(CopyError::Progress(format!(
                "job {job} copies from {}, not from {source}; give this copy another --job",
                text(row, 1)?
            )));
        }
        Ok(())
    }

    /// Another job's tables may lack keys that only its journal knows of.
    fn refuse_shared(&self, target: &mut Connection, tables: &[Table]) -> Result<(), CopyError> {
        let job = self.name();
        let sql = format!(
            "SELECT job, target_name FROM waggle_copy.tables WHERE job <> '{job}' ORDER BY job"
        );
        for row in rows(target, &sql, "reading the tables of other jobs")? {
            let (other, name) = (text(&row, 0)?, text(&row, 1)?);
            let ours = tables.iter().find(|table| table.target.to_string() == name);
            if let Some(table) = ours
                && is_there(target, &table.target)?
            {
                return Err(CopyError::Progress(format!(
                    "{name} was made by job {other}; go on with --job {other}, or drop the table \
                     and `DELETE FROM {DATABASE}.tables WHERE job = '{other}'`"
                )));
            }
        }
        Ok(())
    }
}

/// The number that says how a job of these tables copies JSON.
fn format(tables: &[Table]) -> u32 {
    match tables.iter().any(Table::marks_json) {
        true => FORMAT_TYPED,
        false => FORMAT_TEXT,
    }
}

fn is_there(target: &mut Connection, table: &TableName) -> Result<bool, CopyError> {
    let sql = format!(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = X'{}' AND TABLE_NAME = X'{}'",
        hex(table.schema.as_bytes()),
        hex(table.name.as_bytes())
    );
    Ok(!rows(target, &sql, "looking for a table")?.is_empty())
}
