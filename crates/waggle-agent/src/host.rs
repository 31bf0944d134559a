//! What the host and each server's process use: processors, memory, disk, network.
//!
//! Counters are cumulative, as the kernel keeps them; readers take differences.

/// The host at one moment.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct HostSample {
    /// Processors online.
    pub processors: u32,
    /// Time of all processors since boot, s: user, system, idle, waiting for disk, stolen, other.
    pub cpu_s: CpuTimes,
    /// Tasks that run or could.
    pub runnable: u64,
    /// Tasks that wait for a disk.
    pub blocked: u64,
    /// Load average over 1, 5, 15 minutes.
    pub load: [f64; 3],
    /// Memory in all, and available, bytes.
    pub memory_bytes: (u64, u64),
    /// Swap in all, and used, bytes.
    pub swap_bytes: (u64, u64),
    /// Share of time some task was stalled (pressure), %, over 10 s: processor, memory, disk;
    /// `None` where the kernel does not tell.
    pub pressure: Option<[f64; 3]>,
    /// Whole disks.
    pub disks: Vec<DiskSample>,
    /// Network interfaces.
    pub networks: Vec<NetworkSample>,
}

/// Processor time, s.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct CpuTimes {
    /// In programs.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Idle.
    pub idle: f64,
    /// Idle while a disk is waited for.
    pub iowait: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Interrupts and nice programs.
    pub other: f64,
}

/// One disk since boot.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct DiskSample {
    /// Kernel name.
    pub name: String,
    /// Reads and writes done.
    pub operations: (u64, u64),
    /// Bytes read and written.
    pub bytes: (u64, u64),
    /// Time reads and writes took together, s.
    pub time_s: (f64, f64),
    /// Time with something to do, s.
    pub busy_s: f64,
}

/// One interface since it came up.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct NetworkSample {
    /// Kernel name.
    pub name: String,
    /// Bytes received and sent.
    pub bytes: (u64, u64),
    /// Packets received and sent.
    pub packets: (u64, u64),
    /// Packets dropped or in error, received and sent.
    pub failed: (u64, u64),
}

/// One server's process.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct ProcessSample {
    /// CPU time, user and system, s.
    pub cpu_s: (f64, f64),
    /// Time its threads were ready but not running, s.
    pub runqueue_s: f64,
    /// Resident memory, bytes.
    pub rss_bytes: u64,
    /// Bytes read from and written to storage.
    pub storage_bytes: (u64, u64),
    /// Threads.
    pub threads: u32,
    /// Open files.
    pub files: u32,
    /// Context switches, voluntary and forced.
    pub switches: (u64, u64),
    /// Fields that could not be read, each with the reason; their values mean nothing.
    pub missing: Vec<(&'static str, String)>,
}

/// Counters of the server that matter, from `SHOW GLOBAL STATUS` and its kin; only with a DSN.
/// Name (the server's own, lower case) and value.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct ServerStatus {
    /// Numbers by name.
    pub values: Vec<(String, f64)>,
    /// Replication lag, s, by channel, if it replicates.
    pub lag_s: Vec<(String, f64)>,
    /// Why there is nothing, or what is missing beside what there is.
    pub missing_because: Option<String>,
}
