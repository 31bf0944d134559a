//! The default eye: one probe at the end of every statement of one server.
//!
//! Neighbours: `waggle-probes` loads and attaches, `trust` holds what is read against what can
//! be, the aggregate takes what this yields. Invariants: statements yielded + lost = hits of the
//! probe; a field that live statements contradict is withdrawn and named.

mod trust;
mod wall;

use anyhow::Context;
use waggle_probes::sched::SchedProbe;
use waggle_probes::statement::{
    Breakdown, Counters, Events, Fit, Options, Program, StatementEvent, StatementProbe, trap_ns,
};
use waggle_server::process::ServerProcess;
use waggle_symbols::hook::Hook;
use waggle_symbols::layout::{LockTime, ThreadKind, server_status};
use waggle_symbols::{FieldName, StatementLayout};

use self::trust::Trust;
use super::{Abilities, Observation, ProbeSite, Source, SourceKind};
use crate::aggregate::Clocks;
use crate::budget::Shed;
use crate::statement::{Origin, Statement, Text, Thread, Times, Work};

/// Most events taken from the ring buffer before the clocks are read again.
const BATCH: usize = 4096;
/// Most batches in one poll: an agent that cannot keep up must come to its other duties, too.
const BATCHES_MAX: usize = 4;

/// The statement probe of one server.
pub struct UprobeSource {
    process: ServerProcess,
    fit: Fit,
    trust: Trust,
    probe: StatementProbe,
    events: Events,
    /// Counters as they were told last.
    told: Counters,
    /// Why a statement's time is not split, if the kernel refused that.
    no_times: Option<String>,
    /// The kernel half leaves out texts, and all but the count.
    left_out: (bool, bool),
}

