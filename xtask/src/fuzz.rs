//! `cargo xtask fuzz --minutes N [--target NAME]`: every fuzz target for so long, two at a time.
//!
//! Needs a nightly compiler and cargo-fuzz. Invariants: a target that takes more than 256 MiB, or
//! more than ten seconds for one input, has a finding; what is found stays in the crate's
//! `fuzz/artifacts`; the corpus of the tree is read and not added to.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use crate::unusable;

const RSS_MIB_MAX: u32 = 256;
const INPUT_SECONDS_MAX: u32 = 10;
const AT_ONCE: usize = 2;

/// One program of a crate's `fuzz` folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    /// Relative to the root, such as `crates/waggle-wire/fuzz`.
    folder: PathBuf,
    name: String,
}

impl Target {
    /// `wire/session`.
    fn shown(&self) -> String {
        let of_crate = self.folder.parent().and_then(Path::file_name);
        let of_crate = of_crate.unwrap_or_default().to_string_lossy();
        format!("{}/{}", of_crate.trim_start_matches("waggle-"), self.name)
    }
}

/// True when no target found anything.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    let (minutes, wanted) = plan(arguments)?;
    let mut targets = targets(root)?;
    if let Some(wanted) = wanted {
        targets.retain(|target| target.name == wanted || target.shown() == wanted);
        if targets.is_empty() {
            return Err(unusable(format!("no fuzz target is called {wanted:?}")));
        }
    }
    for target in &targets {
        build(root, target)?;
    }
    let waiting = Mutex::new(targets.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no panic holds it").next();
                    let Some(target) = next else { break };
                    println!("fuzz: {} for {minutes} min", target.shown());
                    if let Err(error) = run(root, target, minutes) {
                        println!("fuzz: {}: {error:#}", target.shown());
                        failed
                            .lock()
                            .expect("no panic holds it")
                            .push(target.shown());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic holds it");
    println!(
        "fuzz: {} targets, {} with findings {failed:?}",
        targets.len(),
        failed.len()
    );
    Ok(failed.is_empty())
}

fn plan(arguments: &[String]) -> Result<(u32, Option<String>)> {
    let (mut minutes, mut target) = (None, None);
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        match (flag.as_str(), rest.next()) {
            ("--minutes", Some(number)) => minutes = number.parse().ok().filter(|n| *n > 0),
            ("--target", Some(name)) => target = Some(name.clone()),
            _ => return Err(unusable(format!("fuzz does not take {flag:?} so"))),
        }
    }
    match minutes {
        Some(minutes) => Ok((minutes, target)),
        None => Err(unusable("fuzz: say --minutes N".to_owned())),
    }
}

/// Every file in a crate's `fuzz/fuzz_targets`.
fn targets(root: &Path) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).context("listing the crates")? {
        let folder = Path::new("crates").join(entry?.file_name()).join("fuzz");
        let Ok(files) = std::fs::read_dir(root.join(&folder).join("fuzz_targets")) else {
            continue;
        };
        for file in files {
            let path = file?.path();
            if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
                targets.push(Target {
                    folder: folder.clone(),
                    name: name.to_owned(),
                });
            }
        }
    }
    targets.sort();
    Ok(targets)
}

fn cargo_fuzz(root: &Path, target: &Target, verb: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["+nightly", "fuzz", verb, "--fuzz-dir", "."])
        .arg("--target-dir")
        .arg(root.join("target/fuzz"))
        .arg(&target.name)
        .current_dir(root.join(&target.folder));
    command
}

fn build(root: &Path, target: &Target) -> Result<()> {
    let status = cargo_fuzz(root, target, "build")
        .status()
        .context("running cargo fuzz; `cargo install cargo-fuzz`, with a nightly compiler")?;
    if !status.success() {
        bail!("{} cannot be built", target.shown());
    }
    Ok(())
}

fn run(root: &Path, target: &Target, minutes: u32) -> Result<()> {
    // What is new goes to the first folder: one beside the build, kept from run to run.
    let grown = root.join("target/fuzz/corpus").join(target.shown());
    std::fs::create_dir_all(&grown).with_context(|| format!("making {}", grown.display()))?;
    let seeds = root.join(&target.folder).join("corpus").join(&target.name);
    let log = grown.with_extension("log");
    let output =
        std::fs::File::create(&log).with_context(|| format!("writing {}", log.display()))?;
    let mut command = cargo_fuzz(root, target, "run");
    command.arg(&grown);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    let status = command
        .arg("--")
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-rss_limit_mb={RSS_MIB_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .status()
        .context("running cargo fuzz")?;
    if !status.success() {
        bail!(
            "a finding, or it could not run; {} says which",
            log.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_refused() {
        let plan =
            |words: &[&str]| plan(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        for words in [
            &[][..],
            &["--minutes"],
            &["--minutes", "0"],
            &["--hours", "1"],
        ] {
            assert!(plan(words).is_err(), "{words:?}");
        }
        let found = plan(&["--target", "wire/session", "--minutes", "3"]).expect("a plan");
        assert_eq!(found, (3, Some("wire/session".to_owned())));
    }

    #[test]
    fn every_target_is_in_its_manifest() {
        let root = crate::workspace_root();
        let found = targets(&root).expect("the targets");
        assert!(found.len() >= 8, "{found:?}");
        for target in &found {
            let manifest = std::fs::read_to_string(root.join(&target.folder).join("Cargo.toml"));
            let line = format!("name = \"{}\"", target.name);
            assert!(
                manifest.expect("a manifest").contains(&line),
                "{}",
                target.shown()
            );
        }
    }
}
