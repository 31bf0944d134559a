//! Sessions with a server of the same library, over a pair of scripted ends.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

use super::*;

/// The server's end: what is sent to it is answered at once.
struct Server {
    connection: ServerConnection,
    /// Records on their way to the client, which come in pieces.
    outgoing: VecDeque<u8>,
    piece_bytes: usize,
    /// What came, decrypted.
    received: Vec<u8>,
}

impl Transport for Server {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.piece_bytes);
        match self.outgoing.read(&mut buffer[..length])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => Ok(length),
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes)?;
            let processed = self.connection.process_new_packets();
            while self.connection.wants_write() {
                self.connection.write_tls(&mut self.outgoing)?;
            }
            if processed.is_err() {
                return Ok(());
            }
            let mut plain = [0; 20_000];
            while let Ok(length @ 1..) = self.connection.reader().read(&mut plain) {
                self.received.extend_from_slice(&plain[..length]);
            }
        }
        Ok(())
    }
}

impl Server {
    fn say(&mut self, bytes: &[u8]) {
        self.connection.set_buffer_limit(None);
        self.connection.writer().write_all(bytes).unwrap();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.outgoing).unwrap();
        }
    }
}

/// An authority's file, and a server with a certificate of its.
fn server(dir: &Path, names: &[&str]) -> (PathBuf, Server) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = dir.join("ca.pem");
    std::fs::write(&pem, params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(names).unwrap();
    let signed = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config =
        ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], key)
            .unwrap();
    let server = Server {
        connection: ServerConnection::new(Arc::new(config)).unwrap(),
        outgoing: VecDeque::new(),
        piece_bytes: 1000,
        received: Vec::new(),
    };
    (pem, server)
}

fn tcp(host: &str) -> Endpoint {
    Endpoint::Tcp {
        host: host.into(),
        port: 3306,
    }
}

fn verifying(mode: TlsMode, ca: &Path) -> Tls {
    Tls {
        ca: Some(ca.to_owned()),
        ..Tls::of(mode)
    }
}

fn error_of(tls: &Tls, host: &str, server: &mut Server) -> String {
    let outcome = connect(tls, &tcp(host), server);
    let Err(error @ Error::Tls(_)) = outcome else {
        panic!("not refused as TLS");
    };
    error.to_string()
}

#[test]
fn data_passes_both_ways_in_pieces_of_any_size() {
    let dir = tempfile::tempdir().unwrap();
    for piece_bytes in [1, 7, 5000, 1 << 20] {
        let (_, mut server) = server(dir.path(), &["h"]);
        server.piece_bytes = piece_bytes;
        let tls = Tls::of(TlsMode::Required);
        let mut session = connect(&tls, &tcp("not_a.certified-name"), &mut server).unwrap();
        let data: Vec<u8> = (0..300_000_u32).map(|i| (i / 7) as u8).collect();
        session.send(&mut server, &data).unwrap();
        assert!(server.received == data);
        server.say(&data);
        let (mut back, mut buffer) = (Vec::new(), vec![0; 10_000]);
        while back.len() < data.len() {
            let length = session.receive(&mut server, &mut buffer).unwrap();
            back.extend_from_slice(&buffer[..length]);
        }
        assert!(back == data);
        server.connection.send_close_notify();
        server.say(&[]);
        let error = session.receive(&mut server, &mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_command_is_one_write_and_not_readable() {
    struct Counting<'a>(&'a mut Server, Vec<Vec<u8>>);
    impl Transport for Counting<'_> {
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.receive(buffer)
        }
        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.1.push(bytes.to_vec());
            self.0.send(bytes)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, mut server) = server(dir.path(), &["h"]);
    let mut session = connect(&Tls::of(TlsMode::Required), &tcp("h"), &mut server).unwrap();
    let mut counting = Counting(&mut server, Vec::new());
    session.send(&mut counting, b"SELECT 'sesame'").unwrap();
    assert_eq!(counting.1.len(), 1);
    assert!(!counting.1[0].windows(6).any(|bytes| bytes == b"sesame"));
}

