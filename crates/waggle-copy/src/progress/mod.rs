//! What the target knows of a copy: its tables, ranges, position and changes of schema.
//!
//! Four small tables in a database of their own, so that a copy that was ended at any moment goes
//! on from what the target has. Neighbours: `claim` says whether a job may go on here, `ingest`
//! moves a range's frontier in the transaction that stores its rows, `apply` the position in the
//! one that stores its changes, `schema` keeps its journal. Invariant: while any range is not done,
//! its rows up to its frontier, and the rows of all ranges that are done, are those of the source
//! at the position.

mod claim;

use std::fmt::Display;
use std::str::FromStr;

use waggle_wire::{Connection, Row};

use crate::error::CopyError;
use crate::position::Position;
use crate::range::{KeyValue, Range};
use crate::session::run;

/// The database at the target that all of it is in.
pub const DATABASE: &str = "waggle_copy";

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
        let position = parsed(row, 0)?;
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

fn range(row: &Row) -> Result<Range, CopyError> {
    Ok(Range {
        table: number(row, 0)? as u32,
        number: number(row, 1)? as u32,
        low: parsed(row, 2)?,
        high: parsed(row, 3)?,
        frontier: parsed(row, 4)?,
        is_done: number(row, 5)? != 0,
        rows: number(row, 6)?,
        bytes: number(row, 7)?,
    })
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

/// What a value that is not NULL says.
fn parsed<T: FromStr<Err: Display>>(row: &Row, column: usize) -> Result<Option<T>, CopyError> {
    match row.get(column).and_then(Option::as_ref) {
        None => Ok(None),
        Some(_) => text(row, column)?.parse().map(Some).map_err(wrong),
    }
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

fn wrong(error: impl Display) -> CopyError {
    CopyError::Progress(error.to_string())
}
