//! `waggle copy verify` as a user runs it: what it prints and how it exits.

use std::process::{Command, Output};

use serde_json::Value;

use super::{Stage, flavours};

fn verify(stage: &Stage, args: &[&str]) -> Output {
    let dsn = |database| stage.server.dsn_of(database).to_string();
    Command::new(env!("CARGO_BIN_EXE_waggle"))
        .args(["copy", "verify", "--lag", "0"])
        .args(["--from", &dsn("a")])
        .args(["--to", &dsn("b")])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn differences_are_named_repaired_and_exit_with_1() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        for database in ["a", "b"] {
            stage.run(&[
                &format!("CREATE DATABASE {database}"),
                &format!("CREATE TABLE {database}.t (id INT NOT NULL PRIMARY KEY, v VARCHAR(9))"),
                &format!("INSERT INTO {database}.t VALUES (1, 'x'), (2, 'y'), (3, NULL)"),
            ]);
        }
        let equal = verify(&stage, &[]);
        assert_eq!(equal.status.code(), Some(0), "{equal:?}");
        stage.run(&[
            "UPDATE b.t SET v = 'x ' WHERE id = 1",
            "DELETE FROM b.t WHERE id = 2",
            "INSERT INTO b.t VALUES (9, 'z')",
        ]);
        let shown = verify(&stage, &[]);
        assert_eq!(shown.status.code(), Some(1));
        let text = String::from_utf8(shown.stdout).unwrap();
        for line in ["differs  id=1  in v", "missing  id=2", "extra    id=9"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let complaint = String::from_utf8(shown.stderr).unwrap();
        assert!(complaint.contains("3 rows differ"), "{complaint}");
        let document = verify(&stage, &["--json"]);
        let document: Value = serde_json::from_slice(&document.stdout).unwrap();
        assert_eq!(document["verified"], false);
        assert_eq!(document["differences"], 3);
        assert_eq!(document["tables"][0]["differences"][0]["row"], "id=1");
        let repaired = verify(&stage, &["--json", "--repair"]);
        assert_eq!(repaired.status.code(), Some(0), "{repaired:?}");
        let document: Value = serde_json::from_slice(&repaired.stdout).unwrap();
        assert_eq!(
            (&document["verified"], &document["repaired"]),
            (&true.into(), &3.into())
        );
        stage.assert_equal("a.t", "b.t");
    }
}

#[test]
fn what_cannot_be_compared_exits_with_2() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        stage.run(&["CREATE DATABASE a", "CREATE DATABASE b"]);
        let missing = verify(&stage, &["--tables", "nothing"]);
        assert_eq!(missing.status.code(), Some(2), "{missing:?}");
        let same = verify(&stage, &["--workers", "0"]);
        assert_eq!(same.status.code(), Some(2), "{same:?}");
    }
}
