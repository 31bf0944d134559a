//! The conditions of the benchmark as cells: three workloads, each at its maximum and at a rate.
//!
//! All are LinkBench; what differs is what limits it. CPU-bound: the data fits in memory.
//! CPU-bound with few CPUs: the same, server and agent kept to some of them. I/O-bound: a buffer
//! pool of a tenth of the data, and a throttled disk. Neighbours: `lab::run` measures cells,
//! [`super::tables`] lays them out.
//!
//! Invariant: conditions that differ in limits alone ask for the same data and settings, so that
//! they share servers.

use std::collections::BTreeMap;
use std::time::Duration;

use waggle_load::Script;
use waggle_server::Flavour;
use waggle_stats::compare::Outcome;

use crate::experiment::Timing;
use crate::lab::arm::{ArmSpec, ObserverSpec, builtin};
use crate::lab::cell::{CellSpec, DataSpec, Limits, LivesPlan};

/// The operations whose response times the benchmark shows: a write and a range read.
pub(super) const OPERATIONS: [&str; 2] = ["ADD_LINK", "GET_LINKS_LIST"];

/// A node with its links, in pages of tables and indexes, bytes: 200,000 nodes took 312 MB in MySQL
/// 9.7 and 304 MB in MariaDB 10.11, 100,000 half of it.
const NODE_BYTES: u64 = 1_550;
/// The part of the data that the buffer pool of the I/O-bound workload holds.
const POOL_SHARE: u64 = 10;
/// The smallest buffer pool that both servers accept.
const POOL_BYTES_MIN: u64 = 6 << 20;
/// How many times its data a pool is that holds all of it, with room for what is added.
const POOL_ROOM: u64 = 3;

/// What limits the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Condition {
    /// Processors; the data is in memory
    Cpu,
    /// Few processors for server and agent
    FewCpus,
    /// The disk
    Io,
}

impl Condition {
    pub(super) const ALL: [Self; 3] = [Self::Cpu, Self::FewCpus, Self::Io];

    /// Its name in files and keys.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::FewCpus => "few-cpus",
            Self::Io => "io",
        }
    }
}

/// What is on beside the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    PerformanceSchema,
    Agent,
    Both,
}

impl Watched {
    pub(super) const ALL: [Self; 3] = [Self::PerformanceSchema, Self::Agent, Self::Both];

    /// Its name in keys of published figures.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::PerformanceSchema => "perfschema",
            Self::Agent => "agent",
            Self::Both => "both",
        }
    }

    /// Its name for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::PerformanceSchema => "PERFORMANCE_SCHEMA",
            Self::Agent => "agent",
            Self::Both => "both",
        }
    }
}

/// Which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Agent {
    /// `waggle watch --source packets`, which decodes the network as the original did
    Packets,
    /// `waggle watch`, one probe at the end of each statement
    Uprobe,
}

impl Agent {
    fn source(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Uprobe => "uprobe",
        }
    }

    fn arm(self) -> &'static str {
        match self {
            Self::Packets => "watch-packets",
            Self::Uprobe => "watch",
        }
    }

    /// The name of an arm of this study.
    pub(super) fn arm_name(self, watched: Watched) -> String {
        match watched {
            Watched::PerformanceSchema => "perfschema".to_owned(),
            Watched::Agent => self.arm().to_owned(),
            Watched::Both => format!("perfschema+{}", self.arm()),
        }
    }
}

/// How the load is offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// As much as the server takes.
    Throughput,
    /// This many operations a second, from their intended start.
    Rate(f64),
}

impl Mode {
    fn key(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Rate(_) => "rate",
        }
    }
}

/// How large and how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// Nodes of the graph.
    pub(super) nodes: u64,
    /// Connections.
    pub(super) threads: u32,
    /// Measured part of a window.
    pub(super) window: Duration,
    /// Where the disk is the limit. While the load stands still, pages are written and the limit
    /// saves up: the first 40 ms after a switch had 2.3 times the statements of later ones, more on
    /// a server that had rested longer, and it took 0.3 s to fade. A window also has to hold
    /// several of the limit's steps of a tenth of a second.
    pub(super) io: Timing,
    /// Windows of each arm there in a pair of servers: as they are longer, there are fewer.
    pub(super) io_windows: usize,
    /// The load runs for so long before a server's first window.
    pub(super) warm_up: Duration,
    /// Windows of each arm in a pair of servers, and how many pairs.
    pub(super) lives: LivesPlan,
}

impl Scale {
    /// Fifteen minutes for all on two processors. The time counts more than the number of pairs: on
    /// a machine too busy for three there is no interval, and the report says so.
    pub(super) fn quick(threads: u32) -> Self {
        Self {
            nodes: 35_000,
            threads,
            window: Duration::from_millis(400),
            io: Timing {
                window: Duration::from_millis(500),
                settle: Duration::from_millis(350),
            },
            io_windows: 4,
            warm_up: Duration::from_secs(1),
            lives: LivesPlan {
                // Three are the fewest for a life to count; some are set aside on a busy machine.
                windows: 5,
                fewest: 1,
                most: 60,
            },
        }
    }

    /// Intervals of 10 s as in the original, over a graph of some gigabytes.
    pub(super) fn full(threads: u32) -> Self {
        Self {
            nodes: 1_000_000,
            threads,
            window: Duration::from_secs(10),
            io: Timing {
                window: Duration::from_secs(10),
                settle: Duration::from_secs(1),
            },
            io_windows: 6,
            warm_up: Duration::from_secs(60),
            lives: LivesPlan {
                windows: 6,
                fewest: 5,
                most: 60,
            },
        }
    }