impl UprobeSource {
    /// Causes a statement may be lost by.
    pub const LOST: &'static [&'static str] = &["ring_full"];

    /// Loads the probe for `process`; [`attach`](Self::attach) places it. With `sched`, statements'
    /// time is split.
    ///
    /// # Errors
    /// The build cannot be watched, or the kernel refuses the probe; says which, and what to do.
    pub fn load(
        process: &ServerProcess,
        options: &Options,
        sched: Option<&SchedProbe>,
    ) -> anyhow::Result<Self> {
        let name = format!("{} (process {})", process.exe.display(), process.pid);
        let fit = Fit::of(&process.exe_file()).with_context(|| format!("cannot watch {name}"))?;
        let site = match &fit.site {
            Ok(site) => site,
            Err(reason) => anyhow::bail!(
                "cannot watch {name}: {reason}; `waggle doctor` shows what this build offers"
            ),
        };
        let split = sched.map(|sched| {
            let hooks = &fit.waits;
            StatementProbe::load_with_times(&fit.layout, site, options, &Breakdown { sched, hooks })
        });
        // Without the breakdown all the rest is as good.
        let (split, no_times) = match split {
            Some(Ok(probe)) => (Some(probe), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let is_split = split.is_some();
        let mut probe = match split {
            Some(probe) => probe,
            None => StatementProbe::load(&fit.layout, site, options)
                .with_context(|| format!("cannot watch {name}"))?,
        };
        // Without the breakdown it would not be known when they begin.
        if let Some(site) = fit.routine_site.as_ref().filter(|_| is_split) {
            probe.ends_too_at(site);
        }
        let events = probe
            .events()
            .with_context(|| format!("cannot watch {name}"))?;
        Ok(Self {
            process: process.clone(),
            trust: Trust::new(&fit.layout),
            told: Counters::default(),
            no_times,
            left_out: (false, false),
            fit,
            probe,
            events,
        })
    }

    /// Places `program` in the server.
    ///
    /// # Errors
    /// The binary changed since it was read, or the kernel refuses.
    pub fn attach(&mut self, program: Program) -> anyhow::Result<()> {
        let pid = self.process.pid.cast_signed();
        self.probe
            .attach(pid, &self.process.exe_file(), program)
            .with_context(|| format!("attaching to process {pid}"))
    }

    /// Removes the probe; what is left in the ring buffer comes with the next poll.
    pub fn detach(&mut self) {
        self.probe.detach();
    }

    /// Where this build has a statement's facts.
    pub fn layout(&self) -> &StatementLayout {
        &self.fit.layout
    }

    /// True while the probe is in place.
    pub fn is_attached(&self) -> bool {
        self.probe.is_attached()
    }

    /// Leaves something out of what the kernel half does, or does it again.
    pub fn shed(&mut self, shed: Shed, on: bool) {
        match shed {
            Shed::Text => self.left_out.0 = on,
            Shed::Probe => self.left_out.1 = on,
            Shed::Samples | Shed::Classes => return,
        }
        // Where the map cannot be written, the agent alone does less.
        let _ = self.probe.leave_out(self.left_out.0, self.left_out.1);
    }

    /// Time of one trap with an empty program, measured on this process, ns; `None` if it cannot
    /// be.
    pub fn measure_trap_ns(&mut self) -> Option<f64> {
        trap_ns(&mut self.probe).ok()
    }

    /// Runs and total run time (ns) of the capturing program while
    /// [`waggle_probes::kernel::RunTimeStats`] was held.
    pub fn run_time(&self) -> Option<(u64, u64)> {
        self.probe.run_time()
    }

    /// The counters of the kernel half changed since they were told: tells the change.
    fn tell_counters(&mut self, each: &mut dyn FnMut(Observation<'_>)) {
        let Ok(now) = self.probe.counters() else {
            return;
        };
        if now == self.told {
            return;
        }
        let told = self.told;
        each(Observation::Hits(now.hits.saturating_sub(told.hits)));
        each(Observation::Lost {
            cause: "ring_full",
            count: now.ring_full.saturating_sub(told.ring_full),
        });
        each(Observation::Lost {
            cause: "shed",
            count: now.left_out.saturating_sub(told.left_out),
        });
        each(Observation::Degraded {
            cause: "times_unknown",
            count: now.threads_unknown.saturating_sub(told.threads_unknown),
        });
        self.told = now;
    }

    fn missing(&self) -> impl Iterator<Item = (FieldName, String)> + '_ {
        let unknown = self.fit.layout.missing();
        unknown
            .map(|(field, why)| (field, why.to_owned()))
            .chain(self.trust.withdrawn())
    }
}

impl Source for UprobeSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Uprobe
    }

    fn abilities(&self) -> Abilities {
        let site = self.probe.site();
        let site = ProbeSite {
            function: site.function.clone(),
            function_offset: site.function_offset,
            instruction: site.instruction.clone(),
            trap: site.trap.to_string(),
        };
        let mut missing: Vec<_> = self
            .missing()
            .map(|(field, why)| (field.as_str().to_owned(), why))
            .collect();
        missing.extend(
            self.no_times
                .iter()
                .map(|why| ("times".to_owned(), why.clone())),
        );
        for (hook, why) in self
            .probe
            .refused_hooks()
            .iter()
            .chain(&self.fit.waits_missing)
        {
            let what = match hook {
                Hook::RoutineStatementEnd => "statements within routines".to_owned(),
                _ => format!("wait class by {hook:?}"),
            };
            missing.push((what, why.clone()));
        }
        Abilities {
            missing,
            place: format!(
                "{}+{:#x}, {} {}",
                site.function, site.function_offset, site.instruction, site.trap
            ),
            build_id: self.fit.build_id.as_ref().map(ToString::to_string),
            site: Some(site),
            validated_on: Some(self.trust.checked()),
        }
    }

    fn poll(&mut self, each: &mut dyn FnMut(Observation<'_>)) -> anyhow::Result<usize> {
        let mut total = 0;
        for _ in 0..BATCHES_MAX {
            let clocks = Clocks::now();
            let Self {
                events, trust, fit, ..
            } = self;
            let layout = &fit.layout;
            trust.look(clocks);
            let mut unread = 0;
            let count = events.consume(BATCH, |event| {
                trust.check(&event);
                unread += u64::from(event.has_unread());
                each(Observation::Statement(understand(&event, trust, layout)));
            });
            total += count;
            if unread > 0 {
                each(Observation::Degraded {
                    cause: "fields_unread",
                    count: unread,
                });
            }
            if count < BATCH {
                break;
            }
        }
        self.tell_counters(each);
        Ok(total)
    }
}

