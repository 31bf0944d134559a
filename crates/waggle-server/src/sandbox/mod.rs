//! Throw-away MySQL and MariaDB servers: fast to start, gone with the process that started them.
//!
//! [`Sandbox::start`] copies a data directory that was made once per server build (`template`,
//! `copy`), runs the server under a guardian process (`guardian`, `child`) as a user of its own
//! (`account`) in a directory of its own (`rundir`) with settings that keep it there (`settings`,
//! `launch`), waits until it answers (`ready`) and publishes it (`registry`). `data` starts one on
//! what another one left.
//!
//! Invariants: nobody but who started it has its password, and started by root it has no right that
//! any other user does not have; whatever happens to this process or to the server, no process,
//! mount or directory of a throw-away server is left; only the log of one that failed is, and the
//! error names it.

mod account;
mod child;
mod copy;
mod data;
mod error;
mod guardian;
mod launch;
mod log;
mod port;
mod ready;
pub mod registry;
mod rundir;
mod settings;
mod template;

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waggle_wire::{Dsn, Endpoint, Secret, ServerKey};

use crate::Flavour;
use crate::install::{self, InstalledServer};
use account::Account;
use data::Data;
use guardian::{Guardian, RootPlan};
use port::Port;
use registry::ServerEntry;
use rundir::{RunDir, default_parent};

pub(crate) use account::NUMBERS as DYNAMIC_IDS;
pub use error::SandboxError;
pub use guardian::ServerExit;
pub(crate) use rundir::{random_number, random_password, random_word};

/// How long a server may take to shut down before it is killed.
pub const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// Where servers are made whose [`SandboxSpec::dir`] does not say.
pub fn default_directory() -> PathBuf {
    default_parent()
}

/// What throw-away server to start.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// The family of server.
    pub flavour: Flavour,
    /// Server settings, `name` without leading dashes and `value`; later ones win.
    pub settings: Vec<(String, String)>,
    /// Its name in `waggle server list`; `None`: one is made up.
    pub name: Option<String>,
    /// Where to make its directory; `None`: `/tmp`, or `/var/tmp` if that is in memory.
    pub dir: Option<PathBuf>,
    /// Listen on a port of 127.0.0.1, too, and not on the Unix socket alone.
    pub tcp: bool,
}

impl SandboxSpec {
    /// A server with default settings and a name that is made up.
    pub fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            settings: Vec::new(),
            name: None,
            dir: None,
            tcp: false,
        }
    }

    /// Lets it listen on a port of 127.0.0.1, unless a setting says otherwise.
    #[must_use]
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Adds one server setting.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}

/// A throw-away server that answers.
///
/// Dropping it kills the server and removes its directory. So does the end of this process, in
/// whatever way it comes.
#[derive(Debug)]
pub struct Sandbox {
    server: InstalledServer,
    settings: Vec<(String, String)>,
    entry: ServerEntry,
    parent: PathBuf,
    password: Secret,
    /// A copy of its RSA key, for logins over TCP.
    public_key: Option<PathBuf>,
    /// Whether its data has the password, as it has once the server has answered.
    has_password: bool,
    // The order matters: the guardian goes first, then what it left of the directory, then the
    // user id, which is free for another server then.
    guardian: Option<Guardian>,
    run: Option<RunDir>,
    account: Option<Account>,
}

impl Sandbox {
    /// Starts a server and returns when it has answered a statement.
    ///
    /// The first start of a server build makes its data directory template, which takes seconds.
    ///
    /// # Errors
    /// [`SandboxError`]; [`SandboxError::is_unusable`] tells whether the request was at fault.
    pub fn start(spec: &SandboxSpec) -> Result<Self, SandboxError> {
        Self::begin(spec, None)
    }

