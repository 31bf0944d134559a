//! Statements inside procedures, functions and triggers.

use waggle_server::Flavour;
use waggle_wire::Value;

use super::{
    assert_counts, assert_digests, assert_in_routines, observe_statements, pings, run_to,
    with_table,
};
use crate::watch::stage::{flavours, observe, run, settle};

#[test]
fn procedures() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        run(
            &mut connection,
            &[
                "CREATE PROCEDURE p(n INT) BEGIN DECLARE i INT DEFAULT 0; \
                 WHILE i < n DO INSERT INTO t (v) VALUES ('p'); SET i = i + 1; END WHILE; \
                 SELECT COUNT(*) FROM t; END",
                "CREATE PROCEDURE outer_p() BEGIN CALL p(1); SELECT 9; END",
                "CREATE PROCEDURE fails() BEGIN SELECT 1; SELECT * FROM nope; SELECT 2; END",
                "CREATE PROCEDURE handles() BEGIN \
                 DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @e = 1; \
                 SELECT 1; INSERT INTO t (id) VALUES (1); SELECT 2; END",
            ],
        );
        let mut binary = connection.prepare(b"CALL p(?)").expect("a statement");
        let (account, ()) = observe(&server, &[], |_| {
            run_to(
                &mut connection,
                &[
                    ("CALL p(3)", 0),
                    ("CALL p(3)", 0),
                    ("CALL outer_p()", 0),
                    ("CALL fails()", 1146),
                    ("CALL handles()", 0),
                ],
            );
            connection
                .execute(&mut binary, &[Value::Int(3)])
                .expect("a call");
            settle(&mut connection);
        });
        // Six calls are six statements of the client. `Queries` has their instructions too:
        // p(n): DECLARE, n + 1 tests of the loop, n INSERTs, n SETs, SELECT
        let p = |n: u64| 1 + (n + 1) + n + n + 1;
        // outer_p: CALL, what p(1) has, SELECT; fails: SELECT, SELECT;
        // handles: SELECT, INSERT, SET of the handler, SELECT
        let instructions = 3 * p(3) + (2 + p(1)) + 2 + 4;
        let queries = 6 + instructions + pings(flavour, 2);
        // p(n) succeeds with n INSERTs and the SELECT; outer_p with the CALL, those of p(1), and
        // its SELECT; fails with its first; handles with both of its, and the handler's SET. The
        // INSERT and the SELECT that fail inside pass no probe, nor do instructions.
        let passing = |n: u64| n + 1;
        let (outer, fails, handles) = (1 + passing(1) + 1, 1, 2 + 1);
        let mut digests = vec![
            (3, 0, "call p"),
            (1, 0, "call outer_p"),
            (1, 1, "call fails"),
            (1, 0, "call handles"),
        ];
        let inside = if flavour == Flavour::MySql {
            digests[0].0 += 1;
            digests.push((3 * 3 + 1, 0, "insert into t (v) values(?+)"));
            digests.push((3 + 1, 0, "select count(*) from t"));
            digests.push((1 + fails + 2, 0, "select ?"));
            digests.push((1, 0, "set @e = ?"));
            3 * passing(3) + outer + fails + handles
        } else {
            0
        };
        assert_counts("procedures", &account, 6 + inside, 6, queries);
        assert_in_routines("procedures", &account, inside);
        assert_digests("procedures", &account, &digests);
    }
}

#[test]
fn functions_and_triggers() {
    for flavour in flavours() {
        let (server, mut connection) = with_table(flavour);
        run(
            &mut connection,
            &[
                "CREATE TABLE log (v VARCHAR(100))",
                "CREATE FUNCTION f(n INT) RETURNS INT DETERMINISTIC READS SQL DATA BEGIN \
                 DECLARE x INT; SELECT MAX(id) INTO x FROM t; RETURN x + n; END",
                "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN \
                 INSERT INTO log VALUES (NEW.v); INSERT INTO log VALUES ('again'); END",
            ],
        );
        let account = observe_statements(
            &server,
            &mut connection,
            &[
                ("SELECT f(1)", 0),
                ("SELECT f(1), f(2)", 0),
                ("INSERT INTO t (v) VALUES ('1')", 0),
                ("INSERT INTO t (v) VALUES ('2'), ('3')", 0),
            ],
        );
        // Three calls of f with 3 instructions each, three rows with 2 statements each.
        let queries = 4 + 3 * 3 + 3 * 2 + pings(flavour, 1);
        // The statements inside, as such: one in each call, two for each row.
        let (calls, rows) = (1 + 2, 1 + 2);
        let inside = calls + 2 * rows;
        let digests = [
            (1, 0, "select f(?)"),
            (1, 0, "select f(?), f(?)"),
            (2, 0, "insert into t (v) values(?+)"),
            (calls, 0, "select max(id) into x from t"),
            (2 * rows, 0, "insert into log values(?+)"),
        ];
        assert_counts("functions", &account, 4 + inside, 4, queries);
        assert_in_routines("functions", &account, inside);
        assert_digests("functions", &account, &digests);
    }
}
