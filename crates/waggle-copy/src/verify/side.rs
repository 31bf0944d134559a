//! One server's half of a comparison: the statements about one table there.
//!
//! Neighbours: `expression` and `key` give the pieces, `ranges` and `buckets` decide what is
//! asked. Invariant: every answer is exact: sums of digests are DECIMALs, and rows whose digest
//! the server could not compute are an error.

use waggle_wire::{Connection, Row};

use super::expression::digest;
use super::key::{KeyColumns, KeyText};
use crate::error::{CopyError, Side};

/// Rows above one key and up to another; all of them without.
#[derive(Debug, Clone, Default)]
pub(super) struct Span {
    pub(super) low: Option<KeyText>,
    pub(super) high: Option<KeyText>,
}

/// What the rows of a span add up to, in whatever order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) rows: u64,
    /// Sums of the first and the second 60 bits of the rows' digests.
    digests: [String; 2],
}

/// A table at one server.
pub(super) struct Half {
    pub(super) side: Side,
    pub(super) connection: Connection,
    /// Quoted.
    table: String,
    pub(super) key: Option<KeyColumns>,
    /// The expression of each compared column.
    pub(super) pieces: Vec<String>,
    digest: String,
}

impl Half {
    pub(super) fn new(
        side: Side,
        connection: Connection,
        table: String,
        key: Option<KeyColumns>,
        pieces: Vec<String>,
    ) -> Half {
        let digest = digest(pieces.iter().map(String::as_str));
        Half {
            side,
            connection,
            table,
            key,
            pieces,
            digest,
        }
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Row>, CopyError> {
        let found = self.connection.query_rows(sql.as_bytes());
        found.map_err(CopyError::on(
            self.side,
            format!("comparing {}", self.table),
        ))
    }

    /// `FROM` the table by its key, `WHERE` the span.
    fn from(&self, span: &Span) -> String {
        let Some(key) = &self.key else {
            return format!("FROM {} t", self.table);
        };
        let low = span.low.as_ref().map(|low| key.above(low));
        let high = span.high.as_ref().map(|high| key.up_to(high));
        let all: Vec<String> = low.into_iter().chain(high).collect();
        let place = match all.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", all.join(" AND ")),
        };
        let index = crate::schema::sql::name(&key.index);
        format!("FROM {} t FORCE INDEX ({index}){place}", self.table)
    }

    /// What a span adds up to.
    pub(super) fn sums(&mut self, span: &Span) -> Result<Sums, CopyError> {
        let sql = format!(
            "SELECT COUNT(*), {} FROM (SELECT {} AS h {}) d",
            SUMS,
            self.digest,
            self.from(span)
        );
        let rows = self.rows(&sql)?;
        let row = rows.first().cloned().unwrap_or_default();
        self.check_computed(&text(&row, 3))?;
        Ok(sums(&row, 0))
    }

    /// Rows without a digest are rows that nobody compared.
    fn check_computed(&self, without: &str) -> Result<(), CopyError> {
        match without {
            "" | "0" => Ok(()),
            count => Err(CopyError::Data {
                table: self.table.clone(),
                what: format!(
                    "the {} could not compute the digest of {count} rows: a value is longer than \
                     its max_allowed_packet; raise that",
                    self.side
                ),
            }),
        }
    }

