//! `pt-query-digest --type tcpdump` reads the same packets: do both see the same statements?

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use waggle_digest::{Fingerprinter, digest_id};
use waggle_need::need;
use waggle_wire::Connection;

use crate::stage::{Ear, flavours, server, tcp};

const LAST: &str = "SELECT 'the last one' AS sentinel";

fn starts(program: &str) -> bool {
    let tried = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// tcpdump, which ends with the test however that ends.
struct Capture(Child);

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// tcpdump writing to `file`, once it listens.
fn tcpdump(port: u16, file: &Path) -> Capture {
    let mut child = Command::new("tcpdump")
        .args(["-i", "lo", "-s", "65535", "-U", "-Z", "root", "-w"])
        .arg(file)
        .arg(format!("tcp port {port}"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("tcpdump starts");
    let mut words = BufReader::new(child.stderr.take().expect("its words"));
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(
            words.read_line(&mut line).expect("its words") > 0,
            "tcpdump ended"
        );
    }
    // It may say more later, and must not wait for a reader.
    std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
    Capture(child)
}

fn wait_for(file: &Path, bytes: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let written = std::fs::read(file).unwrap_or_default();
        if written.windows(bytes.len()).any(|window| window == bytes) {
            return;
        }
        assert!(Instant::now() < deadline, "waited in vain for tcpdump");
        // sleep: between two looks at a file, with a deadline
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Statements by digest, as the reference counts them.
fn reference(port: u16, file: &Path) -> BTreeMap<String, u64> {
    let text = file.with_extension("txt");
    let dump = Command::new("tcpdump")
        .args(["-x", "-nn", "-q", "-tttt", "-r"])
        .arg(file)
        .output()
        .expect("tcpdump reads");
    std::fs::write(&text, dump.stdout).expect("its text");
    let output = Command::new("pt-query-digest")
        .args([
            "--type",
            "tcpdump",
            "--output",
            "json",
            "--limit",
            "100%",
            "--no-version-check",
        ])
        .arg(format!("--watch-server=127.0.0.1:{port}"))
        .arg(&text)
        .output()
        .expect("the reference starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let json = said.find('{').map_or("", |at| &said[at..]);
    let error = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|cause| panic!("{cause}: {error} {said}"));
    let classes = document["classes"].as_array().expect("classes");
    let count = |class: &serde_json::Value| {
        let digest = class["checksum"].as_str().unwrap_or_default().to_owned();
        // A later version prints a longer id.
        let digest = digest[digest.len().saturating_sub(16)..].to_owned();
        (digest, class["query_count"].as_u64().unwrap_or_default())
    };
    classes.iter().map(count).collect()
}

#[test]
fn the_reference_sees_the_same_statements() {
    let have = need(
        "percona-toolkit",
        starts("pt-query-digest"),
        "no pt-query-digest",
    ) && need("tcpdump", starts("tcpdump"), "it is not installed");
    if !have {
        return;
    }
    for flavour in flavours() {
        let server = server(flavour);
        let port = server.port().expect("it has TCP");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("packets");
        let mut capture = tcpdump(port, &file);
        let mut ear = Ear::at(&server);
        let mut connection = Connection::connect(&tcp(&server, "ssl-mode=disabled")).expect("TCP");
        connection
            .query(b"CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
            .expect("it runs");
        for number in 0..30 {
            // A slow machine would fill the ring with blocks of one packet.
            ear.listen();
            let mut run = |sql: String| connection.query(sql.as_bytes()).map(|_| ()).ok();
            run(format!("INSERT INTO t VALUES ({number}, 'text {number}')"));
            if number % 2 == 0 {
                run(format!("SELECT a, b FROM t WHERE a = {number}"));
            }
            if number % 3 == 0 {
                run(format!(
                    "UPDATE t SET b = '{number}' WHERE a IN ({number}, 2)"
                ));
                run(format!("SELECT nothing FROM missing WHERE a = {number}"));
            }
        }
        connection.query(LAST.as_bytes()).expect("it runs");
        ear.until_text(LAST);
        wait_for(&file, LAST.as_bytes());
        let pid = rustix::process::Pid::from_child(&capture.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it lives");
        capture.0.wait().expect("it ends");
        let mut seen = BTreeMap::<String, u64>::new();
        let mut fingerprinter = Fingerprinter::new();
        for statement in &ear.statements {
            let fingerprint = fingerprinter.fingerprint(statement.text.as_bytes());
            *seen.entry(digest_id(fingerprint).to_string()).or_default() += 1;
        }
        let mut reference = reference(port, &file);
        // The reference may not know how the last answer ends; it is no part of the comparison.
        let last = digest_id(fingerprinter.fingerprint(LAST.as_bytes())).to_string();
        seen.remove(&last);
        reference.remove(&last);
        // What it calls by other names: the login and the end of the connection.
        for words in [
            "administrator command: Connect",
            "administrator command: Quit",
        ] {
            reference.remove(&digest_id(words.as_bytes()).to_string());
        }
        assert_eq!(seen, reference, "{flavour}");
        assert_eq!(seen.values().sum::<u64>(), 1 + 30 + 15 + 10 + 10);
    }
}
