//! In which container, control group and network does a process live?
//!
//! Neighbours: [`super`] asks it once for each server. Invariant: what a container wrote is a name
//! to show, cut to a sane length and to plain characters, and is never followed out of its root.

use std::fs;

use serde::Serialize;
use waggle_foreign::{Printable, read_proc};

use super::option_files::read_in_root;
use crate::process::proc_path;

/// Where a server lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Whereabouts {
    /// Its control group: of the unified hierarchy, else that of processor time.
    pub control_group: Option<String>,
    /// The container's id, shortened to 12 digits as container tools show it.
    pub container: Option<String>,
    /// It has another network than this process.
    pub foreign_network: bool,
    /// The host name in its root, if it lives in another network.
    pub host_name: Option<String>,
    /// Number of its network namespace.
    pub network: Option<u64>,
}

impl Whereabouts {
    /// Of process `pid`; what may not be read is left out.
    pub(super) fn of(pid: u32) -> Self {
        let groups = read_proc(proc_path(pid, "cgroup")).unwrap_or_default();
        let (control_group, container) = control_group(&groups);
        let own = network(std::process::id());
        let network = network(pid);
        let foreign_network = network.is_some() && own.is_some() && network != own;
        let host_name = foreign_network
            .then(|| read_in_root(pid, "/etc/hostname"))
            .flatten()
            .and_then(|text| plain_name(&text));
        Self {
            control_group,
            container,
            foreign_network,
            host_name,
            network,
        }
    }

    /// How to tell this network from the others of the host, if it is not our own.
    pub(super) fn network_name(&self) -> Option<String> {
        if !self.foreign_network {
            return None;
        }
        self.container
            .clone()
            .or_else(|| self.host_name.clone())
            .or_else(|| self.network.map(|number| format!("net-{number}")))
    }
}

fn network(pid: u32) -> Option<u64> {
    let link = fs::read_link(proc_path(pid, "ns/net")).ok()?;
    let number = link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// The group, and the container's id in it, by the text of `/proc/PID/cgroup`.
pub(super) fn control_group(text: &str) -> (Option<String>, Option<String>) {
    let mut chosen: Option<&str> = None;
    for line in text.lines() {
        // number:controllers:path
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let is_better = match controllers {
            "" => path != "/" || chosen.is_none(),
            _ => chosen.is_none_or(|c| c == "/") && controllers.split(',').any(|c| c == "cpu"),
        };
        if is_better {
            chosen = Some(path);
        }
    }
    let is_id = |word: &&str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = |path: &str| {
        let mut words = path.rsplit(['/', '-', '.', ':']);
        words.find(is_id).map(|id| id[..12].to_ascii_lowercase())
    };
    // Other hierarchies may know the container when the chosen one does not.
    let container = chosen
        .and_then(words)
        .or_else(|| text.lines().find_map(words));
    (
        chosen.map(|path| Printable::of(path).into_string()),
        container,
    )
}

/// The first word, if it is a name as hosts have.
pub(super) fn plain_name(text: &str) -> Option<String> {
    let name = text.split_ascii_whitespace().next()?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    (name.len() <= 64 && name.bytes().all(is_plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_containers() {
        let id = "0123456789abcdef".repeat(4);
        let of = |text: &str| control_group(text);
        let docker = format!("0::/system.slice/docker-{id}.scope\n");
        let expected = format!("/system.slice/docker-{id}.scope");
        assert_eq!(of(&docker), (Some(expected), Some("0123456789ab".into())));
        let old = format!("4:cpu,cpuacct:/docker/{id}\n3:pids:/x\n0::/\n");
        assert_eq!(of(&old).1.as_deref(), Some("0123456789ab"));
        assert_eq!(of(&old).0, Some(format!("/docker/{id}")));
        let pod = format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope\n");
        assert_eq!(of(&pod).1.as_deref(), Some("0123456789ab"));
        assert_eq!(
            of("0::/mysql.service\n"),
            (Some("/mysql.service".into()), None)
        );
        for bad in ["", "::", "a", "0:", "0::\n1:cpu", "\0\u{fffd}:::::"] {
            let _ = of(bad);
        }
    }

    #[test]
    fn names_that_are_none() {
        assert_eq!(
            plain_name("db-1.example\n").as_deref(),
            Some("db-1.example")
        );
        for bad in ["", "\u{1b}[31mred", "a/b", &"x".repeat(65)] {
            assert_eq!(plain_name(bad), None);
        }
    }

    #[test]
    fn this_process_is_at_home() {
        let own = Whereabouts::of(std::process::id());
        assert!(!own.foreign_network && own.network_name().is_none());
    }
}
