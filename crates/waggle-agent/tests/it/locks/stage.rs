//! A throw-away server under a statement probe and a lock probe, and clients that wait.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use waggle_agent::lock::{Deadlock, LockWait};
use waggle_agent::locks::LockWatch;
use waggle_agent::sessions::{Moment, StatementEnd};
use waggle_digest::{Fingerprinter, digest_id};
use waggle_need::need;
use waggle_probes::statement::{Events, Fit, Options, Program, StatementProbe};
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::process;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Error};

/// How long anything may take that takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One test at a time: the machine stays usable.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flavours that can be watched here, the others skipped aloud.
pub(crate) fn flavours() -> Vec<Flavour> {
    let is_installed = |flavour| installed_servers().iter().any(|s| s.flavour == flavour);
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|flavour| {
            need("bpf", rustix::process::geteuid().is_root(), "not root")
                && need(
                    flavour.name(),
                    is_installed(*flavour),
                    "it is not installed",
                )
        })
        .collect()
}

/// A server, and all that looks at it.
pub(crate) struct Stage {
    pub(crate) server: Option<Sandbox>,
    probe: StatementProbe,
    events: Events,
    pub(crate) watch: LockWatch,
    fingerprinter: Fingerprinter,
    known: HashMap<Vec<u8>, (Arc<str>, Arc<str>)>,
    pub(crate) ended: Vec<LockWait>,
    pub(crate) deadlocks: Vec<Deadlock>,
}

impl Stage {
    /// Starts a server with these settings. `with_dsn`: its own tables are asked, too.
    pub(crate) fn new(flavour: Flavour, settings: &[(&str, &str)], with_dsn: bool) -> Self {
        let mut spec = SandboxSpec::new(flavour);
        for (name, value) in settings {
            spec = spec.set(*name, *value);
        }
        let server = Sandbox::start(&spec).expect("a throw-away server");
        let pid = server.pid();
        let exe = process::from_pid(pid).expect("it runs").exe_file();
        let fit = Fit::of(&exe).expect("a server binary");
        let site = fit.site.as_ref().expect("a site");
        let mut probe =
            StatementProbe::load(&fit.layout, site, &Options::default()).expect("a probe");
        let events = probe.events().expect("a ring buffer");
        probe
            .attach(pid.cast_signed(), &exe, Program::Capture)
            .expect("attached");
        let dsn = with_dsn.then(|| server.dsn_socket().into());
        let watch = LockWatch::attach(pid, &exe, &fit.layout, dsn).expect("a lock probe");
        Self {
            server: Some(server),
            probe,
            events,
            watch,
            fingerprinter: Fingerprinter::new(),
            known: HashMap::new(),
            ended: Vec::new(),
            deadlocks: Vec::new(),
        }
    }

    pub(crate) fn server(&self) -> &Sandbox {
        self.server.as_ref().expect("it runs")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Connection::connect(&self.server().dsn_socket()).expect("a connection"))
    }

    /// What the agent's loop does each time round.
    pub(crate) fn poll(&mut self) {
        let Self {
            events,
            watch,
            fingerprinter,
            known,
            ..
        } = self;
        let moment = Moment::now();
        events.consume(10_000, |event| {
            let print = fingerprinter.fingerprint(event.text()).to_vec();
            let (digest, fingerprint) = known.entry(print).or_insert_with_key(|print| {
                let text = String::from_utf8_lossy(print).into_owned();
                (digest_id(print).to_string().into(), text.into())
            });
            watch.statement_ended(&StatementEnd {
                end_ns: event.time_ns(),
                start_ns: None,
                connection_id: event.connection_id(),
                thd: None,
                tid: None,
                user: event.user(),
                database: event.database(),
                digest,
                fingerprint,
                in_transaction: None,
                error: event.error_number(),
                is_within: false,
            });
        });
        watch.poll(&moment);
        self.ended.extend(watch.take_ended());
        self.deadlocks.extend(watch.take_deadlocks());
    }

    /// Polls until `condition` holds.
    pub(crate) fn until<R>(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> Option<R>,
    ) -> R {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.poll();
            if let Some(result) = condition(self) {
                return result;
            }
            if Instant::now() >= deadline {
                let waits = self.waits();
                panic!(
                    "waited in vain until {what}\nwaits {waits:#?}\nended {:#?}\nmissing {:?}",
                    self.ended,
                    self.watch.missing()
                );
            }
            // sleep: between two looks at a condition that has a deadline
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn waits(&mut self) -> Vec<LockWait> {
        self.watch.waits(&Moment::now())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.probe.detach();
    }
}

/// A connection with a thread, so that its statements may wait.
pub(crate) struct Client {
    pub(crate) id: u64,
    orders: Option<std::sync::mpsc::Sender<String>>,
    results: Receiver<Result<(), Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn new(mut connection: Connection) -> Self {
        let id = connection.connection_id().into();
        connection.set_timeout(Some(PATIENCE));
        let (orders, inbox) = channel::<String>();
        let (outbox, results) = channel();
        let thread = std::thread::spawn(move || {
            for order in inbox {
                let result = connection.query(order.as_bytes()).map(|_| ());
                if outbox.send(result).is_err() {
                    return;
                }
            }
        });
        Self {
            id,
            orders: Some(orders),
            results,
            thread: Some(thread),
        }
    }

    /// Begins a statement.
    pub(crate) fn begin(&self, statement: &str) {
        let orders = self.orders.as_ref().expect("it is open");
        orders.send(statement.to_owned()).expect("its thread lives");
    }

    /// Waits for the end of the statement that was begun.
    pub(crate) fn end(&self) -> Result<(), Error> {
        self.results.recv_timeout(PATIENCE).expect("an answer")
    }

    /// Runs statements that have to succeed.
    pub(crate) fn run(&self, statements: &[&str]) {
        for statement in statements {
            self.begin(statement);
            self.end()
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
