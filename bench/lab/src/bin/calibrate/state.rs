//! What was measured so far, on disk after every piece.
//!
//! Invariant: a piece is a line, written whole when it has ended; one that was killed is not there
//! and is measured again.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use waggle_bench_lab::windows::Recorded;
use waggle_server::Flavour;

use crate::findings;
use crate::plan::Kind;
use crate::processors::Processors;
use crate::truth::TruthRound;

/// One piece that ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) kind: Kind,
    pub(crate) flavour: String,
    /// Where it ran.
    #[serde(default)]
    pub(crate) processors: Processors,
    /// Connections of the load.
    #[serde(default = "threads_before")]
    pub(crate) threads: u32,
    /// The program, with the commit of the tree.
    #[serde(default)]
    pub(crate) waggle: String,
    /// Start, UTC.
    pub(crate) begun: String,
    /// Seconds that were asked for.
    pub(crate) seconds: u64,
    /// What `waggle lab run` was called with, if it was.
    pub(crate) arguments: Vec<String>,
    /// Its run directory, below the state's.
    pub(crate) run: Option<PathBuf>,
    /// What the kernel counted, if it was asked.
    pub(crate) truth: Vec<TruthRound>,
    /// The server, flavour and version.
    pub(crate) server: Option<String>,
    /// Why there is less of it.
    pub(crate) error: Option<String>,
}

/// What pieces were measured with before they said so.
fn threads_before() -> u32 {
    8
}

/// All pieces.
#[derive(Debug)]
pub(crate) struct State {
    folder: PathBuf,
    sessions: Vec<Session>,
}

impl State {
    /// Opens the state in `folder`, which is made if it is not there.
    pub(crate) fn open(
        folder: &Path,
        flavour: Flavour,
        processors: Processors,
        threads: u32,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join("sessions.jsonl");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let sessions: Vec<Session> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let wanted = flavour.to_string();
        ensure!(
            sessions.iter().all(|session| session.flavour == wanted),
            "{} holds pieces of another server than {wanted}; name another --state",
            file.display()
        );
        ensure!(
            sessions.iter().all(|s| s.processors == processors),
            "{} holds pieces measured on {} processors; name another --state",
            file.display(),
            sessions.first().map_or("other", |s| s.processors.name())
        );
        ensure!(
            sessions.iter().all(|s| s.threads == threads),
            "{} holds pieces measured with {} connections; name another --state",
            file.display(),
            sessions.first().map_or(0, |s| s.threads)
        );
        Ok(Self {
            folder: folder.to_path_buf(),
            sessions,
        })
    }

    /// Where runs of the lab are made.
    pub(crate) fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a piece, on disk too.
    pub(crate) fn keep(&mut self, session: Session) -> anyhow::Result<()> {
        let path = self.folder.join("sessions.jsonl");
        let line = serde_json::to_string(&session)? + "\n";
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))?;
        self.sessions.push(session);
        Ok(())
    }

    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The windows of a piece; none if it has no run or the run cannot be read.
    pub(crate) fn recorded(&self, session: &Session) -> Recorded {
        let run = session.run.as_ref();
        run.and_then(|run| Recorded::read(&self.folder.join(run)).ok())
            .unwrap_or_default()
    }

    /// Trials of each kind so far, in the order of [`Kind::ALL`].
    pub(crate) fn progress(&self) -> [u64; 6] {
        Kind::ALL.map(|kind| {
            let of_kind = self.sessions.iter().filter(|session| session.kind == kind);
            of_kind
                .map(|session| findings::trials(session, &self.recorded(session)))
                .sum()
        })
    }
}
