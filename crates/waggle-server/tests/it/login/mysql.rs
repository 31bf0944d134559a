//! MySQL: caching_sha2_password in all its forms, its own and our certificates, zlib and zstd.

use waggle_server::Flavour;
use waggle_wire::{Compression, Connection, Dsn, Error, ServerKey, Tls, TlsMode};

use super::certificates::Authority;
use super::*;

/// Without the cache, the next login of every account takes the full form.
const FORGET: &str = "FLUSH PRIVILEGES";

/// A public key whose private half nobody has.
const OTHER_KEY: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAt4jL82xN5T8Og6F1MS9Q\n\
YTmsk7DMP5LbMCAiQw4xYiPKnEXbGyMFpZB+qdGO1JdScBrr6WnUdct9Pz3GLhYz\n\
Hy+ELd5GLPlbStTLQzqkLESmqDLY+iDjOLLlgJtjoGssI8NHIdX1weWl7G9dtfwI\n\
IaMGfYEPBpqOLVg5tJR7cxMyRO/3HNpQsheYCxcekN8hwkUspkibUidlAKKU1xBi\n\
3lYVBpxawAlbUOtjIjBXaysKo5PQQwipsCyONu9sxsZzUfYi1pZDzono2Rlxqo2i\n\
7tifY2fK4FHxwrNobMfqo6i4YMVbI1BApyE9HpcZ5bMGlgsJWdQ7vBylq4jUrvIO\n\
YQIDAQAB\n\
-----END PUBLIC KEY-----\n";

#[test]
fn caching_sha2_logs_in_fully_and_then_fast_over_every_transport() {
    let Some(sandbox) = start(Flavour::MySql, &[]) else {
        return;
    };
    let create = "CREATE USER lengthy@'%' IDENTIFIED BY 'a password of more than twenty letters'";
    let empty = "CREATE USER blank@'%'";
    as_root(&sandbox, &[create, empty]);
    let long = |dsn| user(dsn, "lengthy", "a password of more than twenty letters");
    for (dsn, is_tls) in [
        (sandbox.dsn(), false),
        (sandbox.dsn_socket(), false),
        (with_tls(sandbox.dsn(), required()), true),
        (with_tls(sandbox.dsn_socket(), required()), true),
        (with_tls(sandbox.dsn(), Tls::of(TlsMode::Preferred)), true),
        (
            with_tls(sandbox.dsn_socket(), Tls::of(TlsMode::Preferred)),
            false,
        ),
    ] {
        as_root(&sandbox, &[FORGET]);
        let dsn = Dsn {
            database: None,
            server_key: ServerKey::Pinned(sandbox.datadir().join("public_key.pem")),
            ..dsn
        };
        // Fully, fast, refused, and without a password.
        assert_eq!(cipher(&long(dsn.clone())).is_empty(), !is_tls, "{dsn}");
        assert_eq!(cipher(&long(dsn.clone())).is_empty(), !is_tls, "{dsn}");
        let error = refusal(&user(dsn.clone(), "lengthy", "another sesame"));
        assert_eq!(error.errno(), Some(1045), "{error}");
        assert!(!format!("{error} {error:?}").contains("sesame"));
        assert_eq!(
            refusal(&user(dsn.clone(), "blank", "x")).errno(),
            Some(1045)
        );
        assert_eq!(
            cipher(&user(dsn.clone(), "blank", "")).is_empty(),
            !is_tls,
            "{dsn}"
        );
    }
}

#[test]
fn without_tls_the_password_leaves_under_a_key_that_the_user_named_or_not_at_all() {
    let Some(sandbox) = start(Flavour::MySql, &[]) else {
        return;
    };
    as_root(&sandbox, &["CREATE USER shy@'%' IDENTIFIED BY 'sesame'"]);
    let with = |server_key| Dsn {
        database: None,
        server_key,
        ..user(sandbox.dsn(), "shy", "sesame")
    };
    let refused = refusal(&with(ServerKey::Refused));
    assert!(matches!(refused, Error::Auth(_)), "{refused}");
    // A key of somebody else's: the server cannot read what it gets.
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.pem");
    std::fs::write(&other, OTHER_KEY).unwrap();
    let error = refusal(&with(ServerKey::Pinned(other)));
    assert_eq!(error.errno(), Some(1045), "{error}");
    let own = sandbox.datadir().join("public_key.pem");
    for key in [ServerKey::Pinned(own), ServerKey::Asked] {
        as_root(&sandbox, &[FORGET]);
        assert_eq!(cipher(&with(key)), "");
    }
    // The proof is cached from then on, and proves without the password.
    assert_eq!(cipher(&with(ServerKey::Refused)), "");
}

#[test]
fn an_account_or_server_that_requires_tls_gets_it() {
    let Some(sandbox) = start(Flavour::MySql, &[]) else {
        return;
    };
    as_root(
        &sandbox,
        &["CREATE USER safe@'%' IDENTIFIED BY 'sesame' REQUIRE SSL"],
    );
    let plain = Dsn {
        database: None,
        server_key: ServerKey::Pinned(sandbox.datadir().join("public_key.pem")),
        ..user(sandbox.dsn(), "safe", "sesame")
    };
    assert_eq!(refusal(&plain).errno(), Some(1045));
    let cipher = cipher(&with_tls(plain.clone(), required()));
    assert!(cipher.starts_with("TLS_"), "{cipher}");

    as_root(&sandbox, &["SET GLOBAL require_secure_transport = ON"]);
    let error = refusal(&sandbox.dsn());
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert!(error.to_string().contains("ssl-mode=required"), "{error}");
}

