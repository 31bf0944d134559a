//! Runs the program that is measured.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// The released program.
#[derive(Debug, Clone)]
pub struct Waggle {
    program: PathBuf,
}

/// A waggle that runs, and ends with this process.
#[derive(Debug)]
pub struct Running {
    pub(crate) child: Child,
    what: String,
}

impl Waggle {
    /// The program at `path`.
    ///
    /// # Errors
    /// There is none.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let program = path
            .canonicalize()
            .with_context(|| format!("{}: build it first", path.display()))?;
        Ok(Self { program })
    }

    /// What it says of its version.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        output.map_or("unknown".to_owned(), |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    }

    /// Starts it; standard input, output and error are pipes. Its process group is that of this
    /// process, so a Ctrl-C of the terminal reaches it too.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> anyhow::Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        // SAFETY: prctl only sets a flag of the child; it is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        let what = format!("{command:?}");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {what}"))?;
        Ok(Running { child, what })
    }

    /// Runs it to its end and returns the one JSON document it printed. That a check did not hold
    /// (exit code 1) is in the document; without a document it is an error.
    ///
    /// # Errors
    /// It cannot be started, refuses its arguments, or prints no document.
    pub fn document<S: AsRef<OsStr>>(&self, arguments: &[S]) -> anyhow::Result<Value> {
        self.start(arguments)?.document()
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it writes a line with `word` on standard error; later lines are dropped.
    ///
    /// # Errors
    /// It ends before.
    pub fn wait_for(&mut self, word: &str) -> anyhow::Result<()> {
        let stderr = self.child.stderr.take().context("a pipe")?;
        let mut lines = BufReader::new(stderr);
        let mut said = String::new();
        loop {
            let start = said.len();
            if lines.read_line(&mut said)? == 0 {
                bail!("{} ended: {}", self.what, said.trim());
            }
            if said[start..].contains(word) {
                break;
            }
        }
        // Somebody has to read on, or it would block on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(())
    }

    /// True once it is over.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) {
        // SAFETY: the child has not been waited for, so its number is its own.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
    }

    /// Waits for its end and returns the document it printed.
    ///
    /// # Errors
    /// It refused its arguments, or printed no document.
    pub fn document(mut self) -> anyhow::Result<Value> {
        let errors = self.child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = String::new();
                stderr.read_to_string(&mut said).ok();
                said
            })
        });
        drop(self.child.stdin.take());
        let mut output = String::new();
        let mut stdout = self.child.stdout.take().context("a pipe")?;
        stdout.read_to_string(&mut output)?;
        let status = self.child.wait()?;
        let said = errors.and_then(|thread| thread.join().ok());
        let said = said.unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let why = || format!("{} ({status}): {}", self.what, last.join(" / "));
        ensure!(status.code() != Some(2), "{}", why());
        serde_json::from_str(&output).with_context(why)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SAFETY: the child has not been waited for, so its number is its own.
            unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
            self.child.wait().ok();
        }
    }
}
