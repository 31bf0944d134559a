//! Two servers and a load generator, each with statements of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::Sandbox;

use crate::watch::stage::{Running, connect, run, server, waggle, wait_with};

/// What the second server's two sessions run, one each.
const STATEMENTS: [&str; 2] = [
    "SELECT BENCHMARK(20000, SHA2('a', 256))",
    "SELECT BENCHMARK(20000, REVERSE(REPEAT('b', 64)))",
];

/// Sessions that run one statement all the time, until they are dropped.
struct Sessions {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Sessions {
    fn start(server: &Sandbox) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let threads = STATEMENTS.map(|sql| {
            let mut connection = connect(server);
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    run(&mut connection, &[sql]);
                }
            })
        });
        Self {
            over,
            threads: Vec::from(threads),
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A server under `waggle bench`, and another with [`Sessions`]; of both families, if both are
/// installed.
pub(super) struct Bed {
    sessions: Sessions,
    load: Running,
    servers: [Sandbox; 2],
}

impl Bed {
    pub(super) fn start() -> Option<Self> {
        let installed = installed_servers();
        let has = |flavour: Flavour| installed.iter().any(|server| server.flavour == flavour);
        let flavours = match (has(Flavour::MariaDb), has(Flavour::MySql)) {
            (true, true) => [Flavour::MariaDb, Flavour::MySql],
            (false, true) => [Flavour::MySql; 2],
            (mariadb, false) => {
                if !need("mariadb", mariadb, "no server is installed") {
                    return None;
                }
                [Flavour::MariaDb; 2]
            }
        };
        let servers = flavours.map(server);
        let load = load(&servers[0]);
        Some(Self {
            sessions: Sessions::start(&servers[1]),
            load,
            servers,
        })
    }

    /// The first server, the second, the load generator.
    pub(super) fn pids(&self) -> [u32; 3] {
        let [first, second] = &self.servers;
        [first.pid(), second.pid(), self.load.pid()]
    }

    /// Ends all of it; the servers still answer.
    pub(super) fn end(self) {
        let Self {
            sessions,
            load,
            servers,
        } = self;
        assert_eq!(sessions.threads.len(), 2);
        let ended = |thread: &JoinHandle<()>| thread.is_finished();
        assert!(!sessions.threads.iter().any(ended), "a session broke off");
        drop(sessions);
        drop(load);
        for server in servers {
            run(&mut connect(&server), &["SELECT 1"]);
            let socket = server.socket().to_path_buf();
            server.stop().expect("an orderly end");
            assert!(!socket.exists(), "{}", socket.display());
        }
    }
}

/// `waggle bench` of this server, under way.
fn load(server: &Sandbox) -> Running {
    let dsn = server.dsn_socket().to_string();
    let common = [
        "--dsn",
        &dsn,
        "--tables",
        "1",
        "--table-size",
        "1000",
        "--no-record",
    ];
    let prepare = [&["bench", "oltp_point_select", "prepare"][..], &common[..]].concat();
    let prepared = waggle(&prepare).output().expect("the program starts");
    let said = String::from_utf8_lossy(&prepared.stderr);
    assert_eq!(prepared.status.code(), Some(0), "{said}");
    let flags = ["--threads", "2", "--rate", "1000", "--time", "600"];
    let arguments = [&["bench", "oltp_point_select"][..], &common[..], &flags[..]].concat();
    let load = Running::start(&mut waggle(&arguments));
    let mut connection = connect(server);
    let mut questions = || -> u64 {
        let sql = b"SHOW GLOBAL STATUS LIKE 'Questions'";
        let rows = connection.query_rows(sql).expect("a counter");
        let value = rows[0][1].as_deref().expect("a value");
        let text = std::str::from_utf8(value).expect("text");
        text.parse().expect("a number")
    };
    let before = questions();
    wait_with(Duration::from_millis(50), "the load is under way", || {
        questions() > before + 500
    });
    load
}
