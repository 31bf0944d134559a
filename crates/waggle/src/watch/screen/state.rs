//! What the screen shows now, and how keys and views change it.
//!
//! Pure but for the views it holds. Invariant: the selected statement stays selected while the
//! order changes around it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use waggle_agent::statement::ServerId;
use waggle_agent::view::{ServerView, View};

use super::interval::{DigestRate, Load, ServerRate, server_rate};

/// Intervals kept for the charts.
const HISTORY: usize = 300;
/// Messages kept.
const NEWS: usize = 3;

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Load,
    Statement,
    Locks,
    Host,
    Help,
}

/// What statements are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Load,
    Count,
    Mean,
    Errors,
    Examined,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Count => "stmts/s",
            Self::Mean => "mean",
            Self::Errors => "errors",
            Self::Examined => "examined",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Load => Self::Count,
            Self::Count => Self::Mean,
            Self::Mean => Self::Errors,
            Self::Errors => Self::Examined,
            Self::Examined => Self::Load,
        }
    }

    fn of(self, rate: &DigestRate) -> f64 {
        match self {
            Self::Load => rate.load.total(),
            Self::Count => rate.per_second,
            Self::Mean => rate.mean_us,
            Self::Errors => rate.errors_per_second,
            Self::Examined => rate.examined.unwrap_or(0.0),
        }
    }
}

/// What a key asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Quit,
}

/// One server's past.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) load: VecDeque<Load>,
    pub(super) per_second: VecDeque<f64>,
    /// Of the selected statement: calls a second and mean latency, us.
    pub(super) selected: VecDeque<(f64, f64)>,
}

/// All that is shown.
pub(super) struct State {
    pub(super) interval: Duration,
    pub(super) elapsed: Duration,
    pub(super) view: Option<Arc<View>>,
    pub(super) before: Option<Arc<View>>,
    pub(super) rates: HashMap<ServerId, ServerRate>,
    pub(super) history: HashMap<ServerId, History>,
    pub(super) page: Page,
    /// The page that help was asked from.
    below: Page,
    pub(super) order: Order,
    pub(super) paused: bool,
    server: Option<ServerId>,
    /// Key of the selected statement.
    pub(super) selected: Option<u64>,
    pub(super) scroll: usize,
    pub(super) news: VecDeque<String>,
}

impl State {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            elapsed: Duration::ZERO,
            view: None,
            before: None,
            rates: HashMap::new(),
            history: HashMap::new(),
            page: Page::Load,
            below: Page::Load,
            order: Order::Load,
            paused: false,
            server: None,
            selected: None,
            scroll: 0,
            news: VecDeque::new(),
        }
    }

    /// Takes the next view; while paused, it is left out.
    pub(super) fn take(&mut self, view: &Arc<View>, elapsed: Duration) {
        if self.paused {
            return;
        }
        self.elapsed = elapsed;
        self.before = self.view.replace(view.clone());
        self.rates = view
            .servers
            .iter()
            .map(|server| (server.id, server_rate(server, view, self.before.as_deref())))
            .collect();
        self.history.retain(|id, _| self.rates.contains_key(id));
        for (id, rate) in &self.rates {
            let history = self.history.entry(*id).or_default();
            let chosen = rate.digests.iter().find(|d| Some(d.key) == self.selected);
            push(&mut history.load, rate.load);
            push(&mut history.per_second, rate.per_second);
            let point = chosen.map_or((0.0, 0.0), |d| (d.per_second, d.mean_us));
            push(&mut history.selected, point);
        }
    }

    /// A line about what happened.
    pub(super) fn news(&mut self, line: &str) {
        if self.news.len() == NEWS {
            self.news.pop_front();
        }
        self.news.push_back(line.to_owned());
    }

    /// The server whose statements are shown: the chosen one while it is there, else the one with
    /// most load.
    pub(super) fn server(&self) -> Option<&ServerView> {
        let view = self.view.as_ref()?;
        let chosen = view.servers.iter().find(|s| Some(s.id) == self.server);
        chosen.or_else(|| {
            view.servers.iter().max_by(|a, b| {
                let load = |s: &ServerView| self.rates.get(&s.id).map_or(0.0, |r| r.load.total());
                let alive = |s: &ServerView| s.ended.is_none();
                (alive(a), load(a))
                    .partial_cmp(&(alive(b), load(b)))
                    .unwrap_or(std::cmp::Ordering::Equal)
            })
        })
    }

    /// Its statements of the last interval in the chosen order.
    pub(super) fn statements(&self) -> Vec<&DigestRate> {
        let rate = self.server().and_then(|server| self.rates.get(&server.id));
        let mut list: Vec<&DigestRate> = rate.iter().flat_map(|rate| &rate.digests).collect();
        list.sort_by(|a, b| self.order.of(b).total_cmp(&self.order.of(a)));
        list
    }

    /// Carries out a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Effect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('c' | 'd') if control => return Effect::Quit,
            KeyCode::Char('?') if self.page == Page::Help => self.page = self.below,
            KeyCode::Char('?') => self.open(Page::Help),
            KeyCode::Char('l') => self.toggle(Page::Locks),
            KeyCode::Char('h') => self.toggle(Page::Host),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Tab | KeyCode::Char('n') => self.next_server(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.back(),
            KeyCode::Enter | KeyCode::Right if self.page == Page::Load => {
                self.select(0);
                if self.selected.is_some() {
                    self.open(Page::Statement);
                }
            }
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::Home => self.move_by(isize::MIN / 2),
            _ => {}
        }
        Effect::None
    }

    fn open(&mut self, page: Page) {
        self.below = self.page;
        self.page = page;
        self.scroll = 0;
    }

    fn toggle(&mut self, page: Page) {
        if self.page == page {
            self.page = Page::Load;
        } else {
            self.open(page);
        }
    }

    fn back(&mut self) {
        match self.page {
            Page::Help => self.page = self.below,
            Page::Load => self.forget_selection(),
            _ => self.page = Page::Load,
        }
        self.scroll = 0;
    }

    fn move_by(&mut self, steps: isize) {
        match self.page {
            Page::Load => self.select(steps),
            _ => self.scroll = self.scroll.saturating_add_signed(steps),
        }
    }

    /// Moves the selection by `steps`; the first movement selects the first line.
    fn select(&mut self, steps: isize) {
        let keys: Vec<u64> = self.statements().iter().map(|rate| rate.key).collect();
        let at = keys.iter().position(|key| Some(*key) == self.selected);
        let to = at.map_or(0, |at| at.saturating_add_signed(steps));
        let to = to.min(keys.len().saturating_sub(1));
        let chosen = keys.get(to).copied();
        if chosen.is_some() && chosen != self.selected {
            self.forget_selection();
            self.selected = chosen;
        }
    }

    fn forget_selection(&mut self) {
        self.selected = None;
        for history in self.history.values_mut() {
            history.selected.clear();
        }
    }

    fn next_server(&mut self) {
        let Some(view) = &self.view else { return };
        let shown = self.server().map(|server| server.id);
        let ids: Vec<ServerId> = view.servers.iter().map(|server| server.id).collect();
        let at = ids.iter().position(|id| Some(*id) == shown).unwrap_or(0);
        self.server = ids.get((at + 1) % ids.len().max(1)).copied();
        self.forget_selection();
        if self.page == Page::Statement {
            self.page = Page::Load;
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, value: T) {
    if list.len() == HISTORY {
        list.pop_front();
    }
    list.push_back(value);
}
