//! A throw-away ClickHouse: own folders, a free port on loopback, gone with the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use waggle_export::clickhouse::{ClickHouse, Options, Place};
use waggle_export::spool::Limits;
use waggle_need::{program, skip};

use crate::views::wait_until;

const PROGRAM: &str = "clickhouse-server";

/// A server, or why there is none.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    child: Option<Child>,
}

/// The server that the tests need; without it they are skipped aloud, or fail if it is required.
pub(crate) fn server() -> Option<Server> {
    if program(&[PROGRAM]).is_none() {
        skip("clickhouse", "no clickhouse-server on the PATH");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    write_settings(folder.path(), port);
    let mut server = Server {
        folder,
        port,
        child: None,
    };
    server.start();
    Some(server)
}

/// A port that nobody listens on, below those that the kernel gives to whoever asks for just any:
/// one of these may be somebody else's before the server has it.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u64::from(std::process::id()) * 101;
    loop {
        let next = u64::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + ((own + next) % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn write_settings(folder: &Path, port: u16) {
    let path = folder.display();
    let settings = format!(
        "<?xml version=\"1.0\"?><yandex><logger><level>warning</level><log>{path}/log</log>\
         <errorlog>{path}/err</errorlog></logger><http_port>{port}</http_port>\
         <listen_host>127.0.0.1</listen_host><path>{path}/data/</path>\
         <tmp_path>{path}/tmp/</tmp_path><user_files_path>{path}/files/</user_files_path>\
         <mark_cache_size>67108864</mark_cache_size><users_config>{path}/users.xml</users_config>\
         <default_profile>default</default_profile><default_database>default</default_database>\
         </yandex>"
    );
    let users = "<?xml version=\"1.0\"?><yandex><profiles><default/></profiles><users><default>\
                 <password></password><networks><ip>127.0.0.1</ip></networks>\
                 <profile>default</profile><quota>default</quota></default></users>\
                 <quotas><default/></quotas></yandex>";
    std::fs::write(folder.join("config.xml"), settings).expect("settings");
    std::fs::write(folder.join("users.xml"), users).expect("users");
}

impl Server {
    pub(crate) fn start(&mut self) {
        let settings = self.folder.path().join("config.xml");
        // The server ends with the thread that started it, also if that is killed.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", PROGRAM])
            .arg(format!("--config-file={}", settings.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv");
        self.child = Some(child);
        wait_until("ClickHouse answers", || {
            self.try_query("SELECT 1").is_some()
        });
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a signal");
            child.wait().expect("its end");
        }
    }

    /// The answer to `sql`, tab-separated, without the last line's end.
    pub(crate) fn query(&self, sql: &str) -> String {
        self.try_query(sql)
            .unwrap_or_else(|| panic!("{sql}: see {}", self.folder.path().display()))
    }

    fn try_query(&self, sql: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .ok()?;
        let head = format!(
            "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            sql.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(sql.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let is_ok = head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200");
        assert!(is_ok, "{sql}: {answer}");
        Some(body.trim_end_matches('\n').to_owned())
    }

    /// Rows as lists of fields.
    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let answer = self.query(sql);
        let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
        answer.lines().map(fields).collect()
    }

    pub(crate) fn options(&self, port: u16, spool: &Path) -> Options {
        Options {
            place: Place {
                url: format!("http://127.0.0.1:{port}"),
                database: "waggle".into(),
                user: "default".into(),
                password: String::new(),
            },
            interval: Duration::ZERO,
            timeout: Duration::from_secs(20),
            retention_days: None,
            spool: spool.to_owned(),
            limits: Limits {
                min_free_bytes: 0,
                ..Limits::default()
            },
        }
    }

    /// A sink that talks to `port` (the server's, or a proxy's before it).
    pub(crate) fn sink(&self, port: u16) -> ClickHouse {
        self.try_sink(port).expect("a sink")
    }

    /// The same; `None` while another one has the spool.
    pub(crate) fn try_sink(&self, port: u16) -> Option<ClickHouse> {
        let spool = self.folder.path().join("spool");
        ClickHouse::start(self.options(port, &spool)).ok()
    }

    /// No row of any table is there twice, by batch and place, without the engine's help.
    pub(crate) fn assert_no_row_twice(&self) {
        for table in [
            "statements",
            "load",
            "servers",
            "samples",
            "waits",
            "deadlocks",
            "metrics",
        ] {
            let counts = self.rows(&format!(
                "SELECT count(), uniqExact(batch_run, batch_sequence, batch_row) \
                 FROM waggle.waggle_{table}"
            ));
            assert_eq!(counts[0][0], counts[0][1], "waggle_{table} has rows twice");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
