//! The greeting and the answer to a login: everybody is let in.
//!
//! Invariant: what is granted is the part of the client's wishes that the greeting offered.

use std::io::{Read, Write};

use waggle_bench_client::login::{DEPRECATE_EOF, receive};

/// Offered: long password, found rows, schema at login, 4.1 protocol, transactions, secure
/// connection, several statements and results, plugins, rows that end in OK.
const OFFERED: u32 = 0x0001
    | 0x0002
    | 0x0004
    | 0x0008
    | 0x0200
    | 0x2000
    | 0x8000
    | 0x0001_0000
    | 0x0002_0000
    | 0x0004_0000
    | 0x0008_0000
    | DEPRECATE_EOF;

/// Greets and reads the login; gives the capabilities that both sides have.
pub(crate) fn greet(socket: &mut (impl Read + Write), id: u32) -> anyhow::Result<u32> {
    let mut greeting = vec![10];
    greeting.extend_from_slice(b"8.0.99-null\0");
    greeting.extend_from_slice(&id.to_le_bytes());
    greeting.extend_from_slice(b"12345678\0");
    greeting.extend_from_slice(&(OFFERED as u16).to_le_bytes());
    // utf8mb4; autocommit.
    greeting.extend_from_slice(&[45, 2, 0]);
    greeting.extend_from_slice(&((OFFERED >> 16) as u16).to_le_bytes());
    greeting.push(21);
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"123456789012\0mysql_native_password\0");
    write(socket, 0, &greeting)?;
    let (sequence, login) = receive(socket)?;
    anyhow::ensure!(login.len() >= 4, "a login of {} bytes", login.len());
    let wanted = u32::from_le_bytes([login[0], login[1], login[2], login[3]]);
    write(socket, sequence.wrapping_add(1), &[0, 0, 0, 2, 0, 0, 0])?;
    Ok(wanted & OFFERED)
}

fn write(socket: &mut impl Write, sequence: u8, payload: &[u8]) -> std::io::Result<()> {
    let mut packet = Vec::new();
    crate::answers::put(&mut packet, sequence, payload);
    socket.write_all(&packet)
}
