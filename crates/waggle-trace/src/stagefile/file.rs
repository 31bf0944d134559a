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

mod parts;
mod value;

use toml::de::DeTable;

use super::Pipeline;
use parts::{conditions, stage, wait};
use value::{Read, Table, Value, as_array, as_table, as_text, check_name, get, known_only, wrong};

/// Most stages of a pipeline, and pipelines of a file.
const STAGES_MAX: usize = 16;
const PIPELINES_MAX: usize = 64;
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

#[cfg(test)]
mod tests {
    use super::super::{Expression, Sighting, builtin, builtin_names};
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
