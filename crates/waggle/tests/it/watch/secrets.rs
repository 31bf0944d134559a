//! Planted secrets, and every output searched for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;

use super::receiver::{Got, Receiver};
use super::stage::{Running, connect, flavours, run, server, settle, turn, waggle, wait_until};

/// What must be nowhere.
const SECRET: &str = "hunter2sesame";
/// What must be in a header to the store, and nowhere else.
const TOKEN: &str = "open4sesame";

fn holds(bytes: &[u8], what: &str) -> bool {
    memchr::memmem::find(bytes, what.as_bytes()).is_some()
}

/// Statements that carry the secret; some are refused by the server, in words or in meaning.
fn statements(flavour: Flavour) -> Vec<String> {
    let common = [
        "CREATE USER planted IDENTIFIED BY '@'",
        "ALTER USER planted IDENTIFIED BY '@1'",
        "/* a comment */ create /* another */ user planted2 identified by \"@\"",
        "SET PASSWORD FOR planted = '@'",
        "CREATE USER forgotten IDENTIFIED BY @",
        "CREATE USER forgotten IDENTIFIED BY @'",
        "CREATE USER 'forgotten' IDENTIFIED BY '@",
        "SET PASSWORD = it's @'",
        r"CREATE USER 'back\' IDENTIFIED BY '@'",
        "PREPARE planted FROM \"CREATE USER p IDENTIFIED BY '@'\"",
        "SET @statement = 'ALTER USER p IDENTIFIED BY ''@'''",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '@', HOST 'h')",
        "DROP USER planted",
        "SET GLOBAL wsrep_sst_auth = 'u:@'",
        "UPDATE mysql.user SET Password = '@' WHERE User = 'nobody'",
        "UPDATE mysql.global_priv SET priv = '@' WHERE User = 'no such user'",
        "SELECT AES_DECRYPT(AES_ENCRYPT('text', '@'), '@')",
        "SELECT HEX(AES_ENCRYPT('text', SHA2('@', 512)))",
        "SELECT MD5('@'), SHA1 ( '@' )",
        "SET @db_password = '@'",
        "SELECT '@' AS secret",
        "CREATE TABLE sbtest.planted_users (id INT PRIMARY KEY, password VARCHAR(99))",
        "INSERT INTO sbtest.planted_users (id, password) VALUES (1, '@')",
        "UPDATE sbtest.planted_users SET password = '@' WHERE id = 1",
        "SELECT id FROM sbtest.planted_users WHERE password = '@'",
        "UPDATE sbtest.planted_users SET password = @ WHERE id = 1",
        "UPDATE sbtest.planted_users SET password = it's @'",
        "UPDATE sbtest.planted_users SET password = '\\' @",
        "/*!50000 UPDATE */ sbtest.planted_users SET `password` = _utf8mb4'@'",
        "SELECT '{\"api_key\": \"@\"}'",
        "/* token=@ */ SELECT 1",
        "DROP TABLE sbtest.planted_users",
    ];
    let own: &[&str] = match flavour {
        Flavour::MySql => &[
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='h', SOURCE_USER='u', SOURCE_PASSWORD='@'",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD=@",
            "START REPLICA USER='u' PASSWORD='@'",
            "ALTER USER CURRENT_USER() IDENTIFIED BY '@' REPLACE '@'",
        ],
        Flavour::MariaDb => &[
            "CHANGE MASTER TO MASTER_HOST='h', MASTER_USER='u', MASTER_PASSWORD='@'",
            "CHANGE MASTER TO MASTER_PASSWORD=@",
            "GRANT SELECT ON *.* TO planted3 IDENTIFIED BY '@'",
            "SET PASSWORD FOR planted3 = PASSWORD('@')",
            "SELECT PASSWORD('@')",
        ],
    };
    common
        .iter()
        .chain(own)
        .map(|sql| {
            sql.replace('@', SECRET)
                .replace("SET hunter2sesame", "SET @")
        })
        .collect()
}

