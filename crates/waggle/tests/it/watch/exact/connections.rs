//! Connections: killed, left, of every kind, and with commands that are no statements.

use std::path::Path;

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_wire::{Connection, Error};

use super::{plugin, with_table};
use crate::watch::raw::RawClient;
use crate::watch::stage::{connect, flavours, observe, run, settle, wait_until};

/// Statements on another connection's state, until it is `wanted`; they count on both sides.
fn wait_for_state(
    admin: &mut Connection,
    id: u32,
    what: &str,
    wanted: impl Fn(Option<&str>) -> bool,
) {
    let sql = format!("SELECT info FROM information_schema.processlist WHERE id = {id}");
    wait_until(what, || {
        let rows = admin.query_rows(sql.as_bytes()).expect("the process list");
        let info = rows
            .first()
            .map(|row| String::from_utf8_lossy(row[0].as_deref().unwrap_or_default()).into_owned());
        wanted(info.as_deref())
    });
}

#[test]
fn killed_statements_and_connections() {
    // Of several rows: MySQL's SLEEP only returns early when killed, the next row is not begun.
    const SLEEP: &str = "SELECT SLEEP(100) FROM t";
    for flavour in flavours() {
        let (server, mut admin) = with_table(flavour);
        for (order, error) in [("KILL QUERY", Some(1317)), ("KILL CONNECTION", None)] {
            let (account, _victim) = observe(&server, &[], |server| {
                let mut victim = connect(server);
                let id = victim.connection_id();
                let sleeping = std::thread::spawn(move || {
                    let error = victim.query(SLEEP.as_bytes()).expect_err("it is killed");
                    let number = match error {
                        Error::Server { errno, .. } => Some(errno),
                        _ => None,
                    };
                    if number == Some(1317) {
                        settle(&mut victim);
                    }
                    (number, victim)
                });
                wait_for_state(&mut admin, id, "it sleeps", |info| info == Some(SLEEP));
                run(&mut admin, &[&format!("{order} {id}")]);
                let (number, victim) = sleeping.join().expect("the victim");
                if order == "KILL CONNECTION" {
                    wait_for_state(&mut admin, id, "it is gone", |info| info.is_none());
                } else {
                    assert_eq!(number, error, "{flavour}");
                }
                settle(&mut admin);
                victim
            });
            // However often the process list was looked at: both sides counted the same.
            let looks = account
                .report
                .count("select info from information_schema.processlist where id = ?");
            assert_eq!(account.captured, 2 + looks, "{}", account.report.listing());
            assert_eq!(account.captured, account.questions, "{flavour} {order}");
            let killed = account.report.digest("select sleep(?) from t");
            assert_eq!(
                (&killed["count"], &killed["errors"]),
                (&1.into(), &1.into()),
                "{killed}"
            );
        }
    }
}

#[test]
fn commands_that_are_no_statements() {
    for flavour in flavours() {
        let (server, mut admin) = with_table(flavour);
        let mut raw = RawClient::connect(&server, plugin(flavour));
        let (account, ()) = observe(&server, &[], |server| {
            // Neither counted nor captured: statistics, ping, and three that name a statement.
            raw.command(9, b"");
            raw.command(14, b"");
            raw.send_only(25, &[9, 0, 0, 0]);
            raw.command(26, &[9, 0, 0, 0]);
            raw.command(14, b"");
            // Questions to both servers, statements to none: INIT_DB, SET_OPTION, CHANGE_USER,
            // RESET_CONNECTION, a fetch from no statement, and a command that does not exist.
            raw.command(2, b"sbtest");
            raw.command(27, &[0, 0]);
            raw.change_user(plugin(flavour));
            raw.command(31, b"");
            raw.command(28, &[9, 0, 0, 0, 1, 0, 0, 0]);
            raw.command(99, b"");
            raw.command(14, b"");
            // And a quit.
            let leaving = connect(server);
            let id = leaving.connection_id();
            leaving.quit().expect("it leaves");
            wait_for_state(&mut admin, id, "it is gone", |info| info.is_none());
            settle(&mut admin);
        });
        let looks = account
            .report
            .count("select info from information_schema.processlist where id = ?");
        assert_eq!(
            account.questions,
            6 + 1 + looks,
            "{}",
            account.report.listing()
        );
        if flavour == Flavour::MySql {
            // The ends of the six are captured; the fetch and the unknown one failed.
            assert_eq!(account.captured, 6 + looks, "{}", account.report.listing());
            let textless = account.report.digest("(no text)");
            assert_eq!(
                (&textless["count"], &textless["errors"]),
                (&6.into(), &2.into())
            );
            // Quit, close, reset, and four pings were seen and set aside. Statistics, too.
            assert!(
                account.report.number("/other_commands") >= 8,
                "{}",
                account.report.0
            );
        } else {
            assert_eq!(account.captured, looks, "{}", account.report.listing());
            assert_eq!(account.report.number("/other_commands"), 0);
        }
    }
}

