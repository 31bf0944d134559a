//! Logins to scripted servers.

use super::*;
use crate::auth::tests::{CHALLENGE, decrypted, server_key};
use crate::handshake::tests::greeting;
use crate::packet::tests::{Script, framed, reading};
use crate::{Endpoint, Tls};
use proptest::prelude::*;

/// Layers leave a mark among the writes, and what the script holds goes on under them.
impl Upgrade for Script {
    fn start_tls(&mut self, tls: &Tls, _: &Endpoint) -> Result<(), Error> {
        self.writes.push(format!("TLS {}", tls.mode).into());
        Ok(())
    }

    fn start_compression(&mut self, compression: Compression) -> Result<(), Error> {
        if compression != Compression::Off {
            self.writes.push(compression.to_string().into());
        }
        Ok(())
    }
}

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
    let proof = Plugin::Native.proof("secret", CHALLENGE).unwrap();
    assert!(answer.windows(20).any(|bytes| bytes == proof));
    let plugin = b"db\0mysql_native_password\0";
    assert!(answer.windows(plugin.len()).any(|bytes| bytes == plugin));
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

/// Nothing of a password is in what was sent, as it is or under a key of the server's choice.
fn keeps_the_password(channel: &Channel<Script>) {
    for write in &channel.transport.writes {
        assert!(!write.windows(6).any(|bytes| bytes == b"secret"));
        // The shortest key of a test gives 128 bytes; proofs have 20, 32 or 64.
        assert!(write.len() < 128 || write[4..36] != [0; 32] && write[3] == 1);
    }
}

/// As `server` takes them.
type Packets<'a> = Vec<(&'a [u8], u8)>;

