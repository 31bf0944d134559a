//! The ways of getting the rows to the target.
//!
//! Invariant: every way ends with all keys built.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

use super::case::Case;
use super::{Stand, query};

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    /// The target's own LOAD DATA INFILE, keys built afterwards: it has no source to read.
    Floor,
    /// The same rows from as many files as --ranges says, all loaded at once.
    FloorParts,
    /// This program.
    Waggle,
    /// mydumper into files, myloader from them.
    Mydumper,
    /// mariadb-dump into the client.
    Dump,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contender::Floor => "floor",
            Contender::FloorParts => "floor, in parts",
            Contender::Waggle => "waggle",
            Contender::Mydumper => "mydumper+myloader",
            Contender::Dump => "mariadb-dump",
        })
    }
}

/// What a way took.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Run {
    /// The round it was of, from 1: ways are compared within a round.
    pub(super) round: usize,
    pub(super) wall_s: f64,
    pub(super) source_cpu_s: f64,
    pub(super) target_cpu_s: f64,
    /// CPU time of the programs between the servers.
    pub(super) client_cpu_s: f64,
    /// Of this program: the copy phase, its threads' CPU time, and bytes of row data.
    pub(super) copy: Option<Copied>,
}

/// What this program says of its copy phase.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Copied {
    pub(super) copy_s: f64,
    pub(super) copier_cpu_s: f64,
    pub(super) bytes: f64,
    /// Of the whole program, without its start.
    pub(super) total_s: f64,
    /// As its document has them: `[{"phase": "…", "seconds": x}]`.
    pub(super) phases: Value,
}

impl Contender {
    pub(super) const ALL: [Contender; 5] = [
        Contender::Floor,
        Contender::FloorParts,
        Contender::Waggle,
        Contender::Mydumper,
        Contender::Dump,
    ];

