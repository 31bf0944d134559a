//! A trace in the forms of `waggle report`: the page's data, a sentence, Markdown, text, CSV.
//!
//! The sentence knows its subject; tables are made of whatever lists a document has, so that a
//! subject's figures are in all forms once they are in its document.
//! Invariant: strings of a run are foreign, and times are shown in the unit that is named.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{FuncReport, LatchReport, PipelineReport, TraceFacts, TraceReport, WaitsReport};
use crate::csv::{Lines, cell_text};
use crate::markdown::{ABSENT, Grid, bullets, code, paragraph, titles};
use crate::quantity::{count, plain};
use crate::run::{RunFacts, shell_line};
use crate::table::WIDTH;

/// Lines of a list that are shown; the document has all.
const LINES_MAX: usize = 50;

/// A trace and the run it belongs to, as the page's data has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TracePage {
    /// What was found.
    pub report: TraceReport,
    /// The command line, quoted for a shell, without passwords.
    pub command: String,
    /// Version of waggle that ran it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
}

impl TracePage {
    /// The trace of a run.
    pub fn new(report: TraceReport, facts: &RunFacts) -> Self {
        Self {
            report,
            command: shell_line(&facts.command),
            waggle_version: facts.waggle_version.clone(),
            started: facts.started.clone(),
        }
    }

    /// The trace in a sentence.
    pub fn headline(&self) -> String {
        match &self.report {
            TraceReport::Func(report) => func(report),
            TraceReport::Pipeline(report) => pipeline(report),
            TraceReport::Latch(report) => latch(report),
            TraceReport::Waits(report) => waits(report),
        }
    }

    /// All of it as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n{}\n", paragraph(&self.headline()).trim_end(), "");
        text.push_str(&code(&self.command));
        for list in lists_of(&self.report) {
            text.push_str(&format!("\n## {}\n\n", list.title()));
            let mut grid = Grid::new(&titles(
                &std::iter::once(list.label.as_str())
                    .chain(list.columns.iter().map(String::as_str))
                    .collect::<Vec<_>>(),
            ));
            for line in list.lines.iter().take(LINES_MAX) {
                grid.row(&line.cells(&list.columns));
            }
            text.push_str(&grid.text());
        }
        let notes = &self.report.facts().notes;
        if !notes.is_empty() {
            text.push_str("\n## What to know\n\n");
            text.push_str(&bullets(notes));
        }
        text
    }

    /// As text of about 100 columns.
    pub fn text(&self) -> String {
        format!("{}\n\n{}", self.headline(), self.report.text(WIDTH))
    }

    /// Every figure of every list: a line each.
    pub fn csv(&self) -> String {
        let mut lines = Lines::new(&["list", "of", "name", "figure", "value"]);
        for list in lists_of(&self.report) {
            for line in &list.lines {
                for (figure, value) in &line.figures {
                    let value = match value {
                        Value::Number(number) => number.to_string(),
                        Value::String(text) => cell_text(text),
                        Value::Bool(yes) => yes.to_string(),
                        _ => String::new(),
                    };
                    let [name, of, line] = [&list.name, &line.of, &line.name].map(|t| cell_text(t));
                    lines.line(&[name, of, line, cell_text(figure), value]);
                }
            }
        }
        lines.text
    }
}

fn lists_of(report: &TraceReport) -> Vec<List> {
    let document = json!(report);
    let mut lists = Vec::new();
    if let Value::Object(fields) = &document {
        collect(fields, "", &mut lists);
    }
    lists.retain(|list| list.name != "probes");
    for list in &mut lists {
        // A column of nothing but zeros is left to the document.
        let lines = &list.lines;
        let tells = |column: &String| {
            let mut figures = lines.iter().flat_map(|line| &line.figures);
            figures.any(|(name, value)| name == column && value.as_f64() != Some(0.0))
        };
        list.columns.retain(tells);
    }
    lists
}

/// A list of a document.
#[derive(Debug, Default)]
struct List {
    name: String,
    /// What the first column is.
    label: String,
    columns: Vec<String>,
    lines: Vec<Line>,
}

#[derive(Debug, Default)]
struct Line {
    /// The line that the list stands in, of a list within a list.
    of: String,
    name: String,
    figures: Vec<(String, Value)>,
}

impl List {
    fn title(&self) -> String {
        let more = self.lines.len().saturating_sub(LINES_MAX);
        let name = self.name.replace('_', " ");
        if more == 0 {
            return name;
        }
        format!("{name} (the first {LINES_MAX} of {})", self.lines.len())
    }
}

impl Line {
    fn cells(&self, columns: &[String]) -> Vec<String> {
        let name = if self.of.is_empty() {
            self.name.clone()
        } else {
            format!("{}: {}", self.of, self.name)
        };
        let cell = |column: &String| {
            let figure = self.figures.iter().find(|(own, _)| own == column);
            figure.map_or(ABSENT.to_owned(), |(_, value)| shown(value))
        };
        std::iter::once(name)
            .chain(columns.iter().map(cell))
            .collect()
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => count(whole),
            (_, Some(value)) => plain(value, 2),
            _ => ABSENT.to_owned(),
        },
        _ => ABSENT.to_owned(),
    }
}