/// Runs the stock command-line client.
fn client(server: &Sandbox, arguments: &[&str], sql: &str) -> String {
    let output = std::process::Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "-N", "-B"])
        .args(arguments)
        .args(["-e", sql])
        .env("MYSQL_PWD", server.password().expose())
        .output()
        .expect("the mariadb client");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

/// A key and a certificate for a MariaDB that is to speak TLS.
fn certificate(folder: &Path) -> [String; 2] {
    let paths = ["key.pem", "cert.pem"].map(|name| folder.join(name).display().to_string());
    let output = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=waggle",
        ])
        .args(["-keyout", &paths[0], "-out", &paths[1]])
        .output()
        .expect("openssl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The server's user has to read it.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&paths[0], readable).expect("a mode");
    paths
}

#[test]
fn tls_tcp_and_socket_clients_alike() {
    for flavour in flavours() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spec = SandboxSpec::new(flavour).tcp();
        // MySQL makes its own certificate.
        if flavour == Flavour::MariaDb {
            let [key, certificate] = certificate(folder.path());
            spec = spec.set("ssl_key", key).set("ssl_cert", certificate);
        }
        let server = Sandbox::start(&spec).expect("a server");
        let port = server.port().expect("it has TCP").to_string();
        let tcp = ["--protocol=tcp", "-h127.0.0.1", "-P", &port];
        let socket = server.socket().display().to_string();
        let mut admin = connect(&server);
        let (account, ()) = observe(&server, &[], |server| {
            let tls = client(
                server,
                &[&tcp[..], &["--ssl"]].concat(),
                "SELECT 'over TLS' AS tls; SHOW STATUS LIKE 'Ssl_cipher'",
            );
            assert!(tls.contains("over TLS") && tls.contains("TLS_"), "{tls}");
            let plain = client(
                server,
                &[&tcp[..], &["--skip-ssl"]].concat(),
                "SELECT 'over TCP' AS tcp; SHOW STATUS LIKE 'Ssl_cipher'",
            );
            assert!(!plain.contains("TLS_"), "{plain}");
            client(
                server,
                &["-S", &socket],
                "SELECT 'over the socket' AS unix_socket",
            );
            let mut tcp = Connection::connect(&server.dsn()).expect("a connection over TCP");
            run(&mut tcp, &["SELECT 'our own' AS own"]);
            tcp.quit().expect("it leaves");
            let rows = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root'";
            wait_until("only the two of the observer are left", || {
                let rows = admin.query_rows(rows.as_bytes()).expect("the process list");
                rows[0][0].as_deref() == Some(b"2")
            });
            settle(&mut admin);
        });
        let report = &account.report;
        for (fingerprint, count) in [
            ("select ? as tls", 1),
            ("select ? as tcp", 1),
            ("select ? as unix_socket", 1),
            ("select ? as own", 1),
            ("show status like ?", 2),
        ] {
            assert_eq!(
                report.count(fingerprint),
                count,
                "{flavour}\n{}",
                report.listing()
            );
        }
        // Four clients have left, each with a quit.
        assert_eq!(
            account.captured + 4,
            account.questions,
            "{}",
            report.listing()
        );
    }
}
