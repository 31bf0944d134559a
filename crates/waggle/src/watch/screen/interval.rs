//! What happened between two views: the differences that the screen shows as rates.
//!
//! Pure. Servers are matched by id, digests by key; a server or digest that is new counts from
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;

use waggle_agent::WaitClass;
use waggle_agent::view::{DigestView, ServerView, SessionTime, View};

/// Parts that session time is shown by: processor, runnable, each wait class, unclassified.
pub(super) const PARTS: usize = WaitClass::COUNT + 3;

/// The name of a part.
pub(super) fn part_name(part: usize) -> &'static str {
    match part {
        0 => "cpu",
        1 => "runnable",
        _ => WaitClass::ALL
            .get(part - 2)
            .map_or("unclassified", |class| class.as_str()),
    }
}

/// Average active sessions by part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Load(pub(super) [f64; PARTS]);

impl Load {
    /// The sessions that `now - then` is, over `seconds`.
    fn between(now: &SessionTime, then: &SessionTime, seconds: f64) -> Self {
        let mut parts = [0.0; PARTS];
        parts[0] = now.cpu_s - then.cpu_s;
        parts[1] = now.runnable_s - then.runnable_s;
        for class in WaitClass::ALL {
            let at = class.index();
            parts[2 + at] = now.blocked_s[at] - then.blocked_s[at];
        }
        parts[PARTS - 1] = now.unclassified_s - then.unclassified_s;
        Self(parts.map(|part| (part / seconds).max(0.0)))
    }

    /// All parts together.
    pub(super) fn total(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// One digest in an interval.
#[derive(Debug, Clone)]
pub(super) struct DigestRate {
    pub(super) key: u64,
    pub(super) load: Load,
    pub(super) per_second: f64,
    pub(super) errors_per_second: f64,
    /// Mean latency in the interval, us.
    pub(super) mean_us: f64,
    /// Rows examined a statement, in the interval; `None` if not known.
    pub(super) examined: Option<f64>,
}

/// One server in an interval.
#[derive(Debug, Clone)]
pub(super) struct ServerRate {
    pub(super) load: Load,
    pub(super) per_second: f64,
    pub(super) lost: u64,
    /// Digests that were seen in the interval, most load first.
    pub(super) digests: Vec<DigestRate>,
    /// Load by user, database, client host, most first.
    pub(super) dimensions: [Vec<(Arc<str>, f64)>; 3],
}

/// Differences of `server` since `then`, if it was there, over the time between both views.
pub(super) fn server_rate(server: &ServerView, view: &View, then: Option<&View>) -> ServerRate {
    let former = then.and_then(|view| view.servers.iter().find(|s| s.id == server.id));
    let since_ns = match (former, then) {
        (Some(_), Some(then)) => then.time_ns,
        _ => server.started_ns,
    };
    let seconds = (view.time_ns.saturating_sub(since_ns) as f64 / 1e9).max(1e-3);
    let all_then = former.map(|s| s.load.all).unwrap_or_default();
    let captured = server.captured - former.map_or(0, |s| s.captured.min(server.captured));
    let lost = |s: &ServerView| s.lost.iter().map(|(_, count)| count).sum::<u64>();
    ServerRate {
        load: Load::between(&server.load.all, &all_then, seconds),
        per_second: captured as f64 / seconds,
        lost: lost(server).saturating_sub(former.map_or(0, lost)),
        digests: digest_rates(server, former, seconds),
        dimensions: [
            dimension(&server.load.users, former.map(|s| &s.load.users), seconds),
            dimension(
                &server.load.databases,
                former.map(|s| &s.load.databases),
                seconds,
            ),
            dimension(&server.load.hosts, former.map(|s| &s.load.hosts), seconds),
        ],
    }
}

fn digest_rates(server: &ServerView, former: Option<&ServerView>, seconds: f64) -> Vec<DigestRate> {
    let then: HashMap<u64, &DigestView> = former
        .iter()
        .flat_map(|s| &s.digests)
        .map(|digest| (digest.key, digest))
        .collect();
    let mut rates: Vec<DigestRate> = server
        .digests
        .iter()
        .filter_map(|digest| digest_rate(digest, then.get(&digest.key).copied(), seconds))
        .collect();
    rates.sort_by(|a, b| b.load.total().total_cmp(&a.load.total()));
    rates
}

fn digest_rate(now: &DigestView, then: Option<&DigestView>, seconds: f64) -> Option<DigestRate> {
    let since = |value: u64, of: fn(&DigestView) -> u64| value.saturating_sub(then.map_or(0, of));
    let count = since(now.latency.count(), |d| d.latency.count());
    if count == 0 {
        return None;
    }
    let sum_ns = since(now.latency.sum_ns(), |d| d.latency.sum_ns());
    let time_then = then.map(|d| d.time).unwrap_or_default();
    let examined_then = then.and_then(|d| d.rows_examined).unwrap_or(0);
    Some(DigestRate {
        key: now.key,
        load: Load::between(&now.time, &time_then, seconds),
        per_second: count as f64 / seconds,
        errors_per_second: since(now.errors, |d| d.errors) as f64 / seconds,
        mean_us: sum_ns as f64 / 1e3 / count as f64,
        examined: now
            .rows_examined
            .map(|rows| rows.saturating_sub(examined_then) as f64 / count as f64),
    })
}

fn dimension(
    now: &[(Arc<str>, SessionTime)],
    then: Option<&Vec<(Arc<str>, SessionTime)>>,
    seconds: f64,
) -> Vec<(Arc<str>, f64)> {
    let before = |name: &str| {
        let found = then.and_then(|list| list.iter().find(|(other, _)| **other == *name));
        found.map_or(0.0, |(_, time)| time.total_s())
    };
    let mut loads: Vec<(Arc<str>, f64)> = now
        .iter()
        .map(|(name, time)| (name.clone(), (time.total_s() - before(name)) / seconds))
        .filter(|(_, load)| *load > 0.0005)
        .collect();
    loads.sort_by(|a, b| b.1.total_cmp(&a.1));
    loads
}
