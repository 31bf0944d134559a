//! The slow log, followed: what does the server itself write of its slow statements?
//!
//! `tail` follows the file through rotation and truncation, `parser` makes entries of its lines,
//! `entry` reads their fields. Invariants: the server's settings are never changed; memory is
//! bounded whatever is in the file; only what an entry says is filled.
//!
//! A slow log cannot be read without doubt: a statement may contain, at the beginning of a line
//! after a `;`, what looks like the header of the next entry. Such a statement is taken for two, as
//! by every other reader of these files.

mod entry;
mod parser;
mod tail;

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Abilities, Observation, Source, SourceKind};
use crate::sql::{Access, MARK, text};
use crate::statement::{Statement, Text, Work};
use entry::Entry;
use tail::Tail;

/// Most bytes that are read in one poll, so that a backlog does not block the agent's loop.
const POLL_BYTES_MAX: usize = 4 << 20;
/// How long a file that was rotated away is followed after it last grew and the new one was begun:
/// servers write on in the old one until they are told to open the new.
const OLD_FILE: Duration = Duration::from_secs(60);
/// Files that are followed at once; of more, the oldest is left.
const FILES_MAX: usize = 4;

/// Why a slow log cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum SlowlogError {
    /// It cannot be opened.
    #[error("cannot read the slow log {path}: {cause}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// It is a directory, a pipe or a device.
    #[error("the slow log {0} is no ordinary file")]
    NoFile(PathBuf),
    /// The server does not answer.
    #[error("asking the server where its slow log is: {0}")]
    Server(#[from] waggle_wire::Error),
    /// The server writes none.
    #[error(
        "the server writes no slow log (slow_query_log is OFF); waggle changes no settings: \
         SET GLOBAL slow_query_log=ON, and long_query_time to what counts as slow"
    )]
    Off,
    /// It goes to a table or nowhere.
    #[error(
        "the server's slow log goes to no file (log_output is {0}); SET GLOBAL log_output='FILE', \
         or use --source perfschema"
    )]
    NoFileOutput(String),
}

/// A slow log that is followed.
pub struct SlowlogSource {
    path: PathBuf,
    tails: Vec<Tail>,
    /// What the server's settings keep out of the log, where they are known.
    limits: Vec<(String, String)>,
    trouble: Option<String>,
}

impl SlowlogSource {
    /// Follows a file from its present end.
    ///
    /// # Errors
    /// [`SlowlogError::Open`], [`SlowlogError::NoFile`].
    pub fn open(path: &Path) -> Result<Self, SlowlogError> {
        Self::open_at(path, false)
    }

    /// Reads a file from its beginning, then follows it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_from_start(path: &Path) -> Result<Self, SlowlogError> {
        Self::open_at(path, true)
    }

    fn open_at(path: &Path, from_start: bool) -> Result<Self, SlowlogError> {
        let cannot = |cause| SlowlogError::Open {
            path: path.to_owned(),
            cause,
        };
        let kind = fs::metadata(path).map_err(cannot)?.file_type();
        if kind.is_dir() || kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
            return Err(SlowlogError::NoFile(path.to_owned()));
        }
        Ok(Self {
            tails: vec![Tail::open(path, from_start).map_err(cannot)?],
            path: path.to_owned(),
            limits: Vec::new(),
            trouble: None,
        })
    }

    /// Follows the file that the server `access` is to names as its slow log; `pid` is the server's
    /// process,
    /// through whose root the file is found when it lives in a container or a chroot.
    ///
    /// # Errors
    /// [`SlowlogError`].
    pub fn of_server(access: &Access, pid: Option<u32>) -> Result<Self, SlowlogError> {
        let mut connection = access.for_another().connect()?;
        connection.set_timeout(Some(Duration::from_secs(5)));
        let wanted = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('slow_query_log', \
              'slow_query_log_file', 'log_output', 'datadir', 'long_query_time', \
              'min_examined_row_limit', 'log_slow_rate_limit', 'log_slow_extra', \
              'log_slow_admin_statements', 'log_throttle_queries_not_using_indexes')";
        let rows = connection.query_rows(format!("{MARK}{wanted}").as_bytes())?;
        let of = |name: &str| {
            let row = rows.iter().find(|row| text(row, 0) == name)?;
            Some(text(row, 1))
        };
        if of("slow_query_log").as_deref() != Some("ON") {
            return Err(SlowlogError::Off);
        }
        let output = of("log_output").unwrap_or_default();
        if !output.split(',').any(|word| word == "FILE") {
            return Err(SlowlogError::NoFileOutput(output));
        }
        let inside = Path::new(&of("datadir").unwrap_or_default())
            .join(of("slow_query_log_file").unwrap_or_default());
        let path = match pid {
            Some(pid) => {
                let relative = inside.strip_prefix("/").unwrap_or(&inside);
                Path::new(&format!("/proc/{pid}/root")).join(relative)
            }
            None => inside,
        };
        let mut source = Self::open(&path)?;
        source.limits = limits(of);
        Ok(source)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong now, and may get better: the file that took the place of the one that is
    /// followed cannot be read.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Opens the file that has the name now, if it is another one.
    fn follow_rotation(&mut self) {
        let is_known = |id| self.tails.iter().any(|tail| tail.id() == id);
        let trouble = match tail::id_of(&self.path) {
            Ok(id) if is_known(id) => None,
            Ok(_) => match Tail::open(&self.path, true) {
                Ok(tail) => {
                    self.tails.push(tail);
                    None
                }
                Err(error) => Some(error),
            },
            // Between the renaming of the old and the making of the new there is none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(error),
        };
        let name = self.path.display();
        let trouble = trouble.map(|error| format!("{name}: {error}"));
        self.trouble = self.trouble.take().or(trouble);
    }

    /// Takes the files out that are followed no longer, oldest first.
    fn left_behind(&mut self) -> Vec<Tail> {
        let newest = self.tails.len() - 1;
        let is_written = self.tails[newest].was_read();
        let is_old = |tail: &Tail| is_written && tail.quiet_for() > OLD_FILE;
        let old = self.tails[..newest]
            .iter()
            .take_while(|tail| is_old(tail))
            .count();
        let too_many = self.tails.len().saturating_sub(FILES_MAX);
        self.tails.drain(..old.max(too_many)).collect()
    }
}