/// What an event says, as far as it is believed.
#[inline]
fn understand<'a>(
    event: &StatementEvent<'a>,
    trust: &Trust,
    layout: &StatementLayout,
) -> Statement<'a> {
    let held = |field, value: u64| trust.holds(field).then_some(value);
    let number = |field, value: u32| trust.holds(field).then_some(value);
    let latency_ns = trust.latency_ns(event).filter(|_| start_is_own(event));
    Statement {
        end_ns: event.time_ns(),
        latency_ns,
        connection_id: held(FieldName::ConnectionId, event.connection_id()),
        thread: (event.thd() != 0).then(|| Thread {
            thd: event.thd(),
            tid: event.tid(),
        }),
        user: event.user(),
        host: event.host(),
        database: event.database(),
        text: if event.is_unread(FieldName::Query) {
            Text::Unknown
        } else {
            Text::Whole {
                sql: event.text(),
                truncated: event.is_truncated(),
            }
        },
        command: number(FieldName::Command, event.command()),
        origin: origin(event, layout),
        times: latency_ns.and_then(|ns| event.times(ns)).map(|t| Times {
            cpu_ns: t.cpu_ns,
            runnable_ns: t.runnable_ns,
            blocked_ns: t.blocked_ns,
        }),
        work: Work {
            rows_sent: held(FieldName::RowsSent, event.rows_sent()),
            rows_examined: held(FieldName::RowsExamined, event.rows_examined()),
            error: number(FieldName::ErrorNumber, event.error_number()),
            ..work(event, layout)
        },
    }
}

/// False if the start time is that of the statement that called the routine, as both flavours have
/// it there: only what is known of the thread tells when each part began.
#[inline]
fn start_is_own(event: &StatementEvent<'_>) -> bool {
    event.is_in_routine() != Some(true) || event.has_times()
}

/// What a statement did that need not be held against anything.
#[inline]
fn work(event: &StatementEvent<'_>, layout: &StatementLayout) -> Work {
    let status = event.server_status();
    let flag = |flags: u32| status.map(|status| status & flags != 0);
    let lock_us = event
        .lock_time()
        .and_then(|value| match layout.lock_time()? {
            LockTime::Duration(_) => Some(value),
            LockTime::Moment(_) => Some(value.saturating_sub(event.start_us()?)),
        });
    Work {
        rows_affected: event.rows_affected(),
        warnings: event.warnings(),
        lock_ns: lock_us.map(|us| us.saturating_mul(1000)),
        switches: event.switches(),
        storage_bytes: event.storage_bytes(),
        network_bytes: event.network_bytes(),
        tmp_tables: event.tmp_tables(),
        full_scans: event.full_scans(),
        no_index: flag(server_status::NO_INDEX_USED | server_status::NO_GOOD_INDEX_USED),
        in_transaction: flag(server_status::IN_TRANSACTION),
        ..Work::default()
    }
}

/// Who had it carried out. What an event does is a routine too; it is the event's.
#[inline]
fn origin(event: &StatementEvent<'_>, layout: &StatementLayout) -> Option<Origin> {
    let kind = event.system_thread().map(|kind| layout.thread_kind(kind));
    if event.is_in_routine() == Some(true) && kind != Some(ThreadKind::Event) {
        return Some(Origin::Routine);
    }
    match kind? {
        ThreadKind::Client => Some(Origin::Client),
        ThreadKind::Replication => Some(Origin::Replication),
        ThreadKind::Event => Some(Origin::Event),
        ThreadKind::Other => None,
    }
}
