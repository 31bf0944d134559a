//! A whole session against a server that plays a script.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use super::*;
use crate::handshake::tests::greeting;
use crate::rows::tests::definition;
use crate::{Endpoint, Value};

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const END: &[u8] = b"\xfe\0\0\x02\0\0\0";

/// Reads one packet (of one frame) and its sequence number.
fn read_packet(socket: &mut UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    socket.read_exact(&mut header)?;
    let [a, b, c, sequence] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    socket.read_exact(&mut payload)?;
    Ok((sequence, payload))
}

fn write_packets(socket: &mut UnixStream, first: u8, packets: &[&[u8]]) {
    let mut bytes = Vec::new();
    for (i, packet) in packets.iter().enumerate() {
        bytes.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
        bytes.push(first + i as u8);
        bytes.extend_from_slice(packet);
    }
    socket.write_all(&bytes).unwrap();
}

/// What the server does when its script is at its end.
#[derive(PartialEq)]
enum Then {
    HangUp,
    KeepSilent,
}

/// A connection to a server that answers each command with the next list of packets. Joining
/// gives the commands, with what came after the script.
fn session(script: Vec<Vec<Vec<u8>>>, then: Then) -> (Connection, JoinHandle<Vec<Vec<u8>>>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        write_packets(
            &mut far,
            0,
            &[&greeting("9.7.4", u32::MAX, "mysql_native_password")],
        );
        assert_eq!(read_packet(&mut far).unwrap().0, 1);
        write_packets(&mut far, 2, &[OK]);
        let mut commands = Vec::new();
        for answer in script {
            let (sequence, command) = read_packet(&mut far).unwrap();
            assert_eq!(sequence, 0);
            commands.push(command);
            let answer: Vec<&[u8]> = answer.iter().map(Vec::as_slice).collect();
            write_packets(&mut far, 1, &answer);
        }
        if then == Then::HangUp {
            far.shutdown(std::net::Shutdown::Write).unwrap();
        }
        while let Ok((_, command)) = read_packet(&mut far) {
            commands.push(command);
        }
        commands
    });
    let dsn: Dsn = "mysql://me:secret@h".parse().unwrap();
    (
        Connection::over(Stream::of(near, true), &dsn).unwrap(),
        server,
    )
}

fn packets(list: &[&[u8]]) -> Vec<Vec<u8>> {
    list.iter().map(|packet| packet.to_vec()).collect()
}

#[test]
fn runs_every_command() {
    let column = definition("a", 8, 0, 0);
    let (mut connection, server) = session(
        vec![
            packets(&[OK]),
            packets(&[b"\x01", &column, b"\x0217", END]),
            // Statement 5: one column, two parameters.
            packets(&[b"\0\x05\0\0\0\x01\0\x02\0\0\0\0", &column, &column, &column]),
            packets(&[b"\x01", &column, b"\0\0\x07\0\0\0\0\0\0\0", END]),
            packets(&[b"\x01", &column, b"\0\0\x07\0\0\0\0\0\0\0", END]),
            packets(&[]),
            packets(&[b"\xff\x28\x04#42000You have an error"]),
            packets(&[OK]),
        ],
        Then::HangUp,
    );
    assert_eq!(connection.server_version(), "9.7.4");
    assert_eq!(connection.connection_id(), 7);
    assert!(!connection.is_mariadb());
    connection.set_timeout(Some(Duration::from_secs(20)));
    connection.ping().unwrap();
    assert_eq!(
        connection.query_rows(b"SELECT a").unwrap(),
        [[Some(b"17".to_vec())]]
    );
    let mut statement = connection.prepare(b"SELECT ? + ?").unwrap();
    assert_eq!(
        (statement.id(), statement.params(), statement.columns()),
        (5, 2, 1)
    );
    let error = connection
        .execute(&mut statement, &[Value::Null])
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Parameters {
                expected: 2,
                given: 1
            }
        ),
        "{error}"
    );
    let params = [Value::Int(3), Value::Int(4)];
    assert_eq!(connection.execute(&mut statement, &params).unwrap().rows, 1);
    assert_eq!(
        connection.execute_rows(&mut statement, &params).unwrap(),
        [[Some(b"7".to_vec())]]
    );
    connection.close_statement(statement).unwrap();
    assert_eq!(connection.query(b"SELEC").unwrap_err().errno(), Some(1064));
    assert!(connection.is_usable());
    assert_eq!(
        connection.query(b"DO 1").unwrap(),
        Summary {
            results: 1,
            ..Summary::default()
        }
    );
    connection.quit().unwrap();
    let commands = server.join().unwrap();
    assert_eq!(commands[0], [COM_PING]);
    assert_eq!(commands[1], b"\x03SELECT a");
    assert_eq!(commands[2], b"\x16SELECT ? + ?");
    assert_eq!(commands[5], b"\x19\x05\0\0\0");
    assert_eq!(commands[8..], [[COM_QUIT]]);
}

#[test]
fn dropping_tells_the_server_once() {
    let (connection, server) = session(vec![], Then::HangUp);
    drop(connection);
    assert_eq!(server.join().unwrap(), [[COM_QUIT]]);
}

#[test]
fn a_lost_connection_is_reported_and_stays_lost() {
    let (mut connection, server) = session(vec![packets(&[b"\x01"])], Then::HangUp);
    let error = connection.query(b"SELECT 1").unwrap_err();
    assert!(
        matches!(&error, Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof),
        "{error}"
    );
    assert!(!connection.is_usable());
    let error = connection.ping().unwrap_err();
    assert!(
        matches!(&error, Error::Io(e) if e.kind() == io::ErrorKind::NotConnected),
        "{error}"
    );
    drop(connection);
    assert_eq!(server.join().unwrap(), [b"\x03SELECT 1"]);
}

