//! A profile in the forms of `waggle report`: a sentence, Markdown, CSV, and the page's parts.
//!
//! Invariant: strings of a run are foreign; times are shown in the unit that is named.

use serde_json::{Value, json};
use waggle_foreign::is_harmful;

use super::sums::{FunctionSum, functions, groups, totals};
use super::words::{self, statement_words};
use super::{ProfileKind, ProfileReport, ProfileWho};
use crate::csv::{Lines, cell_text};
use crate::lab::wrapped;
use crate::markdown::{Grid, bullets, code, paragraph, titles};
use crate::quantity::{count, plain, seconds};
use crate::run::{RunFacts, shell_line};
use crate::table::WIDTH;

/// Rows of a table in Markdown; the CSV has all.
const ROWS: usize = 30;
/// Longest name in a cell or a sentence, characters.
const NAME_CHARS_MAX: usize = 160;

/// One profile of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfilePart {
    /// What it is of; empty if it is the only one.
    pub name: String,
    /// What was found.
    pub report: ProfileReport,
}

/// The profiles of a run, and the run they belong to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfilePage {
    /// One, or several that can be compared.
    pub parts: Vec<ProfilePart>,
    /// The verb, such as `profile`.
    pub verb: String,
    /// The command line, quoted for a shell, without passwords.
    pub command: String,
    /// Version of waggle that ran it.
    pub waggle_version: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// The answer, if it is not what the first of them says.
    pub answer: Option<String>,
    /// The part that is shown first, and the one that it is compared with.
    pub shown: (usize, Option<usize>),
}

impl ProfilePage {
    /// The profiles of a run.
    pub fn new(parts: Vec<ProfilePart>, facts: &RunFacts) -> Self {
        let mut notes = Vec::new();
        for part in &parts {
            let own = accounted(&part.report);
            for note in part.report.notes.iter().chain(&own) {
                notes.push(of_part(part, note));
            }
        }
        Self {
            parts,
            verb: facts.verb.clone(),
            command: shell_line(&facts.command),
            waggle_version: facts.waggle_version.clone(),
            started: facts.started.clone(),
            notes,
            ..Self::default()
        }
    }

    /// Shows the part of one name first, against that of another, where they are.
    pub fn show(&mut self, name: &str, against: &str) {
        let at = |name: &str| self.parts.iter().position(|part| part.name == name);
        if let Some(shown) = at(name) {
            self.shown = (shown, at(against).filter(|against| *against != shown));
        }
    }

    /// The answer, in a sentence.
    pub fn headline(&self) -> String {
        match (&self.answer, self.parts.first()) {
            (Some(answer), _) => answer.clone(),
            (None, Some(part)) => headline(&part.report),
            (None, None) => "The run holds no profile.".to_owned(),
        }
    }

    /// As text of about 100 columns.
    pub fn text(&self, bold: bool) -> String {
        let mut text = wrapped(&self.headline(), WIDTH, "");
        for part in &self.parts {
            if !part.name.is_empty() {
                text.push_str(&format!("\n== {}\n", short(&part.name)));
            }
            text.push('\n');
            text.push_str(&words::text(&part.report, bold));
        }
        for note in &self.notes {
            text.push_str(&wrapped(note, WIDTH, "  "));
        }
        text
    }

