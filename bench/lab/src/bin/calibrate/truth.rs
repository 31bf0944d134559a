//! What does the burning probe really cost? Asked of the kernel, apart from what is measured.
//!
//! The kernel's own counters (`run_cnt`, `run_time_ns`) of the burning program, less those of a
//! program that does nothing at the same place: what is left is what burning costs more than an
//! empty probe. The counting itself costs, so it is never on while the lab measures.
//!
//! Invariant: a round counts only if the kernel counted as many runs as the probe counted hits, and
//! every run burned to its end.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waggle_bench_lab::control::Control;

use crate::plan::COSTS_NS;

/// How long one cost is looked at in a round, in looks of this many hits at least.
const HITS: u64 = 4_000;

/// One look at every cost, under a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TruthRound {
    /// Of the program that does nothing, ns a run.
    pub(crate) nothing_ns: f64,
    /// Of each cost.
    pub(crate) costs: Vec<Cost>,
}

/// One cost in one round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Asked for, ns.
    pub(crate) asked_ns: u64,
    /// By the kernel, ns a run, what an empty program costs included.
    pub(crate) kernel_ns: f64,
    /// By the program's own clock, from its first look to its last, ns a run.
    pub(crate) own_ns: f64,
    /// Runs.
    pub(crate) runs: u64,
}

/// Sums of counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    hits: u64,
    unfinished: u64,
    own_ns: u64,
    runs: u64,
    run_time_ns: u64,
}

impl Counters {
    /// `program`: the name under which the answer has what the kernel counted.
    fn of(answer: &Value, program: &str) -> anyhow::Result<Self> {
        let burn = &answer["burn"];
        let number = |value: &Value, what: &str| {
            value[what]
                .as_u64()
                .with_context(|| format!("waggle watch told no {what}"))
        };
        Ok(Self {
            hits: number(burn, "hits")?,
            unfinished: number(burn, "unfinished")?,
            own_ns: number(burn, "burned_ns")?,
            runs: number(&burn[program], "runs")?,
            run_time_ns: number(&burn[program], "run_time_ns")?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            unfinished: self.unfinished - before.unfinished,
            own_ns: self.own_ns - before.own_ns,
            runs: self.runs - before.runs,
            run_time_ns: self.run_time_ns - before.run_time_ns,
        }
    }
}

/// One look at every cost; `control` watches a server under load and has been told `runs on`.
pub(crate) fn round(control: &mut Control) -> anyhow::Result<TruthRound> {
    let nothing = look(control, "burn nothing", "kernel_nothing")?;
    let mut costs = Vec::new();
    for asked_ns in COSTS_NS {
        let seen = look(control, &format!("burn {asked_ns}"), "kernel")?;
        ensure!(
            seen.hits == seen.runs && seen.unfinished == 0,
            "burning {asked_ns} ns: {} hits, {} runs by the kernel, {} not to the end",
            seen.hits,
            seen.runs,
            seen.unfinished
        );
        costs.push(Cost {
            asked_ns,
            kernel_ns: per_run(seen.run_time_ns, seen.runs),
            own_ns: per_run(seen.own_ns, seen.runs),
            runs: seen.runs,
        });
    }
    Ok(TruthRound {
        nothing_ns: per_run(nothing.run_time_ns, nothing.runs),
        costs,
    })
}

fn per_run(sum_ns: u64, runs: u64) -> f64 {
    sum_ns as f64 / runs.max(1) as f64
}

/// Attaches, waits for enough runs, detaches, and tells what was counted meanwhile.
fn look(control: &mut Control, order: &str, program: &str) -> anyhow::Result<Counters> {
    /// Looks at the counters until there are enough runs; a server without load has none.
    const PATIENCE: u32 = 2_000;
    let before = Counters::of(&control.order("status")?, program).unwrap_or_default();
    control.order(order)?;
    for _ in 0..PATIENCE {
        let now = Counters::of(&control.order("status")?, program)?.since(before);
        if now.runs >= HITS {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Only a probe that is gone counts no more.
    let after = Counters::of(&control.order("detach")?, program)?.since(before);
    ensure!(
        after.runs >= HITS,
        "{order}: only {} runs; is there a load?",
        after.runs
    );
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_what_is_missing_is_named() {
        let answer = serde_json::json!({ "burn": {
            "hits": 7, "unfinished": 0, "burned_ns": 700,
            "kernel": { "runs": 7, "run_time_ns": 1400 },
            "kernel_nothing": null,
        }});
        let found = Counters::of(&answer, "kernel").expect("all is there");
        assert_eq!(
            (found.runs, per_run(found.run_time_ns, found.runs)),
            (7, 200.0)
        );
        let missing = Counters::of(&answer, "kernel_nothing").expect_err("nothing is there");
        assert_eq!(missing.to_string(), "waggle watch told no runs");
    }
}
