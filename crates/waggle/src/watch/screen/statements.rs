//! The table of statements of the last interval.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::interval::DigestRate;
use super::load::bar;
use super::paint::{latency, titled};
use super::state::State;

/// Cells of a load bar.
const BAR: usize = 12;

/// Paints the table.
pub(super) fn paint(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(server) = state.server() else { return };
    let list = state.statements();
    let most = list.iter().map(|d| d.load.total()).fold(0.0, f64::max);
    let at = list.iter().position(|d| Some(d.key) == state.selected);
    let text_of = |key: u64| {
        let digest = server.digests.iter().find(|d| d.key == key);
        digest.map_or("", |d| &*d.fingerprint)
    };
    let rows = list.iter().map(|rate| row(rate, most, text_of(rate.key)));
    let widths = [
        Constraint::Length(6),
        Constraint::Length(BAR as u16),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Min(20),
    ];
    let heading = Row::new([
        "load",
        "",
        "stmts/s",
        "mean",
        "examined",
        "err/s",
        "statement",
    ])
    .style(Style::new().bold());
    let title = format!(
        "statements of the last interval by {}: {}",
        state.order.name(),
        list.len()
    );
    let table = Table::new(rows, widths)
        .header(heading)
        .block(titled(title))
        .row_highlight_style(Style::new().reversed());
    let mut selection = TableState::new().with_selected(at);
    frame.render_stateful_widget(table, area, &mut selection);
}

fn row(rate: &DigestRate, most: f64, text: &str) -> Row<'static> {
    let right = |text: String| Cell::from(Line::from(text).right_aligned());
    let errors = match rate.errors_per_second {
        0.0 => String::new(),
        some => format!("{some:.1}"),
    };
    Row::new([
        right(format!("{:.2}", rate.load.total())),
        Cell::from(Line::from(bar(&rate.load, most, BAR))),
        right(format!("{:.1}", rate.per_second)),
        right(latency(rate.mean_us)),
        right(
            rate.examined
                .map_or("-".to_owned(), |rows| format!("{rows:.1}")),
        ),
        right(errors),
        Cell::from(text.to_owned()),
    ])
}