    /// All of it as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n", paragraph(&self.headline()).trim_end());
        text.push_str(&self.sections());
        if !self.command.is_empty() {
            text.push_str("\n## Repeat it\n\n");
            text.push_str(&code(&self.command));
        }
        text
    }

    /// The tables and notes as Markdown, for a report that is of something else too.
    pub fn sections(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let of = match part.name.as_str() {
                "" => String::new(),
                name => format!(" of {}", short(name)),
            };
            for kind in totals(&part.report).into_keys() {
                let title = format!("Profile{of}: {} by function", kind.words());
                text.push_str(&format!("\n## {}\n", paragraph(&title)));
                text.push_str(&function_grid(&part.report, kind));
            }
            let by: [(&str, Name); 2] = [("role", role_name), ("statement", digest_name)];
            for (what, name) in by {
                let grid = group_grid(&part.report, what, name);
                if let Some(grid) = grid {
                    let title = format!("Profile{of}: time by {what}");
                    text.push_str(&format!("\n## {}\n{grid}", paragraph(&title)));
                }
            }
        }
        let lost = |part: &ProfilePart| Some(of_part(part, &lost_words(&part.report)?));
        let lost: Vec<String> = self.parts.iter().filter_map(lost).collect();
        if !lost.is_empty() {
            text.push_str("\n## What the profile does not have\n\n");
            text.push_str(&bullets(&lost));
        }
        if !self.notes.is_empty() {
            text.push_str("\n## How it was profiled\n\n");
            text.push_str(&bullets(&self.notes));
        }
        text
    }

    /// Every function: a line a kind.
    pub fn functions_csv(&self) -> String {
        let mut lines = Lines::new(&[
            "profile",
            "kind",
            "function",
            "module",
            "self_samples",
            "self_ns",
            "total_samples",
            "total_ns",
        ]);
        for part in &self.parts {
            for kind in totals(&part.report).into_keys() {
                for sum in functions(&part.report, kind) {
                    lines.line(&[
                        cell_text(&part.name),
                        kind.name().to_owned(),
                        one_line(&sum.name),
                        one_line(&sum.module),
                        sum.self_samples.to_string(),
                        sum.self_ns.to_string(),
                        sum.total_samples.to_string(),
                        sum.total_ns.to_string(),
                    ]);
                }
            }
        }
        lines.text
    }

    /// Whose time it is: a line for each process, role, thread and digest.
    pub fn whos_csv(&self) -> String {
        let mut lines = Lines::new(&[
            "profile", "kind", "process", "role", "thread", "digest", "samples", "ns",
        ]);
        for part in &self.parts {
            let report = &part.report;
            for (at, who) in report.whos.iter().enumerate() {
                for kind in ProfileKind::ALL {
                    let own = report
                        .entries
                        .iter()
                        .filter(|entry| entry.who as usize == at && entry.kind == kind);
                    let (samples, ns) = own.fold((0u64, 0u64), |(samples, ns), entry| {
                        let samples = samples.saturating_add(entry.samples);
                        (samples, ns.saturating_add(entry.ns))
                    });
                    if samples == 0 && ns == 0 {
                        continue;
                    }
                    lines.line(&[
                        cell_text(&part.name),
                        kind.name().to_owned(),
                        one_line(&who.process),
                        one_line(&who.role),
                        one_line(who.thread.as_deref().unwrap_or_default()),
                        one_line(who.digest.as_deref().unwrap_or_default()),
                        samples.to_string(),
                        ns.to_string(),
                    ]);
                }
            }
        }
        lines.text
    }

    /// The only profile as it was written, or all of them by their names.
    pub fn json(&self) -> Value {
        match self.parts.as_slice() {
            [only] => json!(only.report),
            parts => {
                let named = parts
                    .iter()
                    .map(|part| (part.name.clone(), json!(part.report)));
                Value::Object(named.collect())
            }
        }
    }
}

/// A sentence about one of several profiles.
fn of_part(part: &ProfilePart, note: &str) -> String {
    match part.name.as_str() {
        "" => note.to_owned(),
        name => format!("{}: {note}", short(name)),
    }
}

/// The samples beside the kernel's own accounts, a sentence a process.
fn accounted(report: &ProfileReport) -> Vec<String> {
    let sampled = groups(report, |who| Some(&who.process));
    let words = report.processes.iter().filter_map(|process| {
        let accounted = process.cpu_ns?;
        let own = sampled.iter().find(|group| group.name == process.process);
        let sampled = own.map_or(0, |group| group.of(ProfileKind::OnCpu).ns);
        Some(format!(
            "{} spent {} s on CPU by the kernel's accounts, {} s by the samples.",
            short(&process.process),
            plain(accounted as f64 / 1e9, 2),
            plain(sampled as f64 / 1e9, 2),
        ))
    });
    words.collect()
}

/// A name without what would begin another line.
fn one_line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if is_harmful(c) { ' ' } else { c })
        .collect();
    cell_text(&text)
}

