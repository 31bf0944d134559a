//! What is watched of a process, and where its probes can be.
//!
//! Neighbour: `source` attaches them. Invariant: what cannot be had is named with its reason.

use std::path::PathBuf;

use waggle_probes::latch::{Placed, StaticProbe};
use waggle_server::Flavour;
use waggle_symbols::function::Program;
use waggle_symbols::latch::thread_number;
use waggle_symbols::{mapped, usdt};

/// What to watch.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process.
    pub pid: u32,
    /// What it is, if it is a server.
    pub flavour: Option<Flavour>,
    /// Room for records, bytes.
    pub ring_bytes: u32,
    /// Static probes of this provider, in place of everything else.
    pub usdt: Option<String>,
    /// Mutexes of the C library and futexes too.
    pub futexes: bool,
    /// Rw-locks of the C library too, at the price of looking at every wait for a condition.
    pub rw_locks: bool,
}

/// Why there is nothing to trace.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The program cannot be read.
    #[error("reading the program of process {pid}: {why}")]
    Program {
        /// Which process.
        pid: u32,
        /// Why.
        why: String,
    },
    /// The kernel refuses the programs.
    #[error(transparent)]
    Probe(#[from] waggle_probes::latch::ProbeError),
    /// No place could be attached at.
    #[error("no probe could be placed: {0}")]
    Nothing(String),
}

/// What was found of the process and attached.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Where probes are, or why not.
    pub placed: Vec<Placed>,
    /// What cannot be seen, and why.
    pub missing: Vec<(String, String)>,
}

/// Where a `pthread_t` of the process keeps the thread's number.
pub(super) fn number_in_thread(pid: u32) -> Result<u32, String> {
    let mapped = mapped::code_of(pid).map_err(|error| error.to_string())?;
    let library = mapped.iter().find(|m| m.name().starts_with("libc.so"));
    let library = library.ok_or("the process has no C library mapped that is known")?;
    let by_range = format!(
        "/proc/{pid}/map_files/{:x}-{:x}",
        library.start, library.end
    );
    thread_number(by_range.as_ref())
}

/// The provider's probes in the program and its libraries.
pub(super) fn static_probes(
    pid: u32,
    provider: &str,
    found: &mut Found,
) -> Result<Vec<StaticProbe>, String> {
    let mapped = mapped::code_of(pid).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = Vec::new();
    for mapping in mapped {
        let path = PathBuf::from(format!(
            "/proc/{pid}/root{}",
            mapping.path.to_string_lossy()
        ));
        if !files.contains(&path) {
            files.push(path);
        }
    }
    let mut probes = Vec::new();
    for file in files {
        let Ok(program) = Program::open(&file) else {
            continue;
        };
        for probe in usdt::probes(&program) {
            if probe.provider != provider {
                continue;
            }
            let made = probe
                .site(&program)
                .map_err(|error| error.to_string())
                .and_then(|site| {
                    let semaphore = probe.semaphore_offset(&program);
                    StaticProbe::new(file.clone(), &probe, site, semaphore).transpose()
                });
            match made {
                Ok(Some(made)) => probes.push(made),
                Ok(None) => {}
                Err(why) => found
                    .missing
                    .push((format!("{provider}:{}", probe.name), why)),
            }
        }
    }
    if probes.is_empty() && found.missing.is_empty() {
        let why = format!("the process has no static probes of {provider:?}");
        found.missing.push((format!("{provider}:wait_start"), why));
    }
    Ok(probes)
}
