//! A data directory made once per server build, which every throw-away server starts from a copy
//! of: making one takes seconds, copying one takes a tenth of a second.
//!
//! `<cache>/templates/<flavour>-<version>-<build>[-<settings>]/data`. Invariant: a template is
//! copied beside its place under a lock and renamed into it, so one that is there is whole; no
//! server's user can write to it.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::account::Account;
use super::copy::copy_tree;
use super::guardian::{self, Command, Launch, RootPlan, ServerExit};
use super::rundir::{self, RunDir};
use super::{SandboxError, log, settings};
use crate::Flavour;
use crate::install::{InstalledServer, cache_dir};

/// Counts up when templates of older programs can no longer be used.
const LAYOUT: u32 = 2;

/// A data directory takes seconds; on a machine that is very busy, a minute.
const DEADLINE: Duration = Duration::from_secs(180);

/// What every template holds besides the system tables. The character set is named because the
/// two families differ in their default.
const FIRST_STATEMENTS: &str = "CREATE DATABASE sbtest CHARACTER SET utf8mb4;\n";
/// And MariaDB's, whose script makes accounts without a password that no server's password is for:
/// one without a name, and a root of this host's name.
const FIRST_STATEMENTS_MARIADB: &str = "DELETE FROM mysql.global_priv WHERE User = '' \
    OR User = 'root' AND Host NOT IN ('localhost', '127.0.0.1', '::1');\n";

/// What a data directory must not hand on: the identity of a server.
pub(super) const NOT_COPIED: [&str; 2] = ["auto.cnf", "error.log"];

/// The data directory of the template for this server, made now if there is none.
pub(super) fn ensure(
    server: &InstalledServer,
    at_creation: &[(String, String)],
) -> Result<PathBuf, SandboxError> {
    let templates = cache_dir().join("templates");
    let key = key(server, at_creation);
    let done = templates.join(&key);
    if done.is_dir() {
        return Ok(done.join("data"));
    }
    let doing = format!("cannot make the data directory template {}", done.display());
    let io = |doing: &str| SandboxError::io(doing.to_owned());
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&templates)
        .map_err(io(&doing))?;
    let lock = File::create(templates.join(format!(".{key}.lock"))).map_err(io(&doing))?;
    rundir::lock(&lock).map_err(io(&doing))?;
    // Another process may have made it while this one waited.
    if done.is_dir() {
        return Ok(done.join("data"));
    }
    let draft = templates.join(format!(".{key}.new"));
    if draft.exists() {
        fs::remove_dir_all(&draft).map_err(io(&doing))?;
    }
    // Made where the server's user can get to, and kept where no server can.
    let place = super::default_parent();
    let account = super::take_account(&place)?;
    let owner = account.as_ref().map(Account::id);
    let run = RunDir::create(&place, &format!("t-{}", rundir::random_word(12)), owner)?;
    make(server, at_creation, &run, account.as_ref(), &doing)?;
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&draft)
        .map_err(io(&doing))?;
    copy_tree(&run.path().join("data"), &draft.join("data"), None, &|_| {
        false
    })
    .map_err(io(&doing))?;
    fs::rename(&draft, &done).map_err(io(&doing))?;
    Ok(done.join("data"))
}

