//! `waggle sysbench`: the words, streams and exit codes that scripts around sysbench rely on.

mod bed;
mod bugs;
mod compat;
mod connecting;
mod debian;
mod endings;
mod messages;
mod pgsql;
mod progress;
mod report;
mod running;
mod suite;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};

/// What one run printed and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn said(mut command: Command, words: &[&str], directory: &Path) -> Said {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .args(words)
        .current_dir(directory)
        .env_remove("MYSQL_UNIX_PORT")
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Said {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// Runs `waggle sysbench` with these words, in a directory that holds the scripts.
fn ours(words: &[&str], directory: &Path) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
    command.arg("sysbench");
    said(command, words, directory)
}

/// Runs the sysbench of this machine, if there is one.
fn theirs(words: &[&str], directory: &Path) -> Option<Said> {
    let found = Path::new("/usr/bin/sysbench").exists();
    need("sysbench", found, "sysbench is not installed")
        .then(|| said(Command::new("/usr/bin/sysbench"), words, directory))
}

fn mariadb() -> Option<Sandbox> {
    let found = installed_servers()
        .iter()
        .any(|server| server.flavour == Flavour::MariaDb);
    need("mariadb", found, "no such server is installed")
        .then(|| Sandbox::start(&SandboxSpec::new(Flavour::MariaDb)).expect("a throw-away server"))
}

/// A directory with a script of each kind that the tests run.
fn scripts() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = "sysbench.cmdline.options = { str = {'a string', 'abc'}, num = {'a number', 5}, \
                   flt = {'a float', 0.5}, b = {'a bool', true}, l = {'a list', {'a', 'b'}}, \
                   none = {'nothing'} }\nfunction event() end\n";
    let commands = "sysbench.cmdline.commands = {\n\
                    \x20 one = {function() print('one', sysbench.tid) end},\n\
                    \x20 no = {function() return false end},\n\
                    \x20 bad = {function() error('x') end},\n\
                    \x20 all_bad = {function() error('x') end, true} }\n\
                    function event() end\nfunction prepare() print('prepared') end\n";
    let query = "function thread_init() con = sysbench.sql.driver():connect() end\n\
                 function event() con:query('SELECT * FROM nope') end\n";
    for (name, text) in [
        ("options.lua", options),
        ("commands.lua", commands),
        ("query.lua", query),
        ("plain.lua", "function event() end\n"),
        ("no_event.lua", "print('top')\n"),
        ("syntax.lua", "function event(\n"),
        ("boom.lua", "function event() error('boom') end\n"),
        (
            "thread_init.lua",
            "function thread_init() error('no') end function event() end\n",
        ),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// The lines with every number in the place of a measurement replaced, and the banner's end.
fn without_numbers(text: &str) -> Vec<String> {
    let line = |line: &str| {
        if line.starts_with("sysbench 1.") {
            return line.split(" (").next().unwrap_or(line).to_owned();
        }
        if !line.starts_with('[') && !line.starts_with("    ") {
            return line.to_owned();
        }
        let mut shape = String::new();
        for part in line.split_inclusive(|c: char| !c.is_ascii_digit() && c != '.') {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            if rest.len() < part.len() {
                shape.push('N');
            }
            shape += rest;
        }
        shape.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect()
}
