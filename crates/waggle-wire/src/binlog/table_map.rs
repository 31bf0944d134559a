//! What the log says of a table before its rows: types, and with full metadata much more.
//!
//! A table map stands before the rows of each statement and is read once for them. Neighbours:
//! [`rows`](crate::binlog::rows) walks by it, [`value`](crate::binlog::value) reads by it; `kind`
//! has the types, `optional_metadata` what only full metadata says. Invariant: every column's type
//! is known, so that values after it are found; what the log may leave out (signs, names,
//! collations) is an `Option` that a caller can fill from the schema.

mod kind;
mod optional_metadata;

use crate::Error;
use crate::cursor::Cursor;

pub use kind::Kind;

/// The collation of binary data.
const COLLATION_BINARY: u32 = 63;

/// What the bytes of a [`Kind::Char`] stand for. The log never says; the schema does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Meaning {
    /// Themselves.
    #[default]
    Itself,
    /// MariaDB's UUID.
    Uuid,
    /// MariaDB's INET4.
    Inet4,
    /// MariaDB's INET6.
    Inet6,
}

/// One column. What the log leaves out is `None` until somebody fills it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its type.
    pub kind: Kind,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether a number is UNSIGNED. Without it numbers are read as signed.
    pub is_unsigned: Option<bool>,
    /// The number of its collation. Without it, a BINARY is not filled up with zeros.
    pub collation: Option<u32>,
    /// Its name.
    pub name: Option<Vec<u8>>,
    /// The members of an ENUM or SET, in its character set.
    pub members: Option<Vec<Vec<u8>>>,
    /// Whether `SELECT *` shows it.
    pub is_visible: Option<bool>,
    /// What its bytes stand for, as far as the caller knows and sets it.
    pub meaning: Meaning,
}

impl Column {
    fn new(kind: Kind) -> Column {
        Column {
            kind,
            is_nullable: false,
            is_unsigned: None,
            collation: None,
            name: None,
            members: None,
            is_visible: None,
            meaning: Meaning::Itself,
        }
    }

    /// Whether it is known to hold binary data.
    pub fn is_binary(&self) -> bool {
        self.collation == Some(COLLATION_BINARY)
    }
}

/// A table as rows in the log need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// The number that rows name it by, until the transaction's end.
    pub id: u64,
    /// Its database.
    pub schema: Vec<u8>,
    /// Its name.
    pub name: Vec<u8>,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The columns of its primary key with their prefixes (0: whole), where the log names them.
    pub primary_key: Option<Vec<(u32, u32)>>,
}

impl TableMap {
    /// The number of a table map's table: what it takes to pass over those of no interest.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the event ends early.
    pub fn id(body: &[u8]) -> Result<u64, Error> {
        id(&mut Cursor::new(body, "table map event"))
    }

    /// A table map's number, schema and name: what it takes to know whether it is of interest.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the event ends early.
    pub fn name(body: &[u8]) -> Result<(u64, &[u8], &[u8]), Error> {
        let mut cursor = Cursor::new(body, "table map event");
        let id = id(&mut cursor)?;
        cursor.u16()?; // flags
        let mut name = || {
            let length = cursor.u8()?;
            let name = cursor.bytes(length.into())?;
            match cursor.u8()? {
                0 => Ok(name),
                _ => Err(cursor.error("a name in it does not end")),
            }
        };
        Ok((id, name()?, name()?))
    }

    /// Reads the body of a table map.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one, [`Error::Unsupported`] when a column's type is
    /// not known.
    pub fn parse(body: &[u8]) -> Result<TableMap, Error> {
        let (id, schema, name) = TableMap::name(body)?;
        let (schema, name) = (schema.to_vec(), name.to_vec());
        let mut cursor = Cursor::new(body, "table map event");
        cursor.bytes(6 + 2 + 1 + schema.len() + 1 + 1 + name.len() + 1)?;
        let count = cursor.integer()?;
        // A length that cannot be is seen here, before anything is allocated.
        let codes = cursor.bytes(usize::try_from(count).unwrap_or(usize::MAX))?;
        let mut metadata = Cursor::new(cursor.text()?, "table map event's metadata");
        let mut columns = Vec::with_capacity(codes.len());
        for code in codes {
            columns.push(Column::new(Kind::parse(*code, &mut metadata)?));
        }
        if !metadata.is_empty() {
            return Err(metadata.error("it is longer than its columns need"));
        }
        let nullable = cursor.bytes(columns.len().div_ceil(8))?;
        for (i, column) in columns.iter_mut().enumerate() {
            column.is_nullable = nullable[i / 8] >> (i % 8) & 1 == 1;
        }
        let mut table = TableMap {
            id,
            schema,
            name,
            columns,
            primary_key: None,
        };
        while !cursor.is_empty() {
            let kind = cursor.u8()?;
            let field = Cursor::new(cursor.text()?, "table map event's optional metadata");
            table.take_optional(kind, field)?;
        }
        Ok(table)
    }
}

/// A number of six bytes.
pub(crate) fn id(cursor: &mut Cursor<'_>) -> Result<u64, Error> {
    let [a, b, c, d, e, f] = cursor.array()?;
    Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

#[cfg(test)]
pub(crate) mod tests;
