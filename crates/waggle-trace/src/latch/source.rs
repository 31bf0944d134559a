//! From a process to the waits of its threads for latches.
//!
//! Attaches what there is to attach, reads the ring, puts records in the order of their time, says
//! of each sleep what sort of latch it is for, and joins. Neighbours: `join` makes waits,
//! [`super::naming`] names them.
//!
//! Invariant: a record is handed on only when none that is earlier can still come; what the kernel
//! half lost becomes a span in which every wait is flagged.

mod places;
mod read;

use std::collections::HashSet;
use std::path::PathBuf;

use waggle_probes::clock::now_ns;
use waggle_probes::latch::{self as probe, LatchProbe};
use waggle_symbols::LatchLayout;

use super::find::{Found, Options, SourceError, number_in_thread, static_probes};
use super::join::{Join, JoinCounters, Wait};
use super::naming::Naming;
use super::seen::{Seen, What};
use super::table::Table;
use crate::attached::Attached;
use crate::event::Thread;
use crate::stack::Stacks;
use places::{Places, nothing, refused};

/// A record may come this much later than its time says, ns: a thread that was preempted between
/// its time stamp and its record.
const LATE_NS: u64 = 20_000_000;

/// What is watched, and what was found so far.
#[derive(Debug)]
pub struct Source {
    probe: LatchProbe,
    join: Join,
    /// The sums.
    pub table: Table,
    /// Names.
    pub naming: Naming,
    /// Stacks.
    pub stacks: Stacks,
    found: Found,
    places: Places,
    /// What was counted by joins before this one.
    before: JoinCounters,
    /// When waits may begin that are whole, and when they have to have ended, ns.
    window: (u64, u64),
    attached: Attached,
    waiting: Vec<Seen>,
    lost: Vec<u64>,
    read_ns: u64,
    /// Up to when all was joined.
    handed_ns: u64,
    began_ns: u64,
    /// What latches are slept on: all else that is let go of is none.
    latches: HashSet<u64>,
    /// Threads that sleep for something else.
    elsewhere: read::Elsewhere,
    conditions: u64,
    /// Hits that are of no account.
    forgotten: u64,
}

/// A slice of time that is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Threads that still slept.
    pub asleep: u64,
    /// Of these, since so long or longer as was asked about.
    pub asleep_long: u64,
}

impl Source {
    /// Attaches.
    ///
    /// # Errors
    /// The program cannot be read, the kernel refuses, or there is nothing to attach at.
    pub fn attach(options: &Options) -> Result<Self, SourceError> {
        let pid = options.pid;
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let unreadable = |why: String| SourceError::Program { pid, why };
        let mut found = Found::default();
        let layout = match (options.flavour, &options.usdt) {
            (Some(_), None) => {
                LatchLayout::open(&program).map_err(|error| unreadable(error.to_string()))?
            }
            _ => LatchLayout::default(),
        };
        found.missing.extend(layout.missing.iter().cloned());
        let statics = match &options.usdt {
            Some(provider) => static_probes(pid, provider, &mut found).map_err(unreadable)?,
            None => Vec::new(),
        };
        let number = number_in_thread(pid);
        if let (Err(why), true) = (&number, layout.mutex.is_some()) {
            let what = "owner's word of a mutex".to_owned();
            found.missing.push((what, why.clone()));
        }
        let room = probe::Options {
            ring_bytes: options.ring_bytes,
            bitset: options.rw_locks,
        };
        let mut probe = LatchProbe::load(pid, &layout, number.ok(), &statics, &room)?;
        let places = Places {
            program,
            layout,
            statics: options.usdt.is_some().then_some(statics),
            futexes: options.futexes,
        };
        // Read first: it takes a good part of a second, and what is slept for is told by the names
        // of the first stack that comes.
        let names = places.layout.names;
        let mut naming = Naming::of(pid, places.program.clone(), options.flavour, names);
        naming.read_tables();
        let attached = Attached::from_now(true);
        found.placed = places.attach(&mut probe);
        if refused(&found.placed) == found.placed.len() {
            return Err(nothing(&found));
        }
        let lost = probe.lost();
        Ok(Self {
            probe,
            join: Join::default(),
            table: Table::default(),
            naming,
            stacks: Stacks::default(),
            found,
            places,
            before: JoinCounters::default(),
            window: (0, u64::MAX),
            attached,
            waiting: Vec::new(),
            lost,
            read_ns: now_ns(),
            handed_ns: 0,
            began_ns: now_ns(),
            latches: HashSet::new(),
            elsewhere: read::Elsewhere::default(),
            conditions: 0,
            forgotten: 0,
        })
    }

    /// What was attached, and what is missing.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Reads what is there; waits that are whole go to the table and to `each`. Returns how many
    /// records there were. To be called some hundred times a second.
    pub fn poll(&mut self, mut each: impl FnMut(&Wait)) -> usize {
        let before_ns = self.read_ns;
        self.attached.look();
        let now_ns = now_ns();
        let records = self.read();
        self.note_losses(before_ns);
        self.read_ns = now_ns;
        self.hand_on(now_ns.saturating_sub(LATE_NS), &mut each);
        records
    }

    /// Detaches and takes what is left. Returns how many threads still slept.
    pub fn finish(&mut self, each: impl FnMut(&Wait)) -> u64 {
        self.pause(u64::MAX, each).asleep
    }

    /// For how long something was attached so far, ns.
    pub fn attached_ns(&self) -> u64 {
        self.attached.ns()
    }

    /// Waits that are whole begin from this time on: everything is attached.
    pub fn begins_at(&mut self, ns: u64) {
        self.window = (ns, u64::MAX);
    }

