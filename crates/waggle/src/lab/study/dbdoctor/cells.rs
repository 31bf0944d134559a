//! The conditions of scenes A, B and C as cells.
//!
//! Scene A is sysbench's three mixes over the same tables at rising numbers of threads, scene B is
//! TPC-C, scene C a single connection that sends one statement after the other. Neighbours:
//! `lab::run` measures cells, [`super::tables`] lays them out as the article does.
//!
//! Invariant: cells over the same tables ask for the same data and settings, so that they share a
//! server: starting and filling one takes longer than a quick cell.

use std::collections::BTreeMap;
use std::time::Duration;

use waggle_load::Script;
use waggle_server::Flavour;

use super::{AgentKind, Scene};
use crate::experiment::Timing;
use crate::lab::arm::{ArmSpec, builtin};
use crate::lab::cell::{CellSpec, DataSpec};

/// The three mixes of scene A: name in keys and files, workload, title.
pub(super) const MODES: [(&str, &str, &str); 3] = [
    ("read-write", "oltp_read_write", "read-write"),
    ("read-only", "oltp_read_only", "read-only"),
    ("write-only", "oltp_write_only", "write-only"),
];

/// The article's numbers of threads.
pub(super) const THREADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Connections of a full scene B: the article's table names none; the most of scene A.
const THREADS_TPCC: u32 = 64;

/// How much the scenes are given of one budget, relative to each other.
const WEIGHT_TPCC: f64 = 3.0;
const WEIGHT_STATEMENT: f64 = 4.0;

/// Windows of each arm when things are tried out: an interval takes three that were not disturbed.
const WINDOWS_SMALL: usize = 8;

/// What the cells are made for.
#[derive(Debug, Clone)]
pub(super) struct CellPlan {
    pub(super) flavour: Flavour,
    pub(super) agent: AgentKind,
    pub(super) seed: u64,
    /// Scene A's numbers of threads.
    pub(super) threads: Vec<u32>,
    /// The article's size of data, and windows as long as its pace asks for.
    pub(super) full: bool,
    /// Data as small as it gets, to try things out.
    pub(super) small: bool,
}

/// A cell and where it stands in the study.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) part: String,
    pub(super) title: String,
    pub(super) spec: CellSpec,
}

impl Condition {
    fn new(part: String, title: String, mut spec: CellSpec) -> Self {
        spec.title = format!("{part}, {title}");
        Self { part, title, spec }
    }
}

impl CellPlan {
    /// The cells of these scenes, in the order to measure.
    pub(super) fn conditions(&self, scenes: &[Scene]) -> anyhow::Result<Vec<Condition>> {
        let mut all = Vec::new();
        if scenes.contains(&Scene::C) {
            all.push(self.statement()?);
        }
        if scenes.contains(&Scene::A) {
            // Time that runs out is missed by the most threads of every mode, not by one mode.
            for threads in &self.threads {
                for (mode, workload, title) in MODES {
                    all.push(self.mix(mode, workload, title, *threads)?);
                }
            }
        }
        if scenes.contains(&Scene::B) {
            all.push(self.tpcc()?);
        }
        Ok(all)
    }

    fn mix(
        &self,
        mode: &str,
        workload: &str,
        title: &str,
        threads: u32,
    ) -> anyhow::Result<Condition> {
        let mut spec = self.cell(&format!("a-{mode}-t{threads}"), workload, threads)?;
        spec.data = self.tables();
        Ok(Condition::new(
            format!("Scene A: {title}"),
            counted(threads),
            spec,
        ))
    }

    fn tpcc(&self) -> anyhow::Result<Condition> {
        // As many connections for each warehouse: how often they wait for each other follows.
        let (threads, warehouses) = match (self.full, self.small) {
            (true, _) => (THREADS_TPCC, "10"),
            (_, true) => (2, "1"),
            _ => (8, "1"),
        };
        let mut spec = self.cell("b-tpcc", "tpcc", threads)?;
        spec.data = DataSpec {
            script: "tpcc".to_owned(),
            tables: 0,
            table_size: 0,
            options: BTreeMap::from([("warehouses".to_owned(), warehouses.to_owned())]),
        };
        if self.small {
            let small = ("small".to_owned(), "on".to_owned());
            spec.data.options.extend([small]);
        }
        spec.weight = WEIGHT_TPCC;
        let title = match warehouses {
            "1" => format!("{}, 1 warehouse", counted(threads)),
            _ => format!("{}, {warehouses} warehouses", counted(threads)),
        };
        Ok(Condition::new("Scene B: TPC-C".to_owned(), title, spec))
    }

