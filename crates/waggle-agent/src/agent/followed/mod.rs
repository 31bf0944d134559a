//! One server under watch: its source, what was summed of it, and what its process uses.
//!
//! Neighbours: the agent's loop owns; `locks` has what concerns its locks and sessions.
//!
//! Invariant: what a server yielded stands, whatever fails or ends later.

mod locks;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use waggle_probes::sched::LiveThread;
use waggle_probes::statement::Program;
use waggle_server::discovery::Found;
use waggle_server::process::ServerProcess;

use super::Settings;
use crate::aggregate::{Aggregate, Clocks, Hearers, Tap};
use crate::budget::Shed;
use crate::host::{ProcessSample, ServerStatus};
use crate::hosts::{ProcessSampler, StatusSampler};
use crate::locks::LockWatch;
use crate::source::uprobe::UprobeSource;
use crate::source::{Abilities, Observation, Source};
use crate::sql::Access;
use crate::statement::ServerId;
use crate::view::{LoadView, ServerView};
use locks::moment;

/// Who takes observations.
type Each<'a> = &'a mut dyn FnMut(Observation<'_>);

/// The eye on a server: the probe, which can be switched, or another.
pub(super) enum Eye {
    Probe(Box<UprobeSource>),
    Other(Box<dyn Source>),
}

impl Eye {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Probe(probe) => &mut **probe,
            Self::Other(source) => &mut **source,
        }
    }
}

/// How often a server's probes were hit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hits {
    pub(super) statements: u64,
    /// Of those on locks, and how long their programs ran for them, ns.
    pub(super) locks: u64,
    pub(super) lock_ns: u64,
}

/// A server and all that is known of it.
pub(super) struct Followed {
    pub(super) id: ServerId,
    pub(super) process: ServerProcess,
    /// How operators know it.
    instance: Arc<str>,
    pub(super) pidfd: OwnedFd,
    pub(super) aggregate: Aggregate,
    /// `None` once it is watched no more.
    eye: Option<Eye>,
    locks: Option<Box<LockWatch>>,
    /// Why there is none, if it was tried.
    no_locks: Option<String>,
    /// Why time is not split, if it is not.
    pub(super) no_times: Option<String>,
    access: Option<Access>,
    /// What the source could know, kept for after its end.
    abilities: Abilities,
    kind: crate::source::SourceKind,
    /// When watching began: us since 1970, and ns of the monotonic clock.
    started: (u64, u64),
    /// Why it is watched no more, and since when.
    pub(super) ended: Option<(Arc<str>, Instant)>,
    sampler: Option<ProcessSampler>,
    sample: Option<ProcessSample>,
    status_sampler: Option<StatusSampler>,
    status: Option<ServerStatus>,
    /// Its ring buffer is the one that is larger than the others'.
    pub(super) has_first_ring: bool,
    /// What was told of it.
    told: Hits,
}

impl Followed {
    /// Begins to follow a server through `eye`; a probe is not attached yet.
    pub(super) fn new(
        id: ServerId,
        found: Found,
        mut eye: Eye,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let process = found.process;
        let pid = Pid::from_raw(process.pid.cast_signed()).context("process id 0")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .with_context(|| format!("cannot follow process {}", process.pid))?;
        let clocks = Clocks::now();
        let lost = match &eye {
            Eye::Probe(_) => UprobeSource::LOST,
            Eye::Other(_) => &[],
        };
        let seed = clocks.realtime_ns ^ u64::from(process.pid) << 32;
        let access = settings.access.clone();
        let status = access.as_ref().map(StatusSampler::new).transpose();
        let mut aggregate = Aggregate::new((id, process.pid), &settings.aggregate, seed, lost);
        if let Some(access) = &access {
            aggregate.set_own(Arc::clone(&access.own));
        }
        Ok(Self {
            id,
            instance: found.instance.name.into(),
            pidfd,
            aggregate,
            abilities: eye.source().abilities(),
            kind: eye.source().kind(),
            eye: Some(eye),
            locks: None,
            no_locks: None,
            no_times: None,
            access,
            started: (clocks.realtime_ns / 1000, clocks.monotonic_ns),
            ended: None,
            // A server that cannot be sampled is watched all the same.
            sampler: ProcessSampler::new(process.pid).ok(),
            sample: None,
            status_sampler: status.context("cannot read the server's counters")?,
            status: None,
            has_first_ring: false,
            told: Hits::default(),
            process,
        })
    }

    /// Has another name from now on: it listens by now.
    pub(super) fn rename(&mut self, instance: Arc<str>) {
        self.instance = instance;
    }

    /// Its probe, if that is its source and it is still watched.
    pub(super) fn probe(&mut self) -> Option<&mut UprobeSource> {
        match &mut self.eye {
            Some(Eye::Probe(probe)) => Some(&mut **probe),
            _ => None,
        }
    }

    /// Places `program`; a source that is no probe is always in place.
    pub(super) fn attach(&mut self, program: Program) -> anyhow::Result<()> {
        self.probe().map_or(Ok(()), |probe| probe.attach(program))
    }

