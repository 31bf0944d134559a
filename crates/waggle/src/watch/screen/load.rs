//! Load over time: a column an interval, stacked by what sessions did.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::interval::{Load, PARTS, part_name};
use super::paint::titled;
use super::state::State;

/// Less load than this is not named, sessions.
const NAMED_MIN: f64 = 0.005;
/// Columns of the legend.
const LEGEND: u16 = 24;

/// The colour of a part. Locks are warm, disks are blue, processors green.
pub(super) fn colour(part: usize) -> Color {
    const COLOURS: [Color; PARTS] = [
        Color::Green,        // cpu
        Color::LightGreen,   // runnable
        Color::Red,          // row lock
        Color::LightRed,     // metadata lock
        Color::Magenta,      // table lock
        Color::Yellow,       // redo
        Color::LightYellow,  // binary log
        Color::Blue,         // disk read
        Color::LightBlue,    // disk write
        Color::Cyan,         // network write
        Color::LightCyan,    // network read
        Color::LightMagenta, // latch
        Color::Gray,         // sleep
        Color::DarkGray,     // other
        Color::White,        // unclassified
    ];
    COLOURS[part]
}

/// Paints chart and legend.
pub(super) fn paint(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(server) = state.server() else { return };
    let Some(history) = state.history.get(&server.id) else {
        return;
    };
    let loads: Vec<Load> = history.load.iter().copied().collect();
    let block = titled("load: average active sessions");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [axis, chart, legend] = Layout::horizontal([
        Constraint::Length(7),
        Constraint::Min(10),
        Constraint::Length(LEGEND),
    ])
    .areas(inner);
    let shown = &loads[loads.len().saturating_sub(chart.width.into())..];
    let top = ceiling(shown.iter().map(Load::total).fold(0.0, f64::max));
    paint_axis(frame, axis, top);
    for (column, load) in shown.iter().enumerate() {
        let x = chart.x + u16::try_from(column).unwrap_or(0);
        paint_column(frame, chart, x, load, top);
    }
    paint_legend(frame, legend, loads.last().copied().unwrap_or_default());
}

/// A round number not below `load`, sessions.
fn ceiling(load: f64) -> f64 {
    let mut step = 0.1;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if load <= step * factor {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

fn paint_axis(frame: &mut Frame<'_>, area: Rect, top: f64) {
    let mut lines = vec![Line::default(); area.height.into()];
    let label = |value: f64| Line::from(format!("{value:>6.1} ")).dim();
    if let Some(first) = lines.first_mut() {
        *first = label(top);
    }
    if area.height > 2
        && let Some(last) = lines.last_mut()
    {
        *last = label(0.0);
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// One column from the bottom up, in eighths of a cell; a cell with two parts shows the lower one
/// on the ground of the upper one.
fn paint_column(frame: &mut Frame<'_>, area: Rect, x: u16, load: &Load, top: f64) {
    const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let mut edges = Vec::with_capacity(PARTS);
    let mut sum = 0.0;
    for (part, value) in load.0.iter().enumerate() {
        sum += value;
        edges.push((sum / top * f64::from(area.height), part));
    }
    let part_at = |height: f64| edges.iter().find(|(edge, _)| height < *edge).map(|e| e.1);
    for row in 0..area.height {
        let bottom = f64::from(row);
        let Some(lower) = part_at(bottom + 1.0 / 16.0) else {
            break;
        };
        let filled = (edges[lower].0 - bottom).min(1.0);
        let eighths = (filled * 8.0).round().clamp(1.0, 8.0) as usize;
        let above = part_at(bottom + filled + 1.0 / 16.0).filter(|_| eighths < 8);
        let mut style = Style::new().fg(colour(lower));
        if let Some(upper) = above {
            style = style.bg(colour(upper));
        }
        let y = area.bottom() - 1 - row;
        if let Some(cell) = frame.buffer_mut().cell_mut((x, y)) {
            cell.set_symbol(EIGHTHS[eighths]).set_style(style);
        }
    }
}

fn paint_legend(frame: &mut Frame<'_>, area: Rect, load: Load) {
    let mut lines = vec![Line::from(format!(" {:>8.2} in all", load.total())).bold()];
    let mut parts: Vec<(usize, f64)> = load.0.iter().copied().enumerate().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (part, value) in parts.into_iter().filter(|(_, value)| *value >= NAMED_MIN) {
        lines.push(Line::from(vec![
            Span::from(" █").fg(colour(part)),
            Span::from(format!("{value:>7.2} {}", part_name(part))),
        ]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A bar of `width` cells for `load` of `most`, coloured by part.
pub(super) fn bar(load: &Load, most: f64, width: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (part, value) in load.0.iter().enumerate() {
        sum += value;
        let until = (sum / most.max(1e-9) * width as f64).round() as usize;
        let until = until.min(width);
        if until > drawn {
            spans.push(Span::from("█".repeat(until - drawn)).fg(colour(part)));
            drawn = until;
        }
    }
    spans.push(Span::from(" ".repeat(width - drawn)));
    spans
}
