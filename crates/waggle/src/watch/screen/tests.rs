//! What is painted from views with known figures, and what keys do.

use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use waggle_agent::WaitClass;
use waggle_agent::lock::{LockKind, LockObject, LockWait, Party};
use waggle_agent::source::{Abilities, SourceKind};
use waggle_agent::statement::ServerId;
use waggle_agent::view::{DigestView, LoadView, ServerView, SessionTime, View};
use waggle_stats::compact::CompactHistogram;

use super::paint::paint;
use super::state::{Effect, Page, State};

/// A digest that ran `count` times, 2 ms each: half on a processor, half waiting for rows.
fn digest(key: u64, fingerprint: &str, count: u64) -> DigestView {
    let mut latency = CompactHistogram::default();
    for _ in 0..count {
        latency.record(2_000_000);
    }
    let mut time = SessionTime {
        cpu_s: count as f64 * 0.001,
        ..SessionTime::default()
    };
    time.blocked_s[WaitClass::RowLock.index()] = count as f64 * 0.001;
    DigestView {
        key,
        digest: format!("{key:016X}").into(),
        fingerprint: fingerprint.into(),
        summary: "".into(),
        database: "shop".into(),
        user: "app".into(),
        seen_us: (0, 0),
        errors: 0,
        latency,
        time,
        rows_sent: Some(count),
        rows_examined: Some(count * 3),
        rows_affected: None,
        warnings: None,
        lock_s: None,
        tmp_tables: None,
        full_scans: None,
        no_index: None,
        storage_bytes: None,
        switches: None,
    }
}

fn server(id: u32, digests: Vec<DigestView>) -> ServerView {
    let mut all = SessionTime::default();
    for digest in &digests {
        all.cpu_s += digest.time.cpu_s;
        let at = WaitClass::RowLock.index();
        all.blocked_s[at] += digest.time.blocked_s[at];
    }
    ServerView {
        id: ServerId(id),
        pid: 100 + id,
        flavour: "mysql",
        version: "9.7.4".into(),
        instance: format!("{}", 3306 + id).into(),
        source: SourceKind::Uprobe,
        abilities: Abilities::default(),
        started_us: 1_000_000,
        started_ns: 0,
        ended: None,
        hits: 0,
        captured: digests.iter().map(|d| d.latency.count()).sum(),
        in_routines: 0,
        own: 0,
        lost: vec![("ring_full", 0)],
        degraded: Vec::new(),
        other_commands: 0,
        digests,
        other: None,
        retired: None,
        load: LoadView {
            all,
            users: vec![("app".into(), all)],
            ..LoadView::default()
        },
        waits: Vec::new(),
        waits_ended: [(0, 0); 3],
        deadlocks: Vec::new(),
        deadlock_count: 0,
        process: None,
        status: None,
    }
}

/// The view at `second`, s after the start.
fn view(second: u64, servers: Vec<ServerView>) -> Arc<View> {
    Arc::new(View {
        time_us: (1 + second) * 1_000_000,
        time_ns: second * 1_000_000_000,
        host_name: "here".into(),
        servers,
        ..View::default()
    })
}

const ORDERS: &str = "select * from orders where id=?";
const ITEMS: &str = "update items set n=n-? where id=?";

/// Two intervals of a second: 1,000 orders and 500 items in the second one.
fn state() -> State {
    let mut state = State::new(Duration::from_secs(1));
    let at = |orders, items| {
        vec![server(
            0,
            vec![digest(1, ORDERS, orders), digest(2, ITEMS, items)],
        )]
    };
    state.take(&view(1, at(10, 10)), Duration::from_secs(1));
    state.take(&view(2, at(1010, 510)), Duration::from_secs(2));
    state
}

fn painted(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| paint(frame, state)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let mut text = String::new();
    for y in 0..height {
        for x in 0..width {
            text.push_str(buffer[(x, y)].symbol());
        }
        text.push('\n');
    }
    text
}

fn press(state: &mut State, code: KeyCode) -> Effect {
    state.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn line_of<'a>(text: &'a str, part: &str) -> &'a str {
    let found = text.lines().find(|line| line.contains(part));
    found.unwrap_or_else(|| panic!("no {part:?} in\n{text}"))
}

