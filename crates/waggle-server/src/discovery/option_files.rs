//! What a server was told: its arguments and its option files, read as it reads them itself.
//!
//! Neighbours: `instance` makes a name of it. Invariants: files are opened within the server's own
//! root, never through a link out of it, and never so that opening or reading could hang; files,
//! their size and how deep they include each other are bounded.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

use waggle_foreign::open_in_root;

use crate::process::proc_path;

/// Longest option file that is read, and longest command line.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Most files, and how deep they may include each other (the servers' own limit is 10).
const FILES_MAX: usize = 64;
const DEPTH_MAX: usize = 10;

/// The settings that tell servers apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) port: Option<u16>,
    pub(super) socket: Option<String>,
    pub(super) is_off_network: bool,
}

impl Settings {
    /// Those of process `pid`: option files first, arguments win.
    pub(super) fn of(pid: u32) -> Self {
        let mut text = Vec::new();
        if let Ok(file) = File::open(proc_path(pid, "cmdline")) {
            let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut text);
        }
        let args: Vec<String> = text
            .split(|&byte| byte == 0)
            .skip(1)
            .map(|arg| String::from_utf8_lossy(arg).into_owned())
            .collect();
        Self::from(
            &args,
            |path| read_in_root(pid, path),
            |dir| list_in_root(pid, dir),
        )
    }

    /// The same with the files given by functions: the text of a file, the files of a directory.
    pub(super) fn from(
        args: &[String],
        read: impl Fn(&str) -> Option<String>,
        list: impl Fn(&str) -> Vec<String>,
    ) -> Self {
        let mut files = OptionFiles {
            settings: Self::default(),
            suffix: None,
            read: &read,
            list: &list,
            count: 0,
        };
        let given = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
        files.suffix = given("--defaults-group-suffix=").map(str::to_owned);
        // These have to be the first arguments, but nothing is lost by finding them later.
        if !args.iter().any(|arg| arg == "--no-defaults") {
            match given("--defaults-file=") {
                Some(only) => files.read_file(only, 0),
                None => {
                    for usual in ["/etc/my.cnf", "/etc/mysql/my.cnf"] {
                        files.read_file(usual, 0);
                    }
                    if let Some(extra) = given("--defaults-extra-file=") {
                        files.read_file(extra, 0);
                    }
                }
            }
        }
        let mut settings = files.settings;
        settings.take_arguments(args);
        settings
    }

    fn take_arguments(&mut self, args: &[String]) {
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, value) = match (arg.strip_prefix("--"), arg.strip_prefix('-')) {
                (Some(long), _) => match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None if takes_value(long) => (long, args.next().cloned()),
                    None => (long, None),
                },
                (None, Some(short)) => {
                    let name = match short.as_bytes().first() {
                        Some(b'P') => "port",
                        Some(b'S') => "socket",
                        _ => continue,
                    };
                    let attached = &short[1..];
                    match attached.is_empty() {
                        true => (name, args.next().cloned()),
                        false => (name, Some(attached.to_owned())),
                    }
                }
                (None, None) => continue,
            };
            self.take(name, value.as_deref());
        }
    }

    /// Takes one setting; later ones win.
    fn take(&mut self, name: &str, value: Option<&str>) {
        let name = name.replace('_', "-");
        let name = name.strip_prefix("loose-").unwrap_or(&name);
        let value_or_empty = value.unwrap_or_default();
        match name {
            // 0 is the built-in default to a server, which is what no setting is, too.
            "port" => self.port = value_or_empty.parse().ok().filter(|port| *port != 0),
            "socket" => self.socket = value.map(str::to_owned).filter(|s| !s.is_empty()),
            "skip-networking" => {
                let value = value_or_empty.to_ascii_lowercase();
                self.is_off_network = !matches!(value.as_str(), "0" | "off" | "false");
            }
            _ => {}
        }
    }
}

fn takes_value(name: &str) -> bool {
    matches!(
        name.replace('_', "-").as_str(),
        "port" | "socket" | "bind-address"
    )
}

type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;
type ListDir<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// Reads option files into settings.
struct OptionFiles<'a> {
    settings: Settings,
    suffix: Option<String>,
    read: ReadFile<'a>,
    list: ListDir<'a>,
    count: usize,
}

impl OptionFiles<'_> {
    fn read_file(&mut self, path: &str, depth: usize) {
        self.count += 1;
        if depth > DEPTH_MAX || self.count > FILES_MAX {
            return;
        }
        let Some(text) = (self.read)(path) else {
            return;
        };
        let mut is_ours = false;
        for line in text.lines().map(str::trim) {
            if let Some(group) = line.strip_prefix('[') {
                is_ours = self.is_server_group(group.split(']').next().unwrap_or_default().trim());
            } else if let Some(dir) = line.strip_prefix("!includedir") {
                for file in (self.list)(dir.trim()) {
                    self.read_file(&file, depth + 1);
                }
            } else if let Some(file) = line.strip_prefix("!include") {
                self.read_file(file.trim(), depth + 1);
            } else if is_ours && !line.starts_with(['#', ';']) {
                let (name, value) = match line.split_once('=') {
                    Some((name, value)) => (name.trim(), Some(unquoted(value))),
                    None => (line, None),
                };
                self.settings.take(name, value);
            }
        }
    }

    /// The groups servers read; some carry a version (`mysqld-9.7`, `mariadb-10.11`).
    fn is_server_group(&self, group: &str) -> bool {
        let group = match &self.suffix {
            Some(suffix) => group.strip_suffix(suffix.as_str()).unwrap_or(group),
            None => group,
        };
        let base =
            group
                .split_once('-')
                .map_or(group, |(base, version)| match version.bytes().next() {
                    Some(digit) if digit.is_ascii_digit() => base,
                    _ => group,
                });
        matches!(
            base,
            "mysqld" | "server" | "mariadb" | "mariadbd" | "client-server"
        )
    }
}

/// A value without the comment after it, white space and quotation marks.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|v| v.split_once(quote)) {
            return inner;
        }
    }
    value.split(" #").next().unwrap_or_default().trim()
}

/// The text of a file as process `pid` sees it; nothing for what is no ordinary file there.
pub(super) fn read_in_root(pid: u32, path: &str) -> Option<String> {
    let file = open_in_root(pid, Path::new(path), 0).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The option files of a directory as process `pid` sees it, in the order of their names.
fn list_in_root(pid: u32, dir: &str) -> Vec<String> {
    let Ok(opened) = open_in_root(pid, Path::new(dir), libc::O_DIRECTORY) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd())) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .take(1000)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".cnf"))
        .collect();
    names.sort_unstable();
    let dir = dir.trim_end_matches('/');
    names
        .into_iter()
        .map(|name| format!("{dir}/{name}"))
        .collect()
}

#[cfg(test)]
mod tests;
