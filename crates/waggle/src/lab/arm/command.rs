//! Any command as an observer: started when its arm is switched on, ended when it is switched off.
//!
//! Neighbour: `observing` chooses between this and `waggle watch` under control.
//!
//! Invariant: a command that was started is ended and waited for, also after an error.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a command may take until it says that it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end when it is told to.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How often a command that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Lines of its output that are kept for a message.
const LINES_KEPT: usize = 3;
/// Bytes of its standard output that are kept, if they are wanted.
const OUTPUT_MAX: u64 = 64 << 20;

/// The last lines a command wrote.
type Words = Arc<Mutex<VecDeque<String>>>;

/// A running command.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    words: Words,
    output: Option<JoinHandle<Vec<u8>>>,
}

/// How a command is started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Program and arguments.
    pub(crate) argv: &'a [String],
    /// Environment beside this process's own.
    pub(crate) environment: &'a [(&'static str, String)],
    /// It is ready when it has written a line that contains this.
    pub(crate) ready: Option<&'a str>,
    /// Keep its standard output whole.
    pub(crate) keep_output: bool,
}

impl Running {
    /// Starts a command and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be run, ended by itself, or was not ready in time; nothing is left of it.
    pub(crate) fn start(start: &Start<'_>) -> anyhow::Result<Self> {
        let (program, arguments) = start.argv.split_first().context("the command is empty")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for the lab, which ends what it started.
            .process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let words = Words::default();
        let (tell, lines) = channel();
        let mut output = None;
        if let Some(stdout) = child.stdout.take() {
            if start.keep_output {
                output = Some(thread::spawn(move || keep(stdout)));
            } else {
                listen(stdout, Arc::clone(&words), tell.clone());
            }
        }
        if let Some(stderr) = child.stderr.take() {
            listen(stderr, Arc::clone(&words), tell);
        }
        let mut running = Self {
            name: program.clone(),
            child,
            words,
            output,
        };
        if let Some(ready) = start.ready {
            running.wait_ready(&lines, ready)?;
        }
        Ok(running)
    }

    fn wait_ready(&mut self, lines: &Receiver<String>, ready: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_PATIENCE;
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) if line.contains(ready) => return Ok(()),
                Ok(_) => continue,
                Err(RecvTimeoutError::Timeout) => {}
                // It closed its output; whether it ended is seen below.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
            }
            self.check()?;
            if Instant::now() >= deadline {
                bail!(
                    "{} wrote no line with '{ready}' within {} s{}",
                    self.name,
                    READY_PATIENCE.as_secs(),
                    self.said()
                );
            }
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it ended by itself.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().context("asking for its state")? {
            Some(status) => bail!("{} ended by itself ({status}){}", self.name, self.said()),
            None => Ok(()),
        }
    }

    /// Ends it, and returns its standard output if that was kept.
    ///
    /// # Errors
    /// It had ended by itself, or did not end when told to (then it was killed).
    pub(crate) fn end(mut self) -> anyhow::Result<Vec<u8>> {
        self.check()?;
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            kill_process(pid, Signal::INT).context("telling it to end")?;
        }
        let deadline = Instant::now() + END_PATIENCE;
        let told_again = Instant::now() + END_PATIENCE / 2;
        let mut again = false;
        while self
            .child
            .try_wait()
            .context("waiting for its end")?
            .is_none()
        {
            let now = Instant::now();
            if now >= deadline {
                bail!(
                    "{} did not end within {} s of being told to, and was killed",
                    self.name,
                    END_PATIENCE.as_secs()
                );
            }
            // A shell in the background ignores the interrupt.
            if now >= told_again && !again {
                again = true;
                let pid = Pid::from_raw(self.child.id().cast_signed());
                pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            thread::sleep(LOOK);
        }
        let output = self.output.take().map(JoinHandle::join);
        Ok(output.and_then(Result::ok).unwrap_or_default())
    }

    /// What it wrote last, as the end of a message.
    fn said(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = words.iter().map(String::as_str).collect();
        match lines.is_empty() {
            true => "; it wrote nothing".to_owned(),
            false => format!("; it wrote: {}", lines.join(" / ")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

fn keep(stdout: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What is more is read all the same, or the command would stand still.
    let mut rest = BufReader::new(stdout);
    let _ = (&mut rest).take(OUTPUT_MAX).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut rest, &mut std::io::sink());
    bytes
}

/// Reads a stream to its end on a thread: lines go to whoever still waits for one.
fn listen(stream: impl Read + Send + 'static, words: Words, tell: Sender<String>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            // A line without an end is taken in parts.
            match (&mut reader).take(8192).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
            if text.is_empty() {
                continue;
            }
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            if words.len() == LINES_KEPT {
                words.pop_front();
            }
            words.push_back(text.clone());
            drop(words);
            let _ = tell.send(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, ready: Option<&str>) -> anyhow::Result<Running> {
        let argv = ["sh", "-c", script].map(str::to_owned);
        Running::start(&Start {
            argv: &argv,
            environment: &[],
            ready,
            keep_output: false,
        })
    }

    #[test]
    fn a_command_is_ready_when_it_says_so_and_ends_when_told() {
        let running = start(
            "echo starting; echo now ready >&2; exec sleep 600",
            Some("ready"),
        );
        let running = running.expect("it becomes ready");
        let pid = running.pid();
        running.end().expect("it ends");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_command_that_ends_by_itself_is_an_error_with_its_words() {
        let error = start("echo no such probe >&2; exit 3", Some("ready")).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("ended by itself (exit status: 3)"), "{text}");
        let error = start("true", None).and_then(|mut running| {
            running.child.wait()?;
            running.end()
        });
        assert!(error.is_err());
        assert!(start("exit 0", Some("ready")).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let argv = ["/not/there".to_owned()];
        let error = Running::start(&Start {
            argv: &argv,
            environment: &[],
            ready: None,
            keep_output: false,
        });
        assert!(format!("{:#}", error.unwrap_err()).contains("/not/there"));
    }
}
