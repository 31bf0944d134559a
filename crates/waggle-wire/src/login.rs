//! From a fresh socket to a session: greeting, answer, and the plugins' back and forth.
//!
//! [`Connection::connect`](crate::Connection::connect) calls it once. Invariant: the number of
//! rounds is bounded, and the password goes out as it is only over a local socket.

use crate::auth::{self, Plugin};
use crate::cursor::Cursor;
use crate::handshake::{self, Challenge, Greeting};
use crate::packet::{Channel, Transport};
use crate::{Dsn, Error, reply};

/// More packets than any login takes (MariaDB may try several plugins for one account).
const ROUNDS_MAX: usize = 16;
/// The server takes connections over TLS or a local socket only.
const ER_SECURE_TRANSPORT_REQUIRED: u16 = 3159;

const MORE_DATA: u8 = 1;
const SWITCH_PLUGIN: u8 = 0xfe;
const SHA2_REQUEST_KEY: u8 = 2;
const SHA2_FAST_DONE: u8 = 3;
const SHA2_FULL: u8 = 4;

/// Logs in over a new channel. Gives the greeting and the agreed capabilities.
pub(crate) fn login<T: Transport>(
    channel: &mut Channel<T>,
    dsn: &Dsn,
    is_local: bool,
) -> Result<(Greeting, u32), Error> {
    match log_in(channel, dsn, is_local) {
        Err(Error::Server {
            errno: ER_SECURE_TRANSPORT_REQUIRED,
            message,
            ..
        }) => Err(Error::Unsupported(format!(
            "TLS, which the server requires ({message}); use its Unix socket"
        ))),
        other => other,
    }
}

fn log_in<T: Transport>(
    channel: &mut Channel<T>,
    dsn: &Dsn,
    is_local: bool,
) -> Result<(Greeting, u32), Error> {
    let greeting = Greeting::parse(channel.packet()?)?;
    let agreed = greeting.agreed(dsn);
    if dsn.database.is_some() && agreed & handshake::CONNECT_WITH_DB == 0 {
        return Err(Error::Unsupported(
            "a server without databases at connect".to_owned(),
        ));
    }
    let password = dsn
        .password
        .as_ref()
        .map_or("", |password| password.expose());
    // A plugin that is not spoken here may be the server's default only, not the account's: the
    // server then asks to switch.
    let mut plugin = Plugin::find(&greeting.plugin).unwrap_or(Plugin::Native);
    let mut challenge = greeting.challenge;
    let proof = plugin.proof(password, &challenge);
    handshake::put_answer(channel.answer(), agreed, dsn, plugin.name(), &proof);
    channel.send()?;
    for _ in 0..ROUNDS_MAX {
        let packet = channel.packet()?;
        match packet.first() {
            Some(&SWITCH_PLUGIN) => {
                (plugin, challenge) = switch(packet)?;
                let proof = plugin.proof(password, &challenge);
                channel.answer().extend_from_slice(&proof);
                channel.send()?;
            }
            Some(&MORE_DATA) if plugin == Plugin::CachingSha2 => match packet {
                [_, SHA2_FAST_DONE] => {}
                [_, SHA2_FULL] => full_proof(channel, password, &challenge, is_local)?,
                _ => return Err(Error::protocol("unknown data in the login")),
            },
            Some(0 | &reply::ERROR) => {
                reply::done(packet)?;
                return Ok((greeting, agreed));
            }
            _ => return Err(Error::protocol("an unknown packet in the login")),
        }
    }
    Err(Error::Auth(format!(
        "the server did not come to an end in {ROUNDS_MAX} rounds"
    )))
}

/// Reads a request to use another plugin.
fn switch(packet: &[u8]) -> Result<(Plugin, Challenge), Error> {
    let mut cursor = Cursor::new(packet, "authentication switch");
    cursor.u8()?;
    if cursor.is_empty() {
        return Err(auth::unsupported(b"mysql_old_password"));
    }
    let name = cursor.until_zero()?;
    let plugin = std::str::from_utf8(name).ok().and_then(Plugin::find);
    Ok((
        plugin.ok_or_else(|| auth::unsupported(name))?,
        cursor.array()?,
    ))
}

