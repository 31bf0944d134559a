//! Nothing that a server, a program or a run says gets to a terminal as it is: held for each verb
//! that shows such a thing, with every kind of character that does something there.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use waggle_need::is_root;

use super::{Ended, waggle};

/// A title, a cleared screen, a mark of direction, ends of lines, a C1 control, tags, a bell.
const ODD: &str =
    "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\n\r\u{9b}31m\u{2066}\u{e0041}\u{200b}\u{7f}y";

/// The same with a byte that is no UTF-8, as only the wire and the kernel have them.
fn odd_bytes() -> Vec<u8> {
    let mut bytes = ODD.as_bytes().to_vec();
    bytes.extend(b"\xff\xfe");
    bytes
}

/// A server that greets like one, and says nothing but odd things.
struct Odd(u16);

impl Odd {
    /// Answers every connection on a port of its own, as long as the test runs.
    fn start(greets: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // Whoever hangs up is no failure of the test.
                thread::spawn(move || drop(converse(stream, greets)));
            }
        });
        Self(port)
    }

    fn dsn(&self) -> String {
        format!("mysql://u:p@127.0.0.1:{}/db", self.0)
    }
}

fn converse(mut stream: TcpStream, greets: bool) -> std::io::Result<()> {
    if greets {
        let mut greeting = vec![10];
        greeting.extend("9.7.4-".as_bytes());
        greeting.extend(odd_bytes().iter().filter(|byte| **byte != 0));
        greeting.push(0);
        greeting.extend(7_u32.to_le_bytes());
        greeting.extend(b"12345678\0");
        greeting.extend([0xff, 0xf7, 45, 2, 0, 0xff, 0x81, 21]);
        greeting.extend([0; 10]);
        greeting.extend(b"123456789012\0mysql_native_password\0");
        send(&mut stream, 0, &greeting)?;
        receive(&mut stream)?;
        send(&mut stream, 2, &error())?;
        return Ok(());
    }
    send(&mut stream, 0, &error())
}

fn error() -> Vec<u8> {
    let mut packet = vec![0xff];
    packet.extend(1045_u16.to_le_bytes());
    packet.extend(b"#28000");
    packet.extend(odd_bytes());
    packet
}

fn send(stream: &mut TcpStream, number: u8, payload: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(payload.len())
        .expect("a short one")
        .to_le_bytes();
    stream.write_all(&[length[0], length[1], length[2], number])?;
    stream.write_all(payload)
}

fn receive(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)
}

/// What came out says what it was told, in a form that does nothing.
fn told(ended: &Ended) {
    let all = ended.stdout() + &ended.stderr();
    assert!(all.contains("owned"), "{all}");
    assert_ne!(ended.code, Some(0));
}

#[test]
fn what_a_server_says_is_shown_and_does_nothing() {
    for greets in [true, false] {
        let dsn = Odd::start(greets).dsn();
        let own = std::process::id().to_string();
        told(&waggle(&["bench", "oltp_point_select", "--dsn", &dsn]));
        told(&waggle(&[
            "bench",
            "oltp_point_select",
            "prepare",
            "--dsn",
            &dsn,
        ]));
        let nobody = "mysql://u:p@127.0.0.2:1/there";
        waggle(&["copy", "--from", &dsn, "--to", nobody, "--tables", "t"]);
        waggle(&["watch", "--pid", &own, "--dsn", &dsn, "--duration", "1"]);
        waggle(&["tune", "--dsn", &dsn]);
        waggle(&["lab", "run", "--dsn", &dsn]);
        waggle(&["trace", "waits", "--dsn", &dsn]);
        waggle(&["profile", "--dsn", &dsn]);
    }
}

/// A process whose name, path and arguments are odd, as anyone may start one.
fn odd_process() -> (tempfile::TempDir, Child) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a directory");
    let odd: Vec<u8> = odd_bytes();
    let folder = dir.path().join(OsStr::from_bytes(&odd));
    fs::create_dir(&folder).expect("a directory of that name");
    let program = folder.join("mysqld");
    fs::copy("/usr/bin/perl", &program).expect("a copy");
    let script = "$0 = \"x\\e]0;owned\\a\\e[2J\\xff\"; print \"ready\\n\"; sleep 600";
    let mut child = Command::new(&program)
        .arg0("mysqld")
        .args(["-e", &format!("$| = 1; {script}"), "--"])
        .arg(OsStr::from_bytes(&odd))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = [0; 6];
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut line).expect("its first line");
    (dir, child)
}

#[test]
fn what_a_process_is_called_is_shown_and_does_nothing() {
    if !is_root() {
        return;
    }
    let (_dir, mut child) = odd_process();
    let pid = child.id().to_string();
    waggle(&["doctor"]);
    waggle(&["server", "list"]);
    waggle(&["watch", "--pid", &pid, "--duration", "1"]);
    waggle(&["watch", "--all", "--duration", "1"]);
    waggle(&["trace", "waits", "--pid", &pid, "--duration", "1"]);
    waggle(&["trace", "func", "--pid", &pid, "--duration", "1", "main"]);
    waggle(&["trace", "latch", "--pid", &pid, "--duration", "1"]);
    waggle(&["profile", "--pid", &pid, "--duration", "1"]);
    child.kill().expect("it runs");
    child.wait().expect("it ended");
}

/// Puts odd text in place of every text of a document, and odd names beside its names.
fn made_odd(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(ODD),
        Value::Array(items) => items.iter_mut().for_each(made_odd),
        Value::Object(members) => {
            members.values_mut().for_each(made_odd);
            members.insert(ODD.to_owned(), json!(ODD));
        }
        _ => {}
    }
}

#[test]
fn what_a_run_says_is_shown_and_does_nothing() {
    for verb in ["bench", "lab", "trace", "watch", "profile", "tune", ODD] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut facts = json!({ "name": "x", "command": ["waggle"], "error": "e",
            "host": {}, "settings": { "a": "b" }, "outcome": null,
            "server": { "flavour": "f", "version": "v", "variables": { "a": "b" } } });
        made_odd(&mut facts["name"]);
        made_odd(&mut facts["command"]);
        made_odd(&mut facts["error"]);
        made_odd(&mut facts["settings"]);
        made_odd(&mut facts["server"]);
        facts["format_version"] = json!(1);
        facts["verb"] = json!(verb);
        let mut result = json!({ "workload": "w", "failure": "f", "checks": [{ "name": "n" }] });
        made_odd(&mut result);
        fs::create_dir(dir.path().join("histograms")).expect("a directory");
        let odd = ODD.replace(['\u{7f}', '/'], "");
        fs::write(dir.path().join(format!("histograms/{odd}.hdr")), "").expect("a file");
        fs::write(dir.path().join(format!("profile-{odd}.json")), ODD).expect("a file");
        let path = dir.path().to_str().expect("a path of text");
        let run = |args: &[&str]| waggle(&[&["report", path], args].concat());
        for damaged in [false, true] {
            fs::write(dir.path().join("run.json"), facts.to_string()).expect("a file");
            fs::write(dir.path().join("result.json"), result.to_string()).expect("a file");
            if damaged {
                fs::write(
                    dir.path().join("lab.json"),
                    json!({ "arms": ODD }).to_string(),
                )
                .expect("a file");
                let bad = json!({ "format_version": 1, "outcome": ODD });
                fs::write(dir.path().join("run.json"), bad.to_string()).expect("a file");
            }
            run(&[]);
            run(&["--format", "md"]);
            run(&["--format", "csv"]);
            waggle(&["compare", path, path]);
            waggle(&["lab", "run", "--resume", path]);
        }
    }
}
