//! Servers for a comparison: throw-away ones through waggle, the null server beside this program.
//!
//! Invariant: a server ends with this process: it is dropped at the end and on any error, gets the
//! terminal's Ctrl-C with the rest of the process group, and a signal from the kernel when this
//! process is killed.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;
use waggle_bench_client::login::{self, Place};

use crate::plan::{Flavour, Transport, name};

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    pub(crate) flavour: Flavour,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) socket: PathBuf,
    pub(crate) port: u16,
    control: File,
    deprecates_eof: bool,
}

/// What a server says when it is up.
#[derive(Deserialize)]
struct Up {
    socket: PathBuf,
    /// Of throw-away servers that were asked for it, as these are.
    port: Option<u16>,
    pid: u32,
    #[serde(default)]
    version: Option<String>,
}

/// Settings for a comparison of clients: room for 512 connections and their statements, and no
/// wait for a disk in read-write.
pub(crate) const STATEMENTS: [&str; 5] = [
    "max_connections=1100",
    "max_prepared_stmt_count=1000000",
    "innodb_buffer_pool_size=1G",
    "innodb_flush_log_at_trx_commit=2",
    "sync_binlog=0",
];

/// An account for clients that know no password, which has rights in the schema of the comparison
/// and nowhere else.
const ACCOUNT: &str = "SET SESSION sql_log_bin = 0;\nCREATE USER 'bench'@'localhost';\n\
    GRANT ALL ON sbtest.* TO 'bench'@'localhost';\nSET SESSION sql_log_bin = 1;\n";

/// Settings for a comparison of loading: commits wait for the disk, as a server does by default.
pub(crate) const LOADING: [&str; 1] = ["innodb_buffer_pool_size=1G"];

/// The statements in a file, as long as a server starts.
struct AccountFile(PathBuf);

impl AccountFile {
    fn make() -> std::io::Result<AccountFile> {
        let name = format!("waggle-bench-account-{}.sql", std::process::id());
        let path = std::env::temp_dir().join(name);
        File::create_new(&path)?.write_all(ACCOUNT.as_bytes())?;
        Ok(AccountFile(path))
    }
}

impl Drop for AccountFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Server {
    pub(crate) fn start(
        flavour: Flavour,
        waggle: &Path,
        settings: &[&str],
    ) -> anyhow::Result<Server> {
        let account = AccountFile::make().context("writing the account's statements")?;
        let mut command = match flavour {
            Flavour::Null => {
                let mut command = Command::new(beside("null-server")?);
                let socket = format!("waggle-null-{}.sock", std::process::id());
                command
                    .arg("--socket")
                    .arg(std::env::temp_dir().join(socket));
                command
            }
            _ => {
                let mut command = Command::new(waggle);
                command.args(["server", "up", &name(&flavour), "--tcp", "--json"]);
                command.args(["--set", &format!("init-file={}", account.0.display())]);
                for setting in settings {
                    command.args(["--set", *setting]);
                }
                command
            }
        };
        // SAFETY: prctl only sets a flag of the child; it is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let stdout = child.stdout.take().context("it has a standard output")?;
        let up: Up = serde_json::Deserializer::from_reader(stdout)
            .into_iter()
            .next()
            .with_context(|| format!("{} ended before it was up", name(&flavour)))?
            .with_context(|| format!("what {} says", name(&flavour)))?;
        let logged_in = login::connect(&Place::Socket(up.socket.clone()))?;
        Ok(Server {
            child,
            flavour,
            version: up.version.unwrap_or_else(|| "in this tree".to_owned()),
            pid: up.pid,
            socket: up.socket,
            port: up.port.context("it has no TCP")?,
            control: File::from(logged_in.socket),
            deprecates_eof: logged_in.deprecates_eof,
        })
    }

    /// Statements the server has executed, this one included.
    pub(crate) fn questions(&mut self) -> anyhow::Result<u64> {
        let sql = "SHOW GLOBAL STATUS LIKE 'Questions'";
        let rows = login::rows(&mut self.control, sql, self.deprecates_eof)?;
        let found = rows.iter().find(|(name, _)| name == "Questions");
        let (_, value) = found.context("the server counts no Questions")?;
        value.parse().context("the server's Questions")
    }

    /// Executes one statement.
    pub(crate) fn execute(&mut self, sql: &str) -> anyhow::Result<()> {
        login::command(&mut self.control, 0x03, sql.as_bytes()).map(|_| ())
    }

    /// The rows of a table.
    pub(crate) fn count(&mut self, table: &str) -> anyhow::Result<u64> {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let rows = login::rows(&mut self.control, &sql, self.deprecates_eof)?;
        let (count, _) = rows.first().context("a COUNT without a row")?;
        count.parse().context("a COUNT")
    }

    /// sysbench's options for this server.
    pub(crate) fn sysbench_options(&self, transport: Transport) -> Vec<String> {
        let mut options = vec![
            "--mysql-user=bench".to_owned(),
            "--mysql-db=sbtest".to_owned(),
        ];
        match transport {
            Transport::Socket => options.push(format!("--mysql-socket={}", self.socket.display())),
            Transport::Tcp => {
                options.push("--mysql-host=127.0.0.1".to_owned());
                options.push(format!("--mysql-port={}", self.port));
            }
        }
        options
    }

    /// waggle's name for this server.
    pub(crate) fn dsn(&self, transport: Transport) -> String {
        match transport {
            Transport::Socket => format!("mysql://bench@/sbtest?socket={}", self.socket.display()),
            Transport::Tcp => format!("mysql://bench@127.0.0.1:{}/sbtest", self.port),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for, so its number is its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let _ = self.child.wait();
        if self.flavour == Flavour::Null {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// A program that was built with this one.
pub(crate) fn beside(program: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()
        .context("finding this program")?
        .with_file_name(program);
    ensure!(
        path.exists(),
        "{} is not there; `cargo xtask bench-client` builds it",
        path.display()
    );
    Ok(path)
}
