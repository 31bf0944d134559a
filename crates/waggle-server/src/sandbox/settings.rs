//! The command line of a throw-away server.
//!
//! Three layers, later ones win: defaults that make a small server start fast and measure plainly,
//! the user's settings, and what makes it throw-away. Invariant: no setting of the user can move
//! the server out of its directory, off the loopback address, or past its password.

use std::path::{Path, PathBuf};

use super::SandboxError;
use crate::Flavour;

/// Settings the sandbox decides, and why. Abbreviations of them lose by their order.
const RESERVED: [(&str, &str); 18] = [
    ("datadir", "its directory is its own"),
    ("socket", "its directory is its own"),
    ("pid-file", "its directory is its own"),
    ("tmpdir", "its directory is its own"),
    ("log-error", "its log goes to its own directory"),
    ("basedir", "the program decides it"),
    ("bind-address", "it listens on 127.0.0.1 only"),
    ("admin-address", "it listens on 127.0.0.1 only"),
    (
        "secure-file-priv",
        "it reads and writes its own directory only",
    ),
    ("user", "it runs as a user of its own, or as who starts it"),
    ("chroot", "the sandbox decides its root"),
    ("daemonize", "it has to stay with its guardian"),
    ("mysqlx", "the X protocol would be another way in"),
    ("initialize", "its data directory is made for it"),
    ("initialize-insecure", "its data directory is made for it"),
    ("bootstrap", "its data directory is made for it"),
    ("help", "it would end at once"),
    ("version", "it would end at once"),
];

/// Settings that would undo what keeps others out, and that no later one undoes: also abbreviated,
/// as servers take any beginning of a name that is no other's.
const REFUSED: [(&str, &str); 2] = [
    ("skip-grant-tables", "it would let everybody in"),
    (
        "plugin-dir",
        "code is loaded from where the server cannot write only",
    ),
];

/// Settings that are fixed when a data directory is made, so they choose the template.
const AT_CREATION: [&str; 4] = [
    "innodb-page-size",
    "lower-case-table-names",
    "innodb-data-file-path",
    "innodb-undo-tablespaces",
];

/// A setting's name as the sandbox compares it: dashes, no leading ones.
fn normal(name: &str) -> String {
    name.trim_start_matches('-')
        .replace('_', "-")
        .to_ascii_lowercase()
}

/// A name without what servers allow before each: `loose-` and `enable-`.
fn without_modifiers(mut name: &str) -> &str {
    while let Some(rest) = ["loose-", "enable-"]
        .iter()
        .find_map(|m| name.strip_prefix(m))
    {
        name = rest;
    }
    name
}

/// Checks the user's settings.
pub(super) fn check(settings: &[(String, String)]) -> Result<(), SandboxError> {
    for (name, value) in settings {
        let bad = |why| SandboxError::BadSetting {
            name: name.clone(),
            why,
        };
        let plain = normal(name);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        if plain.is_empty() || !plain.bytes().all(allowed) {
            return Err(bad("a name is letters, digits, - and _ only"));
        }
        if value.contains('\0') {
            return Err(bad("its value holds a NUL character"));
        }
        if let Some((_, why)) = RESERVED.iter().find(|(reserved, _)| *reserved == plain) {
            return Err(bad(why));
        }
        let bare = without_modifiers(&plain);
        let is_short_for = |long: &str| bare.len() > "skip-".len() && long.starts_with(bare);
        if let Some((_, why)) = REFUSED.iter().find(|(long, _)| is_short_for(long)) {
            return Err(bad(why));
        }
        if bare.starts_with("wsrep") {
            return Err(bad("a cluster listens to the network, and runs programs"));
        }
        if plain.starts_with("defaults-") || plain == "no-defaults" {
            return Err(bad("option files are not read"));
        }
        if plain == "port" && value.parse::<u16>().is_ok_and(|port| port > 0) {
            continue;
        } else if plain == "port" {
            return Err(bad("it is a number from 1 to 65535"));
        }
    }
    Ok(())
}

