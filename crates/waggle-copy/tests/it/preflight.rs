//! Every check, provoked on a real server.

use std::path::PathBuf;

use waggle_copy::{Finding, Plan, Severity, Until, preflight, schema, session};
use waggle_server::Flavour;
use waggle_server::sandbox::Sandbox;
use waggle_wire::{Connection, Secret};

use crate::servers::{alone, altered, dsn, flavours, fresh, one, plan, run, run_all};

/// A source with a table, an empty target, and the findings between them.
struct Pair {
    server: &'static Sandbox,
    source: Connection,
    target: Connection,
    plan: Plan,
}

impl Pair {
    fn new(flavour: Flavour, name: &str, script: &str) -> Pair {
        let server = altered(flavour).expect("asked for before");
        let (ours, theirs) = (format!("{name}_s"), format!("{name}_t"));
        let mut source = fresh(server, &ours);
        run_all(&mut source, script);
        let target = fresh(server, &theirs);
        let mut plan = plan(dsn(server, &ours), dsn(server, &theirs), name);
        plan.spool = std::env::temp_dir();
        Pair {
            server,
            source,
            target,
            plan,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let mut source = session::source(&self.plan.source).expect("a session");
        let mut target = session::target(&self.plan.target).expect("a session");
        let tables = schema::read(&mut source, &self.plan).expect("tables");
        preflight::check(&mut source, &mut target, &self.plan, &tables).expect("findings")
    }

    /// The finding of a check, which must be there and say what to do.
    fn finds(&self, check: &str, severity: Severity, word: &str) {
        let found = self.findings();
        let is = |one: &&Finding| {
            one.check == check && one.severity == severity && one.reason.contains(word)
        };
        let one = found.iter().find(is);
        let one = one.unwrap_or_else(|| panic!("no {check} with {word:?} in {found:#?}"));
        assert!(!one.remedy.is_empty());
    }

    fn lacks(&self, check: &str) {
        let found = self.findings();
        assert!(
            !found.iter().any(|one| one.check == check),
            "{check}: {found:#?}"
        );
    }

    /// Sets a global variable while the findings are looked at.
    fn with(&mut self, variable: &str, value: &str, look: impl Fn(&Pair)) {
        let before = one(&mut self.source, &format!("SELECT @@global.{variable}"));
        run(
            &mut self.source,
            &format!("SET GLOBAL {variable} = {value}"),
        );
        look(self);
        let back = match before.parse::<f64>() {
            Ok(_) => before,
            Err(_) => format!("'{before}'"),
        };
        run(&mut self.source, &format!("SET GLOBAL {variable} = {back}"));
    }
}

const PLAIN: &str = "CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b LONGBLOB, c TIMESTAMP NULL);\n";

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let _turn = alone();
    for flavour in flavours() {
        let pair = Pair::new(flavour, "p_none", PLAIN);
        assert_eq!(pair.findings(), [], "{flavour}");
    }
}

#[test]
fn settings_of_the_source() {
    let _turn = alone();
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "p_source", PLAIN);
        let refused = Severity::Refusal;
        pair.with("binlog_row_image", "'MINIMAL'", |pair| {
            pair.finds("binary_log", refused, "MINIMAL");
        });
        pair.with("binlog_row_image", "'NOBLOB'", |pair| {
            pair.finds("binary_log", refused, "NOBLOB");
        });
        if flavour == Flavour::MariaDb {
            pair.with("binlog_format", "'MIXED'", |pair| {
                pair.finds("binary_log", refused, "MIXED");
            });
            pair.with("expire_logs_days", "0.01", |pair| {
                pair.finds("retention", Severity::Warning, "s: a copy that is");
            });
        } else {
            pair.with("binlog_row_value_options", "'PARTIAL_JSON'", |pair| {
                pair.finds("binary_log", Severity::Warning, "PARTIAL_JSON");
            });
            run(
                &mut pair.source,
                "CREATE TABLE j (a INT NOT NULL PRIMARY KEY, d JSON)",
            );
            pair.lacks("json_types");
            pair.plan.json_as_text = true;
            pair.finds("json_types", Severity::Warning, "p_source_s.j.d");
            pair.with("gtid_mode", "'ON_PERMISSIVE'", |pair| {
                pair.finds("binary_log", refused, "gtid_mode");
            });
            pair.with("binlog_expire_logs_seconds", "600", |pair| {
                pair.finds("retention", Severity::Warning, "600 s");
            });
        }
        // Nothing is followed, so nothing of the log matters.
        pair.plan.until = Until::Copied;
        pair.with("binlog_row_image", "'MINIMAL'", |pair| {
            pair.lacks("binary_log")
        });
    }
}

