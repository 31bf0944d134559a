//! A throw-away server under the probe, and sessions in it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use waggle_need::had;
use waggle_probes::clock::now_ns;
use waggle_probes::kernel::RunTimeStats;
use waggle_probes::sched::{Doing, LiveThread, SchedProbe, THREADS_MAX};
use waggle_probes::statement::{
    Breakdown, Events, Fit, Options, Program, StatementEvent, StatementProbe, Times,
};
use waggle_probes::wait::WaitClass;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::process;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_symbols::layout::StartClock;
use waggle_wire::{Connection, Dsn};

/// How long anything may take that takes milliseconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One server at a time: the machine stays usable, and one object counts the scheduler's switches.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flavours that can be watched here, the others skipped aloud.
pub(crate) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    let is_root = rustix::process::geteuid().is_root();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter_map(|flavour| {
            let found = installed.iter().any(|server| server.flavour == flavour);
            let found = found.then_some(flavour);
            had("bpf", is_root.then_some(()).ok_or("not root"))?;
            had(flavour.name(), found.ok_or("no such server is installed"))
        })
        .collect()
}

/// One statement as the probe saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) connection_id: u64,
    pub(crate) tid: u32,
    pub(crate) text: String,
    pub(crate) wall_ns: u64,
    pub(crate) times: Times,
    pub(crate) is_in_routine: Option<bool>,
}

impl Seen {
    pub(crate) fn blocked(&self, class: WaitClass) -> Duration {
        Duration::from_nanos(self.times.blocked_ns[class.index()])
    }

    /// True if nothing of it is unknown, but what the server's clock leaves: it keeps whole
    /// microseconds.
    pub(crate) fn is_whole(&self) -> bool {
        self.times.remainder_ns < 2_000
    }

    /// The class it was blocked in longest.
    pub(crate) fn longest(&self) -> WaitClass {
        let longest = WaitClass::ALL.into_iter().max_by_key(|c| self.blocked(*c));
        longest.expect("there are classes")
    }
}

/// A server and all that looks at it. Its probes go first.
pub(crate) struct Bed {
    pub(crate) sched: SchedProbe,
    pub(crate) probe: StatementProbe,
    events: Events,
    clock: StartClock,
    pub(crate) server: Sandbox,
    _turn: MutexGuard<'static, ()>,
}

impl Bed {
    /// Starts a server with these settings, and has it watched.
    pub(crate) fn new(flavour: Flavour, settings: &[(&str, &str)]) -> Self {
        let turn = turn();
        let spec = settings
            .iter()
            .fold(SandboxSpec::new(flavour), |spec, (name, value)| {
                spec.set(*name, *value)
            });
        let server = Sandbox::start(&spec).expect("a throw-away server");
        let pid = server.pid();
        let exe = process::from_pid(pid).expect("it runs").exe_file();
        let fit = Fit::of(&exe).expect("a server binary");
        let mut sched = SchedProbe::load(THREADS_MAX).expect("the scheduler's probe");
        sched.attach().expect("attached to the scheduler");
        sched.watch(pid).expect("its threads are known");
        assert!(fit.waits_missing.is_empty(), "{:?}", fit.waits_missing);
        let breakdown = Breakdown {
            sched: &sched,
            hooks: &fit.waits,
        };
        let site = fit.site.as_ref().expect("a site");
        let options = Options::default();
        let mut probe = StatementProbe::load_with_times(&fit.layout, site, &options, &breakdown)
            .expect("the statement probe");
        if let Some(site) = &fit.routine_site {
            probe.ends_too_at(site);
        }
        probe
            .attach(pid.cast_signed(), &exe, Program::Capture)
            .expect("attached to the server");
        assert!(
            probe.refused_hooks().is_empty(),
            "{:?}",
            probe.refused_hooks()
        );
        Self {
            events: probe.events().expect("a ring buffer"),
            clock: fit.layout.start_clock,
            sched,
            probe,
            server,
            _turn: turn,
        }
    }

    /// A session over the Unix socket, in the schema `stage`, which is made.
    pub(crate) fn session(&mut self) -> Session {
        let dsn = self.server.dsn_socket();
        self.session_at(dsn)
    }

    /// The same at `dsn`.
    pub(crate) fn session_at(&mut self, dsn: Dsn) -> Session {
        let mut connection = Connection::connect(&dsn).expect("a connection");
        connection.set_timeout(Some(PATIENCE));
        let id = u64::from(connection.connection_id());
        for sql in ["CREATE DATABASE IF NOT EXISTS stage", "USE stage"] {
            connection.query(sql.as_bytes()).expect(sql);
        }
        let tid = self.one(id, "USE stage").tid;
        Session {
            connection,
            id,
            tid,
        }
    }