/// The port the user asks for; the last one wins.
pub(super) fn port(settings: &[(String, String)]) -> Option<u16> {
    let ports = settings
        .iter()
        .rev()
        .filter(|(name, _)| normal(name) == "port");
    ports.map(|(_, value)| value.parse().ok()).next().flatten()
}

/// Whether the settings say that the server listens on TCP: they turn it on or off, or name a
/// port. `None`: they say nothing.
pub(super) fn has_tcp(settings: &[(String, String)]) -> Option<bool> {
    let last = settings
        .iter()
        .rev()
        .find(|(name, _)| normal(name) == "skip-networking");
    let told =
        last.map(|(_, value)| matches!(value.to_ascii_lowercase().as_str(), "0" | "off" | "false"));
    told.or(port(settings).map(|_| true))
}

/// The user's own file of statements to begin with; the last one wins.
pub(super) fn init_file(settings: &[(String, String)]) -> Option<PathBuf> {
    let mut files = settings.iter().rev();
    let last = files.find(|(name, _)| normal(name) == "init-file");
    last.map(|(_, path)| PathBuf::from(path))
}

/// Those of the settings that have to be known when the data directory is made.
pub(super) fn at_creation(settings: &[(String, String)]) -> Vec<(String, String)> {
    let mut chosen: Vec<(String, String)> = Vec::new();
    for (name, value) in settings {
        let name = normal(name);
        if AT_CREATION.contains(&name.as_str()) {
            chosen.retain(|(earlier, _)| *earlier != name);
            chosen.push((name, value.clone()));
        }
    }
    chosen.sort();
    chosen
}

/// Where a server is told to keep its things, as it sees them.
#[derive(Debug)]
pub(super) struct Places<'a> {
    pub(super) datadir: &'a Path,
    pub(super) tmpdir: &'a Path,
    pub(super) files: &'a Path,
    pub(super) init_file: Option<&'a Path>,
    pub(super) socket: &'a Path,
    pub(super) pid_file: &'a Path,
    /// `None`: no TCP.
    pub(super) port: Option<u16>,
}

/// All arguments of the server.
pub(super) fn arguments(
    flavour: Flavour,
    settings: &[(String, String)],
    places: &Places<'_>,
    has_account: bool,
) -> Vec<String> {
    let mut args: Vec<String> = [
        "--no-defaults", // has to come first
        "--innodb-buffer-pool-size=256M",
        // The same on both, off: it costs every statement, so it is an arm, not a default.
        "--performance-schema=OFF",
        // Neither helps a server that lives for minutes, and both write at odd moments.
        "--innodb-buffer-pool-load-at-startup=OFF",
        "--innodb-buffer-pool-dump-at-shutdown=OFF",
        // Off in MySQL, on in MariaDB: tables are filled through it. It gives the server no right:
        // what is sent is the client's to read and to choose.
        "--local-infile=ON",
    ]
    .map(str::to_owned)
    .to_vec();
    if flavour == Flavour::MySql {
        // MariaDB's default; a user's log-bin comes later and wins.
        args.push("--disable-log-bin".into());
    }
    let decided = ["port", "skip-networking", "init-file"];
    let own = settings
        .iter()
        .map(|(name, value)| (normal(name), value))
        .filter(|(name, _)| !decided.contains(&name.as_str()));
    args.extend(own.map(|(name, value)| format!("--{name}={value}")));
    args.extend([
        format!("--datadir={}", places.datadir.display()),
        format!("--tmpdir={}", places.tmpdir.display()),
        format!("--socket={}", places.socket.display()),
        format!("--pid-file={}", places.pid_file.display()),
        format!("--secure-file-priv={}", places.files.display()),
        "--bind-address=127.0.0.1".into(),
    ]);
    args.extend(match places.port {
        Some(port) => vec!["--skip-networking=0".into(), format!("--port={port}")],
        None => vec!["--skip-networking=1".into()],
    });
    let init_file = places.init_file;
    args.extend(init_file.map(|path| format!("--init-file={}", path.display())));
    if flavour == Flavour::MySql {
        args.push("--mysqlx=0".into());
    }
    args.extend(as_root(has_account));
    args
}

