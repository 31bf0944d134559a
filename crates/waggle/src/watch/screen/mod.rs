//! The live screen: load by class, the busiest statements, who blocks whom, one statement's page.
//!
//! [`Screen`] is a presenter: it gets views, keeps a history of differences ([`interval`]), takes
//! keys ([`state`]) and paints ([`paint`]). Neighbours: `session` polls standard input and calls
//! it; everything shown comes from `waggle_agent::view`.
//!
//! Invariant: the terminal is left as it was found, also after a panic or an error.

mod host;
mod interval;
mod load;
mod locks;
mod paint;
mod state;
mod statement;
mod statements;
#[cfg(test)]
mod tests;

use std::io::{Stdout, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::{cursor, execute, terminal};
use waggle_agent::view::View;

use super::present::Presenter;
use state::{Effect, State};

/// Puts the terminal back when it goes.
struct Raw;

impl Raw {
    fn enter() -> anyhow::Result<Self> {
        terminal::enable_raw_mode().context("taking the terminal")?;
        let raw = Self;
        execute!(stdout(), terminal::EnterAlternateScreen, cursor::Hide)
            .context("taking the terminal")?;
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        leave();
    }
}

fn leave() {
    // Nothing can be done about a terminal that is gone.
    let _ = execute!(stdout(), terminal::LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// The live screen.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    state: State,
    // Last, so that the terminal is put back after the last painting.
    _raw: Raw,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// There is none, or it cannot be switched.
    pub(super) fn open(interval: Duration) -> anyhow::Result<Self> {
        let raw = Raw::enter()?;
        let backend = CrosstermBackend::new(stdout());
        let terminal = Terminal::new(backend).context("painting the terminal")?;
        Ok(Self {
            terminal,
            state: State::new(interval),
            _raw: raw,
        })
    }

    fn paint(&mut self) -> anyhow::Result<()> {
        let state = &self.state;
        self.terminal
            .draw(|frame| paint::paint(frame, state))
            .context("painting the terminal")?;
        Ok(())
    }
}

impl Presenter for Screen {
    fn show(&mut self, view: &Arc<View>, _before: &View, elapsed: Duration) -> anyhow::Result<()> {
        self.state.take(view, elapsed);
        self.paint()
    }

    fn takes_keys(&self) -> bool {
        true
    }

    fn keys(&mut self) -> anyhow::Result<bool> {
        while event::poll(Duration::ZERO).context("reading keys")? {
            if let Event::Key(key) = event::read().context("reading keys")?
                && key.kind != KeyEventKind::Release
                && self.state.key(key) == Effect::Quit
            {
                return Ok(false);
            }
        }
        self.paint()?;
        Ok(true)
    }

    fn news(&mut self, line: &str) {
        self.state.news(line);
    }
}
