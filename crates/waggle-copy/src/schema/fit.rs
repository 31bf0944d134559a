//! Can a table that is there take the source's rows exactly as they are?
//!
//! Asked of tables that somebody made at the target, and of those just made: a server may change
//! a definition without an error. Invariant: what cannot hold every value of the source's column,
//! or would hold it as something else, is named.

use super::{Description, IndexKind};
use crate::table::{Column, Kind, Table};

/// What would not fit, in words; empty when all does.
pub fn misfits(source: &Table, target: &Description) -> Vec<String> {
    let mut found = Vec::new();
    if target.engine != "InnoDB" {
        found.push(format!(
            "its engine is {}; rows and progress are stored in one transaction, which takes InnoDB",
            target.engine
        ));
    }
    for column in &source.columns {
        match target.column(&column.name).map(|at| &target.columns[at]) {
            None if column.is_generated => {}
            None => found.push(format!("it has no column {}", column.name)),
            Some(there) => found.extend(misfit(column, there)),
        }
    }
    for column in &target.columns {
        let known = |own: &Column| own.name.to_lowercase() == column.name.to_lowercase();
        if !column.is_generated && !source.columns.iter().any(known) {
            found.push(format!("its column {} is not the source's", column.name));
        }
    }
    found.extend(key_misfit(source, target));
    found.extend(stricter_keys(source, target));
    found
}

/// Unique keys at the target that the source has not, or that take more values for equal: a change
/// that is applied would take another row away in silence.
fn stricter_keys(source: &Table, target: &Description) -> Vec<String> {
    let known: Vec<String> = source.definition.lines().filter_map(unique_key).collect();
    let is_unique = |kind| matches!(kind, IndexKind::Primary | IndexKind::Unique);
    let mut found = Vec::new();
    for index in target.indexes.iter().filter(|index| is_unique(index.kind)) {
        let parts: Option<Vec<String>> = index.parts.iter().map(part).collect();
        // What an expression's key compares, only its text tells, which the servers write anew.
        let Some(parts) = parts else { continue };
        if !known.contains(&parts.join(",")) {
            found.push(format!(
                "its unique key {} ({}) is not the source's",
                index.name,
                parts.join(", ")
            ));
        }
        let names = index.parts.iter().filter_map(|part| part.column.as_deref());
        for name in names {
            let is_it = |column: &&Column| column.name.eq_ignore_ascii_case(name);
            let here = source.columns.iter().find(is_it);
            let there = target.columns.iter().find(is_it);
            let collations = here
                .and_then(|c| c.collation.as_deref())
                .zip(there.and_then(|c| c.collation.as_deref()));
            if let Some((from, to)) = collations
                && sensitivity(from) != sensitivity(to)
            {
                found.push(format!(
                    "column {name} of its unique key {} has collation {to}, the source's {from}",
                    index.name
                ));
            }
        }
    }
    found
}

/// A part of an index as [`unique_key`] writes it.
fn part(part: &super::IndexPart) -> Option<String> {
    let name = part.column.as_ref()?.to_lowercase().replace('`', "");
    Some(match part.prefix {
        Some(prefix) => format!("{name}({prefix})"),
        None => name,
    })
}

