//! A table as the copy sees it: its name, columns and key.
//!
//! `schema` reads it from the source, everything else goes by it. Invariant: columns are in the
//! table's own order, which is the binary log's, generated and invisible ones included.

use std::fmt;

/// A table's schema and name, as the server spells them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The database.
    pub schema: String,
    /// The name in it.
    pub name: String,
}

impl TableName {
    /// The name as SQL, both parts quoted.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// An identifier as SQL.
pub fn quote(identifier: &str) -> String {
    format!("`{}`", identifier.replace('`', "``"))
}

/// What a column holds, as far as the ways of copying differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TINYINT to BIGINT.
    Integer,
    /// DECIMAL.
    Decimal,
    /// FLOAT: four bytes.
    Float,
    /// DOUBLE: eight bytes.
    Double,
    /// BIT(n).
    Bit,
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME(n).
    Time,
    /// DATETIME(n).
    DateTime,
    /// TIMESTAMP(n).
    Timestamp,
    /// CHAR, VARCHAR and the TEXTs, in a character set.
    Text,
    /// BINARY(n): padded with zeros.
    Binary,
    /// VARBINARY and the BLOBs.
    Blob,
    /// ENUM.
    Enum,
    /// SET.
    Set,
    /// JSON of MySQL, a type of its own; MariaDB's is text.
    Json,
    /// Geometries.
    Geometry,
    /// VECTOR.
    Vector,
    /// UUID, INET4, INET6 of MariaDB: text that the server checks.
    Address,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Its type as the server writes it, such as `int(11) unsigned`.
    pub column_type: String,
    /// Its character set, of those that have one.
    pub charset: Option<String>,
    /// Its collation, of those that have one.
    pub collation: Option<String>,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether the server computes it: read for nothing, never written.
    pub is_generated: bool,
    /// Whether `SELECT *` leaves it out.
    pub is_invisible: bool,
}

impl Column {
    /// The name as SQL.
    pub fn quoted(&self) -> String {
        quote(&self.name)
    }

    /// Whether its numbers have no sign.
    pub fn is_unsigned(&self) -> bool {
        self.column_type.to_ascii_lowercase().contains("unsigned")
    }
}

/// The key that a table's rows are told apart and ordered by: NOT NULL and unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The index's name: `PRIMARY`, or that of a unique key.
    pub name: String,
    /// Indices of its columns in [`Table::columns`], in the key's order.
    pub columns: Vec<usize>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its number in the job: its place in the order of names, from 0.
    pub number: u32,
    /// Where it is.
    pub source: TableName,
    /// Where it goes.
    pub target: TableName,
    /// All columns.
    pub columns: Vec<Column>,
    /// Its key; without one the table is copied in one range that cannot be resumed.
    pub key: Option<Key>,
    /// Whether the source is a MariaDB.
    pub is_mariadb: bool,
    /// `SHOW CREATE TABLE` at the source.
    pub definition: String,
    /// Rows, as the source estimates them.
    pub rows_estimate: u64,
    /// Bytes of rows, as the source estimates them.
    pub bytes_estimate: u64,
    /// Indices of the columns whose JSON gets the types that its text does not say; rows that have
    /// any are looked for.
    pub typed_json: Vec<usize>,
}

impl Table {
    /// The columns that are copied, with their indices: all but generated ones.
    pub fn written(&self) -> impl Iterator<Item = (usize, &Column)> {
        let all = self.columns.iter().enumerate();
        all.filter(|(_, column)| !column.is_generated)
    }

    /// The columns that are copied and hold JSON as a type of its own, with their indices.
    pub fn json(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.written()
            .filter(|(_, column)| column.kind == Kind::Json)
    }

    /// Whether rows are looked for whose JSON is more than its text says.
    pub fn marks_json(&self) -> bool {
        !self.typed_json.is_empty()
    }

    /// The columns whose JSON gets the types that its text does not say.
    pub fn typed_json(&self) -> impl Iterator<Item = &Column> {
        self.typed_json.iter().map(|index| &self.columns[*index])
    }

    /// The columns of the key; none without one.
    pub fn key_columns(&self) -> impl Iterator<Item = &Column> {
        let key = self.key.iter().flat_map(|key| &key.columns);
        key.map(|index| &self.columns[*index])
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A column of binary bytes, if anything.
    pub(crate) fn column(name: &str, kind: Kind) -> Column {
        Column {
            name: name.to_owned(),
            kind,
            column_type: "blob".to_owned(),
            charset: None,
            collation: None,
            is_nullable: true,
            is_generated: false,
            is_invisible: false,
        }
    }

    /// `s.t`, whose first column is its key.
    pub(crate) fn table(columns: &[Column]) -> Table {
        let name = TableName {
            schema: "s".into(),
            name: "t".into(),
        };
        Table {
            number: 0,
            source: name.clone(),
            target: name,
            columns: columns.to_vec(),
            key: Some(Key {
                name: "PRIMARY".into(),
                columns: vec![0],
            }),
            is_mariadb: false,
            definition: String::new(),
            rows_estimate: 0,
            bytes_estimate: 0,
            typed_json: Vec::new(),
        }
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quote("a`b"), "`a``b`");
    }
}
