//! Arms from a TOML file, and from flags.
//!
//! ```toml
//! [[arm]]
//! name = "binlog-rows-query"
//! label = "query text in the binary log"
//! on = ["SET GLOBAL binlog_rows_query_log_events = ON"]
//! off = ["SET GLOBAL binlog_rows_query_log_events = OFF"]
//!
//! [[arm]]
//! name = "bpftrace"
//! command = ["bpftrace", "-p", "{pid}", "count.bt"]
//! ready = "Attaching"
//! ```
//!
//! Invariant: an error names the file and the line and says what to write.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;

use super::builtin;
use super::spec::{MASK, shown_sql};
use super::{ArmSpec, ObserverSpec};
use waggle_probes::burn::BURN_NS_MAX;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most windows that may be asked for.
pub(crate) const WINDOWS_MAX: usize = 1_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    arm: Vec<toml::Spanned<Entry>>,
}

/// One `[[arm]]`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    name: String,
    label: Option<String>,
    sees: Option<String>,
    /// A built-in arm that this one begins as.
    like: Option<String>,
    settings: BTreeMap<String, toml::Value>,
    on: Vec<String>,
    off: Vec<String>,
    files: Vec<String>,
    /// A source of `waggle watch`.
    watch: Option<String>,
    /// Further flags of it.
    watch_args: Vec<String>,
    /// Nanoseconds to burn at the end of every statement: a cost that is known.
    burn_ns: Option<u64>,
    command: Vec<String>,
    ready: Option<String>,
    windows: Option<usize>,
    target: Option<f64>,
}

/// Reads the arms of a file.
///
/// # Errors
/// It cannot be read, is not TOML, or an arm in it cannot be used.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<ArmSpec>> {
    let name = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("cannot read {name}"))?;
    if size.len() > FILE_BYTES_MAX {
        bail!("{name} is larger than {FILE_BYTES_MAX} bytes, so it is no list of arms");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    parse(&text).map_err(|error| anyhow!("{name}: {error}"))
}

/// The arms in a text; errors begin with the line.
fn parse(text: &str) -> Result<Vec<ArmSpec>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        format!("line {line}: {}; {KEYS}", error.message())
    })?;
    if file.arm.is_empty() {
        return Err(format!("it has no [[arm]]; {KEYS}"));
    }
    let mut arms = Vec::new();
    for entry in file.arm {
        let line = line_of(text, entry.span().start);
        let arm = entry.into_inner().arm();
        arms.push(arm.map_err(|error| format!("line {line}: {error}"))?);
    }
    Ok(arms)
}

const KEYS: &str = "an [[arm]] has a name, and some of: label, sees, like, settings, on, off, \
                    files, watch, watch_args, burn_ns, command, ready, windows, target";

fn line_of(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    text.as_bytes()[..at]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
        + 1
}

impl Entry {
    fn arm(self) -> Result<ArmSpec, String> {
        check_name(&self.name)?;
        let mut arm = match &self.like {
            None => ArmSpec::new(&self.name, &self.name),
            Some(like) => builtin::arm(like).ok_or_else(|| {
                format!(
                    "like = \"{like}\": the arms to begin as are {}",
                    builtin::NAMES.join(", ")
                )
            })?,
        };
        arm.name = self.name;
        arm.label = self.label.unwrap_or(arm.label);
        arm.sees = self.sees.or(arm.sees);
        for (name, value) in self.settings {
            arm.settings.push((name, plain(value)?));
        }
        arm.on.extend(self.on);
        arm.off.extend(self.off);
        arm.files.extend(self.files);
        let observers = usize::from(self.watch.is_some())
            + usize::from(!self.command.is_empty())
            + usize::from(self.burn_ns.is_some());
        if observers + usize::from(arm.observer.is_some()) > 1 {
            return Err("an arm has one observer: watch, command or burn_ns, once".to_owned());
        }
        if self.ready.is_some() && self.command.is_empty() {
            return Err("ready is for a command: the line that says it has begun".to_owned());
        }
        if let Some(source) = self.watch {
            arm.observer = Some(watch(&source, self.watch_args)?);
        } else if !self.watch_args.is_empty() {
            return Err("watch_args are for watch = \"uprobe\" and the other sources".to_owned());
        }
        if !self.command.is_empty() {
            arm.observer = Some(ObserverSpec::Command {
                argv: self.command,
                ready: self.ready,
            });
        }
        if let Some(ns) = self.burn_ns {
            if ns > BURN_NS_MAX {
                return Err(format!("burn_ns = {ns}: at most {BURN_NS_MAX}"));
            }
            arm.observer = Some(ObserverSpec::Burn { ns });
        }
        if self
            .windows
            .is_some_and(|n| !(1..=WINDOWS_MAX).contains(&n))
        {
            return Err(format!("windows: use 1 to {WINDOWS_MAX}"));
        }
        arm.windows_planned = self.windows.unwrap_or(arm.windows_planned);
        arm.target = self.target.or(arm.target);
        finished(arm)
    }
}

