//! The binary log from the first snapshot on, kept on disk until it is applied.
//!
//! A source throws its log away by time, and a copy may take longer than that; so a thread reads
//! the log from the first moment on and keeps what concerns the copied tables.
//!
//! ```text
//! source ─► follow ─► transaction ─► write ─► segment files ─► read ─► apply
//!                      (what concerns the tables)      └── freed once the target has it
//! ```
//!
//! What is kept is a copy of something: the source has it for a while, and the target knows from
//! where it is needed. So a spool is synced once a second and at the end of each segment, not for
//! each transaction; a crash of the machine costs at most that second, which is asked for again. A
//! kill of this process costs nothing that was a whole transaction.
//!
//! Invariants: a reader sees whole transactions only; what is damaged is noticed and never read;
//! the files are as large as the plan allows and not larger: when they are full, reading stops
//! until the target has caught up.

mod follow;
mod read;
mod record;
mod segment;
mod state;
mod statement;
mod transaction;
mod write;

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::control::Control;
use crate::error::CopyError;
use crate::job::Plan;
use crate::position::Position;
use crate::table::Table;

pub use follow::now;
pub use read::{Place, Reader};
pub use record::{Mark, Record, records};

use follow::{Follower, Source};
use state::Shared;
use write::Writer;

/// Bytes of a segment, about; a small spool has four of them. One is allowed to be written while
/// the others are full.
const SEGMENT_BYTES: u64 = 64 << 20;
/// The file that tells two processes apart.
const LOCK: &str = "lock";
/// Where spools are by default, each in a directory of its job's name.
pub const DIRECTORY: &str = "waggle-spool";

/// A running spool: a thread that reads the source's log. Dropping it ends the thread; the files
/// stay.
pub struct Spool {
    shared: Arc<Shared>,
    dir: PathBuf,
    follower: Option<JoinHandle<()>>,
    source: Arc<Source>,
    _lock: File,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Spool {
    /// Follows the log: from `from` on when the spool's directory holds nothing that begins
    /// before it, else from where that ends.
    ///
    /// # Errors
    /// What the directory says. What the source says comes with [`Spool::check`] and with
    /// reading: it may be away for a while.
    pub fn start(
        plan: &Plan,
        tables: &[Table],
        from: &Position,
        control: &Arc<Control>,
    ) -> Result<Spool, CopyError> {
        let dir = plan.spool.clone();
        let doing = format!("making the spool's directory {}", dir.display());
        waggle_files::create_dir_all(&dir).map_err(CopyError::file(doing))?;
        let lock = lock(&dir)?;
        let segment_bytes = SEGMENT_BYTES.min(plan.spool_bytes_max / 4);
        let shared = Arc::new(Shared::new(plan.spool_bytes_max - segment_bytes));
        let writer = Writer::open(&dir, from, segment_bytes, &shared)?;
        let source = Arc::new(Source::new(plan.source.clone()));
        let follower = Follower::new(&source, tables, writer, &shared, control);
        let thread = std::thread::Builder::new()
            .name("waggle-spool".to_owned())
            .spawn(move || follower.run())
            .map_err(CopyError::file("starting the thread that follows the log"))?;
        Ok(Spool {
            shared,
            dir,
            follower: Some(thread),
            source,
            _lock: lock,
        })
    }

    /// Whether the log is still followed.
    ///
    /// # Errors
    /// Why it is not; said once.
    pub fn check(&self) -> Result<(), CopyError> {
        self.shared.check()
    }

    /// Bytes of files.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes()
    }

    /// Bytes of files that hold what is not applied; 0 while nothing was kept.
    pub fn bytes_ahead(&self) -> u64 {
        match self.shared.has_kept() {
            true => self.shared.bytes_ahead(),
            false => 0,
        }
    }

    /// Ends the thread and removes the files, and the directory if nothing else is in it: nobody
    /// needs them any more.
    ///
    /// # Errors
    /// What the directory says.
    pub fn remove(mut self) -> Result<(), CopyError> {
        self.end();
        for number in segment::list(&self.dir)? {
            write::remove(&self.dir, number)?;
        }
        // Best effort: what else is there is somebody's.
        let _ = fs::remove_file(self.dir.join(LOCK));
        if fs::remove_dir(&self.dir).is_ok()
            && let Some(parent) = self.dir.parent()
            && parent.ends_with(DIRECTORY)
        {
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }

    fn end(&mut self) {
        self.shared.close();
        self.source.interrupt();
        if let Some(thread) = self.follower.take() {
            // A panic of it was printed, and ends with this.
            let _ = thread.join();
        }
    }

    /// What there is after `from`, where the target is.
    ///
    /// # Errors
    /// What the files say; [`CopyError::Progress`] when they begin after `from`: the target has
    /// lost what it had. Start another spool from there.
    pub fn reader(&self, from: &Position) -> Result<Reader, CopyError> {
        Reader::open(&self.dir, &self.shared, from)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.end();
    }
}

/// Two processes on one spool would mix their transactions.
fn lock(dir: &Path) -> Result<File, CopyError> {
    let path = dir.join(LOCK);
    let doing = || {
        format!(
            "locking the spool {} (is another copy using it?)",
            dir.display()
        )
    };
    let file = waggle_files::open(&path, OpenOptions::new().write(true))
        .map_err(CopyError::file(doing()))?;
    // SAFETY: the descriptor is open for as long as `file` lives.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => Err(CopyError::file(doing())(std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests;
