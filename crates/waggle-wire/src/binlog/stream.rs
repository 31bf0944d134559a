//! A server's binary log as it is written: the connection that a replica would have.
//!
//! A session tells the server what it understands, asks for the log from a position on, and from
//! then on gets events. Neighbours: [`Connection`] is given up for it, [`event`] frames what
//! comes. Invariants: a stream never ends quietly for another reason than that the server was
//! asked to end it; a server that says nothing for three heartbeats is an error.
//!
//! [`event`]: crate::binlog::event

use std::io;
use std::time::Duration;

use crate::binlog::event::{Event, Framing};
use crate::binlog::gtid::{GtidSet, MariaDbPosition};
use crate::{Connection, Error, Interrupter, reply};

const COM_BINLOG_DUMP: u8 = 0x12;
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;
/// The server ends the stream where the log ends, and does not wait for more.
const FLAG_NON_BLOCKING: u16 = 1;
/// The header of a file comes before its first event.
const FIRST_POSITION: u64 = 4;
/// So many heartbeats may be late together.
const HEARTBEATS_UNTIL_SILENT: u32 = 3;

/// Where to begin.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// MySQL: with the first transaction that is not in this set.
    Gtids(&'a GtidSet),
    /// MariaDB: after these transactions.
    MariaDb(&'a MariaDbPosition),
    /// At the beginning of an event of a log file.
    File {
        /// The file's name, without a directory.
        name: &'a str,
        /// Where in it; 4 is its beginning.
        position: u32,
    },
}

/// What to ask a server for.
#[derive(Debug, Clone, Copy)]
pub struct DumpRequest<'a> {
    /// A number that no other replica of the server has: a second one ends the first one's stream.
    pub server_id: u32,
    /// Where to begin.
    pub start: Start<'a>,
    /// How often the server gives a sign of life when there is nothing to say; from 1 ms.
    pub heartbeat: Duration,
    /// Whether the stream ends where the log ends. Otherwise it waits for more.
    pub ends: bool,
}

/// A stream of events. Dropping it closes the connection.
#[derive(Debug)]
pub struct Dump {
    connection: Connection,
    framing: Framing,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    Failed,
}

