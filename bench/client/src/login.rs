//! The shortest way from a socket to a session: user bench, an empty password, schema sbtest.
//!
//! Throw-away servers and the null server let this user in. Invariant: a login that is not this
//! simple is an error that says so, never a hang: the socket has a time-out until it is done.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};

/// How long each step of a login may take.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Rows end in an OK packet rather than in an EOF packet.
pub const DEPRECATE_EOF: u32 = 1 << 24;

/// What the client asks for: 4.1 protocol, transactions, plugins, a schema, several results.
const CAPABILITIES: u32 = 0x0000_0001 // long password
    | 0x0000_0002 // found rows
    | 0x0000_0004 // long flag
    | 0x0000_0008 // connect with a schema
    | 0x0000_0200 // protocol 4.1
    | 0x0000_2000 // transactions
    | 0x0000_8000 // secure connection
    | 0x0002_0000 // multiple results
    | 0x0004_0000 // multiple results of prepared statements
    | 0x0008_0000 // authentication plugins
    | DEPRECATE_EOF;

/// Where the server listens.
#[derive(Debug, Clone)]
pub enum Place {
    /// A Unix socket.
    Socket(PathBuf),
    /// A port of 127.0.0.1.
    Port(u16),
}

/// A connection that is logged in.
#[derive(Debug)]
pub struct LoggedIn {
    /// The socket, blocking, without a time-out.
    pub socket: OwnedFd,
    /// Rows end in an OK packet.
    pub deprecates_eof: bool,
}

/// Connects and logs in.
///
/// # Errors
/// When the server is not there, or wants more than a user's name.
pub fn connect(place: &Place) -> anyhow::Result<LoggedIn> {
    match place {
        Place::Socket(path) => {
            let mut socket = UnixStream::connect(path)
                .with_context(|| format!("connecting to {}", path.display()))?;
            socket.set_read_timeout(Some(LOGIN_TIMEOUT))?;
            let deprecates_eof = login(&mut socket)?;
            socket.set_read_timeout(None)?;
            Ok(LoggedIn {
                socket: socket.into(),
                deprecates_eof,
            })
        }
        Place::Port(port) => {
            let mut socket = TcpStream::connect(("127.0.0.1", *port))
                .with_context(|| format!("connecting to 127.0.0.1:{port}"))?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(LOGIN_TIMEOUT))?;
            let deprecates_eof = login(&mut socket)?;
            socket.set_read_timeout(None)?;
            Ok(LoggedIn {
                socket: socket.into(),
                deprecates_eof,
            })
        }
    }
}

/// Sends one command and gives the first packet of the answer, without its header.
///
/// # Errors
/// When the socket fails or the server answers with an error.
pub fn command(
    stream: &mut (impl Read + Write),
    command: u8,
    body: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    packet.push(command);
    packet.extend_from_slice(body);
    send(stream, packet, 0)?;
    Ok(receive(stream)?.1)
}

/// Reads one packet: its sequence number and payload.
///
/// # Errors
/// When the socket fails or the server answers with an error.
pub fn receive(stream: &mut impl Read) -> anyhow::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).context("reading a packet")?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream
        .read_exact(&mut payload)
        .context("reading a packet")?;
    if payload.first() == Some(&0xff) {
        bail!(
            "the server refused: {}",
            String::from_utf8_lossy(payload.get(3..).unwrap_or_default())
        );
    }
    Ok((header[3], payload))
}

/// Sends one statement as text and gives the first two columns of its rows.
///
/// # Errors
/// When the socket fails, or the server answers with an error or with values over 250 bytes.
pub fn rows(
    stream: &mut (impl Read + Write),
    sql: &str,
    deprecates_eof: bool,
) -> anyhow::Result<Vec<(String, String)>> {
    let columns = command(stream, 0x03, sql.as_bytes())?;
    let columns = usize::from(columns.first().copied().unwrap_or_default());
    for _ in 0..columns + usize::from(columns > 0 && !deprecates_eof) {
        receive(stream)?;
    }
    let mut rows = Vec::new();
    if columns == 0 {
        return Ok(rows);
    }
    loop {
        let (_, packet) = receive(stream)?;
        if packet.first() == Some(&0xfe) && packet.len() < 9 {
            return Ok(rows);
        }
        let (first, rest) = value(&packet).context("a value this program does not read")?;
        let second = value(rest).map_or(String::new(), |(second, _)| second);
        rows.push((first, second));
    }
}

/// A short value of a text row, and what follows it.
fn value(packet: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = packet.split_first()?;
    let value = rest
        .get(..usize::from(*length))
        .filter(|_| *length <= 250)?;
    let text = String::from_utf8_lossy(value).into_owned();
    Some((text, &rest[value.len()..]))
}

/// `packet` begins with room for its header.
fn send(stream: &mut impl Write, mut packet: Vec<u8>, sequence: u8) -> anyhow::Result<()> {
    let [a, b, c, _] = (packet.len() as u32 - 4).to_le_bytes();
    packet[..4].copy_from_slice(&[a, b, c, sequence]);
    stream.write_all(&packet).context("sending a packet")
}

fn login(stream: &mut (impl Read + Write)) -> anyhow::Result<bool> {
    let (sequence, greeting) = receive(stream)?;
    let offered = offered(&greeting).context("reading the greeting")?;
    let asked = CAPABILITIES & (offered | !DEPRECATE_EOF);
    let mut answer = vec![0; 4];
    answer.extend_from_slice(&asked.to_le_bytes());
    answer.extend_from_slice(&(1u32 << 24).to_le_bytes());
    // utf8mb4, then 23 bytes of nothing.
    answer.push(45);
    answer.extend_from_slice(&[0; 23]);
    answer.extend_from_slice(b"bench\0\0sbtest\0mysql_native_password\0");
    send(stream, answer, sequence.wrapping_add(1))?;
    loop {
        let (sequence, packet) = receive(stream)?;
        match packet.first() {
            Some(0) => return Ok(asked & DEPRECATE_EOF != 0),
            // Another plugin: of an empty password each takes an empty answer.
            Some(0xfe) => send(stream, vec![0; 4], sequence.wrapping_add(1))?,
            other => bail!("a login this program does not know: packet {other:?}"),
        }
    }
}

/// The capabilities in a greeting.
fn offered(greeting: &[u8]) -> Option<u32> {
    let version_end = 1 + greeting.get(1..)?.iter().position(|byte| *byte == 0)?;
    // Connection id (4), first part of the challenge (8), a filler (1).
    let at = version_end + 1 + 13;
    let low = u16::from_le_bytes(greeting.get(at..at + 2)?.try_into().ok()?);
    // Character set (1), status (2).
    let high = u16::from_le_bytes(greeting.get(at + 5..at + 7)?.try_into().ok()?);
    Some(u32::from(low) | u32::from(high) << 16)
}
