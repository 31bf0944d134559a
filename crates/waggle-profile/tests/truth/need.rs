//! What a test needs that a machine may lack: skipped aloud, or failed when it is required.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// True if `available`; else says that the test is skipped, or fails it if `WAGGLE_REQUIRE` names
/// the need.
pub(crate) fn need(name: &str, available: bool, why: &str) -> bool {
    if available {
        return true;
    }
    let required = std::env::var("WAGGLE_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|need| need.trim() == name),
        "{name} is required: {why}"
    );
    // Past the capture of the test harness: a skip must be seen.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
    false
}

/// True if probes can be attached here.
pub(crate) fn can_probe() -> bool {
    // SAFETY: takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    need("root", is_root, "probes need root") && need("bpf", btf, "the kernel has no BTF")
}

/// True if there is a C compiler.
pub(crate) fn can_compile() -> bool {
    let cc = Command::new("cc").arg("--version").output();
    let works = cc.is_ok_and(|cc| cc.status.success());
    need("cc", works, "no C compiler")
}
