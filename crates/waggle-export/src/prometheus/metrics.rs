//! The names: every family, its help, its labels. What a dashboard may rely on.
//!
//! Conventions: prefix `waggle_`, base units (seconds, bytes), `_total` for counters. The label
//! `server` is the server's instance on its host (port, socket or process id); `instance` is the
//! host's, and is given by whoever scrapes, or by remote write. Text is a label of
//! `waggle_digest_info` and of nothing else. Neighbours: [`page`](super::page) below, formats
//! above.
//!
//! Invariant: a reading that did not happen has no series.

use super::exposition::{Kind, Series, Visit};
use super::page::{Page, ServerPage};
use super::row::{self, BOUNDS_NS, CLASSES, Row, class_name};
use super::selection::Selection;

/// Most labels that any series has.
const LABELS_MOST: usize = 6;

/// Hands series to a [`Visit`].
pub(super) struct Printer<'v> {
    pub(super) to: &'v mut dyn Visit,
}

impl Printer<'_> {
    pub(super) fn counter(&mut self, name: &str, help: &str) {
        self.to.family(name, Kind::Counter, help);
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str) {
        self.to.family(name, Kind::Gauge, help);
    }

    pub(super) fn put(&mut self, labels: &[(&'static str, &str)], value: f64, is_new: bool) {
        self.to.series(Series {
            suffix: "",
            labels,
            value,
            is_new,
        });
    }
}

/// Tells `to` every series of `page`.
pub(super) fn visit(page: &Page<'_>, to: &mut dyn Visit) {
    let mut printer = Printer { to };
    agent(page, &mut printer);
    sinks(page, &mut printer);
    digest_info(page, &mut printer);
    statements(page, &mut printer);
    session_time(page, &mut printer);
    histogram(page, &mut printer);
    digest_sums(page, &mut printer);
    super::instance::servers(page, &mut printer);
    super::instance::locks(page, &mut printer);
    super::instance::processes(page, &mut printer);
    super::instance::statuses(page, &mut printer);
    super::host::host(page, &mut printer);
}

fn agent(page: &Page<'_>, to: &mut Printer<'_>) {
    let (view, is_new) = (page.view, page.is_new);
    to.gauge("waggle_build_info", "Version of the agent; always 1.");
    to.put(&[("version", env!("CARGO_PKG_VERSION"))], 1.0, is_new);
    to.gauge(
        "waggle_agent_start_time_seconds",
        "When the agent began, since 1970.",
    );
    to.put(&[], seconds_of_us(view.started_us), is_new);
    to.gauge(
        "waggle_view_timestamp_seconds",
        "When these numbers were taken, since 1970.",
    );
    to.put(&[], seconds_of_us(view.time_us), is_new);
    to.counter(
        "waggle_agent_cpu_seconds_total",
        "Processor time of the agent itself.",
    );
    to.put(&[], view.own.cpu_s, is_new);
    to.gauge(
        "waggle_agent_resident_memory_bytes",
        "Memory of the agent itself.",
    );
    to.put(&[], view.own.rss_bytes as f64, is_new);
    if let Some(us) = view.own.server_us_per_statement {
        to.gauge(
            "waggle_agent_server_seconds_per_statement",
            "Processor time of the server that watching one statement takes, as measured.",
        );
        to.put(&[], us / 1e6, is_new);
    }
    to.counter(
        "waggle_agent_probe_hits_total",
        "Hits of the agent's probes; of scheduler, context switches of the whole host.",
    );
    for probe in &view.own.probes {
        to.put(&[("probe", probe.name)], probe.hits as f64, is_new);
    }
    to.counter(
        "waggle_agent_probe_cpu_seconds_total",
        "Processor time that the agent's probes took, by hits and measured cost of one.",
    );
    for probe in view.own.probes.iter().filter(|p| p.hit_ns() > 0.0) {
        to.put(&[("probe", probe.name)], probe.cpu_s(), is_new);
    }
    to.gauge(
        "waggle_agent_shed",
        "What the agent leaves out now to keep within its budget; 1 for each.",
    );
    for what in &view.own.shed {
        to.put(&[("what", what)], 1.0, is_new);
    }
}

fn sinks(page: &Page<'_>, to: &mut Printer<'_>) {
    let sinks = &page.view.sinks;
    to.counter(
        "waggle_sink_delivered_total",
        "Records that a sink's other side acknowledged.",
    );
    for (sink, status) in sinks {
        to.put(&[("sink", sink)], status.delivered as f64, page.is_new);
    }
    to.counter(
        "waggle_sink_dropped_total",
        "Records of a sink that will never be delivered, by cause.",
    );
    for (sink, status) in sinks {
        for (cause, records) in &status.dropped {
            to.put(&[("sink", sink), ("cause", cause)], *records as f64, false);
        }
    }
    to.gauge(
        "waggle_sink_waiting",
        "Records of a sink that wait, in memory and on disk.",
    );
    for (sink, status) in sinks {
        to.put(&[("sink", sink)], status.waiting as f64, page.is_new);
    }
}

fn digest_info(page: &Page<'_>, to: &mut Printer<'_>) {
    to.gauge(
        "waggle_digest_info",
        "Text of a digest, without literals; always 1. Join on digest.",
    );
    for info in &page.digests {
        let labels = [
            ("digest", &*info.digest),
            ("fingerprint", info.fingerprint.as_str()),
            ("summary", &*info.summary),
        ];
        to.put(&labels, 1.0, info.is_new);
    }
}

fn statements(page: &Page<'_>, to: &mut Printer<'_>) {
    to.counter(
        "waggle_statements_captured_total",
        "Statements seen. With those lost and the agent's own, all that were executed.",
    );
    for server in &page.servers {
        let captured = server.view.captured as f64;
        to.put(&[("server", server.name())], captured, server.is_new);
    }
    to.counter(
        "waggle_statements_in_routines_total",
        "Of the statements seen, those within routines and triggers.",
    );
    for server in &page.servers {
        let within = server.view.in_routines as f64;
        to.put(&[("server", server.name())], within, server.is_new);
    }
    to.counter(
        "waggle_statements_own_total",
        "Statements of the agent itself, which are not among those captured.",
    );
    for server in &page.servers {
        let own = server.view.own as f64;
        to.put(&[("server", server.name())], own, server.is_new);
    }
    to.counter(
        "waggle_statements_lost_total",
        "Statements that ended unseen, by cause.",
    );
    for server in &page.servers {
        by_cause(server, &server.view.lost, to);
    }
    to.counter(
        "waggle_statements_degraded_total",
        "Statements seen with less than all there is to know, by cause.",
    );
    for server in &page.servers {
        by_cause(server, &server.view.degraded, to);
    }
    to.counter(
        "waggle_commands_other_total",
        "Commands that ended and are no statements.",
    );
    for server in &page.servers {
        let others = server.view.other_commands as f64;
        to.put(&[("server", server.name())], others, server.is_new);
    }
}

fn by_cause(server: &ServerPage<'_>, causes: &[(&'static str, u64)], to: &mut Printer<'_>) {
    for (cause, count) in causes {
        let labels = [("server", server.name()), ("cause", *cause)];
        to.put(&labels, *count as f64, server.is_new);
    }
}