/// Every file below `folder` that holds the secret.
fn holding(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.append(&mut holding(&path));
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            if holds(&bytes, SECRET) || holds(&bytes, TOKEN) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_planted_secret_is_in_no_output() {
    for flavour in flavours() {
        for form in [&["--json"][..], &[]] {
            let folder = tempfile::tempdir().expect("a folder");
            let server = server(flavour);
            let place = |name: &str| folder.path().join(name).display().to_string();
            let pid = server.pid().to_string();
            let (log, record) = (place("log"), place("runs"));
            let mut arguments = vec!["watch", "--pid", &pid, "--literals", "--sample", "1"];
            arguments.extend(["--slower", "0", "--interval", "0.05", "--log", &log]);
            arguments.extend(["--record", &record]);
            arguments.extend(form);
            let watching = Running::start(&mut waggle(&arguments));
            watching.line("watching ");
            let mut connection = connect(&server);
            let statements = statements(flavour);
            for statement in &statements {
                // Whether the server takes it is not the question.
                let _ = connection.query(statement.as_bytes());
            }
            run(&mut connection, &["SELECT 'shown as asked'"]);
            settle(&mut connection);
            watching.signal(libc::SIGINT);
            let ended = watching.end();
            assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
            for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
                assert!(!text.contains(SECRET), "{flavour}: {name}: {text}");
            }
            assert_eq!(holding(folder.path()), [""; 0], "{flavour}");
            let run_dir = std::fs::read_dir(&record).expect("runs").next();
            let run_dir = run_dir.expect("a run").expect("an entry").path();
            let shown = waggle(&["report", run_dir.to_str().expect("a path")]).output();
            let shown = shown.expect("a report").stdout;
            assert!(!shown.is_empty() && !holds(&shown, SECRET), "{flavour}");
            // The outputs are there, and hold the other statement.
            let text = std::fs::read_to_string(&log).expect("the log");
            assert!(text.contains("shown as asked"), "{flavour}: {text}");
            assert!(text.lines().count() > statements.len(), "{flavour}");
            assert!(ended.stdout.contains("create user"), "{}", ended.stdout);
        }
    }
}

/// The flags of every sink, with one receiver behind them.
fn sinks<'a>(receiver: &'a Receiver, write: &'a str, spool: &'a str) -> [&'a str; 8] {
    let url = &*receiver.url;
    [
        "--remote-write",
        write,
        "--clickhouse",
        url,
        "--otlp",
        url,
        "--spool",
        spool,
    ]
}

fn with_tokens(command: &mut Command) -> &mut Command {
    command
        .env("WAGGLE_OTLP_TOKEN", TOKEN)
        .env("WAGGLE_REMOTE_WRITE_TOKEN", TOKEN)
        .env("WAGGLE_CLICKHOUSE_USER", "waggle")
        .env("WAGGLE_CLICKHOUSE_PASSWORD", TOKEN)
}

/// The page at `/metrics`.
fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the metrics' address");
    let ask = "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).expect("a request");
    let mut page = Vec::new();
    stream.read_to_end(&mut page).expect("an answer");
    assert!(!holds(&page, SECRET) && !holds(&page, TOKEN));
    String::from_utf8(page).expect("text")
}

/// A statement with a secret that waits for a lock, until it was seen to.
fn wait_with_a_secret(server: &Sandbox, address: &str) {
    let mut holder = connect(server);
    run(&mut holder, &["FLUSH TABLES WITH READ LOCK"]);
    let mut waiter = connect(server);
    let waiting = std::thread::spawn(move || {
        let planted = format!("CREATE USER waits IDENTIFIED BY '{SECRET}'");
        run(&mut waiter, &[&planted]);
        settle(&mut waiter);
    });
    wait_until("the wait is on the page", || {
        let page = metrics(address);
        let waits = |line: &str| line.starts_with("waggle_lock_waiting{") && line.ends_with(" 1");
        page.lines().any(waits)
    });
    run(&mut holder, &["UNLOCK TABLES"]);
    waiting.join().expect("the waiter");
    settle(&mut holder);
}

