//! Which rows does the news make?
//!
//! Sums what came with each view and writes rows once an interval: fewer, larger insertions, as
//! ClickHouse wants them. Neighbours: `feed` brings the news, `delta` takes differences, `row`
//! writes, the spool keeps. Invariant: the rows of a server add up to its latest view.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use waggle_agent::lock::{Deadlock, LockWait, Party};
use waggle_agent::sample::Sample;
use waggle_agent::statement::ServerId;
use waggle_agent::view::{DigestView, ServerView, View};

use super::batches::Batches;
use super::fill::{
    At, Place, begin, kind_name, session, source_name, write_load, write_party, write_sample,
    write_server,
};
use super::metrics;
use super::tables::Table;
use crate::delta::{Deltas, SessionNs, Sums};
use crate::feed::{Encoder, News};
use crate::spool::courier::Queue;

/// So many single records are kept back until the interval is over.
const RECORDS_MAX: usize = 2_000;
/// Digests whose text is known to be in the store; beyond, all are sent again.
const DIGESTS_MAX: usize = 100_000;

/// What came of one digest since the last rows.
#[derive(Debug, Default)]
struct DigestNews {
    sums: Sums,
    max_ns: u64,
    database: Arc<str>,
    user: Arc<str>,
}

#[derive(Debug, Default)]
struct ServerNews {
    digests: BTreeMap<Arc<str>, DigestNews>,
    load: BTreeMap<(&'static str, Arc<str>), SessionNs>,
    counters: BTreeMap<(&'static str, &'static str), u64>,
}

/// The encoder of one sink.
pub(super) struct ToRows {
    queue: Arc<Queue>,
    interval_ns: u64,
    deltas: Deltas,
    news: HashMap<ServerId, ServerNews>,
    latest: Option<Arc<View>>,
    /// When rows were written last: monotonic, ns.
    written_ns: Option<u64>,
    samples: Vec<Sample>,
    waits: Vec<(ServerId, LockWait)>,
    deadlocks: Vec<(ServerId, Deadlock)>,
    digests_sent: HashSet<Arc<str>>,
    instances: HashMap<ServerId, Arc<str>>,
}

impl ToRows {
    pub(super) fn new(queue: Arc<Queue>, interval_ns: u64) -> Self {
        Self {
            queue,
            interval_ns,
            deltas: Deltas::default(),
            news: HashMap::new(),
            latest: None,
            written_ns: None,
            samples: Vec::new(),
            waits: Vec::new(),
            deadlocks: Vec::new(),
            digests_sent: HashSet::new(),
            instances: HashMap::new(),
        }
    }

    /// Adds what a view brought to what waits for the end of the interval.
    fn add(&mut self, view: &View) {
        self.deltas.begin(&view.servers);
        for server in &view.servers {
            self.instances
                .insert(server.id, Arc::clone(&server.instance));
            let news = self.news.entry(server.id).or_default();
            self.deltas.digests(server, |digest, sums| {
                add_digest(&mut news.digests, digest, &sums);
            });
            let load = &server.load;
            let all = (Arc::from(""), load.all);
            let dimensions = [
                ("all", std::slice::from_ref(&all)),
                ("user", &load.users),
                ("database", &load.databases),
                ("host", &load.hosts),
            ];
            for (number, (dimension, values)) in (0..).zip(dimensions) {
                for (name, time) in values {
                    let more = self.deltas.load(server, number, name, time);
                    let sum = news.load.entry((dimension, Arc::clone(name))).or_default();
                    sum.add(&more);
                }
            }
            self.deltas.end_load(server);
            for (kind, cause, now) in counters(server) {
                let more = self.deltas.counter(server, kind, cause, now);
                *news.counters.entry((kind, cause)).or_default() += more;
            }
        }
    }

