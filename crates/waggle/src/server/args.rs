//! The flags of `waggle server`, and the checked plan they become.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use waggle_server::Flavour;
use waggle_server::sandbox::{SandboxSpec, registry};

use crate::cli::Failure;

/// Start, list and stop throw-away MySQL and MariaDB servers
///
/// Each has its own directory, Unix socket and free port on 127.0.0.1; user root without a
/// password and an empty schema sbtest. Nothing of it is left when it ends.
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
    /// Kind of server
    #[arg(value_parser = PossibleValuesParser::new(["mysql", "mariadb"])
        .try_map(|name| name.parse::<Flavour>()))]
    flavour: Flavour,

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

/// What to do, checked as far as can be without touching anything.
#[derive(Debug)]
pub(super) enum Plan {
    Up { spec: SandboxSpec, detach: bool },
    Down(Vec<registry::ServerEntry>),
    List,
}

impl Args {
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        match self.action {
            Action::Up(up) => {
                let Up {
                    flavour,
                    set,
                    name,
                    dir,
                    detach,
                } = up;
                let spec = SandboxSpec {
                    flavour,
                    settings: set,
                    name,
                    dir,
                };
                Ok(Plan::Up { spec, detach })
            }
            Action::Down(down) if down.all => Ok(Plan::Down(registry::list())),
            Action::Down(down) => {
                let running = down.names.iter().map(|name| {
                    registry::find(name).ok_or_else(|| {
                        Failure::unusable(anyhow::anyhow!(
                            "no throw-away server is named {name:?}; `waggle server list` shows \
                             those that run"
                        ))
                    })
                });
                running.collect::<Result<_, _>>().map(Plan::Down)
            }
            Action::List => Ok(Plan::List),
        }
    }
}
