//! Makes or takes up the run directory of cells, after everything was checked that can be.

use std::path::Path;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use waggle_report::run::{Run, RunDir, redact_argv};

use super::space;
use crate::cli::Failure;
use crate::lab::arm::spec::MASK;
use crate::lab::arm::{ArmSpec, ObserverSpec, file};
use crate::lab::cell::CellSpec;

/// The entry of `RunFacts::settings` that says what is measured.
const CELLS: &str = "cells";

/// Checks rights, disk and memory, then makes the run directory; with `resume` it takes up that run
/// instead, if it is of the same cells.
///
/// # Errors
/// Exit code 2: nothing was started.
pub(crate) fn open(
    cells: &[CellSpec],
    resume: Option<&Path>,
    runs: &Path,
    name: &str,
) -> Result<RunDir, Failure> {
    let traces = |spec: &CellSpec| {
        spec.arms
            .iter()
            .chain(&spec.base)
            .any(|arm| needs_rights(arm.observer.as_ref()))
    };
    if cells.iter().any(|spec| spec.profile || traces(spec)) {
        crate::preflight::can_trace()?;
    }
    space::check(cells, runs).map_err(Failure::Unusable)?;
    let plan: Value = cells.iter().map(facts).collect();
    if let Some(path) = resume {
        same(path, &plan)?;
        return RunDir::reopen(path).map_err(Failure::unusable);
    }
    let mut run = RunDir::create(runs, "lab", name).map_err(Failure::unusable)?;
    let argv: Vec<String> = std::env::args().collect();
    run.record(|facts| {
        facts.command = file::shown_argv(&redact_argv(&argv));
        facts.settings.insert(CELLS.to_owned(), plan);
    })
    .map_err(Failure::unusable)?;
    Ok(run)
}

/// True if a kernel probe, or the packets, are looked at.
fn needs_rights(observer: Option<&ObserverSpec>) -> bool {
    match observer {
        Some(ObserverSpec::ProbeEmpty | ObserverSpec::Burn { .. }) => true,
        Some(ObserverSpec::Watch { source, .. }) => source == "uprobe" || source == "packets",
        Some(ObserverSpec::Command { .. }) | None => false,
    }
}

/// A run is only gone on with if the same would be measured.
fn same(path: &Path, plan: &Value) -> Result<(), Failure> {
    let run = Run::open(path)
        .context("cannot resume this run")
        .map_err(Failure::Unusable)?;
    let recorded = run.facts().settings.get(CELLS);
    if recorded == Some(plan) {
        return Ok(());
    }
    let why = match recorded {
        None => "it was not recorded what it measures",
        Some(_) => {
            "what it measures is not what its command line says now (a workload or arms file \
             changed, or it was given from another directory)"
        }
    };
    Err(Failure::unusable(anyhow!(
        "cannot resume {}: {why}",
        path.display()
    )))
}

/// The command line of a run that is to be resumed: program first.
///
/// # Errors
/// There is no such run, or it is not of the lab.
pub(crate) fn command_of(path: &Path) -> Result<Vec<String>, Failure> {
    let run = Run::open(path)
        .context("cannot resume this run")
        .map_err(Failure::Unusable)?;
    let facts = run.facts();
    if facts.verb != "lab" || facts.command.is_empty() {
        return Err(Failure::unusable(anyhow!(
            "cannot resume {}: it is no run of the lab",
            path.display()
        )));
    }
    if facts.command.iter().any(|argument| argument.contains(MASK)) {
        return Err(Failure::unusable(anyhow!(
            "cannot resume {}: its command line had a password, which was not kept",
            path.display()
        )));
    }
    Ok(facts.command.clone())
}

/// Everything of a cell that changes what is measured.
fn facts(cell: &CellSpec) -> Value {
    let mut facts = json!({
        "id": cell.id,
        "flavour": cell.flavour.name(),
        "workload": cell.script.name(),
        "options": cell.options,
        "data": {
            "script": cell.data.script,
            "tables": cell.data.tables,
            "table_size": cell.data.table_size,
            "options": cell.data.options,
        },
        "threads": cell.threads,
        "rate": cell.rate,
        "settings": cell.settings,
        "limits": cell.limits,
        "base": cell.base.as_ref().map(ArmSpec::shown),
        "arms": cell.arms.iter().map(ArmSpec::shown).collect::<Vec<_>>(),
        "all_in_lives": cell.all_in_lives,
        "window_ms": cell.timing.window.as_secs_f64() * 1e3,
        "settle_ms": cell.timing.settle.as_secs_f64() * 1e3,
        "primary": cell.primary,
        "seed": cell.seed,
    });
    if cell.profile {
        facts["profile"] = json!(true);
    }
    facts
}
