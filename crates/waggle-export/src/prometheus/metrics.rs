//! The names: every family, its help, its labels. What a dashboard may rely on. Here those of all
//! statements and of time; the others in a module for each thing that they are about.
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
use super::row::{CLASSES, Row, class_name};
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
    super::agent::agent(page, &mut printer);
    super::agent::sinks(page, &mut printer);
    super::digests::info(page, &mut printer);
    statements(page, &mut printer);
    session_time(page, &mut printer);
    super::digests::histogram(page, &mut printer);
    super::digests::sums(page, &mut printer);
    super::instance::servers(page, &mut printer);
    super::instance::locks(page, &mut printer);
    super::instance::processes(page, &mut printer);
    super::instance::statuses(page, &mut printer);
    super::host::host(page, &mut printer);
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

pub(super) fn seconds_of_ns(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn seconds_of_us(us: u64) -> f64 {
    us as f64 / 1e6
}