fn session_time(page: &Page<'_>, to: &mut Printer<'_>) {
    to.counter(
        "waggle_session_seconds_total",
        "Time that sessions spent in statements, running ones included, by what they did. \
         Its rate is the average of active sessions.",
    );
    for server in &page.servers {
        let labels = [("server", server.name())];
        classes(server, &labels, &server.all, server.is_new, to);
    }
    to.counter(
        "waggle_statement_seconds_total",
        "Time of finished statements by digest, by what they did. \
         Its rate is the average of active sessions.",
    );
    for server in &page.servers {
        by_label(server, "digest", &server.digests, to);
    }
    to.counter(
        "waggle_user_session_seconds_total",
        "Time of sessions by user, by what they did.",
    );
    for server in &page.servers {
        by_label(server, "user", &server.users, to);
    }
    to.counter(
        "waggle_database_session_seconds_total",
        "Time of sessions by default database, by what they did.",
    );
    for server in &page.servers {
        by_label(server, "database", &server.databases, to);
    }
    to.counter(
        "waggle_client_session_seconds_total",
        "Time of sessions by the client's host, by what they did.",
    );
    for server in &page.servers {
        by_label(server, "client", &server.hosts, to);
    }
}

fn by_label(
    server: &ServerPage<'_>,
    name: &'static str,
    selection: &Selection,
    to: &mut Printer<'_>,
) {
    for one in selection {
        let labels = [("server", server.name()), (name, &*one.label)];
        classes(server, &labels, &one.row, one.is_new, to);
    }
}

