//! What does the agent capture with a fraction of a core, at the server's full speed, and does it
//! slow the server meanwhile?
//!
//! In a round every limit comes once and no agent once, in random order, on one server; each under
//! the same load. The agent is there from before the load's first statement until after its last,
//! so what the load counted must all be in what the agent accounts for.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use waggle_bench_lab::server::{LoadSpec, Server, loaded};
use waggle_bench_lab::waggle::Waggle;
use waggle_server::cpu;
use waggle_stats::random::Random;

use crate::Results;
use crate::plan::{Args, LEVELS, Plan};

/// One load under one limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) round: u32,
    /// Percent of a core; `None`: no agent.
    pub(crate) level: Option<u32>,
    /// Statements of the load, by its own count.
    pub(crate) executed: u64,
    pub(crate) qps: f64,
    /// CPU of the server by its own count of statements, us.
    pub(crate) server_us: f64,
    /// What the agent says; `None` without one.
    pub(crate) agent: Option<Agent>,
}

/// What an agent accounts for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Agent {
    /// Statements that ended.
    pub(crate) hits: u64,
    pub(crate) captured: u64,
    /// Commands that are no statements.
    pub(crate) other_commands: u64,
    /// By cause.
    pub(crate) lost: BTreeMap<String, u64>,
    /// What it left out at the end.
    pub(crate) shed: Vec<String>,
    /// Share of a core from the load's start to its end.
    pub(crate) core_share: f64,
}

impl Agent {
    fn of(document: &Value, core_share: f64) -> anyhow::Result<Self> {
        let number = |what: &str| {
            let value = document[what].as_u64();
            value.with_context(|| format!("waggle watch told no {what}"))
        };
        let lost = document["lost"].as_object().into_iter().flatten();
        let shed = document["self"]["shed"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        Ok(Self {
            hits: number("hits")?,
            captured: number("captured")?,
            other_commands: number("other_commands")?,
            lost: lost
                .filter_map(|(cause, count)| Some((cause.clone(), count.as_u64()?)))
                .collect(),
            shed: shed
                .iter()
                .filter_map(|what| Some(what.as_str()?.to_owned()))
                .collect(),
            core_share,
        })
    }

    pub(crate) fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }
}

impl Run {
    /// Captured + lost = everything that ended, and nothing of the load is missing from it.
    pub(crate) fn is_accounted_for(&self) -> bool {
        self.agent.as_ref().is_none_or(|agent| {
            agent.captured + agent.other_commands + agent.lost_total() == agent.hits
                && agent.hits >= self.executed
        })
    }

    /// Captured of what ended, a share.
    pub(crate) fn captured_share(&self) -> Option<f64> {
        let agent = self.agent.as_ref()?;
        let statements = agent.captured + agent.lost_total();
        (statements > 0).then(|| agent.captured as f64 / statements as f64)
    }
}

pub(crate) fn measure(
    args: &Args,
    plan: &Plan,
    waggle: &Waggle,
    results: &mut Results,
) -> anyhow::Result<()> {
    let load = LoadSpec::point_selects();
    let mut server = Server::start(waggle, args.sandbox, &load)?;
    results.server = Some(server.name());
    let mut random = Random::new(1);
    let seconds = f64::from(plan.starved_s);
    // The first load after a start is slower than the others.
    loaded(&server.load(&load, 5.0, None)?.document()?)?;
    for round in 0..plan.rounds {
        let mut levels: Vec<Option<u32>> = LEVELS.map(Some).to_vec();
        levels.push(None);
        random.shuffle(&mut levels);
        for level in levels {
            let run = one(waggle, &mut server, &load, seconds, (round, level))?;
            eprintln!(
                "  {:>7}: {:.0} a second, captured {:.1}%",
                level.map_or("nothing".to_owned(), |level| format!("{level}%")),
                run.qps,
                100.0 * run.captured_share().unwrap_or(0.0)
            );
            results.starved.push(run);
        }
    }
    Ok(())
}

fn one(
    waggle: &Waggle,
    server: &mut Server,
    load: &LoadSpec,
    seconds: f64,
    (round, level): (u32, Option<u32>),
) -> anyhow::Result<Run> {
    let pid = server.pid().to_string();
    let agent = level
        .map(|level| {
            let limit = format!("--max-cpu={level}");
            let mut agent = waggle.start(&["watch", "--json", "--pid", &pid, &limit])?;
            agent.wait_for("watching")?;
            anyhow::Ok(agent)
        })
        .transpose()?;
    let clock = |pid: u32| cpu::process_cpu_ns(pid);
    let clocks = |server: &Server| {
        let agent = agent.as_ref().map_or(Ok(0), |agent| clock(agent.pid()));
        anyhow::Ok((clock(server.pid())?, agent?, Instant::now()))
    };
    let (questions, before) = (server.questions()?, clocks(server)?);
    let loaded = loaded(&server.load(load, seconds, None)?.document()?)?;
    let (questions, after) = (server.questions()? - questions, clocks(server)?);
    let cpu = after.0.saturating_sub(before.0);
    let elapsed_ns = after.2.duration_since(before.2).as_nanos() as f64;
    let core_share = after.1.saturating_sub(before.1) as f64 / elapsed_ns;
    let agent = agent
        .map(|agent| {
            agent.interrupt();
            Agent::of(&agent.document()?, core_share)
        })
        .transpose()?;
    Ok(Run {
        round,
        level,
        executed: loaded.queries,
        qps: loaded.qps,
        server_us: cpu as f64 / 1e3 / questions.max(1) as f64,
        agent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(executed: u64, document: &Value) -> Run {
        Run {
            round: 0,
            level: Some(5),
            executed,
            qps: 1.0,
            server_us: 1.0,
            agent: Some(Agent::of(document, 0.05).expect("all is there")),
        }
    }

    #[test]
    fn what_is_neither_captured_nor_lost_is_noticed() {
        let document = |captured: u64| {
            serde_json::json!({
                "hits": 110, "captured": captured, "other_commands": 5,
                "lost": { "ring_full": 15, "shed": 50 },
                "self": { "shed": ["text"] },
            })
        };
        let whole = run(100, &document(40));
        assert!(whole.is_accounted_for());
        assert_eq!(whole.captured_share(), Some(40.0 / 105.0));
        assert_eq!(whole.agent.as_ref().map(|a| &*a.shed[0]), Some("text"));
        // One is missing from the sum; the load executed more than ended under the agent.
        assert!(!run(100, &document(39)).is_accounted_for());
        assert!(!run(111, &document(40)).is_accounted_for());
    }
}
