//! The child's side: a thread for each session, which does what it is told.
//!
//! Invariant: a session ends with its socket, and the load with the session.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use waggle_stats::latency::SparseLatency;

use super::figures::{ReportForm, SnapshotForm};
use super::message::{Answer, Ask, ErrorForm, Event, Open, SpecForm};
use super::server::Reached;
use super::socket::{
    Broken, EVENT_BYTES_MAX, MESSAGE_BYTES_MAX, receive, receive_descriptors, send,
};
use crate::load::Threads;
use crate::tally::locked;
use crate::{LoadError, LoadSpec, LogSink, Progress, command};

/// A line of a script is cut to this, bytes.
const LINE_BYTES_MAX: usize = EVENT_BYTES_MAX / 2;

/// Serves until the parent is gone.
pub(super) fn run(control: &UnixStream) {
    while let Some(descriptors) = receive_descriptors(control) {
        let mut descriptors = descriptors.into_iter();
        let (Some(stream), Some(side)) = (descriptors.next(), descriptors.next()) else {
            continue;
        };
        let further: Vec<OwnedFd> = descriptors.collect();
        let named = thread::Builder::new().name("waggle-session".to_owned());
        // Without a thread the sockets close, which the parent reports.
        let _ = named.spawn(move || {
            // A parent that is gone needs no answer.
            let _ = session(&stream.into(), side.into(), further);
        });
    }
}

fn session(stream: &UnixStream, side: UnixStream, descriptors: Vec<OwnedFd>) -> Result<(), Broken> {
    let open: Open = receive(stream, MESSAGE_BYTES_MAX)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let side = Side::new(side, cancel.clone())?;
    let session = Session {
        stream,
        side,
        cancel,
    };
    match open {
        Open::Check(form) => session.answered(*form, descriptors, |spec| {
            command::check(spec).map(Answer::Options)
        }),
        Open::Command(form, name) => session.command(*form, descriptors, &name),
        Open::Commands(form) => session.answered(*form, descriptors, |spec| {
            command::commands(spec).map(Answer::Commands)
        }),
        Open::Checks(form, run, length) => {
            let run = run.into_snapshot()?;
            session.answered(*form, descriptors, |spec| {
                command::checks(spec, &run, length).map(Answer::Checks)
            })
        }
        Open::Start(form) => session.load(*form, descriptors),
    }
}

/// What a session has to answer with.
struct Session<'a> {
    stream: &'a UnixStream,
    side: Side,
    cancel: Arc<AtomicBool>,
}

impl Session<'_> {
    fn spec(
        &self,
        form: SpecForm,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(LoadSpec, Reached), Broken> {
        let wants_lines = form.wants_lines;
        let mut form = form;
        let reached =
            Reached::new(std::mem::take(&mut form.server), descriptors).map_err(Broken::Garbage)?;
        let mut spec = form.into_spec(reached.dsn.clone(), self.cancel.clone());
        if wants_lines {
            let side = self.side.clone();
            let log: LogSink = Arc::new(move |thread, text| side.line(thread, text));
            spec.log = Some(log);
        }
        Ok((spec, reached))
    }

    fn send(&self, answer: &Answer) -> Result<(), Broken> {
        send(self.stream, answer, MESSAGE_BYTES_MAX)
    }

    fn answered(
        &self,
        form: SpecForm,
        descriptors: Vec<OwnedFd>,
        work: impl FnOnce(&LoadSpec) -> Result<Answer, LoadError>,
    ) -> Result<(), Broken> {
        let (spec, reached) = self.spec(form, descriptors)?;
        let answer = work(&spec).unwrap_or_else(|error| failed(error, &reached));
        self.send(&answer)
    }

    fn command(&self, form: SpecForm, descriptors: Vec<OwnedFd>, name: &str) -> Result<(), Broken> {
        let side = self.side.clone();
        let progress = move |progress: Progress<'_>| match progress {
            Progress::Message { thread, text } => side.line(thread, text),
            Progress::Rows { inserted } => side.tell(&Event::Rows { inserted }),
        };
        self.answered(form, descriptors, |spec| {
            command::command(spec, name, progress).map(|()| Answer::Done)
        })
    }

    fn load(&self, form: SpecForm, descriptors: Vec<OwnedFd>) -> Result<(), Broken> {
        let (spec, reached) = self.spec(form, descriptors)?;
        let load = match Threads::start(&spec) {
            Ok(load) => load,
            Err(error) => return self.send(&failed(error, &reached)),
        };
        self.send(&Answer::Done)?;
        loop {
            let ask = receive(self.stream, MESSAGE_BYTES_MAX)?;
            if let Ask::Finish(grace) = ask {
                let (report, failure) = load.finish_within(grace);
                let (from, to) = &reached.stand_in;
                let report = ReportForm::new(&report).renamed(from, to);
                let failure = failure.map(|error| ErrorForm::from(error).renamed(from, to));
                return self.send(&Answer::Finished(Box::new(report), failure));
            }
            self.send(&asked(&load, ask, &reached))?;
        }
    }
}

fn asked(load: &Threads, ask: Ask, reached: &Reached) -> Answer {
    match ask {
        Ask::Snapshot => {
            let (from, to) = &reached.stand_in;
            let form = SnapshotForm::new(&load.snapshot()).renamed(from, to);
            return Answer::Snapshot(Box::new(form));
        }
        Ask::Counters => return Answer::Counters(load.counters()),
        Ask::PauseWithin(limit) => return Answer::Flag(load.pause_within(limit)),
        Ask::Busy => return Answer::Number(load.busy().into()),
        Ask::TakeLatency => return Answer::Latency(SparseLatency::from(&load.take_latency())),
        Ask::CpuNs => return Answer::Number(load.cpu_ns()),
        Ask::Wait(limit) => return Answer::State(load.wait(limit)),
        Ask::State | Ask::Finish(_) => return Answer::State(load.state()),
        Ask::Pause => load.pause(),
        Ask::Resume => load.resume(),
        Ask::Reset => load.reset(),
        Ask::SetEventLimit(limit) => load.set_event_limit(limit),
    }
    Answer::Done
}

fn failed(error: LoadError, reached: &Reached) -> Answer {
    let (from, to) = &reached.stand_in;
    Answer::Failed(ErrorForm::from(error).renamed(from, to))
}

/// What goes beside questions and answers: lines to the parent, and from it one byte that means to
/// stop.
#[derive(Clone)]
struct Side(Arc<Mutex<UnixStream>>);

impl Side {
    fn new(stream: UnixStream, cancel: Arc<AtomicBool>) -> Result<Side, Broken> {
        let listening = stream.try_clone()?;
        let named = thread::Builder::new().name("waggle-cancel".to_owned());
        named.spawn(move || {
            let mut byte = [0];
            if let Ok(1) = std::io::Read::read(&mut &listening, &mut byte) {
                cancel.store(true, Ordering::Relaxed);
            }
        })?;
        Ok(Side(Arc::new(Mutex::new(stream))))
    }

    fn line(&self, thread: u32, text: &str) {
        let mut end = text.len().min(LINE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.tell(&Event::Line {
            thread,
            text: text[..end].to_owned(),
        });
    }

    fn tell(&self, event: &Event) {
        // A parent that does not listen is no reason to end a load.
        let _ = send(&locked(&self.0), event, EVENT_BYTES_MAX);
    }
}
