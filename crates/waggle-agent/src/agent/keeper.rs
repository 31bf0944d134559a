//! Keeps the agent within its budget: reads what it uses, lets the governor decide, carries it out.

use std::time::Instant;

use waggle_server::cpu;

use super::followed::Followed;
use super::news::News;
use crate::budget::{Change, Governor, Group, Limits, Reading, Shed};

/// The cause of what the probe leaves out because it was told to.
const SHED: &str = "shed";

/// The budget of one agent.
#[derive(Debug)]
pub(super) struct Keeper {
    governor: Governor,
    limits: Limits,
    /// Left when the agent ends: of memory, then of CPU time.
    groups: Vec<Group>,
    /// At the last reading: when, CPU time (ns), statements lost.
    before: (Instant, u64, u64),
}

impl Keeper {
    /// Has the kernel limit memory, before anything large is made.
    pub(super) fn new(limits: Limits) -> Self {
        let memory = Limits {
            cpu: None,
            ..limits
        };
        let group = memory.any().then(|| Group::enter(&memory));
        Self {
            governor: Governor::new(limits),
            limits,
            groups: group.into_iter().collect(),
            before: (Instant::now(), own_cpu_ns(), 0),
        }
    }

    /// Has the kernel limit CPU time from now on: after the start, whose half second would take
    /// many under a small limit. Returns what is limited and what is not.
    pub(super) fn settle(&mut self) -> Vec<News> {
        let cpu = Limits {
            memory: None,
            ..self.limits
        };
        self.groups.extend(cpu.any().then(|| Group::enter(&cpu)));
        self.before = (Instant::now(), own_cpu_ns(), self.before.2);
        let enforced = self.groups.iter().flat_map(Group::enforced);
        let enforced = enforced.map(|what| format!("budget: the kernel limits {what}"));
        let refused = self.groups.iter().flat_map(Group::refused);
        let refused = refused.map(|why| format!("budget: kept by waggle alone, not by {why}"));
        enforced.chain(refused).map(News::Budget).collect()
    }

    /// True while it is in a control group of its own.
    pub(super) fn has_group(&self) -> bool {
        self.groups.iter().any(|group| !group.enforced().is_empty())
    }

    /// What is left out now, in the order it was.
    pub(super) fn shed(&self) -> Vec<&'static str> {
        self.governor.shed().iter().map(|s| s.as_str()).collect()
    }

    /// True while `shed` is left out.
    pub(super) fn is_shed(&self, shed: Shed) -> bool {
        self.governor.shed().contains(&shed)
    }

    /// Leaves out in `server`, which is new, what is left out in all.
    pub(super) fn begin(&self, server: &mut Followed) {
        for shed in self.governor.shed() {
            server.shed(*shed, true);
        }
    }

    /// Takes the reading of one second, `server_ns` of it the servers' CPU time that the probes
    /// took, and carries out what follows from it.
    pub(super) fn second(
        &mut self,
        servers: &mut [Followed],
        server_ns: f64,
        now: Instant,
    ) -> Option<News> {
        let cpu_ns = own_cpu_ns();
        let lost = servers
            .iter()
            .flat_map(|s| s.aggregate.lost())
            // What is left out on purpose finds room enough.
            .filter(|(cause, _)| *cause != SHED)
            .map(|(_, count)| count)
            .sum();
        let (then, cpu_before, lost_before) =
            std::mem::replace(&mut self.before, (now, cpu_ns, lost));
        let seconds = now.duration_since(then).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let reading = Reading {
            cpu: cpu_ns.saturating_sub(cpu_before) as f64 / 1e9 / seconds,
            server_cpu: server_ns / 1e9 / seconds,
            memory: cpu::process_rss_bytes(std::process::id()).unwrap_or(0),
            lost: lost > lost_before,
        };
        let change = self.governor.second(reading)?;
        let (shed, on) = match change {
            Change::Shed(shed) => (shed, true),
            Change::Restore(shed) => (shed, false),
        };
        for server in servers {
            server.shed(shed, on);
        }
        let used = format!(
            "{:.1}% of a core, {:.1}% of one in servers, {} MiB",
            reading.cpu * 100.0,
            reading.server_cpu * 100.0,
            reading.memory >> 20
        );
        Some(News::Budget(if on {
            format!("budget: {used} used; {} from now on", left_out(shed))
        } else {
            format!("budget: {used} used; {} again", shed.as_str())
        }))
    }
}

fn left_out(shed: Shed) -> &'static str {
    match shed {
        Shed::Text => "texts are left out, all statements are of one digest",
        Shed::Samples => "no samples are kept",
        Shed::Classes => "waits are not classified",
        Shed::Probe => "statements are only counted, as lost",
    }
}

fn own_cpu_ns() -> u64 {
    cpu::process_cpu_ns(std::process::id()).unwrap_or(0)
}
