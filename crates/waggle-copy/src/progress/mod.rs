//! What the target knows of a copy: its tables, ranges, position and changes of schema.
//!
//! Four small tables in a database of their own, so that a copy that was ended at any moment goes
//! on from what the target has. Neighbours: `ingest` moves a range's frontier in the transaction
//! that stores its rows, `apply` the position in the one that stores its changes, `schema` keeps
//! its journal. Invariant: while any range is not done, its rows up to its frontier, and the rows
//! of all ranges that are done, are those of the source at the position.

use waggle_wire::{Connection, Row};

use crate::error::CopyError;
use crate::position::Position;
use crate::range::{KeyValue, Range, hex};
use crate::table::{Table, TableName};

/// The database at the target that all of it is in.
pub const DATABASE: &str = "waggle_copy";

/// Of a job whose JSON, if it has any, is what its text says; jobs of numbers that are not known
/// are refused.
const FORMAT_TEXT: u32 = 1;
/// Of a job whose JSON has its types as well: one that changed its way would lack them in the rows
/// that it has copied already.
const FORMAT_TYPED: u32 = 2;

/// Of a range's row, in the order that `range` reads them.
const COLUMNS: &str = "table_no, range_no, low, high, frontier, is_done, rows_copied, bytes_copied";

const TABLES: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS waggle_copy.jobs (
       job VARBINARY(64) NOT NULL PRIMARY KEY,
       format INT NOT NULL,
       source VARBINARY(512) NOT NULL,
       position LONGBLOB NULL COMMENT 'rows are those of the source here',
       is_split TINYINT NOT NULL DEFAULT 0 COMMENT 'all ranges are known',
       owner BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'grows with each copier that takes over'
     ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS waggle_copy.tables (
       job VARBINARY(64) NOT NULL,
       table_no INT NOT NULL,
       source_name VARBINARY(512) NOT NULL,
       target_name VARBINARY(512) NOT NULL,
       definition LONGBLOB NOT NULL,
       PRIMARY KEY (job, table_no)
     ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS waggle_copy.ranges (
       job VARBINARY(64) NOT NULL,
       table_no INT NOT NULL,
       range_no INT NOT NULL,
       low LONGBLOB NULL,
       high LONGBLOB NULL,
       frontier LONGBLOB NULL,
       is_done TINYINT NOT NULL DEFAULT 0,
       rows_copied BIGINT UNSIGNED NOT NULL DEFAULT 0,
       bytes_copied BIGINT UNSIGNED NOT NULL DEFAULT 0,
       PRIMARY KEY (job, table_no, range_no)
     ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS waggle_copy.journal (
       job VARBINARY(64) NOT NULL,
       step INT NOT NULL,
       table_no INT NOT NULL,
       kind VARBINARY(32) NOT NULL,
       ddl LONGBLOB NOT NULL,
       is_done TINYINT NOT NULL DEFAULT 0,
       PRIMARY KEY (job, step)
     ) ENGINE=InnoDB",
];

/// A job of a target: the name that its rows are kept under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    name: String,
    /// Which of the copiers that took it over this is; 0 before [`Job::install`].
    owner: u64,
}

/// What the target says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Where the rows at the target are; `None` before the first snapshot.
    pub position: Option<Position>,
    /// Every range of every table; empty until all of them are known.
    pub ranges: Vec<Range>,
}

impl Job {
    /// A job of this name: up to 64 letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// [`CopyError::Progress`] for other names.
    pub fn new(name: &str) -> Result<Job, CopyError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
            true => Ok(Job {
                name: name.to_owned(),
                owner: 0,
            }),
            false => Err(CopyError::Progress(format!(
                "{name:?} is no name of a job: 1 to 64 letters, digits, - _ ."
            ))),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

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

    /// What the target knows, once what an earlier process has sent is decided.
    ///
    /// # Errors
    /// What the target says, and [`CopyError::Progress`] when it makes no sense.
    pub fn state(&self, target: &mut Connection) -> Result<State, CopyError> {
        let job = self.name();
        let sql = format!(
            "SELECT position, is_split FROM waggle_copy.jobs WHERE job = '{job}' FOR UPDATE"
        );
        let found = rows(target, &sql, "reading the job")?;
        let row = found.first().ok_or_else(|| gone("the job's row"))?;
        let position = match row.first().and_then(Option::as_ref) {
            None => None,
            Some(_) => Some(text(row, 0)?.parse().map_err(wrong)?),
        };
        let mut ranges = Vec::new();
        if number(row, 1)? != 0 {
            let sql = format!(
                "SELECT {COLUMNS} FROM waggle_copy.ranges WHERE job = '{job}' \
                 ORDER BY table_no, range_no FOR UPDATE"
            );
            for row in rows(target, &sql, "reading the ranges")? {
                ranges.push(range(&row)?);
            }
        }
        Ok(State { position, ranges })
    }

