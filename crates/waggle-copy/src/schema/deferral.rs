//! Which keys wait until the rows are there, and how are they built then?
//!
//! Rows come in the order of the key that names them; every other key costs a random write a row,
//! and is built faster sorted, in one pass, at the end. Kept from the start: that key, and the
//! first one that begins with the AUTO_INCREMENT column, without which the server refuses the
//! table. Invariant: keys are built in an order that makes the target's `SHOW CREATE TABLE` the
//! source's, so a key that stands before one that is kept, in the group that the server sorts it
//! into, is kept as well.

use super::Description;
use super::sql::{Definition, Piece, Scan, Token, first_name};
use crate::table::Table;

/// A change of schema that is left for later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Whether it adds foreign keys, which come when all tables have their rows.
    pub is_foreign: bool,
    /// The names of the keys that it adds.
    pub names: Vec<String>,
    /// What follows `ALTER TABLE name `.
    pub change: String,
}

/// A table to make now, and what to do to it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The table without what waits.
    pub definition: Definition,
    /// In the order in which they are to be done.
    pub steps: Vec<Step>,
}

/// Splits a definition. Foreign keys always wait: their tables may not be there yet.
pub fn split(
    source: &Description,
    definition: &Definition,
    defers_keys: bool,
    table: &Table,
) -> Split {
    let kept = kept(source, definition, defers_keys, table);
    let mut now = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    let mut foreign = Vec::new();
    // A server sorts FULLTEXT keys behind all others.
    let (full, rest): (Vec<_>, Vec<_>) = (definition.pieces.iter().enumerate())
        .partition(|(_, piece)| Piece::of(piece) == Piece::FullText);
    for (at, piece) in rest.into_iter().chain(full) {
        let kind = Piece::of(piece);
        match kind {
            Piece::Foreign => foreign.push(piece.clone()),
            _ if kept[at] => now.push((at, piece.clone())),
            _ => add(&mut steps, kind, piece),
        }
    }
    now.sort_by_key(|(at, _)| *at);
    if !foreign.is_empty() {
        let adds: Vec<String> = foreign.iter().map(|piece| format!("ADD {piece}")).collect();
        steps.push(Step {
            is_foreign: true,
            names: foreign
                .iter()
                .filter_map(|piece| first_name(piece))
                .collect(),
            change: adds.join(", "),
        });
    }
    Split {
        definition: Definition {
            head: definition.head.clone(),
            pieces: now.into_iter().map(|(_, piece)| piece).collect(),
            tail: definition.tail.clone(),
        },
        steps,
    }
}

/// Adds a key to the step before it, if a server can build both at once: it reads the rows once
/// for all B-trees of an ALTER, but builds one FULLTEXT key at a time and SPATIAL ones by
/// themselves.
fn add(steps: &mut Vec<Step>, kind: Piece, piece: &str) {
    let alone = matches!(kind, Piece::FullText | Piece::Spatial | Piece::Vector);
    let name = first_name(piece).unwrap_or_default();
    let change = format!("ADD {piece}");
    match steps.last_mut().filter(|step| !alone && !is_alone(step)) {
        Some(step) => {
            step.names.push(name);
            step.change = format!("{}, {change}", step.change);
        }
        None => steps.push(Step {
            is_foreign: false,
            names: vec![name],
            change,
        }),
    }
}

/// How the steps of keys that are built by themselves begin.
const ALONE: [&str; 3] = ["ADD FULLTEXT", "ADD SPATIAL", "ADD VECTOR"];

/// Whether a step's key is one of those.
fn is_alone(step: &Step) -> bool {
    ALONE.iter().any(|start| step.change.starts_with(start))
}

/// For each piece whether it is made with the table.
fn kept(
    source: &Description,
    definition: &Definition,
    defers_keys: bool,
    table: &Table,
) -> Vec<bool> {
    let kinds: Vec<Piece> = definition
        .pieces
        .iter()
        .map(|piece| Piece::of(piece))
        .collect();
    let is_key = |kind: Piece| {
        matches!(
            kind,
            Piece::Unique | Piece::Plain | Piece::FullText | Piece::Spatial | Piece::Vector
        )
    };
    let mut kept: Vec<bool> = (kinds.iter())
        .map(|kind| !defers_keys || !is_key(*kind))
        .collect();
    let names: Vec<Option<String>> = (definition.pieces.iter())
        .map(|piece| first_name(piece))
        .collect();
    let row_key = table.key.as_ref().map(|key| key.name.as_str());
    for (at, kind) in kinds.iter().enumerate() {
        if *kind == Piece::Unique && names[at].as_deref() == row_key {
            kept[at] = true;
        }
    }
    if let Some(counter) = &source.auto_increment {
        let begins = |at: &usize| {
            let kind = kinds[*at];
            let first = key_columns(&definition.pieces[*at]).into_iter().next();
            (is_key(kind) || kind == Piece::Primary) && first.as_ref() == Some(counter)
        };
        let found: Vec<usize> = (0..kinds.len()).filter(begins).collect();
        if !found.iter().any(|at| kept[*at])
            && let Some(at) = found.first()
        {
            kept[*at] = true;
        }
    }
    keep_those_before(definition, &kinds, table, &mut kept);
    kept
}

