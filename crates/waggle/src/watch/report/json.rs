//! The JSON document: one shape for `--json`, the samples of a record and its result.

use std::time::Duration;

use serde_json::{Map, Value, json};
use waggle_agent::WaitClass;
use waggle_agent::view::{DigestView, LoadView, ServerView, SessionTime, View};

/// Everything in `view`.
pub(crate) fn document(view: &View, elapsed: Duration) -> Value {
    // Of all servers, those that are not listed any more among them.
    let forgotten = &view.forgotten;
    let sum = |f: fn(&ServerView) -> u64, gone: u64| view.servers.iter().map(f).sum::<u64>() + gone;
    let lost = view.servers.iter().flat_map(|s| &s.lost);
    let degraded = view.servers.iter().flat_map(|s| &s.degraded);
    let digests: Vec<Value> = view
        .servers
        .iter()
        .flat_map(|server| server.digests.iter().map(|d| digest(d, server.pid)))
        .collect();
    let own = &view.own;
    json!({
        "captured": sum(|s| s.captured, forgotten.captured),
        "in_routines": sum(|s| s.in_routines, forgotten.in_routines),
        "own": sum(|s| s.own, forgotten.own),
        "lost": causes(lost.chain(&forgotten.lost)),
        "degraded": causes(degraded.chain(&forgotten.degraded)),
        "other_commands": sum(|s| s.other_commands, forgotten.other_commands),
        "hits": sum(|s| s.hits, forgotten.hits),
        "forgotten": {
            "captured": forgotten.captured,
            "lost": forgotten.lost.iter().map(|(_, count)| count).sum::<u64>(),
        },
        "duration_s": elapsed.as_secs_f64(),
        "time_us": view.time_us,
        "servers": view.servers.iter().map(server).collect::<Vec<_>>(),
        "digests": digests,
        "host": view.host,
        "sinks": view.sinks.iter().map(|(name, status)| (*name, json!(status)))
            .collect::<std::collections::BTreeMap<_, _>>(),
        "self": {
            "server_us_per_statement": own.server_us_per_statement,
            "trap_ns": own.trap_ns,
            "program_ns": own.program_ns,
            "probes": own.probes.iter().map(|probe| json!({
                "probe": probe.name,
                "hits": probe.hits,
                "trap_ns": probe.trap_ns,
                "program_ns": probe.program_ns,
                "server_cpu_s": probe.cpu_s(),
            })).collect::<Vec<_>>(),
            "agent_cpu_s": own.cpu_s,
            "agent_rss_bytes": own.rss_bytes,
            "shed": own.shed,
        },
    })
}

/// Counts by cause, over all servers.
fn causes<'a>(counts: impl Iterator<Item = &'a (&'static str, u64)>) -> Value {
    let mut sums = std::collections::BTreeMap::new();
    for (cause, count) in counts {
        *sums.entry(*cause).or_insert(0) += count;
    }
    json!(sums)
}

fn server(server: &ServerView) -> Value {
    let abilities = &server.abilities;
    let missing: Map<String, Value> = abilities
        .missing
        .iter()
        .map(|(field, why)| (field.clone(), why.as_str().into()))
        .collect();
    let [row, metadata, table] = server
        .waits_ended
        .map(|(count, us)| json!({ "count": count, "total_s": us as f64 / 1e6 }));
    let rest = |rest: &Option<DigestView>| rest.as_ref().map(|d| digest(d, server.pid));
    json!({
        "id": server.id,
        "pid": server.pid,
        "flavour": server.flavour,
        "version": (!server.version.is_empty()).then_some(&*server.version),
        "instance": &*server.instance,
        "source": server.source,
        "place": abilities.place,
        "build_id": abilities.build_id,
        "captured": server.captured,
        "in_routines": server.in_routines,
        "own": server.own,
        "lost": causes(server.lost.iter()),
        "degraded": causes(server.degraded.iter()),
        "probe": abilities.site,
        "missing": missing,
        "validated_on": abilities.validated_on,
        "ended": server.ended.as_deref(),
        "other": rest(&server.other),
        "retired": rest(&server.retired),
        "load": load(&server.load),
        "waits": server.waits,
        "waits_ended": { "row": row, "metadata": metadata, "table": table },
        "deadlocks": server.deadlocks,
        "deadlock_count": server.deadlock_count,
        "process": server.process,
        "status": server.status,
    })
}