    /// Seconds for all, to see that it works.
    pub(super) fn tiny() -> Self {
        Self {
            nodes: 2_000,
            threads: 4,
            window: Duration::from_millis(100),
            io: Timing {
                window: Duration::from_millis(100),
                settle: Duration::from_millis(60),
            },
            io_windows: 1,
            warm_up: Duration::from_millis(200),
            lives: LivesPlan {
                windows: 1,
                fewest: 1,
                most: 3,
            },
        }
    }

    /// The data of the graph on disk, bytes, estimated.
    pub(super) fn data_bytes(&self) -> u64 {
        self.nodes * NODE_BYTES
    }
}

/// What the cells are made for.
#[derive(Debug, Clone)]
pub(super) struct CellPlan {
    pub(super) flavour: Flavour,
    pub(super) agent: Agent,
    pub(super) scale: Scale,
    /// Processors for server and agent where they are few.
    pub(super) cpus: u32,
    /// Bytes a second the disk may read, and write, where it is the limit.
    pub(super) io_bytes_per_s: u64,
    pub(super) seed: u64,
}

impl CellPlan {
    /// The cell of a condition and a mode.
    pub(super) fn cell(&self, condition: Condition, mode: Mode) -> anyhow::Result<CellSpec> {
        let script = Script::open("linkbench")?;
        let id = format!("{}-{}", condition.key(), mode.key());
        let mut cell = CellSpec::new(&id, &self.title(condition), self.flavour, script);
        let nodes = BTreeMap::from([("nodes".to_owned(), self.scale.nodes.to_string())]);
        cell.data = DataSpec {
            script: "linkbench".to_owned(),
            tables: 0,
            table_size: 0,
            options: nodes.clone(),
        };
        cell.options = nodes;
        cell.threads = self.scale.threads;
        cell.over_tcp = true;
        cell.arms = self.arms();
        cell.all_in_lives = true;
        cell.lives = match condition {
            Condition::Cpu | Condition::FewCpus => self.scale.lives,
            Condition::Io => LivesPlan {
                windows: self.scale.io_windows,
                ..self.scale.lives
            },
        };
        cell.timing = self.timing(condition);
        // Its windows are longer.
        cell.weight = match condition {
            Condition::Cpu | Condition::FewCpus => 1.0,
            Condition::Io => 1.4,
        };
        cell.warm_up = self.scale.warm_up;
        cell.per_operation = true;
        cell.seed = self.seed;
        cell.settings = self.settings(condition);
        cell.limits = self.limits(condition);
        (cell.rate, cell.primary) = match mode {
            Mode::Throughput => (None, Outcome::Qps),
            Mode::Rate(rate) => (Some(rate), Outcome::LatencyP99Us),
        };
        Ok(cell)
    }

    /// A condition, for people.
    pub(super) fn title(&self, condition: Condition) -> String {
        match condition {
            Condition::Cpu => "CPU-bound".to_owned(),
            Condition::FewCpus => format!("CPU-bound, {}", cpus(self.cpus)),
            Condition::Io => "I/O-bound".to_owned(),
        }
    }

    fn timing(&self, condition: Condition) -> Timing {
        match condition {
            Condition::Cpu | Condition::FewCpus => Timing {
                window: self.scale.window,
                settle: Duration::from_millis(60),
            },
            Condition::Io => self.scale.io,
        }
    }

    fn limits(&self, condition: Condition) -> Limits {
        match condition {
            Condition::Cpu => Limits::default(),
            Condition::FewCpus => Limits {
                cpus: Some(self.cpus),
                ..Limits::default()
            },
            Condition::Io => Limits {
                io_bytes_per_s: Some(self.io_bytes_per_s),
                ..Limits::default()
            },
        }
    }

    /// The buffer pool of a condition, bytes.
    pub(super) fn pool_bytes(&self, condition: Condition) -> u64 {
        let data = self.scale.data_bytes();
        let bytes = match condition {
            Condition::Io => (data / POOL_SHARE).max(POOL_BYTES_MIN),
            Condition::Cpu | Condition::FewCpus => (data * POOL_ROOM).max(256 << 20),
        };
        // Servers round up to whole mebibytes at least.
        bytes.div_ceil(1 << 20) << 20
    }

    fn settings(&self, condition: Condition) -> Vec<(String, String)> {
        let pool = self.pool_bytes(condition).to_string();
        let flush = match condition {
            // The redo log reaches the disk every second: a commit that waits for it would make the
            // disk the limit.
            Condition::Cpu | Condition::FewCpus => "2",
            Condition::Io => "1",
        };
        [
            ("innodb_buffer_pool_size", pool.as_str()),
            // Pages come from the disk and not from the kernel's cache.
            ("innodb_flush_method", "O_DIRECT"),
            ("innodb_flush_log_at_trx_commit", flush),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// The four combinations, of which neither is the base, and neither again.
    fn arms(&self) -> Vec<ArmSpec> {
        let observer = ObserverSpec::Watch {
            source: self.agent.source().to_owned(),
            args: Vec::new(),
        };
        let name = |watched| self.agent.arm_name(watched);
        let both = ArmSpec {
            settings: vec![("performance_schema".to_owned(), "ON".to_owned())],
            observer: Some(observer),
            sees: Some("both".to_owned()),
            ..ArmSpec::new(&name(Watched::Both), "PERFORMANCE_SCHEMA and the agent")
        };
        [builtin::AA_NAME, "perfschema", self.agent.arm()]
            .into_iter()
            .filter_map(builtin::arm)
            .chain([both])
            .map(|arm| ArmSpec {
                windows_planned: self.scale.lives.windows,
                target: None,
                ..arm
            })
            .collect()
    }
}

fn cpus(count: u32) -> String {
    match count {
        1 => "1 CPU".to_owned(),
        _ => format!("{count} CPUs"),
    }
}

#[cfg(test)]
mod tests;
