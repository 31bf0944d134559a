//! Which maps and helper functions does the kernel offer to probes? libbpf's own looks answer.

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapType, ProgramType};

use super::{Fact, Facts, Rights};

/// Maps that probes use: name, type, since which kernel, needed to watch.
const MAPS: [(&str, MapType, &str, bool); 7] = [
    ("ringbuf", MapType::RingBuf, "5.8", true),
    ("percpu_array", MapType::PercpuArray, "4.6", true),
    ("hash", MapType::Hash, "3.19", false),
    ("percpu_hash", MapType::PercpuHash, "4.6", false),
    ("lru_hash", MapType::LruHash, "4.10", false),
    ("stack_trace", MapType::StackTrace, "4.6", false),
    ("task_storage", MapType::TaskStorage, "5.11", false),
];

/// Tries every map type.
pub(super) fn map_types(rights: &Rights) -> Facts {
    let answer = |&(name, map_type, since, needed): &(&'static str, MapType, &str, bool)| {
        let fact = match rights.can_load.then(|| map_type.is_supported()) {
            None => rights.not_tried(name),
            Some(supported) => judged(name, supported, since),
        };
        Fact { needed, ..fact }
    };
    Facts(MAPS.iter().map(answer).collect())
}

/// Helper functions of uprobe programs: name, number, since which kernel, needed to watch.
const HELPERS: [(&str, sys::bpf_func_id, &str, bool); 20] = [
    (
        "map_lookup_elem",
        sys::BPF_FUNC_map_lookup_elem,
        "3.19",
        true,
    ),
    ("ktime_get_ns", sys::BPF_FUNC_ktime_get_ns, "4.1", true),
    (
        "get_current_pid_tgid",
        sys::BPF_FUNC_get_current_pid_tgid,
        "4.2",
        true,
    ),
    (
        "probe_read_user",
        sys::BPF_FUNC_probe_read_user,
        "5.5",
        true,
    ),
    (
        "probe_read_user_str",
        sys::BPF_FUNC_probe_read_user_str,
        "5.5",
        true,
    ),
    (
        "ringbuf_reserve",
        sys::BPF_FUNC_ringbuf_reserve,
        "5.8",
        true,
    ),
    ("ringbuf_submit", sys::BPF_FUNC_ringbuf_submit, "5.8", true),
    ("ringbuf_output", sys::BPF_FUNC_ringbuf_output, "5.8", false),
    ("ringbuf_query", sys::BPF_FUNC_ringbuf_query, "5.8", false),
    (
        "get_attach_cookie",
        sys::BPF_FUNC_get_attach_cookie,
        "5.15",
        false,
    ),
    ("get_func_ip", sys::BPF_FUNC_get_func_ip, "5.15", false),
    ("get_stack", sys::BPF_FUNC_get_stack, "4.18", false),
    ("get_stackid", sys::BPF_FUNC_get_stackid, "4.6", false),
    (
        "get_current_cgroup_id",
        sys::BPF_FUNC_get_current_cgroup_id,
        "4.18",
        false,
    ),
    (
        "get_ns_current_pid_tgid",
        sys::BPF_FUNC_get_ns_current_pid_tgid,
        "5.7",
        false,
    ),
    (
        "get_current_task_btf",
        sys::BPF_FUNC_get_current_task_btf,
        "5.11",
        false,
    ),
    (
        "task_storage_get",
        sys::BPF_FUNC_task_storage_get,
        "5.11",
        false,
    ),
    (
        "perf_event_read_value",
        sys::BPF_FUNC_perf_event_read_value,
        "4.15",
        false,
    ),
    (
        "probe_read_kernel",
        sys::BPF_FUNC_probe_read_kernel,
        "5.5",
        false,
    ),
    (
        "copy_from_user",
        sys::BPF_FUNC_copy_from_user,
        "5.10",
        false,
    ),
];

/// Tries every helper function in a uprobe program.
pub(super) fn functions(rights: &Rights) -> Facts {
    let answer = |&(name, id, since, needed): &(&'static str, u32, &str, bool)| {
        // Without rights libbpf takes every refusal for a yes.
        let fact = match rights
            .can_load
            .then(|| ProgramType::Kprobe.is_helper_supported(id))
        {
            None => rights.not_tried(name),
            Some(supported) => judged(name, supported, since),
        };
        Fact { needed, ..fact }
    };
    Facts(HELPERS.iter().map(answer).collect())
}

/// True if a uprobe program may call the helper that writes to other programs' memory. Only asked
/// where lockdown cannot be read: kernels before 6.13 note each such load in their log.
pub(super) fn may_write_user() -> Option<bool> {
    ProgramType::Kprobe
        .is_helper_supported(sys::BPF_FUNC_probe_write_user)
        .ok()
}

fn judged(name: &'static str, supported: libbpf_rs::Result<bool>, since: &str) -> Fact {
    match supported {
        Ok(true) => Fact::yes(name, ""),
        Ok(false) => {
            let (major, minor) = crate::kernel::version();
            let too_old = since
                .split_once('.')
                .and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)))
                .is_some_and(|first| (major, minor) < first);
            if too_old {
                let reason = format!("came with {since}, this is {major}.{minor}");
                Fact::no(name, reason, format!("use Linux {since} or newer"))
            } else {
                let reason = format!("refused, although kernels since {since} have it");
                Fact::no(
                    name,
                    reason,
                    "see lockdown above; else the kernel is configured without",
                )
            }
        }
        Err(error) => Fact::unknown(name, error.to_string(), ""),
    }
}
