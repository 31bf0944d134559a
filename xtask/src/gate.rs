//! What scripts/test runs: every check this tree has, and one line that sums them up.
//!
//! Neighbours: `programs` runs the test programs, `tally` reads what the runners print.
//! Invariant: a check that fails does not keep the next from running, except that nothing is tested
//! that does not build.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::programs::{Part, Program, run};
use crate::tally::{Skip, Tally};
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
        Some(name) => gate.filtered_tests(name)?,
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
    /// The page's own tests are run by a test of `waggle-report`.
    fn everything(&mut self) -> Result<()> {
        self.step("format", cargo(&["fmt", "--all", "--check"]))?;
        match self.build()? {
            Some(programs) => {
                self.tests(programs)?;
                self.step("command pages", xtask(&["docs", "--check"])?)?;
            }
            None => {
                for (name, command) in checks() {
                    self.step(name, command)?;
                }
            }
        }
        Ok(())
    }

    /// Builds every test program; `None` if one does not build.
    fn build(&mut self) -> Result<Option<Vec<Program>>> {
        self.begin("build");
        let begun = Instant::now();
        let mut command = cargo(&["test", "--workspace", "--no-run"]);
        command.arg("--message-format=json-render-diagnostics");
        let output = command
            .current_dir(self.root)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("running cargo test --no-run")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut programs: Vec<Program> = text.lines().filter_map(Program::told_by).collect();
        // cargo tells of them in the order they were built in.
        programs.sort();
        let ok = output.status.success() && !programs.is_empty();
        self.note("build", ok);
        self.end("build", ok, begun);
        Ok(ok.then_some(programs))
    }

    /// Every Rust test. The checks that need a processor and nothing else run beside tests that do
    /// not mind, at the lowest priority.
    fn tests(&mut self, programs: Vec<Program>) -> Result<()> {
        self.begin("tests");
        let begun = Instant::now();
        let failures_before = self.tally.failures.len();
        // What killed servers leave, their logs above all, goes with it.
        let scratch = Scratch::new()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (quiet, others): (Vec<Program>, Vec<Program>) =
            programs.into_iter().partition(Program::is_quiet);
        let beside = Beside::start(self.root);
        self.together(others, &scratch.0)?;
        for check in beside.end()? {
            self.say(&check.words);
            self.note(check.name, check.ok);
        }
        for program in quiet {
            self.parts(&program.parts(processors), &scratch.0)?;
        }
        self.cargo_test(&["--doc"], None, &scratch.0)?;
        let ok = self.tally.failures.len() == failures_before;
        self.end("tests", ok, begun);
        Ok(())
    }

    /// Runs programs, two at a time: most of what their tests do is wait for servers. Each is shown
    /// when it has ended.
    fn together(&mut self, programs: Vec<Program>, scratch: &Path) -> Result<()> {
        let parts = programs.into_iter().flat_map(|program| program.parts(1));
        let queue = Mutex::new(parts.collect::<VecDeque<Part>>());
        let (sender, ended) = channel();
        std::thread::scope(|scope| -> Result<()> {
            for _ in 0..2 {
                let (queue, sender) = (&queue, sender.clone());
                scope.spawn(move || {
                    loop {
                        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                        let Some(part) = queue.pop_front() else {
                            return;
                        };
                        drop(queue);
                        // Who listens has gone only if something else has failed.
                        let _ = sender.send(run_unseen(&part, scratch));
                    }
                });
            }
            drop(sender);
            for (words, tally) in ended {
                self.say(&words);
                self.tally.add(tally?);
            }
            Ok(())
        })
    }

    /// Runs parts of a program at the same time. The first is shown as it goes, the others when
    /// they have ended.
    fn parts(&mut self, parts: &[Part], scratch: &Path) -> Result<()> {
        let Some((first, others)) = parts.split_first() else {
            return Ok(());
        };
        let (first, others) = std::thread::scope(|scope| {
            let others: Vec<_> = others
                .iter()
                .map(|part| scope.spawn(move || run_unseen(part, scratch)))
                .collect();
            let first = first.run(scratch, &mut say_line);
            let others: Vec<_> = others.into_iter().map(|other| other.join()).collect();
            (first, others)
        });
        self.tally.add(first?);
        for other in others {
            let (words, tally) = other.map_err(|_| anyhow!("who reads a test program panicked"))?;
            self.say(&words);
            self.tally.add(tally?);
        }
        Ok(())
    }

    /// A check whose exit code is its answer.
    fn step(&mut self, name: &str, mut command: Command) -> Result<bool> {
        self.begin(name);
        let begun = Instant::now();
        let status = command
            .current_dir(self.root)
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("running {}", command.get_program().to_string_lossy()))?;
        self.note(name, status.success());
        self.end(name, status.success(), begun);
        Ok(status.success())
    }

    /// Counts a check.
    fn note(&mut self, name: &str, ok: bool) {
        if ok {
            self.tally.passed += 1;
        } else {
            self.tally.failures.push(name.to_owned());
        }
    }

    /// The Rust tests whose name contains `filter`.
    fn filtered_tests(&mut self, filter: &str) -> Result<()> {
        self.begin("tests");
        let begun = Instant::now();
        let failures_before = self.tally.failures.len();
        let scratch = Scratch::new()?;
        self.cargo_test(&[], Some(filter), &scratch.0)?;
        let ok = self.tally.failures.len() == failures_before;
        self.end("tests", ok, begun);
        Ok(())
    }

    /// Runs tests the way cargo does.
    fn cargo_test(&mut self, more: &[&str], filter: Option<&str>, scratch: &Path) -> Result<()> {
        let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
        command
            .args(more)
            .args(filter)
            .args(["--", "--show-output"])
            .env("TMPDIR", scratch)
            .current_dir(self.root);
        let (mut tally, status) = run(&mut command, &mut say_line).context("running cargo test")?;
        if !status.success() && tally.failures.is_empty() {
            let why = "cargo test (it did not build, or a binary died)";
            tally.failures.push(why.to_owned());
        }
        self.tally.add(tally);
        Ok(())
    }

    fn begin(&self, name: &str) {
        println!("== {name}");
    }

    fn end(&self, name: &str, ok: bool, begun: Instant) {
        println!("{}", outcome(name, ok, begun));
    }

    fn say(&self, words: &str) {
        words.lines().for_each(say_line);
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

fn outcome(name: &str, ok: bool, begun: Instant) -> String {
    let outcome = if ok { "ok" } else { "FAILED" };
    format!("== {name}: {outcome} in {} s", begun.elapsed().as_secs())
}

/// Prints a line. Whoever reads this may have gone; the tests go on.
fn say_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a part and keeps what a person wants to see.
fn run_unseen(part: &Part, scratch: &Path) -> (String, Result<Tally>) {
    let mut words = String::new();
    let tally = part.run(scratch, &mut |line: &str| {
        words.push_str(line);
        words.push('\n');
    });
    (words, tally)
}

/// What is checked of the Rust code beside its tests.
fn checks() -> [(&'static str, Command); 2] {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let mut docs = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    [("clippy", cargo(&clippy)), ("docs", docs)]
}

/// A check that ran in the background.
struct Checked {
    name: &'static str,
    ok: bool,
    words: String,
}

/// The checks of the Rust code, one after the other, beside something else.
struct Beside(JoinHandle<Result<Vec<Checked>>>);

impl Beside {
    fn start(root: &Path) -> Self {
        let root = root.to_owned();
        Self(std::thread::spawn(move || {
            checks()
                .into_iter()
                .map(|(name, command)| check(name, &command, &root))
                .collect()
        }))
    }

    fn end(self) -> Result<Vec<Checked>> {
        let ended = self.0.join();
        ended.map_err(|_| anyhow!("who runs the checks panicked"))?
    }
}

/// Runs a check at the lowest priority, and keeps what it says.
fn check(name: &'static str, command: &Command, root: &Path) -> Result<Checked> {
    let begun = Instant::now();
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"])
        .arg(command.get_program())
        .args(command.get_args());
    for (variable, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(variable, value),
            None => nice.env_remove(variable),
        };
    }
    let output: Output = nice
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {name}"))?;
    let ok = output.status.success();
    let mut words = format!("== {name}\n");
    for text in [&output.stdout, &output.stderr] {
        words.push_str(&String::from_utf8_lossy(text));
    }
    words.push_str(&outcome(name, ok, begun));
    Ok(Checked { name, ok, words })
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments);
    command
}

/// This program again, with another chore.
fn xtask(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding xtask itself")?);
    command.args(arguments);
    Ok(command)
}
