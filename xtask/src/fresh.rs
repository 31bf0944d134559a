//! Does the newcomer's path work, and within its time? A clone in a new folder, twice.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::unusable;

const FIRST_MAX: Duration = Duration::from_secs(600);
const SECOND_MAX: Duration = Duration::from_secs(240);

/// `cargo xtask fresh-check [--cold] [--keep] [--script PATH]`; true when both runs ended well and
/// in time. `--cold` also hides what was fetched before, crates excepted.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    let mut cold = false;
    let mut keep = false;
    let mut script = "scripts/demo".to_owned();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match (argument.as_str(), rest.as_slice().first()) {
            ("--cold", _) => cold = true,
            ("--keep", _) => keep = true,
            ("--script", Some(path)) => {
                script.clone_from(path);
                rest.next();
            }
            _ => return Err(unusable(format!("fresh-check does not take {argument:?}"))),
        }
    }
    let folder = std::env::temp_dir().join(format!("waggle-fresh-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    let outcome = check(root, &folder, &script, cold);
    if keep {
        println!("fresh-check: kept {}", folder.display());
    } else {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("removing {}", folder.display()))?;
    }
    outcome
}

fn check(root: &Path, folder: &Path, script: &str, cold: bool) -> Result<bool> {
    let dirty = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(root)
        .output()
        .context("running git status")?;
    if !dirty.stdout.is_empty() {
        eprintln!("fresh-check: the tree has changes; the clone is of the last commit");
    }
    let clone = folder.join("waggle");
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "--no-local"])
        .args([root, clone.as_path()])
        .status()
        .context("running git clone")?;
    if !cloned.success() {
        bail!("the clone failed");
    }
    let cache = cold.then(|| folder.join("cache"));
    let mut good = true;
    for (which, limit) in [("first", FIRST_MAX), ("second", SECOND_MAX)] {
        let (ok, took) = run(&clone, script, cache.as_ref())?;
        let (seconds, allowed) = (took.as_secs(), limit.as_secs());
        let verdict = if ok { "ended well" } else { "FAILED" };
        println!("fresh-check: {which} run {verdict} in {seconds} s (at most {allowed} s)");
        good &= ok && took <= limit;
    }
    Ok(good)
}

fn run(clone: &Path, script: &str, cache: Option<&PathBuf>) -> Result<(bool, Duration)> {
    let mut command = Command::new(clone.join(script));
    // The build of a newcomer has a target folder of its own.
    command
        .current_dir(clone)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("WAGGLE_DSN");
    if let Some(cache) = cache {
        command.env("XDG_CACHE_HOME", cache);
    }
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("running {script}"))?;
    Ok((status.success(), started.elapsed()))
}
