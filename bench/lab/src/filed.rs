//! Where and with what something was measured, and the two files it is filed in.
//!
//! Invariant: the page holds nothing that is not in the JSON beside it; a result of the same day
//! is kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use waggle_report::host::HostFacts;

use crate::waggle::Waggle;

/// Where and with what.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// Start, UTC.
    pub date: String,
    /// The command that repeats it.
    pub command: String,
    /// The program that was measured.
    pub waggle: String,
    /// The tree it was built from.
    pub commit: String,
    /// The machine.
    pub machine: HostFacts,
    /// Load averages at the start, as the kernel tells them.
    pub load_average: String,
}

impl Facts {
    /// The facts now.
    pub fn gather(waggle: &Waggle, command: String) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(3).collect();
        Self {
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            command,
            waggle: waggle.version(),
            commit: said("git", &["describe", "--always", "--dirty"]),
            machine: HostFacts::gather(),
            load_average: load.join(" "),
        }
    }

    /// The head of a page.
    pub fn head(&self, question: &str) -> String {
        let machine = &self.machine;
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or("unknown".to_owned());
        let mitigations: Vec<String> = machine
            .mitigations
            .iter()
            .map(|(name, state)| format!("{name}: {state}"))
            .collect();
        let memory = machine.memory_bytes.unwrap_or(0) >> 20;
        let rows = [
            ("begun", self.date.clone()),
            ("command", format!("`{}`", self.command)),
            ("waggle", format!("{}, commit {}", self.waggle, self.commit)),
            ("processor", {
                let cores = machine.cores.unwrap_or(0);
                format!("{}, {cores} cores", or_unknown(&machine.cpu_model))
            }),
            ("memory", format!("{memory} MiB")),
            ("kernel", or_unknown(&machine.kernel)),
            ("clock source", or_unknown(&machine.clocksource)),
            ("virtual machine", or_unknown(&machine.virtualisation)),
            ("mitigations", mitigations.join("; ")),
            ("load averages at the start", self.load_average.clone()),
        ];
        let rows = rows.map(|(name, value)| format!("| {name} | {value} |\n"));
        format!("# {question}\n\n| | |\n|---|---|\n{}\n", rows.concat())
    }
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

/// Writes `DAY-SUBJECT.md` and `.json` in `folder`; with a number where the day has one already.
/// Returns the page's path.
///
/// # Errors
/// A file cannot be written.
pub fn write(
    folder: &Path,
    facts: &Facts,
    subject: &str,
    document: &Value,
    page: &str,
) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let day = facts.date.split(' ').next().unwrap_or("undated");
    let stem = (1..)
        .map(|number| match number {
            1 => format!("{day}-{subject}"),
            _ => format!("{day}-{subject}-{number}"),
        })
        .find(|stem| !folder.join(stem).with_extension("md").exists())
        .unwrap_or_default();
    let json = serde_json::to_string_pretty(document)?;
    for (extension, content) in [("json", json.as_str()), ("md", page)] {
        let path = folder.join(&stem).with_extension(extension);
        std::fs::write(&path, format!("{}\n", content.trim_end()))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(folder.join(&stem).with_extension("md"))
}
