//! The flags of `waggle server`, and the checked plan they become.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use waggle_server::Flavour;
use waggle_server::sandbox::{SandboxSpec, registry};
use waggle_server::topology::primary_settings;

use crate::cli::Failure;

/// Start, list and stop throw-away MySQL and MariaDB servers
///
/// Each has its own directory and Unix socket; user root, whose password is in a file that the
/// printed DSN names, and an empty schema sbtest. Started by root, it runs as a user of its own.
/// Nothing of it is left when it ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a throw-away server, print how to reach it, and hold it until Ctrl-C
    ///
    /// It ends with this process, also if that is killed. MySQL is taken from WAGGLE_MYSQL_ROOT,
    /// from what scripts/fetch-mysql fetched, or from PATH; MariaDB from PATH or /usr/sbin. The
    /// first start of a server build makes a data directory, which takes seconds; later ones copy
    /// it.
    Up(Up),
    /// Stop throw-away servers of any process of this user, and remove them
    Down(Down),
    /// Show the throw-away servers of this user
    List,
}

#[derive(Debug, clap::Args)]
struct Up {
    /// Kind of server [default with --replica-of: the primary's]
    #[arg(value_parser = PossibleValuesParser::new(["mysql", "mariadb"])
        .try_map(|name| name.parse::<Flavour>()), required_unless_present = "replica_of")]
    flavour: Option<Flavour>,

    /// Let it replicate from this throw-away server, which runs and has a binary log
    ///
    /// It begins empty and applies the primary's binary logs from the first transaction on. `server
    /// up --primary` makes a server that can be replicated from. Either may end before the other.
    #[arg(long, value_name = "NAME")]
    replica_of: Option<String>,

    /// Write a binary log with GTIDs and listen on TCP, so that replicas can follow
    #[arg(long)]
    primary: bool,

    /// Listen on a free port of 127.0.0.1, too; --set port=NUMBER names one
    #[arg(long)]
    tcp: bool,

    /// Server setting, as in an option file; can be given more than once, the last one wins
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,

    /// Name for `server list` and `server down` [default: made up]
    #[arg(long)]
    name: Option<String>,

    /// Where to make the server's directory [default: TMPDIR, else /tmp; /var/tmp
    /// if that is in memory]
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Return once the server answers and leave it running until `server down`
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, clap::Args)]
struct Down {
    /// Names of the servers to stop
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,

    /// Stop every throw-away server of this user
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("it is written NAME=VALUE, for example max_connections=500")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// A server to start.
#[derive(Debug)]
pub(super) struct UpPlan {
    pub(super) spec: SandboxSpec,
    /// The server to replicate from.
    pub(super) primary: Option<registry::ServerEntry>,
    pub(super) detach: bool,
}

impl Up {
    fn plan(self) -> Result<UpPlan, Failure> {
        let primary = self.replica_of.as_deref().map(running).transpose()?;
        let Some(flavour) = self.flavour.or(primary.as_ref().map(|entry| entry.flavour)) else {
            return Err(Failure::unusable(anyhow::anyhow!(
                "no kind of server is named"
            )));
        };
        let mut settings = Vec::new();
        // A replica has a binary log as it is.
        if self.primary && primary.is_none() {
            settings = primary_settings(flavour);
        }
        settings.extend(self.set);
        let spec = SandboxSpec {
            flavour,
            settings,
            name: self.name,
            dir: self.dir,
            tcp: self.tcp,
        };
        Ok(UpPlan {
            spec,
            primary,
            detach: self.detach,
        })
    }
}

fn running(name: &str) -> Result<registry::ServerEntry, Failure> {
    registry::find(name).ok_or_else(|| {
        Failure::unusable(anyhow::anyhow!(
            "no throw-away server is named {name:?}; `waggle server list` shows those that run"
        ))
    })
}

/// What to do, checked as far as can be without touching anything.
#[derive(Debug)]
pub(super) enum Plan {
    Up(Box<UpPlan>),
    Down(Vec<registry::ServerEntry>),
    List,
}

impl Args {
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        match self.action {
            Action::Up(up) => up.plan().map(|plan| Plan::Up(Box::new(plan))),
            Action::Down(down) if down.all => Ok(Plan::Down(registry::list())),
            Action::Down(down) => {
                let running = down.names.iter().map(|name| running(name));
                running.collect::<Result<_, _>>().map(Plan::Down)
            }
            Action::List => Ok(Plan::List),
        }
    }
}