fn load(load: &LoadView) -> Value {
    let named = |names: &[(std::sync::Arc<str>, SessionTime)]| -> Map<String, Value> {
        let seconds = names.iter();
        seconds
            .map(|(name, time)| (name.to_string(), session_time(time)))
            .collect()
    };
    json!({
        "all": session_time(&load.all),
        "users": named(&load.users),
        "databases": named(&load.databases),
        "hosts": named(&load.hosts),
    })
}

/// Seconds by what a session was doing; classes without any are left out.
fn session_time(time: &SessionTime) -> Value {
    let mut parts = Map::new();
    let mut part = |name: &str, seconds: f64| {
        if seconds > 0.0 {
            parts.insert(name.to_owned(), seconds.into());
        }
    };
    part("cpu", time.cpu_s);
    part("runnable", time.runnable_s);
    for class in WaitClass::ALL {
        part(class.as_str(), time.blocked_s[class.index()]);
    }
    part("unclassified", time.unclassified_s);
    parts.into()
}

fn digest(digest: &DigestView, pid: u32) -> Value {
    let latency = &digest.latency;
    let pair = |pair: Option<(u64, u64)>| pair.map(|(a, b)| [a, b]);
    json!({
        "digest": &*digest.digest,
        "fingerprint": &*digest.fingerprint,
        "summary": &*digest.summary,
        "server": pid,
        "database": &*digest.database,
        "user": &*digest.user,
        "seen_us": [digest.seen_us.0, digest.seen_us.1],
        "count": latency.count(),
        "errors": digest.errors,
        "rows_sent": digest.rows_sent,
        "rows_examined": digest.rows_examined,
        "rows_affected": digest.rows_affected,
        "warnings": digest.warnings,
        "lock_s": digest.lock_s,
        "tmp_tables": pair(digest.tmp_tables),
        "full_scans": pair(digest.full_scans),
        "no_index": digest.no_index,
        "storage_bytes": pair(digest.storage_bytes),
        "switches": pair(digest.switches),
        "time_s": session_time(&digest.time),
        "latency_us": {
            "mean": latency.mean_us(),
            "p50": latency.quantile_us(0.5),
            "p95": latency.quantile_us(0.95),
            "p99": latency.quantile_us(0.99),
            "max": latency.max_us(),
            "total": latency.sum_ns() as f64 / 1e3,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use waggle_agent::view::Counted;

    #[test]
    fn what_is_not_listed_any_more_is_in_every_sum() {
        let mut view = View::default();
        let gone = Counted {
            hits: 1000,
            captured: 700,
            in_routines: 50,
            own: 200,
            other_commands: 60,
            lost: vec![("ring_full", 30), ("shed", 10)],
            degraded: vec![("text_truncated", 3)],
        };
        view.forgotten.add(&gone);
        view.forgotten.add(&gone);
        let document = document(&view, Duration::from_secs(1));
        let of = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64);
        let sums = [
            ("/hits", 2000),
            ("/captured", 1400),
            ("/in_routines", 100),
            ("/own", 400),
            ("/other_commands", 120),
            ("/lost/ring_full", 60),
            ("/lost/shed", 20),
            ("/degraded/text_truncated", 6),
            ("/forgotten/captured", 1400),
            ("/forgotten/lost", 80),
        ];
        for (pointer, sum) in sums {
            assert_eq!(of(pointer), Some(sum), "{pointer}");
        }
    }
}
