//! Values of a TOML file, and what is said of one that is not as it should be.
//!
//! Invariant: what is refused names its place in the text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::text::Refused;

/// Longest name.
const NAME_MAX: usize = 32;

/// What is wrong, and where in the text.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) reason: String,
}

pub(super) type Read<T> = Result<T, Wrong>;
pub(super) type Table<'a> = DeTable<'a>;
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

pub(super) fn wrong<T>(at: usize, reason: impl Into<String>) -> Read<T> {
    let reason = reason.into();
    Err(Wrong { at, reason })
}

/// Reads one text.
pub(super) fn read<T>(value: &Value<'_>, reader: impl Fn(&str) -> Result<T, Refused>) -> Read<T> {
    reader(as_text(value)?).or_else(|reason| wrong(value.span().start, reason))
}

pub(super) fn get<'a, 'i>(table: &'a Table<'i>, name: &str) -> Option<&'a Value<'i>> {
    table
        .iter()
        .find(|(key, _)| key.get_ref() == name)
        .map(|(_, value)| value)
}

pub(super) fn as_text<'a>(value: &'a Value<'_>) -> Read<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => wrong(value.span().start, "a text in quotes belongs here"),
    }
}

pub(super) fn as_table<'a, 'i>(value: &'a Value<'i>, what: &str) -> Read<&'a Table<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => wrong(value.span().start, format!("`{what}` is no table")),
    }
}

pub(super) fn as_array<'a, 'i>(value: &'a Value<'i>) -> Read<&'a [Value<'i>]> {
    match value.get_ref() {
        DeValue::Array(array) => Ok(array),
        _ => wrong(value.span().start, "a list belongs here"),
    }
}

/// Reads every entry of a list, or what stands there without one.
pub(super) fn each<T>(value: &Value<'_>, one: impl Fn(&Value<'_>) -> Read<T>) -> Read<Vec<T>> {
    match value.get_ref() {
        DeValue::Array(entries) => entries.iter().map(one).collect(),
        _ => Ok(vec![one(value)?]),
    }
}

/// Refuses a table with other names than these.
pub(super) fn known_only(table: &Table<'_>, names: &[&str], what: &str) -> Read<()> {
    for (key, _) in table {
        if !names.contains(&key.get_ref().as_ref()) {
            let reason = format!(
                "{what} has no `{}`: it has {}",
                key.get_ref(),
                names.join(", ")
            );
            return wrong(key.span().start, reason);
        }
    }
    Ok(())
}

pub(super) fn check_name(name: &str, at: usize) -> Read<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_. /".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
        return wrong(
            at,
            format!("`{name}` is no name: 1 to {NAME_MAX} letters, digits, - _ . /"),
        );
    }
    Ok(())
}
