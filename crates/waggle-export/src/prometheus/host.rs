//! Families about the host: processors, memory, disks, network.
//!
//! Neighbour: [`metrics`](super::metrics) has the rules for names.

use waggle_agent::host::{DiskSample, HostSample, NetworkSample};

use super::exposition::Kind;
use super::metrics::Printer;
use super::page::Page;

type OfHost = fn(&HostSample) -> f64;

const GAUGES: &[(&str, &str, OfHost)] = &[
    ("processors", "Processors online.", |h| {
        f64::from(h.processors)
    }),
    ("runnable_tasks", "Tasks that run or could.", |h| {
        h.runnable as f64
    }),
    ("blocked_tasks", "Tasks that wait for a disk.", |h| {
        h.blocked as f64
    }),
    ("load1", "Load average over a minute.", |h| h.load[0]),
    ("load5", "Load average over five minutes.", |h| h.load[1]),
    ("load15", "Load average over fifteen minutes.", |h| {
        h.load[2]
    }),
    ("memory_size_bytes", "Memory in all.", |h| {
        h.memory_bytes.0 as f64
    }),
    ("memory_available_bytes", "Memory available.", |h| {
        h.memory_bytes.1 as f64
    }),
    ("swap_size_bytes", "Swap in all.", |h| h.swap_bytes.0 as f64),
    ("swap_used_bytes", "Swap used.", |h| h.swap_bytes.1 as f64),
];

type OfDisk = fn(&DiskSample) -> f64;

const DISK: &[(&str, &str, OfDisk)] = &[
    ("reads_total", "Reads done.", |d| d.operations.0 as f64),
    ("writes_total", "Writes done.", |d| d.operations.1 as f64),
    ("read_bytes_total", "Bytes read.", |d| d.bytes.0 as f64),
    ("written_bytes_total", "Bytes written.", |d| {
        d.bytes.1 as f64
    }),
    ("read_seconds_total", "Time reads took together.", |d| {
        d.time_s.0
    }),
    ("write_seconds_total", "Time writes took together.", |d| {
        d.time_s.1
    }),
    ("busy_seconds_total", "Time with something to do.", |d| {
        d.busy_s
    }),
];

type OfNetwork = fn(&NetworkSample) -> f64;

const NETWORK: &[(&str, &str, OfNetwork)] = &[
    ("received_bytes_total", "Bytes received.", |n| {
        n.bytes.0 as f64
    }),
    ("sent_bytes_total", "Bytes sent.", |n| n.bytes.1 as f64),
    ("received_packets_total", "Packets received.", |n| {
        n.packets.0 as f64
    }),
    ("sent_packets_total", "Packets sent.", |n| {
        n.packets.1 as f64
    }),
    (
        "receive_failures_total",
        "Packets dropped or in error on receipt.",
        |n| n.failed.0 as f64,
    ),
    (
        "send_failures_total",
        "Packets dropped or in error on sending.",
        |n| n.failed.1 as f64,
    ),
];

pub(super) fn host(page: &Page<'_>, to: &mut Printer<'_>) {
    let Some(host) = &page.view.host else {
        return;
    };
    to.gauge("waggle_host_info", "Name of the host; always 1.");
    to.put(&[("host", &*page.view.host_name)], 1.0, page.is_new);
    to.counter(
        "waggle_host_cpu_seconds_total",
        "Time of all processors since boot, by mode.",
    );
    let cpu = &host.cpu_s;
    for (mode, time) in [
        ("user", cpu.user),
        ("system", cpu.system),
        ("idle", cpu.idle),
        ("iowait", cpu.iowait),
        ("steal", cpu.steal),
        ("other", cpu.other),
    ] {
        to.put(&[("mode", mode)], time, false);
    }
    for (name, help, value) in GAUGES {
        to.gauge(&format!("waggle_host_{name}"), help);
        to.put(&[], value(host), false);
    }
    if let Some(pressure) = host.pressure {
        to.gauge(
            "waggle_host_pressure_ratio",
            "Share of the last 10 s in which some task was stalled for want of a resource.",
        );
        for (resource, percent) in ["cpu", "memory", "io"].into_iter().zip(pressure) {
            to.put(&[("resource", resource)], percent / 100.0, false);
        }
    }
    for (name, help, value) in DISK {
        to.to
            .family(&format!("waggle_host_disk_{name}"), Kind::Counter, help);
        for disk in &host.disks {
            to.put(&[("device", &disk.name)], value(disk), false);
        }
    }
    for (name, help, value) in NETWORK {
        to.to
            .family(&format!("waggle_host_network_{name}"), Kind::Counter, help);
        for network in &host.networks {
            to.put(&[("device", &network.name)], value(network), false);
        }
    }
}
