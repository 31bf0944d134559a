//! The parent's side of a load that runs in the child.
//!
//! Invariants: no call waits longer than the child was told to take, and some patience; once the
//! child is gone or said what it cannot say, the load has failed, and every call answers at once
//! with what was known last.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Apart;
use super::figures::{check_counters, counts, latency};
use super::message::{Answer, Ask, Event, Open, SpecForm, plain};
use super::server::carried;
use super::socket::{
    Broken, EVENT_BYTES_MAX, MESSAGE_BYTES_MAX, receive, receive_while, send, send_descriptors,
};
use crate::load::AFTER_INTERRUPT;
use crate::tally::locked;
use crate::{Counters, LoadError, LoadReport, LoadSpec, LoadState, Progress, Snapshot};
use waggle_stats::latency::LatencyHistogram;

/// How long an answer may take beside what it is allowed to take: a machine under load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where lines and progress go.
pub(super) type Sink = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// Hands lines to the spec's own sink, if it has one.
pub(super) fn lines(spec: &LoadSpec) -> Option<Sink> {
    let log = spec.log.clone()?;
    Some(Arc::new(move |progress| {
        if let Progress::Message { thread, text } = progress {
            log(thread, text);
        }
    }))
}

/// A conversation with the child about one thing.
pub(super) struct Session {
    stream: UnixStream,
    side: UnixStream,
    listener: Option<JoinHandle<()>>,
}

impl Session {
    /// Begins it; `open` makes the first message from the spec.
    pub(super) fn open(
        apart: &Apart,
        spec: &LoadSpec,
        sink: Option<Sink>,
        open: impl FnOnce(Box<SpecForm>) -> Open,
    ) -> Result<Session, Broken> {
        let (stream, theirs) = UnixStream::pair()?;
        let (side, their_side) = UnixStream::pair()?;
        let (server, further) = carried(&spec.dsn);
        let mut descriptors = vec![OwnedFd::from(theirs), OwnedFd::from(their_side)];
        descriptors.extend(further);
        send_descriptors(&locked(&apart.control), &descriptors).map_err(|_| Broken::Closed)?;
        drop(descriptors);
        let listening = side.try_clone()?;
        let named = thread::Builder::new().name("waggle-lines".to_owned());
        let listener = named.spawn(move || listen(&listening, sink.as_ref()))?;
        let form = Box::new(SpecForm::new(spec, server));
        let session = Session {
            stream,
            side,
            listener: Some(listener),
        };
        send(&session.stream, &open(form), MESSAGE_BYTES_MAX)?;
        Ok(session)
    }

    /// The answer to the first message, however long it takes; told to stop when `cancel` is set.
    pub(super) fn opened(&self, cancel: &AtomicBool) -> Result<Answer, Broken> {
        let mut told = false;
        receive_while(&self.stream, MESSAGE_BYTES_MAX, &mut || {
            if !told && cancel.load(Ordering::Relaxed) {
                told = true;
                // One that is gone is noticed by the read.
                let _ = (&self.side).write_all(&[1]);
            }
            true
        })
    }

    fn ask(&self, ask: Ask, limit: Option<Duration>) -> Result<Answer, Broken> {
        send(&self.stream, &ask, MESSAGE_BYTES_MAX)?;
        let began = Instant::now();
        receive_while(&self.stream, MESSAGE_BYTES_MAX, &mut || {
            limit.is_none_or(|limit| began.elapsed() < limit.saturating_add(PATIENCE))
        })
    }

