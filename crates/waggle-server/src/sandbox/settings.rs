//! The command line of a throw-away server.
//!
//! Three layers, later ones win: defaults that make a small server start fast and measure plainly,
//! the user's settings, and what makes it throw-away. Invariant: no setting of the user can move
//! the server out of its directory or off the loopback address, as it has no password.

use std::path::Path;

use super::SandboxError;
use crate::Flavour;

/// Settings the sandbox decides, and why. Abbreviations of them lose by their order.
const RESERVED: [(&str, &str); 16] = [
    ("datadir", "its directory is its own"),
    ("socket", "its directory is its own"),
    ("pid-file", "its directory is its own"),
    ("tmpdir", "its directory is its own"),
    ("log-error", "its log goes to its own directory"),
    ("basedir", "the program decides it"),
    (
        "bind-address",
        "it has no password, so it listens on 127.0.0.1 only",
    ),
    ("user", "it runs as the user who starts it"),
    ("chroot", "the sandbox decides its root"),
    ("daemonize", "it has to stay with its guardian"),
    ("mysqlx", "the X protocol would listen without a password"),
    ("initialize", "its data directory is made for it"),
    ("initialize-insecure", "its data directory is made for it"),
    ("bootstrap", "its data directory is made for it"),
    ("help", "it would end at once"),
    ("version", "it would end at once"),
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

/// Whether the user wants no TCP at all.
pub(super) fn is_off_network(settings: &[(String, String)]) -> bool {
    let last = settings
        .iter()
        .rev()
        .find(|(name, _)| normal(name) == "skip-networking");
    last.is_some_and(|(_, value)| {
        !matches!(value.to_ascii_lowercase().as_str(), "0" | "off" | "false")
    })
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
    pub(super) socket: &'a Path,
    pub(super) pid_file: &'a Path,
    pub(super) port: u16,
}

/// All arguments of the server.
pub(super) fn arguments(
    flavour: Flavour,
    settings: &[(String, String)],
    places: &Places<'_>,
) -> Vec<String> {
    let mut args: Vec<String> = [
        "--no-defaults", // has to come first
        "--innodb-buffer-pool-size=256M",
        // The same on both, off: it costs every statement, so it is an arm, not a default.
        "--performance-schema=OFF",
        // Neither helps a server that lives for minutes, and both write at odd moments.
        "--innodb-buffer-pool-load-at-startup=OFF",
        "--innodb-buffer-pool-dump-at-shutdown=OFF",
        // LOAD DATA and SELECT INTO OUTFILE work anywhere.
        "--secure-file-priv=",
        // Off in MySQL, on in MariaDB: tables are filled through it.
        "--local-infile=ON",
    ]
    .map(str::to_owned)
    .to_vec();
    if flavour == Flavour::MySql {
        // MariaDB's default; a user's log-bin comes later and wins.
        args.push("--disable-log-bin".into());
    }
    let port = |(name, _): &&(String, String)| normal(name) != "port";
    args.extend(
        settings
            .iter()
            .filter(port)
            .map(|(name, value)| format!("--{}={value}", normal(name))),
    );
    args.extend([
        format!("--datadir={}", places.datadir.display()),
        format!("--tmpdir={}", places.tmpdir.display()),
        format!("--socket={}", places.socket.display()),
        format!("--pid-file={}", places.pid_file.display()),
        format!("--port={}", places.port),
        "--bind-address=127.0.0.1".into(),
    ]);
    if flavour == Flavour::MySql {
        args.push("--mysqlx=0".into());
    }
    args.extend(run_as());
    args
}

/// Servers refuse to run as root unless told to. Staying root, rather than changing to another
/// user, also keeps the kernel's promise to kill the server with its guardian.
pub(super) fn run_as() -> Option<String> {
    // SAFETY: geteuid has no arguments and cannot fail.
    (unsafe { libc::geteuid() } == 0).then(|| "--user=root".to_owned())
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
            port: 1,
        };
        let user = set(&[
            ("innodb_buffer_pool_size", "1G"),
            ("bind-addr", "0.0.0.0"),
            ("port", "9"),
        ]);
        let args = arguments(Flavour::MySql, &user, &places);
        let at = |arg: &str| args.iter().position(|given| given == arg).unwrap();
        assert_eq!(at("--no-defaults"), 0);
        assert!(at("--innodb-buffer-pool-size=256M") < at("--innodb-buffer-pool-size=1G"));
        assert!(at("--bind-addr=0.0.0.0") < at("--bind-address=127.0.0.1"));
        assert!(!args.contains(&"--port=9".to_owned()));
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
        assert!(is_off_network(&set(&[("skip_networking", "1")])));
        assert!(!is_off_network(&set(&[
            ("skip_networking", "1"),
            ("skip-networking", "OFF")
        ])));
    }
}