/// Servers refuse to run as root unless told to. One that has no user of its own under root is in a
/// user namespace that has no others, where root is the ordinary user outside.
pub(super) fn as_root(has_account: bool) -> Option<String> {
    (is_root() && !has_account).then(|| "--user=root".to_owned())
}

/// Whether this process is root, here.
pub(super) fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_the_sandbox_decides_is_refused_however_it_is_spelled() {
        for name in [
            "datadir",
            "--bind-address",
            "bind_address",
            "PID_FILE",
            "defaults-file",
            "secure_file_priv",
            "skip-grant-tables",
            "skip_grant",
            "loose-skip-grant-tables",
            "plugin_dir",
            "plugin-di",
            "wsrep_provider",
            "admin_address",
        ] {
            let error = check(&set(&[(name, "x")])).unwrap_err();
            assert!(
                matches!(error, SandboxError::BadSetting { .. }),
                "{name}: {error}"
            );
        }
        for name in ["", "a b", "a=b", "ä"] {
            assert!(check(&set(&[(name, "x")])).is_err(), "{name}");
        }
        assert!(check(&set(&[("port", "70000")])).is_err());
        check(&set(&[
            ("innodb_flush_log_at_trx_commit", "2"),
            ("port", "3307"),
            ("plugin-load-add", "auth_ed25519"),
            ("skip-name-resolve", "1"),
        ]))
        .unwrap();
    }

    #[test]
    fn the_users_settings_lie_between_defaults_and_the_fixed_ones() {
        let places = Places {
            datadir: Path::new("/d"),
            tmpdir: Path::new("/t"),
            socket: Path::new("/s"),
            pid_file: Path::new("/p"),
            files: Path::new("/f"),
            init_file: Some(Path::new("/i")),
            port: Some(1),
        };
        let user = set(&[
            ("innodb_buffer_pool_size", "1G"),
            ("bind-addr", "0.0.0.0"),
            ("port", "9"),
            ("secure_file_pri", "/"),
            ("init-fil", "/x"),
        ]);
        let args = arguments(Flavour::MySql, &user, &places, true);
        let at = |arg: &str| args.iter().position(|given| given == arg).unwrap();
        assert_eq!(at("--no-defaults"), 0);
        assert!(at("--innodb-buffer-pool-size=256M") < at("--innodb-buffer-pool-size=1G"));
        assert!(at("--bind-addr=0.0.0.0") < at("--bind-address=127.0.0.1"));
        assert!(at("--secure-file-pri=/") < at("--secure-file-priv=/f"));
        assert!(at("--init-fil=/x") < at("--init-file=/i"));
        assert!(!args.contains(&"--port=9".to_owned()));
        assert!(!args.iter().any(|arg| arg.starts_with("--user")));
        let places = Places {
            port: None,
            ..places
        };
        let args = arguments(Flavour::MySql, &user, &places, true);
        assert!(args.contains(&"--skip-networking=1".to_owned()));
        assert!(!args.iter().any(|arg| arg.starts_with("--port")));
    }

    #[test]
    fn the_last_one_wins() {
        assert_eq!(
            port(&set(&[("port", "1"), ("--port", "2"), ("x", "3")])),
            Some(2)
        );
        let twice = set(&[
            ("innodb_page_size", "8k"),
            ("x", "1"),
            ("innodb-page-size", "4k"),
        ]);
        assert_eq!(at_creation(&twice), set(&[("innodb-page-size", "4k")]));
        let tcp = |pairs: &[(&str, &str)]| has_tcp(&set(pairs));
        assert_eq!(tcp(&[("x", "1")]), None);
        assert_eq!(tcp(&[("port", "3307")]), Some(true));
        assert_eq!(
            tcp(&[("port", "3307"), ("skip_networking", "1")]),
            Some(false)
        );
        let twice = [("skip_networking", "1"), ("skip-networking", "OFF")];
        assert_eq!(tcp(&twice), Some(true));
    }
}
