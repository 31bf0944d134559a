//! A script seen from outside a run: what it declares, its report hooks, its checks.
//!
//! The face is a state of its own on the caller's thread, kept for as long as the caller reports.
//! Invariant: it never runs events, and what its hooks print goes to the sink of the spec.

use std::sync::Arc;
use std::time::Duration;

use mlua::{Function, Table, Value};
use serde::{Deserialize, Serialize};

use crate::command::{log_of, open_state, setup, shared};
use crate::driver::Driver;
use crate::prelude;
use crate::state::{Called, State};
use crate::{DeclaredOption, LoadError, LoadSpec, Operation, Snapshot};

/// A script opened for its options, commands, hooks and checks.
pub struct ScriptFace {
    state: State,
    script: String,
}

/// A command that a script brings in `sysbench.cmdline.commands`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandInfo {
    /// What the user types.
    pub name: String,
    /// Runs in every thread.
    pub parallel: bool,
}

/// What a report hook is told. Times are in seconds, counts those of the interval (or, for a
/// cumulative report, since the last one).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReportStat {
    /// Threads that have not ended.
    pub threads_running: u32,
    /// Length of the interval.
    pub time_interval: f64,
    /// Since the start of the run.
    pub time_total: f64,
    /// The latency at the percentile the user chose.
    pub latency_pct: f64,
    /// Events that ended well.
    pub events: u64,
    /// Statements with a result set.
    pub reads: u64,
    /// Statements that changed rows.
    pub writes: u64,
    /// Other statements.
    pub other: u64,
    /// Errors that were ignored.
    pub errors: u64,
    /// Connections that were opened again.
    pub reconnects: u64,
    /// Events that wait for a thread (intermediate reports).
    pub queue_length: u64,
    /// Events under way (intermediate reports).
    pub concurrency: u64,
    /// Shortest latency (cumulative reports, as the next three).
    pub latency_min: f64,
    /// Longest latency.
    pub latency_max: f64,
    /// Mean latency.
    pub latency_avg: f64,
    /// Sum of all latencies.
    pub latency_sum: f64,
}

/// A figure or a check of a workload's `checks` function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// The figure, if it is one.
    pub value: Option<f64>,
    /// Unit of the figure and its bounds.
    pub unit: Option<String>,
    /// Least accepted value.
    pub low: Option<f64>,
    /// Largest accepted value.
    pub high: Option<f64>,
    /// Whether it held; `None`: a figure that nothing is asked of.
    pub ok: Option<bool>,
    /// The script's own words.
    pub note: Option<String>,
}

impl ScriptFace {
    /// Loads the script with `run` as its command. Connects only if the script does so itself.
    pub fn open(spec: &LoadSpec, driver: Arc<dyn Driver>) -> Result<ScriptFace, LoadError> {
        ScriptFace::open_for(spec, "run", driver)
    }

    /// Loads the script for a command; an empty one: the user gave none.
    pub fn open_for(
        spec: &LoadSpec,
        command: &str,
        driver: Arc<dyn Driver>,
    ) -> Result<ScriptFace, LoadError> {
        let shared = Arc::new(shared(spec, driver, Arc::default(), None));
        let setup = setup(spec, command, log_of(spec));
        // Threads count from 0, so this is the number after the last worker's, as scripts expect
        // it of a thread in the background.
        let state = open_state(&setup, spec.threads, &shared, &Arc::default())?;
        Ok(ScriptFace {
            state,
            script: spec.script.name().to_owned(),
        })
    }

    /// The options the script declares, by name.
    pub fn options(&self) -> &[DeclaredOption] {
        self.state.own_options()
    }

    /// The commands the script brings, by name.
    pub fn commands(&self) -> Vec<CommandInfo> {
        let commands = self.state.commands().into_iter();
        commands
            .map(|(name, parallel)| CommandInfo { name, parallel })
            .collect()
    }

    /// Whether the script defines a global function of that name.
    pub fn has_function(&self, name: &str) -> bool {
        self.state.global(name).is_some()
    }

    /// Calls a global function; what it returned, if that was a boolean. `Ok(None)` also where
    /// there is no such function.
    pub fn call_function(&mut self, name: &str) -> Result<Option<bool>, LoadError> {
        match self.state.call_if_defined(name) {
            Called::Done(answer) => Ok(answer),
            Called::Stopped => Err(LoadError::Cancelled),
            Called::Failed(error) => Err(LoadError::Worker(error)),
        }
    }

    /// Runs the script's hook for an interval; false if it set none.
    pub fn report_intermediate(&mut self, stat: &ReportStat) -> Result<bool, LoadError> {
        self.report("report_intermediate", stat, false)
    }

    /// Runs the script's hook for a checkpoint or the end; false if it set none.
    pub fn report_cumulative(&mut self, stat: &ReportStat) -> Result<bool, LoadError> {
        self.report("report_cumulative", stat, true)
    }

