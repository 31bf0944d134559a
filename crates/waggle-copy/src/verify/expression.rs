//! What a column's value is, exactly, as one expression that both servers compute alike.
//!
//! Each kind has its own: the plain text of a FLOAT has six digits, that of a JSON says nothing
//! of its numbers' types, a collation equates what bytes do not. A row's pieces carry their
//! lengths and mark NULL, so that no two different rows read the same. Neighbours: `side` puts
//! the expressions into statements. Invariants: nothing here is used by what copies; a piece is
//! NULL only when the server could not compute it, which is counted, never taken for a value.

use crate::table::{Column, Kind};

/// A value above this many bytes goes into the row's digest as a digest of its own: a server's
/// `CONCAT` ends at `max_allowed_packet`, and gives NULL.
const JOINED_BYTES_MAX: u64 = 1024;

/// The piece of a row's digest for a column, over a table that is called `t`. `has_types` asks
/// for the types inside of a JSON; a text on the other side has none.
pub(super) fn piece(column: &Column, has_types: bool) -> String {
    let name = format!("t.{}", column.quoted());
    let value = match column.kind {
        Kind::Json => return json(&name, has_types),
        Kind::Geometry | Kind::Vector => return digested(&name),
        Kind::Text | Kind::Blob | Kind::Binary if is_long(column) => return digested(&name),
        Kind::Text | Kind::Blob | Kind::Binary => format!("CAST({name} AS BINARY)"),
        // The error value and no member are the empty text as well; a member may be so too.
        Kind::Enum | Kind::Set => format!("IF({name}+0=0,'0',CONCAT('=',CAST({name} AS BINARY)))"),
        Kind::Integer | Kind::Bit if is_unsigned(column) => format!("CAST({name} AS UNSIGNED)"),
        Kind::Integer | Kind::Bit => format!("CAST({name} AS SIGNED)"),
        // ZEROFILL is how a number is shown.
        Kind::Decimal if column.column_type.contains("zerofill") => format!("({name}+0)"),
        Kind::Float | Kind::Double => double(&name),
        Kind::Decimal => name.clone(),
        Kind::Year | Kind::Date | Kind::Time | Kind::DateTime | Kind::Timestamp => {
            format!("CAST({name} AS CHAR)")
        }
        Kind::Address => format!("CAST({name} AS CHAR)"),
    };
    format!("IF({name} IS NULL,'n',CONCAT(LENGTH({value}),':',{value}))")
}

/// The bits of a DOUBLE, to which each FLOAT converts exactly, as text.
///
/// The shortest text that reads back as the same bits takes up to 24 characters, and MySQL cuts
/// what an expression makes at 22, in silence; and the families write small numbers differently.
/// So the sign stands apart, and a small number is multiplied by 2^1000, a tiny one by 2^500 more,
/// which is exact: then 22 characters are enough, and both write an exponent. `+0e0` instead of
/// CAST would make a 0 of -0, and a comparison with 0 takes them for equal.
fn double(name: &str) -> String {
    let value = format!("CAST({name} AS DOUBLE)");
    let size = format!("ABS({value})");
    let small = format!("{size}*1.0715086071862673e301");
    format!(
        "CONCAT(IF(LEFT({value},1)='-','-','+'),CASE WHEN {size}<1e-150 \
         THEN CONCAT('t',{small}*3.273390607896142e150) \
         WHEN {size}<1e-3 THEN CONCAT('s',{small}) ELSE CONCAT({size}) END)"
    )
}

fn is_unsigned(column: &Column) -> bool {
    column.kind == Kind::Bit || column.is_unsigned()
}

/// Whether a value may be long.
fn is_long(column: &Column) -> bool {
    let text = column.column_type.as_str();
    let limit = |text: &str| -> Option<u64> {
        let (_, rest) = text.split_once('(')?;
        rest.split_once(')')?.0.parse().ok()
    };
    match limit(text) {
        // Characters of up to four bytes.
        Some(limit) => limit.saturating_mul(4) > JOINED_BYTES_MAX,
        None => !text.starts_with("tiny"),
    }
}

fn digested(name: &str) -> String {
    format!("IF({name} IS NULL,'n',CONCAT(LENGTH({name}),'#',SHA2({name},256)))")
}

/// A JSON's text, which has its structure and its numbers' digits, and in the order of that
/// structure the type of each value in it: a 1.5 may be a DOUBLE or a DECIMAL, a string may be
/// one or a DATE.
fn json(name: &str, has_types: bool) -> String {
    let text = format!("CAST({name} AS CHAR)");
    let text = format!("CONCAT(LENGTH({text}),'#',SHA2({text},256))");
    if !has_types {
        return format!("IF({name} IS NULL,'n',{text})");
    }
    let types = |path: &str| {
        format!(
            "COALESCE((SELECT SHA2(GROUP_CONCAT(COALESCE(JSON_TYPE(x.v),'-') ORDER BY x.n),256) \
             FROM JSON_TABLE({name},'{path}' COLUMNS (n FOR ORDINALITY, v JSON PATH '$')) x),'-')"
        )
    };
    let (members, elements) = (types("$**.*"), types("$**[*]"));
    format!(
        "IF({name} IS NULL,'n',CONCAT({text},':',JSON_TYPE({name}),':',{members},':',{elements}))"
    )
}

/// A row's digest out of its pieces.
pub(super) fn digest<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    let pieces: Vec<&str> = pieces.collect();
    format!("SHA2(CONCAT({}),256)", pieces.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: Kind, column_type: &str) -> Column {
        Column {
            name: "c`".into(),
            kind,
            column_type: column_type.into(),
            charset: None,
            collation: None,
            is_nullable: true,
            is_generated: false,
            is_invisible: false,
        }
    }

    #[test]
    fn every_kind_has_its_expression() {
        let of = |kind, text: &str| piece(&column(kind, text), true);
        assert!(of(Kind::Float, "float(7,4)").contains("ABS(CAST(t.`c``` AS DOUBLE))"));
        assert!(of(Kind::Integer, "bigint unsigned").contains("AS UNSIGNED"));
        assert!(of(Kind::Integer, "bigint").contains("AS SIGNED"));
        assert!(of(Kind::Bit, "bit(64)").contains("AS UNSIGNED"));
        assert!(of(Kind::Text, "varchar(255)").contains("AS BINARY"));
        assert!(of(Kind::Text, "varchar(257)").contains("SHA2"));
        assert!(of(Kind::Text, "tinytext").contains("AS BINARY"));
        assert!(of(Kind::Set, "set('a','')").contains("+0=0,'0'"));
        assert!(of(Kind::Blob, "longblob").contains("SHA2"));
        assert!(of(Kind::Json, "json").contains("JSON_TYPE"));
        assert!(!piece(&column(Kind::Json, "json"), false).contains("JSON_TYPE"));
    }
}