    /// Ends it; every line that was sent before is delivered.
    pub(super) fn close(&mut self) {
        // What is in the socket already can still be read; others may hold copies of these ends.
        let _ = self.side.shutdown(Shutdown::Both);
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(side: &UnixStream, sink: Option<&Sink>) {
    while let Ok(event) = receive::<Event>(side, EVENT_BYTES_MAX) {
        let Some(sink) = sink else { continue };
        match event {
            Event::Line { thread, text } => {
                let text = &plain(text);
                sink(Progress::Message { thread, text });
            }
            Event::Rows { inserted } => sink(Progress::Rows { inserted }),
        }
    }
    // Whoever sends anything else gets no further word in.
    let _ = side.shutdown(Shutdown::Both);
}

/// A load in the child.
pub(crate) struct Remote {
    apart: Arc<Apart>,
    known: Mutex<Known>,
    stop_grace: Duration,
}

/// What is known, and how to know more.
struct Known {
    /// `None`: it failed or ended.
    session: Option<Session>,
    /// Why it failed.
    failure: Option<LoadError>,
    snapshot: Snapshot,
    counters: Counters,
}

impl Remote {
    /// As [`crate::Load::start`].
    pub(crate) fn start(apart: Arc<Apart>, spec: &LoadSpec) -> Result<Remote, LoadError> {
        let session = Session::open(&apart, spec, lines(spec), Open::Start);
        let session = session.map_err(|broken| apart.lost(&broken))?;
        match session.opened(&spec.cancel) {
            Ok(Answer::Done) => {}
            Ok(Answer::Failed(error)) => return Err(apart.told(error)),
            Ok(_) => return Err(apart.lost(&unexpected())),
            Err(broken) => return Err(apart.lost(&broken)),
        }
        let remote = Remote {
            known: Mutex::new(Known {
                session: Some(session),
                failure: None,
                snapshot: Snapshot::nothing(),
                counters: Counters::default(),
            }),
            stop_grace: spec.stop_grace,
            apart,
        };
        // There is a first one, whatever happens later.
        remote.snapshot();
        let failure = locked(&remote.known).failure.take();
        failure.map_or(Ok(remote), Err)
    }

    /// Asks, and takes what `take` makes of the answer; `None` if the load has failed.
    fn ask<T>(
        &self,
        ask: Ask,
        limit: Option<Duration>,
        take: impl FnOnce(Answer, &mut Known) -> Result<T, Broken>,
    ) -> Option<T> {
        let mut known = locked(&self.known);
        let session = known.session.as_ref()?;
        let answer = session.ask(ask, limit);
        match answer.and_then(|answer| take(answer, &mut known)) {
            Ok(taken) => Some(taken),
            Err(broken) => {
                known.session = None;
                known.failure = Some(self.apart.lost(&broken));
                None
            }
        }
    }

    fn order(&self, ask: Ask, limit: Option<Duration>) {
        self.ask(ask, limit, |answer, _| match answer {
            Answer::Done => Ok(()),
            _ => Err(unexpected()),
        });
    }

    fn number(&self, ask: Ask) -> u64 {
        let number = self.ask(ask, AT_ONCE, |answer, _| match answer {
            Answer::Number(number) => counts([number]).map(|()| number),
            _ => Err(unexpected()),
        });
        number.unwrap_or(0)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.ask(Ask::Snapshot, AT_ONCE, |answer, known| match answer {
            Answer::Snapshot(form) => {
                known.snapshot = form.into_snapshot()?;
                Ok(())
            }
            _ => Err(unexpected()),
        });
        locked(&self.known).snapshot.clone()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.ask(Ask::Counters, AT_ONCE, |answer, known| match answer {
            Answer::Counters(counters) => {
                check_counters(&counters)?;
                known.counters = counters;
                Ok(())
            }
            _ => Err(unexpected()),
        });
        locked(&self.known).counters
    }

    /// However long it takes.
    pub(crate) fn pause(&self) {
        self.order(Ask::Pause, None);
    }

    pub(crate) fn pause_within(&self, limit: Duration) -> bool {
        let paused = self.ask(
            Ask::PauseWithin(limit),
            Some(limit),
            |answer, _| match answer {
                Answer::Flag(paused) => Ok(paused),
                _ => Err(unexpected()),
            },
        );
        paused.unwrap_or(false)
    }

    pub(crate) fn busy(&self) -> u32 {
        u32::try_from(self.number(Ask::Busy)).unwrap_or(u32::MAX)
    }

    pub(crate) fn resume(&self) {
        self.order(Ask::Resume, AT_ONCE);
    }

    /// It pauses meanwhile, however long that takes.
    pub(crate) fn reset(&self) {
        self.order(Ask::Reset, None);
    }

    pub(crate) fn set_event_limit(&self, limit: Option<u64>) {
        self.order(Ask::SetEventLimit(limit), AT_ONCE);
    }

    pub(crate) fn take_latency(&self) -> LatencyHistogram {
        let taken = self.ask(Ask::TakeLatency, AT_ONCE, |answer, _| match answer {
            Answer::Latency(sparse) => latency(sparse),
            _ => Err(unexpected()),
        });
        taken.unwrap_or_default()
    }

    pub(crate) fn cpu_ns(&self) -> u64 {
        self.number(Ask::CpuNs)
    }

    pub(crate) fn wait(&self, limit: Duration) -> LoadState {
        self.state_by(Ask::Wait(limit), limit)
    }

    pub(crate) fn state(&self) -> LoadState {
        self.state_by(Ask::State, Duration::ZERO)
    }

    fn state_by(&self, ask: Ask, limit: Duration) -> LoadState {
        let state = self.ask(ask, Some(limit), |answer, _| match answer {
            Answer::State(state) => Ok(state),
            _ => Err(unexpected()),
        });
        state.unwrap_or(LoadState::Failed)
    }

    pub(crate) fn stop_grace(&self) -> Duration {
        self.stop_grace
    }

    pub(crate) fn finish_within(self, grace: Duration) -> (LoadReport, Option<LoadError>) {
        // The workers get it, and then the script's end.
        let limit = 2 * (grace.saturating_add(AFTER_INTERRUPT));
        let finished = self.ask(
            Ask::Finish(grace),
            Some(limit),
            |answer, known| match answer {
                Answer::Finished(report, failure) => {
                    known.session = None;
                    let failure = failure.map(|error| self.apart.told(error));
                    Ok((report.into_report()?, failure))
                }
                _ => Err(unexpected()),
            },
        );
        let mut known = locked(&self.known);
        finished.unwrap_or_else(|| {
            let last = known.snapshot.clone();
            let report = LoadReport {
                counters: known.counters,
                latency: last.response.clone(),
                duration: Duration::ZERO,
                cpu_ns: last.cpu_ns,
                errors_by_errno: Default::default(),
                last,
            };
            (report, known.failure.take())
        })
    }
}

/// An answer that takes no waiting.
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// As a load here: it is stopped, and its threads are waited for.
impl Drop for Remote {
    fn drop(&mut self) {
        let grace = self.stop_grace;
        self.ask(
            Ask::Finish(grace),
            Some(2 * (grace.saturating_add(AFTER_INTERRUPT))),
            |_, known| {
                known.session = None;
                Ok(())
            },
        );
    }
}

pub(super) fn unexpected() -> Broken {
    Broken::Garbage("an answer to another question".to_owned())
}
