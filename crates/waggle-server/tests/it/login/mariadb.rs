//! MariaDB: mysql_native_password, ed25519, certificates of the test's own, zlib.

use std::path::Path;

use waggle_need::skip;
use waggle_server::Flavour;
use waggle_wire::{Compression, Connection, Dsn, Error, Tls, TlsMode};

use super::certificates::Authority;
use super::*;

/// A server with a certificate for 127.0.0.1 and localhost by a new authority of this directory.
fn start_with_tls(dir: &Path) -> Option<(Sandbox, Authority)> {
    let authority = Authority::new(dir, "authority");
    let (cert, key) = authority.sign("server", &["127.0.0.1", "localhost"]);
    let settings = [
        ("ssl_ca", authority.pem.to_str().unwrap()),
        ("ssl_cert", cert.to_str().unwrap()),
        ("ssl_key", key.to_str().unwrap()),
        ("max_allowed_packet", "64M"),
    ];
    Some((start(Flavour::MariaDb, &settings)?, authority))
}

#[test]
fn native_passwords_log_in_over_every_transport() {
    let dir = tempfile::tempdir().unwrap();
    let Some((sandbox, _)) = start_with_tls(dir.path()) else {
        return;
    };
    as_root(
        &sandbox,
        &[
            "CREATE USER old@localhost IDENTIFIED BY 'sesame', blank@localhost",
            "CREATE USER safe@localhost REQUIRE SSL",
        ],
    );
    for dsn in [
        sandbox.dsn(),
        sandbox.dsn_socket(),
        with_tls(sandbox.dsn(), required()),
        with_tls(sandbox.dsn_socket(), required()),
    ] {
        let dsn = Dsn {
            database: None,
            ..dsn
        };
        let has_tls = dsn.tls.mode == TlsMode::Required;
        for (name, password) in [("old", "sesame"), ("blank", "")] {
            let cipher = cipher(&user(dsn.clone(), name, password));
            assert_eq!(cipher.is_empty(), !has_tls, "{dsn}");
        }
        let error = refusal(&user(dsn.clone(), "old", "open it"));
        assert_eq!(error.errno(), Some(1045), "{error}");
        let safe = Connection::connect(&user(dsn, "safe", ""));
        assert_eq!(safe.is_ok(), has_tls);
    }
}

#[test]
fn ed25519_passwords_log_in_over_every_transport() {
    let dir = tempfile::tempdir().unwrap();
    let Some((sandbox, _)) = start_with_tls(dir.path()) else {
        return;
    };
    let mut root = Connection::connect(&sandbox.dsn_socket()).unwrap();
    if let Err(error) = root.query(b"INSTALL SONAME 'auth_ed25519'") {
        let why = format!("this MariaDB has not the plugin ({error})");
        return skip("ed25519", &why);
    }
    let long = "x".repeat(200);
    for (name, password) in [("short", "sesame"), ("lengthy", &long)] {
        let create = format!(
            "CREATE USER {name}@localhost IDENTIFIED VIA ed25519 USING PASSWORD('{password}')"
        );
        as_root(&sandbox, &[&create]);
        for dsn in [
            sandbox.dsn(),
            sandbox.dsn_socket(),
            with_tls(sandbox.dsn(), required()),
        ] {
            let dsn = Dsn {
                database: None,
                ..dsn
            };
            let has_tls = dsn.tls.mode == TlsMode::Required;
            let right = user(dsn.clone(), name, password);
            assert_eq!(cipher(&right).is_empty(), !has_tls, "{dsn}");
            let error = refusal(&user(dsn, name, "open it"));
            assert_eq!(error.errno(), Some(1045), "{error}");
        }
    }
}

#[test]
fn certificates_are_checked_as_strictly_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let Some((sandbox, authority)) = start_with_tls(dir.path()) else {
        return;
    };
    let other = Authority::new(dir.path(), "other");
    let verify = |mode, ca: &Authority, dsn| {
        let tls = Tls {
            ca: Some(ca.pem.clone()),
            ..Tls::of(mode)
        };
        with_tls(dsn, tls)
    };
    for mode in [TlsMode::VerifyCa, TlsMode::VerifyIdentity] {
        for dsn in [sandbox.dsn(), sandbox.dsn_socket()] {
            assert_ne!(cipher(&verify(mode, &authority, dsn.clone())), "");
            let error = refusal(&verify(mode, &other, dsn));
            assert!(
                error.to_string().contains("no authority in ssl-ca"),
                "{error}"
            );
        }
    }
    // Where no certificate is checked, the wrong authority does no harm.
    assert_ne!(
        cipher(&verify(TlsMode::Required, &other, sandbox.dsn())),
        ""
    );
}

#[test]
fn a_client_proves_itself_by_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let Some((sandbox, authority)) = start_with_tls(dir.path()) else {
        return;
    };
    as_root(
        &sandbox,
        &["CREATE USER known@localhost REQUIRE SUBJECT '/CN=client'"],
    );
    let with = |(cert, key)| {
        let tls = Tls {
            cert: Some(cert),
            key: Some(key),
            ..required()
        };
        let dsn = Dsn {
            database: None,
            ..user(sandbox.dsn(), "known", "")
        };
        with_tls(dsn, tls)
    };
    assert_ne!(cipher(&with(authority.sign("client", &[]))), "");
    assert_eq!(
        refusal(&with(authority.sign("another", &[]))).errno(),
        Some(1045)
    );
    let stranger = Authority::new(dir.path(), "stranger").sign("client", &[]);
    assert!(Connection::connect(&with(stranger)).is_err());
    let (cert, _) = authority.sign("one", &[]);
    let (_, key) = authority.sign("two", &[]);
    let error = refusal(&with((cert, key)));
    assert!(matches!(error, Error::Tls(_)), "{error}");
}

#[test]
fn zlib_results_of_every_size_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let Some((sandbox, _)) = start_with_tls(dir.path()) else {
        return;
    };
    check_sizes(&sandbox.dsn());
    check_sizes(&with_tls(sandbox.dsn(), required()));
    let packed = Dsn {
        compression: Compression::Zlib,
        ..sandbox.dsn()
    };
    check_sizes(&packed);
    check_sizes(&with_tls(packed, required()));
    let error = refusal(&Dsn {
        compression: Compression::Zstd,
        ..sandbox.dsn()
    });
    assert!(
        error.to_string().contains("without compression zstd"),
        "{error}"
    );
}
