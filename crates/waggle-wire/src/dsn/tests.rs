//! What is read, refused and printed.

use super::*;
use proptest::prelude::*;

fn tcp_dsn(host: &str, port: u16) -> Dsn {
    let host = host.into();
    Dsn::new(Endpoint::Tcp { host, port }, "u")
}

#[test]
fn reads_the_two_forms() {
    let dsn: Dsn = "mysql://us%40er:p%2Fa%3As@db.example:3307/shop"
        .parse()
        .unwrap();
    assert_eq!(
        dsn.endpoint,
        Endpoint::Tcp {
            host: "db.example".into(),
            port: 3307
        }
    );
    assert_eq!(dsn.user, "us@er");
    assert_eq!(dsn.password.unwrap().expose(), "p/a:s");
    assert_eq!(dsn.database.as_deref(), Some("shop"));

    let dsn: Dsn = "mysql://root@/test?socket=/run/my%20sql.sock"
        .parse()
        .unwrap();
    assert_eq!(dsn.endpoint, Endpoint::Socket("/run/my sql.sock".into()));
    assert_eq!(dsn.password, None);
}

#[test]
fn fills_in_defaults() {
    assert_eq!("mysql://u@h".parse(), Ok(tcp_dsn("h", 3306)));
    assert_eq!("mariadb://u@h/".parse(), Ok(tcp_dsn("h", 3306)));
    assert_eq!("mysql://u@[::1]".parse(), Ok(tcp_dsn("::1", 3306)));
    assert_eq!("mysql://u@[::1]:99/".parse(), Ok(tcp_dsn("::1", 99)));
    let socket: Dsn = "mysql://u@localhost?socket=/s".parse().unwrap();
    assert_eq!(socket.endpoint, Endpoint::Socket("/s".into()));
    assert_eq!(socket.to_string(), "mysql://u@/?socket=/s");
}

#[test]
fn says_which_part_is_wrong() {
    for (text, error) in [
        ("root@localhost/x", DsnError::Scheme),
        ("mysql://host:3306/x", DsnError::User),
        ("mysql://@host/x", DsnError::User),
        ("mysql://u@/x", DsnError::Endpoint),
        ("mysql://u@:3306/x", DsnError::Endpoint),
        ("mysql://u@h:0/x", DsnError::Port),
        ("mysql://u@h:99999/x", DsnError::Port),
        ("mysql://u@::1/x", DsnError::Port),
        ("mysql://u@[::1/x", DsnError::Port),
        ("mysql://u:%zz@h/x", DsnError::Percent("password")),
        ("mysql://u:%f@h/x", DsnError::Percent("password")),
        ("mysql://u:%ff@h/x", DsnError::Text("password")),
        ("mysql://u%00@h/x", DsnError::Text("user")),
        ("mysql://u@h/x?ssl=1", DsnError::Parameter),
        ("mysql://u@/x?socket=/s&a=b", DsnError::Parameter),
        ("mysql://u@h/x?socket=/s", DsnError::TwoEndpoints),
        ("mysql://u@/x?socket=s", DsnError::Socket),
    ] {
        assert_eq!(text.parse::<Dsn>(), Err(error), "{text}");
    }
}

#[test]
fn never_prints_the_password() {
    let dsn: Dsn = "mysql://u:hunter2@h/d".parse().unwrap();
    assert_eq!(dsn.to_string(), "mysql://u:***@h:3306/d");
    assert_eq!(format!("{dsn:?}"), "Dsn(mysql://u:***@h:3306/d)");
    assert_eq!(format!("{:?}", dsn.password), "Some(***)");
    // Special characters left as they are: wrong, but still not shown.
    for text in [
        "mysql://u:hun/ter2@h/d",
        "mysql://u:hun?ter2@h",
        "mysql://u@hun:ter2/@h",
    ] {
        let error = text.parse::<Dsn>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("ter2"), "{error}");
    }
}

#[test]
fn reads_tls_and_compression() {
    let dsn: Dsn = "mysql://u@h/d?ssl-mode=VERIFY_CA&ssl-ca=/a%26b/ca.pem&compression=zstd"
        .parse()
        .unwrap();
    assert_eq!(dsn.tls.mode, TlsMode::VerifyCa);
    assert_eq!(dsn.tls.ca.as_deref(), Some(Path::new("/a&b/ca.pem")));
    assert_eq!(dsn.compression, Compression::Zstd);
    assert_eq!(
        dsn.to_string(),
        "mysql://u@h:3306/d?ssl-mode=verify-ca&ssl-ca=/a%26b/ca.pem&compression=zstd"
    );
    for (parameters, error) in [
        ("ssl-mode=on", DsnError::TlsMode(TlsModeError)),
        ("ssl-mode=verify-ca", DsnError::Tls(TlsError::NoCa)),
        ("ssl-mode=verify-identity", DsnError::Tls(TlsError::NoCa)),
        (
            "ssl-mode=required&ssl-key=/k",
            DsnError::Tls(TlsError::HalfAPair),
        ),
        ("ssl-ca=/ca.pem", DsnError::TlsFile),
        ("ssl-mode=required&ssl-mode=disabled", DsnError::Parameter),
        ("ssl-mode", DsnError::Parameter),
        ("ssl-mode=", DsnError::Parameter),
        ("compression=lz4", DsnError::Compression(CompressionError)),
    ] {
        let text = format!("mysql://u@h/?{parameters}");
        assert_eq!(text.parse::<Dsn>(), Err(error), "{text}");
    }
}

