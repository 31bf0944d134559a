//! From a process to the waits of its threads for latches.
//!
//! Attaches what there is to attach, reads the ring, puts records in the order of their time, says
//! of each sleep what sort of latch it is for, and joins. Neighbours: `join` makes waits,
//! [`super::naming`] names them.
//!
//! Invariant: a record is handed on only when none that is earlier can still come; what the kernel
//! half lost becomes a span in which every wait is flagged.

use std::collections::HashSet;
use std::path::PathBuf;

use waggle_probes::kernel::RunTimeStats;
use waggle_probes::latch::{self as probe, LatchProbe, Record, Sleep};
use waggle_probes::timeline::{Head, addresses};
use waggle_symbols::LatchLayout;

use super::find::{Found, Options, SourceError, number_in_thread, static_probes};
use super::join::{Join, JoinCounters, Wait};
use super::naming::{Naming, Purpose};
use super::seen::{Kind, LatchId, Mode, Seen, What};
use super::table::Table;
use crate::event::Thread;
use crate::stack::Stacks;
use waggle_probes::clock::now_ns;

/// A record may come this much later than its time says, ns: a thread that was preempted between
/// its time stamp and its record.
const LATE_NS: u64 = 20_000_000;
/// Operations of the futex call.
const FUTEX_WAIT: u32 = 0;
/// What a futex call returns if the word had changed before.
const AGAIN: i64 = -11;
/// What a mutex of the C library has in its word while threads sleep for it.
const MUTEX_WITH_SLEEPERS: u32 = 2;

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
    waiting: Vec<Seen>,
    lost: Vec<u64>,
    read_ns: u64,
    /// Up to when all was joined.
    handed_ns: u64,
    began_ns: u64,
    /// What latches are slept on: all else that is let go of is none.
    latches: HashSet<u64>,
    /// Threads that sleep for something else.
    elsewhere: HashSet<u32>,
    conditions: u64,
    run_times: Option<RunTimeStats>,
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
        if options.usdt.is_some() {
            found.placed = probe.attach_static(&statics);
        } else {
            found.placed = probe.attach_server(&program, &layout);
            if options.futexes {
                found.placed.extend(probe.attach_futexes());
            }
        }
        if found.placed.iter().all(|placed| placed.refused.is_some()) {
            let mut reasons = found
                .placed
                .iter()
                .filter_map(|placed| placed.refused.clone());
            let why = reasons
                .next()
                .or_else(|| found.missing.first().map(|m| m.1.clone()));
            let why = why.unwrap_or_else(|| "there is nothing to attach at".into());
            return Err(SourceError::Nothing(why));
        }
        let lost = probe.lost();
        Ok(Self {
            probe,
            join: Join::default(),
            table: Table::default(),
            naming: Naming::of(pid, program, options.flavour, layout.names),
            stacks: Stacks::default(),
            found,
            waiting: Vec::new(),
            lost,
            read_ns: now_ns(),
            handed_ns: 0,
            began_ns: now_ns(),
            latches: HashSet::new(),
            elsewhere: HashSet::new(),
            conditions: 0,
            run_times: RunTimeStats::hold().ok(),
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
        let now_ns = now_ns();
        let records = self.read();
        self.note_losses(before_ns);
        self.read_ns = now_ns;
        self.hand_on(now_ns.saturating_sub(LATE_NS), &mut each);
        records
    }

    /// Detaches and takes what is left. Returns how many threads still slept.
    pub fn finish(&mut self, mut each: impl FnMut(&Wait)) -> u64 {
        self.probe.detach();
        let before_ns = self.read_ns;
        self.read();
        self.note_losses(before_ns);
        self.hand_on(u64::MAX, &mut each);
        let Self {
            join,
            table,
            naming,
            ..
        } = self;
        join.finish(&mut |wait| {
            add(table, naming, &wait);
            each(&wait);
        })
    }

    /// What the join counted.
    pub fn counters(&self) -> JoinCounters {
        self.join.counters()
    }

    /// What the kernel half counted.
    pub fn probe_counters(&self) -> probe::Counters {
        self.probe.counters()
    }

    /// Sleeps for conditions, which are no latches.
    pub fn conditions(&self) -> u64 {
        self.conditions
    }

    /// Runs and run time, ns, of each program so far; empty if the kernel does not count them.
    pub fn run_times(&self) -> Vec<(&'static str, u64, u64)> {
        match self.run_times {
            Some(_) => self.probe.run_times(),
            None => Vec::new(),
        }
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

    fn read(&mut self) -> usize {
        let Self {
            probe,
            naming,
            stacks,
            waiting,
            latches,
            elsewhere,
            conditions,
            ..
        } = self;
        probe.read(|head, record| match record {
            Record::Stack {
                number,
                end,
                frames,
            } => stacks.add(*number, head.tgid, *end, addresses(frames)),
            Record::Sleeps { sleep, thread } => {
                let stack = stacks.id(sleep.stack);
                naming.thread(who(head), thread, stacks, stack);
                match slept(naming, stacks, sleep) {
                    Some(what) => {
                        latches.insert(sleep.key);
                        waiting.push(seen(head, sleep.key, what));
                    }
                    None => {
                        elsewhere.insert(head.tid);
                        *conditions += 1;
                    }
                }
            }
            Record::Wakes { .. } if elsewhere.remove(&head.tid) => {}
            Record::Wakes { key, result } => {
                let in_vain = *result == AGAIN;
                waiting.push(seen(head, *key, What::Wakes { in_vain }));
            }
            Record::Releases { key, stack, thread } if latches.contains(key) => {
                let stack = stacks.id(*stack);
                naming.thread(who(head), thread, stacks, stack);
                waiting.push(seen(head, *key, What::Releases { stack }));
            }
            Record::Releases { .. } => {}
        })
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

fn seen(head: &Head, key: u64, what: What) -> Seen {
    Seen {
        ns: head.ns,
        thread: who(head),
        key,
        what,
    }
}

fn who(head: &Head) -> Thread {
    Thread {
        tid: head.tid,
        began_ns: head.began_ns,
    }
}

/// What is slept for; `None`: no latch.
fn slept(naming: &mut Naming, stacks: &mut Stacks, sleep: &Sleep<'_>) -> Option<What> {
    let stack = stacks.id(sleep.stack);
    let (kind, mode): (Kind, Mode) = match sleep.source {
        probe::Source::InnoDb => match sleep.kind {
            2 => (Kind::RwLock, Mode::Shared),
            3 => (Kind::RwLock, Mode::SharedExclusive),
            4 => (Kind::RwLock, Mode::Exclusive),
            5 => (Kind::RwLock, Mode::ExclusiveDraining),
            _ => (Kind::Mutex, Mode::Plain),
        },
        probe::Source::Metadata => (Kind::Metadata, Mode::Plain),
        probe::Source::Static => (Kind::Static, Mode::Plain),
        probe::Source::Futex => {
            let is_plain = sleep.kind == FUTEX_WAIT;
            // A thread's number is not 0. A wait for a condition ends with one for its mutex.
            let has_owner = is_plain && sleep.value == MUTEX_WITH_SLEEPERS && sleep.owner != 0;
            let kind = match naming.purpose(stacks, stack) {
                Some(Purpose::Latch(kind)) => kind,
                _ if has_owner => Kind::PthreadMutex,
                Some(Purpose::Condition) => return None,
                None if !is_plain => return None,
                None => Kind::Futex,
            };
            (kind, Mode::Plain)
        }
    };
    let latch: LatchId = match kind {
        Kind::Mutex | Kind::RwLock => naming.innodb(sleep, kind),
        Kind::Metadata => naming.metadata(sleep),
        _ => naming.plain(sleep, stacks, stack),
    };
    let owner = match kind {
        Kind::Mutex | Kind::RwLock | Kind::PthreadMutex => sleep.owner,
        _ => 0,
    };
    Some(What::Sleeps {
        latch,
        kind,
        mode,
        owner: (owner != 0).then_some(owner),
        request: naming.asks(sleep),
        stack,
        frame: sleep.frame,
    })
}
