//! The report for people: the verdict, the kernel, a block a server; at most 100 columns.

use std::fmt::Write;

use waggle_foreign::Printable;
use waggle_probes::capability::{Fact, Facts, Kernel};
use waggle_report::host::HostFacts;
use waggle_report::table::WIDTH;
use waggle_symbols::{Field, Hook, Location, Site, Source, TrapCost};

use super::servers::{NO_FIELD, NO_SITE, PROBE, Server};
use super::{Report, Verdict};

/// Columns before the text of an item: mark and label.
const LABEL: usize = 19;
const INDENT: usize = 2 + 4 + LABEL + 1;

/// The whole report.
pub(super) fn render(report: &Report) -> String {
    let mut text = verdict(&report.can_watch);
    text.push('\n');
    kernel(&mut text, &report.kernel, &report.host);
    for server in &report.servers {
        text.push('\n');
        block(&mut text, server, report.unreadable.is_empty());
    }
    if report.servers.is_empty() {
        text.push_str("\nservers: none found\n");
    }
    for (index, hidden) in report.unreadable.iter().enumerate() {
        if index == 0 {
            text.push_str("\nprocesses named like servers\n");
        }
        let label = format!("pid {}", hidden.pid);
        item(&mut text, "?", &label, &hidden.reason, Some(hidden.remedy));
    }
    text
}

fn verdict(verdict: &Verdict) -> String {
    let answer = if verdict.ok { "yes," } else { "no, because" };
    let line = format!(
        "this host can watch statements: {answer} {}",
        verdict.reason
    );
    let mut text = wrapped(&line, 0, 2);
    if let Some(remedy) = &verdict.remedy {
        text.push_str("  ");
        text.push_str(&wrapped(&format!("try: {remedy}"), 2, 7));
    }
    text
}

fn kernel(text: &mut String, kernel: &Kernel, host: &HostFacts) {
    let cores = host.cores.map(|n| format!("{n} processors"));
    let parts = [
        Some(host.architecture.clone()),
        cores,
        host.cpu_model.clone(),
    ];
    let parts = parts
        .into_iter()
        .flatten()
        .chain(host.virtualisation.clone());
    let parts: Vec<String> = parts.collect();
    let line = format!("kernel {}  {}", kernel.release, parts.join(", "));
    text.push_str(&wrapped(&line, 0, 2));

    fact(text, &kernel.statement_probe);
    for setting in &kernel.settings.0 {
        fact(text, setting);
    }
    group(text, "hooks", &kernel.hooks);
    group(text, "program_types", &kernel.program_types);
    group(text, "map_types", &kernel.map_types);
    group(text, "helpers", &kernel.helpers);
    group(text, "counters", &kernel.counters);
    fact(text, &kernel.cgroups.fact);
}

/// What stands in front of an answer; capitals where watching is at stake.
fn mark(fact: &Fact) -> &'static str {
    match (fact.ok, fact.needed) {
        (Some(true), _) => "ok",
        (Some(false), true) => "NO",
        (Some(false), false) => "no",
        (None, _) => "?",
    }
}

fn fact(text: &mut String, fact: &Fact) {
    let said = fact
        .value
        .as_deref()
        .or(fact.reason.as_deref())
        .unwrap_or_default();
    let label = fact.name.trim_end_matches("_disabled").replace('_', " ");
    item(text, mark(fact), &label, said, fact.remedy.as_deref());
}

/// Facts of one kind: those that are fine in one item, the others by reason.
fn group(text: &mut String, label: &str, facts: &Facts) {
    let label = label.replace('_', " ");
    if let [first, rest @ ..] = facts.0.as_slice()
        && first.ok.is_none()
        && rest
            .iter()
            .all(|fact| fact.ok.is_none() && fact.reason == first.reason)
    {
        let why = first.reason.as_deref().unwrap_or_default();
        return item(
            text,
            "?",
            &label,
            &format!("all {}: {why}", facts.0.len()),
            None,
        );
    }
    let mut shown: Vec<(&str, Option<&str>)> = Vec::new();
    for fact in &facts.0 {
        let kind = (mark(fact), fact.reason.as_deref());
        if shown.contains(&kind) {
            continue;
        }
        shown.push(kind);
        let alike = facts
            .0
            .iter()
            .filter(|f| (mark(f), f.reason.as_deref()) == kind);
        let names = alike.map(|fact| fact.name).collect::<Vec<_>>().join(" ");
        let said = match fact.reason.as_deref() {
            Some(reason) => format!("{names}: {reason}"),
            None => names,
        };
        item(text, mark(fact), &label, &said, fact.remedy.as_deref());
    }
}

