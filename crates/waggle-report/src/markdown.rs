//! Reports as Markdown: for a pull request, a ticket or a page of documentation.
//!
//! Neighbours: [`crate::lab`], [`crate::study`] and [`crate::bench`] say what stands where; here is
//! how it is written, in the dialect of GitHub (tables), which others read too.
//! Invariant: strings of a run are foreign. They appear as text: no markup, no links, no HTML, and
//! no line of a table is broken by them.

mod lab;
mod study;

pub use lab::lab;
pub use study::study;

use waggle_foreign::is_harmful;

use crate::host::HostFacts;
use crate::lab::{LabServer, ProbeFacts};
use crate::quantity::{bytes, count, plain};

/// What stands in a cell for a reading that did not happen.
pub(crate) const ABSENT: &str = "–";

/// A table: the first column to the left, the others to the right.
#[derive(Debug)]
pub(crate) struct Grid {
    text: String,
    columns: usize,
}

impl Grid {
    pub(crate) fn new(titles: &[String]) -> Self {
        let mut grid = Self {
            text: String::new(),
            columns: titles.len(),
        };
        grid.row(titles);
        let ruler = (0..titles.len()).map(|at| if at == 0 { "---" } else { "---:" });
        grid.line(ruler.map(str::to_owned));
        grid
    }

    /// Adds a row of foreign strings.
    pub(crate) fn row(&mut self, cells: &[String]) {
        let cells = (0..self.columns).map(|at| cells.get(at).map_or(String::new(), |c| escape(c)));
        self.line(cells.collect::<Vec<_>>());
    }

    fn line(&mut self, cells: impl IntoIterator<Item = String>) {
        for cell in cells {
            self.text.push_str("| ");
            self.text.push_str(&cell);
            self.text.push(' ');
        }
        self.text.push_str("|\n");
    }

    pub(crate) fn text(self) -> String {
        self.text
    }
}

/// Titles of a [`Grid`].
pub(crate) fn titles(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A foreign string as text within a line.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '$' => {
                safe.push('\\');
                safe.push(character);
            }
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // Underscores within a word are text already, as in oltp_read_only.
            '_' if !safe.ends_with(|c: char| c.is_alphanumeric()) => safe.push_str("\\_"),
            _ if is_harmful(character) => safe.push(' '),
            _ => safe.push(character),
        }
    }
    safe.trim().to_owned()
}

/// A foreign string as a paragraph: nothing at its beginning makes it a heading or a list.
pub(crate) fn paragraph(text: &str) -> String {
    let safe = escape(text);
    let special = safe.starts_with(['#', '-', '+', '=', ':'])
        || safe.split_once(['.', ')']).is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
    if special && !safe.starts_with(|c: char| c.is_ascii_digit()) {
        format!("\\{safe}\n")
    } else if special {
        format!("{}\n", safe.replacen(['.', ')'], "\\.", 1))
    } else {
        format!("{safe}\n")
    }
}

/// A list of foreign strings.
pub(crate) fn bullets<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    items
        .into_iter()
        .map(|item| format!("- {}", paragraph(item.as_ref())))
        .collect()
}

/// Text as it is, in a fence longer than any within it.
pub(crate) fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let text: String = text
        .chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect();
    format!("{fence}text\n{text}\n{fence}\n")
}

/// Where it was measured: what decides whether a figure is true elsewhere.
pub(crate) fn environment(
    host: &HostFacts,
    server: &LabServer,
    probes: &[ProbeFacts],
    version: &str,
) -> String {
    let mut grid = Grid::new(&titles(&["environment", ""]));
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            grid.row(&[name.to_owned(), value]);
        }
    };
    fact(
        "server",
        Some(format!("{} {}", server.flavour, server.version)),
    );
    fact("server build id", server.build_id.clone());
    fact("processor", host.cpu_model.clone());
    fact("cores", host.cores.map(|cores| cores.to_string()));
    fact(
        "SMT",
        host.smt.map(|on| if on { "on" } else { "off" }.to_owned()),
    );
    fact("memory", host.memory_bytes.map(bytes));
    fact("virtualisation", host.virtualisation.clone());
    fact("system", host.system.clone());
    fact("kernel", host.kernel.clone());
    fact("clock source", host.clocksource.clone());
    fact(
        "frequency governor",
        Some(
            host.governor
                .clone()
                .unwrap_or_else(|| "not set by this machine".to_owned()),
        ),
    );
    fact("huge pages", host.transparent_huge_pages.clone());
    fact("lockdown", host.lockdown.clone());
    for (name, state) in &host.mitigations {
        fact(&format!("mitigation {name}"), Some(state.clone()));
    }
    for (name, value) in &server.settings {
        fact(name, Some(value.clone()));
    }
    for (name, state) in distinct(probes) {
        fact(&name, Some(state));
    }
    fact("waggle", Some(version.to_owned()));
    grid.text()
}

/// Probes by arm and place, each once.
fn distinct(probes: &[ProbeFacts]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for probe in probes {
        let name = format!("probe of {} at {}", probe.arm, probe.place);
        if all.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let mode = probe.mode.clone();
        let parts = [
            Some(mode.unwrap_or_else(|| "mode unknown".to_owned())),
            probe.hits.map(|hits| format!("{} hits", count(hits))),
            probe
                .program_ns
                .filter(|ns| ns.is_finite())
                .map(|ns| format!("{} ns a hit in the program", plain(ns, 0))),
        ];
        let state: Vec<String> = parts.into_iter().flatten().collect();
        all.push((name, state.join(", ")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup() {
        assert_eq!(
            escape("a|b\n<img> [x](y) `c`"),
            "a\\|b &lt;img&gt; \\[x\\](y) \\`c\\`"
        );
        assert_eq!(escape("oltp_read_only _x_"), "oltp_read_only \\_x_");
        assert_eq!(paragraph("# no"), "\\# no\n");
        assert_eq!(paragraph("1. no"), "1\\. no\n");
        assert_eq!(paragraph("3.5 µs"), "3\\.5 µs\n");
        assert_eq!(code("a ``` b"), "````text\na ``` b\n````\n");
    }

    #[test]
    fn a_row_has_every_column() {
        let mut grid = Grid::new(&titles(&["a", "b"]));
        grid.row(&["1".to_owned()]);
        grid.row(&["1".to_owned(), "2".to_owned(), "3".to_owned()]);
        assert_eq!(
            grid.text(),
            "| a | b |\n| --- | ---: |\n| 1 |  |\n| 1 | 2 |\n"
        );
    }
}
