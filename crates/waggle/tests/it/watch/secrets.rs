//! Planted secrets, and every output searched for them.

use std::path::Path;

use waggle_server::Flavour;

use super::stage::{Running, connect, flavours, run, server, settle, waggle};

/// What must be nowhere.
const SECRET: &str = "hunter2sesame";

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
        } else if memchr::memmem::find(&std::fs::read(&path).expect("a file"), SECRET.as_bytes())
            .is_some()
        {
            found.push(path.display().to_string());
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
            // The outputs are there, and hold the other statement.
            let text = std::fs::read_to_string(&log).expect("the log");
            assert!(text.contains("shown as asked"), "{flavour}: {text}");
            assert!(text.lines().count() > statements.len(), "{flavour}");
            assert!(ended.stdout.contains("create user"), "{}", ended.stdout);
        }
    }
}