    /// Begins to capture: all that explains statements, then these, since whatever takes long after
    /// them leaves their events unread.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.watch_locks();
        let now = Clocks::now();
        self.started = (now.realtime_ns / 1000, now.monotonic_ns);
        let attached = self.attach(Program::Capture);
        if attached.is_err() {
            self.locks = None;
        }
        attached
    }

    /// Takes everything the source has. Returns how many observations.
    pub(super) fn drain(
        &mut self,
        clocks: Clocks,
        tap: Option<&mut (dyn Tap + '_)>,
    ) -> anyhow::Result<usize> {
        self.take_from(clocks, tap, |source, each| source.poll(each))
    }

    /// Takes what `read` yields of the source.
    fn take_from(
        &mut self,
        clocks: Clocks,
        tap: Option<&mut (dyn Tap + '_)>,
        read: impl FnOnce(&mut dyn Source, Each<'_>) -> anyhow::Result<usize>,
    ) -> anyhow::Result<usize> {
        let Self {
            eye: Some(eye),
            aggregate,
            locks,
            ..
        } = self
        else {
            return Ok(0);
        };
        let mut hearers = Hearers {
            tap,
            locks: locks.as_deref_mut(),
        };
        let polled = read(eye.source(), &mut |observation| {
            aggregate.observe(observation, clocks, &mut hearers);
        });
        self.drain_locks(clocks);
        polled
    }

    /// Removes a probe and takes what is left.
    pub(super) fn detach(&mut self, tap: Option<&mut (dyn Tap + '_)>) -> anyhow::Result<usize> {
        if self.probe().is_none() {
            return self.take_from(Clocks::now(), tap, |source, each| source.finish(each));
        }
        // The kernel takes some 30 ms to be sure that no probe runs, in which the server goes on
        // and nothing is read: that has to find room.
        let mut tap = tap;
        let mut total = self.drain(Clocks::now(), super::reborrow(&mut tap))?;
        if let Some(probe) = self.probe() {
            probe.detach();
        }
        // One poll takes a part only; nothing comes any more.
        loop {
            match self.drain(Clocks::now(), super::reborrow(&mut tap))? {
                0 => return Ok(total),
                count => total += count,
            }
        }
    }

    /// It is watched no more: what is left is taken, the source closed.
    pub(super) fn end(&mut self, why: &str, tap: Option<&mut (dyn Tap + '_)>) {
        // What it yielded stands, and there is nobody left to yield more.
        let _ = self.detach(tap);
        self.end_locks();
        if let Some(mut eye) = self.eye.take() {
            self.abilities = eye.source().abilities();
        }
        self.sampler = None;
        self.status_sampler = None;
        self.ended = Some((why.into(), Instant::now()));
    }

    /// Leaves something out, or does it again.
    pub(super) fn shed(&mut self, shed: Shed, on: bool) {
        match shed {
            Shed::Text => self.aggregate.shed_text(on),
            Shed::Samples => self.aggregate.shed_samples(on),
            Shed::Classes | Shed::Probe => {}
        }
        if let Some(probe) = self.probe() {
            probe.shed(shed, on);
        }
    }

    /// Reads what process and server say of themselves.
    pub(super) fn sample(&mut self, threads: &HashMap<u32, LiveThread>) {
        self.look_at_sessions(threads);
        if let Some(sampler) = &mut self.sampler {
            self.sample = sampler.sample().ok().or(self.sample.take());
        }
        if let Some(sampler) = &mut self.status_sampler {
            self.status = Some(sampler.sample());
        }
    }

    /// What its probes were hit since the last call.
    pub(super) fn new_hits(&mut self) -> Hits {
        let told = self.told;
        let locks = self.locks.as_ref().map(|locks| locks.cost());
        let (locks, lock_ns) = locks.unwrap_or((told.locks, told.lock_ns));
        self.told = Hits {
            statements: self.aggregate.hits(),
            locks: locks.max(told.locks),
            lock_ns: lock_ns.max(told.lock_ns),
        };
        Hits {
            statements: self.told.statements - told.statements,
            locks: self.told.locks - told.locks,
            lock_ns: self.told.lock_ns - told.lock_ns,
        }
    }

    /// What the source can know.
    pub(super) fn abilities(&mut self) -> Abilities {
        if let Some(eye) = &mut self.eye {
            self.abilities = eye.source().abilities();
            let of_locks = self.missing_of_locks();
            let of_times = self.no_times.iter();
            let of_times = of_times.map(|why| ("times".to_owned(), why.clone()));
            self.abilities
                .missing
                .extend(of_locks.into_iter().chain(of_times));
        }
        self.abilities.clone()
    }

    /// `MySQL 9.7.4`, for people.
    pub(super) fn name(&self) -> String {
        let version = self.process.version.as_deref();
        format!(
            "{} {}",
            self.process.flavour.name(),
            version.unwrap_or("of unknown version")
        )
    }

    /// Its part of a view.
    pub(super) fn view(&mut self, clocks: Clocks) -> ServerView {
        let abilities = self.abilities();
        let mut view = ServerView {
            id: self.id,
            pid: self.process.pid,
            flavour: self.process.flavour.name(),
            version: self.process.version.as_deref().unwrap_or_default().into(),
            instance: Arc::clone(&self.instance),
            source: self.kind,
            abilities,
            started_us: self.started.0,
            started_ns: self.started.1,
            ended: self.ended.as_ref().map(|(why, _)| Arc::clone(why)),
            hits: 0,
            captured: 0,
            in_routines: 0,
            own: 0,
            lost: Vec::new(),
            degraded: Vec::new(),
            other_commands: 0,
            digests: Vec::new(),
            other: None,
            retired: None,
            load: LoadView::default(),
            waits: Vec::new(),
            waits_ended: [(0, 0); 3],
            deadlocks: Vec::new(),
            deadlock_count: 0,
            process: self.sample.clone(),
            status: self.status.clone(),
        };
        if let Some(locks) = &mut self.locks {
            view.waits = locks.waits(&moment(clocks));
        }
        self.aggregate.fill(&mut view, clocks);
        view
    }
}