    /// The `n`th key of a span, from 1; `None` when it has fewer.
    pub(super) fn nth_key(&mut self, span: &Span, n: u64) -> Result<Option<KeyText>, CopyError> {
        let Some(key) = self.key.clone() else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {} {} ORDER BY {} LIMIT 1 OFFSET {}",
            key.expressions(),
            self.from(span),
            key.order(),
            n.saturating_sub(1)
        );
        let rows = self.rows(&sql)?;
        Ok(rows.first().map(|row| key_text(row, key.len())))
    }

    /// Every row's key and digest, in the order of keys.
    pub(super) fn list(&mut self, span: &Span) -> Result<Vec<(KeyText, String)>, CopyError> {
        let Some(key) = self.key.clone() else {
            return Ok(Vec::new());
        };
        let sql = format!(
            "SELECT {}, {} {} ORDER BY {}",
            key.expressions(),
            self.digest,
            self.from(span),
            key.order()
        );
        let rows = self.rows(&sql)?;
        rows.iter().map(|row| self.keyed(row, key.len())).collect()
    }

    fn keyed(&self, row: &Row, keys: usize) -> Result<(KeyText, String), CopyError> {
        let digest = text(row, keys);
        if digest.is_empty() {
            self.check_computed("some")?;
        }
        Ok((key_text(row, keys), digest))
    }

    /// The digests of the rows with these keys; those that are not there are left out.
    pub(super) fn digests(
        &mut self,
        keys: &[KeyText],
    ) -> Result<Vec<(KeyText, String)>, CopyError> {
        const AT_ONCE: usize = 100;
        let Some(key) = self.key.clone() else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for some in keys.chunks(AT_ONCE) {
            let either: Vec<String> = some.iter().map(|one| key.exactly(one)).collect();
            let sql = format!(
                "SELECT {}, {} FROM {} t WHERE {}",
                key.expressions(),
                self.digest,
                self.table,
                either.join(" OR ")
            );
            for row in self.rows(&sql)? {
                found.push(self.keyed(&row, key.len())?);
            }
        }
        Ok(found)
    }

    /// The pieces of one row.
    pub(super) fn row_pieces(&mut self, key: &KeyText) -> Result<Option<Vec<String>>, CopyError> {
        let Some(columns) = self.key.clone() else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {} FROM {} t WHERE {}",
            self.pieces.join(", "),
            self.table,
            columns.exactly(key)
        );
        let rows = self.rows(&sql)?;
        let pieces = |row: &Row| (0..row.len()).map(|at| text(row, at)).collect();
        Ok(rows.first().map(pieces))
    }

    /// Sums of the whole table by the first hexadecimal digits of the rows' digests.
    pub(super) fn buckets(&mut self, digits: usize) -> Result<Vec<(String, Sums)>, CopyError> {
        let sql = format!(
            "SELECT LEFT(h,{digits}), COUNT(*), {SUMS} FROM (SELECT {} AS h FROM {} t) d \
             GROUP BY LEFT(h,{digits})",
            self.digest, self.table
        );
        let rows = self.rows(&sql)?;
        for row in &rows {
            self.check_computed(&text(row, 4))?;
        }
        Ok(rows
            .iter()
            .map(|row| (text(row, 0), sums(row, 1)))
            .collect())
    }

    /// How often each digest of these buckets is there.
    pub(super) fn bucket_rows(
        &mut self,
        buckets: &[String],
    ) -> Result<Vec<(String, u64)>, CopyError> {
        let Some(first) = buckets.first() else {
            return Ok(Vec::new());
        };
        let quoted: Vec<String> = buckets.iter().map(|digits| format!("'{digits}'")).collect();
        let sql = format!(
            "SELECT h, COUNT(*) FROM (SELECT {} AS h FROM {} t) d WHERE LEFT(h,{}) IN ({}) \
             GROUP BY h",
            self.digest,
            self.table,
            first.len(),
            quoted.join(",")
        );
        let rows = self.rows(&sql)?;
        let counted = |row: &Row| (text(row, 0), text(row, 1).parse().unwrap_or(0));
        Ok(rows.iter().map(counted).collect())
    }

    /// The key, or else the pieces, of a row with this digest.
    pub(super) fn row_of_digest(&mut self, digest: &str) -> Result<Option<String>, CopyError> {
        let key = self.key.clone();
        let selected = match &key {
            Some(key) => key.expressions(),
            None => self.pieces.join(", "),
        };
        let sql = format!(
            "SELECT {selected} FROM {} t WHERE {} = '{digest}' LIMIT 1",
            self.table, self.digest
        );
        let rows = self.rows(&sql)?;
        Ok(rows.first().map(|row| match &key {
            Some(key) => key.shown(&key_text(row, key.len())),
            None => (0..row.len())
                .map(|at| text(row, at))
                .collect::<Vec<_>>()
                .join(", "),
        }))
    }

    /// The table, quoted.
    pub(super) fn table(&self) -> &str {
        &self.table
    }
}

const SUMS: &str = "SUM(CAST(CONV(LEFT(h,15),16,10) AS UNSIGNED)), \
                    SUM(CAST(CONV(SUBSTR(h,16,15),16,10) AS UNSIGNED)), SUM(h IS NULL)";

fn sums(row: &Row, at: usize) -> Sums {
    Sums {
        rows: text(row, at).parse().unwrap_or(0),
        digests: [text(row, at + 1), text(row, at + 2)],
    }
}

fn text(row: &Row, at: usize) -> String {
    let value = row.get(at).and_then(Option::as_deref).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

fn key_text(row: &Row, keys: usize) -> KeyText {
    KeyText((0..keys).map(|at| text(row, at)).collect())
}
