//! Who waits for whom now, and the latest deadlocks.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use waggle_agent::locks::tree;

use super::paint::titled;
use super::state::{Page, State};

/// Paints the tree; on a page of its own with the deadlocks below.
pub(super) fn paint(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(server) = state.server() else { return };
    let mut lines: Vec<Line<'static>> = tree(&server.waits)
        .iter()
        .map(|line| match line.depth {
            0 => Line::from(line.to_string()).fg(Color::Red),
            _ => Line::from(line.to_string()),
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::from("Nobody waits for a lock."));
    }
    let mut title = format!("locks: {} waiting", server.waits.len());
    if state.page == Page::Locks {
        let [row, metadata, table] = server.waits_ended.map(|(count, _)| count);
        title.push_str(&format!(
            "; ended so far: {row} row, {metadata} metadata, {table} table; {} deadlocks",
            server.deadlock_count
        ));
        for deadlock in server.deadlocks.iter().rev() {
            lines.push(Line::default());
            lines.push(Line::from("deadlock, newest first").bold());
            for party in &deadlock.cycle {
                let is_victim = party.connection_id == deadlock.victim.connection_id;
                let name = party
                    .connection_id
                    .map_or("unknown".to_owned(), |id| id.to_string());
                let mark = if is_victim { " rolled back" } else { "" };
                let text = format!("   {name} {}{mark}: {}", party.user, party.fingerprint);
                lines.push(Line::from(text));
            }
        }
    }
    let scroll = match state.page {
        Page::Locks => state.scroll.min(lines.len().saturating_sub(1)),
        _ => 0,
    };
    let scroll = u16::try_from(scroll).unwrap_or(u16::MAX);
    let paragraph = Paragraph::new(lines).scroll((scroll, 0));
    frame.render_widget(paragraph.block(titled(title)), area);
}