    /// Starts a server on a copy of `data`, or of the template.
    fn begin(spec: &SandboxSpec, data: Option<Data<'_>>) -> Result<Self, SandboxError> {
        let name = match &spec.name {
            Some(name) => name.clone(),
            None => format!("{}-{}", spec.flavour.name(), rundir::random_word(5)),
        };
        check_name(&name)?;
        settings::check(&spec.settings)?;
        let server = install::find(spec.flavour).map_err(|remedy| SandboxError::NotInstalled {
            flavour: spec.flavour,
            remedy,
        })?;
        if let Some(root) = server.root.as_ref().filter(|_| !settings::is_root()) {
            return Err(SandboxError::NeedsRoot { root: root.clone() });
        }
        let parent = match &spec.dir {
            Some(dir) => std::path::absolute(dir)
                .map_err(SandboxError::io(format!("cannot use {}", dir.display())))?,
            None => default_parent(),
        };
        rundir::sweep(&[&parent, Path::new("/tmp"), Path::new("/var/tmp")]);
        if registry::find(&name).is_some() {
            return Err(SandboxError::NameTaken { name });
        }
        let source = match &data {
            Some(data) => data.from.to_owned(),
            None => template::ensure(&server, &settings::at_creation(&spec.settings))?,
        };
        let account = take_account(&parent)?;
        let owner = account.as_ref().map(Account::id);
        let run = RunDir::create(&parent, &name, owner)?;
        let password = new_password(&run)?;
        let datadir = run.path().join("data");
        let is_left = |entry: &OsStr| {
            let of_the_source = data.as_ref().is_some_and(|data| (data.is_left)(entry));
            of_the_source || template::NOT_COPIED.iter().any(|name| entry == *name)
        };
        copy::copy_tree(&source, &datadir, owner, &is_left).map_err(SandboxError::io(format!(
            "cannot copy {} to {}",
            source.display(),
            datadir.display()
        )))?;
        let public_key = keep_public_key(&run)?;
        let has_tcp = settings::has_tcp(&spec.settings).unwrap_or(spec.tcp);
        let port = has_tcp.then(|| Port::reserve(settings::port(&spec.settings)));
        let port = port.transpose()?;
        let number = port.as_ref().map(|port| port.number);
        let tcp = number.map(|port| tcp_dsn(port, &password, public_key.as_deref()));
        let mut sandbox = Self {
            entry: first_entry(&name, spec, run.path(), tcp.as_ref(), &password),
            server,
            settings: spec.settings.clone(),
            parent,
            password,
            public_key,
            has_password: false,
            guardian: None,
            run: Some(run),
            account,
        };
        let settings = sandbox.settings.clone();
        sandbox.launch(&settings, port)?;
        Ok(sandbox)
    }

    /// Stops the server and starts it again on the same data, port and socket, with the settings
    /// it was first started with and then these.
    ///
    /// # Errors
    /// As [`start`](Self::start) and [`stop`](Self::stop). The server is down afterwards; another
    /// restart may bring it up.
    pub fn restart(&mut self, settings: &[(String, String)]) -> Result<(), SandboxError> {
        let all: Vec<_> = self.settings.iter().chain(settings).cloned().collect();
        settings::check(&all)?;
        self.halt()?;
        let port = self.entry.port.map(|port| Port::reserve(Some(port)));
        self.launch(&all, port.transpose()?)
    }

    /// How to connect, as root with the password of its file, with the empty schema `sbtest`: over
    /// TCP if it has that, else over the socket.
    pub fn dsn(&self) -> Dsn {
        match self.entry.port {
            Some(port) => tcp_dsn(port, &self.password, self.public_key.as_deref()),
            None => self.dsn_socket(),
        }
    }

    /// The same over the Unix socket, which costs both ends less than TCP.
    pub fn dsn_socket(&self) -> Dsn {
        root_dsn(Endpoint::Socket(self.entry.socket.clone()), &self.password)
    }

    /// The same with another default database.
    pub fn dsn_of(&self, database: &str) -> Dsn {
        Dsn {
            database: Some(database.to_owned()),
            ..self.dsn_socket()
        }
    }

    /// The password of root, which is in a file that only who started it can read.
    pub fn password(&self) -> &Secret {
        &self.password
    }

    /// The user and group id that it runs as; `None`: as this process.
    pub fn uid(&self) -> Option<u32> {
        self.account.as_ref().map(Account::id)
    }

    /// All that is known of the server, as others see it in the registry.
    pub fn entry(&self) -> &ServerEntry {
        &self.entry
    }

