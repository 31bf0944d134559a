//! A client that sends any command at all: those that libraries never send, and wrong ones.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use waggle_server::sandbox::Sandbox;
use waggle_wire::Connection;

/// Protocol 4.1, with database, multiple statements and results, authentication plugins.
const CAPABILITIES: u32 = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x7_0000 | 0x8_0000;

/// A session of an account of its own, which has no password.
pub(crate) struct RawClient {
    stream: UnixStream,
    sequence: u8,
}

impl RawClient {
    pub(crate) fn connect(server: &Sandbox, plugin: &str) -> Self {
        let mut admin = Connection::connect(&server.dsn_socket()).expect("a session");
        for sql in [
            "CREATE USER raw@localhost",
            "GRANT ALL ON *.* TO raw@localhost",
        ] {
            admin
                .query(sql.as_bytes())
                .expect("an account without a password");
        }
        admin.quit().expect("it leaves");
        let stream = UnixStream::connect(server.socket()).expect("a server at the socket");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a limit");
        let mut client = Self {
            stream,
            sequence: 0,
        };
        client.read();
        let mut login = CAPABILITIES.to_le_bytes().to_vec();
        login.extend((1_u32 << 24).to_le_bytes());
        login.push(45); // utf8mb4
        login.extend([0; 23]);
        login.extend(b"raw\0\0sbtest\0");
        login.extend(plugin.as_bytes());
        login.push(0);
        client.send(&login);
        client.authenticated();
        client
    }

    /// Reads until the server accepts; a switch of plugin is answered with an empty password.
    fn authenticated(&mut self) {
        loop {
            let packet = self.read();
            match packet.first() {
                Some(0x00) => return,
                Some(0xfe) => self.send(&[]),
                Some(0x01) => {}
                _ => panic!("refused: {}", String::from_utf8_lossy(&packet)),
            }
        }
    }

    /// Sends a command and returns the first packet of the answer.
    pub(crate) fn command(&mut self, code: u8, body: &[u8]) -> Vec<u8> {
        self.send_only(code, body);
        self.read()
    }

    /// Sends a command that has no answer.
    pub(crate) fn send_only(&mut self, code: u8, body: &[u8]) {
        self.sequence = 0;
        self.send(&[&[code], body].concat());
    }

    /// Sends a command and reads packets until `ends` of EOF or error packets have come.
    pub(crate) fn command_to_end(&mut self, code: u8, body: &[u8], ends: usize) {
        self.send_only(code, body);
        let mut seen = 0;
        while seen < ends {
            let packet = self.read();
            let is_end = packet.first() == Some(&0xfe) && packet.len() < 9;
            assert_ne!(
                packet.first(),
                Some(&0xff),
                "{}",
                String::from_utf8_lossy(&packet)
            );
            seen += usize::from(is_end);
        }
    }

    /// Changes the user to the same again.
    pub(crate) fn change_user(&mut self, plugin: &str) {
        let body = [b"raw\0\0sbtest\0\x2d\0", plugin.as_bytes(), b"\0"].concat();
        self.send_only(17, &body);
        self.authenticated();
    }

    fn send(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len())
            .expect("a small packet")
            .to_le_bytes();
        let header = [length[0], length[1], length[2], self.sequence];
        self.sequence = self.sequence.wrapping_add(1);
        self.stream
            .write_all(&[&header, body].concat())
            .expect("the server reads");
    }

    fn read(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        self.stream
            .read_exact(&mut header)
            .expect("the server answers");
        self.sequence = header[3].wrapping_add(1);
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).expect("the whole answer");
        body
    }
}