#[test]
fn full_login_over_the_network_is_refused_without_a_key_of_the_users() {
    let pem = [b"\x01", server_key().1.as_bytes()].concat();
    let switched = b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0";
    let (sha2, native) = (hello(auth::CACHING_SHA2), hello(auth::NATIVE));
    let stripped = greeting("9.7.4", !handshake::SSL, auth::CACHING_SHA2);
    let scripts: [(&str, Packets<'_>); 4] = [
        ("", vec![(&sha2, 1), (FULL, 1), (&pem, 1), (OK, 0)]),
        (
            "",
            vec![(&native, 1), (switched, 1), (FULL, 1), (&pem, 1), (OK, 0)],
        ),
        // TLS was taken out of the greeting on the way.
        (
            "ssl-mode=preferred",
            vec![(&stripped, 1), (FULL, 1), (&pem, 1), (OK, 0)],
        ),
        // The key comes without having been asked for.
        (
            "get-server-public-key=false",
            vec![(&sha2, 1), (&pem, 0), (FULL, 1), (OK, 0)],
        ),
    ];
    for (parameters, script) in scripts {
        let mut channel = server(&script);
        let error = login(&mut channel, &dsn_with(parameters), false).unwrap_err();
        let says = error.to_string();
        if script[1].0 != pem {
            assert!(matches!(error, Error::Auth(_)), "{error}");
            for way in ["ssl-mode=required", "server-public-key-path", "socket"] {
                assert!(says.contains(way), "{says}");
            }
        }
        // Neither the key was asked for nor anything said after the proof.
        let answers = 1 + usize::from(script[1].0 == switched);
        assert_eq!(channel.transport.writes.len(), answers, "{parameters}");
        keeps_the_password(&channel);
    }
}

#[test]
fn full_login_over_the_network_encrypts_with_the_key_that_is_asked_for_on_request() {
    let pem = [b"\x01", server_key().1.as_bytes()].concat();
    let hello = hello(auth::CACHING_SHA2);
    let mut channel = server(&[(&hello, 1), (FULL, 1), (&pem, 1), (OK, 0)]);
    login(&mut channel, &dsn_with("get-server-public-key=true"), false).unwrap();
    let writes = &channel.transport.writes;
    assert_eq!(writes[1], b"\x01\0\0\x03\x02");
    assert_eq!(decrypted(&writes[2][4..]), b"secret\0");
    for write in writes {
        assert!(!write.windows(6).any(|bytes| bytes == b"secret"));
    }
}

#[test]
fn a_pinned_key_is_the_only_one_that_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("public_key.pem");
    std::fs::write(&path, &server_key().1).unwrap();
    let parameters = format!(
        "server-public-key-path={}&get-server-public-key=true",
        path.display()
    );
    let hello = hello(auth::CACHING_SHA2);
    let mut channel = server(&[(&hello, 1), (FULL, 1), (OK, 0)]);
    login(&mut channel, &dsn_with(&parameters), false).unwrap();
    let [_, password] = &channel.transport.writes[..] else {
        panic!("the server's own key is not asked for")
    };
    assert_eq!(decrypted(&password[4..]), b"secret\0");

    // A file that is of no use is an error: no key is asked for instead.
    for content in [None, Some("no key")] {
        match content {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let mut channel = server(&[(&hello, 1), (FULL, 1), (OK, 0)]);
        let error = login(&mut channel, &dsn_with(&parameters), false).unwrap_err();
        assert!(error.to_string().contains("public_key.pem"), "{error}");
        assert_eq!(channel.transport.writes.len(), 1);
        keeps_the_password(&channel);
    }
}

fn dsn_with(parameters: &str) -> Dsn {
    format!("mysql://me:secret@h/db?{parameters}")
        .parse()
        .unwrap()
}

#[test]
fn tls_starts_before_anything_of_the_account_is_sent() {
    let hello = hello(auth::CACHING_SHA2);
    // A script that comes whole would look like bytes before TLS.
    let mut channel = server(&[(&hello, 2), (FULL, 1), (OK, 0)]);
    channel.transport.piece_bytes = 1;
    login(&mut channel, &dsn_with("ssl-mode=required"), false).unwrap();
    let [request, tls, answer, password] = &channel.transport.writes[..] else {
        panic!("four writes")
    };
    assert_eq!(
        (request.len(), request[3], tls.as_slice()),
        (36, 1, &b"TLS required"[..])
    );
    assert_eq!(answer[3], 2);
    assert_eq!(request[4..36], answer[4..36]);
    assert_eq!(password, b"\x07\0\0\x04secret\0");
}

#[test]
fn bytes_before_tls_are_not_taken_for_tls() {
    let hello = hello(auth::CACHING_SHA2);
    let mut channel = server(&[(&hello, 2), (OK, 0)]);
    let error = login(&mut channel, &dsn_with("ssl-mode=required"), false).unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    assert!(channel.transport.writes.is_empty());
}

#[test]
fn what_was_asked_for_and_is_not_offered_is_refused_before_an_answer() {
    for (parameters, lacking, expected) in [
        (
            "ssl-mode=required",
            handshake::SSL,
            "TLS: the server does not offer it",
        ),
        (
            "compression=zstd",
            handshake::ZSTD_COMPRESSION,
            "not supported: server 9.7.4 without compression zstd",
        ),
        (
            "compression=zlib",
            handshake::COMPRESS,
            "not supported: server 9.7.4 without compression zlib",
        ),
    ] {
        let hello = greeting("9.7.4", !lacking, auth::NATIVE);
        let mut channel = server(&[(&hello, 1), (OK, 0)]);
        let error = login(&mut channel, &dsn_with(parameters), false).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(channel.transport.writes.is_empty());
    }
    let hello = greeting("9.7.4", !handshake::SSL, auth::NATIVE);
    let mut channel = server(&[(&hello, 1), (OK, 0)]);
    login(&mut channel, &dsn_with("ssl-mode=preferred"), false).unwrap();
}

#[test]
fn compression_starts_after_the_login() {
    let mut channel = server(&[(&hello(auth::NATIVE), 1), (OK, 0)]);
    let (_, agreed) = login(&mut channel, &dsn_with("compression=zstd"), false).unwrap();
    assert!(agreed & handshake::ZSTD_COMPRESSION != 0 && agreed & handshake::COMPRESS == 0);
    let [answer, mark] = &channel.transport.writes[..] else {
        panic!("an answer, then compression")
    };
    assert_eq!((answer.last(), mark.as_slice()), (Some(&3), &b"zstd"[..]));
}

#[test]
fn ed25519_takes_its_own_challenge() {
    let challenge = [b'n'; 32];
    let request = [&b"\xfeclient_ed25519\0"[..], &challenge].concat();
    let mut channel = server(&[(&hello(auth::NATIVE), 1), (&request, 1), (OK, 0)]);
    login(&mut channel, &dsn(), false).unwrap();
    let proof = Plugin::Ed25519.proof("secret", &challenge).unwrap();
    assert_eq!(
        channel.transport.writes[1],
        [&b"\x40\0\0\x03"[..], &proof].concat()
    );
}

#[test]
fn the_server_may_switch_plugins() {
    let request = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
    let mut channel = server(&[(&hello("dialog"), 1), (request, 1), (OK, 0)]);
    login(&mut channel, &dsn(), false).unwrap();
    let proof = Plugin::Native
        .proof("secret", b"ABCDEFGHIJKLMNOPQRST")
        .unwrap();
    assert_eq!(
        channel.transport.writes[1],
        [&b"\x14\0\0\x03"[..], &proof].concat()
    );
}

#[test]
fn refusals_say_why() {
    let cases: [(&[u8], &str); 10] = [
        (
            b"\xff\x15\x04#28000Access denied for user 'me'",
            "server error 1045 (28000): Access",
        ),
        (
            b"\xff\x57\x0c#HY000insecure transport",
            "not supported: a server that requires TLS (insec",
        ),
        (
            b"\xfedialog\0abc",
            "not supported: the account's authentication plugin \"dialog",
        ),
        (
            b"\xfeclient_ed25519\0abc",
            "protocol error: the server sent a challenge of 3 bytes where 32",
        ),
        (
            b"\xfe",
            "not supported: the account's authentication plugin \"mysql_old_password\"",
        ),
        (
            b"\xfemysql_clear_password\0",
            "not supported: the account's authentication plugin \"mysql_clear_password\"",
        ),
        (
            b"\xfesha256_password\0abcdefghijklmnopqrst\0",
            "not supported: the account's authentication plugin \"sha256_password\"",
        ),
        // LOCAL INFILE: there is no statement yet that could ask for rows.
        (
            b"\xfb/etc/passwd",
            "protocol error: an unknown packet in the login",
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
