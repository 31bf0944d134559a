//! What these tests share: needs, servers, and what a source said.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waggle_agent::source::packets::{PacketPlan, PacketSource};
use waggle_agent::source::{Observation, Source};
use waggle_agent::statement::{Statement, Text};
use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Dsn};

/// How long anything may take that takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The flavours whose packets can be watched here, the others skipped aloud.
pub(crate) fn flavours() -> Vec<Flavour> {
    let installed = installed_servers();
    [Flavour::MariaDb, Flavour::MySql]
        .into_iter()
        .filter(|flavour| {
            let is_here = installed.iter().any(|server| server.flavour == *flavour);
            need("root", is_root(), "packet sockets need it")
                && need(flavour.name(), is_here, "it is not installed")
        })
        .collect()
}

pub(crate) fn server(flavour: Flavour) -> Sandbox {
    let spec = SandboxSpec::new(flavour)
        .set("max-allowed-packet", "64M")
        .tcp();
    Sandbox::start(&spec).expect("a throw-away server")
}

/// Over TCP, as these options say.
pub(crate) fn tcp(server: &Sandbox, options: &str) -> Dsn {
    let dsn = format!("{}&{options}", server.dsn());
    dsn.parse().expect("a DSN")
}

/// `Questions`, by a connection that sends no packets.
pub(crate) fn questions(connection: &mut Connection) -> u64 {
    let rows = connection.query_rows(b"SHOW GLOBAL STATUS LIKE 'Questions'");
    let rows = rows.expect("its status");
    let value = rows[0][1].as_deref().expect("a number");
    String::from_utf8_lossy(value).parse().expect("a number")
}

/// One statement, as it was yielded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) rows: Option<u64>,
    pub(crate) affected: Option<u64>,
    pub(crate) error: Option<u32>,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) host: String,
    pub(crate) connection: Option<u64>,
    pub(crate) latency_ns: u64,
    pub(crate) length: usize,
}

/// Who takes observations.
type Each<'a> = &'a mut dyn FnMut(Observation<'_>);

/// What a source said so far.
pub(crate) struct Ear {
    pub(crate) source: PacketSource,
    pub(crate) statements: Vec<Seen>,
    /// Commands that servers do not count as statements.
    pub(crate) others: u64,
    pub(crate) lost: BTreeMap<&'static str, u64>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn seen(statement: &Statement<'_>) -> Seen {
    let (sql, length) = match statement.text {
        Text::Whole { sql, .. } => (text(&sql[..sql.len().min(80)]), sql.len()),
        _ => ("unknown".to_owned(), 0),
    };
    Seen {
        text: sql,
        rows: statement.work.rows_sent,
        affected: statement.work.rows_affected,
        error: statement.work.error,
        user: text(statement.user),
        database: text(statement.database),
        host: text(statement.host),
        connection: statement.connection_id,
        latency_ns: statement.latency_ns.unwrap_or_default(),
        length,
    }
}

impl Ear {
    pub(crate) fn at(server: &Sandbox) -> Ear {
        Ear::with(&PacketPlan::of(server.pid()))
    }

    pub(crate) fn with(plan: &PacketPlan) -> Ear {
        Ear {
            source: PacketSource::open(plan).expect("a packet source"),
            statements: Vec::new(),
            others: 0,
            lost: BTreeMap::new(),
        }
    }

    pub(crate) fn listen(&mut self) {
        self.take(|source, each| source.poll(each));
    }

    /// Takes what is left, as at the end of a watch.
    pub(crate) fn finish(&mut self) {
        self.take(|source, each| source.finish(each));
    }

    fn take(&mut self, read: impl FnOnce(&mut PacketSource, Each<'_>) -> anyhow::Result<usize>) {
        let Ear {
            source,
            statements,
            others,
            lost,
        } = self;
        let mut each = |observation: Observation<'_>| match observation {
            Observation::Statement(statement) => match statement.command {
                Some(1 | 9 | 14 | 22 | 24..=26) => *others += 1,
                _ => statements.push(seen(&statement)),
            },
            Observation::Lost { cause, count } => *lost.entry(cause).or_default() += count,
            other => panic!("{other:?} is not on the wire"),
        };
        read(source, &mut each).expect("it goes on");
    }

    /// Listens until `done`.
    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Ear) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.listen();
            if done(self) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain until {what}: {} seen, lost {:?}, {:?}, last {:?}",
                self.statements.len(),
                self.lost,
                self.source.counters(),
                self.statements.last(),
            );
            // sleep: between two looks at a condition that has a deadline
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Listens until this statement was seen.
    pub(crate) fn until_text(&mut self, sql: &str) {
        self.until(sql, |ear| {
            ear.statements.last().is_some_and(|s| s.text == sql)
        });
    }
}
