//! A view as Prometheus shall see it: one process for each server, and a bounded choice of digests.
//!
//! Neighbours: [`selection`](super::selection) chooses; [`metrics`](super::metrics) names and
//! prints. `/metrics` and remote write each keep a [`Pages`] of their own.
//!
//! Invariant: a page has each combination of labels once, also while a server restarts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use waggle_agent::statement::ServerId;
use waggle_agent::view::{DigestView, ServerView, SessionTime, View};

use super::row::{CLASSES, Row};
use super::selection::{Item, Selection, Slots};

/// A fingerprint is cut to so many characters in its label.
const FINGERPRINT_CHARS: usize = 1024;

/// How many have series of their own, for each server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Digests; each has some fifty series.
    pub digests: usize,
    /// Users, databases and client hosts each; each has fifteen series.
    pub dimension: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            digests: 200,
            dimension: 50,
        }
    }
}

/// What a digest is, for the series that joins it to its text.
#[derive(Debug)]
pub(super) struct DigestInfo {
    pub(super) digest: Arc<str>,
    pub(super) fingerprint: String,
    pub(super) summary: Arc<str>,
    pub(super) is_new: bool,
}

/// A server on a page.
#[derive(Debug)]
pub(super) struct ServerPage<'a> {
    pub(super) view: &'a ServerView,
    /// It was on no page before: its counters begin.
    pub(super) is_new: bool,
    /// Some source told the classes of some statement's time apart.
    pub(super) is_classified: bool,
    pub(super) all: Row,
    pub(super) digests: Selection,
    pub(super) users: Selection,
    pub(super) databases: Selection,
    pub(super) hosts: Selection,
    pub(super) evicted: u64,
}

/// All there is to print.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) view: &'a View,
    /// The first page.
    pub(super) is_new: bool,
    pub(super) servers: Vec<ServerPage<'a>>,
    pub(super) digests: Vec<DigestInfo>,
}

/// What is kept of a server from page to page.
#[derive(Debug)]
struct Kept {
    all_said: Row,
    digests: Slots,
    users: Slots,
    databases: Slots,
    hosts: Slots,
}

/// Turns views into pages.
#[derive(Debug)]
pub(super) struct Pages {
    bounds: Bounds,
    servers: HashMap<ServerId, Kept>,
    /// Digests on the page before.
    digests: HashSet<Arc<str>>,
    has_begun: bool,
}

impl Pages {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            servers: HashMap::new(),
            digests: HashSet::new(),
            has_begun: false,
        }
    }

    /// The page of `view`, which is not older than those before.
    pub(super) fn page<'a>(&mut self, view: &'a View) -> Page<'a> {
        let shown = shown(view);
        self.servers
            .retain(|id, _| shown.iter().any(|server| server.id == *id));
        let servers: Vec<ServerPage<'a>> = shown
            .into_iter()
            .map(|server| self.server(server, view.time_ns))
            .collect();
        let digests = self.infos(&servers);
        Page {
            view,
            is_new: !std::mem::replace(&mut self.has_begun, true),
            servers,
            digests,
        }
    }

    fn server<'a>(&mut self, server: &'a ServerView, now_ns: u64) -> ServerPage<'a> {
        let is_new = !self.servers.contains_key(&server.id);
        let bounds = self.bounds;
        let kept = self.servers.entry(server.id).or_insert_with(|| Kept {
            all_said: Row::default(),
            digests: Slots::new(bounds.digests),
            users: Slots::new(bounds.dimension),
            databases: Slots::new(bounds.dimension),
            hosts: Slots::new(bounds.dimension),
        });
        // Statements that go on are in it, and what one waits for is known for certain only at its
        // end: the sum of a class may be put right downwards.
        let mut all = Row::of_time(&server.load.all);
        all.at_least(&kept.all_said);
        kept.all_said = all.clone();
        let items = server.digests.iter().map(digest_item).collect();
        let rest: Vec<Row> = server
            .other
            .iter()
            .chain(&server.retired)
            .map(Row::of_digest)
            .collect();
        let digests = kept.digests.select(items, &rest, now_ns);
        let load = &server.load;
        let is_classified =
            all.classified_ns() > 0 || digests.iter().any(|one| one.row.classified_ns() > 0);
        ServerPage {
            view: server,
            is_new,
            is_classified,
            all,
            users: kept.users.select(time_items(&load.users), &[], now_ns),
            databases: kept
                .databases
                .select(time_items(&load.databases), &[], now_ns),
            hosts: kept.hosts.select(time_items(&load.hosts), &[], now_ns),
            evicted: kept.digests.evicted,
            digests,
        }
    }

    /// One line a digest, whichever servers have it.
    fn infos(&mut self, servers: &[ServerPage<'_>]) -> Vec<DigestInfo> {
        let mut wanted: HashSet<Arc<str>> = servers
            .iter()
            .flat_map(|server| server.digests.iter())
            .map(|one| one.label.clone())
            .collect();
        let before = std::mem::take(&mut self.digests);
        let mut infos = Vec::with_capacity(wanted.len());
        for digest in servers.iter().flat_map(|server| &server.view.digests) {
            if wanted.remove(&digest.digest) {
                infos.push(DigestInfo {
                    digest: digest.digest.clone(),
                    fingerprint: shortened(&digest.fingerprint),
                    summary: digest.summary.clone(),
                    is_new: !before.contains(&digest.digest),
                });
            }
        }
        self.digests = infos.iter().map(|info| info.digest.clone()).collect();
        infos
    }
}

/// One process for each instance: the latest, for a restarted server has its predecessor's port.
fn shown(view: &View) -> Vec<&ServerView> {
    let mut latest: HashMap<&str, &ServerView> = HashMap::new();
    for server in &view.servers {
        let shown = latest.entry(&*server.instance).or_insert(server);
        if rank(server) > rank(shown) {
            *shown = server;
        }
    }
    let mut all: Vec<&ServerView> = latest.into_values().collect();
    all.sort_by_key(|server| server.id);
    all
}

/// A server that runs is shown rather than one that ended, the later rather than the earlier.
fn rank(server: &ServerView) -> (bool, u64, ServerId) {
    (server.ended.is_none(), server.started_us, server.id)
}

fn digest_item(digest: &DigestView) -> Item {
    Item {
        label: digest.digest.clone(),
        row: Row::of_digest(digest),
    }
}

fn time_items(all: &[(Arc<str>, SessionTime)]) -> Vec<Item> {
    all.iter()
        .map(|(label, time)| Item {
            label: label.clone(),
            row: Row::of_time(time),
        })
        .collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FINGERPRINT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

const _: () = assert!(CLASSES == 15, "the doc comments of Bounds say so");