#[test]
fn certificates_are_checked_as_strictly_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["db.example", "192.0.2.7"];
    for (mode, host, is_taken) in [
        (TlsMode::Required, "other.example", true),
        (TlsMode::VerifyCa, "other.example", true),
        (TlsMode::VerifyIdentity, "db.example", true),
        (TlsMode::VerifyIdentity, "192.0.2.7", true),
        (TlsMode::VerifyIdentity, "other.example", false),
        (TlsMode::VerifyIdentity, "192.0.2.8", false),
        (TlsMode::VerifyIdentity, "no name", false),
    ] {
        let (ca, mut server) = server(dir.path(), &names);
        let outcome = connect(&verifying(mode, &ca), &tcp(host), &mut server);
        assert_eq!(outcome.is_ok(), is_taken, "{mode} {host}");
    }
    let other = tempfile::tempdir().unwrap();
    let (other_ca, _) = server(other.path(), &[]);
    let (_, mut server) = server(dir.path(), &names);
    let tls = verifying(TlsMode::VerifyCa, &other_ca);
    let error = error_of(&tls, "db.example", &mut server);
    assert!(error.contains("no authority in ssl-ca"), "{error}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, mut server) = server(dir.path(), &["h"]);
    let none = dir.path().join("none.pem");
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    let with_pair = |cert: &Path, key: &Path| Tls {
        cert: Some(cert.to_owned()),
        key: Some(key.to_owned()),
        ..Tls::of(TlsMode::Required)
    };
    for (tls, what) in [
        (Tls::of(TlsMode::VerifyCa), "need ssl-ca"),
        (verifying(TlsMode::VerifyCa, &none), "ssl-ca "),
        (
            verifying(TlsMode::VerifyCa, &empty),
            "no certificate in PEM",
        ),
        (with_pair(&none, &none), "ssl-cert "),
        (with_pair(&ca, &empty), "ssl-key "),
        (
            Tls {
                key: None,
                ..with_pair(&ca, &ca)
            },
            "go together",
        ),
    ] {
        let error = error_of(&tls, "h", &mut server);
        assert!(error.contains(what), "{error}");
    }
    assert!(server.received.is_empty());
}

#[test]
fn a_server_that_hangs_up_or_babbles_is_answered() {
    use crate::packet::tests::Script;
    let connect = |incoming: &[u8]| {
        let mut script = Script {
            incoming: incoming.to_vec(),
            piece_bytes: 50,
            ..Script::default()
        };
        let endpoint = Endpoint::Tcp {
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: 1,
        };
        match connect(&Tls::of(TlsMode::Required), &endpoint, &mut script) {
            Ok(_) => panic!("there is no session"),
            Err(error) => error,
        }
    };
    let error = connect(b"");
    assert!(matches!(error, Error::Io(_)), "{error}");
    assert!(
        error.to_string().contains("in the TLS handshake"),
        "{error}"
    );
    let error = connect(&[b'x'; 100]);
    assert!(matches!(error, Error::Tls(_)), "{error}");
    // An alert: handshake_failure.
    let error = connect(b"\x15\x03\x03\0\x02\x02\x28");
    assert!(error.to_string().contains("HandshakeFailure"), "{error}");
}

#[test]
fn modes_decide_as_mysqls_clients_do() {
    use TlsMode::{Disabled, Preferred, Required, VerifyCa, VerifyIdentity};
    let decide = |mode, is_offered, is_local| Tls::of(mode).is_to_start(is_offered, is_local).ok();
    assert_eq!(decide(Disabled, true, false), Some(false));
    assert_eq!(decide(Preferred, true, false), Some(true));
    assert_eq!(decide(Preferred, true, true), Some(false));
    assert_eq!(decide(Preferred, false, false), Some(false));
    for mode in [Required, VerifyCa, VerifyIdentity] {
        assert_eq!(decide(mode, true, true), Some(true));
        assert_eq!(decide(mode, false, true), None);
        assert_eq!(
            mode.to_string().to_uppercase().replace('-', "_").parse(),
            Ok(mode)
        );
    }
    assert_eq!("verify".parse::<TlsMode>(), Err(TlsModeError));
}
