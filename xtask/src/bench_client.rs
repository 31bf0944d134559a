//! Builds what `bench-client` compares, and runs it: waggle against sysbench, paired.
//!
//! The measuring is a program of its own (bench/client), so that no chore has to compile it.
//! Invariant: release builds of this tree are what is measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// `cargo xtask bench-client [FLAGS of the program]`; true when every client ran and counted right.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    build(root, &["waggle", "waggle-bench-client"])?;
    let folder = release_folder(root);
    let mut run = Command::new(folder.join("bench-client"));
    run.arg("--waggle").arg(folder.join("waggle"));
    // Filed unless the caller names another place.
    if !arguments
        .iter()
        .any(|argument| argument.starts_with("--results"))
    {
        run.arg("--results").arg(root.join("bench/results"));
    }
    let status = run
        .args(arguments)
        .current_dir(root)
        .status()
        .context("running bench-client")?;
    Ok(status.success())
}

/// Builds `packages` for release.
pub(crate) fn build(root: &Path, packages: &[&str]) -> Result<()> {
    let built = Command::new("cargo")
        .args(["build", "--release"])
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .current_dir(root)
        .status()
        .context("running cargo build")?;
    if !built.success() {
        bail!("the build failed");
    }
    Ok(())
}

/// Where cargo puts release builds.
pub(crate) fn release_folder(root: &Path) -> std::path::PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target
        .map_or_else(|| root.join("target"), |folder| root.join(folder))
        .join("release")
}
