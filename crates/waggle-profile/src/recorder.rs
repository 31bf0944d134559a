//! A recording that runs beside what it records.
//!
//! A thread of its own reads the rings, since their room is limited, and names everything at the
//! end. Neighbour: `capture` does the work. Invariant: probes live no longer than the recorder.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use waggle_probes::sample::{FREQUENCY_HZ_MAX, SampleError};
use waggle_probes::timeline::TimelineError;

use crate::capture::Capture;
use crate::model::Profile;
use crate::naming;

/// The ring holds some tenths of a second of a busy server.
const POLL: Duration = Duration::from_millis(25);
/// Without records of the scheduler and of statements little comes.
const POLL_SLOW: Duration = Duration::from_millis(200);
/// What a process maps while it runs is noticed this late.
const REFRESH: Duration = Duration::from_secs(2);
/// A command's children are noticed this late.
const REFRESH_CHILDREN: Duration = Duration::from_millis(20);

/// What is recorded.
#[derive(Debug, Clone)]
pub struct RecorderOptions {
    /// Of which processes.
    pub pids: Vec<u32>,
    /// Samples a second of a running thread's time, 1 to 10,000.
    pub frequency_hz: u32,
    /// What runs.
    pub on_cpu: bool,
    /// What waits, and what could run.
    pub off_cpu: bool,
    /// The kernel's own calls, of what runs.
    pub kernel: bool,
    /// Which statement each thread of a server ran.
    pub by_digest: bool,
    /// Each thread by itself.
    pub by_thread: bool,
    /// Functions that were inlined, where debug information tells.
    pub inlined: bool,
    /// Source lines, likewise.
    pub lines: bool,
    /// Every sample and wait by itself, too.
    pub timeline: bool,
    /// Processes that these start, too.
    pub children: bool,
    /// Wait for [`Recorder::toggle`] before anything is recorded.
    pub paused: bool,
    /// Room for the scheduler's records, bytes.
    pub ring_bytes: u32,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            pids: Vec::new(),
            frequency_hz: 99,
            on_cpu: true,
            off_cpu: false,
            kernel: false,
            by_digest: false,
            by_thread: false,
            inlined: false,
            lines: false,
            timeline: false,
            children: false,
            paused: false,
            ring_bytes: 16 << 20,
        }
    }
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The options ask for nothing, or for what cannot be.
    #[error("{0}")]
    Options(String),
    /// A process cannot be looked at.
    #[error("cannot look at process {pid}: {source}; does it run, and have you the rights?")]
    Process {
        /// Which.
        pid: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel refused to sample.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The kernel refused to tell of the scheduler.
    #[error(transparent)]
    Scheduler(#[from] TimelineError),
    /// A server's statements cannot be watched.
    #[error("watching statements: {0}")]
    Statements(String),
    /// The recording's thread could not be started.
    #[error("starting the recording's thread: {0}")]
    Thread(std::io::Error),
    /// The recording's thread panicked.
    #[error("the recording broke off; this is a bug of waggle")]
    Broken,
}

enum Command {
    Switch(bool),
    Stop,
}

/// A recording under way. Dropped without [`Recorder::stop`], it ends and leaves nothing.
#[derive(Debug)]
pub struct Recorder {
    commands: Sender<Command>,
    thread: Option<JoinHandle<Result<Profile, RecordError>>>,
}

impl Recorder {
    /// Loads, attaches and begins. When this returns, everything is attached.
    ///
    /// # Errors
    /// A process cannot be looked at, or the kernel refuses; nothing is attached then.
    pub fn start(options: RecorderOptions) -> Result<Self, RecordError> {
        check(&options)?;
        let (commands, orders) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let started = jiff::Timestamp::now().to_string();
                let capture = open(options);
                match capture {
                    Ok(capture) => {
                        let _ = ready.send(Ok(()));
                        record(capture, &orders, started)
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        Ok(Profile::default())
                    }
                }
            })
            .map_err(RecordError::Thread)?;
        let recorder = Self {
            commands,
            thread: Some(thread),
        };
        is_ready.recv().map_err(|_| RecordError::Broken)??;
        Ok(recorder)
    }

    /// Records from now on, or no more. If the kernel refuses to attach again, the profile has a
    /// note of it.
    pub fn toggle(&self, on: bool) {
        // A recording that has ended is switched in vain.
        let _ = self.commands.send(Command::Switch(on));
    }

    /// Ends the recording. Looking up names may take some seconds.
    ///
    /// # Errors
    /// The recording broke off.
    pub fn stop(mut self) -> Result<Profile, RecordError> {
        let _ = self.commands.send(Command::Stop);
        let thread = self.thread.take();
        let ended = thread.map(JoinHandle::join);
        ended.and_then(Result::ok).ok_or(RecordError::Broken)?
    }
}

fn check(options: &RecorderOptions) -> Result<(), RecordError> {
    let wrong = |what: &str| Err(RecordError::Options(what.to_owned()));
    if options.pids.is_empty() {
        return wrong("no process is named");
    }
    if !options.on_cpu && !options.off_cpu {
        return wrong("neither what runs nor what waits is asked for");
    }
    if !(1..=FREQUENCY_HZ_MAX).contains(&options.frequency_hz) {
        return wrong("a frequency is 1 to 10000 Hz");
    }
    Ok(())
}

fn open(options: RecorderOptions) -> Result<Capture, RecordError> {
    let paused = options.paused;
    let mut capture = Capture::open(options)?;
    if !paused {
        capture.switch(true)?;
    }
    Ok(capture)
}

/// Reads until it is told to stop, or until nobody is there to tell it.
fn record(
    mut capture: Capture,
    orders: &Receiver<Command>,
    started: String,
) -> Result<Profile, RecordError> {
    let options = &capture.options;
    let is_busy = options.off_cpu || options.by_digest || options.children;
    let pause = if is_busy { POLL } else { POLL_SLOW };
    let every = if capture.options.children {
        REFRESH_CHILDREN
    } else {
        REFRESH
    };
    let mut refreshed = Instant::now();
    loop {
        match orders.recv_timeout(pause) {
            Ok(Command::Switch(on)) => capture.try_switch(on),
            Ok(Command::Stop) => break,
            Err(RecvTimeoutError::Disconnected) => return Ok(Profile::default()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        capture.poll();
        if refreshed.elapsed() >= every {
            refreshed = Instant::now();
            capture.refresh();
        }
    }
    capture.switch(false)?;
    Ok(naming::profile(&mut capture, started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_recorded_is_refused_before_anything_is_opened() {
        let own = RecorderOptions {
            pids: vec![std::process::id()],
            ..RecorderOptions::default()
        };
        for wrong in [
            RecorderOptions::default(),
            RecorderOptions {
                on_cpu: false,
                ..own.clone()
            },
            RecorderOptions {
                frequency_hz: 0,
                ..own.clone()
            },
            RecorderOptions {
                frequency_hz: 10_001,
                ..own.clone()
            },
        ] {
            let started = Recorder::start(wrong);
            assert!(matches!(started, Err(RecordError::Options(_))));
        }
    }
}
