//! A server of somebody else's, byte by byte: it speaks the protocol as far as an attack needs.
//!
//! Invariant: it keeps what it was sent, so that a test can say what did not leave the client.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const LOCAL_FILES: u32 = 1 << 7;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_STATEMENTS: u32 = 1 << 16;
const MULTI_RESULTS: u32 = 1 << 17;
const PLUGIN_AUTH: u32 = 1 << 19;
const DEPRECATE_EOF: u32 = 1 << 24;
const CAPABILITIES: u32 = LONG_PASSWORD
    | CONNECT_WITH_DB
    | LOCAL_FILES
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PLUGIN_AUTH
    | DEPRECATE_EOF;

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const COM_QUERY: u8 = 0x03;
const COM_PREPARE: u8 = 0x16;
const COM_EXECUTE: u8 = 0x17;
const COM_CLOSE: u8 = 0x19;

/// A public key of the attacker's.
const KEY: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDSJ4TPBQe0da2WjH7yPeceICw1\n\
qEkF4gDjDqdJbFzD+rIoLB3HeBaq/ST8pQPr1quJvm9OVGo8ZW+wsbBHsULs8oKM\n\
jJYKvX+9WHFlEuKINqwCePE59D2gGRhVaCzKkhIiFrXwTkUeVxUqVxsihE6nckIK\n\
NLIewBgtWfILI9ayQQIDAQAB\n\
-----END PUBLIC KEY-----\n";

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Play {
    /// Asks for the password itself, and offers a key of its own.
    AskForPassword,
    /// The same after a switch from the native plugin.
    SwitchAndAsk,
    /// Asks for a file in place of the end of the login.
    AskForFileInLogin,
    /// Answers every statement with a request for a file.
    AskForFile,
    /// Asks for the password in clear text.
    AskForClearText,
    /// Offers TLS and goes on in plain text.
    PlainAfterTls,
    /// Sends what looks like the end of a login before TLS begins.
    BytesBeforeTls,
    /// Stops here; the connection stays open.
    Stall(Phase),
}

/// Where it falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    AfterAccept,
    InGreeting,
    InTls,
    InLogin,
    FirstStatement,
    InResult,
    InRow,
    Prepare,
    Execute,
    AfterClose,
    /// A byte now and then, and no end.
    Trickle,
}

/// A running one; its threads end with the process.
pub(crate) struct Fake {
    port: u16,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    silent: Receiver<()>,
}

impl Fake {
    pub(crate) fn start(play: Play) -> Fake {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (tell, silent) = channel();
        let all = Arc::clone(&heard);
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (all, tell) = (Arc::clone(&all), tell.clone());
                thread::spawn(move || {
                    let mut client = Client {
                        socket,
                        sequence: 0,
                        all,
                        tell,
                    };
                    // A client that went away ends its thread.
                    let _ = client.serve(play);
                });
            }
        });
        Fake {
            port,
            heard,
            silent,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How it is named, with a password worth stealing.
    pub(crate) fn dsn(&self, parameters: &str) -> String {
        let port = self.port;
        format!("mysql://root:hunter2secret@127.0.0.1:{port}/d?{parameters}")
    }

    /// Waits until a client is left without an answer.
    pub(crate) fn wait_silent(&self) {
        let waited = self.silent.recv_timeout(Duration::from_secs(60));
        waited.expect("a client comes as far as the server's silence");
    }

    /// Every packet of every client, with those of TLS as they came.
    pub(crate) fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().expect("no thread panics").clone()
    }
}

struct Client {
    socket: TcpStream,
    sequence: u8,
    all: Arc<Mutex<Vec<Vec<u8>>>>,
    tell: Sender<()>,
}