    /// They have to have ended by this time: it is going to be detached.
    pub fn ends_at(&mut self, ns: u64) {
        self.window.1 = ns;
    }

    /// Detaches until [`Source::resume`] and takes what is left. Threads that still sleep are
    /// counted, those apart who have for `long_ns` or longer. Takes as long as the kernel does to
    /// be sure that no program runs any more; no thread of the process waits for that.
    pub fn pause(&mut self, long_ns: u64, mut each: impl FnMut(&Wait)) -> Ended {
        self.attached.ends();
        self.probe.detach();
        let before_ns = self.read_ns;
        self.read();
        self.note_losses(before_ns);
        self.read_ns = now_ns();
        self.hand_on(u64::MAX, &mut each);
        let Self {
            join,
            table,
            naming,
            ..
        } = self;
        let until_ns = self.window.1.min(self.read_ns);
        let is_long = |began_ns: &u64| until_ns.saturating_sub(*began_ns) >= long_ns;
        let asleep_long = join.under_way().filter(is_long).count() as u64;
        let asleep = join.finish(&mut |wait| {
            add(table, naming, &wait);
            each(&wait);
        });
        self.before.add(&self.join.counters());
        self.join = Join::default();
        Ended {
            asleep,
            asleep_long,
        }
    }

    /// Attaches again what [`Source::pause`] detached; nothing is loaded, and nothing that was
    /// known of sleepers is left. False: something was refused that was not at first, and what is
    /// seen now is not whole.
    ///
    /// # Errors
    /// The kernel half's maps cannot be written; nothing is attached then.
    pub fn resume(&mut self) -> Result<bool, SourceError> {
        self.probe.forget_sleepers()?;
        self.latches.clear();
        self.elsewhere.clear();
        // A record from before that comes now is of no slice any more.
        self.attached.begins_again();
        self.read_ns = self.attached.since_ns();
        let placed = self.places.attach(&mut self.probe);
        Ok(refused(&placed) <= refused(&self.found.placed))
    }

    /// What the join counted.
    pub fn counters(&self) -> JoinCounters {
        let mut counters = self.before;
        counters.add(&self.join.counters());
        counters
    }

    /// What the kernel half counted.
    pub fn probe_counters(&self) -> probe::Counters {
        let counters = self.probe.counters();
        probe::Counters {
            hits: counters.hits.saturating_sub(self.forgotten),
            ..counters
        }
    }

    /// What the programs cost so far, while nothing was to be seen yet, is of no account. To be
    /// called between [`Source::pause`] and [`Source::resume`].
    pub fn forget_cost(&mut self) {
        self.forgotten = self.probe.counters().hits;
        self.attached.forget(self.probe.run_times());
    }

    /// Sleeps for conditions, which are no latches.
    pub fn conditions(&self) -> u64 {
        self.conditions
    }

    /// Runs and run time, ns, of each program so far: scaled to all the time that they were
    /// attached for from the part of it in which the kernel counted. Empty if it does not.
    pub fn run_times(&self) -> Vec<(&'static str, u64, u64)> {
        self.attached.scaled(self.probe.run_times())
    }

    /// Share of the time that something was attached for in which the kernel counted run times, 0
    /// to 1.
    pub fn counted_share(&self) -> f64 {
        self.attached.counted_share().unwrap_or(0.0)
    }

    /// When it was attached, ns of the monotonic clock.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Takes note of what the process has mapped by now.
    pub fn look_at_mappings(&mut self) {
        let _ = self.probe.look_at_mappings();
        self.naming.look_at_mappings();
    }

    /// What was lost since `since_ns` flags every wait from then until now.
    fn note_losses(&mut self, since_ns: u64) {
        let lost = self.probe.lost();
        // After the look: reading a full ring takes its time, and more is lost meanwhile.
        let until_ns = now_ns();
        let more = lost
            .iter()
            .zip(&self.lost)
            .map(|(now, before)| now - before);
        let count: u64 = more.sum();
        self.lost = lost;
        if count > 0 {
            // A record that was lost may have had its time stamp taken before the last reading.
            let ns = since_ns.saturating_sub(LATE_NS / 2);
            self.waiting.push(Seen {
                ns,
                thread: Thread {
                    tid: 0,
                    began_ns: 0,
                },
                key: 0,
                what: What::Lost { until_ns, count },
            });
        }
    }

    /// Joins what is older than `until_ns`.
    fn hand_on(&mut self, until_ns: u64, each: &mut impl FnMut(&Wait)) {
        // What comes later than it should is out of its order, and so as good as lost.
        for seen in &mut self.waiting {
            if seen.ns < self.handed_ns && !matches!(seen.what, What::Lost { .. }) {
                seen.what = What::Lost {
                    until_ns: self.handed_ns,
                    count: 1,
                };
            }
        }
        if until_ns != u64::MAX {
            self.handed_ns = self.handed_ns.max(until_ns);
        }
        self.waiting.sort_by_key(|seen| seen.ns);
        let ripe = self.waiting.partition_point(|seen| seen.ns <= until_ns);
        let Self {
            join,
            table,
            naming,
            waiting,
            ..
        } = self;
        for seen in waiting.drain(..ripe) {
            join.push(seen, &mut |wait| {
                add(table, naming, &wait);
                each(&wait);
            });
        }
    }
}

fn add(table: &mut Table, naming: &mut Naming, wait: &Wait) {
    let name = naming.latch(wait.latch);
    table.add(wait, name, |tid| naming.role(tid));
}
