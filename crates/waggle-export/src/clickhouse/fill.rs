//! What stands in a row of each table, column by column.
//!
//! Neighbours: `tables` has the columns in this order, `encode` says which rows there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use waggle_agent::lock::{LockKind, Party};
use waggle_agent::sample::{Reason, Sample};
use waggle_agent::source::SourceKind;
use waggle_agent::statement::Origin;
use waggle_agent::view::ServerView;

use super::batches::Batches;
use super::row::Rows;
use super::tables::Table;
use crate::delta::SessionNs;
use crate::trace::trace_of;

/// Where a row belongs.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) host: Arc<str>,
    pub(super) instance: Arc<str>,
    pub(super) server: u32,
    pub(super) agent_us: u64,
}

/// The time and place of rows of one server.
pub(super) struct At<'a> {
    pub(super) place: &'a Place,
    pub(super) time_us: u64,
    pub(super) period_us: u64,
}

pub(super) fn begin(rows: &mut Rows, place: &Place, time_us: u64) {
    rows.begin()
        .time(time_us)
        .u64(time_us)
        .text(&*place.host)
        .text(&*place.instance)
        .u32(place.server)
        .u64(place.agent_us);
}

pub(super) fn session(rows: &mut Rows, time: &SessionNs) {
    rows.u64(time.cpu).u64(time.runnable);
    for blocked in time.blocked {
        rows.u64(blocked);
    }
    rows.u64(time.unclassified);
}

pub(super) fn write_load(
    batches: &mut Batches<'_>,
    at: &At<'_>,
    load: &BTreeMap<(&'static str, Arc<str>), SessionNs>,
) {
    for ((dimension, name), time) in load.iter().filter(|(_, t)| **t != SessionNs::default()) {
        let rows = batches.rows(Table::Load);
        begin(rows, at.place, at.time_us);
        rows.u64(at.period_us).text(dimension).text(&**name);
        session(rows, time);
        rows.end();
        batches.ship_if_large(Table::Load);
    }
}

pub(super) fn write_server(
    batches: &mut Batches<'_>,
    at: &At<'_>,
    server: &ServerView,
    counters: &BTreeMap<(&'static str, &'static str), u64>,
) {
    let one = |kind| counters.get(&(kind, "")).copied().unwrap_or(0);
    let of = |kind: &'static str| -> Vec<(&'static str, u64)> {
        let range = counters.range((kind, "")..=(kind, "\u{10ffff}"));
        range.map(|((_, cause), count)| (*cause, *count)).collect()
    };
    let (lost, degraded) = (of("lost"), of("degraded"));
    let rows = batches.rows(Table::Servers);
    begin(rows, at.place, at.time_us);
    rows.u64(at.period_us)
        .text(server.flavour)
        .text(&*server.version)
        .text(source_name(server.source))
        .u32(server.pid)
        .u64(one("captured"))
        .u64(one("other_commands"))
        .u64(one("deadlocks"))
        .texts(lost.iter().map(|(cause, _)| cause))
        .u64s(lost.iter().map(|(_, count)| *count))
        .texts(degraded.iter().map(|(cause, _)| cause))
        .u64s(degraded.iter().map(|(_, count)| *count))
        .u64s(
            ["waits_row", "waits_metadata", "waits_table"]
                .into_iter()
                .map(one),
        )
        .u64s(
            ["waits_row_us", "waits_metadata_us", "waits_table_us"]
                .into_iter()
                .map(one),
        )
        .text(server.ended.as_deref().unwrap_or(""))
        .u64(one("own"))
        .u64(one("in_routines"))
        .end();
    batches.ship_if_large(Table::Servers);
}

pub(super) fn write_party(rows: &mut Rows, party: &Party) {
    rows.u64_or_null(party.connection_id)
        .text(&*party.user)
        .text(&*party.database)
        .text(party.digest.as_deref().unwrap_or(""))
        .u8(party.is_running.into())
        .u64_or_null(party.transaction_us)
        .u64_or_null(party.idle_us);
}

pub(super) fn write_sample(rows: &mut Rows, place: &Place, sample: &Sample) {
    let whole = |us: f64| (us * 1e3).round() as u64;
    begin(rows, place, sample.time_us);
    rows.u64(sample.sequence)
        .text(match sample.reason {
            Reason::Slow => "slow",
            Reason::Failed => "failed",
            Reason::Random => "random",
        })
        .text(&*sample.digest)
        .text_or_null(sample.text.as_deref())
        .text(&*sample.user)
        .text(&*sample.host)
        .text(&*sample.database)
        .u64_or_null(sample.connection_id)
        .text(sample.origin.map_or("", origin_name))
        .u64_or_null(sample.latency_us.map(whole))
        .u64_or_null(sample.cpu_us.map(whole))
        .u64_or_null(sample.runnable_us.map(whole));
    match sample.blocked_us {
        Some(classes) => classes.map(|us| _ = rows.u64_or_null(Some(whole(us)))),
        None => [None; waggle_agent::WaitClass::COUNT].map(|none| _ = rows.u64_or_null(none)),
    };
    let work = &sample.work;
    let wide = |pair: Option<(u32, u32)>| pair.map(|(a, b)| (u64::from(a), u64::from(b)));
    let pairs = [wide(work.tmp_tables), wide(work.full_scans)];
    rows.u64_or_null(work.rows_sent)
        .u64_or_null(work.rows_examined)
        .u64_or_null(work.rows_affected)
        .u64_or_null(work.warnings.map(u64::from))
        .u64_or_null(work.lock_ns);
    for pair in pairs {
        rows.u64_or_null(pair.map(|p| p.0))
            .u64_or_null(pair.map(|p| p.1));
    }
    rows.u64_or_null(work.no_index.map(u64::from));
    for pair in [work.storage_bytes, wide(work.switches)] {
        rows.u64_or_null(pair.map(|p| p.0))
            .u64_or_null(pair.map(|p| p.1));
    }
    rows.u64_or_null(work.error.map(u64::from))
        .u64_or_null(work.network_bytes.map(|p| p.0))
        .u64_or_null(work.network_bytes.map(|p| p.1))
        .u64_or_null(work.in_transaction.map(u64::from));
    let trace = trace_of(&sample.comments);
    rows.texts(sample.comments.iter().map(|(key, _)| key))
        .texts(sample.comments.iter().map(|(_, value)| value))
        .text(trace.map_or("", |trace| trace.trace_id))
        .text(trace.map_or("", |trace| trace.span_id))
        .end();
}

pub(super) fn source_name(source: SourceKind) -> &'static str {
    match source {
        SourceKind::Uprobe => "uprobe",
        SourceKind::Packets => "packets",
        SourceKind::Perfschema => "perfschema",
        SourceKind::Slowlog => "slowlog",
    }
}

pub(super) fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Client => "client",
        Origin::Replication => "replication",
        Origin::Event => "event",
        Origin::Routine => "routine",
    }
}

pub(crate) fn kind_name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Row => "row",
        LockKind::Metadata => "metadata",
        LockKind::Table => "table",
    }
}