/// A server sorts keys into groups: unique ones that cannot be NULL, other unique ones, the rest,
/// FULLTEXT. In a group they stand in the order in which they were added.
fn keep_those_before(definition: &Definition, kinds: &[Piece], table: &Table, kept: &mut [bool]) {
    let group = |at: usize| match kinds[at] {
        Piece::Unique => {
            let columns = key_columns(&definition.pieces[at]);
            let is_nullable = |name: &String| {
                let found = table.columns.iter().find(|column| column.name == *name);
                found.is_none_or(|column| column.is_nullable)
            };
            Some(u8::from(columns.iter().any(is_nullable)))
        }
        Piece::Plain | Piece::Spatial | Piece::Vector => Some(2),
        Piece::FullText => Some(3),
        _ => None,
    };
    for last in (0..kinds.len()).rev() {
        if kept[last] && group(last).is_some() {
            let before = kept.iter_mut().enumerate().take(last);
            before.for_each(|(at, kept)| *kept |= group(at) == group(last));
        }
    }
}

/// The columns of a key's piece, in order; expressions have none.
fn key_columns(piece: &str) -> Vec<String> {
    let mut depth = 0;
    let mut columns = Vec::new();
    for (token, part) in Scan::new(piece) {
        match (token, part) {
            (Token::Plain, "(") => depth += 1,
            (Token::Plain, ")") => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            (Token::Name, name) if depth == 1 => columns.extend(first_name(name)),
            _ => {}
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Key, Kind, TableName};
    use waggle_server::Flavour;

    fn given(create: &str, auto_increment: Option<&str>, key: Option<&str>) -> Split {
        let name = TableName {
            schema: "d".into(),
            name: "t".into(),
        };
        let definition = Definition::parse(create).unwrap();
        let column = |piece: &String| Column {
            name: first_name(piece).unwrap(),
            kind: Kind::Integer,
            column_type: "int".into(),
            charset: None,
            collation: None,
            is_nullable: !piece.contains("NOT NULL"),
            is_generated: false,
            is_invisible: false,
        };
        let is_column = |piece: &&String| Piece::of(piece) == Piece::Column;
        let description = Description {
            name: name.clone(),
            flavour: Flavour::MySql,
            columns: definition
                .pieces
                .iter()
                .filter(is_column)
                .map(column)
                .collect(),
            unknown: Vec::new(),
            auto_increment: auto_increment.map(str::to_owned),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            children: Vec::new(),
            triggers: Vec::new(),
            engine: "InnoDB".into(),
            table_type: "BASE TABLE".into(),
            rows_estimate: 0,
            data_bytes: 0,
            index_bytes: 0,
            create: create.into(),
        };
        let mut table = description.table(0, name);
        table.key = key.map(|name| Key {
            name: name.into(),
            columns: vec![0],
        });
        split(&description, &definition, true, &table)
    }

    #[test]
    fn secondary_keys_wait_and_foreign_keys_come_last() {
        let made = given(
            "CREATE TABLE `t` (\n`a` int NOT NULL,\n`b` int,\nPRIMARY KEY (`a`),\n\
             UNIQUE KEY `u` (`b`),\nKEY `k` (`b`,`a`),\nKEY `l` (`a`),\nFULLTEXT KEY `f` (`b`),\n\
             CONSTRAINT `c` FOREIGN KEY (`b`) REFERENCES `p` (`a`)\n) ENGINE=InnoDB",
            None,
            Some("PRIMARY"),
        );
        assert_eq!(made.definition.pieces.len(), 3);
        let names: Vec<_> = made.steps.iter().map(|step| step.names.join(",")).collect();
        assert_eq!(names, ["u,k,l", "f", "c"]);
        assert!(made.steps[2].is_foreign);
        assert_eq!(
            made.steps[0].change,
            "ADD UNIQUE KEY `u` (`b`), ADD KEY `k` (`b`,`a`), ADD KEY `l` (`a`)"
        );
    }

    #[test]
    fn what_the_counter_needs_stays_with_what_stands_before_it() {
        let made = given(
            "CREATE TABLE `t` (\n`a` int NOT NULL,\n`n` int NOT NULL AUTO_INCREMENT,\n\
             PRIMARY KEY (`a`),\nKEY `k` (`a`,`n`),\nKEY `l` (`n`),\nKEY `m` (`a`)\n) X",
            Some("n"),
            Some("PRIMARY"),
        );
        let names: Vec<_> = made.steps.iter().map(|step| step.names.join(",")).collect();
        assert_eq!(names, ["m"]);
        assert_eq!(made.definition.pieces.len(), 5);
    }

    #[test]
    fn a_key_that_names_the_rows_stays() {
        let made = given(
            "CREATE TABLE `t` (\n`a` int NOT NULL,\n`b` int,\nUNIQUE KEY `u` (`a`),\n\
             UNIQUE KEY `v` (`b`),\nSPATIAL KEY `s` (`b`),\nKEY `k` (`b`)\n) X",
            None,
            Some("u"),
        );
        assert!(
            made.definition
                .pieces
                .iter()
                .any(|piece| piece.contains("`u`"))
        );
        let names: Vec<_> = made.steps.iter().map(|step| step.names.join(",")).collect();
        assert_eq!(names, ["v", "s", "k"]);
    }
}
