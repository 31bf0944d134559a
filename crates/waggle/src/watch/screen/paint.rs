//! One frame: the heading, the page, the keys. Neighbours: a file a page.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use waggle_report::quantity;

use super::state::{Page, State};
use super::{host, load, locks, statement, statements};

/// Paints everything.
pub(super) fn paint(frame: &mut Frame<'_>, state: &State) {
    let news = u16::try_from(state.news.len()).unwrap_or(0);
    let [head, body, told, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(news),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    heading(frame, head, state);
    match state.page {
        Page::Help => help(frame, body),
        _ if state.server().is_none() && state.page != Page::Host => waiting(frame, body, state),
        Page::Load => overview(frame, body, state),
        Page::Statement => statement::paint(frame, body, state),
        Page::Locks => locks::paint(frame, body, state),
        Page::Host => host::paint(frame, body, state),
    }
    let lines: Vec<Line<'_>> = state
        .news
        .iter()
        .map(|line| Line::from(line.as_str()).dim())
        .collect();
    frame.render_widget(Paragraph::new(lines), told);
    footer(frame, keys, state);
}

/// A latency in us, to three digits.
pub(super) fn latency(us: f64) -> String {
    let (value, unit) = match us {
        ..1e3 => (us, "us"),
        ..1e6 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    match value {
        ..10.0 => format!("{value:.2} {unit}"),
        ..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A frame with a title.
pub(super) fn titled(title: impl Into<String>) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().dim())
        .title(format!(" {} ", title.into()).bold())
}

fn heading(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(view) = &state.view else {
        let text = "waggle watch: waiting for the first interval";
        frame.render_widget(Paragraph::new(text), area);
        return;
    };
    let lost: u64 = view.servers.iter().flat_map(|s| &s.lost).map(|l| l.1).sum();
    let captured: u64 = view.servers.iter().map(|s| s.captured).sum();
    let mut first = vec![
        Span::from("waggle watch").bold(),
        Span::from(format!(
            "  {}  {}  every {}  {} captured, ",
            view.host_name,
            quantity::seconds(state.elapsed.as_secs_f64().floor()),
            quantity::seconds(state.interval.as_secs_f64()),
            quantity::count(captured),
        )),
    ];
    let lost_text = format!("{} lost", quantity::count(lost));
    first.push(match lost {
        0 => Span::from(lost_text),
        _ => Span::from(lost_text).bold().fg(Color::Red),
    });
    if !view.own.shed.is_empty() {
        let shed = format!("  shed: {}", view.own.shed.join(", "));
        first.push(Span::from(shed).fg(Color::Yellow));
    }
    if state.paused {
        first.push(Span::from("  PAUSED").bold().fg(Color::Yellow));
    }
    let second = servers_line(state);
    frame.render_widget(Paragraph::new(vec![Line::from(first), second]), area);
}

/// Every server in a few words, the shown one marked.
fn servers_line(state: &State) -> Line<'static> {
    let shown = state.server().map(|server| server.id);
    let mut spans = Vec::new();
    let servers = state.view.iter().flat_map(|view| &view.servers);
    for server in servers {
        let rate = state.rates.get(&server.id);
        let figures = match (&server.ended, rate) {
            (Some(why), _) => format!("{why}"),
            (None, Some(rate)) => format!(
                "{} stmts/s, load {:.2}{}",
                quantity::count(rate.per_second as u64),
                rate.load.total(),
                match rate.lost {
                    0 => String::new(),
                    lost => format!(", {} lost now", quantity::count(lost)),
                }
            ),
            (None, None) => String::new(),
        };
        let text = format!(
            "{} {} {}: {figures}",
            server.flavour, server.version, server.instance
        );
        spans.push(match shown == Some(server.id) {
            true => Span::from(text).bold(),
            false => Span::from(text).dim(),
        });
        spans.push(Span::from("   "));
    }
    Line::from(spans)
}

fn waiting(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let text = match state.view {
        None => "The first figures come after one interval.",
        Some(_) => "No MySQL or MariaDB server is watched yet; waiting for one.",
    };
    frame.render_widget(Paragraph::new(text), area);
}

fn overview(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let waits = state.server().map_or(0, |server| server.waits.len());
    // The tree takes what it needs, up to a third; charts give way on small terminals.
    let tree = match waits {
        0 => 0,
        some => u16::try_from(some + 2)
            .unwrap_or(u16::MAX)
            .min(area.height / 3),
    };
    let chart = match area.height {
        0..=15 => 0,
        16..=30 => 7,
        _ => 12,
    };
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(chart),
        Constraint::Min(4),
        Constraint::Length(tree),
    ])
    .areas(area);
    if chart > 0 {
        load::paint(frame, top, state);
    }
    statements::paint(frame, middle, state);
    if tree > 0 {
        locks::paint(frame, bottom, state);
    }
}

fn footer(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let keys: &[(&str, &str)] = match state.page {
        Page::Load => &[
            ("↑↓", "select"),
            ("Enter", "statement"),
            ("s", "sort"),
            ("l", "locks"),
            ("h", "host"),
            ("n", "next server"),
            ("p", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
        Page::Help => &[("Esc", "back"), ("q", "quit")],
        _ => &[
            ("Esc", "back"),
            ("↑↓", "scroll"),
            ("p", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
    };
    let mut spans = Vec::new();
    for (key, what) in keys {
        spans.push(Span::from(format!(" {key} ")).reversed());
        spans.push(Span::from(format!(" {what}  ")));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let text = "\
Load is the number of sessions that do something, averaged over the interval: the time that
statements took, by what their threads did, divided by the time that passed. Its parts add up:
cpu, runnable (ready, but no processor free), each class of wait, and unclassified (time that the
source could not split).

  ↑ ↓ j k PageUp PageDown Home   select a statement, or scroll
  Enter →                        the page of the selected statement
  Esc ←                          back
  s                              sort by load, statements a second, mean, errors, rows examined
  l                              locks: who waits for whom, and deadlocks
  h                              the host and the server's process
  n Tab                          the next server
  p Space                        pause: the figures stand still, watching goes on
  q Ctrl-C                       quit; a final report follows

Statements are without literals. Mean and rows examined are of the interval; percentiles on a
statement's page are since watching began.";
    frame.render_widget(Paragraph::new(text).block(titled("help")), area);
}