    /// Process id of the server; another one after a restart.
    pub fn pid(&self) -> u32 {
        self.entry.pid
    }

    /// Its name in `waggle server list`.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its family.
    pub fn flavour(&self) -> Flavour {
        self.entry.flavour
    }

    /// What it calls itself, such as `9.7.4-2` or `10.11.19-MariaDB-0+deb12u1`.
    pub fn version(&self) -> &str {
        &self.entry.version
    }

    /// Its Unix socket.
    pub fn socket(&self) -> &Path {
        &self.entry.socket
    }

    /// Its TCP port on 127.0.0.1, if it has one: see [`SandboxSpec::tcp`].
    pub fn port(&self) -> Option<u16> {
        self.entry.port
    }

    /// Its data directory, as seen from outside.
    pub fn datadir(&self) -> &Path {
        &self.entry.datadir
    }

    /// Its error log.
    pub fn log(&self) -> &Path {
        &self.entry.log
    }

    /// The directory that its LOAD DATA and INTO OUTFILE are kept to, as seen from outside.
    pub fn files(&self) -> PathBuf {
        self.entry.dir.join("files")
    }

    /// The program it runs.
    pub fn program(&self) -> &InstalledServer {
        &self.server
    }

    /// What the server calls a file that lies in the directory its own directory was made in
    /// (`/tmp`, if nothing else was said), for LOAD DATA and the like. `None`: it cannot see it.
    pub fn path_in_server(&self, path: &Path) -> Option<PathBuf> {
        match RootPlan::of(&self.server, &self.parent) {
            Some(root) => path.starts_with(&self.parent).then(|| root.inside(path)),
            None => Some(path.to_owned()),
        }
    }

    /// Puts a file where the server's LOAD DATA can read it, by a second name or as a copy, and
    /// says what the server calls it. One that was there under its name is replaced.
    ///
    /// # Errors
    /// It cannot be read or written, or has no name.
    pub fn lend(&self, file: &Path) -> std::io::Result<PathBuf> {
        let name = file
            .file_name()
            .ok_or_else(|| std::io::Error::other("a directory cannot be lent"))?;
        let to = self.files().join(name);
        rundir::lend(file, &to, self.uid())?;
        Ok(self.path_in_server(&to).unwrap_or(to))
    }

    /// Settings that the server changed rather than refuse, in its own words.
    pub fn settings_adjusted(&self) -> Vec<String> {
        log::adjusted_settings(&self.entry.log, 0)
    }

    /// A descriptor that becomes readable when the server ends; then ask
    /// [`ended`](Self::ended).
    pub fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        self.guardian.as_ref().map(Guardian::as_fd)
    }

    /// How the server ended, waiting for that at most so long; `None` while it runs.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if its guardian could not be asked.
    pub fn ended(&mut self, patience: Duration) -> Result<Option<ServerExit>, SandboxError> {
        let Some(guardian) = &mut self.guardian else {
            return Ok(Some(ServerExit::WithGuardian));
        };
        guardian
            .exit_until(Instant::now() + patience)
            .map_err(SandboxError::io("cannot ask the guardian process"))
    }

    /// Stops the server in an orderly way, by force after [`STOP_PATIENCE`], and removes its
    /// directory.
    ///
    /// # Errors
    /// [`SandboxError::Killed`] if force was needed, [`SandboxError::Died`] if it failed, before
    /// or while shutting down. The server and its directory are gone even so.
    pub fn stop(mut self) -> Result<(), SandboxError> {
        let Some(mut guardian) = self.guardian.take() else {
            return Ok(());
        };
        let ended = guardian.terminate(STOP_PATIENCE);
        let judged = self.judge_end(ended);
        guardian.finish();
        judged
    }

    /// Lets the server live on after this process, until `waggle server down` or its own end.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if it cannot be published as such; it is stopped then.
    pub fn detach(mut self) -> Result<ServerEntry, SandboxError> {
        self.entry.owner_pid = None;
        self.announce()?;
        if let Some(guardian) = self.guardian.take() {
            guardian.detach();
        }
        if let Some(run) = self.run.take() {
            run.release();
        }
        Ok(self.entry.clone())
    }
}

