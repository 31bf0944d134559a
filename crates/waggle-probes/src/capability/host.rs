//! Settings and files of the kernel: BTF, lockdown, JIT, switches, tracefs, namespaces, hooks.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen};
use rustix::process::{Resource, getrlimit};

use super::cgroups::Mount;
use super::{Fact, Facts, functions};
use crate::kernel;

/// The first pid namespace, the host's (`PROC_PID_INIT_INO`).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// A file's text without blanks around it; `None` if it cannot be read or is empty.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The kernel's description of its own types.
pub(super) fn btf() -> Fact {
    let path = kernel::btf_path();
    match fs::metadata(&path) {
        Ok(facts) => Fact::yes(
            "btf",
            format!("{} ({} KiB)", path.display(), facts.len() >> 10),
        )
        .needed(),
        Err(error) => Fact::no(
            "btf",
            match error.kind() {
                ErrorKind::NotFound => format!("no BTF at {}", path.display()),
                _ => format!("BTF at {} cannot be used: {error}", path.display()),
            },
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are since 2020",
        )
        .needed(),
    }
}

/// The lockdown level: as the kernel says, or else as it behaves.
pub(super) fn lockdown(found: &Facts) -> Fact {
    let text = read("/sys/kernel/security/lockdown").or_else(|| security_file("lockdown"));
    if let Some(level) = text.as_deref().and_then(chosen) {
        return judged_lockdown(level, "");
    }
    let modules = read("/sys/kernel/security/lsm").or_else(|| security_file("lsm"));
    if modules.is_some_and(|list| !list.split(',').any(|module| module == "lockdown")) {
        return judged_lockdown("none", " (the security module is not active)");
    }
    let reads_kernel = found.get("probe_read_kernel").and_then(|fact| fact.ok);
    let Some(reads_kernel) = reads_kernel else {
        return Fact::unknown(
            "lockdown",
            "securityfs cannot be read, and nothing could be tried without root",
            "run as root, or mount -t securityfs securityfs /sys/kernel/security",
        );
    };
    match behaviour(reads_kernel, functions::may_write_user()) {
        Some(level) => judged_lockdown(level, " (by what it refuses; securityfs cannot be read)"),
        None => Fact::unknown(
            "lockdown",
            "securityfs cannot be read",
            "mount -t securityfs securityfs /sys/kernel/security",
        ),
    }
}

/// The lockdown level by the helpers it takes away from programs.
fn behaviour(reads_kernel: bool, writes_user: Option<bool>) -> Option<&'static str> {
    match (reads_kernel, writes_user?) {
        (false, _) => Some("confidentiality"),
        (true, false) => Some("integrity"),
        (true, true) => Some("none"),
    }
}

fn judged_lockdown(level: &str, how: &str) -> Fact {
    match level {
        "confidentiality" => Fact::no(
            "lockdown",
            format!(
                "confidentiality{how}: programs may not read kernel memory or trace the kernel"
            ),
            "boot with lockdown=integrity, or without secure boot, if policy allows",
        ),
        "integrity" => Fact::yes(
            "lockdown",
            format!("integrity{how}; probes that only read work"),
        ),
        level => Fact::yes("lockdown", format!("{level}{how}")),
    }
}

/// The bracketed one of `none [integrity] confidentiality`.
fn chosen(choices: &str) -> Option<&str> {
    let (_, rest) = choices.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    ["none", "integrity", "confidentiality"]
        .contains(&choice)
        .then_some(choice)
}

