//! A space file: what to tune, under which load, by which measure.
//!
//! ```toml
//! name = "io"
//! objective = "tps"
//! guards = ["p99=10%", "errors"]
//! workload = "oltp_write_only"
//!
//! [[variable]]
//! name = "innodb_io_capacity"
//! from = 100
//! to = 10000
//! steps = 5
//! scale = "log"
//!
//! [[variable]]
//! name = "innodb_flush_log_at_trx_commit"
//! values = [1, 2]
//! ```
//!
//! Variables that are tuned one after the other, each with what was recommended before it in place,
//! stand in a `[[stage]]` each. Neighbour: `args` lays the flags over it. Invariant: an error names
//! the file and the line and says what to write.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use waggle_server::Flavour;
use waggle_stats::tune::{Constraint, Scale, Space, Values, Variable, amount};

use super::plan::Stage;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SpaceFile {
    /// Names the run.
    pub(super) name: Option<String>,
    /// What the run answers, a sentence.
    pub(super) question: Option<String>,
    pub(super) objective: Option<String>,
    pub(super) guards: Option<Vec<String>>,
    pub(super) workload: Option<String>,
    pub(super) options: BTreeMap<String, toml::Value>,
    pub(super) threads: Option<u32>,
    pub(super) tables: Option<u32>,
    pub(super) table_size: Option<u64>,
    pub(super) strategy: Option<String>,
    pub(super) margin: Option<String>,
    pub(super) rounds: Option<usize>,
    pub(super) block: Option<String>,
    pub(super) warm_up: Option<String>,
    pub(super) warm_up_restarted: Option<String>,
    pub(super) budget: Option<String>,
    /// Settings of every server that are not tuned.
    settings: BTreeMap<String, toml::Value>,
    /// The same for one family of servers.
    mysql: BTreeMap<String, toml::Value>,
    mariadb: BTreeMap<String, toml::Value>,
    variable: Vec<Entry>,
    constraints: Vec<String>,
    stage: Vec<StageEntry>,
}

/// A `[[stage]]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StageEntry {
    name: Option<String>,
    /// Only for servers of this family.
    server: Option<String>,
    variable: Vec<Entry>,
    constraints: Vec<String>,
}

/// A `[[variable]]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    name: String,
    values: Vec<toml::Value>,
    from: Option<toml::Value>,
    to: Option<toml::Value>,
    steps: Option<usize>,
    scale: Scale,
    /// Changed by a restart even if it could be set in place.
    restart: bool,
    /// Only for servers of this family.
    server: Option<String>,
}

const KEYS: &str = "a space file has name, question, objective, guards, workload, options, \
                    threads, tables, table_size, strategy, margin, rounds, block, warm_up, \
                    warm_up_restarted, budget, settings, mysql, mariadb, constraints and \
                    [[variable]] or [[stage]]; a [[variable]] has a name and values, or from, to, \
                    steps and scale, and restart, server";

impl SpaceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read or understood; nothing was touched.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let size = std::fs::metadata(path).with_context(|| format!("cannot read {name}"))?;
        if size.len() > FILE_BYTES_MAX {
            bail!("{name} is larger than {FILE_BYTES_MAX} bytes, so it is no space file");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&text).map_err(|error| anyhow!("{name}: {error}"))
    }

    /// Reads a text; errors begin with the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let before = text.as_bytes()[..start].iter();
            let line = before.filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {}; {KEYS}", error.message())
        })?;
        if !file.variable.is_empty() && !file.stage.is_empty() {
            return Err(
                "it has both [[variable]] and [[stage]]: put every variable into a \
                        [[stage.variable]]"
                    .to_owned(),
            );
        }
        if file.stage.iter().any(|stage| stage.variable.is_empty()) {
            return Err("a [[stage]] without a [[stage.variable]] tunes nothing".to_owned());
        }
        Ok(file)
    }

    /// The stages that servers of this family can be tuned in.
    ///
    /// # Errors
    /// A variable, value or constraint that cannot be used.
    pub(super) fn stages(&self, flavour: Flavour) -> Result<Vec<Stage>, String> {
        let own = StageEntry {
            variable: self.variable.clone(),
            constraints: self.constraints.clone(),
            ..StageEntry::default()
        };
        let all: Vec<&StageEntry> = match self.variable.is_empty() {
            false => vec![&own],
            true => self.stage.iter().collect(),
        };
        let mut stages = Vec::new();
        for (place, entry) in all.into_iter().enumerate() {
            if !is_for(entry.server.as_deref(), flavour)? {
                continue;
            }
            let mut stage = Stage {
                name: entry.name.clone().unwrap_or_default(),
                space: Space::default(),
                restart: Vec::new(),
            };
            for variable in &entry.variable {
                if is_for(variable.server.as_deref(), flavour)? {
                    if variable.restart {
                        stage.restart.push(variable.name.clone());
                    }
                    stage.space.variables.push(variable.variable()?);
                }
            }
            for text in &entry.constraints {
                let constraint = Constraint::parse(text).map_err(|error| error.to_string())?;
                stage.space.constraints.push(constraint);
            }
            if stage.name.is_empty() {
                stage.name = match stage.space.variables.as_slice() {
                    [only] => only.name.clone(),
                    _ => format!("stage {}", place + 1),
                };
            }
            if !stage.space.variables.is_empty() {
                stages.push(stage);
            }
        }
        Ok(stages)
    }

    /// Settings of servers of this family that are not tuned.
    ///
    /// # Errors
    /// A value that is no value of a setting.
    pub(super) fn settings(&self, flavour: Flavour) -> Result<Vec<(String, String)>, String> {
        let own = match flavour {
            Flavour::MySql => &self.mysql,
            Flavour::MariaDb => &self.mariadb,
        };
        let all = self.settings.iter().chain(own);
        all.map(|(name, value)| Ok((name.clone(), plain(value)?)))
            .collect()
    }
}

