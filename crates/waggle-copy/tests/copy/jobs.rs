//! Whose a copy is: a job keeps its tables, and ends where the target is not as it left it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use waggle_copy::progress::Job;
use waggle_copy::{Control, Phase, Plan, TableName, Until, job};

use crate::stage::{Stage, fill, flavours};

/// Ranges and steps are kept by a table's number: under another list they would be another table's.
#[test]
fn a_job_keeps_its_tables_and_shares_none() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        let only = |name: &str| Plan {
            tables: vec![TableName {
                schema: "a".into(),
                name: name.into(),
            }],
            ..stage.plan()
        };
        stage.copy(&only("t")).unwrap();
        // Sorts before the other, so it would have its number.
        stage.run(&[
            "CREATE TABLE a.s (id INT PRIMARY KEY, v INT, UNIQUE KEY v (v))",
            "INSERT INTO a.s VALUES (1, 1), (2, 2)",
        ]);
        let error = stage.copy(&only("s")).unwrap_err().to_string();
        assert!(
            error.contains("copies a.t") && error.contains("--job"),
            "{error}"
        );
        let error = stage.copy(&stage.plan()).unwrap_err().to_string();
        assert!(error.contains("copies a.t"), "{error}");
        let other = Plan {
            job: Job::new("other").unwrap(),
            ..only("s")
        };
        assert_eq!(stage.copy(&other).unwrap().rows, 2);
        stage.assert_equal("a.s", "b.s");
        // Empty, so nothing else refuses it; its keys may be in the first job's journal alone.
        stage.run(&["TRUNCATE TABLE b.t"]);
        let third = Plan {
            job: Job::new("third").unwrap(),
            ..only("t")
        };
        let error = stage.copy(&third).unwrap_err().to_string();
        assert!(error.contains("made by job test"), "{error}");
    }
}

/// Made again it would be empty, and taken for copied.
#[test]
fn a_table_that_was_dropped_at_the_target_is_said() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        stage.copy(&stage.plan()).unwrap();
        stage.run(&["DROP TABLE b.t"]);
        let error = stage.copy(&stage.plan()).unwrap_err().to_string();
        assert!(
            error.contains("copied into b.t") && error.contains("--job"),
            "{error}"
        );
        assert!(stage.rows("SHOW TABLES IN b").is_empty());
    }
}

/// A unique key that only the target has would take rows away in silence as changes are applied.
#[test]
fn a_stricter_unique_key_at_the_target_is_refused() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 10);
        stage.run(&[
            "CREATE TABLE b.t LIKE a.t",
            "ALTER TABLE b.t ADD UNIQUE KEY stricter (k, pad(10))",
        ]);
        let error = stage.copy(&stage.plan()).unwrap_err().to_string();
        assert!(error.contains("stricter (k, pad(10))"), "{error}");
    }
}

/// A lock of the target's goes with its session; who has the job is in the job's row.
#[test]
fn a_job_that_was_taken_over_ends_the_copier_that_had_it() {
    for flavour in flavours() {
        let stage = Stage::new(flavour);
        fill(&stage, 100);
        let plan = Plan {
            until: Until::Stopped,
            ..stage.plan()
        };
        let control = Arc::new(Control::new());
        let error = std::thread::scope(|scope| {
            let copier = scope.spawn(|| job::run(&plan, &control, &mut |_| {}));
            let deadline = Instant::now() + Duration::from_secs(60);
            while control.phase() != Phase::Replicate {
                assert!(Instant::now() < deadline, "it never replicates");
                // sleep: looking all the time would take the processor from who is waited for
                std::thread::sleep(Duration::from_millis(1));
            }
            stage.run(&[
                "UPDATE waggle_copy.jobs SET owner = owner + 1",
                "UPDATE a.t SET k = k + 1",
            ]);
            copier.join().unwrap().unwrap_err().to_string()
        });
        assert!(
            error.contains("another copier has taken over job test"),
            "{error}"
        );
        // Its changes went with the position.
        let same = "SELECT COUNT(*) FROM a.t JOIN b.t USING (id, k)";
        assert_eq!(stage.value(same).as_deref(), Some("0"));
    }
}
