//! What came of a cell: its windows, sums by arm, and what a reader must know.
//!
//! Neighbours: `lab::run` fills it, `lab::outcome` makes the report of it. Invariant: a window is
//! in the sums of its arm, and stands with those of its own kind: in one life, or of a pair of
//! servers.

use std::collections::BTreeMap;

use waggle_profile::model::Profile;
use waggle_report::run::ServerFacts;
use waggle_stats::compare::Window;
use waggle_stats::latency::LatencyHistogram;

use super::{CellSpec, Sample, settled};
use crate::experiment::Totals;
use crate::lab::arm::ArmSpec;

/// What came of a cell, whole or not.
#[derive(Debug, Clone)]
pub(crate) struct CellRun {
    /// What was asked.
    pub(crate) spec: CellSpec,
    /// Windows of the life (or lives, if a server died) in which arms were switched, in time order.
    pub(crate) in_life: Vec<Sample>,
    /// Windows of whole pairs of servers, in time order; `window.life` is the pair.
    pub(crate) pairs: Vec<Sample>,
    /// Sums by arm number over `in_life`.
    pub(crate) totals: BTreeMap<usize, Totals>,
    /// Sums by arm number over `pairs`.
    pub(crate) totals_pairs: BTreeMap<usize, Totals>,
    /// The server.
    pub(crate) server: ServerFacts,
    /// What the kernel enforced of the limits, a sentence each.
    pub(crate) limits: Vec<String>,
    /// Arms that were stopped, by number, and why.
    pub(crate) stopped: BTreeMap<usize, String>,
    /// What a reader must know.
    pub(crate) notes: Vec<String>,
    /// Where the server's CPU time went, by the name of the arm.
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// Why it ended before its time, if it did.
    pub(crate) error: Option<String>,
}

impl CellRun {
    /// Nothing measured yet.
    pub(crate) fn new(spec: CellSpec) -> Self {
        Self {
            spec,
            in_life: Vec::new(),
            pairs: Vec::new(),
            totals: BTreeMap::new(),
            totals_pairs: BTreeMap::new(),
            server: ServerFacts::default(),
            limits: Vec::new(),
            stopped: BTreeMap::new(),
            notes: Vec::new(),
            profiles: BTreeMap::new(),
            error: None,
        }
    }

    /// Takes a window and what was counted in it; latencies are added apart.
    pub(crate) fn add(&mut self, sample: Sample) {
        let totals = self
            .totals_mut(sample.pair)
            .entry(sample.window.arm)
            .or_default();
        totals.executed += sample.executed;
        totals.statements += sample.window.statements;
        totals.transactions += sample.transactions;
        totals.errors += sample.errors;
        totals.tool_cpu_ns += sample.tool_cpu_ns;
        totals.tool_rss_bytes = totals.tool_rss_bytes.max(sample.tool_rss_bytes);
        if let Some(example) = &sample.error_example {
            totals.error_example = Some(example.clone());
        }
        if let Some(captured) = sample.captured {
            *totals.captured.get_or_insert(0) += captured;
        }
        for (cause, count) in &sample.lost {
            *totals.lost.entry(cause.clone()).or_default() += count;
        }
        if sample.pair {
            self.pairs.push(sample);
        } else {
            self.in_life.push(sample);
        }
    }

    /// Takes latencies of windows that were added.
    pub(crate) fn add_latencies(
        &mut self,
        pair: bool,
        arm: usize,
        all: &LatencyHistogram,
        kinds: &BTreeMap<String, LatencyHistogram>,
    ) {
        let totals = self.totals_mut(pair).entry(arm).or_default();
        totals.latency.merge(all);
        for (kind, latency) in kinds {
            let own = totals.operations.entry(kind.clone()).or_default();
            own.merge(latency);
        }
    }

    /// The sums of windows of pairs, or of the others.
    pub(crate) fn totals_mut(&mut self, pair: bool) -> &mut BTreeMap<usize, Totals> {
        if pair {
            &mut self.totals_pairs
        } else {
            &mut self.totals
        }
    }

    /// The sums that belong to `arm`.
    pub(crate) fn totals_of(&self, number: usize) -> Totals {
        let pairs = match self.spec.arm(number) {
            Some(arm) => self.spec.is_in_pairs(arm),
            None => self.in_life.is_empty(),
        };
        let totals = if pairs {
            &self.totals_pairs
        } else {
            &self.totals
        };
        totals.get(&number).cloned().unwrap_or_default()
    }

    /// The windows that `arm` is compared in.
    pub(crate) fn windows_of(&self, arm: &ArmSpec) -> Vec<Window> {
        let spec = &self.spec;
        settled(self.samples_of(arm), spec.timing.settle, spec.primary)
    }

    /// Everything of the windows that `arm` is compared in.
    pub(crate) fn samples_of(&self, arm: &ArmSpec) -> &[Sample] {
        match self.spec.is_in_pairs(arm) {
            true => &self.pairs,
            false => &self.in_life,
        }
    }
}
