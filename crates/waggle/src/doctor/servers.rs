//! The servers of this host: what each program file offers to a probe.
//!
//! A program that runs several times, or both runs and is installed, is one entry: probes go by
//! file. Its file is only read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use waggle_foreign::read_proc;
use waggle_probes::statement::Fit;
use waggle_server::Flavour;
use waggle_server::binary::{self, NotAServerBinary};
use waggle_server::install::{InstalledServer, installed_servers};
use waggle_server::process::{self, NotAServer, ServerProcess};
use waggle_symbols::{Binary, ElfError, Field, FieldName, Hook, Site, TrapCost, hook};

/// The probe point that watching uses, as it is called in reports.
pub(super) const PROBE: &str = "log_slow_statement";

/// One server program and the processes that run it.
#[derive(Debug, Serialize)]
pub(super) struct Server {
    #[serde(skip)]
    file: FileId,
    pub(super) binary: PathBuf,
    pub(super) flavour: Flavour,
    pub(super) version: Option<String>,
    pub(super) build_id: Option<String>,
    pub(super) stripped: Option<bool>,
    /// Process ids; none if it is installed only.
    pub(super) pids: Vec<u32>,
    /// The program was replaced since it was started.
    pub(super) replaced: bool,
    /// The directory its processes have as root, if not `/`.
    pub(super) root: Option<PathBuf>,
    pub(super) probes: Probes,
    pub(super) fields: Fields,
}

/// Device and inode.
type FileId = (u64, u64);

/// What the probes find in the program: the statement's end, which watching needs, and the
/// functions that tell of waits, locks and commits, of which each build has some.
#[derive(Debug)]
pub(super) struct Probes(
    pub(super) Result<Site, String>,
    pub(super) Vec<(Hook, Result<Site, String>)>,
);

/// Everything that is read of a program file.
struct Look {
    fit: Fit,
    hooks: Vec<(Hook, Result<Site, String>)>,
}

impl Look {
    fn at(path: &Path) -> Result<Self, ElfError> {
        let binary = Binary::open(path, hook::wanted)?;
        let found = |hook: Hook| hook.find(&binary).map(|found| found.site);
        let hooks = Hook::ALL
            .into_iter()
            .map(|hook| (hook, found(hook).map_err(|error| error.to_string())))
            .collect();
        Ok(Self {
            fit: Fit::of(path)?,
            hooks,
        })
    }
}

/// Where the facts of a statement are, or why they are not known.
#[derive(Debug)]
pub(super) struct Fields(pub(super) Vec<Field>);

/// A process that seems to be a server but may not be looked at.
#[derive(Debug, Serialize)]
pub(super) struct Unreadable {
    pub(super) pid: u32,
    pub(super) reason: String,
    pub(super) remedy: &'static str,
}

impl Server {
    /// The program at a path of the command line.
    pub(super) fn given(path: &Path) -> anyhow::Result<Self> {
        let doing = || format!("--binary {}", path.display());
        let facts = fs::metadata(path).with_context(doing)?;
        if !facts.is_file() {
            bail!(
                "{}: not a file; name the server program itself, such as /usr/sbin/mysqld",
                doing()
            );
        }
        let found = binary::inspect(path).map_err(|error| match error {
            NotAServerBinary::Io(error) => anyhow!(error).context(doing()),
            error => anyhow!("{}: {error}; name a mysqld or mariadbd program", doing()),
        })?;
        let look = Look::at(path).with_context(doing)?;
        let binary = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let installed = InstalledServer {
            exe: binary,
            root: None,
            flavour: found.flavour,
            version: found.version,
            build_id: found.build_id,
        };
        Ok(Self::new(id(&facts), installed, Ok(look)))
    }

    /// `None` if it ended while it was looked at.
    fn running(process: ServerProcess) -> Option<Self> {
        let look = Look::at(&process.exe_file()).map_err(|error| error.to_string());
        if look.is_err() && fs::metadata(process.exe_file()).is_err() {
            return None;
        }
        let file = (process.exe_dev, process.exe_inode);
        let installed = InstalledServer {
            exe: process.exe,
            root: None,
            flavour: process.flavour,
            version: process.version,
            build_id: process.build_id,
        };
        Some(Self {
            pids: vec![process.pid],
            replaced: process.exe_deleted,
            root: process.root,
            ..Self::new(file, installed, look)
        })
    }

    fn installed(server: InstalledServer) -> Option<Self> {
        let file = id(&fs::metadata(&server.exe).ok()?);
        let look = Look::at(&server.exe).map_err(|error| error.to_string());
        Some(Self::new(file, server, look))
    }

    fn new(file: FileId, server: InstalledServer, look: Result<Look, String>) -> Self {
        let nothing = |why: String| {
            let field = |name| Field {
                name,
                found: Err(why.clone()),
            };
            let fields = FieldName::ALL.into_iter().map(field).collect();
            (None, Probes(Err(why), Vec::new()), fields)
        };
        let (stripped, probes, fields) = look.map_or_else(nothing, |Look { fit, hooks }| {
            let probes = Probes(fit.site, hooks);
            (Some(fit.stripped), probes, fit.layout.fields)
        });
        Self {
            file,
            binary: server.exe,
            flavour: server.flavour,
            version: server.version,
            build_id: server.build_id,
            stripped,
            pids: Vec::new(),
            replaced: false,
            root: None,
            probes,
            fields: Fields(fields),
        }
    }

