//! A stage file: TOML, read with the place of every value, so that an error names its line.
//!
//! ```toml
//! [pipeline.redo]
//! about = "commit's wait for its redo log"
//! when = "u8(u64(&log_sys) + $paused) == 0"
//! wait = { start = "fn:log_write_up_to", key = "arg2", end = "fn:log_write_up_to:ret" }
//! [[pipeline.redo.stage]]
//! name = "written"
//! at = "known:redo.written"
//! value = "u64(u64(&log_sys) + $write_lsn)"
//! match = ">="
//! ```
//!
//! Invariant: a name that the file misspells is an error, never ignored.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::text::{self, Refused};
use super::{Condition, Expression, Pipeline, Place, Rule, Sighting, Stage, Wait};

/// Most stages of a pipeline, and pipelines of a file.
const STAGES_MAX: usize = 16;
const PIPELINES_MAX: usize = 64;
/// Most places of a stage.
const PLACES_MAX: usize = 16;
/// Longest name.
const NAME_MAX: usize = 32;
/// Largest file, bytes.
const FILE_MAX: usize = 1 << 20;

/// What is wrong with a stage file, and in which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct StageFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// What is wrong, and where in the text.
struct Wrong {
    at: usize,
    reason: String,
}

type Read<T> = Result<T, Wrong>;
type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;

fn wrong<T>(at: usize, reason: impl Into<String>) -> Read<T> {
    let reason = reason.into();
    Err(Wrong { at, reason })
}

/// Reads every pipeline of a stage file.
///
/// # Errors
/// The text is no TOML, or says something that no pipeline can be; with the line.
pub fn parse(text: &str) -> Result<Vec<Pipeline>, StageFileError> {
    let line = |at: usize| {
        let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
        1 + before.iter().filter(|b| **b == b'\n').count()
    };
    if text.len() > FILE_MAX {
        let reason = format!("the file is longer than {FILE_MAX} bytes");
        return Err(StageFileError { line: 1, reason });
    }
    let table = DeTable::parse(text).map_err(|error| StageFileError {
        line: line(error.span().map_or(0, |span| span.start)),
        reason: error.message().to_owned(),
    })?;
    file(table.get_ref()).map_err(|wrong| StageFileError {
        line: line(wrong.at),
        reason: wrong.reason,
    })
}

fn file(table: &Table<'_>) -> Read<Vec<Pipeline>> {
    known_only(table, &["pipeline"], "the file")?;
    let Some(all) = get(table, "pipeline") else {
        return wrong(0, "there is no [pipeline.NAME]");
    };
    let pipelines = as_table(all, "pipeline")?;
    if pipelines.len() > PIPELINES_MAX {
        return wrong(
            all.span().start,
            format!("more than {PIPELINES_MAX} pipelines"),
        );
    }
    let mut found = Vec::new();
    for (name, value) in pipelines {
        let at = name.span().start;
        check_name(name.get_ref(), at)?;
        found.push((at, pipeline(name.get_ref(), value)?));
    }
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, pipeline)| pipeline).collect())
}

fn pipeline(name: &str, value: &Value<'_>) -> Read<Pipeline> {
    let table = as_table(value, name)?;
    let at = value.span().start;
    known_only(table, &["about", "when", "wait", "stage"], "a pipeline")?;
    let about = match get(table, "about") {
        Some(value) => as_text(value)?.to_owned(),
        None => String::new(),
    };
    let Some(waited) = get(table, "wait") else {
        return wrong(at, format!("pipeline {name} has no `wait`"));
    };
    let stages = match get(table, "stage") {
        Some(value) => as_array(value)?
            .iter()
            .map(stage)
            .collect::<Read<Vec<_>>>()?,
        None => Vec::new(),
    };
    if stages.is_empty() || stages.len() > STAGES_MAX {
        return wrong(
            at,
            format!(
                "pipeline {name} has {} stages, not 1 to {STAGES_MAX}",
                stages.len()
            ),
        );
    }
    for (index, stage) in stages.iter().enumerate() {
        if stages[..index].iter().any(|other| other.name == stage.name) {
            return wrong(at, format!("pipeline {name} has two stages {}", stage.name));
        }
    }
    Ok(Pipeline {
        name: name.to_owned(),
        about,
        when: conditions(table, "when")?,
        wait: wait(waited)?,
        stages,
    })
}

fn wait(value: &Value<'_>) -> Read<Wait> {
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
        ends: ends(needed("end")?)?,
        stack,
    })
}

/// One end or several, each a place or a place with a condition.
fn ends(value: &Value<'_>) -> Read<Vec<(Place, Option<Condition>)>> {
    let one = |entry: &Value<'_>| -> Read<(Place, Option<Condition>)> {
        let DeValue::Table(table) = entry.get_ref() else {
            return Ok((read(entry, text::place)?, None));
        };
        known_only(table, &["at", "if"], "an end")?;
        let Some(at) = get(table, "at") else {
            return wrong(entry.span().start, "an end needs `at`");
        };
        let test = get(table, "if").map(|test| read(test, text::condition));
        Ok((read(at, text::place)?, test.transpose()?))
    };
    let found = match value.get_ref() {
        DeValue::Array(entries) => entries.iter().map(one).collect::<Read<Vec<_>>>()?,
        _ => vec![one(value)?],
    };
    if found.is_empty() || found.len() > PLACES_MAX {
        let reason = format!("{} ends, not 1 to {PLACES_MAX}", found.len());
        return wrong(value.span().start, reason);
    }
    Ok(found)
}

