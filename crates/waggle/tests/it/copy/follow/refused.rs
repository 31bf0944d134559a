//! What cannot be followed ends the copy, which says the way out.

use std::time::Instant;

use waggle_server::Flavour;

use super::{STOPPED, connect, run, stage, words};
use crate::copy::{PATIENCE, flavours};

const CAUGHT_UP: [&str; 2] = ["--until", "caught-up"];

#[test]
fn what_cannot_be_applied_ends_the_copy_with_the_way_out() {
    for flavour in flavours() {
        let mut cases = vec![
            (
                "SET binlog_row_image = MINIMAL; UPDATE t SET v = v + 1",
                "binlog_row_image = FULL",
            ),
            ("ALTER TABLE t ADD c INT", "definition"),
            ("TRUNCATE TABLE t", "TRUNCATE"),
            ("RENAME TABLE t TO t2, t2 TO t", "RENAME"),
        ];
        if flavour == Flavour::MariaDb {
            cases.push((
                "SET binlog_format = STATEMENT; UPDATE t SET v = 7",
                "binlog_format = ROW",
            ));
        }
        let stage = stage(flavour, &[]);
        for (i, (sql, remedy)) in cases.into_iter().enumerate() {
            stage.run(&[
                "DROP TABLE IF EXISTS a.t, a.t2, b.t",
                "CREATE TABLE a.t (id INT PRIMARY KEY, v INT)",
                "INSERT INTO a.t VALUES (1, 1)",
            ]);
            let job = format!("job{i}");
            let spool = format!("spool{i}");
            let args = ["--job", &job, "--spool", &spool, "--tables", "t"];
            let mut copier = stage.begin(&[&args[..], &STOPPED].concat());
            stage.wait("SELECT COUNT(*) FROM b.t", |count| count == "1");
            let before = stage.rows("SELECT * FROM b.t");
            let mut source = connect(&stage);
            run(&mut source, sql);
            let deadline = Instant::now() + PATIENCE;
            while !copier.is_over() {
                assert!(Instant::now() < deadline, "{sql}: it goes on");
            }
            let output = copier.end();
            assert!(!output.status.success(), "{sql}");
            assert!(words(&output).contains(remedy), "{sql}: {}", words(&output));
            // It stands where it stood, and does not go on.
            assert_eq!(stage.rows("SELECT * FROM b.t"), before, "{sql}");
            assert!(
                !stage
                    .copy(&[&args[..], &CAUGHT_UP].concat())
                    .status
                    .success()
            );
        }
    }
}

#[test]
fn a_purged_log_is_said() {
    for flavour in flavours() {
        let stage = stage(flavour, &["CREATE TABLE t (id INT PRIMARY KEY, v INT)"]);
        stage.copied(&CAUGHT_UP);
        let mut source = connect(&stage);
        run(&mut source, "INSERT INTO t VALUES (1, 1)");
        run(&mut source, "FLUSH BINARY LOGS");
        run(&mut source, "INSERT INTO t VALUES (2, 2)");
        run(&mut source, "FLUSH BINARY LOGS");
        let logs = stage.rows("SHOW BINARY LOGS");
        let last = String::from_utf8(logs.last().unwrap()[0].clone().unwrap()).unwrap();
        let purge = format!("PURGE BINARY LOGS TO '{last}'");
        let deadline = Instant::now() + PATIENCE;
        // A log may be held until the stream that read it has noticed its end.
        while stage.rows("SHOW BINARY LOGS").len() > 1 {
            assert!(Instant::now() < deadline, "the log is never purged");
            run(&mut source, &purge);
        }
        // A copy that is done leaves nothing here but its run.
        assert!(!stage.directory.path().join("waggle-spool").exists());
        let output = stage.copy(&CAUGHT_UP);
        assert!(!output.status.success());
        assert!(words(&output).contains("begin anew"), "{}", words(&output));
        assert_eq!(stage.value("SELECT COUNT(*) FROM b.t").unwrap(), "0");
    }
}
