//! One slice: a transaction of the target with rows and the frontier after them.
//!
//! Neighbours: `feed` gives lines. Invariant: LOAD DATA LOCAL skips and changes rows with no more
//! than a warning, so a slice with a warning, or with fewer rows stored than sent, is rolled back
//! and the row is named.

use std::sync::Mutex;

use waggle_wire::{Connection, Error};

use super::feed::Feed;
use super::retype::retype;
use crate::error::CopyError;
use crate::job::Plan;
use crate::range::Range;
use crate::table::Table;

/// Warnings that are shown of a slice.
const WARNINGS_SHOWN: usize = 3;

/// The slices of one range.
pub(super) struct Slices<'a> {
    pub(super) plan: &'a Plan,
    pub(super) table: &'a Table,
    /// As the target has it.
    pub(super) range: Range,
    pub(super) load: String,
    pub(super) spare: Option<&'a Mutex<Connection>>,
    pub(super) writer: &'a mut Connection,
}

impl Slices<'_> {
    /// Stores the next slice of `feed`; gives its rows and their bytes.
    pub(super) fn store(&mut self, feed: &mut Feed<'_>) -> Result<(u64, u64), CopyError> {
        feed.begin();
        self.run("BEGIN")?;
        self.check_frontier()?;
        let loaded = self
            .writer
            .load_local(self.load.as_bytes(), &mut |out| feed.fill(out));
        if let Some(error) = feed.error() {
            self.undo();
            let doing = format!("reading {}", self.table.source);
            return Err(CopyError::source(doing)(error));
        }
        let rows = match loaded {
            Ok(summary) => summary.affected,
            Err(error @ Error::Load { .. }) => return Err(self.refused(&error)),
            Err(error) => {
                self.undo();
                let doing = format!("storing rows of {}", self.table.target);
                return Err(CopyError::target(doing)(error));
            }
        };
        if let (Some(spare), false) = (self.spare, feed.marked().is_empty())
            && let Err(error) = retype(spare, self.writer, self.table, feed.marked())
        {
            self.undo();
            return Err(error);
        }
        let mut next = self.range.clone();
        next.rows += rows;
        next.bytes += feed.bytes();
        match feed.last() {
            Some(key) => next.frontier = Some(key),
            None => next.is_done = feed.is_over(),
        }
        let advance = self.plan.job.advance(&next);
        self.run(&advance)?;
        // If its answer is lost, whoever goes on reads the frontier and knows.
        self.run("COMMIT")?;
        self.range = next;
        Ok((rows, feed.bytes()))
    }

    /// Locks the range's row and looks that nobody else moved it.
    fn check_frontier(&mut self) -> Result<(), CopyError> {
        let Range { table, number, .. } = self.range;
        let found = self.plan.job.locked_range(self.writer, table, number)?;
        if found == self.range {
            return Ok(());
        }
        self.undo();
        Err(CopyError::Progress(format!(
            "range {number} of {} was moved by somebody else; is another copy of job {} running?",
            self.table.source,
            self.plan.job.name()
        )))
    }

    fn run(&mut self, sql: &str) -> Result<(), CopyError> {
        let done = self.writer.query(sql.as_bytes());
        let doing = || format!("storing a slice of {}", self.table.target);
        done.map(drop)
            .map_err(|error| CopyError::target(doing())(error))
    }

    /// Best effort: a session that is lost has rolled back.
    fn undo(&mut self) {
        let _ = self.writer.query(b"ROLLBACK");
    }

    /// Says which row was not taken, and why.
    fn refused(&mut self, error: &Error) -> CopyError {
        let warnings = self.writer.query_rows(b"SHOW WARNINGS").unwrap_or_default();
        self.undo();
        let shown: Vec<String> = warnings
            .iter()
            .take(WARNINGS_SHOWN)
            .map(|row| {
                let text = |column: usize| {
                    let value = row.get(column).and_then(Option::as_deref);
                    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
                };
                format!("{} (error {})", text(2), text(1))
            })
            .collect();
        let after = match self.range.resume() {
            Some(key) => format!("rows counted after the key {}", shown_key(&key.0)),
            None => "rows counted from the first of the table".to_owned(),
        };
        CopyError::Data {
            table: self.table.target.to_string(),
            what: format!("{error}: {}; {after}", shown.join(", ")),
        }
    }
}

fn shown_key(values: &[Vec<u8>]) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect();
    format!("({})", values.join(", "))
}