/// The lists of an object, and those in their lines.
fn collect(fields: &Map<String, Value>, of: &str, lists: &mut Vec<List>) {
    for (name, value) in fields {
        let Some(lines) = value.as_array() else {
            continue;
        };
        let objects: Vec<&Map<String, Value>> = lines.iter().filter_map(Value::as_object).collect();
        let Some(first) = objects.first() else {
            continue;
        };
        let text = |key: &&String| first.get(*key).is_some_and(Value::is_string);
        let keys = || first.keys();
        let label = keys()
            .find(|key| *key == "name")
            .or_else(|| keys().find(text));
        let Some(label) = label.cloned() else {
            continue;
        };
        let at = match lists.iter().position(|list| list.name == *name) {
            Some(at) => at,
            None => {
                lists.push(List {
                    name: name.clone(),
                    label: label.clone(),
                    ..List::default()
                });
                lists.len() - 1
            }
        };
        for object in objects {
            let mut line = Line {
                of: of.to_owned(),
                name: object.get(&label).map(shown).unwrap_or_default(),
                figures: Vec::new(),
            };
            figures(object, "", &label, &mut line.figures);
            for (column, _) in &line.figures {
                if !lists[at].columns.contains(column) {
                    lists[at].columns.push(column.clone());
                }
            }
            let within = line.name.clone();
            lists[at].lines.push(line);
            collect(object, &within, lists);
        }
    }
}

/// The single values of an object, and of the objects in it under both names.
fn figures(object: &Map<String, Value>, above: &str, label: &str, all: &mut Vec<(String, Value)>) {
    for (key, value) in object {
        let name = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        match value {
            Value::Object(inner) => figures(inner, &name, "", all),
            Value::Array(_) | Value::Null => {}
            _ if key == label => {}
            _ => all.push((name, value.clone())),
        }
    }
}

fn func(report: &FuncReport) -> String {
    let Some(first) = report.functions.first() else {
        return "No function was timed.".into();
    };
    let calls = &first.calls;
    let latency = &calls.latency_us;
    if latency.count == 0 {
        return format!("{} was not called.", calls.name);
    }
    let off = 100.0 * calls.off_sum_ns as f64 / calls.sum_ns.max(1) as f64;
    format!(
        "A call of {} takes {} us on average, {} at the 99th percentile, {}% of it off the \
         processor; it is called {} times a second.",
        calls.name,
        plain(latency.mean_us, 1),
        plain(latency.p99_us, 1),
        plain(off, 1),
        plain(calls.per_s, 0),
    )
}

fn pipeline(report: &PipelineReport) -> String {
    if report.decomposed == 0 {
        return format!("{}: no wait was seen.", report.pipeline);
    }
    let longest = report.stages.iter().max_by_key(|stage| stage.sum_ns);
    let longest = longest.map_or(String::new(), |stage| {
        format!(
            "; {}% of it is {}",
            plain(100.0 * stage.share, 0),
            stage.name
        )
    });
    format!(
        "A wait of {} takes {} us on average, {} at the 99th percentile{longest}.",
        report.pipeline,
        plain(report.wait_us.mean_us, 1),
        plain(report.wait_us.p99_us, 1),
    ) + &of_slices(&report.facts)
}

/// That not all of the time was traced.
fn of_slices(facts: &TraceFacts) -> String {
    facts.slices.as_ref().map_or_else(String::new, |slices| {
        format!(
            " {}% of the time was traced, in slices.",
            plain(100.0 * slices.share, 1)
        )
    })
}

fn latch(report: &LatchReport) -> String {
    let seconds = plain(report.facts.duration_s, 1);
    let Some(first) = report.latches.first() else {
        return format!("No thread waited for a latch in {seconds} s.");
    };
    let share = |part: u64, whole: u64| plain(100.0 * part as f64 / whole.max(1) as f64, 0);
    format!(
        "Threads waited {} times for latches in {seconds} s, {}% of the time with a holder that is \
         known; {}% of it for {}.",
        count(report.waits),
        share(report.held_ns, report.wait_sum_ns),
        share(first.wait_sum_ns, report.wait_sum_ns),
        first.name,
    ) + &of_slices(&report.facts)
}

fn waits(report: &WaitsReport) -> String {
    let requests = &report.requests;
    if requests.count == 0 {
        return format!("{} waits ended; no request was seen.", count(report.ended));
    }
    let whose = requests.path.first().map_or(String::new(), |first| {
        let (role, doing) = (&first.role, &first.doing);
        format!("; most of the slowest was {role}, {doing}")
    });
    format!(
        "A request takes {} us on average, {} at the 99th percentile{whose}.",
        plain(requests.latency_us.mean_us, 1),
        plain(requests.latency_us.p99_us, 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{FuncCalls, FuncRow};
    use waggle_stats::latency::LatencySummary;

    fn page() -> TracePage {
        let calls = |name: &str, count| FuncCalls {
            name: name.into(),
            latency_us: LatencySummary {
                count,
                mean_us: 12.5,
                ..LatencySummary::default()
            },
            sum_ns: 12_500 * count,
            ..FuncCalls::default()
        };
        let report = FuncReport {
            functions: vec![FuncRow {
                calls: calls("dispatch|command", 7),
                children: vec![calls("=child", 3)],
                ..FuncRow::default()
            }],
            ..FuncReport::default()
        };
        TracePage::new(TraceReport::Func(Box::new(report)), &RunFacts::default())
    }

    #[test]
    fn every_list_is_in_every_form() {
        let page = page();
        assert!(page.headline().contains("12.5 us on average"));
        let csv = page.csv();
        assert!(
            csv.contains("functions,,dispatch|command,latency_us.count,7\n"),
            "{csv}"
        );
        assert!(
            csv.contains("children,dispatch|command,'=child,latency_us.count,3\n"),
            "{csv}"
        );
        let markdown = page.markdown();
        assert!(markdown.contains("| dispatch\\|command |"), "{markdown}");
        assert!(page.text().contains("  =child"));
    }
}