#[test]
fn an_error_that_ends_the_session_marks_it() {
    let killed = b"\xff\x87\x07#70100Connection was killed";
    let (mut connection, server) = session(vec![packets(&[killed])], Then::HangUp);
    assert_eq!(
        connection.query(b"SELECT 1").unwrap_err().errno(),
        Some(1927)
    );
    assert!(!connection.is_usable());
    drop(connection);
    server.join().unwrap();
}

#[test]
fn a_silent_server_runs_into_the_time_limit() {
    let (mut connection, server) = session(vec![], Then::KeepSilent);
    connection.set_timeout(Some(Duration::from_millis(10)));
    let error = connection.query(b"SELECT SLEEP(9)").unwrap_err();
    assert!(
        matches!(&error, Error::Io(e) if e.kind() == io::ErrorKind::TimedOut),
        "{error}"
    );
    assert!(!connection.is_usable());
    drop(connection);
    server.join().unwrap();
}

#[test]
fn another_thread_breaks_a_wait() {
    let (mut connection, server) = session(vec![], Then::KeepSilent);
    let interrupter = connection.interrupter();
    let late = interrupter.clone();
    let breaker = thread::spawn(move || interrupter.interrupt());
    let error = connection.query(b"SELECT SLEEP(9)").unwrap_err();
    assert!(matches!(&error, Error::Io(_)), "{error}");
    assert!(!connection.is_usable());
    breaker.join().unwrap();
    drop(connection);
    late.interrupt();
    server.join().unwrap();
}

/// A connection may move between threads, as the contract with its users says.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Connection>();
};

#[test]
fn nothing_shown_holds_the_password() {
    let (connection, server) = session(vec![], Then::HangUp);
    assert!(!format!("{connection:?}").contains("secret"));
    drop(connection);
    server.join().unwrap();
}

/// A session of compressed frames, for which the server plays what it sends once the first
/// command begins. Joining gives what was sent.
fn compressed(answers: Vec<u8>) -> (Connection, JoinHandle<Vec<u8>>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let hello = greeting("9.7.4", u32::MAX, "mysql_native_password");
        write_packets(&mut far, 0, &[&hello]);
        read_packet(&mut far).unwrap();
        write_packets(&mut far, 2, &[OK]);
        let mut sent = vec![0; 12];
        far.read_exact(&mut sent).unwrap();
        far.write_all(&answers).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        far.read_to_end(&mut sent).unwrap();
        sent
    });
    let dsn: Dsn = "mysql://me:secret@h/?compression=zlib".parse().unwrap();
    let connection = Connection::over(Stream::of(near, true), &dsn).unwrap();
    (connection, server)
}

#[test]
fn compressed_commands_are_counted_anew_and_packets_follow_the_frames() {
    let frame = |sequence, packet: u8| {
        let packet = [&[7, 0, 0, packet][..], OK].concat();
        [&[11, 0, 0, sequence, 0, 0, 0][..], &packet].concat()
    };
    // After a command of four frames (its beginning, then three of up to 1 MiB) the server's
    // packet has the number of its frame.
    let answers = [frame(1, 1), frame(4, 4)].concat();
    let (mut connection, server) = compressed(answers);
    connection.query(b"DO 1").unwrap();
    let mut sql = b"DO '".to_vec();
    sql.resize(5 << 19, b'x');
    connection.query(&sql).unwrap();
    assert!(connection.is_usable());
    connection.quit().unwrap();
    let sent = server.join().unwrap();
    assert_eq!(sent[..12], *b"\x09\0\0\0\0\0\0\x05\0\0\0\x03");
    assert_eq!(sent[sent.len() - 12..], *b"\x05\0\0\0\0\0\0\x01\0\0\0\x01");
}

#[test]
fn a_compressed_answer_out_of_turn_is_refused_unless_it_is_an_error() {
    let frame = |packet: &[u8]| {
        let length = packet.len() as u8;
        let header = [length + 4, 0, 0, 0, 0, 0, 0, length, 0, 0, 0];
        [&header[..], packet].concat()
    };
    let (mut connection, server) = compressed(frame(OK));
    let error = connection.ping().unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    drop(connection);
    server.join().unwrap();
    let (mut connection, server) = compressed(frame(b"\xff\xbf\x0f#HY000idle"));
    assert_eq!(connection.ping().unwrap_err().errno(), Some(4031));
    assert!(!connection.is_usable());
    drop(connection);
    server.join().unwrap();
}

#[test]
fn a_server_that_hangs_up_or_refuses_in_the_login_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let hello = greeting("9.7.4", u32::MAX, "mysql_native_password");
    for (i, (said, expected)) in [
        (&b""[..], "the server closed the connection"),
        (&hello[..hello.len() / 2], "greeting packet: it ends early"),
        (&hello[..], "the server closed the connection"),
        (
            b"\xff\x10\x04Too many connections",
            "server error 1040 (HY000): Too many",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let path = directory.path().join(format!("{i}.sock"));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let said = said.to_vec();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            if !said.is_empty() {
                write_packets(&mut socket, 0, &[&said]);
            }
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            socket.read_to_end(&mut Vec::new()).unwrap();
        });
        let error = Connection::connect(&Dsn::new(Endpoint::Socket(path), "me")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        if let Error::Io(error) = &error {
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            assert!(error.to_string().starts_with("logging in at /"), "{error}");
        }
        server.join().unwrap();
    }
}
