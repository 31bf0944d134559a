//! `--listen` as strangers on the network meet it: a token or none on purpose, and bounds.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use waggle_server::Flavour;

use super::stage::{Running, can_watch, server, turn, waggle};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn token_file(folder: &Path, mode: u32) -> String {
    let path = folder.join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).expect("a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
    path.to_str().expect("a path").to_owned()
}

/// What a request gets: the line of the status, or nothing when it was cut off.
fn status(address: &str, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a socket");
    // It may answer and close before it has read all.
    let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn away_from_loopback_takes_a_token_or_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = token_file(folder.path(), 0o644);
    let listens = ["watch", "--all", "--duration", "1", "--listen"];
    for (more, says) in [
        (&["0.0.0.0:0"][..], "--listen-token-file"),
        (&["[::]:0"], "--listen-without-token"),
        (&["[::ffff:0.0.0.0]:0"], "--listen-without-token"),
        (&["0.0.0.0:0", "--listen-token-file", &open], "chmod 600"),
        (
            &["127.0.0.1:0", "--listen-token-file", "/none"],
            "--listen-token-file /none",
        ),
    ] {
        let ended = Running::start(&mut waggle(&[&listens[..], more].concat())).end();
        assert_eq!(ended.status.code(), Some(2), "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{more:?}: {}", ended.stderr);
    }
}

#[test]
fn who_brings_the_token_scrapes_and_nobody_else() {
    if !can_watch(Flavour::MariaDb) {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let file = token_file(folder.path(), 0o600);
    let server = server(Flavour::MariaDb);
    let pid = server.pid().to_string();
    let mut arguments = vec!["watch", "--json", "--pid", &pid, "--interval", "0.1"];
    arguments.extend(["--listen", "0.0.0.0:0", "--listen-token-file", &file]);
    let watching = Running::start(&mut waggle(&arguments));
    let warned = watching.line("waggle: warning: --listen 0.0.0.0:0");
    assert!(warned.contains("plain HTTP"), "{warned}");
    let address = watching.line("metrics: http://");
    let address = address
        .trim_start_matches("metrics: http://0.0.0.0")
        .trim_end_matches("/metrics");
    let address = format!("127.0.0.1{address}");
    watching.line("watching ");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for wrong in [
        String::new(),
        bearer("0"),
        bearer(&TOKEN[1..]),
        bearer(&format!("{TOKEN}x")),
        format!("Authorization: Basic {TOKEN}\r\n"),
        // Two of them are none.
        bearer("0") + &bearer(TOKEN),
    ] {
        for path in ["/metrics", "/ready", "/", "/none"] {
            let status = status(&address, path, &wrong);
            assert!(status.contains("401"), "{path} {wrong:?}: {status}");
        }
    }
    assert!(status(&address, "/health", "").contains("200"));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !status(&address, "/metrics", &bearer(TOKEN)).contains("200") {
        assert!(std::time::Instant::now() < deadline, "no page in a minute");
    }
    // A head of more than it takes, and many who say nothing: others are still served.
    let long = format!("X: {}\r\n{}", "x".repeat(9000), bearer(TOKEN));
    assert!(!status(&address, "/metrics", &long).contains("200"));
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&address).expect("the kernel takes it"))
        .collect();
    while !status(&address, "/metrics", &bearer(TOKEN)).contains("200") {
        assert!(
            std::time::Instant::now() < deadline,
            "nobody else is served"
        );
    }
    drop(silent);
    watching.signal(libc::SIGINT);
    let ended = watching.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains(TOKEN));
}
