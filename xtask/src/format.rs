//! Formats both halves: Rust by rustfmt, the eBPF C by clang-format where that is installed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::source;
use crate::unusable;

/// `cargo xtask fmt [--check]`; true when everything is (now) formatted.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err(unusable(format!("fmt does not take {arguments:?}"))),
    };
    let mut rust = Command::new("cargo");
    rust.args(["fmt", "--all"]).current_dir(root);
    if check {
        rust.arg("--check");
    }
    let rust = rust.status().context("running cargo fmt")?.success();
    Ok(c_half(root, check)? && rust)
}

fn c_half(root: &Path, check: bool) -> Result<bool> {
    let files: Vec<String> = source::tree(root)?
        .into_iter()
        .filter(|source| source.path.starts_with("crates/waggle-probes/src/"))
        .filter(|source| source.path.ends_with(".c") || source.path.ends_with(".h"))
        .filter(|source| !source.is_generated())
        .map(|source| source.path)
        .collect();
    if files.is_empty() {
        return Ok(true);
    }
    if Command::new("clang-format")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!(
            "fmt: clang-format is not installed; {} C files were let be",
            files.len()
        );
        return Ok(true);
    }
    let mode: &[&str] = if check {
        &["--dry-run", "--Werror"]
    } else {
        &["-i"]
    };
    let status = Command::new("clang-format")
        .args(mode)
        .args(&files)
        .current_dir(root)
        .status()
        .context("running clang-format")?;
    Ok(status.success())
}