    /// What is not installed here.
    pub(super) fn missing(self) -> Option<String> {
        let programs: &[&str] = match self {
            Contender::Floor | Contender::FloorParts | Contender::Waggle => &[],
            Contender::Mydumper => &["mydumper", "myloader"],
            Contender::Dump => &["mariadb-dump", "mariadb"],
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there =
            |program: &&&str| std::env::split_paths(&path).any(|p| p.join(program).is_file());
        let absent = programs.iter().find(|program| !is_there(program));
        absent.map(|program| format!("{program} is not installed"))
    }

    /// Gets the rows across; the caller takes the time.
    pub(super) fn run(
        self,
        stand: &Stand,
        case: Case,
        threads: usize,
        catches_up: bool,
        file: &Path,
    ) -> anyhow::Result<Run> {
        let mut run = Run::default();
        let cpu_before = children_cpu_s();
        match self {
            Contender::Floor => floor(stand, case, &[file.to_owned()])?,
            Contender::FloorParts => floor(stand, case, &parts(file, threads))?,
            Contender::Waggle => run.copy = Some(waggle(stand, threads, catches_up)?),
            Contender::Mydumper => mydumper(stand, threads)?,
            Contender::Dump => dump(stand)?,
        }
        run.client_cpu_s = children_cpu_s() - cpu_before;
        Ok(run)
    }
}

/// The files that the rows of `file` are in once more, in parts.
pub(super) fn parts(file: &Path, count: usize) -> Vec<PathBuf> {
    (0..count)
        .map(|part| file.with_extension(part.to_string()))
        .collect()
}

fn floor(stand: &Stand, case: Case, files: &[PathBuf]) -> anyhow::Result<()> {
    let mut target = Connection::connect(&stand.target.dsn_socket())?;
    for table in 1..=case.tables() {
        query(&mut target, &case.create(table, false))?;
        let load = |file: &PathBuf| {
            let mut connection = Connection::connect(&stand.target.dsn_socket())?;
            let file = stand.seen(&stand.target, file)?;
            query(&mut connection, &case.load(table, &file))
        };
        std::thread::scope(|scope| {
            let loads: Vec<_> = files
                .iter()
                .map(|file| scope.spawn(|| load(file)))
                .collect();
            let mut done = loads.into_iter().map(|load| {
                let ended = load.join();
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            done.try_for_each(|loaded| loaded)
        })?;
        if let Some(keys) = case.add_keys(table) {
            query(&mut target, &keys)?;
        }
    }
    Ok(())
}

/// Where the servers' clients look for a password that no flag shows to others.
const PASSWORD: &str = "MYSQL_PWD";

/// A database of a throw-away server, as a flag has it.
pub(super) fn dsn(server: &Sandbox, database: &str) -> String {
    server.dsn_of(database).to_string()
}

/// This program, copying everything.
pub(super) fn copier(stand: &Stand, threads: usize, until: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program")?);
    command
        .args(["copy", "--json", "--until", until])
        .args(["--ranges", &threads.to_string()])
        // Not as arguments: those are everybody's to read.
        .env("WAGGLE_COPY_FROM", dsn(&stand.source, "bench"))
        .env("WAGGLE_COPY_TO", dsn(&stand.target, "bench"))
        .arg("--spool")
        .arg(stand.spool())
        .arg("--out")
        .arg(stand.directory.join("runs"));
    Ok(command)
}

/// Gets to the target what was written at the source after a copy.
pub(super) fn catch_up(stand: &Stand, threads: usize) -> anyhow::Result<()> {
    output(&mut copier(stand, threads, "caught-up")?).map(drop)
}

fn waggle(stand: &Stand, threads: usize, catches_up: bool) -> anyhow::Result<Copied> {
    let until = if catches_up { "caught-up" } else { "copied" };
    let mut command = copier(stand, threads, until)?;
    let words = output(&mut command)?;
    let document: Value = serde_json::from_slice(&words).context("its document")?;
    let number = |name: &str| document[name].as_f64().unwrap_or_default();
    Ok(Copied {
        copy_s: number("copy_s"),
        copier_cpu_s: number("copier_cpu_s"),
        bytes: number("bytes"),
        total_s: number("total_s"),
        phases: document["phases"].clone(),
    })
}

fn mydumper(stand: &Stand, threads: usize) -> anyhow::Result<()> {
    let files = stand.directory.join("dump");
    if files.exists() {
        std::fs::remove_dir_all(&files).context("emptying the dump's directory")?;
    }
    let threads = threads.to_string();
    let at = |server: &Sandbox| server.socket().display().to_string();
    let mut dump = Command::new("mydumper");
    dump.args([
        "-u",
        "root",
        "-S",
        &at(&stand.source),
        "-B",
        "bench",
        "-t",
        &threads,
    ])
    .env(PASSWORD, stand.source.password().expose())
    .args(["-r", "100000", "-o"])
    .arg(&files);
    output(&mut dump)?;
    let mut load = Command::new("myloader");
    load.args([
        "-u",
        "root",
        "-S",
        &at(&stand.target),
        "-B",
        "bench",
        "-t",
        &threads,
        "-o",
        "-d",
    ])
    .env(PASSWORD, stand.target.password().expose())
    .arg(&files);
    output(&mut load).map(drop)
}

fn dump(stand: &Stand) -> anyhow::Result<()> {
    let at = |server: &Sandbox| server.socket().display().to_string();
    let mut dump = Command::new("mariadb-dump")
        .args(["-u", "root", "-S", &at(&stand.source)])
        .env(PASSWORD, stand.source.password().expose())
        .args(["--single-transaction", "--quick", "--hex-blob", "bench"])
        .stdout(Stdio::piped())
        .spawn()
        .context("starting mariadb-dump")?;
    let pipe = dump.stdout.take().context("its output")?;
    let mut load = Command::new("mariadb");
    load.args(["-u", "root", "-S", &at(&stand.target), "bench"])
        .env(PASSWORD, stand.target.password().expose())
        .stdin(pipe);
    let loaded = output(&mut load);
    let status = dump.wait().context("mariadb-dump")?;
    loaded?;
    if !status.success() {
        bail!("mariadb-dump ended with {status}");
    }
    Ok(())
}

/// Standard output of a program that has to succeed.
pub(super) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .with_context(|| format!("starting {name}"))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        let last: Vec<&str> = words.lines().rev().take(3).collect();
        bail!("{name} ended with {}: {}", done.status, last.join(" / "));
    }
    Ok(done.stdout)
}

/// CPU time of all programs that were started here and have ended.
fn children_cpu_s() -> f64 {
    // SAFETY: all bytes zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid to write to for the length of the call.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
