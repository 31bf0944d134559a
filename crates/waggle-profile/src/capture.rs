//! From probes to sums: what every watched thread did, as the rings tell it.
//!
//! The sampling probe says what ran, the timeline's records what waited, the agent's probe which
//! statement it was. Neighbours: `recorder` calls this from its thread; `offcpu` and `join` are the
//! arithmetic; `naming` makes the profile.
//!
//! Invariant: events are handed on in the order of their time, and a statement only after
//! everything that its thread did before its end.

mod rings;
mod watched;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use waggle_probes::clock::now_ns;
use waggle_probes::sample::{self, SampleProbe};
use waggle_probes::timeline::{self, TimelineProbe};
use waggle_trace::Event;
use waggle_trace::stack::{Stacks, names::Names};
use waggle_trace::timeline::Records;

use crate::join::Ran;
use crate::model::Losses;
use crate::offcpu::OffCpu;
use crate::processes::{Process, threads_of};
use crate::recorder::{RecordError, RecorderOptions};
use crate::statements::{Now, Statements};
use crate::sums::Sums;
use rings::put_away;

/// Attached probes, and what they told so far.
pub(crate) struct Capture {
    pub(crate) options: RecorderOptions,
    sampler: SampleProbe,
    scheduler: Option<TimelineProbe>,
    statements: Option<Statements>,
    records: Records,
    pub(crate) stacks: Stacks,
    pub(crate) names: Names,
    pub(crate) processes: Vec<Process>,
    pub(crate) sums: Sums,
    off: OffCpu,
    pending: VecDeque<Event>,
    unsorted: bool,
    handed_out_ns: u64,
    late: u64,
    /// Losses of the scheduler's records that were handed on.
    lost_told: u64,
    /// Threads of which nothing was heard, as they were away all the time.
    unheard: u64,
    pub(crate) notes: Vec<String>,
    /// When it began, monotonic, ns.
    pub(crate) first_ns: u64,
    on_since_ns: Option<u64>,
    pub(crate) duration_ns: u64,
}

impl Capture {
    /// Loads all that is asked for. Attaches nothing.
    ///
    /// # Errors
    /// A process cannot be looked at, or the kernel refuses.
    pub(crate) fn open(options: RecorderOptions) -> Result<Self, RecordError> {
        let mut names = Names::default();
        let mut sampler = SampleProbe::load(&sample::Options {
            frequency_hz: options.frequency_hz,
            kernel: options.kernel,
            ..sample::Options::default()
        })?;
        let mut processes = Vec::new();
        let pids: BTreeSet<u32> = options.pids.iter().copied().collect();
        for pid in &pids {
            let process = |source| RecordError::Process { pid: *pid, source };
            processes.push(Process::open(*pid).map_err(process)?);
            names.watch(*pid).map_err(process)?;
            sampler.watch(*pid)?;
        }
        let mut scheduler = None;
        if options.off_cpu {
            let with = timeline::Options {
                ring_bytes: options.ring_bytes,
                stacks: true,
                waker_stacks: false,
                followed_only: false,
            };
            let mut probe = TimelineProbe::load_beside(&with, Some(&sampler))?;
            pids.iter().try_for_each(|pid| probe.watch(*pid))?;
            scheduler = Some(probe);
        }
        let mut notes = Vec::new();
        let pids: Vec<u32> = pids.into_iter().collect();
        let statements = options
            .by_digest
            .then(|| Statements::load(&pids, |note| notes.push(note)))
            .flatten();
        Ok(Self {
            sums: Sums::new(statements.is_some(), options.timeline),
            options,
            sampler,
            scheduler,
            statements,
            records: Records::default(),
            stacks: Stacks::default(),
            names,
            processes,
            off: OffCpu::default(),
            pending: VecDeque::new(),
            unsorted: false,
            handed_out_ns: 0,
            late: 0,
            lost_told: 0,
            unheard: 0,
            notes,
            first_ns: 0,
            on_since_ns: None,
            duration_ns: 0,
        })
    }

