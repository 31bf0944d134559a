//! Every way a load can fail, told so that the reader knows what to change.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waggle_stats::arrivals::ArrivalsError;

/// Why a load, a `prepare` or a `cleanup` could not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The workers' ring failed.
    #[error("waiting for the server through io_uring: {0}; try it with a thread per connection")]
    Ring(#[source] std::io::Error),
    /// Rings were asked for and cannot be had.
    #[error(
        "io_uring cannot be used: it takes kernel 6.1, the right to use it, and MySQL or MariaDB; \
         leave the choice to waggle, or take threads"
    )]
    NoRing,
    /// The name is neither a shipped workload nor a file.
    #[error("no workload '{name}': it is neither one of {known} nor a file that exists")]
    UnknownWorkload {
        /// What was asked for.
        name: String,
        /// The shipped workloads.
        known: String,
    },
    /// The script file exists and cannot be read.
    #[error("cannot read the workload {}", path.display())]
    ReadScript {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The script does not compile or failed while it was loaded; the message has file and line.
    #[error("the workload {script} failed: {message}")]
    Script {
        /// The script's name.
        script: String,
        /// Lua's message.
        message: String,
    },
    /// An option that the workload does not declare.
    #[error("the workload {script} has no option '{name}'; its options are {known}")]
    UnknownOption {
        /// The script's name.
        script: String,
        /// The option that was given.
        name: String,
        /// What the script declares.
        known: String,
    },
    /// An option whose value does not fit its type.
    #[error("option '{name}' of the workload wants {expected}, not '{value}'")]
    OptionValue {
        /// The option.
        name: String,
        /// What was given.
        value: String,
        /// What its type accepts.
        expected: &'static str,
    },
    /// The script cannot be run as a load.
    #[error("the workload {script} defines no event() function, so there is nothing to run")]
    NoEvent {
        /// The script's name.
        script: String,
    },
    /// The script has no such command.
    #[error("the workload {script} has no command '{command}'")]
    NoCommand {
        /// The script's name.
        script: String,
        /// The command.
        command: String,
    },
    /// A worker, or a thread of a command, hit an error that ends the load.
    #[error(transparent)]
    Worker(#[from] Box<WorkerError>),
    /// A worker could not connect when the load started.
    #[error("{connected} of {threads} workers were connected; {source}")]
    Connect {
        /// Workers that were ready.
        connected: u32,
        /// Workers asked for.
        threads: u32,
        /// The first refusal.
        source: Box<WorkerError>,
    },
    /// Where scripts run in a process of their own: what happened to it, or was told by it.
    #[error("{0}")]
    Apart(String),
    /// The cancel flag was set.
    #[error("stopped before it was done")]
    Cancelled,
    /// The operating system gave no thread.
    #[error("cannot start worker thread {thread}")]
    Spawn {
        /// Index of the thread.
        thread: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An open loop fell too far behind ([`Overflow::Abort`](crate::Overflow)).
    #[error(
        "the server cannot carry the offered rate: {waiting} events wait, the oldest for {:.2} s",
        age.as_secs_f64()
    )]
    Overflow {
        /// Events that were due and not begun.
        waiting: u64,
        /// How long the oldest of them had waited.
        age: Duration,
    },
    /// The plan of an open loop cannot be followed.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
    /// Worker threads that did not end after their sockets were shut down (a script that loops
    /// without asking for statements, for example). They were left behind.
    #[error("{threads} worker threads did not end after {waited_s:.0} s and were abandoned")]
    Stuck {
        /// How many.
        threads: u32,
        /// How long they were given, in seconds.
        waited_s: f64,
    },
}

impl LoadError {
    /// True when a server refused or could not be reached while a thread connected.
    pub fn is_connect(&self) -> bool {
        match self {
            LoadError::Worker(error) => error.connecting,
            LoadError::Connect { .. } => true,
            _ => false,
        }
    }
}

/// The error of one worker thread that ended the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerError {
    /// Index of the thread.
    pub thread: u32,
    /// The statement's text, if a statement failed.
    pub statement: Option<String>,
    /// File and line in the script, if known.
    pub at: Option<String>,
    /// The server's error number, if a server answered.
    pub errno: Option<u16>,
    /// True when it was opening its connection.
    pub connecting: bool,
    /// What went wrong.
    pub message: String,
    /// The server's state (five characters) and its own words, if a server answered.
    pub answer: Option<(String, String)>,
    /// The function of the script that was called: `init`, `thread_init`, `thread_run`, ...
    pub function: Option<String>,
}

impl std::error::Error for WorkerError {}

impl std::fmt::Display for WorkerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "thread {}: ", self.thread)?;
        if self.connecting {
            write!(f, "cannot connect: ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(statement) = &self.statement {
            write!(f, "; statement: {}", shortened(statement))?;
        }
        if let Some(at) = &self.at {
            write!(f, "; at {at}")?;
        }
        Ok(())
    }
}

/// One line of at most 300 characters: bulk inserts are hundreds of kilobytes.
fn shortened(statement: &str) -> String {
    const KEPT_CHARS: usize = 300;
    // Far more than is kept, so that runs of white space do not matter; at a character's start.
    let read = statement
        .char_indices()
        .nth(4 * KEPT_CHARS)
        .map_or(statement.len(), |(at, _)| at);
    let line = statement[..read]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    match line.char_indices().nth(KEPT_CHARS) {
        Some((end, _)) => format!("{}... ({} bytes)", &line[..end], statement.len()),
        None => line,
    }
}

impl WorkerError {
    /// An error that no statement is behind.
    pub(crate) fn plain(thread: u32, message: impl Into<String>) -> WorkerError {
        WorkerError {
            thread,
            statement: None,
            at: None,
            errno: None,
            connecting: false,
            message: message.into(),
            answer: None,
            function: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn statements_become_one_short_line() {
        assert_eq!(
            shortened("CREATE TABLE t (\n    id INT\n)"),
            "CREATE TABLE t ( id INT )"
        );
        let long = format!("INSERT INTO t VALUES {}", "('\u{e9}'),".repeat(1000));
        let short = shortened(&long);
        assert!(short.ends_with("... (7021 bytes)"), "{short}");
        assert!(short.chars().count() < 330);
    }
}
