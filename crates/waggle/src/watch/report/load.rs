//! Average active sessions by what they do, and what the host is busy with, between two views.

use waggle_agent::WaitClass;
use waggle_agent::host::HostSample;
use waggle_agent::view::{ServerView, SessionTime, View};
use waggle_report::quantity;

/// Less than this is not named, sessions.
const NAMED_MIN: f64 = 0.005;

/// Sessions of `server` by what they do since `before`; `None` if no time passed or none was spent.
pub(crate) fn load_line(server: &ServerView, view: &View, before: &View) -> Option<String> {
    let former = before.servers.iter().find(|s| s.id == server.id);
    // The monotonic clock: the other may be set meanwhile.
    let since_ns = match former {
        Some(_) => view.time_ns.checked_sub(before.time_ns)?,
        None => view.time_ns.checked_sub(server.started_ns)?,
    };
    let seconds = since_ns as f64 / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    let then = former.map(|s| s.load.all).unwrap_or_default();
    let mut parts = parts(&server.load.all, &then);
    let total: f64 = parts.iter().map(|(_, s)| s).sum::<f64>() / seconds;
    if total < NAMED_MIN {
        return None;
    }
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> = parts
        .iter()
        .map(|(name, s)| (name, s / seconds))
        .filter(|(_, sessions)| *sessions >= NAMED_MIN)
        .map(|(name, sessions)| format!("{name} {sessions:.2}"))
        .collect();
    Some(format!("load {total:.2} sessions: {}", named.join(", ")))
}

/// The change of each part, s.
fn parts(now: &SessionTime, then: &SessionTime) -> Vec<(&'static str, f64)> {
    let mut parts = vec![
        ("cpu", now.cpu_s - then.cpu_s),
        ("runnable", now.runnable_s - then.runnable_s),
        ("unclassified", now.unclassified_s - then.unclassified_s),
    ];
    parts.extend(WaitClass::ALL.map(|class| {
        let at = class.index();
        (class.as_str(), now.blocked_s[at] - then.blocked_s[at])
    }));
    parts
}

/// What the host was busy with since `before`.
pub(crate) fn host_line(view: &View, before: &View) -> Option<String> {
    let (now, then) = (view.host.as_ref()?, before.host.as_ref()?);
    let seconds = view.time_ns.checked_sub(before.time_ns)? as f64 / 1e9;
    let busy = |s: &HostSample| s.cpu_s.user + s.cpu_s.system + s.cpu_s.other;
    let all = |s: &HostSample| busy(s) + s.cpu_s.idle + s.cpu_s.iowait + s.cpu_s.steal;
    let total = all(now) - all(then);
    if seconds <= 0.0 || total <= 0.0 {
        return None;
    }
    let disk = |s: &HostSample| s.disks.iter().fold((0, 0), |sum, d| add(sum, d.bytes));
    let network = |s: &HostSample| s.networks.iter().fold((0, 0), |sum, n| add(sum, n.bytes));
    let rate = |now: u64, then: u64| {
        let rate = now.saturating_sub(then) as f64 / seconds;
        format!("{}/s", quantity::bytes(rate as u64))
    };
    let (disk, disk_then) = (disk(now), disk(then));
    let (net, net_then) = (network(now), network(then));
    Some(format!(
        "host: {:.0}% of {} processors busy, {:.0}% waiting for disk, {} runnable; {} of {} memory \
         free; disk {} read, {} written; network {} in, {} out\n",
        (busy(now) - busy(then)) / total * 100.0,
        now.processors,
        (now.cpu_s.iowait - then.cpu_s.iowait) / total * 100.0,
        now.runnable,
        quantity::bytes(now.memory_bytes.1),
        quantity::bytes(now.memory_bytes.0),
        rate(disk.0, disk_then.0),
        rate(disk.1, disk_then.1),
        rate(net.0, net_then.0),
        rate(net.1, net_then.1),
    ))
}

fn add(sum: (u64, u64), more: (u64, u64)) -> (u64, u64) {
    (sum.0 + more.0, sum.1 + more.1)
}