#[test]
fn settings_of_the_target() {
    let _turn = alone();
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "p_target", PLAIN);
        pair.with("local_infile", "OFF", |pair| {
            pair.finds("local_infile", Severity::Refusal, "OFF");
        });
        // Root is exempt from read_only, nobody from the stricter one.
        if flavour == Flavour::MySql {
            pair.with("super_read_only", "ON", |pair| {
                pair.finds("read_only", Severity::Refusal, "read-only");
            });
            run(&mut pair.source, "SET GLOBAL read_only = OFF");
        }
    }
}

#[test]
fn the_two_servers_differ() {
    let _turn = alone();
    let (Some(mysql), Some(mariadb)) = (altered(Flavour::MySql), altered(Flavour::MariaDb)) else {
        return;
    };
    let mut source = fresh(mysql, "p_two_s");
    run_all(
        &mut source,
        "CREATE TABLE t (a VARCHAR(9) COLLATE utf8mb4_0900_ai_ci NOT NULL PRIMARY KEY, \
         b LONGBLOB, c TIMESTAMP NULL, d INT AS (LENGTH(a)) STORED, \
         e DATE AS (DATE(c)) VIRTUAL);\n",
    );
    let mut target = fresh(mariadb, "p_two_t");
    run(&mut target, "SET GLOBAL time_zone = '+05:30'");
    run(&mut target, "SET GLOBAL max_allowed_packet = 1048576");
    let pair = Pair {
        server: mysql,
        plan: plan(dsn(mysql, "p_two_s"), dsn(mariadb, "p_two_t"), "p_two"),
        source,
        target,
    };
    pair.finds("time_zone", Severity::Warning, "+5.50 h");
    pair.finds("sql_mode", Severity::Warning, "sql_mode differ");
    pair.finds("max_allowed_packet", Severity::Warning, "1048576");
    pair.finds(
        "generated_columns",
        Severity::Warning,
        "another server family",
    );
    pair.finds("generated_columns", Severity::Warning, "p_two_s.t.e");
    pair.finds("collations", Severity::Refusal, "utf8mb4_0900_ai_ci");
    pair.finds("collations", Severity::Warning, "uca1400_nopad_ai_ci");
    let mut target = pair.target;
    run(&mut target, "SET GLOBAL time_zone = 'SYSTEM'");
    run(&mut target, "SET GLOBAL max_allowed_packet = 16777216");
}

#[test]
fn a_collation_that_the_target_does_not_know() {
    let _turn = alone();
    let (Some(mysql), Some(mariadb)) = (altered(Flavour::MySql), altered(Flavour::MariaDb)) else {
        return;
    };
    let mut source = fresh(mariadb, "p_coll_s");
    run_all(
        &mut source,
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT COLLATE utf8mb4_uca1400_swedish_ai_ci);\n\
         CREATE TABLE u (a INT PRIMARY KEY, b UUID);\n",
    );
    let target = fresh(mysql, "p_coll_t");
    let pair = Pair {
        server: mariadb,
        plan: plan(dsn(mariadb, "p_coll_s"), dsn(mysql, "p_coll_t"), "p_coll"),
        source,
        target,
    };
    pair.finds(
        "collations",
        Severity::Refusal,
        "utf8mb4_uca1400_swedish_ai_ci",
    );
    pair.finds("collations", Severity::Refusal, "column b of type uuid");
}

