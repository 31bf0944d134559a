//! The password of an account where its DSN has none: from a prompt, a login path, option files or
//! the environment, as MySQL's own client finds it.
//!
//! [`option_files`] reads what `my.cnf` is made of, [`login_path`] what `mysql_config_editor`
//! keeps, [`prompt`] asks. Invariants: nothing but the password is filled in, and only for a server
//! that the user named; one that a file keeps for another account or server is not sent.

mod login_path;
mod option_files;
mod prompt;

use std::path::PathBuf;

use anyhow::{Context, bail};
use waggle_wire::{Dsn, Endpoint, Secret};

use crate::rights;
use option_files::{Files, Options};

/// Groups of option files that speak to this client, whoever else reads them.
const GROUPS: [&str; 5] = [
    "client",
    "client-server",
    "client-mariadb",
    "mysql",
    "waggle",
];

// Of each flag: one for all of them would be that of what follows them, too.
const HEADING: &str = "Password";

/// Where the password is, if the DSN has none
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AccountArgs {
    /// Ask for the password on the terminal
    #[arg(long, help_heading = HEADING)]
    ask_password: bool,

    /// Take the password of this login path, as mysql_config_editor keeps it
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    login_path: Option<String>,

    /// Read this option file and none of the usual ones (~/.my.cnf, /etc/mysql/my.cnf, /etc/my.cnf)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "no_defaults",
        help_heading = HEADING
    )]
    defaults_file: Option<PathBuf>,

    /// Read this option file after those of the host and before ~/.my.cnf
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["no_defaults", "defaults_file"],
        help_heading = HEADING
    )]
    defaults_extra_file: Option<PathBuf>,

    /// Read also the groups of option files whose names end in this (`[client_TEXT]`)
    #[arg(long, value_name = "TEXT", help_heading = HEADING)]
    defaults_group_suffix: Option<String>,

    /// Read no option file
    #[arg(long, help_heading = HEADING)]
    no_defaults: bool,
}

/// A password and whom it is for, as far as the place where it was found says.
#[derive(Debug)]
struct Found {
    password: Secret,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
}

impl Found {
    fn of(options: &Options) -> Option<Found> {
        let get = |name: &str| options.get(name).map(str::to_owned);
        Some(Found {
            password: Secret::new(get("password")?),
            user: get("user"),
            host: get("host"),
            port: get("port"),
        })
    }

    /// Why it is not the password of this account, if it says that of itself.
    fn differs(&self, dsn: &Dsn) -> Option<&'static str> {
        if self.user.as_ref().is_some_and(|user| *user != dsn.user) {
            return Some("another user");
        }
        // A port or a socket alone is what the host's files say of the usual server, not whose
        // password it is.
        let host = self.host.as_deref().filter(|host| !host.is_empty())?;
        let is_elsewhere = match &dsn.endpoint {
            Endpoint::Tcp { host: here, port } => {
                let is_local = |host| matches!(host, "localhost" | "127.0.0.1" | "::1");
                let is_here = host == here || is_local(host) && is_local(here);
                let port_of = |text: &String| text.parse() == Ok(*port);
                !is_here || !self.port.as_ref().is_none_or(port_of)
            }
            Endpoint::Socket(_) => host != "localhost",
        };
        is_elsewhere.then_some("another server")
    }
}

/// The server that an argument names, with the password from where the flags say, if there are any.
/// Files that either names are opened with the user's own rights.
///
/// # Errors
/// It names none, or what was asked for by name cannot be had.
pub(crate) fn named(text: &str, account: Option<&AccountArgs>) -> anyhow::Result<Dsn> {
    rights::as_user(|| {
        let mut dsn = text.parse()?;
        if let Some(account) = account {
            account.complete(&mut dsn)?;
        }
        Ok(dsn)
    })
}

impl AccountArgs {
    /// Fills in the password, if the DSN has none and one is found.
    ///
    /// # Errors
    /// What was asked for by name cannot be had.
    fn complete(&self, dsn: &mut Dsn) -> anyhow::Result<()> {
        // An empty one (`user:@host`) says that there is none.
        if dsn.password.is_some() {
            return Ok(());
        }
        if self.ask_password {
            let question = format!("Password of {} at {}: ", dsn.user, dsn.endpoint);
            let password = prompt::ask(&question).context("--ask-password")?;
            dsn.password = Some(Secret::new(password));
            return Ok(());
        }
        if let Some(name) = &self.login_path {
            let text = login_path::text()
                .with_context(|| format!("--login-path {name}"))?
                .with_context(|| format!("--login-path {name}: there is no login path file"))?;
            let mut options = Options::default();
            options.take_text(&text, &|group| group == name);
            let found = Found::of(&options)
                .with_context(|| format!("--login-path {name}: no such path with a password"))?;
            if let Some(other) = found.differs(dsn) {
                bail!("--login-path {name} is of {other} than {dsn}");
            }
            dsn.password = Some(found.password);
            return Ok(());
        }
        let found = match self.in_files()? {
            Some(found) => Some(found),
            None => in_environment(),
        };
        if let Some(found) = found {
            match found.differs(dsn) {
                None => dsn.password = Some(found.password),
                Some(other) => eprintln!(
                    "waggle: the password in the option files is of {other} than {dsn}, and is \
                     not used"
                ),
            }
        }
        Ok(())
    }

    /// From option files and, after them, the login path file's own group for clients.
    fn in_files(&self) -> anyhow::Result<Option<Found>> {
        if self.no_defaults {
            return Ok(None);
        }
        let suffix = self.defaults_group_suffix.clone().unwrap_or_default();
        let is_ours = |group: &str| {
            let base = group.strip_suffix(suffix.as_str()).unwrap_or(group);
            GROUPS.contains(&group) || GROUPS.contains(&base)
        };
        let files = Files {
            only: self.defaults_file.clone(),
            extra: self.defaults_extra_file.clone(),
            home: std::env::var_os("HOME").map(PathBuf::from),
        };
        let mut options = option_files::read(&files, &is_ours)?;
        match login_path::text() {
            Ok(Some(text)) => options.take_text(&text, &is_ours),
            Ok(None) => {}
            Err(error) => eprintln!("waggle: {error:#}; it is not read"),
        }
        Ok(Found::of(&options))
    }
}

/// As MySQL has it, the last resort: others of the same user can read it.
fn in_environment() -> Option<Found> {
    let password = std::env::var("MYSQL_PWD").ok()?;
    Some(Found {
        password: Secret::new(password),
        user: None,
        host: None,
        port: None,
    })
}

#[cfg(test)]
mod tests;
