//! A run that the test does something to while it is under way.
//!
//! Invariant: it never outlives the test, and the test never waits for it without end.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Said;
use super::bed::Tool;

/// More than any run of a test takes; one that takes so long has hung.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// What was printed so far.
    printed: String,
}

impl Running {
    pub(super) fn start(tool: Tool, words: &[String], directory: &Path) -> Running {
        let mut command = match tool {
            Tool::Waggle => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
                command.arg("sysbench");
                command
            }
            Tool::Sysbench => Command::new("/usr/bin/sysbench"),
        };
        let mut child = command
            .args(words)
            .current_dir(directory)
            .env_remove("MYSQL_UNIX_PORT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = read(child.stdout.take().expect("it is piped"));
        Running {
            child,
            lines,
            printed: String::new(),
        }
    }

    /// Waits until a line holds this text.
    pub(super) fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.printed += &line;
                    if line.contains(text) {
                        return;
                    }
                }
                Err(why) => panic!("no '{text}' ({why}) in {}", self.printed),
            }
        }
    }

    pub(super) fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: integers in, none of our memory; our own child, not yet waited for.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "the run is gone: {}", self.printed);
    }

    /// Waits for its end.
    pub(super) fn ended(mut self) -> Said {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.printed += &line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it hangs: {}", self.printed),
            }
        }
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), None, "{}", self.printed);
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().expect("it is piped");
        pipe.read_to_string(&mut stderr).unwrap();
        Said {
            code: status.code(),
            stdout: std::mem::take(&mut self.printed),
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is gone when it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: ChildStdout) -> Receiver<String> {
    let (give, take) = channel();
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        while matches!(stdout.read_line(&mut line), Ok(length) if length > 0) {
            if give.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    take
}