    /// Keeps the ranges and the position that their rows will be read at, in one transaction, in
    /// place of what an earlier process may have left of ranges.
    ///
    /// # Errors
    /// What the target says.
    pub fn begin(
        &self,
        target: &mut Connection,
        position: &Position,
        ranges: &[Range],
    ) -> Result<(), CopyError> {
        const AT_ONCE: usize = 500;
        let doing = "noting the ranges";
        let job = self.name();
        run(target, "BEGIN", doing)?;
        let sql = format!("DELETE FROM waggle_copy.ranges WHERE job = '{job}'");
        run(target, &sql, doing)?;
        for some in ranges.chunks(AT_ONCE) {
            let values: Vec<String> = some
                .iter()
                .map(|range| {
                    format!(
                        "('{job}', {}, {}, {}, {})",
                        range.table,
                        range.number,
                        literal(range.low.as_ref()),
                        literal(range.high.as_ref())
                    )
                })
                .collect();
            let sql = format!(
                "INSERT INTO waggle_copy.ranges (job, table_no, range_no, low, high) VALUES {}",
                values.join(", ")
            );
            run(target, &sql, doing)?;
        }
        let sql = format!(
            "UPDATE waggle_copy.jobs SET is_split = 1, position = '{position}' WHERE job = '{job}'"
        );
        run(target, &sql, doing)?;
        run(target, "COMMIT", doing)
    }

    /// The statement that moves a range forward, for the transaction that stores its rows.
    pub fn advance(&self, range: &Range) -> String {
        format!(
            "UPDATE waggle_copy.ranges SET frontier = {}, is_done = {}, rows_copied = {}, \
             bytes_copied = {} WHERE job = '{}' AND table_no = {} AND range_no = {}",
            literal(range.frontier.as_ref()),
            u8::from(range.is_done),
            range.rows,
            range.bytes,
            self.name(),
            range.table,
            range.number
        )
    }

    /// A range as the target has it, locked until the end of the transaction.
    ///
    /// # Errors
    /// What the target says, and [`CopyError::Progress`] when it is gone.
    pub fn locked_range(
        &self,
        target: &mut Connection,
        table: u32,
        number: u32,
    ) -> Result<Range, CopyError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM waggle_copy.ranges WHERE job = '{}' AND table_no = {table} \
             AND range_no = {number} FOR UPDATE",
            self.name()
        );
        let found = rows(target, &sql, "reading a range")?;
        range(found.first().ok_or_else(|| gone("a range's row"))?)
    }

    /// The statement that sets the position, for the transaction that stores changes. It fails, in
    /// a strict session, when another copier has taken the job over: [`Job::is_taken`].
    pub fn reach(&self, position: &Position) -> String {
        format!(
            "UPDATE waggle_copy.jobs SET position = '{position}', \
             format = IF(owner = {}, format, NULL) WHERE job = '{}'",
            self.owner,
            self.name()
        )
    }

    /// Whether an error of [`Job::reach`]'s statement says that another copier has the job.
    pub fn is_taken(error: &CopyError) -> bool {
        const NOT_NULL: u16 = 1048;
        error.errno() == Some(NOT_NULL) && error.to_string().contains("'format'")
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

fn range(row: &Row) -> Result<Range, CopyError> {
    let key = |column: usize| -> Result<Option<KeyValue>, CopyError> {
        match row.get(column).and_then(Option::as_ref) {
            None => Ok(None),
            Some(_) => text(row, column)?.parse().map(Some).map_err(wrong),
        }
    };
    Ok(Range {
        table: number(row, 0)? as u32,
        number: number(row, 1)? as u32,
        low: key(2)?,
        high: key(3)?,
        frontier: key(4)?,
        is_done: number(row, 5)? != 0,
        rows: number(row, 6)?,
        bytes: number(row, 7)?,
    })
}

fn run(target: &mut Connection, sql: &str, doing: &str) -> Result<(), CopyError> {
    let done = target.query(sql.as_bytes());
    done.map(drop).map_err(CopyError::target(doing))
}

fn rows(target: &mut Connection, sql: &str, doing: &str) -> Result<Vec<Row>, CopyError> {
    let found = target.query_rows(sql.as_bytes());
    found.map_err(CopyError::target(doing))
}

fn text(row: &Row, column: usize) -> Result<&str, CopyError> {
    let value = row.get(column).and_then(Option::as_deref);
    value
        .and_then(|value| std::str::from_utf8(value).ok())
        .ok_or_else(|| gone("a value"))
}

fn number(row: &Row, column: usize) -> Result<u64, CopyError> {
    text(row, column)?.parse().map_err(wrong)
}

fn literal(key: Option<&KeyValue>) -> String {
    key.map_or_else(|| "NULL".to_owned(), |key| format!("'{key}'"))
}

fn gone(what: &str) -> CopyError {
    CopyError::Progress(format!(
        "{what} is not there; is another copy of this name running?"
    ))
}

fn wrong(error: impl std::fmt::Display) -> CopyError {
    CopyError::Progress(error.to_string())
}
