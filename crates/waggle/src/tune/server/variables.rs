//! Global variables of a live server: read, set, and read back.
//!
//! Invariant: what a server answers to `SET GLOBAL` is not believed; the value is read back, as
//! servers round and clip what they take.

use anyhow::Context;
use waggle_stats::tune::{amount, same_value};
use waggle_wire::{Connection, Error};

/// "Variable is a read only variable": it needs a restart.
const ER_READ_ONLY_VARIABLE: u16 = 1238;

/// What became of an attempt to set variables.
#[derive(Debug, PartialEq)]
pub(super) enum Setting {
    /// All have the values asked for, read back.
    Done,
    /// This one can only be set by a restart.
    NeedsRestart(String),
    /// The server did not take a value, in words.
    Refused(String),
}

/// The name as SQL has it.
fn sql_name(name: &str) -> String {
    name.replace('-', "_")
}

/// A value as the right side of `SET GLOBAL`: numbers bare, sizes in bytes, all else quoted.
fn literal(value: &str) -> String {
    let text = value.trim();
    let is_word = matches!(
        text.to_ascii_lowercase().as_str(),
        "on" | "off" | "true" | "false" | "yes" | "no"
    );
    match amount(text) {
        Some(_) if is_word => quoted(text),
        Some(number) if number.fract() == 0.0 && number.abs() < 9e15 => format!("{number:.0}"),
        Some(number) => number.to_string(),
        None if text.eq_ignore_ascii_case("default") => "DEFAULT".to_owned(),
        None => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        if matches!(c, '\'' | '\\') {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted.push('\'');
    quoted
}

/// A value as an option of the server's command line: sizes in bytes, since not every option takes
/// suffixes.
pub(in crate::tune) fn option(value: &str) -> String {
    match amount(value) {
        Some(number) if value.trim().ends_with(|c: char| "kKmMgGtT".contains(c)) => {
            format!("{number:.0}")
        }
        _ => value.trim().to_owned(),
    }
}

/// A global variable as the server prints it; `None`: it is NULL.
///
/// # Errors
/// Those of the query; one with a number says that there is no such global variable.
pub(super) fn read(admin: &mut Connection, name: &str) -> Result<Option<String>, Error> {
    let sql = format!("SELECT @@GLOBAL.{}", sql_name(name));
    let rows = admin.query_rows(sql.as_bytes())?;
    let value = rows
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().next());
    Ok(value
        .flatten()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Sets variables, and reads all of them back.
///
/// # Errors
/// The connection was lost.
pub(super) fn set(
    admin: &mut Connection,
    values: &[(String, Option<String>)],
) -> anyhow::Result<Setting> {
    // Twice, as one variable may be the limit of another.
    for attempt in 0..2 {
        for (name, value) in values {
            let value = value
                .as_deref()
                .map_or_else(|| "DEFAULT".to_owned(), literal);
            let sql = format!("SET GLOBAL {} = {value}", sql_name(name));
            match admin.query(sql.as_bytes()) {
                Ok(_) => {}
                Err(error) if error.errno() == Some(ER_READ_ONLY_VARIABLE) => {
                    return Ok(Setting::NeedsRestart(name.clone()));
                }
                Err(error) if error.errno().is_some() && admin.is_usable() => {
                    if attempt == 0 && values.len() > 1 {
                        continue;
                    }
                    return Ok(Setting::Refused(format!("{sql}: {error}")));
                }
                Err(error) => return Err(error).context(sql),
            }
        }
        match differing(admin, values)? {
            None => return Ok(Setting::Done),
            Some(words) if attempt == 1 => return Ok(Setting::Refused(words)),
            Some(_) => {}
        }
    }
    Ok(Setting::Done)
}

/// The first variable that has not the value it should have, in words.
///
/// # Errors
/// The connection was lost, or there is no such variable.
pub(super) fn differing(
    admin: &mut Connection,
    values: &[(String, Option<String>)],
) -> anyhow::Result<Option<String>> {
    for (name, value) in values {
        let found = read(admin, name).with_context(|| format!("reading {name} back"))?;
        let same = match (&found, value) {
            (Some(found), Some(value)) => {
                value.eq_ignore_ascii_case("default") || same_value(found, value)
            }
            (found, None) => found.is_none(),
            (None, Some(value)) => value.is_empty(),
        };
        if !same {
            let null = || "NULL".to_owned();
            let asked = value.clone().unwrap_or_else(null);
            return Ok(Some(format!(
                "the server made {name} = {} of {asked}",
                found.unwrap_or_else(null)
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_literals_of_sql() {
        for (value, sql) in [
            ("8", "8"),
            ("128M", "134217728"),
            ("0.5", "0.5"),
            ("ON", "'ON'"),
            ("O_DIRECT", "'O_DIRECT'"),
            ("default", "DEFAULT"),
            ("a'b\\", "'a''b\\\\'"),
            ("1; DROP TABLE t", "'1; DROP TABLE t'"),
        ] {
            assert_eq!(literal(value), sql);
        }
        assert_eq!(option("64M"), "67108864");
        assert_eq!(option("O_DIRECT"), "O_DIRECT");
        assert_eq!(option("-1"), "-1");
    }
}
