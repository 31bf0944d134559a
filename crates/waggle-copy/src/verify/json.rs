//! A JSON value as an expression that makes the same value again, types included.
//!
//! Its text alone would not: it makes a DOUBLE of a DECIMAL, and a string of a DATE. So the text
//! is parsed by the target, and every scalar whose type the source says is another is set anew by
//! its path. Neighbour: `repair`. Invariant: what a type cannot be given here is left to the
//! comparison of digests, which follows.

use serde_json::Value;

use super::side::Half;
use crate::error::CopyError;
use crate::schema::sql;
use crate::table::Column;

/// Values asked for in one statement.
const AT_ONCE: usize = 200;

/// The expression for the JSON of a row; `hex` is its text, `place` finds the row.
pub(super) fn typed(
    source: &mut Half,
    column: &Column,
    place: &str,
    hex: String,
) -> Result<String, CopyError> {
    let plain = format!("CONVERT(x'{hex}' USING utf8mb4)");
    let mut paths = Vec::new();
    if let Some(value) = parse(&hex) {
        scalars(&value, &mut "$".to_owned(), &mut paths);
    }
    let mut set = String::new();
    for some in paths.chunks(AT_ONCE) {
        let name = format!("t.{}", column.quoted());
        let asked: Vec<String> = (some.iter())
            .map(|path| {
                let value = format!("JSON_EXTRACT({name},{})", sql::string(path));
                format!("JSON_TYPE({value}), JSON_UNQUOTE({value})")
            })
            .collect();
        let sql = format!(
            "SELECT {} FROM {} t WHERE {place}",
            asked.join(", "),
            source.table()
        );
        let rows = source.connection.query_rows(sql.as_bytes());
        let rows = rows.map_err(CopyError::source("reading a JSON's types"))?;
        let row = rows.into_iter().next().unwrap_or_default();
        let text = |at: usize| {
            let value = row.get(at).cloned().flatten().unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        for (at, path) in some.iter().enumerate() {
            if let Some(value) = expression(&text(2 * at), &text(2 * at + 1)) {
                set.push_str(&format!(", {}, {value}", sql::string(path)));
            }
        }
    }
    Ok(match set.is_empty() {
        true => plain,
        false => format!("JSON_SET(CAST({plain} AS JSON){set})"),
    })
}

fn parse(hex: &str) -> Option<Value> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
    serde_json::from_slice(&bytes?).ok()
}

/// The paths of all numbers and strings.
fn scalars(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Number(_) | Value::String(_) => found.push(path.clone()),
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                scalars(value, path, found);
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                path.push('.');
                path.push_str(&Value::String(name.clone()).to_string());
                scalars(value, path, found);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// A value of a type that its text would not get; `None` where the text is enough.
fn expression(json_type: &str, text: &str) -> Option<String> {
    let quoted = sql::string(text);
    Some(match json_type {
        "DECIMAL" => {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let scale = text
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            format!("CAST({quoted} AS DECIMAL({},{scale}))", digits.max(1))
        }
        // Parsing a JSON's text is not as exact as reading a DOUBLE.
        "DOUBLE" => format!("CAST({quoted} AS DOUBLE)"),
        "UNSIGNED INTEGER" => format!("CAST({quoted} AS UNSIGNED)"),
        "DATE" => format!("CAST({quoted} AS DATE)"),
        "TIME" => format!("CAST({quoted} AS TIME(6))"),
        "DATETIME" | "TIMESTAMP" => format!("CAST({quoted} AS DATETIME(6))"),
        "BLOB" | "BIT" | "OPAQUE" => {
            let data = text.strip_prefix("base64:")?.split_once(':')?.1;
            format!("FROM_BASE64({})", sql::string(data))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scalar_has_its_path() {
        let value = serde_json::json!({"a": [1, {"b \"c": "x"}], "d": null, "e": true});
        let mut found = Vec::new();
        scalars(&value, &mut "$".into(), &mut found);
        assert_eq!(found, [r#"$."a"[0]"#, r#"$."a"[1]."b \"c""#]);
    }

    #[test]
    fn types_that_text_loses_are_given_again() {
        assert_eq!(
            expression("DECIMAL", "-1.50").as_deref(),
            Some("CAST('-1.50' AS DECIMAL(3,2))")
        );
        assert_eq!(
            expression("BLOB", "base64:type15:AP8=").as_deref(),
            Some("FROM_BASE64('AP8=')")
        );
        assert_eq!(expression("STRING", "base64:type15:AP8="), None);
        assert_eq!(expression("INTEGER", "5"), None);
    }
}
