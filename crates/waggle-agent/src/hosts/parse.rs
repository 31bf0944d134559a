//! The kernel's texts, as numbers.
//!
//! Neighbours: the samplers beside it read the files. Invariant: any text is accepted; what does
//! not look as the kernel writes it is left out, and a sum never overflows.

use crate::host::{CpuTimes, NetworkSample};

/// What `/proc/stat` says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stat {
    pub(super) processors: u32,
    pub(super) cpu: CpuTimes,
    pub(super) runnable: u64,
    pub(super) blocked: u64,
}

/// `/proc/stat`; `None` if it has no line of all processors.
pub(super) fn stat(text: &str, ticks_per_s: f64) -> Option<Stat> {
    let mut found = Stat::default();
    let mut has_sum = false;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => {
                let mut time = || {
                    words
                        .next()
                        .and_then(|w| w.parse::<u64>().ok())
                        .unwrap_or(0) as f64
                        / ticks_per_s
                };
                let (user, nice, system) = (time(), time(), time());
                let (idle, iowait, irq) = (time(), time(), time());
                let (softirq, steal) = (time(), time());
                // Time of guests, which follows, is a part of user and nice.
                found.cpu = CpuTimes {
                    user,
                    system,
                    idle,
                    iowait,
                    steal,
                    other: nice + irq + softirq,
                };
                has_sum = true;
            }
            Some("procs_running") => found.runnable = first(words),
            Some("procs_blocked") => found.blocked = first(words),
            Some(word) if is_processor(word) => found.processors += 1,
            _ => {}
        }
    }
    has_sum.then_some(found)
}

fn first<'a>(mut words: impl Iterator<Item = &'a str>) -> u64 {
    words.next().and_then(|w| w.parse().ok()).unwrap_or(0)
}

fn is_processor(word: &str) -> bool {
    word.strip_prefix("cpu")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// `/proc/loadavg`: over 1, 5 and 15 minutes.
pub(super) fn loadavg(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse::<f64>().ok().filter(|x| x.is_finite());
    Some([next()?, next()?, next()?])
}

/// Memory and swap in all, and available or used, bytes, from `/proc/meminfo`.
pub(super) fn meminfo(text: &str) -> Option<[(u64, u64); 2]> {
    let kib = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let value = line.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
        value.checked_mul(1024)
    };
    let total = kib("MemTotal")?;
    // Kernels before 3.14 do not say what is available.
    let available = kib("MemAvailable").or_else(|| kib("MemFree"))?;
    let swap = kib("SwapTotal").unwrap_or(0);
    let swap_used = swap.saturating_sub(kib("SwapFree").unwrap_or(0));
    Some([(total, available), (swap, swap_used)])
}

/// Share of time some task was stalled, %, over 10 s, from a file of `/proc/pressure`.
pub(super) fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = line
        .split_ascii_whitespace()
        .find_map(|w| w.strip_prefix("avg10="))?;
    value.parse::<f64>().ok().filter(|x| x.is_finite())
}

/// One line of `/proc/diskstats`: name, operations, bytes, time and busy time.
#[derive(Debug, PartialEq)]
pub(super) struct Disk<'a> {
    pub(super) name: &'a str,
    pub(super) operations: (u64, u64),
    pub(super) bytes: (u64, u64),
    pub(super) time_ms: (u64, u64),
    pub(super) busy_ms: u64,
}

/// `/proc/diskstats`.
pub(super) fn diskstats(text: &str) -> impl Iterator<Item = Disk<'_>> {
    /// Unit of this file, whatever the device's own sectors are.
    const SECTOR_BYTES: u64 = 512;
    text.lines().filter_map(|line| {
        // major minor name reads merged sectors ms writes merged sectors ms in_flight busy_ms
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next()?;
        let mut numbers = [0u64; 10];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        let [
            reads,
            _,
            sectors_in,
            in_ms,
            writes,
            _,
            sectors_out,
            out_ms,
            _,
            busy_ms,
        ] = numbers;
        Some(Disk {
            name,
            operations: (reads, writes),
            bytes: (
                sectors_in.saturating_mul(SECTOR_BYTES),
                sectors_out.saturating_mul(SECTOR_BYTES),
            ),
            time_ms: (in_ms, out_ms),
            busy_ms,
        })
    })
}

/// `/proc/net/dev`, without the loopback interface's twin view: each interface as it is.
pub(super) fn networks(text: &str) -> Vec<NetworkSample> {
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.rsplit_once(':')?;
            let mut numbers = [0u64; 12];
            let mut words = rest.split_ascii_whitespace();
            for number in &mut numbers {
                *number = words.next()?.parse().ok()?;
            }
            // bytes packets errs drop fifo frame compressed multicast, then the same sent
            let n = numbers;
            Some(NetworkSample {
                name: name.trim().to_owned(),
                bytes: (n[0], n[8]),
                packets: (n[1], n[9]),
                failed: (n[2].saturating_add(n[3]), n[10].saturating_add(n[11])),
            })
        })
        .collect()
}

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq)]
pub(super) struct ProcessStat {
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) threads: u32,
    pub(super) rss_pages: u64,
}

/// `/proc/PID/stat`. The name in it may hold anything, brackets and new lines too.
pub(super) fn process_stat(text: &str) -> Option<ProcessStat> {
    let (_, rest) = text.rsplit_once(") ")?;
    // From the state on: field 3 of proc(5) is the first here.
    let words: Vec<&str> = rest.split_ascii_whitespace().take(22).collect();
    let number = |field: usize| words.get(field - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        threads: u32::try_from(number(20)?).ok()?,
        rss_pages: number(24)?,
    })
}

/// Bytes read from and written to storage, from `/proc/PID/io`.
pub(super) fn io(text: &str) -> Option<(u64, u64)> {
    let of = |name| {
        text.lines()
            .find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    let written: u64 = of("write_bytes:")?;
    // Pages that were thrown away before they were written.
    let cancelled: u64 = of("cancelled_write_bytes:").unwrap_or(0);
    Some((of("read_bytes:")?, written.saturating_sub(cancelled)))
}

/// Time ready but not running, ns, and how often it came to run, from a `schedstat` of a thread.
pub(super) fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Context switches, voluntary and forced, from a `status` of a thread.
pub(super) fn switches(text: &str) -> Option<(u64, u64)> {
    let of = |name| {
        text.lines()
            .find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
    };
    Some((
        of("voluntary_ctxt_switches:")?,
        of("nonvoluntary_ctxt_switches:")?,
    ))
}

#[cfg(test)]
mod tests;
