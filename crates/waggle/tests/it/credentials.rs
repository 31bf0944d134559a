//! Passwords that are not in the DSN, from every place where MySQL's own client looks, to a real
//! server; and those that are, out of the sight of who lists processes.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use waggle_need::need;
use waggle_server::Flavour;
use waggle_server::install::installed_servers;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Endpoint};

use crate::hostile::fake::{Fake, Phase, Play};

/// Every character that files and shells take for something else.
const PASSWORD: &str = r#"pa#ss "wo\rd'%@:/"#;
/// The same as an option file has it.
const IN_FILE: &str = r#""pa#ss \"wo\\rd'%@:/""#;

/// MySQL's editor of login paths writes a backslash as it is, and reads it as an escape.
const PLAIN: &str = r#"pa#ss "word'%@:/"#;

struct Stand {
    server: Sandbox,
    home: tempfile::TempDir,
    dsn: String,
    port: u16,
}

impl Stand {
    fn new() -> Option<Stand> {
        let found = installed_servers()
            .iter()
            .any(|server| server.flavour == Flavour::MariaDb);
        if !need("mariadb", found, "no such server is installed") {
            return None;
        }
        let spec = SandboxSpec::new(Flavour::MariaDb).tcp();
        let server = Sandbox::start(&spec).expect("a server");
        let mut root = Connection::connect(&server.dsn_socket()).expect("it answers");
        let password = PASSWORD.replace('\\', r"\\").replace('\'', "''");
        for sql in [
            "CREATE DATABASE d".to_owned(),
            format!("CREATE USER shy@'%' IDENTIFIED BY '{password}'"),
            "GRANT ALL ON *.* TO shy@'%'".to_owned(),
            format!(
                "CREATE USER plain@'%' IDENTIFIED BY '{}'",
                PLAIN.replace('\'', "''")
            ),
            "GRANT ALL ON *.* TO plain@'%'".to_owned(),
        ] {
            root.query(sql.as_bytes()).expect("root may");
        }
        let Endpoint::Tcp { host, port } = server.dsn().endpoint else {
            panic!("it listens on TCP")
        };
        let home = tempfile::tempdir().expect("a folder");
        let workload = "function event() sysbench.sql.driver():connect():query('DO 1') end\n";
        fs::write(home.path().join("w.lua"), workload).expect("a script");
        let dsn = format!("mysql://shy@{host}:{port}/d");
        Some(Stand {
            server,
            home,
            dsn,
            port,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        path.to_str().expect("a path").to_owned()
    }

    fn bench(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waggle"));
        command
            .args(["bench", "w.lua", "run", "--events", "1", "--no-record"])
            .args(["--dsn", &self.dsn])
            .args(options)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env_remove("WAGGLE_DSN")
            .env_remove("MYSQL_PWD")
            .env_remove("MYSQL_TEST_LOGIN_FILE")
            .stdin(Stdio::null());
        command
    }

    fn opens(&self, options: &[&str]) -> Result<(), String> {
        done(&mut self.bench(options))
    }
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output().expect("the binary starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(!said.contains(PASSWORD), "{said}");
    output.status.success().then_some(()).ok_or(said)
}

#[test]
fn a_password_comes_from_each_place_in_its_turn() {
    let Some(stand) = Stand::new() else { return };
    let right = format!("[client]\npassword={IN_FILE}\n");
    let wrong = "[client]\npassword=wrong\n";
    let denied = stand.opens(&[]).expect_err("there is no password");
    assert!(denied.contains("1045"), "{denied}");

    stand.write(".my.cnf", &right, 0o600);
    stand.opens(&[]).expect("~/.my.cnf");
    stand.opens(&["--no-defaults"]).expect_err("none is read");
    // Everybody could have written it.
    stand.write(".my.cnf", &right, 0o666);
    let said = stand.opens(&[]).expect_err("it is not read");
    assert!(said.contains("may be written by everybody"), "{said}");

    stand.write(".my.cnf", wrong, 0o600);
    let file = stand.write("own.cnf", &right, 0o600);
    stand.opens(&[]).expect_err("it is wrong");
    stand.opens(&["--defaults-file", &file]).expect("a file");
    let extra = ["--defaults-extra-file", file.as_str()];
    stand.opens(&extra).expect_err("~/.my.cnf comes after it");
    fs::remove_file(stand.path(".my.cnf")).expect("it is there");
    stand.opens(&extra).expect("one more file");

    let suffixed = format!("{wrong}[client_b]\npassword={IN_FILE}\n");
    let file = stand.write("groups.cnf", &suffixed, 0o600);
    let options = ["--defaults-file", file.as_str()];
    stand.opens(&options).expect_err("of another group");
    let options = [&options[..], &["--defaults-group-suffix", "_b"]].concat();
    stand.opens(&options).expect("a group of that suffix");

    let from_environment = |options: &[&str]| {
        let mut command = stand.bench(options);
        done(command.env("MYSQL_PWD", PASSWORD))
    };
    from_environment(&[]).expect("MYSQL_PWD");
    from_environment(&["--defaults-file", &file]).expect_err("files come before it");
    let named = stand.write("word", PASSWORD, 0o600);
    let stand = Stand {
        dsn: format!("{}?password-file={named}", stand.dsn),
        ..stand
    };
    let own = stand.opens(&["--defaults-file", &file]);
    own.expect("the DSN's own comes before everything");
}

#[test]
fn a_password_of_another_account_or_server_is_not_sent() {
    let Some(stand) = Stand::new() else { return };
    for of in ["user=other", "host=other.example", "host=127.0.0.1\nport=1"] {
        let text = format!("[client]\n{of}\npassword={IN_FILE}\n");
        stand.write(".my.cnf", &text, 0o600);
        let said = stand.opens(&[]).expect_err("it is not used");
        assert!(
            said.contains("is not used") && said.contains("1045"),
            "{said}"
        );
    }
    let of = format!("user=shy\nhost=127.0.0.1\nport={}", stand.port);
    let text = format!("[client]\n{of}\npassword={IN_FILE}\n");
    stand.write(".my.cnf", &text, 0o600);
    stand.opens(&[]).expect("it is of this one");
    assert!(stand.server.pid() > 0);
}

/// A process on a terminal of its own, and the other end of that.
fn on_terminal(command: &mut Command) -> (std::process::Child, File) {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: all pointers are valid or null, as openpty allows.
    let made = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: fresh descriptors that nobody else owns.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let terminal = slave.as_raw_fd();
    // SAFETY: between fork and exec there are two system calls on numbers.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() < 0 || libc::ioctl(terminal, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn().expect("it starts");
    drop(slave);
    (child, File::from(master))
}

/// What the terminal shows, up to this text.
fn shown(terminal: &mut File, until: &str) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    while !String::from_utf8_lossy(&text).contains(until) {
        match terminal.read(&mut buffer) {
            Ok(length @ 1..) => text.extend_from_slice(&buffer[..length]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_prompt_shows_nothing_of_what_is_typed() {
    let Some(stand) = Stand::new() else { return };
    let mut command = stand.bench(&["--ask-password"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, mut terminal) = on_terminal(&mut command);
    let asked = shown(&mut terminal, ": ");
    assert!(asked.contains("Password of shy at 127.0.0.1"), "{asked}");
    terminal
        .write_all(format!("{PASSWORD}\n").as_bytes())
        .expect("it listens");
    let echoed = shown(&mut terminal, "\n");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!echoed.contains("pa#ss"), "{echoed:?}");

    // Without a terminal there is nobody to ask.
    let said = {
        let mut command = stand.bench(&["--ask-password"]);
        // SAFETY: between fork and exec there is one system call without memory of ours.
        unsafe {
            command.pre_exec(|| match libc::setsid() {
                0.. => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        done(&mut command).expect_err("there is no terminal")
    };
    assert!(said.contains("--ask-password"), "{said}");
}

/// MySQL's own editor of login paths, from the prefix that holds its libraries.
fn config_editor(prefix: &Path) -> Command {
    let libraries = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
    let libraries = libraries.map(|name| prefix.join(name).display().to_string());
    let mut command = Command::new(prefix.join("lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(libraries.join(":"))
        .arg(prefix.join("usr/bin/mysql_config_editor"));
    command
}

#[test]
fn a_login_path_is_read_as_mysqls_editor_wrote_it() {
    let servers = installed_servers();
    let prefix = servers.iter().find_map(|server| {
        let mut parents = server.exe.ancestors();
        let prefix = parents.find(|path| path.join("usr/bin/mysql_config_editor").exists())?;
        (server.flavour == Flavour::MySql && prefix != Path::new("/")).then(|| prefix.to_owned())
    });
    if !need(
        "mysql",
        prefix.is_some(),
        "no mysql_config_editor in its prefix",
    ) {
        return;
    }
    let (Some(prefix), Some(stand)) = (prefix, Stand::new()) else {
        return;
    };
    let file = stand.path("login.cnf");
    for (name, host) in [("mine", "127.0.0.1"), ("elsewhere", "other.example")] {
        let mut command = config_editor(&prefix);
        let host = format!("--host={host}");
        let path = format!("--login-path={name}");
        command
            .args(["set", &path, "--user=plain", &host, "--password"])
            .env("MYSQL_TEST_LOGIN_FILE", &file);
        let (mut child, mut terminal) = on_terminal(&mut command);
        shown(&mut terminal, "password: ");
        terminal
            .write_all(format!("{PLAIN}\n").as_bytes())
            .expect("it listens");
        shown(&mut terminal, "\n");
        assert!(child.wait().expect("it ends").success());
    }
    let stand = Stand {
        dsn: stand.dsn.replace("shy@", "plain@"),
        ..stand
    };
    let opens = |options: &[&str]| {
        let mut command = stand.bench(options);
        done(command.env("MYSQL_TEST_LOGIN_FILE", &file))
    };
    opens(&[]).expect_err("it is not named");
    opens(&["--login-path", "mine"]).expect("its password");
    let said = opens(&["--login-path", "elsewhere"]).expect_err("not of this server");
    assert!(said.contains("another server"), "{said}");
    let said = opens(&["--login-path", "none"]).expect_err("there is none");
    assert!(said.contains("no such path"), "{said}");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("a mode");
    let said = opens(&["--login-path", "mine"]).expect_err("others may read it");
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn a_password_given_as_an_argument_is_blotted_out() {
    let fake = Fake::start(Play::Stall(Phase::AfterAccept));
    let home = tempfile::tempdir().expect("a folder");
    fs::write(home.path().join("w.lua"), "function event() end\n").expect("a script");
    let (dsn, port) = (fake.dsn(""), fake.port());
    let dsn = dsn.trim_end_matches('?');
    let named = format!("--dsn={dsn}");
    let port = format!("--mysql-port={port}");
    let prepare = "function prepare() sysbench.sql.driver():connect() end\n";
    fs::write(home.path().join("p.lua"), prepare).expect("a script");
    let to = dsn.replace("/d", "/e");
    let lines: [&[&str]; 5] = [
        &["bench", "w.lua", "run", "--dsn", dsn],
        &["bench", "w.lua", "run", &named],
        &["copy", "--from", dsn, "--to", &to],
        &["copy", "verify", "--from", dsn, "--to", &to],
        &[
            "sysbench",
            "p.lua",
            "--mysql-host=127.0.0.1",
            &port,
            "--mysql-password=hunter2secret",
            "prepare",
        ],
    ];
    for line in lines {
        let mut child = Command::new(env!("CARGO_BIN_EXE_waggle"))
            .args(line)
            .current_dir(home.path())
            .env_remove("WAGGLE_DSN")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        fake.wait_silent();
        let shown = fs::read(format!("/proc/{}/cmdline", child.id())).expect("it lives");
        child.kill().expect("it lives");
        child.wait().expect("it ends");
        let shown = String::from_utf8_lossy(&shown).replace('\0', " ");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("*************"), "{shown}");
    }
}
