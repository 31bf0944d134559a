//! Every way to log in, to real servers: accounts, TLS, compression.

mod certificates;
mod mariadb;
mod mysql;

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Compression, Connection, Dsn, Error, Secret, Tls, TlsMode};

use crate::needs::flavours;

/// A server of this flavour; none, said aloud, if it is not installed.
fn start(flavour: Flavour, settings: &[(&str, &str)]) -> Option<Sandbox> {
    let is_there = flavours().contains(&flavour);
    is_there.then(|| {
        let spec = SandboxSpec::new(flavour).tcp();
        let add = |spec: SandboxSpec, (name, value): &(&str, &str)| spec.set(*name, *value);
        Sandbox::start(&settings.iter().fold(spec, add)).unwrap()
    })
}

/// Runs statements as root over the socket.
fn as_root(sandbox: &Sandbox, statements: &[&str]) {
    let mut root = Connection::connect(&sandbox.dsn_socket()).unwrap();
    for statement in statements {
        root.query(statement.as_bytes())
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn user(dsn: Dsn, user: &str, password: &str) -> Dsn {
    Dsn {
        user: user.into(),
        password: Some(Secret::new(password)),
        ..dsn
    }
}

fn with_tls(dsn: Dsn, tls: Tls) -> Dsn {
    Dsn { tls, ..dsn }
}

fn required() -> Tls {
    Tls::of(TlsMode::Required)
}

/// What the server says of the session; empty if it does not know that name.
fn session_status(connection: &mut Connection, name: &str) -> String {
    let rows = connection
        .query_rows(format!("SHOW SESSION STATUS LIKE '{name}'").as_bytes())
        .unwrap();
    let value = rows.first().and_then(|row| row[1].clone());
    String::from_utf8(value.unwrap_or_default()).unwrap()
}

/// Connects and gives the cipher that the server says is in use.
fn cipher(dsn: &Dsn) -> String {
    let mut connection = Connection::connect(dsn).unwrap_or_else(|error| panic!("{dsn}: {error}"));
    session_status(&mut connection, "Ssl_cipher")
}

fn refusal(dsn: &Dsn) -> Error {
    Connection::connect(dsn).expect_err("the login has to fail")
}

/// Statements and results from a byte to more than a frame of 16 MiB pass unchanged both ways,
/// and the session stays usable.
fn check_sizes(dsn: &Dsn) {
    let mut connection = Connection::connect(dsn).unwrap();
    let expected = if dsn.compression == Compression::Off {
        "OFF"
    } else {
        "ON"
    };
    assert_eq!(session_status(&mut connection, "Compression"), expected);
    for bytes in [1_usize, 49, 50, 1 << 20, (16 << 20) - 1, 20 << 20] {
        let sql =
            format!("SELECT REPEAT('ab', {bytes} DIV 2 + 1), SHA2(REPEAT('x', {bytes}), 256)");
        let rows = connection.query_rows(sql.as_bytes()).unwrap();
        let value = rows[0][0].as_deref().unwrap();
        assert_eq!(value.len(), bytes / 2 * 2 + 2);
        assert!(value == "ab".repeat(bytes / 2 + 1).as_bytes());
        let sum = rows[0][1].clone().unwrap();
        // The same text from this side, what does not repeat first.
        let text = "x".repeat(bytes);
        let rows = connection
            .query_rows(format!("SELECT SHA2('{text}', 256), LENGTH('{text}')").as_bytes())
            .unwrap();
        assert_eq!(rows[0][0].as_deref(), Some(&sum[..]), "{bytes} bytes sent");
        assert_eq!(rows[0][1].as_deref(), Some(bytes.to_string().as_bytes()));
    }
    incompressible(&mut connection);
    let error = connection.query(b"SELECT nonsense FROM").unwrap_err();
    assert_eq!(error.errno(), Some(1064));
    let summary = connection.query(b"SELECT 1; SELECT REPEAT('z', 100000); SELECT 3");
    assert_eq!(summary.unwrap().rows, 3);
    connection.quit().unwrap();
}

/// Data that no algorithm shortens, 3 MiB of it, there and back.
fn incompressible(connection: &mut Connection) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::new();
    while text.len() < 3 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend(
            state
                .to_le_bytes()
                .map(|byte| char::from(b'0' + byte % 75))
                .iter()
                .filter(|c| !matches!(c, '\\' | '\'')),
        );
    }
    let rows = connection
        .query_rows(format!("SELECT '{text}'").as_bytes())
        .unwrap();
    assert!(rows[0][0].as_deref() == Some(text.as_bytes()));
}