fn item(text: &mut String, mark: &str, label: &str, said: &str, remedy: Option<&str>) {
    let head = format!("  {mark:<3} {label:<LABEL$} ");
    text.push_str(&head);
    text.push_str(&wrapped(said, head.chars().count(), INDENT));
    if let Some(remedy) = remedy {
        text.push_str(&" ".repeat(INDENT));
        text.push_str(&wrapped(&format!("try: {remedy}"), INDENT, INDENT + 5));
    }
}

fn block(text: &mut String, server: &Server, all_seen: bool) {
    let version = server.version.as_deref().unwrap_or("of unknown version");
    let _ = writeln!(
        text,
        "{} {version}  {}",
        server.flavour,
        Printable::of_path(&server.binary)
    );
    item(text, "", "process", &processes(server, all_seen), None);
    let build = server.build_id.as_deref().unwrap_or("none in the file");
    let symbols = match server.stripped {
        Some(true) => ", stripped",
        Some(false) => ", with its full symbol table",
        None => "",
    };
    item(text, "", "build id", &format!("{build}{symbols}"), None);
    match &server.probes.0 {
        Ok(site) => {
            let cost = match site.trap {
                TrapCost::Emulated => "emulated (one trap)",
                TrapCost::SingleStepped => {
                    "single-stepped (two traps; up to twenty times dearer in a virtual machine)"
                }
            };
            let said = format!(
                "{}+{:#x} `{}`, {cost}, THD in {}",
                site.function, site.function_offset, site.instruction, site.register
            );
            item(text, "ok", PROBE, &said, None);
        }
        Err(why) => item(text, "NO", PROBE, why, Some(NO_SITE)),
    }
    hooks(text, &server.probes.1);
    fields(text, &server.fields.0);
}

/// Which of the functions that tell of waits, locks and commits the build has, and which not.
fn hooks(text: &mut String, hooks: &[(Hook, Result<Site, String>)]) {
    let (here, absent): (Vec<_>, Vec<_>) = hooks.iter().partition(|(_, found)| found.is_ok());
    if hooks.is_empty() {
        return;
    }
    let names = |of: &[&(Hook, _)]| {
        let names: Vec<&str> = of.iter().map(|(hook, _)| hook.as_str()).collect();
        names.join(", ")
    };
    let stepped: Vec<_> = here
        .iter()
        .copied()
        .filter(|(_, found)| matches!(found, Ok(site) if site.trap == TrapCost::SingleStepped))
        .collect();
    let mut said = names(&here);
    if !stepped.is_empty() {
        let _ = write!(said, "; single-stepped: {}", names(&stepped));
    }
    if !absent.is_empty() {
        let _ = write!(said, "; not in this build: {}", names(&absent));
    }
    let mark = if here.is_empty() { "no" } else { "ok" };
    item(text, mark, "waits and locks", &said, None);
}

fn processes(server: &Server, all_seen: bool) -> String {
    if server.pids.is_empty() {
        let seen = if all_seen {
            "not running"
        } else {
            "none that may be looked into"
        };
        return seen.to_owned();
    }
    let pids: Vec<String> = server.pids.iter().map(u32::to_string).collect();
    let mut said = format!("pid {}", pids.join(" "));
    if let Some(root) = &server.root {
        let _ = write!(said, ", root directory {}", Printable::of_path(root));
    }
    if server.replaced {
        said.push_str(", program file replaced since the start (an upgrade awaits its restart)");
    }
    said
}