/// The columns of the primary or unique key that a line of `SHOW CREATE TABLE` defines, without
/// any back quotes.
fn unique_key(line: &str) -> Option<String> {
    let line = line.trim();
    let rest = match line.strip_prefix("UNIQUE KEY `") {
        Some(named) => named.split_once("` (")?.1,
        None => line.strip_prefix("PRIMARY KEY (")?,
    };
    let mut depth = 1;
    let mut is_quoted = false;
    let mut columns = String::new();
    for character in rest.chars() {
        match character {
            '`' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if character != '`' {
            columns.push(character);
        }
    }
    Some(columns.replace(" DESC", "").to_lowercase())
}

/// Whether a collation compares bytes, and whether it tells cases apart.
fn sensitivity(collation: &str) -> (bool, bool) {
    let is_bytes = collation == "binary" || collation.ends_with("_bin");
    (is_bytes, !is_bytes && collation.ends_with("_ci"))
}

/// The copy finds its rows at the target by the source's key.
fn key_misfit(source: &Table, target: &Description) -> Option<String> {
    let key = source.key.as_ref()?;
    let lower = |name: &str| name.to_lowercase();
    let names: Vec<String> = source
        .key_columns()
        .map(|column| lower(&column.name))
        .collect();
    let is_same = |index: &super::Index| {
        matches!(index.kind, IndexKind::Primary | IndexKind::Unique)
            && index.parts.iter().all(|part| part.prefix.is_none())
            && (index.parts.iter())
                .map(|part| part.column.as_deref().map(lower))
                .eq(names.iter().cloned().map(Some))
    };
    let missing = !target.indexes.iter().any(is_same);
    missing.then(|| format!("it has no unique key of ({})", names.join(", ")) + &of(&key.name))
}

fn of(name: &str) -> String {
    format!(", which the source has as {name}")
}

/// Whether a column holds as text what is JSON at the source.
pub fn is_json_as_text(source: &Column, target: &Column) -> bool {
    source.kind == Kind::Json && plain_type(target) == "longtext"
}

fn misfit(source: &Column, target: &Column) -> Option<String> {
    let name = &source.name;
    if source.is_generated != target.is_generated {
        return Some(format!("column {name} is generated on one side only"));
    }
    // What a server computes need not be of the same type for the rows to be the same.
    if source.is_generated {
        return None;
    }
    if source.is_nullable && !target.is_nullable {
        return Some(format!("column {name} takes no NULL"));
    }
    let (from, to) = (plain_type(source), plain_type(target));
    let json_as_text = is_json_as_text(source, target);
    if from != to && !json_as_text {
        return Some(format!("column {name} is {to}, the source's is {from}"));
    }
    if !json_as_text && source.charset != target.charset {
        let shown = |charset: &Option<String>| charset.clone().unwrap_or_default();
        return Some(format!(
            "column {name} is in {}, the source's in {}",
            shown(&target.charset),
            shown(&source.charset)
        ));
    }
    None
}

/// A column's type without what only says how it is shown or stored: `int(11) zerofill` is an
/// `int unsigned`, and COMPRESSED is how MariaDB keeps it.
fn plain_type(column: &Column) -> String {
    let mut text = column.column_type.clone();
    if let Some(at) = text.find(" /*") {
        text.truncate(at);
    }
    let lower = match column.kind {
        Kind::Enum | Kind::Set => return text,
        _ => text.to_lowercase().replace(" zerofill", ""),
    };
    match column.kind {
        Kind::Integer | Kind::Year => match (lower.find('('), lower.find(')')) {
            (Some(open), Some(close)) if open < close => {
                format!("{}{}", &lower[..open], &lower[close + 1..])
            }
            _ => lower,
        },
        Kind::Geometry if lower == "geomcollection" => "geometrycollection".to_owned(),
        _ => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: Kind, column_type: &str) -> Column {
        Column {
            name: "c".into(),
            kind,
            column_type: column_type.into(),
            charset: None,
            collation: None,
            is_nullable: false,
            is_generated: false,
            is_invisible: false,
        }
    }

    #[test]
    fn the_columns_of_a_unique_key_are_read_from_its_line() {
        let line = "  UNIQUE KEY `u (x)` (`a`,`B`(10),`c` DESC),";
        assert_eq!(unique_key(line).as_deref(), Some("a,b(10),c"));
        let line = "  PRIMARY KEY (`id`)";
        assert_eq!(unique_key(line).as_deref(), Some("id"));
        assert_eq!(unique_key("  KEY `k` (`k`),"), None);
    }

    #[test]
    fn display_widths_are_no_difference() {
        let wide = column(Kind::Integer, "int(11) unsigned zerofill");
        let plain = column(Kind::Integer, "int unsigned");
        assert_eq!(misfit(&wide, &plain), None);
        let signed = column(Kind::Integer, "int");
        assert!(misfit(&plain, &signed).unwrap().contains("int unsigned"));
    }

    #[test]
    fn what_holds_less_is_named() {
        let long = column(Kind::Text, "varchar(20)");
        let short = column(Kind::Text, "varchar(10)");
        assert!(misfit(&long, &short).is_some());
        let mut nullable = long.clone();
        nullable.is_nullable = true;
        assert!(misfit(&nullable, &long).unwrap().contains("NULL"));
        let mut latin = long.clone();
        latin.charset = Some("latin1".into());
        assert!(misfit(&latin, &long).unwrap().contains("latin1"));
        assert_eq!(
            misfit(&column(Kind::Json, "json"), &column(Kind::Text, "longtext")),
            None
        );
        let members = (
            column(Kind::Enum, "enum('A')"),
            column(Kind::Enum, "enum('a')"),
        );
        assert!(misfit(&members.0, &members.1).is_some());
    }
}
