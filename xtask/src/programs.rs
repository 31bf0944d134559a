//! The test programs of a build, and how they are run.
//!
//! cargo runs one program after the other, and a program's tests as many at a time as there are
//! processors, whichever wait for each other's turn. Here the one program whose tests do so is run
//! as two that keep each other company. Neighbours: `gate` decides when, `tally` reads what they
//! print.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::tally::{CargoTest, Skip, Tally};

/// Packages whose tests hold times against each other, or against what a load can carry: nothing
/// that could as well run at another time runs beside them.
const QUIET: [&str; 6] = [
    "waggle",
    "waggle-agent",
    "waggle-load",
    "waggle-probes",
    "waggle-profile",
    "waggle-trace",
];

/// Tests of the program `it` of `waggle` that take turns, by a part of their names. The others run
/// beside them, so that waiting for a turn keeps no processor idle.
const IN_TURN: [&str; 5] = ["lab::", "study::", "trace::", "tune::", "watch::"];

/// A program full of tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    /// The package's folder, where its tests expect to be run.
    folder: PathBuf,
    /// The target's name.
    name: String,
    path: PathBuf,
}

impl Program {
    /// The program that a line of `cargo test --no-run --message-format=json` tells of, if it tells
    /// of one that has tests.
    pub(crate) fn told_by(line: &str) -> Option<Self> {
        let (_, profile) = line.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains("\"test\":true") {
            return None;
        }
        let (_, target) = line.split_once("\"target\":{")?;
        let manifest = PathBuf::from(field(line, "manifest_path")?);
        Some(Self {
            folder: manifest.parent()?.to_owned(),
            name: field(target, "name")?.to_owned(),
            path: field(line, "executable")?.into(),
        })
    }

    fn package(&self) -> &str {
        let name = self.folder.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }

    /// True if its tests want the machine for themselves.
    pub(crate) fn is_quiet(&self) -> bool {
        QUIET.contains(&self.package())
    }

    /// How it is run on so many processors: as a whole, or as two parts side by side.
    pub(crate) fn parts(self, processors: usize) -> Vec<Part> {
        if self.package() != "waggle" || self.name != "it" || processors < 2 {
            return vec![Part::new(self, Vec::new())];
        }
        let of_turns = (processors / 2).max(1);
        let threads = |count: usize| format!("--test-threads={count}");
        let mut in_turn = vec![threads(of_turns)];
        in_turn.extend(IN_TURN.map(str::to_owned));
        let mut beside = vec![threads(processors - of_turns)];
        for part in IN_TURN {
            beside.extend(["--skip".to_owned(), part.to_owned()]);
        }
        vec![Part::new(self.clone(), in_turn), Part::new(self, beside)]
    }
}

/// The text of a JSON field, the first of this name. One with an escape is none: no path has any
/// that cargo can use.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    let (text, _) = rest.split_once('"')?;
    (!text.contains('\\')).then_some(text)
}

/// Some tests of a program, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    program: Program,
    arguments: Vec<String>,
}

impl Part {
    fn new(program: Program, arguments: Vec<String>) -> Self {
        Self { program, arguments }
    }

    /// Runs it with `scratch` for what it puts aside; `show` gets what a person wants to see.
    ///
    /// # Errors
    /// It cannot be started or read; that tests failed is in the tally.
    pub(crate) fn run(&self, scratch: &Path, show: &mut dyn FnMut(&str)) -> Result<Tally> {
        let program = &self.program;
        let words = self.arguments.join(" ");
        let what = format!("{} {} {words}", program.package(), program.name);
        let what = what.trim_end();
        show(&format!("-- {what}"));
        let begun = Instant::now();
        let mut command = Command::new(&program.path);
        command
            .arg("--show-output")
            .args(&self.arguments)
            .current_dir(&program.folder)
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("TMPDIR", scratch);
        let (mut tally, status) =
            run(&mut command, show).with_context(|| format!("running {what}"))?;
        if !status.success() && tally.failures.is_empty() {
            tally.failures.push(format!("{what} ({status})"));
        }
        show(&format!("-- {what}: {} s", begun.elapsed().as_secs()));
        Ok(tally)
    }
}