/// Where the fields are: together if the table has them all, else a line each.
fn fields(text: &mut String, fields: &[Field]) {
    let found: Vec<(&Field, &Location, &Source)> = fields
        .iter()
        .filter_map(|f| f.found.as_ref().ok().map(|(at, source)| (f, at, source)))
        .collect();
    let whys: Vec<&String> = fields
        .iter()
        .filter_map(|f| f.found.as_ref().err())
        .collect();
    let head = format!("{} of {} fields", found.len(), fields.len());
    if whys.is_empty() && found.iter().all(|(.., source)| **source == Source::Table) {
        let said = "by the table of known builds, checked against live statements";
        item(text, "ok", &head, said, None);
        let cell = |&(field, at, _): &(&Field, &Location, &Source)| {
            (field.name.as_str().to_owned(), at.to_string())
        };
        text.push_str(&columns(&found.iter().map(cell).collect::<Vec<_>>()));
        return;
    }
    if let [why, rest @ ..] = whys.as_slice()
        && found.is_empty()
        && rest.iter().all(|other| other == why)
    {
        return item(text, "NO", &head, why, None);
    }
    let mark = if whys.is_empty() { "ok" } else { "no" };
    let said = "by decoding this very file: its build is not in the table";
    let remedy = (!whys.is_empty()).then_some(NO_FIELD);
    item(text, mark, &head, said, remedy);
    let width = found
        .iter()
        .map(|(_, at, _)| at.to_string().len())
        .max()
        .unwrap_or(0);
    for field in fields {
        let (mark, said) = match &field.found {
            Ok((at, source)) => ("ok", format!("{:<width$}  {source}", at.to_string())),
            Err(why) => ("no", why.clone()),
        };
        item(
            text,
            mark,
            &format!("  {}", field.name.as_str()),
            &said,
            None,
        );
    }
}

/// Pairs of name and value in as many columns as fit, read downwards.
fn columns(cells: &[(String, String)]) -> String {
    const MARGIN: usize = 6;
    let layout = |count: usize| {
        let rows = cells.len().div_ceil(count).max(1);
        let widths: Vec<(usize, usize)> = cells
            .chunks(rows)
            .map(|column| {
                let widest = |part: fn(&(String, String)) -> &String| {
                    column
                        .iter()
                        .map(|cell| part(cell).len())
                        .max()
                        .unwrap_or(0)
                };
                (widest(|cell| &cell.0), widest(|cell| &cell.1))
            })
            .collect();
        let total: usize = MARGIN
            + widths
                .iter()
                .map(|(name, value)| name + value + 4)
                .sum::<usize>();
        (rows, widths, total)
    };
    let fitting = [3, 2]
        .into_iter()
        .map(layout)
        .find(|(.., total)| *total - 3 <= WIDTH);
    let (rows, widths, _) = fitting.unwrap_or_else(|| layout(1));
    let mut text = String::new();
    for row in 0..rows {
        let mut line = " ".repeat(MARGIN);
        for (column, (name_width, value_width)) in widths.iter().enumerate() {
            if let Some((name, value)) = cells.get(column * rows + row) {
                let _ = write!(line, "{name:<name_width$} {value:<value_width$}   ");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Breaks `text` at blanks: the first line begins at column `used`, the others at `indent`.
fn wrapped(text: &str, used: usize, indent: usize) -> String {
    let mut lines = String::new();
    let mut at = used;
    let mut is_first = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if is_first {
            is_first = false;
        } else if at + 1 + length > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            at = indent;
        } else {
            lines.push(' ');
            at += 1;
        }
        lines.push_str(word);
        at += length;
    }
    lines.truncate(lines.trim_end().len());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_hundredth_column() {
        let words = "word ".repeat(60);
        let text = wrapped(words.trim_end(), 26, 26);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with(&" ".repeat(26))),
            "{text}"
        );
        assert_eq!(text.split_whitespace().count(), 60);
        assert_eq!(wrapped("", 0, 2), "\n");
    }

    #[test]
    fn columns_are_read_downwards() {
        let cell = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let cells = [
            cell("a", "1"),
            cell("bb", "22"),
            cell("c", "3"),
            cell("d", "4"),
        ];
        assert_eq!(columns(&cells), "      a  1    c 3\n      bb 22   d 4\n");
        assert_eq!(columns(&[]), "      \n".trim_start_matches(' '));
        let wide = [cell("a", &"x".repeat(90)), cell("b", "y")];
        assert_eq!(columns(&wide).lines().count(), 2);
    }
}