    /// No intermediate report follows: what they left open (an array of JSON) is closed.
    pub fn end_of_intervals(&mut self) {
        self.state.finish_reports();
    }

    fn report(
        &mut self,
        hook: &str,
        stat: &ReportStat,
        cumulative: bool,
    ) -> Result<bool, LoadError> {
        let hooks = prelude::sysbench(self.state.lua())
            .and_then(|sysbench| sysbench.get::<Table>("hooks"))
            .map_err(|error| self.broken(&error))?;
        let Ok(function) = hooks.get::<Function>(hook) else {
            return Ok(false);
        };
        let stat = self
            .stat_table(stat, cumulative)
            .map_err(|error| self.broken(&error))?;
        self.call(&function, stat).map(|_| true)
    }

    fn stat_table(&self, stat: &ReportStat, cumulative: bool) -> mlua::Result<Table> {
        let table = self.state.lua().create_table()?;
        let mut fields = vec![
            ("threads_running", f64::from(stat.threads_running)),
            ("time_interval", stat.time_interval),
            ("time_total", stat.time_total),
            ("latency_pct", stat.latency_pct),
            ("events", stat.events as f64),
            ("reads", stat.reads as f64),
            ("writes", stat.writes as f64),
            ("other", stat.other as f64),
            ("errors", stat.errors as f64),
            ("reconnects", stat.reconnects as f64),
        ];
        fields.extend(if cumulative {
            [
                ("latency_min", stat.latency_min),
                ("latency_max", stat.latency_max),
                ("latency_avg", stat.latency_avg),
                ("latency_sum", stat.latency_sum),
            ]
            .to_vec()
        } else {
            [
                ("queue_length", stat.queue_length as f64),
                ("concurrency", stat.concurrency as f64),
            ]
            .to_vec()
        });
        for (name, value) in fields {
            table.set(name, value)?;
        }
        Ok(table)
    }

    /// Asks the script's `checks` function what the run came to; nothing if it has none.
    pub fn checks(&mut self, run: &Snapshot, duration: Duration) -> Result<Vec<Check>, LoadError> {
        let Some(function) = self.state.global("checks") else {
            return Ok(Vec::new());
        };
        let run = self
            .run_table(run, duration)
            .map_err(|error| self.broken(&error))?;
        let answer = self.call(&function, run)?;
        let Value::Table(list) = answer else {
            return Err(self.said("checks() returns an array of tables"));
        };
        let entries = list.sequence_values::<Table>();
        entries
            .map(|entry| entry.and_then(|entry| check(&entry)))
            .collect::<mlua::Result<_>>()
            .map_err(|error| self.broken(&error))
    }

    fn run_table(&self, run: &Snapshot, duration: Duration) -> mlua::Result<Table> {
        let lua = self.state.lua();
        let table = lua.create_table()?;
        table.set("duration_s", duration.as_secs_f64())?;
        table.set("transactions", run.counters.transactions)?;
        table.set("errors", run.counters.errors)?;
        let counters = run.user_counters.iter();
        let counters = counters.map(|(name, value)| (name.as_str(), *value));
        table.set("counters", lua.create_table_from(counters)?)?;
        let operations = lua.create_table()?;
        for (name, operation) in &run.operations {
            operations.set(name.as_str(), self.operation_table(operation)?)?;
        }
        table.set("operations", operations)?;
        Ok(table)
    }

    fn operation_table(&self, operation: &Operation) -> mlua::Result<Table> {
        let summary = operation.response.summary();
        let table = self.state.lua().create_table()?;
        table.set("count", operation.response.count())?;
        table.set("mean_us", summary.mean_us)?;
        for (name, quantile) in [
            ("p50_us", 0.5),
            ("p90_us", 0.9),
            ("p95_us", 0.95),
            ("p99_us", 0.99),
        ] {
            table.set(name, operation.response.quantile_us(quantile))?;
        }
        table.set("max_us", summary.max_us)?;
        Ok(table)
    }

    fn call(&mut self, function: &Function, argument: Table) -> Result<Value, LoadError> {
        match self.state.call_with(function, argument) {
            Ok(value) => Ok(value),
            Err(Some(error)) => Err(LoadError::Worker(error)),
            Err(None) => Err(LoadError::Cancelled),
        }
    }

    fn broken(&self, error: &mlua::Error) -> LoadError {
        self.said(error.to_string())
    }

    fn said(&self, message: impl Into<String>) -> LoadError {
        LoadError::Script {
            script: self.script.clone(),
            message: message.into(),
        }
    }
}

fn check(entry: &Table) -> mlua::Result<Check> {
    Ok(Check {
        name: entry.get("name")?,
        value: entry.get("value")?,
        unit: entry.get("unit")?,
        low: entry.get("low")?,
        high: entry.get("high")?,
        ok: entry.get("ok")?,
        note: entry.get("note")?,
    })
}
