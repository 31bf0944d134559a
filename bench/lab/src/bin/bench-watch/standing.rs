//! What does the agent take where there is little to do: idle, in memory, for each further server,
//! and with the host's figures alone?

use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use waggle_bench_lab::server::{LoadSpec, Server, loaded};
use waggle_bench_lab::waggle::{Running, Waggle};
use waggle_server::cpu;

use crate::Results;
use crate::plan::Args;

/// How long an agent is looked at.
const LOOK: Duration = Duration::from_secs(20);
/// What it gets to have attached, read the servers' binaries and come to rest.
const SETTLE: Duration = Duration::from_secs(4);
/// Most servers at once.
const SERVERS: usize = 3;
/// How long the busy server is loaded.
const BUSY_S: f64 = 20.0;

/// An agent over some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Look {
    /// Share of a core.
    pub(crate) core_share: f64,
    /// Resident set at the end, bytes.
    pub(crate) rss_bytes: u64,
    /// Its largest, bytes.
    pub(crate) rss_peak_bytes: u64,
    /// Servers it watched, by its own report.
    pub(crate) servers: u64,
    /// Servers of this measurement among them.
    pub(crate) own_servers: u64,
}

/// Everything of this part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Standing {
    /// One server without load.
    pub(crate) idle: Look,
    /// One server at full speed.
    pub(crate) busy: Look,
    /// Statements a second of it meanwhile.
    pub(crate) busy_qps: f64,
    /// The host's figures alone.
    pub(crate) host_only: Look,
    /// Every server of the host, one of them loaded before, with one to three of them ours.
    pub(crate) several: Vec<Look>,
}

impl Standing {
    /// Memory of each further server, bytes: the slope over those watched.
    pub(crate) fn further_bytes(&self) -> Option<f64> {
        let (first, last) = (self.several.first()?, self.several.last()?);
        let servers = last.servers.checked_sub(first.servers)?;
        let bytes = last.rss_bytes as f64 - first.rss_bytes as f64;
        (servers > 0).then(|| bytes / servers as f64)
    }
}

pub(crate) fn measure(args: &Args, waggle: &Waggle, results: &mut Results) -> anyhow::Result<()> {
    let load = LoadSpec::point_selects();
    let start = || Server::start(waggle, args.sandbox, &load);
    let mut servers = vec![start()?];
    results.server = Some(servers[0].name());
    let pid = servers[0].pid().to_string();
    let one = ["watch", "--json", "--pid", &pid];
    let idle = look(waggle, &one, 1)?;
    let host_only = look(waggle, &["watch", "--json", "--host-only"], 0)?;
    let (busy, busy_qps) = under_load(waggle, &one, &servers[0], &load)?;
    let mut several = Vec::new();
    loop {
        several.push(all(waggle, &servers, &load)?);
        if servers.len() == SERVERS {
            break;
        }
        servers.push(start()?);
    }
    results.standing = Some(Standing {
        idle,
        busy,
        busy_qps,
        host_only,
        several,
    });
    Ok(())
}

/// An agent without anything to do.
fn look(waggle: &Waggle, arguments: &[&str], own_servers: u64) -> anyhow::Result<Look> {
    let agent = waggle.start(arguments)?;
    std::thread::sleep(SETTLE);
    watched_for(agent, LOOK, own_servers)
}

/// An agent beside a server at full speed.
fn under_load(
    waggle: &Waggle,
    arguments: &[&str],
    server: &Server,
    load: &LoadSpec,
) -> anyhow::Result<(Look, f64)> {
    let mut agent = waggle.start(arguments)?;
    agent.wait_for("watching")?;
    let running = server.load(load, BUSY_S, None)?;
    let look = watched_for(agent, Duration::from_secs_f64(BUSY_S), 1);
    let loaded = loaded(&running.document()?)?;
    Ok((look?, loaded.qps))
}

/// An agent on every server of the host; each of ours has answered something under it.
fn all(waggle: &Waggle, servers: &[Server], load: &LoadSpec) -> anyhow::Result<Look> {
    let agent = waggle.start(&["watch", "--json", "--all"])?;
    std::thread::sleep(SETTLE);
    for server in servers {
        loaded(&server.load(load, 2.0, None)?.document()?)?;
    }
    watched_for(agent, Duration::from_secs(5), servers.len() as u64)
}

/// Looks at an agent for some time, ends it, and reads its report.
fn watched_for(agent: Running, time: Duration, own_servers: u64) -> anyhow::Result<Look> {
    let pid = agent.pid();
    let clock = || cpu::process_cpu_ns(pid).context("reading the agent's CPU clock");
    let (cpu_before, started) = (clock()?, Instant::now());
    std::thread::sleep(time);
    let used_ns = clock()?.saturating_sub(cpu_before);
    let core_share = used_ns as f64 / started.elapsed().as_nanos() as f64;
    let rss_bytes = cpu::process_rss_bytes(pid)?;
    let rss_peak_bytes = cpu::process_rss_bytes_peak(pid)?;
    agent.interrupt();
    let document = agent.document()?;
    let servers = document["servers"].as_array().map_or(0, Vec::len);
    Ok(Look {
        core_share,
        rss_bytes,
        rss_peak_bytes,
        servers: servers as u64,
        own_servers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_server_is_the_slope_over_those_watched() {
        let look = |servers, rss_bytes| Look {
            core_share: 0.0,
            rss_bytes,
            rss_peak_bytes: rss_bytes,
            servers,
            own_servers: servers,
        };
        let standing = |several: Vec<Look>| Standing {
            idle: look(1, 0),
            busy: look(1, 0),
            busy_qps: 1.0,
            host_only: look(0, 0),
            several,
        };
        let three = standing(vec![
            look(1, 30 << 20),
            look(2, 33 << 20),
            look(3, 40 << 20),
        ]);
        assert_eq!(three.further_bytes(), Some(f64::from(5 << 20)));
        // A server that was not seen to come is no slope.
        assert_eq!(standing(vec![look(1, 1), look(1, 2)]).further_bytes(), None);
        assert_eq!(standing(Vec::new()).further_bytes(), None);
    }
}
