//! Builds what `calibrate` and `bench-watch` measure, and runs them: is the lab right, and what
//! does the agent cost.
//!
//! The measuring is programs of their own (bench/lab), so that no chore has to compile them.
//! Invariant: release builds of this tree are what is measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::bench_client::{build, release_folder};

/// `cargo xtask calibrate` and `cargo xtask bench-watch`, with the flags of the program of that
/// name; true when everything that was promised and could be judged holds.
pub(crate) fn command(root: &Path, program: &str, arguments: &[String]) -> Result<bool> {
    build(root, &["waggle", "waggle-bench-lab"])?;
    let folder = release_folder(root);
    let mut run = Command::new(folder.join(program));
    run.arg("--waggle").arg(folder.join("waggle"));
    // What the caller names comes in place of these.
    let named = |flag: &str| arguments.iter().any(|given| given.starts_with(flag));
    if !named("--results") {
        run.arg("--results").arg(root.join("bench/results"));
    }
    if !named("--state") {
        run.arg("--state").arg(folder.with_file_name(program));
    }
    let status = run
        .args(arguments)
        .current_dir(root)
        .status()
        .with_context(|| format!("running {program}"))?;
    Ok(status.success())
}