/// A file of securityfs where that is not mounted: through a mount of our own that is attached to
/// no directory, seen by nobody, and gone with its descriptor.
fn security_file(name: &str) -> Option<String> {
    use std::io::Read;
    let context = fsopen("securityfs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&context).ok()?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let mount = fsmount(&context, flags, MountAttrFlags::MOUNT_ATTR_RDONLY).ok()?;
    let file = openat(
        &mount,
        name,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    let mut text = String::new();
    fs::File::from(file)
        .take(4096)
        .read_to_string(&mut text)
        .ok()?;
    Some(text.trim().to_owned())
}

/// Whether programs are compiled.
pub(super) fn jit() -> Fact {
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("0") => Fact::no(
            "jit",
            "programs are interpreted, which makes every hit dearer",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        Some("2") => Fact::no(
            "jit",
            "every program is written to the kernel's log while it is compiled (debugging)",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        Some(value) => Fact::yes("jit", format!("on ({value})")),
        None if Path::new("/proc/sys/net/core/bpf_jit_enable").exists() => Fact::unknown(
            "jit",
            "bpf_jit_enable is readable by root only",
            "run as root",
        ),
        None => Fact::unknown("jit", "the kernel has no switch bpf_jit_enable here", ""),
    }
}

/// Who else may load programs: a fact for the security-minded, of no consequence for root.
pub(super) fn unprivileged_bpf() -> Fact {
    const NAME: &str = "unprivileged_bpf_disabled";
    match read("/proc/sys/kernel/unprivileged_bpf_disabled").as_deref() {
        Some("0") => Fact::yes(NAME, "0: any user may load some programs; 2 is safer"),
        Some(value) => Fact::yes(NAME, format!("{value}: only root loads programs")),
        None => Fact::unknown(NAME, "the kernel has no such switch (before 4.4)", ""),
    }
}

/// Who may open counters without rights.
pub(super) fn perf_event_paranoid() -> Fact {
    const NAME: &str = "perf_event_paranoid";
    match read("/proc/sys/kernel/perf_event_paranoid") {
        Some(value) => Fact::yes(NAME, format!("{value} (root is not bound by it)")),
        None => Fact::no(
            NAME,
            "the kernel has no perf events",
            "use a kernel with CONFIG_PERF_EVENTS=y",
        ),
    }
}

/// Maps counted against the memory lock limit until 5.11; libbpf raises it where it may.
pub(super) fn memory_lock() -> Option<Fact> {
    judged_memory_lock(kernel::version(), getrlimit(Resource::Memlock).current)
}

fn judged_memory_lock(version: (u32, u32), limit: Option<u64>) -> Option<Fact> {
    const NAME: &str = "memory_lock";
    const ENOUGH: u64 = 64 << 20;
    if version >= (5, 11) {
        return None;
    }
    let Some(limit) = limit.filter(|&limit| limit < ENOUGH) else {
        return Some(Fact::yes(NAME, "the limit leaves room for maps"));
    };
    Some(Fact::no(
        NAME,
        format!(
            "{} KiB may be locked, which kernels before 5.11 count maps against",
            limit >> 10
        ),
        "ulimit -l unlimited (root's limit is raised by waggle itself)",
    ))
}

/// Where tracepoints are listed.
pub(super) fn tracefs(mounts: &str) -> Fact {
    let all: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();
    let at = |kind| {
        all.iter()
            .find(|mount| mount.kind == kind)
            .map(|mount| &mount.path)
    };
    match (at("tracefs"), at("debugfs")) {
        (Some(path), _) => Fact::yes("tracefs", path.display().to_string()),
        (None, Some(path)) => Fact::yes("tracefs", path.join("tracing").display().to_string()),
        (None, None) => Fact::no(
            "tracefs",
            "not mounted; only tracepoints by name need it",
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
    }
}

/// Whether process ids here are the kernel's.
pub(super) fn namespaces() -> Fact {
    const NAME: &str = "pid_namespace";
    match fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link.as_os_str() == HOST_PID_NAMESPACE => Fact::yes(NAME, "the host's"),
        Ok(_) => Fact::no(
            NAME,
            "a container's: servers outside of it are not seen",
            "run waggle on the host, or with --pid=host",
        ),
        Err(error) => Fact::unknown(NAME, error.to_string(), ""),
    }
}

/// Ways to hook something, by what the kernel offers as event sources.
pub(super) fn hooks() -> Facts {
    let source = |name: &str| {
        Path::new("/sys/bus/event_source/devices")
            .join(name)
            .exists()
    };
    let (major, minor) = kernel::version();
    let uprobe = if source("uprobe") {
        Fact::yes("uprobe", "any instruction of any program")
    } else {
        Fact::no(
            "uprobe",
            "the kernel has no uprobe events",
            "use a kernel with CONFIG_UPROBE_EVENTS=y",
        )
    };
    let multi = if kernel::has_uprobe_multi() {
        Fact::yes(
            "uprobe_multi",
            "many sites in one link, filtered by process in the kernel",
        )
    } else {
        Fact::no(
            "uprobe_multi",
            format!("usable since 6.11, this is {major}.{minor}; single links serve instead"),
            "use Linux 6.11 or newer to attach many sites at once",
        )
    };
    let kprobe = if source("kprobe") {
        Fact::yes("kprobe", "any function of the kernel")
    } else {
        Fact::no(
            "kprobe",
            "the kernel has no kprobe events",
            "use a kernel with CONFIG_KPROBES=y; watching does not need it",
        )
    };
    Facts(vec![uprobe.needed(), multi, kprobe])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lockdown_file() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n"),
            Some("integrity")
        );
        assert_eq!(chosen("[none] integrity confidentiality"), Some("none"));
        assert_eq!(
            chosen("none integrity [confidentiality]"),
            Some("confidentiality")
        );
        for nonsense in ["", "none", "[", "[]", "[other]", "]none["] {
            assert_eq!(chosen(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn lockdown_by_behaviour() {
        assert_eq!(behaviour(true, Some(true)), Some("none"));
        assert_eq!(behaviour(true, Some(false)), Some("integrity"));
        assert_eq!(behaviour(false, Some(false)), Some("confidentiality"));
        assert_eq!(behaviour(true, None), None);
    }

    #[test]
    fn only_confidentiality_is_a_refusal() {
        assert_eq!(judged_lockdown("none", "").ok, Some(true));
        assert_eq!(judged_lockdown("integrity", "").ok, Some(true));
        let refused = judged_lockdown("confidentiality", "");
        assert!(refused.ok == Some(false) && refused.remedy.is_some());
    }

    #[test]
    fn the_memory_lock_limit_matters_on_old_kernels_only() {
        assert_eq!(judged_memory_lock((6, 1), Some(0)), None);
        assert_eq!(judged_memory_lock((5, 10), None).unwrap().ok, Some(true));
        let refused = judged_memory_lock((5, 10), Some(64 << 10)).unwrap();
        assert!(refused.ok == Some(false) && refused.reason.unwrap().starts_with("64 KiB"));
    }

    #[test]
    fn tracefs_by_mounts() {
        let at = |mounts: &str| tracefs(mounts).value;
        let own = "tracefs /sys/kernel/tracing tracefs rw 0 0\ndebugfs /d debugfs rw 0 0\n";
        assert_eq!(at(own).as_deref(), Some("/sys/kernel/tracing"));
        let debug = "debugfs /sys/kernel/debug debugfs rw 0 0\n";
        assert_eq!(at(debug).as_deref(), Some("/sys/kernel/debug/tracing"));
        assert_eq!(at("proc /proc proc rw 0 0\n"), None);
    }
}