/// A name is a file name and a word in a shell.
fn check_name(name: &str) -> Result<(), SandboxError> {
    let bad = |why| {
        Err(SandboxError::BadName {
            name: name.to_owned(),
            why,
        })
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match name.as_bytes() {
        [] => bad("it is empty"),
        bytes if bytes.len() > 32 => bad("it is longer than 32 characters"),
        bytes if !bytes.iter().copied().all(allowed) => {
            bad("only letters, digits, `-`, `_` and `.` are allowed")
        }
        [first, ..] if !first.is_ascii_alphanumeric() => {
            bad("it has to begin with a letter or a digit")
        }
        _ => Ok(()),
    }
}

/// A user for a server below `parent`, who can get there.
fn take_account(parent: &Path) -> Result<Option<Account>, SandboxError> {
    let account =
        Account::take().map_err(SandboxError::io("cannot find a user id for the server"))?;
    match account::barred_at(parent).filter(|_| account.is_some()) {
        Some(barred) => Err(SandboxError::NotReachable {
            dir: parent.to_owned(),
            barred: barred.to_owned(),
        }),
        None => Ok(account),
    }
}

/// Makes up a password and writes it to its file.
fn new_password(run: &RunDir) -> Result<Secret, SandboxError> {
    let doing = "cannot make the server's password";
    let password = rundir::random_password().map_err(SandboxError::io(doing))?;
    run.write_private("password", format!("{password}\n").as_bytes())
        .map_err(SandboxError::io(doing))?;
    Secret::from_file(run.path().join("password"))
        .map_err(|error| SandboxError::io(doing)(std::io::Error::other(error)))
}

fn first_entry(
    name: &str,
    spec: &SandboxSpec,
    dir: &Path,
    tcp: Option<&Dsn>,
    password: &Secret,
) -> ServerEntry {
    let socket = dir.join(rundir::SOCKET);
    let dsn_socket = root_dsn(Endpoint::Socket(socket.clone()), password).to_string();
    let dsn = tcp.map_or_else(|| dsn_socket.clone(), Dsn::to_string);
    let port = tcp.and_then(|dsn| match dsn.endpoint {
        Endpoint::Tcp { port, .. } => Some(port),
        Endpoint::Socket(_) => None,
    });
    ServerEntry {
        name: name.to_owned(),
        flavour: spec.flavour,
        version: String::new(),
        pid: 0,
        guardian_pid: 0,
        owner_pid: Some(std::process::id()),
        dsn,
        dsn_socket,
        port,
        socket,
        dir: dir.to_owned(),
        datadir: dir.join("data"),
        log: dir.join("error.log"),
        started_unix_s: 0,
        replica_of: None,
    }
}

/// With the server's key, where it has one: over TCP and without TLS, the password goes out under
/// a key that is known or not at all.
fn tcp_dsn(port: u16, password: &Secret, public_key: Option<&Path>) -> Dsn {
    let host = Ipv4Addr::LOCALHOST.to_string();
    let dsn = root_dsn(Endpoint::Tcp { host, port }, password);
    match public_key {
        Some(path) => Dsn {
            server_key: ServerKey::Pinned(path.to_owned()),
            ..dsn
        },
        None => dsn,
    }
}

/// Keeps a copy of the server's RSA key where only who started it can change it; MariaDB has none.
/// Taken before the server runs, so that it is the one it was made with.
fn keep_public_key(run: &RunDir) -> Result<Option<PathBuf>, SandboxError> {
    const NAME: &str = "public_key.pem";
    let doing = "cannot keep the server's public key";
    let key = match std::fs::read(run.path().join("data").join(NAME)) {
        Ok(key) => key,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SandboxError::io(doing)(error)),
    };
    run.write_private(NAME, &key)
        .map_err(SandboxError::io(doing))?;
    Ok(Some(run.path().join(NAME)))
}

fn root_dsn(endpoint: Endpoint, password: &Secret) -> Dsn {
    Dsn {
        password: Some(password.clone()),
        database: Some("sbtest".into()),
        ..Dsn::new(endpoint, "root")
    }
}