#[test]
fn tables_in_the_way() {
    let _turn = alone();
    for flavour in flavours() {
        let mut pair = Pair::new(
            flavour,
            "p_tables",
            "CREATE TABLE nokey (a INT, UNIQUE KEY ua (a));\n\
             CREATE TABLE floating (a DOUBLE NOT NULL PRIMARY KEY);\n\
             CREATE TABLE old (a INT NOT NULL PRIMARY KEY) ENGINE=MyISAM;\n\
             CREATE TABLE parent (a INT NOT NULL PRIMARY KEY);\n\
             CREATE TABLE child (a INT NOT NULL PRIMARY KEY, b INT, \
             CONSTRAINT fk FOREIGN KEY (b) REFERENCES parent (a) ON DELETE CASCADE);\n\
             CREATE TRIGGER tr AFTER INSERT ON parent FOR EACH ROW SET @x = 1;\n",
        );
        pair.finds("keys", Severity::Refusal, "p_tables_s.nokey");
        pair.finds("keys", Severity::Refusal, "p_tables_s.floating");
        pair.finds("engine", Severity::Refusal, "p_tables_s.old (MyISAM)");
        pair.finds("triggers", Severity::Warning, "tr");
        // From 9.6 on, MySQL's binary log has what cascades do.
        match flavour {
            Flavour::MariaDb => pair.finds("foreign_keys", Severity::Refusal, "fk of"),
            Flavour::MySql => pair.lacks("foreign_keys"),
        }
        let name = |name: &str| waggle_copy::TableName {
            schema: "p_tables_s".into(),
            name: name.into(),
        };
        pair.plan.tables = vec![name("child")];
        pair.finds("foreign_keys", Severity::Refusal, "the parents of fk");
        pair.plan.tables = vec![name("parent")];
        pair.finds("foreign_keys", Severity::Warning, "p_tables_s.child refer");
        run(
            &mut pair.target,
            "CREATE TABLE parent (a INT NOT NULL PRIMARY KEY)",
        );
        run(
            &mut pair.target,
            "CREATE TRIGGER tt AFTER INSERT ON parent FOR EACH ROW SET @x = 1",
        );
        pair.finds("triggers", Severity::Refusal, "tt");
        pair.lacks("target_rows");
        run(&mut pair.target, "INSERT INTO parent VALUES (1)");
        pair.finds("target_rows", Severity::Refusal, "hold rows");
        run(&mut pair.target, "DROP TABLE parent");
        run(
            &mut pair.target,
            "CREATE TABLE parent (a SMALLINT NOT NULL PRIMARY KEY)",
        );
        pair.finds("target_rows", Severity::Refusal, "smallint");
        pair.plan.until = Until::Copied;
        pair.plan.tables = vec![name("nokey")];
        pair.finds("keys", Severity::Warning, "in one piece");
    }
}

#[test]
fn room() {
    let _turn = alone();
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "p_room", PLAIN);
        pair.plan.spool = PathBuf::from("/no/such/place");
        pair.plan.spool_bytes_max = u64::MAX;
        pair.finds("space", Severity::Refusal, "the spool's directory / has");
    }
}

#[test]
fn a_second_copier() {
    let _turn = alone();
    for flavour in flavours() {
        let pair = Pair::new(flavour, "p_second", PLAIN);
        let mut source = session::source(&pair.plan.source).expect("a session");
        let mut first = session::target(&pair.plan.target).expect("a session");
        let tables = schema::read(&mut source, &pair.plan).expect("tables");
        let found = preflight::check(&mut source, &mut first, &pair.plan, &tables);
        assert_eq!(found.expect("findings"), []);
        let id = first.connection_id().to_string();
        pair.finds("second_copier", Severity::Refusal, &id);
    }
}

#[test]
fn accounts_that_may_too_little() {
    let _turn = alone();
    for flavour in flavours() {
        let mut pair = Pair::new(flavour, "p_may", PLAIN);
        let root = &mut pair.source;
        run(root, "DROP USER IF EXISTS poor@'%'");
        run(root, "CREATE USER poor@'%' IDENTIFIED BY 'secret'");
        run(root, "GRANT SELECT ON p_may_s.* TO poor@'%'");
        run(root, "GRANT CREATE, SELECT ON `p_may_t`.* TO poor@'%'");
        let mut account = pair.server.dsn_socket();
        account.user = "poor".into();
        account.password = Some(Secret::new("secret"));
        for (dsn, schema) in [
            (&mut pair.plan.source, "p_may_s"),
            (&mut pair.plan.target, "p_may_t"),
        ] {
            *dsn = account.clone();
            dsn.database = Some(schema.into());
        }
        pair.finds(
            "privileges",
            Severity::Refusal,
            "may not read its binary log",
        );
        pair.finds("privileges", Severity::Refusal, "no INSERT, UPDATE, DELETE");
        pair.finds("privileges", Severity::Refusal, "on waggle_copy");
        if flavour == Flavour::MySql {
            pair.finds("privileges", Severity::Refusal, "no LOCK TABLES");
        }
        let root = &mut pair.source;
        run(root, "GRANT LOCK TABLES ON p_may_s.* TO poor@'%'");
        run(
            root,
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO poor@'%'",
        );
        run(root, "GRANT ALL ON p_may_t.* TO poor@'%'");
        run(root, "GRANT ALL ON `waggle\\_copy`.* TO poor@'%'");
        pair.lacks("privileges");
        run(&mut pair.source, "DROP USER poor@'%'");
    }
}
