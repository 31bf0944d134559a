//! What scripts/test runs: every check this tree has, and one line that sums them up.
//!
//! Neighbours: `tally` reads what the runners print. Invariant: a check that fails does not keep
//! the next from running, except that nothing is tested that does not build.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::tally::{CargoTest, Skip, Tally, page_tests};
use crate::unusable;

/// `cargo xtask test [--skipped REASON]... [FILTER]`; true when nothing failed.
pub(crate) fn command(root: &Path, arguments: &[String]) -> Result<bool> {
    let mut gate = Gate {
        root,
        tally: Tally::default(),
        started: Instant::now(),
    };
    let mut filter = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match (argument.as_str(), rest.as_slice().first()) {
            ("--skipped", Some(reason)) => {
                gate.tally.skips.push(Skip {
                    test: None,
                    reason: (*reason).clone(),
                });
                rest.next();
            }
            (name, _) if filter.is_none() && !name.starts_with('-') => filter = Some(name),
            _ => return Err(unusable(format!("test does not take {argument:?}"))),
        }
    }
    match filter {
        Some(name) => gate.rust_tests(Some(name))?,
        None => gate.everything()?,
    }
    gate.tally
        .require(&std::env::var("WAGGLE_REQUIRE").unwrap_or_default());
    gate.close();
    Ok(gate.tally.failures.is_empty())
}

/// A directory for what the tests put aside, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let parent = ["/tmp", "/var/tmp"].map(Path::new);
        let parent = parent.into_iter().find(|dir| dir.is_dir());
        let parent = parent.context("neither /var/tmp nor /tmp is there")?;
        let dir = parent.join(format!("waggle-tests.{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Gate<'a> {
    root: &'a Path,
    tally: Tally,
    started: Instant,
}

impl Gate<'_> {
    fn everything(&mut self) -> Result<()> {
        let page = self.root.join("web/package.json").exists();
        // First, because the build may bundle the page.
        if page {
            self.step(
                "packages of the page",
                npm(&["ci", "--no-audit", "--no-fund"]),
            )?;
        }
        self.step("format", cargo(&["fmt", "--all", "--check"]))?;
        let clippy = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        self.step("clippy", cargo(&clippy))?;
        if self.step("build", cargo(&["test", "--workspace", "--no-run"]))? {
            self.rust_tests(None)?;
            self.step("command pages", xtask(&["docs", "--check"])?)?;
        }
        let install = npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        if page && self.step("packages of the page", install)? {
            self.step("types of the page", npm(&["run", "--if-present", "check"]))?;
            self.page_tests()?;
        }
        let mut docs = cargo(&[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ]);
        docs.env("RUSTDOCFLAGS", "-D warnings");
        self.step("docs", docs)?;
        Ok(())
    }

    /// A check whose exit code is its answer.
    fn step(&mut self, name: &str, mut command: Command) -> Result<bool> {
        self.begin(name);
        let begun = Instant::now();
        let status = command
            .current_dir(self.folder(&command))
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("running {}", command.get_program().to_string_lossy()))?;
        if status.success() {
            self.tally.passed += 1;
        } else {
            self.tally.failures.push(name.to_owned());
        }
        self.end(name, status.success(), begun);
        Ok(status.success())
    }

    /// Every Rust test, or those whose name contains `filter`.
    fn rust_tests(&mut self, filter: Option<&str>) -> Result<()> {
        self.begin("tests");
        let begun = Instant::now();
        let failures_before = self.tally.failures.len();
        // What killed servers leave, their logs above all, goes with it.
        let scratch = Scratch::new()?;
        let mut child = cargo(&["test", "--workspace", "--no-fail-fast"])
            .env("TMPDIR", &scratch.0)
            .args(filter)
            .args(["--", "--show-output"])
            .current_dir(self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("running cargo test")?;
        let stdout = child.stdout.take().context("cargo test has no output")?;
        let mut reader = CargoTest::default();
        let mut terminal = std::io::stdout();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("reading what cargo test prints")?;
            let line = String::from_utf8_lossy(&line);
            if reader.line(&line, &mut self.tally) {
                // Whoever reads this may have gone; the tests go on.
                let _ = writeln!(terminal, "{line}");
            }
        }
        reader.end(&mut self.tally);
        let status = child.wait().context("waiting for cargo test")?;
        if !status.success() && self.tally.failures.len() == failures_before {
            self.tally
                .failures
                .push("cargo test (it did not build, or a binary died)".to_owned());
        }
        self.end("tests", status.success(), begun);
        Ok(())
    }

    fn page_tests(&mut self) -> Result<()> {
        self.begin("tests of the page");
        let begun = Instant::now();
        let mut command = npm(&["test"]);
        let output = command
            .current_dir(self.root.join("web"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("running npm test")?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let failures_before = self.tally.failures.len();
        let counted = page_tests(&text, &mut self.tally);
        let ok = output.status.success();
        match (ok, counted) {
            (true, false) => self.tally.passed += 1,
            (false, _) if self.tally.failures.len() == failures_before => {
                self.tally.failures.push("npm test".to_owned());
            }
            _ => {}
        }
        self.end("tests of the page", ok, begun);
        Ok(())
    }

    fn folder(&self, command: &Command) -> std::path::PathBuf {
        let is_page = command.get_program() == "npm";
        if is_page {
            self.root.join("web")
        } else {
            self.root.to_path_buf()
        }
    }

    fn begin(&self, name: &str) {
        println!("== {name}");
    }

    fn end(&self, name: &str, ok: bool, begun: Instant) {
        let outcome = if ok { "ok" } else { "FAILED" };
        println!("== {name}: {outcome} in {} s", begun.elapsed().as_secs());
    }

    /// Everything a reader of the last screen needs, the counts last.
    fn close(&self) {
        let mut skips: Vec<(&str, usize)> = Vec::new();
        for Skip { reason, .. } in &self.tally.skips {
            match skips.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => skips.push((reason, 1)),
            }
        }
        println!();
        for (reason, count) in skips {
            println!("skipped {count} x {reason}");
        }
        for failure in &self.tally.failures {
            println!("failed: {failure}");
        }
        println!("{} s in all", self.started.elapsed().as_secs());
        println!("{}", self.tally.line());
    }
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments);
    command
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments);
    command
}

/// This program again, with another chore.
fn xtask(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding xtask itself")?);
    command.args(arguments);
    Ok(command)
}