#[test]
fn rates_are_of_the_last_interval() {
    let text = painted(&state(), 120, 40);
    let orders = line_of(&text, ORDERS);
    let words: Vec<&str> = orders.split_whitespace().collect();
    assert_eq!(words[0], "2.00", "{orders}");
    assert!(
        words.contains(&"1000.0") && words.contains(&"3.0"),
        "{orders}"
    );
    assert!(orders.contains("2.00 ms"), "{orders}");
    assert!(text.find(ORDERS) < text.find(ITEMS), "{text}");
    assert!(line_of(&text, "in all").contains("3.00 in all"), "{text}");
    assert!(
        line_of(&text, "row_lock").contains("1.50 row_lock"),
        "{text}"
    );
    assert!(
        line_of(&text, "waggle watch").contains("1,520 captured, 0 lost"),
        "{text}"
    );
}

#[test]
fn every_size_of_terminal_is_painted() {
    let mut state = state();
    for page in ['?', 'l', 'h', '\n'] {
        let code = match page {
            '\n' => KeyCode::Enter,
            other => KeyCode::Char(other),
        };
        press(&mut state, KeyCode::Esc);
        press(&mut state, code);
        for (width, height) in [(1, 1), (5, 3), (20, 6), (80, 24), (300, 100)] {
            painted(&state, width, height);
        }
    }
    for (width, height) in [(1, 1), (80, 24)] {
        painted(&State::new(Duration::from_secs(1)), width, height);
    }
}

#[test]
fn a_statement_stays_selected_while_others_overtake_it() {
    let mut state = state();
    press(&mut state, KeyCode::Down);
    assert_eq!(state.selected, Some(1));
    press(&mut state, KeyCode::Down);
    assert_eq!(state.selected, Some(2));
    press(&mut state, KeyCode::Down);
    assert_eq!(state.selected, Some(2), "the end of the list");
    let busy = vec![server(
        0,
        vec![digest(1, ORDERS, 1020), digest(2, ITEMS, 900)],
    )];
    state.take(&view(3, busy), Duration::from_secs(3));
    assert_eq!(state.statements()[0].key, 2);
    assert_eq!(state.selected, Some(2));
    press(&mut state, KeyCode::Enter);
    assert_eq!(state.page, Page::Statement);
    let text = painted(&state, 100, 30);
    assert!(
        text.contains(ITEMS) && line_of(&text, "executed").contains("900"),
        "{text}"
    );
    assert!(line_of(&text, "row_lock").contains("50.0%"), "{text}");
    press(&mut state, KeyCode::Esc);
    assert_eq!(state.page, Page::Load);
}

#[test]
fn paused_figures_stand_still() {
    let mut state = state();
    press(&mut state, KeyCode::Char('p'));
    let before = painted(&state, 100, 30);
    state.take(&view(3, Vec::new()), Duration::from_secs(3));
    assert_eq!(painted(&state, 100, 30), before);
    assert!(before.contains("PAUSED"));
    press(&mut state, KeyCode::Char('p'));
    state.take(&view(4, Vec::new()), Duration::from_secs(4));
    assert!(painted(&state, 100, 30).contains("waiting for one"));
}

#[test]
fn who_blocks_whom_is_shown_as_it_happens() {
    let mut state = state();
    let party = |id, fingerprint: &str| Party {
        connection_id: Some(id),
        fingerprint: fingerprint.into(),
        is_running: true,
        ..Party::default()
    };
    let mut busy = server(0, vec![digest(1, ORDERS, 1020)]);
    busy.waits = vec![LockWait {
        id: 1,
        kind: LockKind::Row,
        waiter: party(12, ITEMS),
        blocker: party(11, "delete from items"),
        object: LockObject {
            table: "shop.items".into(),
            ..LockObject::default()
        },
        since_us: 0,
        waited_us: 2_500_000,
        ended: false,
    }];
    state.take(&view(3, vec![busy]), Duration::from_secs(3));
    let text = painted(&state, 120, 40);
    assert!(line_of(&text, "delete from items").contains("11"), "{text}");
    assert!(line_of(&text, "<- 12").contains("shop.items"), "{text}");
}

#[test]
fn servers_take_turns_and_q_ends() {
    let mut state = State::new(Duration::from_secs(1));
    let both = vec![
        server(0, vec![digest(1, ORDERS, 10)]),
        server(1, vec![digest(2, ITEMS, 500)]),
    ];
    state.take(&view(1, both), Duration::from_secs(1));
    assert_eq!(
        state.server().unwrap().id,
        ServerId(1),
        "the one with most load"
    );
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.server().unwrap().id, ServerId(0));
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.server().unwrap().id, ServerId(1));
    assert_eq!(press(&mut state, KeyCode::Char('x')), Effect::None);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Effect::Quit);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(control_c), Effect::Quit);
}
