//! What a table is, as its server describes it: columns, indexes, foreign keys, sizes.
//!
//! Neighbours: `describe` reads it, `create`, `fit` and the checks before a copy ask it, and
//! [`Description::table`] makes of it what the rest of the crate copies.

use serde::Serialize;
use waggle_server::Flavour;

use crate::table::{Column, Key, Table, TableName};

/// What an index is made as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IndexKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE KEY.
    Unique,
    /// KEY.
    Plain,
    /// FULLTEXT KEY.
    FullText,
    /// SPATIAL KEY.
    Spatial,
    /// VECTOR KEY (MariaDB 11.7).
    Vector,
}

/// One part of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexPart {
    /// The column; `None` for an expression.
    pub column: Option<String>,
    /// Only this many characters or bytes of it.
    pub prefix: Option<u64>,
    /// Descending.
    pub descending: bool,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Index {
    /// `PRIMARY` or its name.
    pub name: String,
    /// What it is.
    pub kind: IndexKind,
    /// Its parts in order.
    pub parts: Vec<IndexPart>,
}

/// A foreign key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Name of the constraint.
    pub name: String,
    /// The table it refers to.
    pub parent: TableName,
    /// `CASCADE`, `SET NULL`, `RESTRICT`, `NO ACTION`.
    pub on_delete: String,
    /// The same for updates of the key.
    pub on_update: String,
}

impl ForeignKey {
    /// Whether a change of the parent changes rows here, which no binary log tells.
    pub fn cascades(&self) -> bool {
        let acts = |rule: &str| matches!(rule, "CASCADE" | "SET NULL" | "SET DEFAULT");
        acts(&self.on_delete) || acts(&self.on_update)
    }
}

/// A table as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: TableName,
    /// The family of its server.
    pub flavour: Flavour,
    /// All columns in order, generated and invisible ones too; but those of `unknown`.
    pub columns: Vec<Column>,
    /// Columns of types this program does not know, as `name type`: such a table is refused.
    pub unknown: Vec<String>,
    /// The column that counts by itself.
    pub auto_increment: Option<String>,
    /// All indexes, PRIMARY first.
    pub indexes: Vec<Index>,
    /// Its own foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// Tables that refer to it.
    pub children: Vec<TableName>,
    /// Names of its triggers.
    pub triggers: Vec<String>,
    /// `InnoDB` and others.
    pub engine: String,
    /// `BASE TABLE`, `VIEW`, `SEQUENCE`, `SYSTEM VERSIONED`.
    pub table_type: String,
    /// Rows, as the server estimates.
    pub rows_estimate: u64,
    /// Bytes of rows and PRIMARY, as the server estimates.
    pub data_bytes: u64,
    /// Bytes of secondary keys, as the server estimates.
    pub index_bytes: u64,
    /// `SHOW CREATE TABLE`.
    pub create: String,
}

impl Description {
    /// Whether the server showed what the table is made of. While somebody ends a change of it,
    /// MariaDB lists the table with nothing in it; `create` waits for that.
    pub(crate) fn is_shown(&self, create: &str) -> bool {
        if matches!(self.table_type.as_str(), "VIEW" | "SEQUENCE") {
            return true;
        }
        let has_keys = ["\n  PRIMARY KEY", "\n  UNIQUE KEY"]
            .iter()
            .any(|key| create.contains(key));
        let has_columns = !self.columns.is_empty() || !self.unknown.is_empty();
        !self.engine.is_empty() && has_columns && (!has_keys || !self.indexes.is_empty())
    }

    /// A column's place by its name, whatever its letters' case.
    pub fn column(&self, name: &str) -> Option<usize> {
        let name = name.to_lowercase();
        let same = |column: &Column| column.name.to_lowercase() == name;
        self.columns.iter().position(same)
    }

    /// The index that names each row: PRIMARY, or else the first unique one of whole columns that
    /// cannot be NULL.
    pub fn row_key(&self) -> Option<&Index> {
        let names_rows = |index: &&Index| {
            matches!(index.kind, IndexKind::Primary | IndexKind::Unique)
                && index.parts.iter().all(|part| self.is_whole(part))
        };
        self.indexes.iter().find(names_rows)
    }

    fn is_whole(&self, part: &IndexPart) -> bool {
        let column = part.column.as_deref().and_then(|name| self.column(name));
        part.prefix.is_none() && column.is_some_and(|at| !self.columns[at].is_nullable)
    }

    /// The table as the copy sees it.
    pub fn table(&self, number: u32, target: TableName) -> Table {
        let key = self.row_key().map(|index| Key {
            name: index.name.clone(),
            columns: (index.parts.iter())
                .filter_map(|part| self.column(part.column.as_deref()?))
                .collect(),
        });
        Table {
            number,
            source: self.name.clone(),
            target,
            columns: self.columns.clone(),
            key,
            is_mariadb: self.flavour == Flavour::MariaDb,
            definition: self.create.clone(),
            rows_estimate: self.rows_estimate,
            bytes_estimate: self.data_bytes,
            typed_json: Vec::new(),
        }
    }
}