/// A profile in a sentence.
pub(super) fn headline(report: &ProfileReport) -> String {
    let totals = totals(report);
    let kind = ProfileKind::ALL
        .into_iter()
        .find(|kind| totals.contains_key(kind));
    let Some((kind, total)) = kind.map(|kind| (kind, totals[&kind])) else {
        return "Nothing was sampled.".to_owned();
    };
    let share = |ns: u64| format!("{}%", plain(100.0 * ns as f64 / total.ns.max(1) as f64, 1));
    let processes = match report.process_names().as_slice() {
        [] => "The process".to_owned(),
        [one] => short(one),
        [one, two] => format!("{} and {}", short(one), short(two)),
        all => format!("{} and {} other processes", short(all[0]), all.len() - 1),
    };
    let mut said = format!(
        "{processes} spent {} s {} in {}",
        plain(total.ns as f64 / 1e9, 2),
        kind.words(),
        seconds(report.duration_s()),
    );
    let roles = groups(report, role_name);
    let most = roles.iter().max_by_key(|role| role.of(kind).ns);
    if let Some(role) = most.filter(|role| roles.len() > 1 && role.of(kind).ns > 0) {
        let part = share(role.of(kind).ns);
        said.push_str(&format!(", {part} of it in the role {}", short(&role.name)));
    }
    if let Some(function) = functions(report, kind).first() {
        let part = share(function.self_ns);
        let name = short(&function.name);
        said.push_str(&format!(
            "; the function with most time of its own is {name} ({part})"
        ));
    }
    said + "."
}

/// What is missing, in a sentence; none if nothing is.
pub(super) fn lost_words(report: &ProfileReport) -> Option<String> {
    let lost = &report.lost;
    let mut parts: Vec<String> = [
        (lost.samples, "samples did not arrive"),
        (lost.stacks, "samples have no stack"),
        (lost.truncated, "stacks lack their outermost calls"),
        (lost.unknown_frames, "calls have no name"),
    ]
    .into_iter()
    .filter(|(many, _)| *many > 0)
    .map(|(many, what)| format!("{} {what}", count(many)))
    .collect();
    let causes: Vec<String> = lost
        .by_cause
        .iter()
        .filter(|(_, many)| **many > 0)
        .map(|(cause, many)| format!("{} {}", count(*many), short(cause)))
        .collect();
    if !causes.is_empty() {
        parts.push(format!("in detail: {}", causes.join(", ")));
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}

/// Which name a table is by.
type Name = fn(&ProfileWho) -> Option<&str>;

pub(super) fn role_name(who: &ProfileWho) -> Option<&str> {
    Some(&who.role)
}

pub(super) fn digest_name(who: &ProfileWho) -> Option<&str> {
    who.digest.as_deref()
}

fn function_grid(report: &ProfileReport, kind: ProfileKind) -> String {
    let all = functions(report, kind);
    let whole = totals(report).get(&kind).map_or(0, |total| total.ns);
    let mut grid = Grid::new(&titles(&[
        "function", "self %", "self s", "total %", "total s", "module",
    ]));
    for sum in all.iter().take(ROWS) {
        grid.row(&cells(sum, whole));
    }
    let more = all.len().saturating_sub(ROWS);
    match more {
        0 => grid.text(),
        _ => format!("{}\nThe first {ROWS} of {}.\n", grid.text(), all.len()),
    }
}

/// Function, own share and time, whole share and time, module.
pub(super) fn cells(sum: &FunctionSum, whole_ns: u64) -> [String; 6] {
    let share = |ns: u64| plain(100.0 * ns as f64 / whole_ns.max(1) as f64, 1);
    let time = |ns: u64| plain(ns as f64 / 1e9, 3);
    [
        short(&sum.name),
        share(sum.self_ns),
        time(sum.self_ns),
        share(sum.total_ns),
        time(sum.total_ns),
        short(&sum.module),
    ]
}

fn group_grid(report: &ProfileReport, what: &str, name: Name) -> Option<String> {
    let all = groups(report, name);
    if all.is_empty() {
        return None;
    }
    let mut columns = vec![what.to_owned()];
    let kinds: Vec<ProfileKind> = totals(report).into_keys().collect();
    for kind in &kinds {
        columns.push(format!("{} s", kind.words()));
    }
    let mut grid = Grid::new(&columns);
    for group in all.iter().take(ROWS) {
        let mut row = vec![statement_words(report, &group.name, NAME_CHARS_MAX)];
        for kind in &kinds {
            row.push(plain(group.of(*kind).ns as f64 / 1e9, 3));
        }
        grid.row(&row);
    }
    Some(grid.text())
}

/// A name on one line, of a length that can be read.
pub(super) fn short(name: &str) -> String {
    let tame = name.chars().map(|c| if is_harmful(c) { ' ' } else { c });
    let mut text: String = tame.take(NAME_CHARS_MAX).collect();
    if name.chars().nth(NAME_CHARS_MAX).is_some() {
        text.push('…');
    }
    text
}
