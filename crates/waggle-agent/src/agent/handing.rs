//! What the agent gives: views, what came with them, sums, and the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Agent;
use super::delivery::Single;
use crate::aggregate::{Clocks, Tap};
use crate::sink::SinkStatus;
use crate::view::{OwnView, View};

/// Sums over all servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Statements captured.
    pub captured: u64,
    /// The agent's own statements, which are not among these.
    pub own: u64,
    /// Ends of commands that are no statements.
    pub other_commands: u64,
    /// Hits of the probes.
    pub hits: u64,
    /// Statements lost.
    pub lost: u64,
}

impl Agent {
    /// Makes a view and hands it out, with everything single since the last one.
    pub fn hand_out(&mut self) -> Arc<View> {
        let view = Arc::new(self.view());
        let mut single = Single::default();
        for server in &mut self.servers {
            let id = server.id;
            let aggregate = &mut server.aggregate;
            single.samples.append(&mut aggregate.take_samples());
            let waits = aggregate.take_waits().into_iter();
            single.waits.extend(waits.map(|wait| (id, wait)));
            let deadlocks = aggregate.take_deadlocks().into_iter();
            single.deadlocks.extend(deadlocks.map(|d| (id, d)));
        }
        if !self.delivery.is_empty() {
            self.delivery.hand_out(&view, single);
        }
        view
    }

    fn view(&mut self) -> View {
        self.count_cost();
        let clocks = Clocks::now();
        View {
            time_us: clocks.realtime_ns / 1000,
            time_ns: clocks.monotonic_ns,
            started_us: self.started_us,
            host_name: Arc::clone(&self.host_name),
            servers: self.servers.iter_mut().map(|s| s.view(clocks)).collect(),
            host: self.host.clone(),
            own: self.own(),
            sinks: self.delivery.status(),
            forgotten: self.forgotten.clone(),
        }
    }

    /// What the agent costs.
    pub fn own(&self) -> OwnView {
        OwnView {
            shed: self.keeper.shed(),
            ..self.cost.view()
        }
    }

    /// How every sink fares.
    pub fn sinks(&self) -> Vec<(&'static str, SinkStatus)> {
        self.delivery.status()
    }

    /// Statements lost of all servers, by cause.
    pub fn lost(&self) -> BTreeMap<&'static str, u64> {
        let mut lost = BTreeMap::new();
        for (cause, count) in self.servers.iter().flat_map(|s| s.aggregate.lost()) {
            *lost.entry(cause).or_default() += count;
        }
        lost
    }

    /// Sums over all servers: captured, other commands, hits, and lost.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for server in &self.servers {
            let aggregate = &server.aggregate;
            totals.captured += aggregate.captured();
            totals.own += aggregate.own();
            totals.other_commands += aggregate.other_commands();
            totals.hits += aggregate.hits();
            totals.lost += aggregate.lost().iter().map(|(_, n)| n).sum::<u64>();
        }
        totals
    }

    /// Detaches, hands out a last view, and lets the sinks deliver what they can within `within`.
    pub fn close(&mut self, within: Duration, tap: Option<&mut (dyn Tap + '_)>) -> Arc<View> {
        self.detach(tap);
        let view = self.hand_out();
        self.delivery.close(within);
        view
    }
}