impl Client {
    fn serve(&mut self, play: Play) -> io::Result<()> {
        let tls = matches!(
            play,
            Play::PlainAfterTls | Play::BytesBeforeTls | Play::Stall(Phase::InTls)
        );
        match play {
            Play::Stall(Phase::AfterAccept) => return self.fall_silent(),
            Play::Stall(Phase::InGreeting) => {
                let greeting = greeting(tls, "caching_sha2_password");
                self.socket.write_all(&[greeting.len() as u8, 0, 0, 0])?;
                self.socket.write_all(&greeting[..20])?;
                return self.fall_silent();
            }
            Play::Stall(Phase::Trickle) => return self.trickle(),
            _ => {}
        }
        let plugin = match play {
            Play::AskForPassword => "caching_sha2_password",
            _ => "mysql_native_password",
        };
        self.send(&greeting(tls, plugin))?;
        if play == Play::BytesBeforeTls {
            self.send(OK)?;
        }
        self.receive()?;
        match play {
            Play::AskForPassword => self.steal(),
            Play::SwitchAndAsk => {
                self.send(b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0")?;
                self.receive()?;
                self.steal()
            }
            Play::AskForClearText => {
                self.send(b"\xfemysql_clear_password\0")?;
                self.listen()
            }
            Play::AskForFileInLogin => {
                self.send(b"\xfb/etc/passwd")?;
                self.listen()
            }
            Play::PlainAfterTls | Play::BytesBeforeTls => {
                self.send(OK)?;
                self.listen()
            }
            Play::Stall(Phase::InTls | Phase::InLogin) => self.fall_silent(),
            Play::AskForFile => {
                self.send(OK)?;
                loop {
                    self.sequence = 0;
                    self.receive()?;
                    self.send(b"\xfb/etc/passwd")?;
                    // What would be the file, or nothing.
                    self.receive()?;
                    self.send(OK)?;
                }
            }
            Play::Stall(phase) => self.answer_until(phase),
        }
    }

    /// Says that the password has to come itself, and takes whatever comes.
    fn steal(&mut self) -> io::Result<()> {
        self.send(b"\x01\x04")?;
        self.receive()?;
        self.send(&[b"\x01", KEY.as_bytes()].concat())?;
        self.listen()
    }

    /// Answers as a server without tables, until a client comes to this phase.
    fn answer_until(&mut self, phase: Phase) -> io::Result<()> {
        self.send(OK)?;
        loop {
            self.sequence = 0;
            let command = self.receive()?;
            match (command.first().copied(), phase) {
                (_, Phase::FirstStatement) => return self.fall_silent(),
                (Some(COM_QUERY), Phase::InResult | Phase::InRow) => {
                    self.send(&[1])?;
                    self.send(&column())?;
                    if phase == Phase::InRow {
                        // A row of 200 bytes, of which two come.
                        self.socket
                            .write_all(&[200, 0, 0, self.sequence, 190, b'x'])?;
                    }
                    return self.fall_silent();
                }
                (Some(COM_PREPARE), Phase::Prepare) | (Some(COM_EXECUTE), Phase::Execute) => {
                    return self.fall_silent();
                }
                (Some(COM_PREPARE), _) => self.send(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])?,
                (Some(COM_CLOSE), Phase::AfterClose) => {
                    return self.fall_silent();
                }
                (Some(COM_CLOSE), _) => {}
                (Some(COM_QUERY), _) if has_rows(&command[1..]) => {
                    self.send(&[2])?;
                    self.send(&column())?;
                    self.send(&column())?;
                    self.send(b"\xfe\0\0\x02\0\0\0")?;
                }
                (Some(_), _) => self.send(OK)?,
                (None, _) => return Ok(()),
            }
        }
    }

    /// The greeting, a byte at a time, and again, as long as somebody takes it.
    fn trickle(&mut self) -> io::Result<()> {
        self.socket.write_all(&[0xff, 0xff, 0, 0, 10])?;
        let _ = self.tell.send(());
        loop {
            self.socket.write_all(b"x")?;
            // sleep: it is slow by intention
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Takes what comes and says nothing more.
    fn fall_silent(&mut self) -> io::Result<()> {
        let _ = self.tell.send(());
        self.listen()
    }

    fn listen(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            let length = self.socket.read(&mut buffer)?;
            if length == 0 {
                let _ = self.socket.shutdown(Shutdown::Both);
                return Ok(());
            }
            self.note(&buffer[..length]);
        }
    }

    fn note(&self, bytes: &[u8]) {
        let mut all = self.all.lock().expect("no thread panics");
        all.push(bytes.to_vec());
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.socket.read_exact(&mut header)?;
        let [a, b, c, sequence] = header;
        let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
        self.socket.read_exact(&mut payload)?;
        self.sequence = sequence.wrapping_add(1);
        self.note(&payload);
        Ok(payload)
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(self.sequence);
        packet.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.write_all(&packet)
    }
}

fn has_rows(sql: &[u8]) -> bool {
    let start: Vec<u8> = sql
        .iter()
        .map(u8::to_ascii_uppercase)
        .skip_while(u8::is_ascii_whitespace)
        .take(4)
        .collect();
    matches!(&start[..], b"SELE" | b"SHOW" | b"/* W")
}

fn greeting(tls: bool, plugin: &str) -> Vec<u8> {
    let capabilities = CAPABILITIES | if tls { SSL } else { 0 };
    let mut out = b"\x0a9.7.4\0\x07\0\0\0abcdefgh\0".to_vec();
    out.extend_from_slice(&(capabilities as u16).to_le_bytes());
    out.extend_from_slice(&[45, 2, 0]);
    out.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
    out.push(21);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(b"ijklmnopqrst\0");
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out
}

/// The description of a text column `c`.
fn column() -> Vec<u8> {
    let mut out = b"\x03def\0\0\0\x01c\0\x0c".to_vec();
    out.extend_from_slice(&[45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]);
    out
}
