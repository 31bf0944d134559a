//! Views as the agent would make them, of statements that the test knows one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use waggle_agent::WaitClass;
use waggle_agent::source::{Abilities, SourceKind};
use waggle_agent::statement::ServerId;
use waggle_agent::view::{DigestView, LoadView, ServerView, SessionTime, View};
use waggle_stats::compact::CompactHistogram;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // sleep: between two looks at a value that another thread or process changes
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// Numbers that look like chance and are the same every time.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// A digest without any statement.
pub(crate) fn digest(number: u64) -> DigestView {
    let text: Arc<str> = Arc::from(format!("select c from t{number} where id=?"));
    DigestView {
        key: number,
        digest: Arc::from(format!(
            "{:016X}",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        )),
        fingerprint: text,
        summary: Arc::from(format!("SELECT t{number}")),
        database: Arc::from("shop"),
        user: Arc::from("app"),
        seen_us: (1, 2),
        errors: 0,
        latency: CompactHistogram::default(),
        time: SessionTime::default(),
        rows_sent: Some(0),
        rows_examined: None,
        rows_affected: Some(0),
        warnings: Some(0),
        lock_s: Some(0.0),
        tmp_tables: Some((0, 0)),
        full_scans: None,
        no_index: Some(0),
        storage_bytes: Some((0, 0)),
        switches: Some((0, 0)),
    }
}

/// A server whose statements the test adds.
#[derive(Debug, Clone)]
pub(crate) struct Simulated {
    pub(crate) view: ServerView,
    pub(crate) digests: BTreeMap<u64, DigestView>,
    pub(crate) dice: Dice,
}

impl Simulated {
    pub(crate) fn new(id: u32, flavour: &'static str) -> Self {
        let view = ServerView {
            id: ServerId(id),
            pid: 4000 + id,
            flavour,
            version: Arc::from("10.11.19-MariaDB"),
            instance: Arc::from(format!("{}", 3306 + id)),
            source: SourceKind::Uprobe,
            abilities: Abilities::default(),
            started_us: now_us(),
            started_ns: 0,
            ended: None,
            hits: 0,
            captured: 0,
            in_routines: 0,
            own: 0,
            lost: vec![("ring_full", 0), ("tls", 0)],
            degraded: vec![("text_truncated", 0)],
            other_commands: 0,
            digests: Vec::new(),
            other: None,
            retired: None,
            load: LoadView::default(),
            waits: Vec::new(),
            waits_ended: [(0, 0); 3],
            deadlocks: Vec::new(),
            deadlock_count: 0,
            process: None,
            status: None,
        };
        Self {
            view,
            digests: BTreeMap::new(),
            dice: Dice(u64::from(id) + 1),
        }
    }

    /// Carries out `count` statements of up to `kinds` digests.
    pub(crate) fn work(&mut self, count: u64, kinds: u64) {
        for _ in 0..count {
            let kind = self.dice.below(kinds);
            let latency_ns = 1000 + self.dice.below(1 << (10 + self.dice.clone().below(20)));
            let failed = self.dice.below(10) == 0;
            let entry = self.digests.entry(kind).or_insert_with(|| digest(kind));
            one(entry, latency_ns, failed);
            let class = (latency_ns % 12) as usize;
            let load = &mut self.view.load.all;
            load.cpu_s += latency_ns as f64 / 2e9;
            load.blocked_s[class] += latency_ns as f64 / 2e9;
        }
        self.view.captured += count;
        self.view.lost[0].1 += count / 10;
        self.view.other_commands += 1;
        self.view.own += 2;
        self.view.in_routines += 3;
        self.view.load.users = vec![(Arc::from("app"), self.view.load.all)];
    }

    /// The digest leaves the table, as when it makes room for another.
    pub(crate) fn retire(&mut self, kind: u64) {
        let Some(gone) = self.digests.remove(&kind) else {
            return;
        };
        let retired = self.view.retired.get_or_insert_with(|| digest(u64::MAX));
        add(retired, &gone);
    }

    pub(crate) fn view(&self) -> ServerView {
        ServerView {
            digests: self.digests.values().cloned().collect(),
            ..self.view.clone()
        }
    }
}

fn one(digest: &mut DigestView, latency_ns: u64, failed: bool) {
    digest.latency.record(latency_ns);
    digest.errors += u64::from(failed);
    digest.time.cpu_s += latency_ns as f64 / 2e9;
    digest.time.blocked_s[(latency_ns % WaitClass::COUNT as u64) as usize] +=
        latency_ns as f64 / 2e9;
    digest.rows_sent = digest.rows_sent.map(|rows| rows + latency_ns % 7);
    digest.lock_s = digest.lock_s.map(|s| s + 1e-6);
    digest.switches = digest.switches.map(|(a, b)| (a + 2, b + latency_ns % 3));
}

fn add(sum: &mut DigestView, more: &DigestView) {
    sum.latency.merge(&more.latency);
    sum.errors += more.errors;
    sum.time.cpu_s += more.time.cpu_s;
    for (sum, more) in sum.time.blocked_s.iter_mut().zip(more.time.blocked_s) {
        *sum += more;
    }
    sum.rows_sent = Some(sum.rows_sent.unwrap_or(0) + more.rows_sent.unwrap_or(0));
    sum.lock_s = Some(sum.lock_s.unwrap_or(0.0) + more.lock_s.unwrap_or(0.0));
}

/// A view `step` seconds after the first.
pub(crate) fn view(step: u64, servers: &[&Simulated]) -> Arc<View> {
    Arc::new(View {
        time_us: now_us(),
        time_ns: (step + 1) * 1_000_000_000,
        started_us: 1_700_000_000_000_000,
        host_name: Arc::from("db1"),
        servers: servers.iter().map(|server| server.view()).collect(),
        ..View::default()
    })
}