    /// Switches the recording on or off; harmless if it is so already.
    ///
    /// # Errors
    /// The kernel refuses to attach.
    pub(crate) fn switch(&mut self, on: bool) -> Result<(), RecordError> {
        match (on, self.on_since_ns) {
            (true, None) => self.on(),
            (false, Some(since_ns)) => {
                self.off(since_ns);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// As [`Self::switch`]; if the kernel refuses, it stays off, and a note says so.
    pub(crate) fn try_switch(&mut self, on: bool) {
        if let Err(error) = self.switch(on) {
            let note = format!("not recorded when it was switched on: {error}");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    fn on(&mut self) -> Result<(), RecordError> {
        if let Err(error) = self.attach() {
            self.detach();
            return Err(error);
        }
        self.processes.iter_mut().for_each(Process::begin);
        let now = now_ns();
        if self.first_ns == 0 {
            self.first_ns = now;
        }
        self.on_since_ns = Some(now);
        Ok(())
    }

    fn attach(&mut self) -> Result<(), RecordError> {
        if let Some(statements) = &mut self.statements {
            statements
                .attach()
                .map_err(|error| RecordError::Statements(format!("{error:#}")))?;
        }
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.attach()?;
        }
        if self.options.on_cpu {
            self.sampler.attach()?;
        }
        Ok(())
    }

    /// Detaches everything; what each thread of the servers did last.
    fn detach(&mut self) -> HashMap<u32, Now> {
        self.sampler.detach();
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.detach();
        }
        let threads = self.statements.as_mut().map(|statements| {
            let threads = statements.threads();
            statements.detach();
            threads
        });
        threads.unwrap_or_default()
    }

    fn off(&mut self, since_ns: u64) {
        let until_ns = now_ns();
        self.duration_ns += until_ns.saturating_sub(since_ns);
        self.on_since_ns = None;
        self.processes.iter_mut().for_each(Process::pause);
        let threads = self.detach();
        self.read();
        self.count_unheard();
        self.hand_out(u64::MAX);
        let Self { off, sums, .. } = self;
        off.end(until_ns, |away| put_away(sums, &away));
        self.statements(u64::MAX);
        for met in &mut self.sums.threads {
            if let Some(now) = threads.get(&met.thread.tid) {
                met.idle = Some(now.idle);
            }
        }
        self.sums.settle(|tid, ran, at_ns| match threads.get(&tid) {
            _ if !ran => Ran::None,
            Some(now) if !now.idle && at_ns >= now.since_ns => Ran::Unfinished,
            _ => Ran::Between,
        });
    }

    /// Counts threads that never left a processor nor came to one. Whoever was met at one of the
    /// times that it was on is none.
    fn count_unheard(&mut self) {
        if self.scheduler.is_none() {
            return;
        }
        let met: HashSet<u32> = self.sums.threads.iter().map(|m| m.thread.tid).collect();
        let there = self.processes.iter().filter(|process| process.is_there());
        let threads = there.flat_map(|process| threads_of(process.pid));
        self.unheard = threads.filter(|tid| !met.contains(tid)).count() as u64;
    }

    /// The statements' digests and what was lost of them.
    pub(crate) fn heard(&self) -> Option<&Statements> {
        self.statements.as_ref()
    }

    /// What was lost on the way, by cause, as far as it is known here; `naming` knows of stacks.
    pub(crate) fn losses(&self) -> Losses {
        let mut lost = Losses::default();
        let sampler = self.sampler.counters();
        lost.samples = sampler.lost;
        lost.count("samples: ring full", sampler.lost);
        lost.count("stacks sent late: ring full", sampler.unsent);
        lost.count("kernel stacks unread", sampler.kernel_unread);
        lost.count("kernel stacks too deep", sampler.kernel_deep);
        // A tick more or less at the edges of each processor's time is none.
        let due = self.sampler.due();
        let missed = due.saturating_sub(sampler.ticks);
        if missed * 1000 > due {
            lost.count(
                "ticks that did not come (throttled, or the host was busy)",
                missed,
            );
        }
        if let Some(scheduler) = &self.scheduler {
            let counted = scheduler.counters();
            let untold = self.off.untold();
            lost.samples += counted.lost;
            lost.count("scheduler records: ring full", counted.lost);
            lost.count("stacks sent late: ring full", counted.unsent);
            lost.count("scheduler records read late", self.late);
            lost.count("times away not seen whole: records lost", untold.lossy);
            lost.count("times away without an end", untold.unannounced);
            lost.count(
                "threads away since before the beginning",
                untold.from_before,
            );
            lost.count("threads away all the time", self.unheard);
        }
        if let Some(statements) = &self.statements {
            for (cause, count) in statements.lost() {
                lost.count(cause, *count);
            }
        }
        lost.count(
            "moments of statements that took too long",
            self.sums.overdue(),
        );
        let unwatched = self.processes.iter().filter(|p| p.unwatched).count();
        lost.count("processes that could not be watched", unwatched as u64);
        lost.count("moments not kept one by one: too many", self.sums.untimed);
        lost
    }

    /// Files whose stacks are walked by frame pointers alone.
    pub(crate) fn by_frame_pointers(&self) -> &[String] {
        self.sampler.by_frame_pointers()
    }
}
