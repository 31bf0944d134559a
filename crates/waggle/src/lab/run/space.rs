//! Is there enough disk and memory for these cells? Asked before anything is started.
//!
//! An estimate from below: what it refuses cannot work; what it lets pass may still run full.

use std::path::{Path, PathBuf};

use anyhow::bail;
use rustix::fs::statvfs;

use crate::lab::arm::ArmSpec;
use crate::lab::cell::{CellSpec, DataSpec};

/// Disk of a server without data: system tables, undo and temporary tablespaces.
const SERVER_DISK: u64 = 150 << 20;
/// Redo log where no setting says.
const REDO_DISK: u64 = 100 << 20;
/// Disk of a row of the OLTP tables, index included.
const ROW_DISK: u64 = 260;
/// Disk of a node of LinkBench with its links, and of a warehouse of TPC-C, whole and `small`.
const NODE_DISK: u64 = 1_000;
const WAREHOUSE_DISK: u64 = 90 << 20;
const SMALL_WAREHOUSE_DISK: u64 = 2 << 20;
/// Bytes a statement leaves in a log that has every statement.
const LOG_LINE: u64 = 250;
/// Statements a second that are reckoned with for logs.
const LOG_RATE: f64 = 30_000.0;
/// Memory of a server beside its buffer pool, and of a connection.
const SERVER_MEMORY: u64 = 300 << 20;
const CONNECTION_MEMORY: u64 = 1 << 20;
/// Buffer pool of a throw-away server where no setting says.
const POOL_MEMORY: u64 = 256 << 20;
/// What a run directory needs.
const RUN_DISK: u64 = 20 << 20;

/// What the most demanding cell needs, bytes.
#[derive(Debug, Default, PartialEq)]
struct Need {
    disk: u64,
    memory: u64,
}

impl Need {
    fn of(cell: &CellSpec) -> Self {
        let servers: u64 = match cell.arms.iter().any(|arm| !arm.is_in_life()) {
            true => 2,
            false => 1,
        };
        let sizes = |name: &str| -> u64 {
            let own = cell.settings.iter();
            let arms = cell.arms.iter().flat_map(|arm| &arm.settings);
            let named = own.chain(arms).filter(|(n, _)| n.replace('-', "_") == name);
            named
                .filter_map(|(_, value)| size(value))
                .max()
                .unwrap_or(0)
        };
        let redo = match sizes("innodb_redo_log_capacity").max(sizes("innodb_log_file_size")) {
            0 => REDO_DISK,
            given => given,
        };
        let pool = match sizes("innodb_buffer_pool_size") {
            0 => POOL_MEMORY,
            given => given,
        };
        let data = data_disk(&cell.data);
        let lines = |arm: &ArmSpec| {
            let seconds = arm.windows_planned as f64 * cell.timing.window.as_secs_f64();
            match arm.files.is_empty() {
                true => 0,
                false => (seconds * LOG_RATE) as u64,
            }
        };
        let logs = cell.arms.iter().map(lines).max().unwrap_or(0);
        let disk = SERVER_DISK.saturating_add(redo).saturating_add(data);
        // A server takes its buffer pool as it is needed.
        let used = pool.min(data.max(64 << 20));
        let connections = u64::from(cell.threads) * CONNECTION_MEMORY;
        Self {
            disk: disk.saturating_mul(servers).saturating_add(logs * LOG_LINE),
            memory: (used + SERVER_MEMORY + connections).saturating_mul(servers),
        }
    }
}

/// What the data takes once it is loaded, bytes.
fn data_disk(data: &DataSpec) -> u64 {
    let option = |name: &str| data.options.get(name).map(String::as_str);
    let count = |name: &str, otherwise: u64| {
        let given = option(name).and_then(|text| text.parse().ok());
        given.unwrap_or(otherwise)
    };
    match data.script.as_str() {
        "linkbench" => count("nodes", 100_000).saturating_mul(NODE_DISK),
        "tpcc" => {
            let is_small = matches!(option("small"), Some("" | "on" | "true" | "1" | "yes"));
            let each = if is_small {
                SMALL_WAREHOUSE_DISK
            } else {
                WAREHOUSE_DISK
            };
            count("warehouses", 0).max(1).saturating_mul(each)
        }
        _ => u64::from(data.tables)
            .saturating_mul(data.table_size)
            .saturating_mul(ROW_DISK),
    }
}

/// A size as the servers write it: `256M`, `1G`, bytes.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Checks that there is room for every cell.
///
/// # Errors
/// There is not: what is needed, what there is, and what to do.
pub(super) fn check(cells: &[CellSpec], runs: &Path) -> anyhow::Result<()> {
    let need = cells
        .iter()
        .map(Need::of)
        .fold(Need::default(), |most, need| Need {
            disk: most.disk.max(need.disk),
            memory: most.memory.max(need.memory),
        });
    let servers = waggle_server::sandbox::default_directory();
    enough(
        &format!(
            "disk in {} for the servers and their data",
            servers.display()
        ),
        need.disk,
        free(&servers),
        "free some, or make --tables, --table-size or the logs smaller",
    )?;
    enough(
        &format!("disk in {} for the run", runs.display()),
        RUN_DISK,
        free(runs),
        "free some, or name another place with --runs",
    )?;
    enough(
        "memory for the servers",
        need.memory,
        memory_available(),
        "end something, or set a smaller innodb_buffer_pool_size with --set",
    )
}

fn enough(what: &str, need: u64, have: Option<u64>, remedy: &str) -> anyhow::Result<()> {
    // What cannot be asked is not refused.
    let Some(have) = have.filter(|have| *have < need) else {
        return Ok(());
    };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    bail!(
        "too little {what}: about {} MiB are needed, {} MiB are free; {remedy}",
        mib(need),
        mib(have)
    )
}

/// Bytes free where `path` is or will be.
fn free(path: &Path) -> Option<u64> {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    while !path.exists() {
        path = path.parent()?.to_owned();
    }
    let facts = statvfs(&path).ok()?;
    Some(facts.f_bavail.saturating_mul(facts.f_frsize))
}

fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_servers_write_them() {
        assert_eq!(size("256M"), Some(256 << 20));
        assert_eq!(size("1g"), Some(1 << 30));
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("ON"), None);
        assert_eq!(size("99999999999999G"), None);
    }

    #[test]
    fn data_are_as_large_as_their_own_options_say() {
        let data = |script: &str, options: &[(&str, &str)]| DataSpec {
            script: script.to_owned(),
            tables: 4,
            table_size: 1_000,
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        assert_eq!(data_disk(&data("oltp_read_only", &[])), 4_000 * ROW_DISK);
        let million = data("linkbench", &[("nodes", "1000000")]);
        assert_eq!(data_disk(&million), 1_000_000_000);
        assert_eq!(data_disk(&data("tpcc", &[])), WAREHOUSE_DISK);
        let small = data("tpcc", &[("warehouses", "10"), ("small", "on")]);
        assert_eq!(data_disk(&small), 10 * SMALL_WAREHOUSE_DISK);
        let absurd = data("tpcc", &[("warehouses", "18446744073709551615")]);
        assert_eq!(data_disk(&absurd), u64::MAX);
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is_needed() {
        let error = enough("memory", 2 << 30, Some(1 << 30), "end something").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("2048 MiB") && text.contains("1024 MiB"),
            "{text}"
        );
        assert!(text.contains("end something"), "{text}");
        assert!(enough("memory", 1, Some(1), "").is_ok());
        assert!(enough("memory", u64::MAX, None, "").is_ok());
        assert!(free(Path::new("/not/there/yet")).is_some());
    }
}
