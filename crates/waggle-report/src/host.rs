//! Facts about the machine that decide how a figure is to be read: kernel, processor, clock,
//! mitigations. The host's name is not among them: reports are shared.
//!
//! Invariant: a fact that cannot be read is absent, never guessed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The machine that a run was measured on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Kernel release, such as `6.18.44`.
    pub kernel: Option<String>,
    /// Instruction set, such as `x86_64`.
    pub architecture: String,
    /// Name of the operating system, such as `Debian GNU/Linux 12 (bookworm)`.
    pub system: Option<String>,
    /// The processor's own name.
    pub cpu_model: Option<String>,
    /// Processors that are online.
    pub cores: Option<u32>,
    /// Whether simultaneous multithreading is on.
    pub smt: Option<bool>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The kernel's clock source, such as `tsc` or `kvm-clock`.
    pub clocksource: Option<String>,
    /// Frequency governor; absent where frequency is not the guest's to set.
    pub governor: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Kind of virtual machine or container if it can be told, such as `kvm`; absent on metal.
    pub virtualisation: Option<String>,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Option<String>,
    /// State of each processor vulnerability's mitigation, those that affect this one only.
    pub mitigations: BTreeMap<String, String>,
}

impl HostFacts {
    /// Reads the facts of this machine. Never fails: what cannot be read stays absent.
    pub fn gather() -> Self {
        Self::gather_below(Path::new("/"))
    }

    /// Reads the facts from `proc`, `sys` and `etc` below `root`.
    pub fn gather_below(root: &Path) -> Self {
        let read = |path: &str| read_word(&root.join(path));
        let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        Self {
            kernel: read("proc/sys/kernel/osrelease"),
            architecture: std::env::consts::ARCH.to_owned(),
            system: field(root, "etc/os-release", "PRETTY_NAME", '=')
                .map(|name| name.trim_matches('"').to_owned()),
            cpu_model: cpu_field(&cpuinfo, "model name"),
            cores: read("sys/devices/system/cpu/online").and_then(|list| count_cpus(&list)),
            smt: read("sys/devices/system/cpu/smt/active").map(|active| active == "1"),
            memory_bytes: field(root, "proc/meminfo", "MemTotal", ':')
                .and_then(|size| size.strip_suffix(" kB")?.trim().parse::<u64>().ok())
                .map(|kib| kib * 1024),
            clocksource: read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            transparent_huge_pages: read("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|choices| chosen(&choices)),
            virtualisation: virtualisation(root, &cpuinfo),
            lockdown: read("sys/kernel/security/lockdown").and_then(|choices| chosen(&choices)),
            mitigations: mitigations(&root.join("sys/devices/system/cpu/vulnerabilities")),
        }
    }
}

fn read_word(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn field(root: &Path, path: &str, name: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

fn cpu_field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// Counts a kernel CPU list such as `0-3,8,10-11`.
fn count_cpus(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// The bracketed one of `always [madvise] never`.
fn chosen(choices: &str) -> Option<String> {
    let (_, rest) = choices.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(choice.to_owned())
}

fn virtualisation(root: &Path, cpuinfo: &str) -> Option<String> {
    let product = read_word(&root.join("sys/class/dmi/id/product_name"));
    let vendor = read_word(&root.join("sys/class/dmi/id/sys_vendor"));
    let hypervisor = read_word(&root.join("sys/hypervisor/type"));
    let guest = cpu_field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let clock = read_word(&root.join(
        "sys/devices/system/clocksource/clocksource0/\
                                      available_clocksource",
    ));
    match (hypervisor, guest) {
        (Some(kind), _) => Some(kind),
        (None, true) => Some(match (vendor, product, clock) {
            (Some(vendor), Some(product), _) => format!("{vendor} {product}"),
            (_, _, Some(clocks)) if clocks.contains("kvm-clock") => "kvm".to_owned(),
            (_, _, Some(clocks)) if clocks.contains("hyperv") => "hyper-v".to_owned(),
            _ => "virtual machine".to_owned(),
        }),
        (None, false) => None,
    }
}

fn mitigations(folder: &Path) -> BTreeMap<String, String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter_map(|(name, path)| Some((name, read_word(&path)?)))
        .filter(|(_, state)| state != "Not affected")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn reads_what_is_there_and_leaves_out_what_is_not() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        put(root, "proc/sys/kernel/osrelease", "6.18.44\n");
        put(
            root,
            "proc/cpuinfo",
            "processor: 0\nmodel name\t: Xeon\nflags\t\t: fpu hypervisor x\n",
        );
        put(
            root,
            "proc/meminfo",
            "MemFree: 1 kB\nMemTotal:       24117248 kB\n",
        );
        put(root, "sys/devices/system/cpu/online", "0-1,4\n");
        put(
            root,
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        put(
            root,
            "sys/devices/system/cpu/vulnerabilities/meltdown",
            "Not affected\n",
        );
        put(
            root,
            "sys/devices/system/cpu/vulnerabilities/spectre_v2",
            "Mitigation: IBRS\n",
        );
        put(
            root,
            "etc/os-release",
            "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n",
        );
        let clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        put(root, clocks, "kvm-clock tsc\n");

        let facts = HostFacts::gather_below(root);
        assert_eq!(facts.kernel.as_deref(), Some("6.18.44"));
        assert_eq!(facts.cpu_model.as_deref(), Some("Xeon"));
        assert_eq!(facts.cores, Some(3));
        assert_eq!(facts.memory_bytes, Some(24_117_248 * 1024));
        assert_eq!(facts.system.as_deref(), Some("Debian GNU/Linux 12"));
        assert_eq!(facts.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(facts.virtualisation.as_deref(), Some("kvm"));
        assert_eq!(facts.governor, None);
        assert_eq!(facts.smt, None);
        assert_eq!(facts.mitigations.keys().collect::<Vec<_>>(), ["spectre_v2"]);
    }

    #[test]
    fn an_empty_machine_has_no_facts() {
        let root = tempfile::tempdir().expect("a directory");
        let facts = HostFacts::gather_below(root.path());
        let architecture = facts.architecture.clone();
        assert_eq!(
            facts,
            HostFacts {
                architecture,
                ..HostFacts::default()
            }
        );
    }

    #[test]
    fn cpu_lists_are_counted() {
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-3,8,10-11"), Some(7));
        assert_eq!(count_cpus("3-1"), None);
        assert_eq!(count_cpus("0-4294967295"), None);
        assert_eq!(count_cpus("x"), None);
    }
}
