//! Scene C: what does watching one statement cost, probe by probe, program and trap apart?
//!
//! The article printed its programs' times with `bpf_trace_printk`, which costs more than what it
//! measures. Here the kernel's own counters tell the programs' run time (`run_time_ns / run_cnt`),
//! while the real agent watches one connection; counting costs some 30 ns a run, so these slices
//! are no windows of the comparison. The trap is what remains of the empty probe's windows. Their
//! sum stands beside what the whole agent cost in its own windows: two ways to one figure.
//!
//! Neighbours: `cells` has the windows of this scene, [`super::stage`] the server.
//!
//! Invariant: the kernel counts only while a slice here is measured.

use std::collections::BTreeMap;

use anyhow::Context;
use waggle_load::Load;
use waggle_probes::kernel::RunTimeStats;
use waggle_probes::programs::{self, ProgramCost};
use waggle_stats::compare::Interval;

use super::stage::{Slices, Stage, over_slices};
use crate::lab::study::watcher::Watcher;

/// One of the agent's programs, while it watched a single connection.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Its name in the kernel.
    pub(super) name: String,
    /// Where it runs.
    pub(super) kind: &'static str,
    /// Times it ran for each statement, on the whole host.
    pub(super) hits_per_statement: Option<Interval>,
    /// Its run time a hit, ns.
    pub(super) ns_per_hit: Option<Interval>,
    /// Its run time a statement, ns.
    pub(super) ns_per_statement: Option<Interval>,
}

/// What one slice counted: statements, and by program runs and ns.
struct Slice {
    statements: u64,
    programs: BTreeMap<u32, (u64, u64)>,
}

/// Measures the agent's programs over slices of one busy connection.
pub(super) fn programs(stage: &Stage<'_>, slices: Slices) -> anyhow::Result<Vec<Program>> {
    let load = stage.load(1, None)?;
    let watcher = Watcher::start(&stage.watch_arguments(&[stage.pid()]), 1)?;
    load.resume();
    let counted = count(stage, &watcher, &load, slices);
    stage.still(&load)?;
    let report = watcher.end();
    load.stop().context("ending the load")?;
    let (held, slices) = counted?;
    report?;
    Ok(held
        .iter()
        .filter_map(|program| summed(program, &slices))
        .collect())
}

fn count(
    stage: &Stage<'_>,
    watcher: &Watcher,
    load: &Load,
    slices: Slices,
) -> anyhow::Result<(Vec<ProgramCost>, Vec<Slice>)> {
    // The agent takes a sample of the kernel's counters itself at its begin; that one is over when
    // it has seen enough statements.
    stage.pause(slices.settle)?;
    let held = || programs::held_by(watcher.pid()).context("reading the agent's eBPF programs");
    let _counting = RunTimeStats::hold().context("asking the kernel to time eBPF programs")?;
    let (mut before, mut statements) = (held()?, load.counters().queries);
    let mut counted = Vec::with_capacity(slices.count);
    for _ in 0..slices.count {
        stage.pause(slices.length)?;
        let (now, statements_now) = (held()?, load.counters().queries);
        counted.push(Slice {
            statements: statements_now - statements,
            programs: since(&before, &now),
        });
        (before, statements) = (now, statements_now);
    }
    Ok((before, counted))
}

/// Runs and ns of each program from one reading to the next.
fn since(before: &[ProgramCost], now: &[ProgramCost]) -> BTreeMap<u32, (u64, u64)> {
    let change = |now: &ProgramCost| {
        let then = before.iter().find(|then| then.id == now.id)?;
        let (runs, ns) = (
            now.runs.checked_sub(then.runs)?,
            now.ns.checked_sub(then.ns)?,
        );
        Some((now.id, (runs, ns)))
    };
    now.iter().filter_map(change).collect()
}

/// A program's figures over all slices; `None` if it never ran.
fn summed(program: &ProgramCost, slices: &[Slice]) -> Option<Program> {
    let values = |value: &dyn Fn(f64, f64, f64) -> f64| {
        let each = slices.iter().filter_map(|slice| {
            let (runs, ns) = *slice.programs.get(&program.id)?;
            let value = value(slice.statements as f64, runs as f64, ns as f64);
            value.is_finite().then_some(value)
        });
        over_slices(&each.collect::<Vec<f64>>())
    };
    let ran = |slice: &Slice| slice.programs.get(&program.id).map_or(0, |(runs, _)| *runs);
    if slices.iter().map(ran).sum::<u64>() == 0 {
        return None;
    }
    Some(Program {
        name: program.name.clone(),
        kind: program.kind,
        hits_per_statement: values(&|statements, runs, _| runs / statements),
        ns_per_hit: values(&|_, runs, ns| ns / runs),
        ns_per_statement: values(&|statements, _, ns| ns / statements),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(id: u32, runs: u64, ns: u64) -> ProgramCost {
        ProgramCost {
            id,
            name: format!("program_{id}"),
            kind: "probe",
            runs,
            ns,
        }
    }

    #[test]
    fn a_programs_figures_are_those_of_its_own_runs() {
        let slice = |before: &[ProgramCost], now: &[ProgramCost]| Slice {
            statements: 100,
            programs: since(before, now),
        };
        let slices = [
            slice(
                &[cost(1, 0, 0), cost(2, 7, 7)],
                &[cost(1, 100, 50_000), cost(2, 7, 7)],
            ),
            slice(
                &[cost(1, 100, 50_000)],
                &[cost(1, 200, 110_000), cost(3, 9, 9)],
            ),
        ];
        let program = summed(&cost(1, 200, 110_000), &slices).expect("it ran");
        let hits = program.hits_per_statement.expect("two slices");
        assert!((hits.estimate - 1.0).abs() < 1e-12);
        assert!((program.ns_per_hit.expect("two slices").estimate - 550.0).abs() < 1e-9);
        // One that never ran in a slice is not shown as free.
        assert!(summed(&cost(2, 7, 7), &slices).is_none());
        // One that was not there at a slice's begin has no difference.
        assert!(summed(&cost(3, 9, 9), &slices).is_none());
    }
}