/// Runs a command that prints as libtest does; `show` gets what a person wants to see of it.
///
/// # Errors
/// It cannot be started or read; that tests failed is in the tally.
pub(crate) fn run(
    command: &mut Command,
    show: &mut dyn FnMut(&str),
) -> Result<(Tally, ExitStatus)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().context("it has no output")?;
    let stderr = child.stderr.take().context("it has no error output")?;
    let (tally, skips) = std::thread::scope(|scope| {
        let skips = scope.spawn(|| said_aside(stderr, &mut say_aside));
        (read(stdout, show), skips.join())
    });
    let mut tally = tally.context("reading what it prints")?;
    let skips = skips.map_err(|_| anyhow!("a panic while reading its errors"))?;
    tally.skips.extend(skips.context("reading its errors")?);
    Ok((tally, child.wait()?))
}

/// On standard error, whoever reads it: who stopped reading is no reason to stop testing.
fn say_aside(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Skips that tests told past the harness's capture, so that they are seen in any case.
fn said_aside(output: impl std::io::Read, show: &mut dyn FnMut(&str)) -> Result<Vec<Skip>> {
    let mut skips = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(reason) = line.strip_prefix("skipped: ") {
            skips.push(Skip {
                test: None,
                reason: reason.trim().to_owned(),
            });
        }
        show(&line);
    }
    Ok(skips)
}

/// Reads what libtest prints to its end.
fn read(output: impl std::io::Read, show: &mut dyn FnMut(&str)) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut reader = CargoTest::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if reader.line(&line, &mut tally) {
            show(&line);
        }
    }
    reader.end(&mut tally);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(package: &str, name: &str, is_test: bool) -> String {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/{package}#0.1.0\",\
             \"manifest_path\":\"/w/{package}/Cargo.toml\",\"target\":{{\"kind\":[\"test\"],\
             \"crate_types\":[\"bin\"],\"name\":\"{name}\",\"src_path\":\"/w/{package}/x.rs\",\
             \"edition\":\"2024\",\"doc\":false,\"doctest\":false,\"test\":true}},\
             \"profile\":{{\"opt_level\":\"0\",\"debuginfo\":1,\"debug_assertions\":true,\
             \"overflow_checks\":true,\"test\":{is_test}}},\"features\":[],\
             \"filenames\":[\"/t/{name}-1f\"],\"executable\":\"/t/{name}-1f\",\"fresh\":true}}"
        )
    }

    #[test]
    fn programs_with_tests_are_read_from_what_cargo_says() {
        let program = Program::told_by(&told("waggle-wire", "allocations", true)).unwrap();
        assert_eq!(program.folder, Path::new("/w/waggle-wire"));
        assert_eq!(program.path, Path::new("/t/allocations-1f"));
        assert_eq!(program.name, "allocations");
        // An example is built by the same command.
        assert_eq!(Program::told_by(&told("waggle-wire", "hot", false)), None);
        let library = told("waggle-wire", "lib", true);
        let library = library.replace("\"/t/lib-1f\",\"fresh\"", "null,\"fresh\"");
        assert_eq!(Program::told_by(&library), None);
        let built = "{\"reason\":\"build-finished\",\"success\":true}";
        assert_eq!(Program::told_by(built), None);
    }

    #[test]
    fn what_was_skipped_aside_is_counted_and_shown() {
        let said = b"warning: x\nskipped: bpf: not root \n\xff\nskipped: bpf: not root";
        let mut shown = 0;
        let skips = said_aside(&said[..], &mut |_| shown += 1).unwrap();
        let reasons: Vec<&str> = skips.iter().map(|skip| &*skip.reason).collect();
        assert_eq!(reasons, ["bpf: not root"; 2], "two tests");
        assert_eq!(shown, 4);
        let mut tally = Tally {
            skips,
            ..Tally::default()
        };
        tally.require("bpf");
        assert_eq!((tally.failures.len(), tally.skips.len()), (2, 0));
    }

    #[test]
    fn every_test_is_in_one_part() {
        let program = Program::told_by(&told("waggle", "it", true)).unwrap();
        assert_eq!(program.clone().parts(1).len(), 1);
        let parts = program.parts(2);
        assert_eq!(parts.len(), 2);
        let of = |part: &Part| -> Vec<String> {
            let words = part.arguments.iter();
            let words = words.filter(|word| !word.starts_with("--"));
            words.cloned().collect()
        };
        assert_eq!(of(&parts[0]), of(&parts[1]), "one runs them, one does not");
        let skips = parts[1].arguments.iter().filter(|word| *word == "--skip");
        assert_eq!(skips.count(), IN_TURN.len());
        assert!(!parts[0].arguments.contains(&"--skip".to_owned()));
        let other = Program::told_by(&told("waggle-copy", "it", true)).unwrap();
        assert!(!other.is_quiet());
        assert_eq!(other.parts(8).len(), 1);
    }
}