    /// True if the probe has a site here.
    pub(super) fn fits(&self) -> bool {
        self.probes.0.is_ok()
    }

    /// True if every fact of a statement can be read.
    pub(super) fn is_complete(&self) -> bool {
        self.fields.0.iter().all(|field| field.found.is_ok())
    }
}

fn id(facts: &fs::Metadata) -> FileId {
    (facts.dev(), facts.ino())
}

/// Every server: running ones first, then those named, then those installed.
pub(super) fn gather(given: Vec<Server>) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for process in process::find_servers() {
        let file = (process.exe_dev, process.exe_inode);
        match servers.iter_mut().find(|server| server.file == file) {
            Some(server) => server.pids.push(process.pid),
            None => servers.extend(Server::running(process)),
        }
    }
    for server in given {
        if servers.iter().all(|known| known.file != server.file) {
            servers.push(server);
        }
    }
    for server in installed_servers() {
        let file = fs::metadata(&server.exe).map(|facts| id(&facts)).ok();
        match servers.iter_mut().find(|known| Some(known.file) == file) {
            // A process in a root of its own names its program as seen from there.
            Some(known) => known.binary = server.exe,
            None => servers.extend(Server::installed(server)),
        }
    }
    servers
}

/// Processes named like a server that this user may not look into.
pub(super) fn unreadable() -> Vec<Unreadable> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let named = |pid: &u32| {
        let name = read_proc(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("mysqld") || name.starts_with("mariadbd")
    };
    let look = |pid: u32| match process::from_pid(pid) {
        Err(NotAServer::PermissionDenied { name, .. }) => Some(Unreadable {
            pid,
            reason: format!("{name} belongs to another user and may not be inspected"),
            remedy: "run waggle doctor as root",
        }),
        _ => None,
    };
    pids.into_iter().filter(named).filter_map(look).collect()
}

/// Where to get a server if there is none.
pub(super) const HOW_TO_GET_ONE: &str = "install one (Debian: apt-get install \
    mariadb-server-core; MySQL: scripts/fetch-mysql), or name one with --binary PATH";

/// What to try when a program offers no site.
pub(super) const NO_SITE: &str =
    "use a build that exports its functions, as Oracle's, MariaDB's and Debian's do";

/// What to try when a field is missing.
pub(super) const NO_FIELD: &str =
    "watch goes on without; report the build and its id, so that it gets into the table";

/// One probe point as `--json` has it.
#[derive(Serialize)]
struct Point<'a> {
    ok: bool,
    emulated: Option<bool>,
    reason: Option<&'a str>,
    remedy: Option<&'a str>,
    site: Option<Place<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    function: &'a str,
    function_offset: u64,
    file_offset: u64,
    instruction: &'a str,
    bytes: String,
    register: String,
}

impl<'a> Point<'a> {
    fn of(found: &'a Result<Site, String>, remedy: Option<&'a str>) -> Self {
        match found {
            Ok(site) => Self {
                ok: true,
                emulated: Some(site.trap == TrapCost::Emulated),
                reason: None,
                remedy: None,
                site: Some(Place {
                    function: &site.function,
                    function_offset: site.function_offset,
                    file_offset: site.file_offset,
                    instruction: &site.instruction,
                    bytes: site.bytes.iter().map(|b| format!("{b:02x}")).collect(),
                    register: site.register.to_string(),
                }),
            },
            Err(why) => Self {
                ok: false,
                emulated: None,
                reason: Some(why),
                remedy,
                site: None,
            },
        }
    }
}

impl Serialize for Probes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut probes = serializer.serialize_map(Some(1 + self.1.len()))?;
        probes.serialize_entry(PROBE, &Point::of(&self.0, Some(NO_SITE)))?;
        for (hook, found) in &self.1 {
            // No build has all of them: there is nothing to be remedied.
            probes.serialize_entry(hook.as_str(), &Point::of(found, None))?;
        }
        probes.end()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct One<'a>(&'a Field);
        impl Serialize for One<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let found = self.0.found.as_ref();
                let mut one = serializer.serialize_struct("Field", 5)?;
                one.serialize_field("ok", &found.is_ok())?;
                one.serialize_field("location", &found.ok().map(|(at, _)| at.to_string()))?;
                one.serialize_field("source", &found.ok().map(|(_, source)| source.to_string()))?;
                one.serialize_field("reason", &found.err())?;
                one.serialize_field("remedy", &found.err().map(|_| NO_FIELD))?;
                one.end()
            }
        }
        let mut fields = serializer.serialize_map(Some(self.0.len()))?;
        for field in &self.0 {
            fields.serialize_entry(field.name.as_str(), &One(field))?;
        }
        fields.end()
    }
}

#[cfg(test)]
impl Server {
    /// A server with this site and pids, and no field known.
    pub(super) fn example(site: Result<Site, String>, pids: &[u32]) -> Self {
        let server = InstalledServer {
            exe: PathBuf::from("/x/mysqld"),
            root: None,
            flavour: Flavour::MySql,
            version: None,
            build_id: None,
        };
        let pids = pids.to_vec();
        Self {
            probes: Probes(site, Vec::new()),
            pids,
            ..Self::new((0, 0), server, Err("no reason".into()))
        }
    }
}
