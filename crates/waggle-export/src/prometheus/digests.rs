//! Families about each digest: its text, its latencies, and the sums of its statements.
//!
//! Neighbours: [`metrics`](super::metrics) has the rules for names, and the time of digests beside
//! that of users; `row` has the numbers.
//!
//! Invariant: a sum that the source does not know has no series.

use super::exposition::{Kind, Series};
use super::metrics::{Printer, seconds_of_ns};
use super::page::Page;
use super::row::{self, BOUNDS_NS};

pub(super) fn info(page: &Page<'_>, to: &mut Printer<'_>) {
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

pub(super) fn histogram(page: &Page<'_>, to: &mut Printer<'_>) {
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

pub(super) fn sums(page: &Page<'_>, to: &mut Printer<'_>) {
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
