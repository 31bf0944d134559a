//! Families about a server as a whole: what it is, its locks, its process, its own counters.
//!
//! Neighbour: [`metrics`](super::metrics) has the rules for names.

use std::collections::HashSet;

use waggle_agent::host::ProcessSample;
use waggle_agent::lock::{LockKind, LockWait};
use waggle_agent::source::SourceKind;

use super::exposition::Kind;
use super::metrics::{Printer, seconds_of_us};
use super::page::{Page, ServerPage};

/// Status variables of a server that have series.
const STATUSES_MOST: usize = 500;

impl ServerPage<'_> {
    /// Its name in labels.
    pub(super) fn name(&self) -> &str {
        &self.view.instance
    }
}

pub(super) fn servers(page: &Page<'_>, to: &mut Printer<'_>) {
    to.gauge(
        "waggle_server_info",
        "What a server is and which eye watches it; always 1.",
    );
    for server in &page.servers {
        let pid = server.view.pid.to_string();
        let labels = [
            ("server", server.name()),
            ("flavour", server.view.flavour),
            ("version", &*server.view.version),
            ("source", source_name(server.view.source)),
            ("pid", pid.as_str()),
        ];
        to.put(&labels, 1.0, server.is_new);
    }
    to.gauge(
        "waggle_server_watched",
        "1 while the server is watched, 0 once it ended or can be watched no more.",
    );
    each(page, to, |s| {
        Some(f64::from(u8::from(s.view.ended.is_none())))
    });
    to.gauge(
        "waggle_server_watch_start_time_seconds",
        "When watching this process of the server began, since 1970: its counters began at 0 then.",
    );
    each(page, to, |s| Some(seconds_of_us(s.view.started_us)));
    to.gauge("waggle_digests", "Digests that the agent keeps apart.");
    each(page, to, |s| Some(s.view.digests.len() as f64));
    to.gauge(
        "waggle_digest_series",
        "Digests that have series of their own.",
    );
    each(page, to, |s| Some(s.digests.len() as f64 - 1.0));
    to.counter(
        "waggle_digest_evictions_total",
        "Digests whose series ended because a larger one took their place.",
    );
    each(page, to, |s| Some(s.evicted as f64));
}

pub(super) fn locks(page: &Page<'_>, to: &mut Printer<'_>) {
    to.counter("waggle_lock_waits_total", "Lock waits that ended, by kind.");
    by_kind(page, to, |s, at| s.view.waits_ended[at].0 as f64);
    to.counter(
        "waggle_lock_wait_seconds_total",
        "Time of the lock waits that ended, by kind.",
    );
    by_kind(page, to, |s, at| seconds_of_us(s.view.waits_ended[at].1));
    to.gauge(
        "waggle_lock_waiting",
        "Waits for a lock that go on now, by kind.",
    );
    by_kind(page, to, |s, at| {
        let ids: HashSet<u64> = going_on(s, at).map(|wait| wait.id).collect();
        ids.len() as f64
    });
    to.gauge(
        "waggle_lock_wait_longest_seconds",
        "The longest wait that goes on now, by kind.",
    );
    by_kind(page, to, |s, at| {
        let longest = going_on(s, at).map(|wait| wait.waited_us).max();
        seconds_of_us(longest.unwrap_or(0))
    });
    to.counter("waggle_deadlocks_total", "Deadlocks the server resolved.");
    each(page, to, |s| Some(s.view.deadlock_count as f64));
}

/// Waits of the kind at a place of `waits_ended`.
fn going_on<'a>(server: &'a ServerPage<'_>, at: usize) -> impl Iterator<Item = &'a LockWait> {
    let waits = server.view.waits.iter();
    waits.filter(move |wait| !wait.ended && KINDS[at].0 == wait.kind)
}

/// In the order of `waits_ended`.
const KINDS: [(LockKind, &str); 3] = [
    (LockKind::Row, "row"),
    (LockKind::Metadata, "metadata"),
    (LockKind::Table, "table"),
];

