//! What is printed, where, and how much of it: everything but usage errors goes to standard output.
//!
//! Invariant: a message is written whole and at once, so that a pipe sees it when it happens. A
//! reader that went away is no reason to end a measurement.

use std::io::{self, Write};
use std::sync::Mutex;

/// How important a message is; `--verbosity` names the last that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The run cannot go on.
    Fatal = 0,
    /// Something is not as it was asked for.
    Warning = 2,
    /// Reports and what the run is doing.
    Notice = 3,
    /// Why it ends.
    Info = 4,
    /// Threads coming and going.
    Debug = 5,
}

impl Level {
    fn prefix(self) -> &'static str {
        match self {
            Level::Fatal => "FATAL: ",
            Level::Warning => "WARNING: ",
            Level::Notice | Level::Info => "",
            Level::Debug => "DEBUG: ",
        }
    }
}

/// The sink of all messages of one process; shared by its threads.
#[derive(Debug)]
pub(super) struct Log {
    verbosity: u8,
    repeated: Mutex<Repeated>,
}

/// The last line, and how often it came again without being printed.
#[derive(Debug, Default)]
struct Repeated {
    line: String,
    times: u64,
}

impl Log {
    /// Shows messages up to this level.
    pub(super) fn new(verbosity: u8) -> Log {
        Log {
            verbosity,
            repeated: Mutex::default(),
        }
    }

    /// One line with the prefix of its level. A line that repeats the last one is counted only.
    pub(super) fn line(&self, level: Level, text: &str) {
        if level as u8 > self.verbosity {
            return;
        }
        let line = format!("{}{text}\n", level.prefix());
        let mut repeated = self.lock();
        if repeated.line == line {
            repeated.times += 1;
            return;
        }
        let ended = repeated.ended();
        repeated.line = line;
        put(&format!("{ended}{}", repeated.line));
    }

    /// Text of a report as it stands, at the level of reports.
    pub(super) fn text(&self, text: &str) {
        if Level::Notice as u8 <= self.verbosity {
            self.raw(text);
        }
    }

    /// Text that no verbosity holds back: help, and what scripts print.
    pub(super) fn raw(&self, text: &str) {
        let ended = self.lock().ended();
        put(&format!("{ended}{text}"));
    }

    /// Tells of repetitions that nothing has ended yet.
    pub(super) fn finish(&self) {
        put(&self.lock().ended());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Repeated> {
        self.repeated
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Repeated {
    fn ended(&mut self) -> String {
        self.line.clear();
        match std::mem::take(&mut self.times) {
            0 => String::new(),
            times => format!("(last message repeated {times} times)\n"),
        }
    }
}

fn put(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_counted_and_told_once() {
        let mut repeated = Repeated {
            line: "again\n".to_owned(),
            times: 3,
        };
        assert_eq!(repeated.ended(), "(last message repeated 3 times)\n");
        assert_eq!(repeated.ended(), "");
    }
}