impl Dump {
    /// Gives `connection` up for the log of its server.
    ///
    /// It takes the privilege REPLICATION SLAVE. A position that the server no longer has is an
    /// error of the first [`Dump::next`].
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Unsupported`] when the position is one of the other kind of
    /// server.
    pub fn start(mut connection: Connection, request: &DumpRequest<'_>) -> Result<Dump, Error> {
        let is_mariadb = connection.is_mariadb();
        match (request.start, is_mariadb) {
            (Start::Gtids(_), true) => return Err(wrong_position("MySQL", "MariaDB")),
            (Start::MariaDb(_), false) => return Err(wrong_position("MariaDB", "MySQL")),
            _ => {}
        }
        connection.query(introduction(request, is_mariadb).as_bytes())?;
        let rows = connection.query_rows(b"SELECT @master_binlog_checksum")?;
        let checksum = rows.first().and_then(|row| row.first()?.as_deref());
        // Only until the first file says what it has.
        let framing = Framing::new(checksum == Some(b"CRC32"));
        let silence = request.heartbeat.saturating_mul(HEARTBEATS_UNTIL_SILENT);
        let (command, body) = command(request);
        connection.begin_stream(command, &body)?;
        connection.set_timeout(Some(silence));
        Ok(Dump {
            connection,
            framing,
            state: State::Running,
        })
    }

    /// The next event, heartbeats included; `None` when the stream was to end with the log and
    /// did.
    ///
    /// # Errors
    /// [`Error::Server`] with 1236 when the server cannot go on, [`Error::Io`] when it is gone or
    /// silent, [`Error::Protocol`] when what came is damaged. The stream is over then.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, Error> {
        match self.state {
            State::Running => {}
            State::Ended => return Ok(None),
            State::Failed => {
                let what = "an earlier error ended this stream; start another";
                let error = io::Error::new(io::ErrorKind::NotConnected, what);
                return Err(Error::Io(error));
            }
        }
        // Until what comes turns out to be right.
        self.state = State::Failed;
        let packet = self.connection.stream_packet()?;
        match packet {
            [0, event @ ..] => {
                let event = self.framing.read(event)?;
                self.state = State::Running;
                Ok(Some(event))
            }
            [0xfe, rest @ ..] if rest.len() < 8 => {
                self.state = State::Ended;
                Ok(None)
            }
            [0xff, ..] => Err(reply::server_error(packet)?),
            _ => Err(Error::protocol(
                "the server sent something else than events",
            )),
        }
    }

    /// A way to break a wait from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.connection.interrupter()
    }
}

fn wrong_position(of: &str, server: &str) -> Error {
    Error::Unsupported(format!("a position of {of} on a server of {server}"))
}

/// The session's variables by which servers know a replica.
fn introduction(request: &DumpRequest<'_>, is_mariadb: bool) -> String {
    let nanos = request.heartbeat.as_nanos();
    let mut sql = format!(
        "SET @master_binlog_checksum = @@global.binlog_checksum, @master_heartbeat_period = {nanos}"
    );
    if is_mariadb {
        // It understands GTID events, and wants to be told when its position is not in the log.
        sql.push_str(", @mariadb_slave_capability = 4, @slave_gtid_strict_mode = 1");
        if let Start::MariaDb(position) = request.start {
            // Digits, minus signs and commas.
            sql.push_str(&format!(", @slave_connect_state = '{position}'"));
        }
    } else {
        sql.push_str(", @source_binlog_checksum = @@global.binlog_checksum");
        sql.push_str(&format!(", @source_heartbeat_period = {nanos}"));
    }
    sql
}

fn command(request: &DumpRequest<'_>) -> (u8, Vec<u8>) {
    let flags = if request.ends { FLAG_NON_BLOCKING } else { 0 };
    let mut body = Vec::new();
    if let Start::Gtids(seen) = request.start {
        let seen = seen.encode();
        body.extend_from_slice(&flags.to_le_bytes());
        body.extend_from_slice(&request.server_id.to_le_bytes());
        body.extend_from_slice(&0u32.to_le_bytes()); // of a file's name
        body.extend_from_slice(&FIRST_POSITION.to_le_bytes());
        body.extend_from_slice(&(seen.len() as u32).to_le_bytes());
        body.extend_from_slice(&seen);
        return (COM_BINLOG_DUMP_GTID, body);
    }
    let (name, position) = match request.start {
        Start::File { name, position } => (name, position),
        _ => ("", FIRST_POSITION as u32),
    };
    body.extend_from_slice(&position.to_le_bytes());
    body.extend_from_slice(&flags.to_le_bytes());
    body.extend_from_slice(&request.server_id.to_le_bytes());
    body.extend_from_slice(name.as_bytes());
    (COM_BINLOG_DUMP, body)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use crate::binlog::event::kind;
    use crate::binlog::event::tests::framed;
    use crate::handshake::tests::greeting;
    use crate::rows::tests::definition;
    use crate::stream::Stream;

    const OK: &[u8] = b"\0\0\0\x02\0\0\0";
    /// No test waits for it.
    const LONG: Duration = Duration::from_secs(100);
    const END: &[u8] = b"\xfe\0\0\x02\0\0\0";

    fn read_packet(socket: &mut UnixStream) -> Vec<u8> {
        let mut header = [0; 4];
        socket.read_exact(&mut header).unwrap();
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut payload = vec![0; length as usize];
        socket.read_exact(&mut payload).unwrap();
        payload
    }

    fn write_packets(socket: &mut UnixStream, first: u8, packets: &[&[u8]]) {
        socket.write_all(&encoded(first, packets)).unwrap();
    }

    /// All in one: the other side may hang up after the first.
    fn encoded(first: u8, packets: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, packet) in packets.iter().enumerate() {
            bytes.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
            bytes.push(first + i as u8);
            bytes.extend_from_slice(packet);
        }
        bytes
    }

    /// The outcomes of reading a stream to its end or first error, and the command that asked.
    fn stream(answer: &[&[u8]], heartbeat: Duration) -> (Vec<u8>, Error, Vec<u8>) {
        let (near, mut far) = UnixStream::pair().unwrap();
        let answer: Vec<Vec<u8>> = answer.iter().map(|packet| packet.to_vec()).collect();
        let server = thread::spawn(move || {
            let hello = greeting("9.7.4", u32::MAX, "mysql_native_password");
            write_packets(&mut far, 0, &[&hello]);
            read_packet(&mut far);
            write_packets(&mut far, 2, &[OK]);
            assert!(read_packet(&mut far).starts_with(b"\x03SET @master_binlog_checksum"));
            write_packets(&mut far, 1, &[OK]);
            read_packet(&mut far);
            let column = definition("c", 0xfd, 0, 0);
            write_packets(&mut far, 1, &[b"\x01", &column, b"\x05CRC32", END]);
            let command = read_packet(&mut far);
            let answer: Vec<&[u8]> = answer.iter().map(Vec::as_slice).collect();
            let sent = far.write_all(&encoded(1, &answer));
            // A client that waits for a short time only may be gone.
            assert!(sent.is_ok() || heartbeat < LONG, "{sent:?}");
            // Silent, until the other side is gone.
            let _ = far.read_to_end(&mut Vec::new());
            command
        });
        let dsn = "mysql://me:secret@h".parse().unwrap();
        let connection = Connection::over(Stream::of(near, true), &dsn).unwrap();
        let set: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5".parse().unwrap();
        let request = DumpRequest {
            server_id: 9,
            start: Start::Gtids(&set),
            heartbeat,
            ends: true,
        };
        let mut dump = Dump::start(connection, &request).unwrap();
        let mut kinds = Vec::new();
        let error = loop {
            match dump.next() {
                Ok(Some(event)) => kinds.push(event.header.kind),
                Ok(None) => break Error::Unsupported("the end".to_owned()),
                Err(error) => break error,
            }
        };
        let is_end = matches!(error, Error::Unsupported(_));
        assert_eq!(dump.next().is_ok(), is_end);
        drop(dump);
        (kinds, error, server.join().unwrap())
    }

    #[test]
    fn a_stream_ends_as_asked_or_with_an_error() {
        let event = [&[0][..], &framed(kind::XID, 0, &[1; 8], true)].concat();
        let (kinds, error, command) = stream(&[&event, &event, b"\xfe\0\0\x02\0"], LONG);
        assert_eq!(kinds, [kind::XID; 2]);
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        assert_eq!(command[..7], *b"\x1e\x01\0\x09\0\0\0");
        assert_eq!(command.len(), 1 + 2 + 4 + 4 + 8 + 4 + 8 + 16 + 8 + 16);
        let (_, error, _) = stream(&[&event, b"\xff\xd4\x04#HY000purged"], LONG);
        assert_eq!(error.errno(), Some(1236));
        // The events may come too late for so short a limit.
        let (_, error, _) = stream(&[&event], Duration::from_millis(10));
        assert!(
            matches!(&error, Error::Io(e) if e.kind() == io::ErrorKind::TimedOut),
            "{error}"
        );
        let mut damaged = event.clone();
        damaged[22] ^= 1;
        let (_, error, _) = stream(&[&damaged, &event], LONG);
        assert!(matches!(error, Error::Protocol(_)), "{error}");
        let (_, error, _) = stream(&[b"\x01"], LONG);
        assert!(matches!(error, Error::Protocol(_)), "{error}");
    }
}