    /// Writes all that waits, as of the latest view.
    fn write(&mut self) {
        let Some(view) = self.latest.clone() else {
            return;
        };
        let before_ns = self.written_ns.replace(view.time_ns);
        let queue = Arc::clone(&self.queue);
        let mut batches = Batches::new(&queue);
        if before_ns == Some(view.time_ns) {
            // At the end: nothing but single records came since.
            self.write_records(&mut batches, &view);
            return batches.ship();
        }
        for server in &view.servers {
            let news = self.news.remove(&server.id).unwrap_or_default();
            // The first period begins where watching did.
            let period_us = match before_ns {
                Some(before) => view.time_ns.saturating_sub(before) / 1000,
                None => view.time_ns.saturating_sub(server.started_ns) / 1000,
            };
            let place = self.place(&view, server.id);
            let at = At {
                place: &place,
                time_us: view.time_us,
                period_us,
            };
            self.write_digests(&mut batches, &at, server, &news.digests);
            write_load(&mut batches, &at, &news.load);
            write_server(&mut batches, &at, server, &news.counters);
            for wait in &server.waits {
                self.write_wait(&mut batches, &place, view.time_us, wait);
            }
        }
        let place = self.place(&view, ServerId(u32::MAX));
        metrics::each(&view, |server, scope, name, label, value| {
            let place = server.map_or_else(|| place.clone(), |id| self.place(&view, id));
            let rows = batches.rows(Table::Metrics);
            begin(rows, &place, view.time_us);
            rows.text(scope).text(name).text(label).f64(value).end();
            batches.ship_if_large(Table::Metrics);
        });
        self.write_records(&mut batches, &view);
        batches.ship();
        self.news.clear();
    }

    fn place(&self, view: &View, server: ServerId) -> Place {
        let instance = self.instances.get(&server);
        Place {
            host: Arc::clone(&view.host_name),
            instance: instance.map_or_else(|| Arc::from(""), Arc::clone),
            server: server.0,
            agent_us: view.started_us,
        }
    }

    fn write_digests(
        &mut self,
        batches: &mut Batches<'_>,
        at: &At<'_>,
        server: &ServerView,
        digests: &BTreeMap<Arc<str>, DigestNews>,
    ) {
        for view in &server.digests {
            if digests.contains_key(&view.digest) {
                let texts = (&*view.fingerprint, &*view.summary);
                self.write_text(batches, &view.digest, texts, at.time_us);
            }
        }
        for (digest, news) in digests {
            let sums = &news.sums;
            let rows = batches.rows(Table::Statements);
            begin(rows, at.place, at.time_us);
            rows.u64(at.period_us)
                .text(server.flavour)
                .text(source_name(server.source))
                .text(&**digest)
                .text(&*news.database)
                .text(&*news.user)
                .u64(sums.count)
                .u64(sums.errors)
                .u64(sums.latency_ns)
                .u64(news.max_ns)
                .u64s(sums.bars.iter().map(|bar| bar.0))
                .u64s(sums.bars.iter().map(|bar| bar.1));
            session(rows, &sums.time);
            for sum in sums.optional {
                rows.u64_or_null(sum);
            }
            rows.end();
            batches.ship_if_large(Table::Statements);
        }
    }

    /// The texts of a digest, once.
    fn write_text(
        &mut self,
        batches: &mut Batches<'_>,
        digest: &str,
        (fingerprint, summary): (&str, &str),
        seen_us: u64,
    ) {
        if digest.is_empty() || self.digests_sent.contains(digest) {
            return;
        }
        if self.digests_sent.len() >= DIGESTS_MAX {
            self.digests_sent.clear();
        }
        self.digests_sent.insert(Arc::from(digest));
        let rows = batches.rows(Table::Digests);
        rows.begin().text(digest).text(fingerprint).text(summary);
        rows.u64(seen_us).end();
        batches.ship_if_large(Table::Digests);
    }

    fn write_records(&mut self, batches: &mut Batches<'_>, view: &View) {
        for sample in std::mem::take(&mut self.samples) {
            // A summary comes with the digest's own row; this must not take its place.
            let known = view.servers.iter().flat_map(|server| &server.digests);
            let digest = known.into_iter().find(|d| d.digest == sample.digest);
            let summary = digest.map_or("", |digest| &*digest.summary);
            let texts = (&*sample.fingerprint, summary);
            self.write_text(batches, &sample.digest, texts, sample.time_us);
            let place = self.place(view, sample.server);
            write_sample(batches.rows(Table::Samples), &place, &sample);
            batches.ship_if_large(Table::Samples);
        }
        for (server, wait) in std::mem::take(&mut self.waits) {
            let place = self.place(view, server);
            let end_us = wait.since_us.saturating_add(wait.waited_us);
            self.write_wait(batches, &place, end_us, &wait);
        }
        for (server, deadlock) in std::mem::take(&mut self.deadlocks) {
            let place = self.place(view, server);
            for party in &deadlock.cycle {
                self.write_party_text(batches, party, deadlock.time_us);
            }
            let rows = batches.rows(Table::Deadlocks);
            begin(rows, &place, deadlock.time_us);
            write_party(rows, &deadlock.victim);
            let cycle = &deadlock.cycle;
            let digest = |party: &Party| party.digest.clone().unwrap_or_default();
            rows.u64s(cycle.iter().map(|party| party.connection_id.unwrap_or(0)))
                .texts(cycle.iter().map(|party| &*party.user))
                .texts(cycle.iter().map(|party| &*party.database))
                .texts(cycle.iter().map(digest))
                .end();
            batches.ship_if_large(Table::Deadlocks);
        }
    }