#[test]
fn a_planted_secret_is_in_nothing_that_is_exported_or_spooled() {
    let _turn = turn();
    for flavour in flavours() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = folder.path().join("spool").display().to_string();
        let receiver = Receiver::start();
        let write = format!("{}/api/v1/write", receiver.url);
        let server = server(flavour);
        let pid = server.pid().to_string();
        let mut arguments = vec!["watch", "--json", "--pid", &pid, "--listen", "127.0.0.1:0"];
        arguments.extend(["--literals", "--sample", "1", "--slower", "0"]);
        arguments.extend(["--interval", "0.1"]);
        arguments.extend(sinks(&receiver, &write, &spool));
        let watching = Running::start(with_tokens(&mut waggle(&arguments)));
        let address = watching.line("metrics: http://");
        let address = address.trim_start_matches("metrics: http://");
        let address = address.trim_end_matches("/metrics").to_owned();
        watching.line("watching ");
        let mut connection = connect(&server);
        for statement in statements(flavour) {
            // Whether the server takes it is not the question.
            let _ = connection.query(statement.as_bytes());
        }
        run(&mut connection, &["SELECT 'shown as asked'"]);
        settle(&mut connection);
        wait_with_a_secret(&server, &address);
        wait_until("the page has the statements", || {
            metrics(&address).contains("create user waits")
        });
        watching.signal(libc::SIGINT);
        let ended = watching.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            let is_clean = !text.contains(SECRET) && !text.contains(TOKEN);
            assert!(is_clean, "{flavour}: {name}: {text}");
        }
        // Nothing was delivered; all of it waits on disk. The next agent delivers it.
        assert_eq!(holding(folder.path()), [""; 0], "{flavour}");
        receiver.accept();
        let mut arguments = vec!["watch", "--host-only", "--json", "--interval", "0.1"];
        arguments.extend(sinks(&receiver, &write, &spool));
        let second = Running::start(with_tokens(&mut waggle(&arguments)));
        wait_until("what waited has arrived", || {
            arrived(&receiver.got(), "shown as asked") >= 2
        });
        second.signal(libc::SIGINT);
        let ended = second.end();
        assert!(!ended.stdout.contains(TOKEN) && !ended.stderr.contains(TOKEN));
        check_delivered(flavour, &receiver.got());
    }
}

fn arrived(got: &[Got], what: &str) -> usize {
    got.iter().filter(|got| holds(&got.body, what)).count()
}

/// No request has a secret but in its header; all sinks got the rest.
fn check_delivered(flavour: Flavour, got: &[Got]) {
    for got in got {
        assert!(!holds(&got.body, SECRET), "{flavour}: {}", got.head);
        assert!(!holds(&got.body, TOKEN), "{flavour}: {}", got.head);
        let named = got.head.lines().filter(|line| line.contains(TOKEN));
        let allowed = ["authorization:", "x-clickhouse-key:"];
        for line in named {
            let line = line.to_ascii_lowercase();
            assert!(allowed.iter().any(|name| line.starts_with(name)), "{line}");
        }
    }
    // All three got the statements that have no secret, or the digests of those that have.
    for path in ["/api/v1/write", "/v1/metrics", "/v1/logs", "waggle_samples"] {
        let of_sink: Vec<Got> = got
            .iter()
            .filter(|got| got.head.lines().next().is_some_and(|l| l.contains(path)))
            .cloned()
            .collect();
        let words = match path {
            "/api/v1/write" => "create user waits",
            "/v1/metrics" => "CREATE USER",
            _ => "shown as asked",
        };
        assert!(arrived(&of_sink, words) > 0, "{flavour}: {path}");
    }
}