/// Checks what can be said of an arm before anything is started.
fn finished(arm: ArmSpec) -> Result<ArmSpec, String> {
    if arm
        .target
        .is_some_and(|target| !(target > 0.0 && target < 1.0))
    {
        return Err("target is a half-width as a share, such as 0.01".to_owned());
    }
    let does = !(arm.settings.is_empty() && arm.on.is_empty() && arm.observer.is_none());
    if arm.aa && does {
        return Err(format!(
            "arm {} is like = \"{}\", the base again, and may do nothing; leave that out",
            arm.name,
            builtin::AA_NAME
        ));
    }
    if arm.on.is_empty() != arm.off.is_empty() {
        return Err(format!(
            "arm {} has statements for on or off only; write both, so that it can be undone",
            arm.name
        ));
    }
    if !does && !arm.aa {
        return Err(format!(
            "arm {} does nothing; give it settings, on and off, watch or command",
            arm.name
        ));
    }
    Ok(arm)
}

fn watch(source: &str, args: Vec<String>) -> Result<ObserverSpec, String> {
    const SOURCES: [&str; 4] = ["uprobe", "packets", "perfschema", "slowlog"];
    if !SOURCES.contains(&source) {
        return Err(format!(
            "watch = \"{source}\": the sources are {}",
            SOURCES.join(", ")
        ));
    }
    Ok(ObserverSpec::Watch {
        source: source.to_owned(),
        args,
    })
}

fn plain(value: toml::Value) -> Result<String, String> {
    Ok(match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(on) => if on { "ON" } else { "OFF" }.to_owned(),
        _ => return Err("a setting is a text, a number, true or false".to_owned()),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if name.is_empty() || name.len() > 60 || !name.chars().all(allowed) {
        return Err(format!(
            "name = \"{name}\": a name is 1 to 60 letters, digits, '-', '_', '.' or '+'"
        ));
    }
    if name == builtin::BASE_NAME || name == builtin::AA_NAME {
        return Err(format!(
            "name = \"{name}\": that is what arms are compared with"
        ));
    }
    Ok(())
}

/// An arm in one flag: a built-in name, or `NAME:part;part;...` with parts `set VAR=VALUE`,
/// `on SQL`, `off SQL`, `file VARIABLE`, `watch SOURCE`, `run COMMAND` (words split at spaces) and
/// `ready TEXT`.
///
/// # Errors
/// What to write instead.
pub(crate) fn flag(text: &str) -> Result<ArmSpec, String> {
    let Some((name, parts)) = text.split_once(':') else {
        return builtin::arm(text).ok_or_else(|| {
            format!(
                "no arm '{text}'; the built-in ones are {}; or give one as NAME:PART;PART, with \
                 parts 'set VAR=VALUE', 'on SQL', 'off SQL', 'file VARIABLE', 'watch SOURCE', \
                 'burn NS', 'run COMMAND', 'ready TEXT'",
                builtin::NAMES.join(", ")
            )
        });
    };
    let mut entry = Entry {
        name: name.trim().to_owned(),
        ..Entry::default()
    };
    for part in parts
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (key, value) = part.split_once(' ').unwrap_or((part, ""));
        let value = value.trim();
        if value.is_empty() {
            return Err(format!(
                "'{part}' in '{text}': something has to follow '{key}'"
            ));
        }
        match key {
            "set" => {
                let (name, value) = value
                    .split_once('=')
                    .ok_or_else(|| format!("'{part}' in '{text}': write set NAME=VALUE"))?;
                let value = toml::Value::String(value.trim().to_owned());
                entry.settings.insert(name.trim().to_owned(), value);
            }
            "on" => entry.on.push(value.to_owned()),
            "off" => entry.off.push(value.to_owned()),
            "file" => entry.files.push(value.to_owned()),
            "watch" => entry.watch = Some(value.to_owned()),
            "burn" => {
                let ns = value.parse();
                let wrong = |_| format!("'{part}' in '{text}': write burn and nanoseconds");
                entry.burn_ns = Some(ns.map_err(wrong)?);
            }
            "run" => {
                entry.command = value.split_ascii_whitespace().map(str::to_owned).collect();
            }
            "ready" => entry.ready = Some(value.to_owned()),
            _ => {
                return Err(format!(
                    "'{part}' in '{text}': a part begins with set, on, off, file, watch, burn, \
                     run or ready"
                ));
            }
        }
    }
    entry.arm()
}

/// A command line as it may be kept: without the statements of its arms that carry a password.
pub(crate) fn shown_argv(argv: &[String]) -> Vec<String> {
    argv.iter().map(|argument| shown_flag(argument)).collect()
}

fn shown_flag(argument: &str) -> String {
    let Some((name, parts)) = argument.split_once(':') else {
        return argument.to_owned();
    };
    let shown = |part: &str| match part.trim().split_once(' ') {
        Some((key @ ("on" | "off"), sql)) => format!("{key} {}", shown_sql(sql.trim())),
        _ => part.to_owned(),
    };
    let is_secret = |part: &str| shown(part).ends_with(MASK);
    if !parts.split(';').any(is_secret) {
        return argument.to_owned();
    }
    let parts: Vec<String> = parts.split(';').map(shown).collect();
    format!("{name}:{}", parts.join(";"))
}

#[cfg(test)]
mod tests;
