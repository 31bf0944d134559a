//! The server's process: started in the directory that is there, and judged by how it ends.
//!
//! Neighbours: `guardian` runs it, `ready` waits for it, `registry` shows it; the parent decides
//! when, as does `data`. Invariant: a server that failed of itself is an error with its own words,
//! and its log is kept.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::copy::open_plain;
use super::guardian::{self, Command, Guardian, Launch, RootPlan, ServerExit};
use super::port::Port;
use super::{STOP_PATIENCE, Sandbox, SandboxError, log, ready, registry, rundir, settings};
use crate::Flavour;

/// How long a server may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The server's first statements, below its directory, until it answers.
const INIT_FILE: &str = "init.sql";
/// The longest file of first statements that is taken from a user, bytes.
const INIT_FILE_BYTES_MAX: u64 = 16 << 20;

/// Gives root its password, on this server alone: nothing of it is in the binary log. Servers run
/// these before they accept a connection.
fn password_statements(flavour: Flavour, password: &str) -> String {
    let mut sql = String::from("SET SESSION sql_log_bin = 0;\n");
    let hosts: &[&str] = match flavour {
        Flavour::MySql => &["localhost"],
        Flavour::MariaDb => &["localhost", "127.0.0.1", "::1"],
    };
    for host in hosts {
        sql.push_str(&format!(
            "ALTER USER IF EXISTS 'root'@'{host}' IDENTIFIED BY '{password}';\n"
        ));
    }
    sql.push_str("SET SESSION sql_log_bin = 1;\n");
    sql
}

impl Sandbox {
    /// Starts the server process in the directory that is there, and waits until it answers.
    pub(super) fn launch(
        &mut self,
        settings: &[(String, String)],
        port: Option<Port>,
    ) -> Result<(), SandboxError> {
        let io = |doing: &str| SandboxError::io(doing.to_owned());
        let Some(run) = &self.run else {
            return Err(self.gone());
        };
        let dir = run.path().to_owned();
        run.clear_tmp()
            .map_err(io("cannot empty the server's temporary directory"))?;
        let root = RootPlan::of(&self.server, &self.parent);
        let inside = |leaf: &str| match &root {
            Some(root) => root.inside(&dir.join(leaf)),
            None => dir.join(leaf),
        };
        let socket = inside(rundir::SOCKET);
        let init = self.first_statements(settings)?;
        if let Some(statements) = &init {
            run.write_readable(INIT_FILE, statements)
                .map_err(io("cannot write the server's first statements"))?;
        }
        let init_file = init.map(|_| inside(INIT_FILE));
        let args = settings::arguments(
            self.entry.flavour,
            settings,
            &settings::Places {
                datadir: &inside("data"),
                tmpdir: &inside("tmp"),
                files: &inside("files"),
                socket: &socket,
                pid_file: &inside("run/mysqld.pid"),
                init_file: init_file.as_deref(),
                port: port.as_ref().map(|port| port.number),
            },
            self.account.is_some(),
        );
        let log = run.open_log().map_err(io("cannot open the server's log"))?;
        let log_from = log.metadata().map_or(0, |facts| facts.len());
        let watch = ready::Watch::new(&dir).map_err(io("cannot watch the server's directory"))?;
        let mut guardian = guardian::spawn(&Launch {
            program: self.server.exe_inside(),
            args,
            root,
            account: self.account.as_ref(),
            log: &log,
            lock: run.lock(),
            // The lock goes last: a removal that is cut short is finished by the next sweep.
            remove: vec![dir.join("data"), dir.join("tmp"), dir.clone()],
            announcement: Some(registry::entry_path(&self.entry.name)),
            log_kept: Some((self.entry.log.clone(), self.log_kept())),
        })
        .map_err(io("cannot run the server"))?;
        let outcome = ready::wait(
            &watch,
            &mut guardian,
            (&self.entry.log, log_from),
            &socket.display().to_string(),
            &self.dsn_socket(),
            Instant::now() + START_PATIENCE,
        )
        .map_err(io("cannot run the server"))?;
        run.remove(INIT_FILE)
            .map_err(io("cannot remove the server's first statements"))?;
        self.judge_start(outcome, guardian, log_from)
    }

