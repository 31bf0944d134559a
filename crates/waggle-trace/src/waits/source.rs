//! The scheduler's events of a process, in the order of their time.
//!
//! Neighbours: `waggle_probes::timeline` writes the records, `naming` says who is who.
//!
//! Invariant: events come in the order of their time. One that is written so late that others have
//! been handed out is given their time, and counted.

use std::collections::VecDeque;

use waggle_probes::kernel::RunTimeStats;
use waggle_probes::timeline::{Counters, Options, TimelineError, TimelineProbe};

use super::Waits;
use super::naming::Naming;
use crate::event::Event;
use crate::stack::{Stacks, names::Names};
use crate::timeline::Records;
use waggle_probes::clock::now_ns;

/// A processor of a virtual machine may stand still between the time stamp and the record.
const LATE_NS: u64 = 20_000_000;

/// The probe, attached, and what its records name.
#[derive(Debug)]
pub struct Source {
    probe: TimelineProbe,
    stats: Option<RunTimeStats>,
    pid: u32,
    records: Records,
    stacks: Stacks,
    names: Names,
    naming: Naming,
    pending: VecDeque<Event>,
    unsorted: bool,
    handed_out_ns: u64,
    late: u64,
    lost: u64,
}

impl Source {
    /// Attaches to the scheduler for process `pid`, whose threads are called `program`.
    ///
    /// # Errors
    /// The kernel refuses, or the process has ended.
    pub fn attach(pid: u32, program: &str, options: &Options) -> Result<Self, TimelineError> {
        let mut names = Names::default();
        names
            .watch(pid)
            .map_err(|source| TimelineError::Process { pid, source })?;
        let mut probe = TimelineProbe::load(options)?;
        probe.watch(pid)?;
        let stats = RunTimeStats::hold().ok();
        probe.attach()?;
        Ok(Self {
            probe,
            stats,
            pid,
            records: Records::default(),
            stacks: Stacks::default(),
            names,
            naming: Naming::new(program),
            pending: VecDeque::new(),
            unsorted: false,
            handed_out_ns: 0,
            late: 0,
            lost: 0,
        })
    }

    /// Hands `waits` what happened until shortly before `now_ns`, the time before this call on the
    /// monotonic clock. Returns how many records there were.
    pub fn poll(&mut self, now_ns: u64, waits: &mut Waits) -> usize {
        let Self {
            probe,
            records,
            stacks,
            pending,
            unsorted,
            handed_out_ns,
            late,
            ..
        } = self;
        let count = probe.read(|head, record| {
            records.events(head, record, stacks, |mut event| {
                if event.ns < *handed_out_ns {
                    *late += 1;
                    event.ns = *handed_out_ns;
                }
                *unsorted |= pending.back().is_some_and(|last| last.ns > event.ns);
                pending.push_back(event);
            });
        });
        self.note_losses(waits);
        self.hand_out(now_ns.saturating_sub(LATE_NS), waits);
        count
    }

    /// The kernel half counts its losses; a record tells of one only when its processor writes the
    /// next, which may be much later.
    fn note_losses(&mut self, waits: &mut Waits) {
        let lost = self.probe.counters().lost;
        if lost > self.lost {
            waits.lossy(now_ns(), lost - self.lost);
            self.lost = lost;
        }
    }

    fn hand_out(&mut self, until_ns: u64, waits: &mut Waits) {
        if self.unsorted {
            // Stable: of one processor, records of one time stay in order.
            self.pending.make_contiguous().sort_by_key(|event| event.ns);
            self.unsorted = false;
        }
        while let Some(event) = self.pending.front().copied()
            && event.ns <= until_ns
        {
            self.pending.pop_front();
            self.handed_out_ns = event.ns;
            let known = (&self.records, &self.stacks, &mut self.names);
            let naming = &mut self.naming;
            waits.record(&event, |thread, stack| naming.role(known, thread, stack));
        }
    }

    /// Takes note of what the process has mapped since.
    ///
    /// # Errors
    /// The process has ended.
    pub fn refresh(&mut self) -> Result<(), TimelineError> {
        let pid = self.pid;
        self.probe.watch(pid)?;
        self.names
            .watch(pid)
            .map_err(|source| TimelineError::Process { pid, source })
    }

    /// Detaches and hands out the rest. Returns run counts and run times (ns) of the programs.
    pub fn finish(&mut self, waits: &mut Waits) -> Vec<(&'static str, u64, u64)> {
        let runs = self.probe.run_times();
        self.probe.detach();
        self.stats = None;
        self.poll(u64::MAX, waits);
        self.hand_out(u64::MAX, waits);
        runs
    }

    /// What the kernel half counted.
    pub fn counters(&self) -> Counters {
        self.probe.counters()
    }

    /// Events whose record came later than others that were handed out.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Files whose code was walked by frame pointers.
    pub fn by_frame_pointers(&self) -> &[String] {
        self.probe.by_frame_pointers()
    }

    /// The thread's name, as far as it was seen.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// All stacks, and who names them.
    pub fn stacks(&mut self) -> (&Stacks, &mut Names) {
        (&self.stacks, &mut self.names)
    }
}