/// The second stage of `caching_sha2_password`, when the server has no cached proof: the
/// password itself, over a socket that nobody else reads, or else encrypted.
fn full_proof<T: Transport>(
    channel: &mut Channel<T>,
    password: &str,
    challenge: &Challenge,
    is_local: bool,
) -> Result<(), Error> {
    if is_local {
        let out = channel.answer();
        out.extend_from_slice(password.as_bytes());
        out.push(0);
        return channel.send();
    }
    channel.answer().push(SHA2_REQUEST_KEY);
    channel.send()?;
    let packet = channel.packet()?;
    let encrypted = match packet.split_first() {
        Some((&MORE_DATA, pem)) => auth::encrypted(password, challenge, pem)?,
        Some((&reply::ERROR, _)) => return Err(reply::server_error(packet)?),
        _ => return Err(Error::protocol("no RSA public key where one was due")),
    };
    channel.answer().extend_from_slice(&encrypted);
    channel.send()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::{CHALLENGE, decrypted, server_key};
    use crate::handshake::tests::greeting;
    use crate::packet::tests::{Script, framed, reading};
    use proptest::prelude::*;

    const OK: &[u8] = b"\0\0\0\x02\0\0\0";
    const FULL: &[u8] = b"\x01\x04";

    /// The server's side of a login: the packets that it sends, each followed by `answered`
    /// packets of the client.
    fn server(packets: &[(&[u8], u8)]) -> Channel<Script> {
        let mut incoming = Vec::new();
        let mut sequence = 0;
        for (packet, answered) in packets {
            incoming.extend(framed(packet, &mut sequence));
            sequence += answered;
        }
        reading(incoming, usize::MAX)
    }

    fn hello(plugin: &str) -> Vec<u8> {
        greeting("9.7.4", u32::MAX, plugin)
    }

    fn dsn() -> Dsn {
        "mysql://me:secret@h/db".parse().unwrap()
    }

    #[test]
    fn native_login() {
        let mut channel = server(&[(&hello(auth::NATIVE), 1), (OK, 0)]);
        let (greeting, agreed) = login(&mut channel, &dsn(), false).unwrap();
        assert_eq!(greeting.version, "9.7.4");
        assert!(agreed & handshake::DEPRECATE_EOF != 0);
        let [answer] = &channel.transport.writes[..] else {
            panic!("one answer")
        };
        let proof = Plugin::Native.proof("secret", CHALLENGE);
        assert!(answer.windows(20).any(|bytes| bytes == proof));
        assert!(answer.ends_with(b"db\0mysql_native_password\0"));
    }

    #[test]
    fn cached_login_needs_no_second_stage() {
        let packets = [
            (&hello(auth::CACHING_SHA2)[..], 1),
            (b"\x01\x03", 0),
            (OK, 0),
        ];
        let mut channel = server(&packets);
        login(&mut channel, &dsn(), false).unwrap();
        assert_eq!(channel.transport.writes.len(), 1);
    }

    #[test]
    fn full_login_over_a_local_socket() {
        let mut channel = server(&[(&hello(auth::CACHING_SHA2), 1), (FULL, 1), (OK, 0)]);
        login(&mut channel, &dsn(), true).unwrap();
        assert_eq!(channel.transport.writes[1], b"\x07\0\0\x03secret\0");
    }

    #[test]
    fn full_login_over_the_network_encrypts() {
        let pem = [b"\x01", server_key().1.as_bytes()].concat();
        let hello = hello(auth::CACHING_SHA2);
        let mut channel = server(&[(&hello, 1), (FULL, 1), (&pem, 1), (OK, 0)]);
        login(&mut channel, &dsn(), false).unwrap();
        let writes = &channel.transport.writes;
        assert_eq!(writes[1], b"\x01\0\0\x03\x02");
        assert_eq!(decrypted(&writes[2][4..]), b"secret\0");
        for write in writes {
            assert!(!write.windows(6).any(|bytes| bytes == b"secret"));
        }
    }

    #[test]
    fn the_server_may_switch_plugins() {
        let request = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
        let mut channel = server(&[(&hello("dialog"), 1), (request, 1), (OK, 0)]);
        login(&mut channel, &dsn(), false).unwrap();
        let proof = Plugin::Native.proof("secret", b"ABCDEFGHIJKLMNOPQRST");
        assert_eq!(
            channel.transport.writes[1],
            [&b"\x14\0\0\x03"[..], &proof].concat()
        );
    }

    #[test]
    fn refusals_say_why() {
        let cases: [(&[u8], &str); 6] = [
            (
                b"\xff\x15\x04#28000Access denied for user 'me'",
                "server error 1045 (28000): Access",
            ),
            (
                b"\xff\x57\x0c#HY000insecure transport",
                "not supported: TLS, which the server req",
            ),
            (
                b"\xfeclient_ed25519\0abc",
                "not supported: the account's authentication plugin \"cli",
            ),
            (
                b"\xfe",
                "not supported: the account's authentication plugin \"mysql_old_password\"",
            ),
            (b"\x01\x09", "protocol error: unknown data in the login"),
            (b"\x07", "protocol error: an unknown packet in the login"),
        ];
        for (packet, expected) in cases {
            let mut channel = server(&[(&hello(auth::CACHING_SHA2), 1), (packet, 0)]);
            let error = login(&mut channel, &dsn(), true).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(!format!("{error:?}").contains("secret"));
        }
        let hello = hello(auth::CACHING_SHA2);
        let mut packets = vec![(&hello[..], 1)];
        packets.extend([(FULL, 1); 20]);
        let error = login(&mut server(&packets), &dsn(), true).unwrap_err();
        assert!(matches!(error, Error::Auth(_)), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(
            packets in proptest::collection::vec(
                (prop_oneof![Just(1u8), Just(0xfe), Just(0xff), Just(0)],
                 proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
            is_local in any::<bool>(),
        ) {
            let hello = hello(auth::CACHING_SHA2);
            let packets: Vec<Vec<u8>> =
                packets.into_iter().map(|(first, rest)| [&[first], &rest[..]].concat()).collect();
            let mut script = vec![(&hello[..], 1)];
            script.extend(packets.iter().map(|packet| (&packet[..], 1)));
            let _ = login(&mut server(&script), &dsn(), is_local);
        }
    }
}