#[test]
fn reads_the_password_from_a_file_and_prints_the_files_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pass&word");
    std::fs::write(&file, "hunter2\n").unwrap();
    let named = file.to_str().unwrap().replace('&', "%26");
    let text = format!("mysql://u@/d?socket=/s&password-file={named}");
    let dsn: Dsn = text.parse().unwrap();
    assert_eq!(dsn.password.as_ref().unwrap().expose(), "hunter2");
    assert_eq!(dsn.to_string(), text);
    assert_eq!(format!("{dsn:?}"), format!("Dsn({text})"));
    assert_eq!(text.parse(), Ok(dsn.clone()));
    // Another password in its place is not that of the file.
    let other = Dsn {
        password: Some(Secret::new("other")),
        ..dsn
    };
    assert_eq!(other.to_string(), "mysql://u:***@/d?socket=/s");

    for (text, error) in [
        (text.replace("u@", "u:x@"), DsnError::TwoPasswords),
        (text.replace("u@", "u:@"), DsnError::TwoPasswords),
        (format!("{text}&password-file=/x"), DsnError::Parameter),
        (
            "mysql://u@h/?password-file=/".into(),
            DsnError::PasswordFile(PasswordFileError::NotAFile),
        ),
    ] {
        assert_eq!(text.parse::<Dsn>(), Err(error), "{text}");
    }
}

#[test]
fn a_server_key_is_refused_named_or_asked_for() {
    for (parameters, expected, printed) in [
        ("", ServerKey::Refused, ""),
        ("?get-server-public-key=false", ServerKey::Refused, ""),
        (
            "?get-server-public-key=TRUE",
            ServerKey::Asked,
            "?get-server-public-key=true",
        ),
        (
            "?get-server-public-key=true&server-public-key-path=/k.pem",
            ServerKey::Pinned("/k.pem".into()),
            "?server-public-key-path=/k.pem",
        ),
    ] {
        let dsn: Dsn = format!("mysql://u@h/{parameters}").parse().unwrap();
        assert_eq!(dsn.server_key, expected, "{parameters}");
        assert_eq!(dsn.to_string(), format!("mysql://u@h:3306/{printed}"));
    }
    for (parameters, error) in [
        ("get-server-public-key=perhaps", DsnError::AskKey),
        ("get-server-public-key=", DsnError::Parameter),
        ("server-public-key-path=", DsnError::Parameter),
    ] {
        let text = format!("mysql://u@h/?{parameters}");
        assert_eq!(text.parse::<Dsn>(), Err(error), "{text}");
    }
}

#[test]
fn timeouts_are_seconds() {
    let dsn: Dsn = "mysql://u@h/?read-timeout=0&connect-timeout=3"
        .parse()
        .unwrap();
    assert_eq!(dsn.timeouts.connect, Some(Duration::from_secs(3)));
    let limits = dsn.timeouts.limits(Some(Duration::from_secs(7)));
    assert_eq!(
        (limits.read, limits.write),
        (None, Some(Duration::from_secs(7)))
    );
    assert_eq!(
        dsn.to_string(),
        "mysql://u@h:3306/?connect-timeout=3&read-timeout=0"
    );
    for parameters in [
        "connect-timeout=0",
        "connect-timeout=-1",
        "read-timeout=1.5",
        "write-timeout=99999999999999999999",
        "write-timeout=9999999999",
    ] {
        let text = format!("mysql://u@h/?{parameters}");
        assert_eq!(text.parse::<Dsn>(), Err(DsnError::Timeout), "{text}");
    }
}

fn path() -> impl Strategy<Value = PathBuf> {
    "/[^\0]{1,20}".prop_map(PathBuf::from)
}

fn tls() -> impl Strategy<Value = Tls> {
    let mode = proptest::sample::select(vec![
        TlsMode::Disabled,
        TlsMode::Preferred,
        TlsMode::Required,
        TlsMode::VerifyCa,
        TlsMode::VerifyIdentity,
    ]);
    let pair = proptest::option::of((path(), path()));
    (mode, proptest::option::of(path()), path(), pair).prop_map(|(mode, ca, needed, pair)| {
        let (cert, key) = pair.unzip();
        let ca = ca.or(mode.verifies().then_some(needed));
        Tls {
            mode,
            ca,
            cert,
            key,
        }
    })
}

proptest! {
    #[test]
    fn printed_form_reads_back(user in "[^\0]{1,12}", database in "[^\0]{1,12}",
                               socket in proptest::option::of(path()), tls in tls(),
                               key in proptest::option::of(path()),
                               seconds in proptest::option::of(1u64..1_000_000_000),
                               compression in proptest::sample::select(vec![
                                   Compression::Off, Compression::Zlib, Compression::Zstd])) {
        let endpoint = match socket {
            Some(path) => Endpoint::Socket(path),
            None => Endpoint::Tcp { host: "h".into(), port: 1 },
        };
        let database = Some(database);
        let server_key = key.map_or(ServerKey::Asked, ServerKey::Pinned);
        let read = seconds.map(Duration::from_secs);
        let timeouts = Timeouts { connect: read, read, write: None };
        let dsn = Dsn {
            database, tls, compression, server_key, timeouts, ..Dsn::new(endpoint, user)
        };
        prop_assert_eq!(dsn.to_string().parse::<Dsn>(), Ok(dsn));
    }

    #[test]
    fn any_text_is_answered(text in "(mysql://)?[ -~é]{0,60}", after in "[a-z=&?%/-]{0,30}") {
        let _ = text.parse::<Dsn>();
        let _ = format!("mysql://u@h/?ssl-{after}").parse::<Dsn>();
    }
}
