//! Reads tables from `information_schema`, which both families have in nearly the same words.
//!
//! A few statements a schema, not a table, so that a thousand tables are read in a moment; only
//! `SHOW CREATE TABLE` is asked for each. Invariant: a column's type that is not known here is
//! said to be unknown, never taken for the nearest one.

use std::collections::BTreeMap;

use waggle_wire::{Connection, Error};

use super::{Description, ForeignKey, Index, IndexKind, IndexPart, sql};
use crate::table::{Column, Kind, TableName};

/// How often a table is looked at that the server shows nothing of, as somebody changes it.
const LOOKS_MAX: usize = 10;

/// The base tables of a schema, by name.
///
/// # Errors
/// Those of the connection.
pub fn list(connection: &mut Connection, schema: &str) -> Result<Vec<TableName>, Error> {
    let rows = texts(
        connection,
        &format!(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} \
             AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME",
            sql::string(schema)
        ),
    )?;
    let name = |row: &Fields| table_name(schema, &row.text(0));
    Ok(rows.iter().map(name).collect())
}

/// Reads the named tables, in the order of the names, but not which tables refer to them. One that
/// is not there is left out.
///
/// # Errors
/// Those of the connection.
pub fn tables(connection: &mut Connection, names: &[TableName]) -> Result<Vec<Description>, Error> {
    read(connection, names, false)
}

/// As [`tables`], with the tables that refer to them, for which MariaDB opens every table it has.
///
/// # Errors
/// Those of the connection.
pub fn tables_with_children(
    connection: &mut Connection,
    names: &[TableName],
) -> Result<Vec<Description>, Error> {
    read(connection, names, true)
}