/// What settings of the server keep out of its log.
fn limits(of: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let mut limits = Vec::new();
    let number = |name: &str| of(name).and_then(|value| value.parse::<f64>().ok());
    if let Some(seconds) = number("long_query_time").filter(|s| *s > 0.0) {
        let why = format!("faster than long_query_time, {seconds} s");
        limits.push(("statements".to_owned(), why));
    }
    if let Some(rows) = number("min_examined_row_limit").filter(|rows| *rows > 0.0) {
        let why = format!("read less than min_examined_row_limit, {rows} rows");
        limits.push(("statements".to_owned(), why));
    }
    if let Some(part) = number("log_slow_rate_limit").filter(|part| *part > 1.0) {
        let why = format!("the server writes one of {part} (log_slow_rate_limit)");
        limits.push(("statements".to_owned(), why));
    }
    if of("log_slow_extra").as_deref() == Some("OFF") {
        let why = "log_slow_extra is OFF";
        limits.extend(["error", "network_bytes", "tmp_tables"].map(|f| (f.to_owned(), why.into())));
    }
    limits
}

impl Source for SlowlogSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Slowlog
    }

    fn abilities(&self) -> Abilities {
        let log = "not in a slow log";
        let mut missing = self.limits.clone();
        if missing.iter().all(|(what, _)| what != "statements") {
            let why =
                "those below the server's limits (long_query_time and others) are not written";
            missing.push(("statements".to_owned(), why.into()));
        }
        for field in [
            "times",
            "switches",
            "storage_bytes",
            "warnings",
            "in_transaction",
        ] {
            missing.push((field.to_owned(), log.into()));
        }
        let database = "MySQL writes it when it is another than in the entry before; a session \
                        without one shows that one";
        missing.push(("database".to_owned(), database.into()));
        Abilities {
            missing,
            place: format!("the slow log {}", self.path.display()),
            ..Abilities::default()
        }
    }

    fn poll(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        let count = self.read(each, false);
        self.follow_rotation();
        Ok(count)
    }

    /// An entry ends with the beginning of the next; the last one ends here.
    fn finish(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        let mut count = self.poll(each)?;
        // What the files have now beyond the bytes of one call, which an entry alone may fill.
        let unread: u64 = self.tails.iter().map(Tail::unread).sum();
        for _ in 0..unread.div_ceil(POLL_BYTES_MAX as u64) {
            count += self.read(each, false);
        }
        Ok(count + self.read(each, true))
    }
}

impl SlowlogSource {
    /// Yields what is new in every file; with `is_last`, also entries that might go on.
    fn read(&mut self, each: &mut dyn FnMut(Observation<'_>), is_last: bool) -> usize {
        let clocks = Clocks::now();
        let mut count = 0;
        let mut lost = 0;
        let mut left = POLL_BYTES_MAX;
        let mut each_entry = |entry: &Entry| {
            each(Observation::Statement(statement(entry, clocks)));
            count += 1;
        };
        self.trouble = None;
        for tail in &mut self.tails {
            if let Err(error) = tail.read(&mut left, &mut each_entry) {
                // A file that cannot be read any more (its disk is gone) may be again.
                self.trouble = Some(format!("{}: {error}", self.path.display()));
            }
            if is_last {
                tail.finish(&mut each_entry);
            }
            lost += tail.take_lost();
        }
        for mut tail in self.left_behind() {
            tail.finish(&mut each_entry);
            lost += tail.take_lost();
        }
        if lost > 0 {
            each(Observation::Lost {
                cause: "log_cut",
                count: lost,
            });
            count += 1;
        }
        count
    }
}

/// An entry as a statement.
fn statement<'a>(entry: &'a Entry, clocks: Clocks) -> Statement<'a> {
    Statement {
        end_ns: entry
            .end_ns()
            .map_or(clocks.monotonic_ns, |ns| clocks.monotonic(ns)),
        latency_ns: entry.query_ns,
        connection_id: entry.connection_id,
        thread: None,
        user: &entry.user,
        host: &entry.host,
        database: &entry.database,
        text: Text::Whole {
            sql: entry.text(),
            truncated: entry.is_truncated,
        },
        command: entry.command(),
        origin: None,
        times: None,
        work: Work {
            rows_sent: entry.rows_sent,
            rows_examined: entry.rows_examined,
            rows_affected: entry.rows_affected,
            error: entry.error,
            lock_ns: entry.lock_ns,
            network_bytes: entry.bytes_received.zip(entry.bytes_sent),
            tmp_tables: entry.tmp_tables.zip(entry.tmp_disk_tables),
            full_scans: entry.full_scan.zip(entry.full_join),
            ..Work::default()
        },
    }
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    since_1970_ns: u64,
    monotonic_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            since_1970_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            monotonic_ns: waggle_probes::clock::now_ns(),
        }
    }

    /// A time since 1970 on the monotonic clock; what is later than now is now.
    fn monotonic(self, since_1970_ns: u64) -> u64 {
        let ago_ns = self.since_1970_ns.saturating_sub(since_1970_ns);
        self.monotonic_ns.saturating_sub(ago_ns)
    }
}

#[cfg(test)]
mod tests;
