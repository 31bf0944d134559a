//! A whole session against a server that plays a script.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use super::*;
use crate::handshake::tests::greeting;
use crate::rows::tests::definition;

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
    let statement = connection.prepare(b"SELECT ? + ?").unwrap();
    assert_eq!(
        statement,
        Statement {
            id: 5,
            params: 2,
            columns: 1
        }
    );
    let error = connection.execute(&statement, &[Value::Null]).unwrap_err();
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
    assert_eq!(connection.execute(&statement, &params).unwrap().rows, 1);
    assert_eq!(
        connection.execute_rows(&statement, &params).unwrap(),
        [[Some(b"7".to_vec())]]
    );
    connection.close_statement(statement).unwrap();
    assert_eq!(connection.query(b"SELEC").unwrap_err().errno(), Some(1064));
    assert!(connection.is_usable());
    assert_eq!(connection.query(b"DO 1").unwrap(), Summary::default());
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

/// A connection may move between threads, as the contract with its users says.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Connection>();
};

proptest::proptest! {
    #[test]
    fn any_prepare_answer_is_answered(mut bytes in proptest::collection::vec(0u8.., 0..20)) {
        let _ = parse_prepared(&bytes);
        bytes.insert(0, 0);
        let _ = parse_prepared(&bytes);
    }
}

#[test]
fn nothing_shown_holds_the_password() {
    let (connection, server) = session(vec![], Then::HangUp);
    assert!(!format!("{connection:?}").contains("secret"));
    drop(connection);
    server.join().unwrap();
}
