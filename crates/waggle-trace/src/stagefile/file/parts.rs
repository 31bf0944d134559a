//! The parts of a pipeline: what is waited for, and the stages.

use toml::de::DeValue;

use super::super::text;
use super::super::{Condition, Expression, Place, Rule, Sighting, Stage, Wait};
use super::value::{
    Read, Table, Value, as_table, as_text, check_name, each, get, known_only, read, wrong,
};

/// Most places of a stage.
const PLACES_MAX: usize = 16;

pub(super) fn wait(value: &Value<'_>) -> Read<Wait> {
    let table = as_table(value, "wait")?;
    let at = value.span().start;
    known_only(
        table,
        &["start", "key", "second", "if", "end", "stack"],
        "a wait",
    )?;
    let needed = |name: &str| match get(table, name) {
        Some(value) => Ok(value),
        None => wrong(at, format!("a wait needs `{name}`")),
    };
    let stack = match get(table, "stack") {
        None => false,
        Some(value) => match value.get_ref() {
            DeValue::Boolean(stack) => *stack,
            _ => return wrong(value.span().start, "`stack` is true or false"),
        },
    };
    let key = match get(table, "key") {
        Some(value) => read(value, text::expression)?,
        None => Expression::Number(0),
    };
    Ok(Wait {
        start: read(needed("start")?, text::place)?,
        key,
        second: get(table, "second")
            .map(|value| read(value, text::expression))
            .transpose()?,
        tests: conditions(table, "if")?,
        ends: one_or_several(needed("end")?, "ends", end)?,
        stack,
    })
}

/// An end: a place, or a place with a condition.
fn end(entry: &Value<'_>) -> Read<(Place, Option<Condition>)> {
    let DeValue::Table(table) = entry.get_ref() else {
        return Ok((read(entry, text::place)?, None));
    };
    known_only(table, &["at", "if"], "an end")?;
    let Some(at) = get(table, "at") else {
        return wrong(entry.span().start, "an end needs `at`");
    };
    let test = get(table, "if").map(|test| read(test, text::condition));
    Ok((read(at, text::place)?, test.transpose()?))
}

pub(super) fn stage(value: &Value<'_>) -> Read<Stage> {
    let table = as_table(value, "stage")?;
    let at = value.span().start;
    let names = ["name", "at", "value", "match", "begins", "begin_value"];
    known_only(table, &names, "a stage")?;
    let Some(name) = get(table, "name") else {
        return wrong(at, "a stage needs `name`");
    };
    let text_of_name = as_text(name)?;
    check_name(text_of_name, name.span().start)?;
    let Some(seen) = get(table, "at") else {
        return wrong(at, "a stage needs `at`");
    };
    let rule = match get(table, "match") {
        Some(value) => rule(value)?,
        None => Rule::AtLeast,
    };
    let value = get(table, "value");
    let sighting = match seen.get_ref().as_str() {
        Some("waking") => Sighting::Waking,
        Some("switch_in") => Sighting::SwitchIn,
        _ => Sighting::Places(places(seen, value, rule)?),
    };
    if !matches!(sighting, Sighting::Places(_))
        && (value.is_some() || get(table, "match").is_some())
    {
        return wrong(
            at,
            "the scheduler's stages have neither `value` nor `match`",
        );
    }
    let begins = match get(table, "begins") {
        Some(begins) => places(begins, get(table, "begin_value").or(value), rule)?,
        None => Vec::new(),
    };
    Ok(Stage {
        name: text_of_name.to_owned(),
        at: sighting,
        rule,
        begins,
    })
}

fn rule(value: &Value<'_>) -> Read<Rule> {
    Ok(match as_text(value)? {
        ">=" => Rule::AtLeast,
        "==" => Rule::Equal,
        "same-pointer" => Rule::SamePointer,
        "same-thread" => Rule::SameThread,
        "epoch" => Rule::Epoch,
        "same-leader" => Rule::SameLeader,
        other => {
            let reason = format!(
                "`{other}` is no rule: >=, ==, same-pointer, same-thread, epoch or same-leader"
            );
            return wrong(value.span().start, reason);
        }
    })
}

/// One place or several, each with a value: the stage's, or its own.
fn places(at: &Value<'_>, value: Option<&Value<'_>>, rule: Rule) -> Read<Vec<(Place, Expression)>> {
    let common = value
        .map(|value| read(value, text::expression))
        .transpose()?;
    let needs_value = matches!(rule, Rule::AtLeast | Rule::Equal | Rule::SamePointer);
    one_or_several(at, "places", |entry| {
        let start = entry.span().start;
        let (place, own) = match entry.get_ref() {
            DeValue::Table(table) => {
                known_only(table, &["at", "value"], "a place")?;
                let Some(at) = get(table, "at") else {
                    return wrong(start, "a place needs `at`");
                };
                let own = get(table, "value").map(|value| read(value, text::expression));
                (read(at, text::place)?, own.transpose()?)
            }
            _ => (read(entry, text::place)?, None),
        };
        match own.or_else(|| common.clone()) {
            Some(value) => Ok((place, value)),
            None if needs_value => wrong(start, "a stage that is matched by value needs `value`"),
            None => Ok((place, Expression::Number(0))),
        }
    })
}

fn one_or_several<T>(
    value: &Value<'_>,
    what: &str,
    one: impl Fn(&Value<'_>) -> Read<T>,
) -> Read<Vec<T>> {
    let found = each(value, one)?;
    if found.is_empty() || found.len() > PLACES_MAX {
        let reason = format!("{} {what}, not 1 to {PLACES_MAX}", found.len());
        return wrong(value.span().start, reason);
    }
    Ok(found)
}

/// One condition or several; none if there is no such name.
pub(super) fn conditions(table: &Table<'_>, name: &str) -> Read<Vec<Condition>> {
    let Some(value) = get(table, name) else {
        return Ok(Vec::new());
    };
    let found = each(value, |one| read(one, text::condition))?;
    let most = waggle_probes::point::spec::TESTS_MAX;
    if found.len() > most {
        return wrong(value.span().start, format!("more than {most} conditions"));
    }
    Ok(found)
}