fn stage(value: &Value<'_>) -> Read<Stage> {
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
        None => Rule::AtLeast,
        Some(value) => match as_text(value)? {
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
        },
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

/// One place or several, each with a value: the stage's, or its own.
fn places(at: &Value<'_>, value: Option<&Value<'_>>, rule: Rule) -> Read<Vec<(Place, Expression)>> {
    let common = value
        .map(|value| read(value, text::expression))
        .transpose()?;
    let needs_value = matches!(rule, Rule::AtLeast | Rule::Equal | Rule::SamePointer);
    let one = |entry: &Value<'_>| -> Read<(Place, Expression)> {
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
    };
    let places = match at.get_ref() {
        DeValue::Array(entries) => entries.iter().map(one).collect::<Read<Vec<_>>>()?,
        _ => vec![one(at)?],
    };
    if places.is_empty() || places.len() > PLACES_MAX {
        return wrong(
            at.span().start,
            format!("{} places, not 1 to {PLACES_MAX}", places.len()),
        );
    }
    Ok(places)
}

/// One condition or several.
fn conditions(table: &Table<'_>, name: &str) -> Read<Vec<Condition>> {
    let Some(value) = get(table, name) else {
        return Ok(Vec::new());
    };
    let found = match value.get_ref() {
        DeValue::Array(all) => all
            .iter()
            .map(|one| read(one, text::condition))
            .collect::<Read<Vec<_>>>()?,
        _ => vec![read(value, text::condition)?],
    };
    let most = waggle_probes::point::spec::TESTS_MAX;
    if found.len() > most {
        return wrong(value.span().start, format!("more than {most} conditions"));
    }
    Ok(found)
}

fn read<T>(value: &Value<'_>, reader: impl Fn(&str) -> Result<T, Refused>) -> Read<T> {
    reader(as_text(value)?).or_else(|reason| wrong(value.span().start, reason))
}

fn get<'a, 'i>(table: &'a Table<'i>, name: &str) -> Option<&'a Value<'i>> {
    table
        .iter()
        .find(|(key, _)| key.get_ref() == name)
        .map(|(_, value)| value)
}

fn as_text<'a>(value: &'a Value<'_>) -> Read<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => wrong(value.span().start, "a text in quotes belongs here"),
    }
}

fn as_table<'a, 'i>(value: &'a Value<'i>, what: &str) -> Read<&'a Table<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => wrong(value.span().start, format!("`{what}` is no table")),
    }
}

fn as_array<'a, 'i>(value: &'a Value<'i>) -> Read<&'a [Value<'i>]> {
    match value.get_ref() {
        DeValue::Array(array) => Ok(array),
        _ => wrong(value.span().start, "a list belongs here"),
    }
}

fn known_only(table: &Table<'_>, names: &[&str], what: &str) -> Read<()> {
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

fn check_name(name: &str, at: usize) -> Read<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_. /".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
        return wrong(
            at,
            format!("`{name}` is no name: 1 to {NAME_MAX} letters, digits, - _ . /"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{builtin, builtin_names};
    use super::*;

    const GOOD: &str = "\
[pipeline.p]
about = \"x\"
wait = { start = \"fn:f\", key = \"arg1\", end = \"fn:f:ret\", if = \"arg2 == 1\" }
[[pipeline.p.stage]]
name = \"one\"
at = [\"fn:g\", { at = \"fn:h\", value = \"arg2\" }]
value = \"arg1\"
[[pipeline.p.stage]]
name = \"two\"
at = \"waking\"
";

    #[test]
    fn a_file_is_read() {
        let found = parse(GOOD).unwrap();
        assert_eq!(found.len(), 1);
        let Sighting::Places(places) = &found[0].stages[0].at else {
            panic!("places");
        };
        assert_eq!(places[1].1, Expression::Argument(2));
        assert_eq!(found[0].stages[1].at, Sighting::Waking);
        assert_eq!(found[0].wait.tests.len(), 1);
    }

    #[test]
    fn errors_name_their_line() {
        let says = |from: &str, to: &str, line: usize, reason: &str| {
            let error = parse(&GOOD.replace(from, to)).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.reason.contains(reason), "{error}");
        };
        says("arg2 == 1", "arg2 = 1", 3, "compares nothing");
        says("name = \"one\"", "nome = \"one\"", 5, "no `nome`");
        says("\"waking\"", "\"wakinng\"", 10, "is no place");
        says("value = \"arg1\"\n", "", 6, "needs `value`");
        says("two", "one", 1, "two stages one");
        says(
            "at = \"waking\"",
            "at = \"waking\"\nvalue = \"arg1\"",
            8,
            "neither",
        );
        says("[pipeline.p]", "[pipeline.p", 1, "");
        says("fn:f\"", "fx:f\"", 3, "no kind of place");
    }

    #[test]
    fn the_built_in_ones_are_well_formed() {
        for name in builtin_names() {
            let found = builtin(name).unwrap();
            assert_eq!(found.name, *name);
            assert!(!found.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn damaged_files_never_panic() {
        let mut seed = 0x5eed_u64;
        let mut next = |bound: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed >> 16).unwrap_or(0) % bound
        };
        let texts: Vec<&str> = super::super::builtin::TEXTS
            .iter()
            .map(|(_, t)| *t)
            .chain([GOOD])
            .collect();
        let mut refused = 0;
        for round in 0..3000 {
            let mut bytes = texts[round % texts.len()].as_bytes().to_vec();
            for _ in 0..=next(4) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = b"{}[]\"'=:+-()$&%,.\n#x0"[next(21)],
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, bytes[at]),
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            if let Err(error) = parse(&text) {
                refused += 1;
                assert!(error.line >= 1 && !error.to_string().is_empty());
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