fn read(
    connection: &mut Connection,
    names: &[TableName],
    has_children: bool,
) -> Result<Vec<Description>, Error> {
    let mut found: BTreeMap<TableName, Description> = BTreeMap::new();
    let mut schemas: Vec<&str> = names.iter().map(|name| name.schema.as_str()).collect();
    schemas.sort_unstable();
    schemas.dedup();
    for schema in schemas {
        let mut here = names.iter().filter(|name| name.schema == schema);
        // One of a thousand is not worth reading all of them.
        let only = match (here.next(), here.next()) {
            (Some(one), None) => Some(one.name.as_str()),
            _ => None,
        };
        for table in schema_tables(connection, schema, only, has_children)? {
            found.insert(table.name.clone(), table);
        }
    }
    let mut tables = Vec::new();
    for name in names {
        let Some(mut table) = found.get(name).cloned() else {
            continue;
        };
        if table.table_type != "VIEW" && table.table_type != "SEQUENCE" {
            for _ in 0..LOOKS_MAX {
                // Waits for who changes the table; the schema's tables do not.
                let rows = texts(connection, &format!("SHOW CREATE TABLE {}", name.quoted()))?;
                let create = rows.first().map(|row| row.text(1)).unwrap_or_default();
                let is_shown = table.is_shown(&create);
                table.create = create;
                if is_shown {
                    break;
                }
                let again =
                    schema_tables(connection, &name.schema, Some(&name.name), has_children)?;
                table = again.into_iter().next().unwrap_or(table);
            }
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Rows of text; NULL is `None`.
struct Fields(Vec<Option<String>>);

impl Fields {
    fn text(&self, at: usize) -> String {
        self.0.get(at).cloned().flatten().unwrap_or_default()
    }

    fn some(&self, at: usize) -> Option<String> {
        self.0.get(at).cloned().flatten()
    }

    fn number(&self, at: usize) -> Option<u64> {
        self.some(at)?.parse().ok()
    }
}

fn texts(connection: &mut Connection, sql: &str) -> Result<Vec<Fields>, Error> {
    let rows = connection.query_rows(sql.as_bytes())?;
    let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
    let fields = |row: waggle_wire::Row| {
        let values = row.into_iter().map(|value| value.map(text));
        Fields(values.collect())
    };
    Ok(rows.into_iter().map(fields).collect())
}

/// All tables of a schema, or one of them, but their `SHOW CREATE TABLE`.
fn schema_tables(
    connection: &mut Connection,
    schema: &str,
    only: Option<&str>,
    has_children: bool,
) -> Result<Vec<Description>, Error> {
    let flavour = super::flavour(connection);
    let quoted = sql::string(schema);
    let place = match only {
        Some(name) => format!(
            "TABLE_SCHEMA = {quoted} AND TABLE_NAME = {}",
            sql::string(name)
        ),
        None => format!("TABLE_SCHEMA = {quoted}"),
    };
    let heads = texts(
        connection,
        &format!(
            "SELECT TABLE_NAME, ENGINE, TABLE_TYPE, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH \
             FROM information_schema.TABLES WHERE {place}"
        ),
    )?;
    let mut tables: BTreeMap<String, Description> = BTreeMap::new();
    for head in &heads {
        let table = Description {
            name: table_name(schema, &head.text(0)),
            flavour,
            columns: Vec::new(),
            unknown: Vec::new(),
            auto_increment: None,
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            children: Vec::new(),
            triggers: Vec::new(),
            engine: head.text(1),
            table_type: head.text(2),
            rows_estimate: head.number(3).unwrap_or(0),
            data_bytes: head.number(4).unwrap_or(0),
            index_bytes: head.number(5).unwrap_or(0),
            create: String::new(),
        };
        tables.insert(head.text(0), table);
    }
    read_columns(connection, &place, &mut tables)?;
    read_indexes(connection, &place, &mut tables)?;
    read_references(connection, schema, has_children, &mut tables)?;
    let triggers = format!(
        "SELECT EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS \
         WHERE EVENT_OBJECT_SCHEMA = {quoted} ORDER BY TRIGGER_NAME"
    );
    for row in texts(connection, &triggers)? {
        if let Some(table) = tables.get_mut(&row.text(0)) {
            table.triggers.push(row.text(1));
        }
    }
    Ok(tables.into_values().collect())
}

fn read_columns(
    connection: &mut Connection,
    place: &str,
    tables: &mut BTreeMap<String, Description>,
) -> Result<(), Error> {
    let rows = texts(
        connection,
        &format!(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, \
             COLLATION_NAME, IS_NULLABLE, EXTRA FROM information_schema.COLUMNS \
             WHERE {place} ORDER BY TABLE_NAME, ORDINAL_POSITION"
        ),
    )?;
    for row in &rows {
        let Some(table) = tables.get_mut(&row.text(0)) else {
            continue;
        };
        let (name, data_type) = (row.text(1), row.text(2).to_lowercase());
        let extra = row.text(7).to_uppercase();
        if extra.contains("AUTO_INCREMENT") {
            table.auto_increment = Some(name.clone());
        }
        let Some(kind) = kind_of(&data_type) else {
            table.unknown.push(format!("{name} {data_type}"));
            continue;
        };
        table.columns.push(Column {
            name,
            kind,
            column_type: row.text(3),
            charset: row.some(4),
            collation: row.some(5),
            is_nullable: row.text(6) == "YES",
            is_generated: is_generated(&extra),
            is_invisible: extra.contains("INVISIBLE"),
        });
    }
    Ok(())
}

fn table_name(schema: &str, name: &str) -> TableName {
    TableName {
        schema: schema.to_owned(),
        name: name.to_owned(),
    }
}

/// `DEFAULT_GENERATED` says that a default is an expression, not that the column is generated.
fn is_generated(extra: &str) -> bool {
    ["VIRTUAL", "STORED", "PERSISTENT"]
        .iter()
        .any(|how| extra.contains(&format!("{how} GENERATED")))
}

/// How a `DATA_TYPE` is treated.
pub(super) fn kind_of(data_type: &str) -> Option<Kind> {
    Some(match data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Kind::Integer,
        "decimal" => Kind::Decimal,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bit" => Kind::Bit,
        "year" => Kind::Year,
        "date" => Kind::Date,
        "time" => Kind::Time,
        "datetime" => Kind::DateTime,
        "timestamp" => Kind::Timestamp,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Kind::Text,
        "binary" => Kind::Binary,
        "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Blob,
        "enum" => Kind::Enum,
        "set" => Kind::Set,
        "json" => Kind::Json,
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geometrycollection" | "geomcollection" => Kind::Geometry,
        "vector" => Kind::Vector,
        "uuid" | "inet4" | "inet6" => Kind::Address,
        _ => return None,
    })
}

fn read_indexes(
    connection: &mut Connection,
    place: &str,
    tables: &mut BTreeMap<String, Description>,
) -> Result<(), Error> {
    let rows = texts(
        connection,
        &format!(
            "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, COLLATION, \
             INDEX_TYPE FROM information_schema.STATISTICS WHERE {place} \
             ORDER BY TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX"
        ),
    )?;
    for row in &rows {
        let Some(table) = tables.get_mut(&row.text(0)) else {
            continue;
        };
        let name = row.text(1);
        let kind = match (name.as_str(), row.text(2).as_str(), row.text(6).as_str()) {
            ("PRIMARY", ..) => IndexKind::Primary,
            (_, _, "FULLTEXT") => IndexKind::FullText,
            (_, _, "SPATIAL") => IndexKind::Spatial,
            (_, _, "VECTOR") => IndexKind::Vector,
            (_, "0", _) => IndexKind::Unique,
            _ => IndexKind::Plain,
        };
        let part = IndexPart {
            column: row.some(3),
            prefix: row.number(4),
            descending: row.text(5) == "D",
        };
        match table.indexes.last_mut().filter(|index| index.name == name) {
            Some(index) => index.parts.push(part),
            None => table.indexes.push(Index {
                name,
                kind,
                parts: vec![part],
            }),
        }
    }
    Ok(())
}

/// Foreign keys of these tables, and, if asked for, the tables anywhere that refer to them.
fn read_references(
    connection: &mut Connection,
    schema: &str,
    has_children: bool,
    tables: &mut BTreeMap<String, Description>,
) -> Result<(), Error> {
    let quoted = sql::string(schema);
    let anywhere = match has_children {
        true => format!(" OR UNIQUE_CONSTRAINT_SCHEMA = {quoted}"),
        false => String::new(),
    };
    let rows = texts(
        connection,
        &format!(
            "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UNIQUE_CONSTRAINT_SCHEMA, \
             REFERENCED_TABLE_NAME, DELETE_RULE, UPDATE_RULE \
             FROM information_schema.REFERENTIAL_CONSTRAINTS \
             WHERE CONSTRAINT_SCHEMA = {quoted}{anywhere} \
             ORDER BY TABLE_NAME, CONSTRAINT_NAME"
        ),
    )?;
    for row in &rows {
        let child = table_name(&row.text(0), &row.text(1));
        let parent = table_name(&row.text(3), &row.text(4));
        if child.schema == schema
            && let Some(table) = tables.get_mut(&child.name)
        {
            table.foreign_keys.push(ForeignKey {
                name: row.text(2),
                parent: parent.clone(),
                on_delete: row.text(5),
                on_update: row.text(6),
            });
        }
        if parent.schema == schema
            && let Some(table) = tables.get_mut(&parent.name)
            && !table.children.contains(&child)
        {
            table.children.push(child);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_nobody_knows_is_none() {
        assert_eq!(kind_of("mediumint"), Some(Kind::Integer));
        assert_eq!(kind_of("geomcollection"), Some(Kind::Geometry));
        assert_eq!(kind_of("hyperlog"), None);
    }

    #[test]
    fn a_default_that_is_an_expression_generates_nothing() {
        assert!(!is_generated("DEFAULT_GENERATED ON UPDATE"));
        assert!(is_generated("VIRTUAL GENERATED INVISIBLE"));
        assert!(is_generated("STORED GENERATED"));
    }
}
