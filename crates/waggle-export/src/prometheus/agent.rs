//! Families about the agent itself: what it costs, what it leaves out, how its sinks fare.
//!
//! Neighbour: [`metrics`](super::metrics) has the rules for names.

use super::metrics::{Printer, seconds_of_us};
use super::page::Page;

pub(super) fn agent(page: &Page<'_>, to: &mut Printer<'_>) {
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

pub(super) fn sinks(page: &Page<'_>, to: &mut Printer<'_>) {
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
