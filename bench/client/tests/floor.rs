//! The null server and the bare loop understand each other: every workload, every way of waiting.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A null server; it ends when its standard input does.
fn null_server(socket: &std::path::Path) -> (Child, u64) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_null-server"))
        .arg("--socket")
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = server.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let up: serde_json::Value = serde_json::from_str(&line).unwrap();
    (server, up["port"].as_u64().unwrap())
}

fn bare_loop(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_bare-loop"))
        .args(["--seconds=0.1", "--connections=3"])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_way_of_waiting_gets_its_answers() {
    let socket = std::env::temp_dir().join(format!("waggle-floor-{}.sock", std::process::id()));
    let (mut server, port) = null_server(&socket);
    let place = format!("--socket={}", socket.display());
    for workload in ["point_select", "read_only", "read_write"] {
        for wait in ["try-poll", "poll", "block", "spin", "try-epoll", "epoll"] {
            let workload = format!("--workload={workload}");
            let found = bare_loop(&[&place, &workload, "--wait", wait]);
            assert!(
                found["queries"].as_u64().unwrap() > 0,
                "{workload} {wait}: {found}"
            );
            assert_eq!(found["errors"], 0, "{workload} {wait}: {found}");
        }
    }
    let found = bare_loop(&[&format!("--port={port}"), "--workload=read_only"]);
    assert!(found["queries"].as_u64().unwrap() > 0, "{found}");
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    assert!(!socket.exists(), "the socket is left behind");
}