fn by_kind(page: &Page<'_>, to: &mut Printer<'_>, value: impl Fn(&ServerPage<'_>, usize) -> f64) {
    for server in &page.servers {
        for (at, (_, kind)) in KINDS.iter().enumerate() {
            let labels = [("server", server.name()), ("kind", *kind)];
            to.put(&labels, value(server, at), server.is_new);
        }
    }
}

/// A series for each server that has the value.
fn each(page: &Page<'_>, to: &mut Printer<'_>, value: impl Fn(&ServerPage<'_>) -> Option<f64>) {
    for server in &page.servers {
        if let Some(value) = value(server) {
            to.put(&[("server", server.name())], value, server.is_new);
        }
    }
}

type OfProcess = fn(&ProcessSample) -> f64;

/// Counters (true) and gauges of a process: name, help, value.
const OF_PROCESS: &[(bool, &str, &str, OfProcess)] = &[
    (
        true,
        "runqueue_seconds_total",
        "Time that threads of the server were ready but not running.",
        |p| p.runqueue_s,
    ),
    (
        false,
        "resident_memory_bytes",
        "Memory of the server.",
        |p| p.rss_bytes as f64,
    ),
    (
        true,
        "storage_read_bytes_total",
        "Bytes the server read from storage.",
        |p| p.storage_bytes.0 as f64,
    ),
    (
        true,
        "storage_written_bytes_total",
        "Bytes the server wrote to storage.",
        |p| p.storage_bytes.1 as f64,
    ),
    (false, "threads", "Threads of the server.", |p| {
        f64::from(p.threads)
    }),
    (false, "open_files", "Files the server has open.", |p| {
        f64::from(p.files)
    }),
    (
        true,
        "voluntary_switches_total",
        "Context switches that the server's threads asked for.",
        |p| p.switches.0 as f64,
    ),
    (
        true,
        "forced_switches_total",
        "Context switches that were forced on the server's threads.",
        |p| p.switches.1 as f64,
    ),
];

pub(super) fn processes(page: &Page<'_>, to: &mut Printer<'_>) {
    to.counter(
        "waggle_server_cpu_seconds_total",
        "Processor time of the server, by mode.",
    );
    for server in &page.servers {
        let Some(process) = &server.view.process else {
            continue;
        };
        for (mode, time) in [("user", process.cpu_s.0), ("system", process.cpu_s.1)] {
            let labels = [("server", server.name()), ("mode", mode)];
            // It counts since the process began, not since it is watched.
            to.put(&labels, time, false);
        }
    }
    for (is_counter, name, help, value) in OF_PROCESS {
        let name = format!("waggle_server_{name}");
        let kind = if *is_counter {
            Kind::Counter
        } else {
            Kind::Gauge
        };
        to.to.family(&name, kind, help);
        for server in &page.servers {
            if let Some(process) = &server.view.process {
                to.put(&[("server", server.name())], value(process), false);
            }
        }
    }
}

pub(super) fn statuses(page: &Page<'_>, to: &mut Printer<'_>) {
    to.gauge(
        "waggle_server_status_available",
        "1 if the server's own counters could be read.",
    );
    each(page, to, |s| {
        let status = s.view.status.as_ref()?;
        Some(f64::from(u8::from(status.missing_because.is_none())))
    });
    // All of a name together, whatever order each server has them in.
    let mut names: Vec<String> = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    for (name, _) in page.servers.iter().flat_map(values) {
        let name = status_name(name);
        if names.len() < STATUSES_MOST && known.insert(name.clone()) {
            names.push(name);
        }
    }
    for name in &names {
        to.to
            .family(name, Kind::Untyped, "The server's own number of that name.");
        for server in &page.servers {
            let mut same = values(server).filter(|(theirs, _)| status_name(theirs) == *name);
            if let Some((_, value)) = same.next() {
                to.put(&[("server", server.name())], *value, server.is_new);
            }
        }
    }
    to.gauge(
        "waggle_replication_lag_seconds",
        "How far the server is behind its source, by channel.",
    );
    for server in &page.servers {
        let lags = server.view.status.iter().flat_map(|status| &status.lag_s);
        let mut channels = HashSet::new();
        for (channel, lag) in lags {
            if channels.insert(channel) {
                let labels = [("server", server.name()), ("channel", channel.as_str())];
                to.put(&labels, *lag, server.is_new);
            }
        }
    }
}

fn values<'a>(server: &'a ServerPage<'_>) -> impl Iterator<Item = &'a (String, f64)> {
    server.view.status.iter().flat_map(|status| &status.values)
}

/// `Innodb_rows-read` as a metric's name.
fn status_name(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        'a'..='z' | '0'..='9' => letter,
        'A'..='Z' => letter.to_ascii_lowercase(),
        _ => '_',
    });
    "waggle_status_".chars().chain(letters).collect()
}

fn source_name(source: SourceKind) -> &'static str {
    match source {
        SourceKind::Uprobe => "uprobe",
        SourceKind::Packets => "packets",
        SourceKind::Perfschema => "perfschema",
        SourceKind::Slowlog => "slowlog",
    }
}