    fn statement(&self) -> anyhow::Result<Condition> {
        let mut spec = self.cell("c-statement", "oltp_point_select", 1)?;
        spec.data = self.tables();
        spec.weight = WEIGHT_STATEMENT;
        if self.agent == AgentKind::Uprobe {
            spec.arms.extend(self.arm("probe-empty", 40));
        }
        for arm in &mut spec.arms {
            // Latency is what is asked here, and its quantiles are coarser than CPU time.
            arm.target = arm.target.map(|target| target / 2.0);
        }
        let part = "Scene C: one statement".to_owned();
        Ok(Condition::new(part, counted(1), spec))
    }

    /// The tables of scenes A and C.
    fn tables(&self) -> DataSpec {
        let (tables, table_size) = match (self.full, self.small) {
            (true, _) => (1000, 10_000),
            (_, true) => (1, 1_000),
            _ => (10, 10_000),
        };
        DataSpec {
            script: "oltp_read_write".to_owned(),
            tables,
            table_size,
            options: BTreeMap::new(),
        }
    }

    fn cell(&self, id: &str, workload: &str, threads: u32) -> anyhow::Result<CellSpec> {
        let script = Script::open(workload)?;
        let mut spec = CellSpec::new(id, id, self.flavour, script);
        spec.threads = threads;
        spec.seed = self.seed;
        spec.arms = self.arms();
        spec.timing = self.timing(workload, threads);
        spec.warm_up = Duration::from_millis(match (self.full, self.small) {
            (true, _) => 60_000,
            (_, true) => 200,
            _ => 1_000,
        });
        if self.full {
            let pool = ("innodb_buffer_pool_size".to_owned(), "4G".to_owned());
            spec.settings.push(pool);
        }
        Ok(spec)
    }

    /// Nothing again, and the agent. Their windows are few, as the time that is left goes to the
    /// cells and arms whose intervals are widest.
    fn arms(&self) -> Vec<ArmSpec> {
        let same = self.arm(builtin::AA_NAME, 8);
        same.into_iter()
            .chain(self.arm(self.agent.arm(), 12))
            .collect()
    }

    fn arm(&self, name: &str, windows: usize) -> Option<ArmSpec> {
        let mut arm = builtin::arm(name)?;
        arm.windows_planned = windows;
        if self.small {
            // What is tried out ends with what is planned.
            arm.windows_planned = WINDOWS_SMALL;
            arm.target = None;
        }
        Some(arm)
    }

    /// Long enough for some dozen transactions a window and for the waits between windows, in
    /// which transactions come to their end, to be the smaller part.
    fn timing(&self, workload: &str, threads: u32) -> Timing {
        let window = match (self.full, workload, threads) {
            (true, ..) => 1000,
            _ if self.small => 80,
            (_, "tpcc", _) => 300,
            (_, "oltp_point_select", _) => 150,
            (_, _, 32..) => 250,
            _ => 180,
        };
        Timing {
            window: Duration::from_millis(window),
            settle: Duration::from_millis(40),
        }
    }
}

fn counted(threads: u32) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(full: bool) -> CellPlan {
        CellPlan {
            flavour: Flavour::MariaDb,
            agent: AgentKind::Uprobe,
            seed: 1,
            threads: THREADS.to_vec(),
            full,
            small: false,
        }
    }

    #[test]
    fn the_scenes_are_the_articles() {
        let all = plan(true)
            .conditions(&[Scene::A, Scene::B, Scene::C])
            .expect("cells");
        assert_eq!(all.len(), 3 * 7 + 1 + 1);
        let ids: std::collections::BTreeSet<&str> =
            all.iter().map(|c| c.spec.id.as_str()).collect();
        assert_eq!(ids.len(), all.len(), "each has a name of its own");
        for condition in &all {
            let arms: Vec<&str> = condition
                .spec
                .arms
                .iter()
                .map(|a| a.name.as_str())
                .collect();
            assert!(arms.starts_with(&["none-again", "watch"]), "{arms:?}");
            assert_eq!(
                arms.contains(&"probe-empty"),
                condition.spec.id.starts_with("c-")
            );
        }
        let tables = &all
            .iter()
            .find(|c| c.spec.id.starts_with("a-"))
            .expect("one")
            .spec
            .data;
        assert_eq!((tables.tables, tables.table_size), (1000, 10_000));
    }

    #[test]
    fn what_shares_tables_shares_a_server() {
        let all = plan(false)
            .conditions(&[Scene::A, Scene::C])
            .expect("cells");
        let first = &all[0].spec;
        for condition in &all {
            assert_eq!(condition.spec.data, first.data);
            assert_eq!(condition.spec.settings, first.settings);
            assert_eq!(condition.spec.limits, first.limits);
        }
    }
}
