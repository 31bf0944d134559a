//! The programs of `tests/targets`, which know their own truth, and what they need.

use std::path::{Path, PathBuf};
use std::process::Command;

use waggle_need::{can_compile, can_probe};

/// True if such a program can be compiled and traced here; else the skip is said.
pub(super) fn can_run() -> bool {
    can_compile() && can_probe()
}

/// Compiles `tests/targets/NAME.c` into `folder`; `flags` such as `-fomit-frame-pointer`.
pub(super) fn compiled(name: &str, folder: &Path, flags: &[&str]) -> PathBuf {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/targets");
    let program = folder.join(name);
    let built = Command::new("cc")
        .args(["-O2", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(targets.join(format!("{name}.c")))
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    program
}