impl Entry {
    fn variable(&self) -> Result<Variable, String> {
        let name = self.name.clone();
        let range = (&self.from, &self.to, self.steps);
        let values = match range {
            (None, None, None) => {
                let values = self.values.iter().map(plain);
                Values::List(values.collect::<Result<_, _>>()?)
            }
            (Some(from), Some(to), Some(steps)) if self.values.is_empty() => {
                let number = |value: &toml::Value| {
                    let text = plain(value)?;
                    amount(&text).ok_or_else(|| format!("variable {name}: {text} is no number"))
                };
                Values::Range {
                    from: number(from)?,
                    to: number(to)?,
                    steps,
                    scale: self.scale,
                }
            }
            _ => {
                return Err(format!(
                    "variable {name}: give values, or from, to and steps together"
                ));
            }
        };
        Ok(Variable { name, values })
    }
}

fn is_for(server: Option<&str>, flavour: Flavour) -> Result<bool, String> {
    match server {
        None => Ok(true),
        Some(name) => match name.parse::<Flavour>() {
            Ok(own) => Ok(own == flavour),
            Err(_) => Err(format!("server = \"{name}\": use mysql or mariadb")),
        },
    }
}

/// A value of TOML as a server's option takes it.
pub(super) fn plain(value: &toml::Value) -> Result<String, String> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(true) => "ON".to_owned(),
        toml::Value::Boolean(false) => "OFF".to_owned(),
        other => {
            return Err(format!(
                "a {} is no value of a variable: use a word, a number, true or false",
                other.type_str()
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_stages_for_its_server() {
        let text = r#"
            name = "two"
            [mysql]
            log-bin = "binlog"
            [[stage]]
            name = "first"
            [[stage.variable]]
            name = "a"
            values = [1, "2", 3]
            [[stage.variable]]
            name = "b"
            server = "mariadb"
            from = 1
            to = "1K"
            steps = 3
            scale = "log"
            restart = true
            [[stage]]
            server = "mysql"
            [[stage.variable]]
            name = "c"
            values = ["x"]
        "#;
        let file = SpaceFile::parse(text).expect("sound");
        let mysql = file.stages(Flavour::MySql).expect("sound");
        assert_eq!(mysql.len(), 2);
        assert_eq!(mysql[0].space.configurations().expect("sound").len(), 3);
        assert_eq!(mysql[1].name, "c");
        let mariadb = file.stages(Flavour::MariaDb).expect("sound");
        assert_eq!(mariadb.len(), 1);
        assert_eq!(mariadb[0].space.configurations().expect("sound").len(), 9);
        assert_eq!(mariadb[0].restart, ["b"]);
        let settings = file.settings(Flavour::MySql).expect("sound");
        assert_eq!(settings, [("log-bin".to_owned(), "binlog".to_owned())]);
        assert!(file.settings(Flavour::MariaDb).expect("sound").is_empty());
    }

    #[test]
    fn what_cannot_be_used_names_its_line() {
        let error = SpaceFile::parse("name = \"x\"\nfoo = 1\n").unwrap_err();
        assert!(
            error.starts_with("line 2:") && error.contains("[[variable]]"),
            "{error}"
        );
        assert!(SpaceFile::parse("[[stage]]\nname = \"x\"").is_err());
        for text in [
            "[[variable]]\nname = \"a\"\nfrom = 1\n",
            "[[variable]]\nname = \"a\"\nvalues = [[1]]\n",
            "[[variable]]\nname = \"a\"\nvalues = [1]\nserver = \"oracle\"\n",
            "constraints = [\"a\"]\n[[variable]]\nname = \"a\"\nvalues = [1]\n",
        ] {
            let file = SpaceFile::parse(text).expect("TOML");
            assert!(file.stages(Flavour::MySql).is_err(), "{text}");
        }
    }
}
