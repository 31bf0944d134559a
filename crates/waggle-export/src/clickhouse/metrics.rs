//! Which figures of host, processes, servers and the agent itself are recorded, under which names?
//!
//! One row a figure: new ones need no new column. Names end in their unit; `_total` are counters
//! since boot or start, all others are readings. Neighbour: `encode` writes what this hands out.

use waggle_agent::host::{HostSample, ProcessSample, ServerStatus};
use waggle_agent::statement::ServerId;
use waggle_agent::view::View;

/// Calls `each` with server (none for the host), scope, name, label and value.
pub(super) fn each(view: &View, mut each: impl FnMut(Option<ServerId>, &str, &str, &str, f64)) {
    if let Some(host) = &view.host {
        of_host(host, |name, label, value| {
            each(None, "host", name, label, value)
        });
    }
    for server in &view.servers {
        let id = Some(server.id);
        each(id, "agent", "own_statements_total", "", server.own as f64);
        if let Some(process) = &server.process {
            of_process(process, |name, value| each(id, "process", name, "", value));
        }
        if let Some(status) = &server.status {
            of_status(status, |name, label, value| {
                each(id, "status", name, label, value)
            });
        }
    }
    let own = &view.own;
    each(None, "agent", "cpu_seconds_total", "", own.cpu_s);
    each(None, "agent", "resident_bytes", "", own.rss_bytes as f64);
    if let Some(cost) = own.server_us_per_statement {
        each(None, "agent", "server_us_per_statement", "", cost);
    }
    for probe in &own.probes {
        each(
            None,
            "agent",
            "probe_hits_total",
            probe.name,
            probe.hits as f64,
        );
        each(
            None,
            "agent",
            "probe_cpu_seconds_total",
            probe.name,
            probe.cpu_s(),
        );
    }
}

fn of_host(host: &HostSample, mut each: impl FnMut(&str, &str, f64)) {
    let cpu = &host.cpu_s;
    for (mode, seconds) in [
        ("user", cpu.user),
        ("system", cpu.system),
        ("idle", cpu.idle),
        ("iowait", cpu.iowait),
        ("steal", cpu.steal),
        ("other", cpu.other),
    ] {
        each("cpu_seconds_total", mode, seconds);
    }
    for (span, load) in ["1m", "5m", "15m"].into_iter().zip(host.load) {
        each("load_average", span, load);
    }
    for (name, value) in [
        ("processors", u64::from(host.processors)),
        ("tasks_runnable", host.runnable),
        ("tasks_blocked", host.blocked),
        ("memory_bytes", host.memory_bytes.0),
        ("memory_available_bytes", host.memory_bytes.1),
        ("swap_bytes", host.swap_bytes.0),
        ("swap_used_bytes", host.swap_bytes.1),
    ] {
        each(name, "", value as f64);
    }
    if let Some(pressure) = host.pressure {
        for (resource, percent) in ["cpu", "memory", "io"].into_iter().zip(pressure) {
            each("pressure_percent", resource, percent);
        }
    }
    for disk in &host.disks {
        for (name, value) in [
            ("disk_reads_total", disk.operations.0 as f64),
            ("disk_writes_total", disk.operations.1 as f64),
            ("disk_read_bytes_total", disk.bytes.0 as f64),
            ("disk_written_bytes_total", disk.bytes.1 as f64),
            ("disk_read_seconds_total", disk.time_s.0),
            ("disk_write_seconds_total", disk.time_s.1),
            ("disk_busy_seconds_total", disk.busy_s),
        ] {
            each(name, &disk.name, value);
        }
    }
    for network in &host.networks {
        for (name, value) in [
            ("network_received_bytes_total", network.bytes.0),
            ("network_sent_bytes_total", network.bytes.1),
            ("network_received_packets_total", network.packets.0),
            ("network_sent_packets_total", network.packets.1),
            ("network_receive_failures_total", network.failed.0),
            ("network_send_failures_total", network.failed.1),
        ] {
            each(name, &network.name, value as f64);
        }
    }
}

fn of_process(process: &ProcessSample, mut each: impl FnMut(&str, f64)) {
    for (name, value) in [
        ("cpu_user_seconds_total", process.cpu_s.0),
        ("cpu_system_seconds_total", process.cpu_s.1),
        ("runqueue_seconds_total", process.runqueue_s),
        ("resident_bytes", process.rss_bytes as f64),
        ("storage_read_bytes_total", process.storage_bytes.0 as f64),
        (
            "storage_written_bytes_total",
            process.storage_bytes.1 as f64,
        ),
        ("threads", f64::from(process.threads)),
        ("files", f64::from(process.files)),
        ("switches_voluntary_total", process.switches.0 as f64),
        ("switches_forced_total", process.switches.1 as f64),
    ] {
        each(name, value);
    }
}

fn of_status(status: &ServerStatus, mut each: impl FnMut(&str, &str, f64)) {
    for (name, value) in &status.values {
        each(name, "", *value);
    }
    for (channel, lag) in &status.lag_s {
        each("replication_lag_seconds", channel, *lag);
    }
}
