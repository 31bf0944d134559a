//! What cells must agree in to share a server, and what follows for the server and its loads.
//!
//! Neighbours: the stand above starts them; `lab::cell` says what a cell is.

use std::collections::BTreeMap;
use std::time::Duration;

use waggle_load::{IgnoreErrors, LoadSpec, Script};
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_stats::arrivals::{Arrivals, Spacing};
use waggle_wire::Dsn;

use crate::interrupt;
use crate::lab::arm::{ArmSpec, ObserverSpec};
use crate::lab::cell::{CellSpec, DataSpec};

/// Threads that fill the server.
const PREPARE_THREADS: u32 = 8;
/// A load that has lost its server gives up after this.
const RECONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How long a load may take to end.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What cells must agree in to share a server.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::lab::run) struct Key {
    pub(super) flavour: Flavour,
    settings: Vec<(String, String)>,
    data: DataSpec,
    tcp: bool,
    /// The server has a port: the load needs it, or a command may.
    pub(super) listens: bool,
    pub(super) slow_log: bool,
    /// No thread of a load stays on one processor, since some cell's server has processors of its
    /// own, which the load is kept off: else cells that share a server would be loaded in two ways.
    floating: bool,
}

impl Key {
    /// What the cells of each server agree in, and their places among `cells`.
    pub(in crate::lab::run) fn groups(cells: &[&CellSpec]) -> Vec<(Self, Vec<usize>)> {
        let mut groups: Vec<(Self, Vec<usize>)> = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            let key = Self::of(cell);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, members)) => members.push(index),
                None => groups.push((key, vec![index])),
            }
        }
        for (key, members) in &mut groups {
            let is_kept_off = |index: &usize| cells[*index].limits.cpus.is_some();
            key.floating = members.iter().any(is_kept_off);
        }
        groups
    }

    fn of(cell: &CellSpec) -> Self {
        let packets = |arm: &ArmSpec| {
            let observer = arm.observer.as_ref();
            observer.is_some_and(
                |o| matches!(o, ObserverSpec::Watch { source, .. } if source == "packets"),
            )
        };
        let slow_log = |arm: &ArmSpec| {
            let mut statements = arm.on.iter();
            statements.any(|sql| sql.to_ascii_lowercase().contains("slow_query_log"))
        };
        let command = |arm: &ArmSpec| matches!(arm.observer, Some(ObserverSpec::Command { .. }));
        let tcp = cell.over_tcp || cell.arms.iter().any(packets);
        Self {
            flavour: cell.flavour,
            settings: cell.settings.clone(),
            data: cell.data.clone(),
            tcp,
            listens: tcp || cell.arms.iter().any(command),
            slow_log: cell.arms.iter().any(slow_log),
            floating: false,
        }
    }

    /// Settings of the server. A session takes `long_query_time` when it connects, so where an arm
    /// is the slow log it is 0 from the start, and the log itself is the switch. MariaDB's sessions
    /// take that when they connect too: see [`Stand::take_up`](super::Stand::take_up).
    pub(super) fn settings(&self, extra: &[(String, String)]) -> Vec<(String, String)> {
        let mut all = vec![("performance_schema".to_owned(), "OFF".to_owned())];
        if self.slow_log {
            all.push(("long_query_time".to_owned(), "0".to_owned()));
            all.push(("slow_query_log".to_owned(), "OFF".to_owned()));
        }
        all.extend(self.settings.iter().chain(extra).cloned());
        all
    }

    /// What fills the server.
    pub(super) fn prepare_spec(&self, server: &Sandbox, seed: u64) -> anyhow::Result<LoadSpec> {
        let mut spec = LoadSpec::new(server.dsn_socket(), Script::open(&self.data.script)?);
        spec.threads = PREPARE_THREADS;
        spec.seed = seed;
        spec.options = data_options(&self.data);
        spec.cancel = interrupt::flag();
        Ok(spec)
    }

    /// The load of a cell, which stands still at first.
    pub(super) fn load_spec(&self, cell: &CellSpec, server: &Sandbox) -> LoadSpec {
        let dsn: Dsn = if self.tcp {
            server.dsn()
        } else {
            server.dsn_socket()
        };
        let mut spec = LoadSpec::new(dsn, cell.script.clone());
        spec.threads = cell.threads;
        spec.seed = cell.seed;
        spec.options = data_options(&self.data);
        spec.options.extend(cell.options.clone());
        spec.start_paused = true;
        spec.floating = self.floating;
        // Errors are counted, arm by arm: one that has them and another that has not is a finding.
        spec.ignore_errors = IgnoreErrors::All;
        spec.restart_limit = u32::MAX;
        spec.reconnect_limit = RECONNECT_LIMIT;
        spec.stop_grace = STOP_GRACE;
        spec.arrivals = cell
            .rate
            .map(|rate| Arrivals::constant(rate, Spacing::default()));
        spec
    }
}

/// The options that the data's size is.
fn data_options(data: &DataSpec) -> BTreeMap<String, String> {
    let mut options = data.options.clone();
    for (name, value) in [
        ("tables", u64::from(data.tables)),
        ("table-size", data.table_size),
    ] {
        // 0: the workload has no such option.
        if value > 0 {
            options.insert(name.to_owned(), value.to_string());
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_share_a_server_are_loaded_in_one_way() {
        let cell = |id: &str, setting: &str, cpus| {
            let script = Script::open("oltp_point_select").expect("a shipped script");
            let mut cell = CellSpec::new(id, id, Flavour::MySql, script);
            cell.settings = vec![("innodb_buffer_pool_size".to_owned(), setting.to_owned())];
            cell.limits.cpus = cpus;
            cell
        };
        let cells = [
            cell("cpu", "1G", None),
            cell("io", "64M", None),
            cell("few-cpus", "1G", Some(1)),
        ];
        let groups = Key::groups(&cells.each_ref());
        let told = groups
            .iter()
            .map(|(key, members)| (key.floating, &members[..]));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(true, &[0, 2][..]), (false, &[1][..])]);
    }
}