#[test]
fn a_server_without_tls_is_refused_when_tls_is_required() {
    let Some(sandbox) = start(Flavour::MySql, &[("tls_version", "")]) else {
        return;
    };
    let error = refusal(&with_tls(sandbox.dsn(), required()));
    assert!(matches!(error, Error::Tls(_)), "{error}");
    let preferred = with_tls(sandbox.dsn(), Tls::of(TlsMode::Preferred));
    assert_eq!(cipher(&preferred), "");
}

#[test]
fn both_versions_of_tls_are_spoken() {
    for (version, begin) in [("TLSv1.2", "ECDHE"), ("TLSv1.3", "TLS_")] {
        let Some(sandbox) = start(Flavour::MySql, &[("tls_version", version)]) else {
            return;
        };
        let dsn = with_tls(sandbox.dsn(), required());
        let mut connection = Connection::connect(&dsn).unwrap();
        assert_eq!(session_status(&mut connection, "Ssl_version"), version);
        let cipher = session_status(&mut connection, "Ssl_cipher");
        assert!(cipher.starts_with(begin), "{cipher}");
        check_sizes(&dsn);
    }
}

#[test]
fn the_servers_own_authority_is_checked() {
    let Some(sandbox) = start(Flavour::MySql, &[]) else {
        return;
    };
    let verify = |mode, ca: &std::path::Path| {
        let tls = Tls {
            ca: Some(ca.to_owned()),
            ..Tls::of(mode)
        };
        with_tls(sandbox.dsn(), tls)
    };
    let own = sandbox.datadir().join("ca.pem");
    assert_ne!(cipher(&verify(TlsMode::VerifyCa, &own)), "");
    // The certificates that MySQL makes for itself name no host.
    let error = refusal(&verify(TlsMode::VerifyIdentity, &own));
    assert!(
        error.to_string().contains("not for \"127.0.0.1\""),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let other = Authority::new(dir.path(), "other");
    let error = refusal(&verify(TlsMode::VerifyCa, &other.pem));
    assert!(matches!(error, Error::Tls(_)), "{error}");
    assert!(
        error.to_string().contains("no authority in ssl-ca"),
        "{error}"
    );
    let error = refusal(&verify(TlsMode::VerifyCa, dir.path()));
    assert!(matches!(error, Error::Tls(_)), "{error}");
}

#[test]
fn compressed_results_of_every_size_are_whole() {
    let Some(sandbox) = start(Flavour::MySql, &[("max_allowed_packet", "64M")]) else {
        return;
    };
    for compression in [Compression::Off, Compression::Zlib, Compression::Zstd] {
        let dsn = Dsn {
            compression,
            ..sandbox.dsn()
        };
        check_sizes(&dsn);
        let mut connection = Connection::connect(&dsn).unwrap();
        let expected = match compression {
            Compression::Off => "",
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        };
        assert_eq!(
            session_status(&mut connection, "Compression_algorithm"),
            expected
        );
        if compression != Compression::Off {
            check_sizes(&with_tls(dsn, required()));
        }
    }
    as_root(
        &sandbox,
        &["SET GLOBAL protocol_compression_algorithms = 'uncompressed'"],
    );
    let error = refusal(&Dsn {
        compression: Compression::Zstd,
        ..sandbox.dsn()
    });
    assert!(
        error.to_string().contains("without compression zstd"),
        "{error}"
    );
}

#[test]
fn the_server_knows_who_connects() {
    let Some(sandbox) = start(Flavour::MySql, &[("performance_schema", "ON")]) else {
        return;
    };
    let mut connection = Connection::connect(&sandbox.dsn()).unwrap();
    let sql = "SELECT ATTR_NAME, ATTR_VALUE FROM performance_schema.session_account_connect_attrs \
               WHERE PROCESSLIST_ID = CONNECTION_ID() ORDER BY ATTR_NAME";
    let rows = connection.query_rows(sql.as_bytes()).unwrap();
    let text = |value: &Option<Vec<u8>>| String::from_utf8(value.clone().unwrap()).unwrap();
    let pairs: Vec<_> = rows
        .iter()
        .map(|row| (text(&row[0]), text(&row[1])))
        .collect();
    let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["_client_name", "_client_version", "_pid", "program_name"]
    );
    assert_eq!(pairs[0].1, "waggle");
    assert_eq!(pairs[2].1, std::process::id().to_string());
    assert!(pairs[3].1.starts_with("it"), "{}", pairs[3].1);
}

#[test]
fn too_many_connections_is_what_the_server_says() {
    let Some(sandbox) = start(Flavour::MySql, &[("max_connections", "1")]) else {
        return;
    };
    let dsn = Dsn {
        database: None,
        ..user(sandbox.dsn(), "one", "")
    };
    // It is kept: a session that has just ended is counted until its thread has.
    let mut root = Connection::connect(&sandbox.dsn_socket()).unwrap();
    root.query(b"CREATE USER one@'%'").unwrap();
    for dsn in [dsn.clone(), with_tls(dsn, required())] {
        // The server keeps one more place for an administrator, whom this account is not.
        assert_eq!(refusal(&dsn).errno(), Some(1040));
    }
}
