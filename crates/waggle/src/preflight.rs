//! Can this process trace at all? Asked before anything is opened, answered with a remedy.

use anyhow::anyhow;
use waggle_probes::kernel;

use crate::cli::Failure;

/// CAP_PERFMON and CAP_BPF, and CAP_SYS_ADMIN which includes both.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;

/// Checks rights and the kernel's type information.
///
/// # Errors
/// Exit code 2, with what to do about it.
pub(crate) fn can_trace() -> Result<(), Failure> {
    if !has_rights() {
        return Err(Failure::unusable(anyhow!(
            "watching statements needs the rights to load and attach eBPF programs; \
             run as root, or with CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
        )));
    }
    let btf = kernel::btf_path();
    if !btf.exists() {
        return Err(Failure::unusable(anyhow!(
            "this kernel has no BTF at {}, which waggle's probes are checked against; \
             use a kernel built with CONFIG_DEBUG_INFO_BTF=y (Debian's and most distributions' \
             kernels since 2020 are)",
            btf.display()
        )));
    }
    Ok(())
}

fn has_rights() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    effective & CAP_SYS_ADMIN != 0 || effective & CAP_PERFMON_AND_BPF == CAP_PERFMON_AND_BPF
}
