//! What does a statement cost, in the server and in the agent? By the lab, with intervals, beside
//! PERFORMANCE_SCHEMA in the same run.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use waggle_bench_lab::server::sandbox_name;
use waggle_bench_lab::waggle::Waggle;

use crate::Results;
use crate::plan::{Args, Cell, Plan};

/// The workload for statements of a given length; its first line of code says which.
const SIZED: &str = include_str!("../../../workloads/sized.lua");
const SIZED_LINE: &str = "local BYTES = 1024\n";

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Range {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// An arm under one condition, by the lab's document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PricedArm {
    pub(crate) arm: String,
    /// CPU of a statement in the server without it, us.
    pub(crate) base_us: Option<f64>,
    /// CPU it adds to a statement in the server, us.
    pub(crate) server_us: Option<Range>,
    /// CPU of the observer itself, us a statement.
    pub(crate) observer_us: Option<f64>,
    /// Throughput over that without.
    pub(crate) qps_ratio: Option<Range>,
    /// Statements, if it captures them.
    pub(crate) captured: Option<u64>,
    pub(crate) lost: u64,
    pub(crate) executed: u64,
    pub(crate) verdict: String,
}

/// What one condition gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Priced {
    pub(crate) cell: Cell,
    pub(crate) arms: Vec<PricedArm>,
    /// What the lab noted.
    pub(crate) notes: Vec<String>,
}

pub(crate) fn measure(
    args: &Args,
    plan: &Plan,
    waggle: &Waggle,
    results: &mut Results,
) -> anyhow::Result<()> {
    for cell in &plan.cells {
        eprintln!("  {}, {} s", cell.title, plan.cell_s);
        match one(args, plan, waggle, cell) {
            Ok((priced, server)) => {
                results.price.push(priced);
                results.server = Some(server);
            }
            Err(error) => results.failed.push(format!("{}: {error:#}", cell.title)),
        }
    }
    if results.price.is_empty() {
        bail!("no condition could be measured");
    }
    Ok(())
}

fn one(args: &Args, plan: &Plan, waggle: &Waggle, cell: &Cell) -> anyhow::Result<(Priced, String)> {
    let mut arguments: Vec<String> = ["lab", "run", "--json"].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: String| {
        arguments.push(format!("--{name}"));
        arguments.push(value);
    };
    flag("sandbox", sandbox_name(args.sandbox));
    flag("workload", workload(args, cell)?);
    flag("threads", "8".to_owned());
    flag("budget", plan.cell_s.to_string());
    flag("arm", "watch".to_owned());
    flag("arm", "perfschema".to_owned());
    flag("runs", args.state.display().to_string());
    if let Some(rate) = cell.rate {
        flag("rate", rate.to_string());
    }
    let document = waggle.document(&arguments)?;
    let server = &document["server"];
    let word = |what: &str| server[what].as_str().unwrap_or("unknown").to_owned();
    let priced = Priced {
        cell: cell.clone(),
        arms: arms(&document).context("what waggle lab run printed")?,
        notes: notes(&document),
    };
    Ok((priced, format!("{} {}", word("flavour"), word("version"))))
}

/// The workload's name, or the file that is made for it.
fn workload(args: &Args, cell: &Cell) -> anyhow::Result<String> {
    let Some(bytes) = cell.text_bytes else {
        return Ok("oltp_point_select".to_owned());
    };
    let path: PathBuf = args.state.join(format!("sized-{bytes}.lua"));
    let script = SIZED.replace(SIZED_LINE, &format!("local BYTES = {bytes}\n"));
    std::fs::write(&path, script).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.display().to_string())
}

fn notes(document: &Value) -> Vec<String> {
    let notes = document["notes"].as_array().cloned().unwrap_or_default();
    let texts = notes.iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// The arms of a lab's document.
fn arms(document: &Value) -> Option<Vec<PricedArm>> {
    let range = |value: &Value, estimate: &str| {
        Some(Range {
            estimate: value[estimate].as_f64()?,
            low: value["low"].as_f64()?,
            high: value["high"].as_f64()?,
        })
    };
    let arm = |arm: &Value| {
        let cpu = &arm["server_cpu_us_per_statement"];
        let lost = arm["lost"].as_object().into_iter().flatten();
        Some(PricedArm {
            arm: arm["arm"].as_str()?.to_owned(),
            base_us: cpu["base"].as_f64(),
            server_us: range(cpu, "delta"),
            observer_us: arm["tool"]["cpu_us_per_statement"].as_f64(),
            qps_ratio: range(&arm["qps_ratio"], "estimate"),
            captured: arm["captured"].as_u64(),
            lost: lost.filter_map(|(_, count)| count.as_u64()).sum(),
            executed: arm["executed"].as_u64().unwrap_or(0),
            verdict: match document["aa_clean"].as_bool() {
                Some(false) => "not claimed".to_owned(),
                _ => arm["verdict"].as_str().unwrap_or("unknown").to_owned(),
            },
        })
    };
    document["arms"].as_array()?.iter().map(arm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_document_is_read_and_what_was_not_measured_is_absent() {
        let document = serde_json::json!({ "arms": [
            { "arm": "watch", "captured": 90, "executed": 100, "lost": { "ring_full": 10 },
              "server_cpu_us_per_statement": {
                  "base": 17.5, "delta": 1.4, "low": 1.2, "high": 1.6 },
              "qps_ratio": { "estimate": 0.94, "low": 0.93, "high": 0.95 },
              "tool": { "cpu_us_per_statement": 0.2 }, "verdict": "costs" },
            { "arm": "perfschema", "server_cpu_us_per_statement": null, "qps_ratio": null },
        ]});
        let found = arms(&document).expect("two arms");
        assert_eq!(found[0].server_us.map(|r| r.high), Some(1.6));
        assert_eq!((found[0].lost, found[0].observer_us), (10, Some(0.2)));
        assert_eq!((found[1].server_us, found[1].captured), (None, None));
        assert_eq!(found[0].verdict, "costs");
        let mut unclean = document;
        unclean["aa_clean"] = false.into();
        let found = arms(&unclean).expect("two arms");
        assert!(found.iter().all(|arm| arm.verdict == "not claimed"));
        assert_eq!(arms(&serde_json::json!({})), None);
    }

    #[test]
    fn the_sized_workload_has_the_line_that_is_replaced() {
        assert_eq!(SIZED.matches(SIZED_LINE).count(), 1);
    }
}