    fn write_party_text(&mut self, batches: &mut Batches<'_>, party: &Party, seen_us: u64) {
        if let Some(digest) = &party.digest
            && !party.fingerprint.is_empty()
        {
            self.write_text(batches, digest, (&party.fingerprint, ""), seen_us);
        }
    }

    fn write_wait(
        &mut self,
        batches: &mut Batches<'_>,
        place: &Place,
        time_us: u64,
        wait: &LockWait,
    ) {
        self.write_party_text(batches, &wait.waiter, time_us);
        self.write_party_text(batches, &wait.blocker, time_us);
        let rows = batches.rows(Table::Waits);
        begin(rows, place, time_us);
        rows.u64(wait.id)
            .text(kind_name(wait.kind))
            .u64(wait.since_us)
            .u64(wait.waited_us)
            .u8(wait.ended.into());
        write_party(rows, &wait.waiter);
        write_party(rows, &wait.blocker);
        let object = &wait.object;
        rows.text(&object.table)
            .text(&object.index)
            .text(&object.mode_wanted)
            .text(&object.mode_held)
            .text(object.unknown_because.as_deref().unwrap_or(""))
            .end();
        batches.ship_if_large(Table::Waits);
    }
}

impl Encoder for ToRows {
    fn take(&mut self, news: News) {
        match news {
            News::View(view) => {
                self.add(&view);
                let due = |last: u64| view.time_ns.saturating_sub(last) >= self.interval_ns;
                let is_due = self.written_ns.is_none_or(due);
                self.latest = Some(view);
                if is_due {
                    self.write();
                }
            }
            News::Samples(more) => self.samples.extend(more),
            News::Waits(more) => self.waits.extend(more),
            News::Deadlocks(more) => self.deadlocks.extend(more),
        }
        let records = self.samples.len() + self.waits.len() + self.deadlocks.len();
        if records >= RECORDS_MAX
            && let Some(view) = self.latest.clone()
        {
            let queue = Arc::clone(&self.queue);
            let mut batches = Batches::new(&queue);
            self.write_records(&mut batches, &view);
            batches.ship();
        }
    }

    fn end(&mut self) {
        self.write();
    }
}

fn add_digest(
    digests: &mut BTreeMap<Arc<str>, DigestNews>,
    view: Option<&DigestView>,
    sums: &Sums,
) {
    let digest = view.map_or_else(|| Arc::from("other"), |view| Arc::clone(&view.digest));
    let news = digests.entry(digest).or_default();
    news.sums.add(sums);
    let longest = sums.bars.last().map_or(0, |bar| bar.0);
    let longest = view.map_or(longest, |v| longest.min((v.latency.max_us() * 1e3) as u64));
    news.max_ns = news.max_ns.max(longest);
    if let Some(view) = view {
        news.database = Arc::clone(&view.database);
        news.user = Arc::clone(&view.user);
    }
}

/// Counters of a server: column, cause, value.
fn counters(server: &ServerView) -> Vec<(&'static str, &'static str, u64)> {
    const ENDED: [(&str, &str); 3] = [
        ("waits_row", "waits_row_us"),
        ("waits_metadata", "waits_metadata_us"),
        ("waits_table", "waits_table_us"),
    ];
    let mut all = vec![
        ("captured", "", server.captured),
        ("own", "", server.own),
        ("in_routines", "", server.in_routines),
        ("other_commands", "", server.other_commands),
        ("deadlocks", "", server.deadlock_count),
    ];
    let causes = |kind: &'static str, list: &[(&'static str, u64)]| -> Vec<_> {
        list.iter().map(|&(cause, n)| (kind, cause, n)).collect()
    };
    all.extend(causes("lost", &server.lost));
    all.extend(causes("degraded", &server.degraded));
    for ((count, time), ended) in ENDED.into_iter().zip(server.waits_ended) {
        all.extend([(count, "", ended.0), (time, "", ended.1)]);
    }
    all
}
