//! The host and the server's process between the last two views; load by user, database, client.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use waggle_agent::host::ProcessSample;
use waggle_report::quantity;

use super::paint::titled;
use super::state::State;
use crate::watch::report;

/// Paints the page.
pub(super) fn paint(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(view) = &state.view else { return };
    let mut lines = Vec::new();
    if let Some(before) = &state.before
        && let Some(text) = report::host_line(view, before)
    {
        lines.extend(
            text.trim_end()
                .split("; ")
                .map(|part| Line::from(part.to_owned())),
        );
    }
    if let Some(host) = &view.host {
        let [one, five, fifteen] = host.load;
        lines.push(Line::from(format!(
            "load average {one:.2}, {five:.2}, {fifteen:.2}; {} tasks wait for a disk",
            host.blocked
        )));
    }
    if lines.is_empty() {
        lines.push(Line::from("The first figures come after two intervals."));
    }
    let rows = u16::try_from(lines.len() + 2).unwrap_or(8);
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(rows),
        Constraint::Length(7),
        Constraint::Min(4),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(lines).block(titled("host")), top);
    frame.render_widget(
        Paragraph::new(process(state)).block(titled("server's process")),
        middle,
    );
    dimensions(frame, bottom, state);
}

fn process(state: &State) -> Vec<Line<'static>> {
    let server = state.server();
    let Some((server, now)) = server.and_then(|s| s.process.as_ref().map(|p| (s, p))) else {
        return vec![Line::from("not known")];
    };
    let before = state.before.as_ref().and_then(|view| {
        let former = view.servers.iter().find(|s| s.id == server.id)?;
        Some((view.time_ns, former.process.as_ref()?))
    });
    let mut lines = vec![Line::from(format!(
        "process {}: {} resident, {} threads, {} open files",
        server.pid,
        quantity::bytes(now.rss_bytes),
        now.threads,
        now.files
    ))];
    let time_ns = state.view.as_ref().map_or(0, |view| view.time_ns);
    if let Some((then_ns, then)) = before
        && time_ns > then_ns
    {
        lines.extend(process_rates(now, then, (time_ns - then_ns) as f64 / 1e9));
    }
    lines
}

fn process_rates(now: &ProcessSample, then: &ProcessSample, seconds: f64) -> [Line<'static>; 2] {
    let share = |now: f64, then: f64| (now - then) / seconds * 100.0;
    let bytes =
        |now: u64, then: u64| quantity::bytes((now.saturating_sub(then) as f64 / seconds) as u64);
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    [
        Line::from(format!(
            "{:.0}% user, {:.0}% system, {:.0}% ready but not running (of one processor)",
            share(now.cpu_s.0, then.cpu_s.0),
            share(now.cpu_s.1, then.cpu_s.1),
            share(now.runqueue_s, then.runqueue_s),
        )),
        Line::from(format!(
            "storage {}/s read, {}/s written; {:.0} context switches/s, {:.0} of them forced",
            bytes(now.storage_bytes.0, then.storage_bytes.0),
            bytes(now.storage_bytes.1, then.storage_bytes.1),
            rate(
                now.switches.0 + now.switches.1,
                then.switches.0 + then.switches.1
            ),
            rate(now.switches.1, then.switches.1),
        )),
    ]
}

fn dimensions(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rate = state
        .server()
        .and_then(|server| state.rates.get(&server.id));
    let columns = Layout::horizontal([Constraint::Ratio(1, 3); 3]).split(area);
    let names = ["load by user", "load by database", "load by client host"];
    for (at, name) in names.into_iter().enumerate() {
        let list = rate.map_or(&[][..], |rate| &rate.dimensions[at]);
        let lines: Vec<Line<'_>> = list
            .iter()
            .map(|(name, load)| {
                let name: &str = if name.is_empty() { "(none)" } else { name };
                Line::from(vec![
                    Span::from(format!("{load:>7.2} ")).bold(),
                    name.into(),
                ])
            })
            .collect();
        frame.render_widget(Paragraph::new(lines).block(titled(name)), columns[at]);
    }
}
