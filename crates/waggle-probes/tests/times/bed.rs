//! The probes on this process, and the statements that its threads carry out.

use std::hint::black_box;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use waggle_need::had;
use waggle_probes::clock::now_ns;
use waggle_probes::own;
use waggle_probes::sched::{SchedProbe, THREADS_MAX};
use waggle_probes::statement::{Breakdown, Events, Options, Program, StatementProbe, Times};
use waggle_probes::wait::WaitClass;
use waggle_symbols::layout::{Field, Source, StartClock};
use waggle_symbols::{FieldName, Location, StatementLayout};

/// Stands for the end of a statement: begins with `push`, has the session object in `rdi`.
#[unsafe(naked)]
extern "C" fn statement_end(_thd: *const u64) {
    core::arch::naked_asm!("push rbp", "pop rbp", "ret")
}

/// Where the made-up session object keeps its start time and connection id.
const START: u32 = 64;
const CONNECTION: u32 = 72;

/// The process has one place to attach at, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The probes on this process.
pub(crate) struct Bed {
    pub(crate) sched: SchedProbe,
    probe: StatementProbe,
    events: Events,
    _turn: MutexGuard<'static, ()>,
}

/// One statement as the probe saw it, ns.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) wall: u64,
    pub(crate) times: Times,
    pub(crate) switches: (u32, u32),
}

impl Seen {
    pub(crate) fn blocked(&self, class: WaitClass) -> u64 {
        self.times.blocked_ns[class.index()]
    }

    /// Blocked in any other class.
    pub(crate) fn others(&self, class: WaitClass) -> u64 {
        self.times.blocked_ns.iter().sum::<u64>() - self.blocked(class)
    }

    /// True if the CPU time is not less than what the thread's own clock told, but for its
    /// switches: that clock and the probe do not take a switch at the same moment, and on a guest
    /// the host may take the processor in between. 0.3 ms a switch were seen, both ways.
    pub(crate) fn has_cpu(&self, told: u64) -> bool {
        let switches = u64::from(self.switches.0 + self.switches.1);
        self.times.cpu_ns + 20_000 + switches * 2_000_000 >= told
    }
}

impl Bed {
    /// `None`, aloud, where the kernel or the rights do not allow probes.
    pub(crate) fn make() -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        had("bpf", Self::try_make(turn))
    }

    fn try_make(turn: MutexGuard<'static, ()>) -> Result<Self, Box<dyn std::error::Error>> {
        let mut sched = SchedProbe::load(THREADS_MAX)?;
        sched.attach()?;
        sched.watch(std::process::id())?;
        let breakdown = Breakdown {
            sched: &sched,
            hooks: &[],
        };
        let options = Options::default();
        let site = own::site("statement_end", statement_end as *const ())?;
        let mut probe = StatementProbe::load_with_times(&layout(), &site, &options, &breakdown)?;
        let pid = std::process::id().cast_signed();
        probe.attach(pid, Path::new("/proc/self/exe"), Program::Capture)?;
        Ok(Self {
            events: probe.events()?,
            sched,
            probe,
            _turn: turn,
        })
    }

    /// Every statement that ended, in order.
    pub(crate) fn seen(&mut self) -> Vec<Seen> {
        let mut all = Vec::new();
        self.events.consume(usize::MAX, |event| {
            let start_us = event.start_us().expect("a start time");
            let wall = event.time_ns() - start_us * 1000;
            all.push(Seen {
                wall,
                times: event.times(wall).expect("the thread is known"),
                switches: event.switches().expect("the thread is known"),
            });
        });
        let counters = self.probe.counters().expect("counters");
        assert_eq!((counters.threads_unknown, counters.ring_full), (0, 0));
        for seen in &all {
            let times = seen.times;
            let away = times.runnable_ns + times.blocked_ns.iter().sum::<u64>();
            let sum = times.cpu_ns + away + times.remainder_ns;
            assert!(sum.abs_diff(seen.wall) <= 3_000, "{seen:?}");
        }
        all
    }
}

fn layout() -> StatementLayout {
    let fields = FieldName::ALL.into_iter().map(|name| {
        let at = match name {
            FieldName::StartTime => Some(Location::direct(START, 8)),
            FieldName::ConnectionId => Some(Location::direct(CONNECTION, 8)),
            _ => None,
        };
        let found = at.map(|at| (at, Source::Table));
        Field {
            name,
            found: found.ok_or_else(|| "not in this object".to_owned()),
        }
    });
    StatementLayout {
        fields: fields.collect(),
        start_clock: StartClock::Monotonic,
    }
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A session object; statements are carried out on it.
pub(crate) struct Session(Vec<u64>);

impl Session {
    pub(crate) fn new(connection: u64) -> Self {
        let mut thd = vec![0; 16];
        thd[CONNECTION as usize / 8] = connection;
        Self(thd)
    }

    /// Carries out one statement; returns its CPU time by the thread's own clock, ns.
    pub(crate) fn statement(&mut self, work: impl FnOnce()) -> u64 {
        self.0[START as usize / 8] = now_ns() / 1000;
        let before = thread_cpu_ns();
        work();
        let cpu = thread_cpu_ns() - before;
        black_box(statement_end as extern "C" fn(*const u64))(black_box(self.0.as_ptr()));
        cpu
    }
}

/// Runs statements on a thread of their own; returns their CPU times by that thread's clock, ns.
pub(crate) fn run(count: usize, work: impl Fn() + Send + 'static) -> Vec<u64> {
    let all = move || {
        let mut session = Session::new(1);
        (0..count).map(|_| session.statement(&work)).collect()
    };
    thread::spawn(all).join().expect("the thread")
}

/// Computes until the thread has used `ns` of CPU time.
pub(crate) fn compute(ns: u64) {
    let until = thread_cpu_ns() + ns;
    while thread_cpu_ns() < until {
        std::hint::spin_loop();
    }
}

/// Runs this thread on the first processor only.
pub(crate) fn pin() {
    // SAFETY: a zeroed set is an empty one, and the call is given its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}