    /// Every statement that has ended since the last time it was asked, in order.
    pub(crate) fn seen(&mut self) -> Vec<Seen> {
        // The server answers before it passes the probe: one hit after another, so that of a
        // session's statements only the last can be on its way.
        let realtime = self.clock == StartClock::Realtime;
        let offset = if realtime { realtime_offset_ns() } else { 0 };
        let mut all = Vec::new();
        self.events
            .consume(usize::MAX, |event| all.push(seen(&event, offset)));
        all
    }

    /// Waits for the end of the statement that begins so; what came before it is passed over.
    pub(crate) fn one(&mut self, connection_id: u64, begins: &str) -> Seen {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut all = self.seen().into_iter();
            let found =
                all.find(|s| s.connection_id == connection_id && s.text.starts_with(begins));
            if let Some(seen) = found {
                check_sum(&seen);
                return seen;
            }
            assert!(Instant::now() < until, "{begins} is never seen to end");
            thread::yield_now();
        }
    }

    /// What has ended, from now on until `enough` of it has.
    pub(crate) fn until(&mut self, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let until = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        loop {
            all.extend(self.seen());
            if enough(&all) {
                all.iter().for_each(check_sum);
                return all;
            }
            assert!(Instant::now() < until, "only {} were seen", all.len());
            thread::yield_now();
        }
    }

    /// What a thread does now.
    pub(crate) fn thread(&self, tid: u32) -> Option<LiveThread> {
        let mut found = None;
        self.sched
            .each_thread(|thread| found = (thread.tid == tid).then_some(thread).or(found));
        found
    }

    /// Waits until the thread of `session` is blocked, and returns in which class it says.
    pub(crate) fn blocked(&self, tid: u32) -> WaitClass {
        let until = Instant::now() + PATIENCE;
        loop {
            let thread = self.thread(tid);
            if let Some(LiveThread {
                doing: Doing::Blocked(class),
                since_ns,
                ..
            }) = thread
                && now_ns().saturating_sub(since_ns) > HELD.as_nanos() as u64
            {
                return class;
            }
            assert!(Instant::now() < until, "it never waits: {thread:?}");
            thread::yield_now();
        }
    }

    /// Runs of every program of the probe while `work` is done.
    pub(crate) fn runs(&mut self, work: impl FnOnce()) -> BTreeMap<String, u64> {
        let stats = RunTimeStats::hold().expect("the kernel counts runs");
        let before: BTreeMap<_, _> = self.probe.runs().into_iter().collect();
        work();
        let after = self.probe.runs();
        drop(stats);
        let grown = after.into_iter().map(|(name, runs)| {
            let grown = runs - before.get(&name).copied().unwrap_or(0);
            (name, grown)
        });
        grown.filter(|(_, runs)| *runs > 0).collect()
    }
}

/// How long a wait is held at least.
pub(crate) const HELD: Duration = Duration::from_millis(40);

/// A connection and the thread that serves it.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) id: u64,
    pub(crate) tid: u32,
}

impl Session {
    pub(crate) fn run(&mut self, sql: &str) {
        let result = self.connection.query(sql.as_bytes());
        result.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub(crate) fn run_all(&mut self, statements: &[&str]) {
        statements.iter().for_each(|sql| self.run(sql));
    }
}

fn seen(event: &StatementEvent<'_>, offset_ns: u64) -> Seen {
    let start_ns = event.start_us().expect("a start time") * 1000;
    let since_start = (event.time_ns() + offset_ns).saturating_sub(start_ns);
    let part = event.part_since_ns();
    let wall_ns = part.map_or(since_start, |since_ns| event.time_ns() - since_ns);
    Seen {
        connection_id: event.connection_id(),
        tid: event.tid(),
        text: String::from_utf8_lossy(event.text()).into_owned(),
        wall_ns,
        times: event.times(wall_ns).unwrap_or_default(),
        is_in_routine: event.is_in_routine(),
    }
}

/// Wall time is CPU, runnable and blocked time and the remainder, to the nanosecond.
fn check_sum(seen: &Seen) {
    let times = &seen.times;
    let blocked: u64 = times.blocked_ns.iter().sum();
    let sum = times.cpu_ns + times.runnable_ns + blocked + times.remainder_ns;
    assert!(sum.abs_diff(seen.wall_ns) <= 3_000, "{seen:?}");
}

fn realtime_offset_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is alive and writable.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    assert_eq!(told, 0);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs() - now_ns()
}
