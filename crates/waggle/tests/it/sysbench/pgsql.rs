//! `--db-driver=pgsql` on Debian's PostgreSQL: the same scripts, the same counts as sysbench's.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use waggle_need::{is_root, need};

use super::bed::{Counts, Tool, both};

const PATIENCE: Duration = Duration::from_secs(60);

/// A throw-away PostgreSQL: a directory, a socket in it, and a port of this machine.
struct Postgres {
    process: Child,
    programs: PathBuf,
    directory: TempDir,
    port: u16,
}

impl Postgres {
    fn open() -> Option<Postgres> {
        let programs = programs();
        let why = "no /usr/lib/postgresql/*/bin, or this is root and there is no user 'postgres'";
        let account = match is_root() {
            true => account("postgres").map(Some),
            false => Some(None),
        };
        let found = programs.is_some() && account.is_some();
        if !need("postgresql", found, why) {
            return None;
        }
        let (programs, account) = (programs?, account?);
        let directory = tempfile::tempdir().unwrap();
        if let Some((user, group)) = account {
            std::os::unix::fs::chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        let data = directory.path().join("data");
        let command = |program: &str| command(&programs.join(program), account, directory.path());
        let made = command("initdb")
            .args(["--auth=trust", "--username=sbtest", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{made:?}");
        let port = free_port();
        let process = command("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args(["-F", "-h", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres starts");
        let mut server = Postgres {
            process,
            programs,
            directory,
            port,
        };
        server.wait_ready();
        Some(server)
    }

    fn wait_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.psql("postgres", "CREATE DATABASE sbtest").is_none() {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "postgres ended: {ended:?}");
            assert!(Instant::now() < deadline, "postgres does not get ready");
        }
    }

    /// What a statement answers, a line a row; `None` when it failed.
    fn psql(&self, database: &str, sql: &str) -> Option<String> {
        let output = Command::new(self.programs.join("psql"))
            .arg("-h")
            .arg(self.directory.path())
            .args(["-p", &self.port.to_string(), "-U", "sbtest", "-At"])
            .args(["-d", database, "-c", sql])
            .output()
            .expect("psql starts");
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(text)
    }

    fn ask(&self, sql: &str) -> String {
        self.psql("sbtest", sql)
            .unwrap_or_else(|| panic!("{sql} failed"))
    }

    /// Tables with their columns, indexes and rows.
    fn tables(&self) -> Vec<String> {
        let of_schema = "WHERE table_schema = 'public' ORDER BY 1, 2";
        let mut tables = vec![
            self.ask(&format!(
                "SELECT table_name, column_name, data_type, column_default, is_nullable \
                 FROM information_schema.columns {of_schema}"
            )),
            self.ask("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"),
        ];
        let names = self.ask(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' \
             ORDER BY 1",
        );
        for name in names.lines() {
            let rows = self.ask(&format!("SELECT COUNT(*) FROM {name}"));
            tables.push(format!("{name}: {rows}"));
        }
        tables
    }

    fn well(&self, tool: Tool, line: &str) -> String {
        let own = format!(
            "{line} --db-driver=pgsql --pgsql-host=127.0.0.1 --pgsql-port={}",
            self.port
        );
        let words: Vec<&str> = own.split_whitespace().collect();
        let said = tool.run(&words, self.directory.path());
        assert_eq!(said.code, Some(0), "{tool:?} {own}: {said:?}");
        said.stdout
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It ends its own children.
        let pid = i32::try_from(self.process.id()).unwrap();
        // SAFETY: integers in, none of our memory; our own child, not yet waited for.
        unsafe { libc::kill(pid, libc::SIGQUIT) };
        let _ = self.process.wait();
    }
}

/// The newest version that is installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.map(|version| version.unwrap().path().join("bin"));
    programs
        .filter(|programs| programs.join("initdb").exists() && programs.join("psql").exists())
        .max()
}

/// The numbers of a user and its group.
fn account(name: &str) -> Option<(u32, u32)> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = accounts
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A program under the account the server runs as; it ends when this test does.
fn command(program: &Path, account: Option<(u32, u32)>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null());
    if let Some((user, group)) = account {
        command.uid(user).gid(group);
    }
    // SAFETY: prctl is async-signal-safe, and integers go in. It comes after the change of the
    // account, which would clear it.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT);
            Ok(())
        });
    }
    command
}

/// A port that nobody listens on, below those that the kernel gives to whoever asks for just any:
/// one of these may be somebody else's before the server has it.
fn free_port() -> u16 {
    let own = u64::from(std::process::id()) * 101;
    let mut ports = (0..20_000).map(|next| 10_000 + ((own + next) % 20_000) as u16);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).expect("a port")
}

#[test]
fn scripts_on_postgresql() {
    let Some(server) = Postgres::open() else {
        return;
    };
    let sysbench = both().map(|_| Tool::Sysbench);
    for script in [
        "oltp_read_only",
        "oltp_read_write",
        "oltp_point_select",
        "oltp_insert",
    ] {
        let options = "--tables=2 --table-size=300 --events=30 --time=0";
        let empty = server.tables();
        let did = |tool: Tool| {
            server.well(tool, &format!("{script} {options} prepare"));
            let prepared = server.tables();
            let report = server.well(tool, &format!("{script} {options} run"));
            let rows = "SELECT (SELECT COUNT(*) FROM sbtest1) + (SELECT COUNT(*) FROM sbtest2)";
            let rows = server.ask(rows);
            server.well(tool, &format!("{script} {options} cleanup"));
            assert_eq!(server.tables(), empty, "{tool:?} left tables of {script}");
            (prepared, Counts::of(&report), rows)
        };
        let ours = did(Tool::Waggle);
        let rows = 600 + if script == "oltp_insert" { 30 } else { 0 };
        assert_eq!(ours.2.trim(), rows.to_string(), "{script}");
        assert_eq!(ours.1.events, 30);
        if let Some(sysbench) = sysbench {
            assert_eq!(ours, did(sysbench), "{script}");
        }
    }
}