/// One series a class. All of them, zeros too, so that the first wait of a kind is an increase and
/// not a new series; but none of a split that no source makes.
fn classes(
    server: &ServerPage<'_>,
    labels: &[(&'static str, &str)],
    row: &Row,
    is_new: bool,
    to: &mut Printer<'_>,
) {
    let mut all = [("", ""); LABELS_MOST];
    all[..labels.len()].copy_from_slice(labels);
    for at in 0..CLASSES {
        let name = class_name(at);
        if !server.is_classified && name != "unclassified" {
            continue;
        }
        all[labels.len()] = ("class", name);
        let time = row.get(at).unwrap_or(0);
        to.put(&all[..=labels.len()], seconds_of_ns(time), is_new);
    }
}

fn histogram(page: &Page<'_>, to: &mut Printer<'_>) {
    to.to.family(
        "waggle_statement_duration_seconds",
        Kind::Histogram,
        "Latencies of statements by digest, as the server's clock has them.",
    );
    let bounds = BOUNDS_NS.map(|ns| seconds_of_ns(ns).to_string());
    for server in &page.servers {
        for one in &server.digests {
            let ids = [("server", server.name()), ("digest", &*one.label)];
            let count = one.row.get(row::COUNT).unwrap_or(0) as f64;
            let mut put = |suffix, labels: &[(&'static str, &str)], value| {
                to.to.series(Series {
                    suffix,
                    labels,
                    value,
                    is_new: one.is_new,
                });
            };
            for (at, bound) in bounds.iter().enumerate() {
                let below = one.row.get(row::BUCKETS + at).unwrap_or(0) as f64;
                put("_bucket", &[ids[0], ids[1], ("le", bound)], below);
            }
            put("_bucket", &[ids[0], ids[1], ("le", "+Inf")], count);
            let sum = one.row.get(row::LATENCY_NS).unwrap_or(0);
            put("_sum", &ids, seconds_of_ns(sum));
            put("_count", &ids, count);
        }
    }
}

/// Counters of a digest: place in its row, name, help; ns become seconds.
const SUMS: &[(usize, &str, &str)] = &[
    (row::ERRORS, "errors_total", "Statements that failed."),
    (row::ROWS_SENT, "rows_sent_total", "Rows sent to clients."),
    (
        row::ROWS_EXAMINED,
        "rows_examined_total",
        "Rows read from the storage engines.",
    ),
    (row::ROWS_AFFECTED, "rows_affected_total", "Rows changed."),
    (row::WARNINGS, "warnings_total", "Warnings raised."),
    (
        row::LOCK_NS,
        "lock_seconds_total",
        "Lock time, as the server itself counts it.",
    ),
    (
        row::TMP_TABLES,
        "tmp_tables_total",
        "Temporary tables made.",
    ),
    (
        row::TMP_DISK_TABLES,
        "tmp_disk_tables_total",
        "Temporary tables made on disk.",
    ),
    (
        row::FULL_SCANS,
        "full_scans_total",
        "Statements that read a table from end to end.",
    ),
    (
        row::FULL_JOINS,
        "full_joins_total",
        "Statements that joined without a key.",
    ),
    (
        row::NO_INDEX,
        "no_index_total",
        "Statements that used no index or no good one.",
    ),
    (
        row::STORAGE_READ,
        "storage_read_bytes_total",
        "Bytes read from storage.",
    ),
    (
        row::STORAGE_WRITTEN,
        "storage_written_bytes_total",
        "Bytes written to storage.",
    ),
    (
        row::SWITCHES_VOLUNTARY,
        "voluntary_switches_total",
        "Context switches that threads asked for.",
    ),
    (
        row::SWITCHES_FORCED,
        "forced_switches_total",
        "Context switches that were forced on threads.",
    ),
];

fn digest_sums(page: &Page<'_>, to: &mut Printer<'_>) {
    for (at, name, help) in SUMS {
        let help = format!("{} By digest.", help);
        to.counter(&format!("waggle_statement_{name}"), &help);
        for server in &page.servers {
            for one in &server.digests {
                let Some(sum) = one.row.get(*at) else {
                    continue;
                };
                let value = if *at == row::LOCK_NS {
                    seconds_of_ns(sum)
                } else {
                    sum as f64
                };
                let labels = [("server", server.name()), ("digest", &*one.label)];
                to.put(&labels, value, one.is_new);
            }
        }
    }
}

pub(super) fn seconds_of_ns(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn seconds_of_us(us: u64) -> f64 {
    us as f64 / 1e6
}