    /// What the server runs before it accepts a connection: the password, unless its data has it
    /// from an earlier start, and the file that the user named.
    fn first_statements(
        &self,
        settings: &[(String, String)],
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        let mut statements = Vec::new();
        if !self.has_password {
            let password = self.password.expose();
            statements.extend(password_statements(self.entry.flavour, password).into_bytes());
        }
        let own = settings::init_file(settings);
        if let Some(path) = &own {
            let doing = format!("cannot read the init-file {}", path.display());
            let read = open_plain(path).and_then(|file| {
                file.take(INIT_FILE_BYTES_MAX)
                    .read_to_end(&mut statements)
                    .map(drop)
            });
            read.map_err(SandboxError::io(doing))?;
        }
        Ok((!statements.is_empty()).then_some(statements))
    }

    fn judge_start(
        &mut self,
        outcome: ready::Outcome,
        mut guardian: Guardian,
        log_from: u64,
    ) -> Result<(), SandboxError> {
        let (flavour, log) = (self.entry.flavour, self.log_kept());
        let message = |what: &Self| log::failure(&what.entry.log, log_from);
        match outcome {
            ready::Outcome::Answers(version) => {
                self.has_password = true;
                self.entry.version = version;
                self.entry.pid = guardian.server_pid();
                self.entry.guardian_pid = guardian.pid();
                self.entry.started_unix_s = SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs());
                self.guardian = Some(guardian);
                self.announce()
            }
            ready::Outcome::Ended(exit) => {
                let message = message(self);
                self.keep_log();
                // The data stays for another restart; it goes with this value.
                guardian.command(Command::Leave);
                guardian.finish();
                Err(SandboxError::Refused {
                    flavour,
                    exit,
                    message,
                    log,
                })
            }
            ready::Outcome::TooLate(failure) => {
                let message = failure.unwrap_or_else(|| message(self));
                self.keep_log();
                guardian.command(Command::Leave);
                guardian.finish();
                let seconds = START_PATIENCE.as_secs();
                Err(SandboxError::NotReady {
                    flavour,
                    seconds,
                    message,
                    log,
                })
            }
        }
    }

    /// Turns the end of a server that was asked to end into a result.
    pub(super) fn judge_end(
        &self,
        ended: std::io::Result<(ServerExit, bool)>,
    ) -> Result<(), SandboxError> {
        let name = self.entry.name.clone();
        match ended.map_err(SandboxError::io(format!("cannot stop server {name:?}")))? {
            (ServerExit::Code(0), _) => Ok(()),
            (_, true) => Err(SandboxError::Killed {
                name,
                seconds: STOP_PATIENCE.as_secs(),
            }),
            (exit, false) => {
                let message = log::failure(&self.entry.log, 0);
                self.keep_log();
                let (flavour, log) = (self.entry.flavour, self.log_kept());
                Err(SandboxError::Died {
                    flavour,
                    name,
                    exit,
                    message,
                    log,
                })
            }
        }
    }

    pub(super) fn announce(&self) -> Result<(), SandboxError> {
        let path = registry::entry_path(&self.entry.name);
        registry::announce(&self.entry)
            .map_err(SandboxError::io(format!("cannot write {}", path.display())))
    }

    fn gone(&self) -> SandboxError {
        SandboxError::NoSuchName {
            name: self.entry.name.clone(),
        }
    }

    /// Where the log of a server that failed goes.
    fn log_kept(&self) -> PathBuf {
        self.parent
            .join(format!("waggle-{}.error.log", self.entry.name))
    }

    fn keep_log(&self) {
        // The guardian may have done it already.
        let _ = std::fs::rename(&self.entry.log, self.log_kept());
    }
}