/// Names a template by all that its files depend on.
fn key(server: &InstalledServer, at_creation: &[(String, String)]) -> String {
    let version = server.version.as_deref().unwrap_or("unknown");
    let build = match &server.build_id {
        Some(id) => id[..id.len().min(12)].to_owned(),
        None => {
            let facts = fs::metadata(&server.exe);
            let facts = facts.map(|facts| (facts.dev(), facts.ino(), facts.mtime(), facts.len()));
            format!("{:016x}", hash(&facts.ok()))
        }
    };
    let mut key = format!("{}-{version}-{build}-v{LAYOUT}", server.flavour.name());
    if !at_creation.is_empty() {
        key.push_str(&format!("-{:016x}", hash(&at_creation)));
    }
    key.replace(
        |c: char| !c.is_ascii_alphanumeric() && !".-+~".contains(c),
        "_",
    )
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Runs the server's own initialisation in a directory.
fn make(
    server: &InstalledServer,
    at_creation: &[(String, String)],
    run: &RunDir,
    account: Option<&Account>,
    doing: &str,
) -> Result<(), SandboxError> {
    let io = || SandboxError::io(doing.to_owned());
    run.make_data().map_err(io())?;
    let mut first = FIRST_STATEMENTS.to_owned();
    if server.flavour == Flavour::MariaDb {
        first.push_str(FIRST_STATEMENTS_MARIADB);
    }
    run.write_readable("first.sql", first.as_bytes())
        .map_err(io())?;
    let draft = run.path();
    let log_path = draft.join("error.log");
    let log_file = run.open_log().map_err(io())?;
    let root = RootPlan::of(server, draft.parent().unwrap_or(draft));
    let inside = |leaf: &str| {
        root.as_ref()
            .map_or_else(|| draft.join(leaf), |root| root.inside(&draft.join(leaf)))
    };
    let (program, args) = match server.flavour {
        Flavour::MySql => (server.exe_inside(), mysql_args(&inside)),
        Flavour::MariaDb => (install_script(server)?, mariadb_args(server, &inside)),
    };
    let own = at_creation
        .iter()
        .map(|(name, value)| format!("--{name}={value}"));
    let log_kept = super::default_parent().join(format!(
        "waggle-template-{}-{}.error.log",
        server.flavour.name(),
        std::process::id()
    ));
    let mut child = guardian::spawn(&Launch {
        program,
        args: args
            .into_iter()
            .chain(settings::as_root(account.is_some()))
            .chain(own)
            .collect(),
        root: root.clone(),
        account,
        log: &log_file,
        lock: run.lock(),
        remove: vec![draft.to_owned()],
        announcement: None,
        log_kept: Some((log_path.clone(), log_kept.clone())),
    })
    .map_err(io())?;
    let ended = child.exit_until(Instant::now() + DEADLINE).map_err(io())?;
    if ended == Some(ServerExit::Code(0)) {
        child.command(Command::Leave);
        child.finish();
        return Ok(());
    }
    let (flavour, message) = (server.flavour, log::failure(&log_path, 0));
    // The guardian removes the draft; the log is kept before that.
    let _ = fs::rename(&log_path, &log_kept);
    child.finish();
    Err(failed(flavour, ended, message, log_kept))
}

/// Why there is no template: how the server ended, or that it did not.
fn failed(
    flavour: Flavour,
    ended: Option<ServerExit>,
    message: String,
    log: PathBuf,
) -> SandboxError {
    let seconds = DEADLINE.as_secs();
    match ended {
        Some(exit) => SandboxError::Template {
            flavour,
            exit,
            message,
            log,
        },
        None => SandboxError::NotReady {
            flavour,
            seconds,
            message,
            log,
        },
    }
}

fn mysql_args(inside: &dyn Fn(&str) -> PathBuf) -> Vec<String> {
    let path = |leaf| inside(leaf).display().to_string();
    vec![
        "--no-defaults".into(),
        // root without a password: each server gets one before it accepts a connection.
        "--initialize-insecure".into(),
        format!("--datadir={}", path("data")),
        format!("--tmpdir={}", path("tmp")),
        format!("--init-file={}", path("first.sql")),
        "--disable-log-bin".into(),
        // Whether a crash now would lose something does not matter: the draft would be discarded.
        "--innodb-flush-log-at-trx-commit=0".into(),
        "--innodb-doublewrite=OFF".into(),
    ]
}

fn mariadb_args(server: &InstalledServer, inside: &dyn Fn(&str) -> PathBuf) -> Vec<String> {
    let path = |leaf| inside(leaf).display().to_string();
    let base = server
        .exe
        .parent()
        .and_then(Path::parent)
        .unwrap_or(Path::new("/usr"));
    vec![
        "--no-defaults".into(),
        format!("--basedir={}", base.display()),
        format!("--datadir={}", path("data")),
        format!("--tmpdir={}", path("tmp")),
        "--auth-root-authentication-method=normal".into(),
        "--skip-test-db".into(),
        "--skip-name-resolve".into(),
        format!("--extra-file={}", path("first.sql")),
        "--innodb-flush-log-at-trx-commit=0".into(),
        "--innodb-doublewrite=OFF".into(),
    ]
}

/// The script that makes MariaDB's system tables; it comes with the server.
fn install_script(server: &InstalledServer) -> Result<PathBuf, SandboxError> {
    let base = server
        .exe
        .parent()
        .and_then(Path::parent)
        .map(Path::to_owned);
    let beside = base
        .into_iter()
        .flat_map(|base| ["bin", "scripts"].map(|dir| base.join(dir)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .chain(std::env::split_paths(&path))
        .flat_map(|dir| ["mariadb-install-db", "mysql_install_db"].map(|name| dir.join(name)))
        .find(|script| script.is_file())
        .ok_or_else(|| SandboxError::NotInstalled {
            flavour: Flavour::MariaDb,
            remedy: format!(
                "{} is there, but mariadb-install-db, which comes with it, is not",
                server.exe.display()
            ),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_named_by_what_it_depends_on() {
        let server = InstalledServer {
            exe: "/usr/sbin/mysqld".into(),
            root: None,
            flavour: Flavour::MySql,
            version: Some("9.7.4".into()),
            build_id: Some("0123456789abcdef".into()),
        };
        assert_eq!(key(&server, &[]), "mysql-9.7.4-0123456789ab-v2");
        let pages = [("innodb-page-size".to_owned(), "8k".to_owned())];
        assert_ne!(key(&server, &pages), key(&server, &[]));
        let unknown = InstalledServer {
            build_id: None,
            version: Some("../x".into()),
            ..server
        };
        assert!(!key(&unknown, &[]).contains('/'));
    }
}
