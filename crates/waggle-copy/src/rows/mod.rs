//! Rows of a result as lines of LOAD DATA, without building a value.
//!
//! A row is walked once: each value's bytes go from the receive buffer into the send buffer, with
//! a backslash before the three bytes that mean something to LOAD DATA. Neighbours: `ingest` asks
//! for lines and sends them; `range` says which rows. Invariant: what the target reads is, byte
//! for byte, what the source sent; kinds that lose something on the way as text are selected or
//! loaded through an expression that does not.

mod encode;
mod escape;

use crate::json;
use crate::range;
use crate::range::Range;
use crate::table::{Column, Kind, Table, quote};

pub use encode::Encoder;
pub use escape::escape;

/// The SELECT for the rows of a range that the target does not have: the written columns, then
/// those of the key that are not among them as they are, then a mark of rows whose JSON is more
/// than its text, if those are looked for.
pub fn select(table: &Table, range: &Range) -> String {
    let mut columns: Vec<String> = table
        .written()
        .map(|(_, column)| selected(column))
        .collect();
    columns.extend(key_places(table).added);
    if table.marks_json() {
        columns.push(json::suspect(table));
    }
    let mut sql = format!(
        "SELECT {}{} FROM {}",
        // MySQL has no query cache to keep out of any more.
        if table.is_mariadb {
            "SQL_NO_CACHE "
        } else {
            ""
        },
        columns.join(", "),
        table.source.quoted()
    );
    let Some(key) = &table.key else {
        return sql;
    };
    sql.push_str(&format!(" FORCE INDEX ({})", quote(&key.name)));
    let above = range.resume().map(|bound| range::above(table, bound));
    let up_to = range.high.as_ref().map(|bound| range::up_to(table, bound));
    let conditions: Vec<String> = [above, up_to].into_iter().flatten().collect();
    if !conditions.is_empty() {
        sql.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    sql.push_str(&format!(" ORDER BY {}", range::order(table)));
    sql
}

/// The LOAD DATA that takes the lines of [`Encoder`].
pub fn load(table: &Table) -> String {
    let mut columns = Vec::new();
    let mut set = Vec::new();
    for (index, column) in table.written() {
        let name = column.quoted();
        if matches!(column.kind, Kind::Json | Kind::Address) {
            // The server takes these from text of a character set only, and the lines are bytes.
            columns.push(format!("@c{index}"));
            set.push(format!("{name} = CONVERT(@c{index} USING utf8mb4)"));
        } else if is_set_by_number(column) {
            columns.push(format!("@c{index}"));
            set.push(format!("{name} = CAST(@c{index} AS UNSIGNED)"));
        } else {
            columns.push(name);
        }
    }
    let mut sql = format!(
        "LOAD DATA LOCAL INFILE 'waggle' INTO TABLE {} CHARACTER SET binary \
         FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ({})",
        table.target.quoted(),
        columns.join(", ")
    );
    if !set.is_empty() {
        sql.push_str(&format!(" SET {}", set.join(", ")));
    }
    sql
}

/// How a column is selected, so that its text is exact.
fn selected(column: &Column) -> String {
    let name = column.quoted();
    match column.kind {
        // As text a FLOAT has six digits, and a DOUBLE(m, d) those of its type.
        Kind::Float => format!("CAST({name} AS DOUBLE)"),
        Kind::Double if column.column_type.contains('(') => format!("CAST({name} AS DOUBLE)"),
        // The error value reads as an empty text, which LOAD DATA would take for that member. A
        // text that is no member is refused, so that the row is named and not changed in silence.
        Kind::Enum if has_empty_member(&column.column_type) => {
            format!("IF({name}+0=0,'waggle: no member',{name})")
        }
        _ if is_set_by_number(column) => range::number(column),
        _ => name,
    }
}

/// Of a SET with an empty member, that member alone reads like no member at all.
fn is_set_by_number(column: &Column) -> bool {
    column.kind == Kind::Set && has_empty_member(&column.column_type)
}

fn has_empty_member(column_type: &str) -> bool {
    ["('',", ",'',", ",'')", "('')"]
        .iter()
        .any(|part| column_type.contains(part))
}

/// Where the key's values are in a row of [`select`].
struct KeyPlaces {
    places: Vec<usize>,
    /// Expressions after the written columns.
    added: Vec<String>,
}

fn key_places(table: &Table) -> KeyPlaces {
    let written: Vec<usize> = table.written().map(|(index, _)| index).collect();
    let (mut places, mut added) = (Vec::new(), Vec::new());
    let expressions = range::key_expressions(table);
    let key = table.key.iter().flat_map(|key| &key.columns);
    for (index, expression) in key.zip(expressions) {
        let same = written.iter().position(|written| written == index);
        match same.filter(|_| expression == selected(&table.columns[*index])) {
            Some(place) => places.push(place),
            None => {
                places.push(written.len() + added.len());
                added.push(expression);
            }
        }
    }
    KeyPlaces { places, added }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::KeyValue;
    use crate::table::tests::{column, table};

    #[test]
    fn statements_name_what_they_treat() {
        let mut table = table(&[
            column("id", Kind::Integer),
            column("e", Kind::Enum),
            column("f", Kind::Float),
            column("j", Kind::Json),
            column("g`", Kind::Blob),
        ]);
        table.columns[4].is_generated = true;
        table.key.as_mut().unwrap().columns = vec![0, 1];
        let range = Range {
            table: 0,
            number: 0,
            low: Some(KeyValue(vec![b"7".to_vec()])),
            high: Some(KeyValue(vec![b"9".to_vec()])),
            frontier: Some(KeyValue(vec![b"8".to_vec(), b"2".to_vec()])),
            is_done: false,
            rows: 0,
            bytes: 0,
        };
        assert_eq!(
            select(&table, &range),
            "SELECT `id`, `e`, CAST(`f` AS DOUBLE), `j`, `e` + 0 FROM `s`.`t` FORCE \
             INDEX (`PRIMARY`) WHERE ((`id` > 8) OR (`id` = 8 AND `e` + 0 > 2)) AND ((`id` <= 9)) \
             ORDER BY `id`, `e`"
        );
        assert_eq!(
            load(&table),
            "LOAD DATA LOCAL INFILE 'waggle' INTO TABLE `s`.`t` CHARACTER SET binary FIELDS \
             TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' (`id`, `e`, `f`, @c3) \
             SET `j` = CONVERT(@c3 USING utf8mb4)"
        );
        assert_eq!(key_places(&table).places, [0, 4]);
    }

    #[test]
    fn a_set_whose_empty_member_reads_like_none_goes_by_its_number() {
        let mut table = table(&[column("id", Kind::Integer), column("s", Kind::Set)]);
        let range = Range {
            table: 0,
            number: 0,
            low: None,
            high: None,
            frontier: None,
            is_done: false,
            rows: 0,
            bytes: 0,
        };
        table.columns[1].column_type = "set('a','b')".into();
        assert!(select(&table, &range).starts_with("SELECT `id`, `s` FROM"));
        table.columns[1].column_type = "set('a','')".into();
        assert!(
            select(&table, &range).starts_with("SELECT `id`, (`s` & 18446744073709551615) FROM")
        );
        assert!(load(&table).ends_with("(`id`, @c1) SET `s` = CAST(@c1 AS UNSIGNED)"));
        // It is the key's form as well, and sent once.
        table.key.as_mut().unwrap().columns = vec![1];
        assert_eq!(key_places(&table).places, [1]);
    }
}
