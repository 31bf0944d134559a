//! One statement's page: its text, where its time goes, its figures.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};
use waggle_agent::view::DigestView;
use waggle_report::quantity;

use super::interval::{DigestRate, part_name};
use super::load::colour;
use super::paint::{latency as duration, titled};
use super::state::State;

/// Less of a statement's time than this is not named.
const SHARE_MIN: f64 = 0.001;
/// Cells of the widest bar.
const BAR: f64 = 40.0;

/// Paints the page.
pub(super) fn paint(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let server = state.server();
    let digest = server.and_then(|server| {
        let mut digests = server.digests.iter();
        digests.find(|d| Some(d.key) == state.selected)
    });
    let (Some(server), Some(digest)) = (server, digest) else {
        let text = "This statement is in the table no more: it was idle and made room for others.";
        frame.render_widget(Paragraph::new(text), area);
        return;
    };
    let rates = state.rates.get(&server.id);
    let rate = rates.and_then(|r| r.digests.iter().find(|d| d.key == digest.key));
    let [text, figures, past] = Layout::vertical([
        Constraint::Length((area.height / 3).clamp(4, 10)),
        Constraint::Min(6),
        Constraint::Length(5),
    ])
    .areas(area);
    let title = format!("statement {}", digest.digest);
    let shown = Paragraph::new(&*digest.fingerprint)
        .wrap(Wrap { trim: false })
        .scroll((u16::try_from(state.scroll).unwrap_or(u16::MAX), 0))
        .block(titled(title));
    frame.render_widget(shown, text);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(figures);
    frame.render_widget(Paragraph::new(facts(digest, rate)), left);
    let time = Paragraph::new(time(rate)).block(titled("where its time went, last interval"));
    frame.render_widget(time, right);
    let history = state.history.get(&server.id);
    let points: Vec<u64> = history
        .iter()
        .flat_map(|history| &history.selected)
        .map(|(_, mean_us)| *mean_us as u64)
        .collect();
    let width = usize::from(past.width);
    let line = Sparkline::default()
        .data(&points[points.len().saturating_sub(width)..])
        .block(titled("mean latency by interval, since it was selected"));
    frame.render_widget(line, past);
}

fn facts(digest: &DigestView, rate: Option<&DigestRate>) -> Vec<Line<'static>> {
    let latency = &digest.latency;
    let count = latency.count();
    let each = |sum: Option<u64>| match sum {
        Some(sum) => format!("{:.2}", sum as f64 / count.max(1) as f64),
        None => "not known".to_owned(),
    };
    let now = rate.map_or("not in the last interval".to_owned(), |rate| {
        format!("{:.1}/s, mean {}", rate.per_second, duration(rate.mean_us))
    });
    let pair = |pair: Option<(u64, u64)>, words: (&str, &str)| match pair {
        Some((a, b)) => format!("{a} {}, {b} {}", words.0, words.1),
        None => "not known".to_owned(),
    };
    [
        ("now", now),
        ("executed", quantity::count(count)),
        ("errors", quantity::count(digest.errors)),
        ("mean", duration(latency.mean_us())),
        (
            "p50, p95",
            format!(
                "{}, {}",
                duration(latency.quantile_us(0.5)),
                duration(latency.quantile_us(0.95))
            ),
        ),
        (
            "p99, max",
            format!(
                "{}, {}",
                duration(latency.quantile_us(0.99)),
                duration(latency.max_us())
            ),
        ),
        ("rows sent", each(digest.rows_sent)),
        ("rows examined", each(digest.rows_examined)),
        ("rows affected", each(digest.rows_affected)),
        (
            "scans, joins",
            pair(digest.full_scans, ("full scans", "full joins")),
        ),
        ("temporary", pair(digest.tmp_tables, ("tables", "on disk"))),
        ("database", digest.database.to_string()),
        ("first user", digest.user.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| {
        Line::from(vec![
            Span::from(format!("{name:>14}  ")).dim(),
            value.into(),
        ])
    })
    .collect()
}

fn time(rate: Option<&DigestRate>) -> Vec<Line<'static>> {
    let Some(rate) = rate else {
        return vec![Line::from("It did not end in the last interval.")];
    };
    let total = rate.load.total().max(1e-12);
    let mut parts: Vec<(usize, f64)> = rate.load.0.iter().copied().enumerate().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
        .into_iter()
        .map(|(part, value)| (part, value / total))
        .filter(|(_, share)| *share >= SHARE_MIN)
        .map(|(part, share)| {
            let bar = "█".repeat((share * BAR).round() as usize);
            let name = format!("{:>14} {:>5.1}% ", part_name(part), share * 100.0);
            let each = format!(" {}", duration(share * rate.mean_us));
            Line::from(vec![
                name.into(),
                Span::from(bar).fg(colour(part)),
                each.into(),
            ])
        })
        .collect()
}
