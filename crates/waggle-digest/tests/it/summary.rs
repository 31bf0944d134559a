//! Query summaries: OpenTelemetry's own examples, the statements of MySQL and MariaDB, any bytes.

use proptest::prelude::*;
use waggle_digest::{Fingerprinter, SUMMARY_BYTES_MAX, SUMMARY_CHARS_MAX, summary};

fn of(sql: &[u8]) -> String {
    let mut out = String::new();
    summary(sql, &mut out);
    out
}

/// Text and summary. The first five are the convention's, with MySQL's quotes.
const CASES: &[(&str, &str)] = &[
    (
        "SELECT *\nFROM wuser_table\nWHERE username = ?",
        "SELECT wuser_table",
    ),
    (
        "INSERT INTO shipping_details (order_id, address)\nSELECT order_id, address FROM orders \
         WHERE order_id = ?",
        "INSERT shipping_details SELECT orders",
    ),
    (
        "SELECT * FROM songs, artists WHERE songs.artist_id = artists.id",
        "SELECT songs artists",
    ),
    (
        "SELECT order_date FROM (SELECT * FROM orders o JOIN customers c ON o.customer_id = \
         c.customer_id) x",
        "SELECT SELECT orders customers",
    ),
    (
        "SELECT * FROM `song list`, `artists`",
        "SELECT `song list` artists",
    ),
    (
        "call some_stored_procedure(1, 'x')",
        "CALL some_stored_procedure",
    ),
    ("CALL `a` . `b`()", "CALL a.b"),
    ("select 1", "SELECT"),
    ("select now() from dual", "SELECT"),
    (
        "(SELECT a FROM t) UNION ALL (SELECT b FROM u) ORDER BY 1, 2",
        "SELECT t SELECT u",
    ),
    (
        "select a from shop.t1 as x left join t2 using (id), t3",
        "SELECT shop.t1 t2 t3",
    ),
    (
        "select a from (t1, t2) straight_join t3 on t1.a=t3.a and f(1, t2.b), t4",
        "SELECT t1 t2 t3 t4",
    ),
    (
        "select extract(year from d), trim(both 'x' from s) from t",
        "SELECT t",
    ),
    (
        "select j.a from t, json_table(t.doc, '$[*]' columns (a int path '$')) j",
        "SELECT t",
    ),
    (
        "select a from t where b in (select c from u where d in (1, 2)) limit 5, 10",
        "SELECT t SELECT u",
    ),
    ("select t.from, t.`join` from t group by a, b", "SELECT t"),
    ("select a into @x, @y from t for update", "SELECT t"),
    (
        "select a into outfile '/tmp/x' from t lock in share mode",
        "SELECT t",
    ),
    (
        "with recursive c (n) as (select 1 union all select n+1 from c) select * from c, d",
        "SELECT SELECT c SELECT c d",
    ),
    (
        "with c as (select a from t) update u join c set u.a=c.a",
        "SELECT t UPDATE u c",
    ),
    (
        "INSERT LOW_PRIORITY IGNORE INTO db.t VALUES (1, (select 2)), (3, 'a;b')",
        "INSERT db.t",
    ),
    (
        "insert t set a=1, b=2 on duplicate key update a=values(a), b=3",
        "INSERT t",
    ),
    ("insert into t(a,b) values row(1,2), row(3,4)", "INSERT t"),
    (
        "replace into t select * from u where a=(select max(b) from v)",
        "REPLACE t SELECT u SELECT v",
    ),
    (
        "UPDATE low_priority t1, t2 INNER JOIN t3 SET t1.a=1, b=2 WHERE c=3",
        "UPDATE t1 t2 t3",
    ),
    (
        "update t set a=(select max(b) from u, v), c=4",
        "UPDATE t SELECT u v",
    ),
    ("DELETE FROM t WHERE a=1", "DELETE t"),
    (
        "delete quick a, b from a join b using (id) where a.x=1",
        "DELETE a b",
    ),
    ("delete from a using a join b where a.x=b.x", "DELETE a a b"),
    (
        "CREATE TEMPORARY TABLE IF NOT EXISTS shop.item (id INT, KEY (id)) ENGINE=x, MAX_ROWS=5",
        "CREATE TABLE shop.item",
    ),
    (
        "create table a as select * from b",
        "CREATE TABLE a SELECT b",
    ),
    (
        "create or replace algorithm=merge definer=`r`@`l` view v as select a from t",
        "CREATE VIEW v SELECT t",
    ),
    ("create unique index i on t (a, b)", "CREATE INDEX t"),
    (
        "create definer=root@localhost procedure p(in x int) begin delete from t; end",
        "CREATE PROCEDURE p",
    ),
    (
        "create trigger g before insert on t for each row set new.a=1",
        "CREATE TRIGGER g",
    ),
    (
        "create user 'app'@'%' identified by 'secret'",
        "CREATE USER",
    ),
    ("alter table t add column a int, drop b", "ALTER TABLE t"),
    ("drop table if exists a, `b`, c.d", "DROP TABLE a b c.d"),
    ("truncate t", "TRUNCATE t"),
    ("truncate table t", "TRUNCATE TABLE t"),
    ("optimize table a, b", "OPTIMIZE TABLE a b"),
    ("analyze format=json select a from t", "ANALYZE SELECT t"),
    ("explain format=json select a from t", "EXPLAIN SELECT t"),
    ("explain analyze update t set a=1", "EXPLAIN UPDATE t"),
    ("desc shop.t", "DESC shop.t"),
    ("explain for connection 5", "EXPLAIN"),
    (
        "SHOW FULL TABLES FROM shop LIKE 'a%'",
        "SHOW FULL TABLES shop",
    ),
    ("show create table shop.t", "SHOW CREATE TABLE shop.t"),
    ("show global variables like 'a'", "SHOW GLOBAL VARIABLES"),
    ("show grants for root@localhost", "SHOW GRANTS"),
    ("show index in t", "SHOW INDEX t"),
    ("begin", "BEGIN"),
    ("START TRANSACTION READ ONLY", "START TRANSACTION"),
    ("rollback to savepoint x", "ROLLBACK"),
    ("xa start 'x'", "XA START"),
    ("lock tables a read, b write", "LOCK TABLES a b"),
    (
        "set @a = (select max(id) from t), autocommit=1",
        "SET SELECT t",
    ),
    ("set password = 'secret'", "SET"),
    ("use shop", "USE shop"),
    (
        "load data local infile 'x' replace into table t fields terminated by ','",
        "LOAD DATA t",
    ),
    ("handler t open as h", "HANDLER t"),
    ("table t order by a", "TABLE t"),
    ("do sleep(1)", "DO"),
    ("kill 5", "KILL"),
    ("prepare s from 'select secret from t'", "PREPARE"),
    (
        "insert into a values (1); delete from b; commit",
        "INSERT a DELETE b COMMIT",
    ),
    (
        "/* note */ -- more\nselect /*+ MAX_EXECUTION_TIME(5) */ a from /* x */ t # end",
        "SELECT t",
    ),
    ("/*!40001 select */ a from t", "SELECT t"),
    ("insert into t values ('from u', \"join v\")", "INSERT t"),
    ("mypassword is secret", ""),
    ("", ""),
    (";;select 1", "SELECT"),
    ("administrator command: Ping", ""),
    ("select a from grüße", "SELECT grüße"),
];

#[test]
fn statements_and_their_summaries() {
    for &(sql, expected) in CASES {
        assert_eq!(of(sql.as_bytes()), expected, "{sql}");
    }
}

/// The agent knows many statements only by their fingerprint, which is in lower case.
#[test]
fn a_fingerprint_has_the_summary_of_its_statement() {
    let mut fingerprinter = Fingerprinter::new();
    // Percona's rules keep of `USE shop` the first word, and of procedures their own case.
    for &(sql, expected) in CASES.iter().filter(|(sql, _)| !sql.starts_with("use ")) {
        let fingerprint = fingerprinter.fingerprint(sql.as_bytes()).to_vec();
        let found = of(&fingerprint).to_lowercase();
        assert_eq!(found, expected.to_lowercase(), "{sql}");
    }
}

#[test]
fn what_does_not_fit_is_left_out_whole() {
    let names: Vec<String> = (0..100).map(|n| format!("table_ü_{n:02}")).collect();
    let found = of(format!("select 1 from {}", names.join(",")).as_bytes());
    assert!(found.chars().count() <= SUMMARY_CHARS_MAX);
    assert!(found.len() <= SUMMARY_BYTES_MAX);
    let last = found.rsplit(' ').next().expect("a word");
    assert!(names.iter().any(|name| name == last), "{last} was cut");
    // 6 for SELECT, 11 for each further one.
    assert_eq!(found.split(' ').count(), 1 + (SUMMARY_CHARS_MAX - 6) / 11);
    assert_eq!(
        of(format!("delete from {}", "x".repeat(300)).as_bytes()),
        "DELETE"
    );
}

#[test]
fn hostile_names_become_plain_text() {
    assert_eq!(
        of(b"select 1 from `a\nb\0`, t\xff\xfe"),
        "SELECT `a\u{fffd}b\u{fffd}` t\u{fffd}\u{fffd}"
    );
    assert_eq!(of(b"select 1 from `open"), "SELECT `open");
    assert_eq!(of(b"select 1 from 'literal', \"another\""), "SELECT");
}

fn soup() -> impl Strategy<Value = Vec<u8>> {
    // No single quote alone: it would turn literals inside out.
    let words = "select|from|join|(|)|,|;|insert|into|values|update|set|delete|using|with|as|\
                 create|table|if|not|exists|show|explain|format|=|'secret'|\"secret\"|`q`|a.b|.|@v|\
                 /*|*/|/*!5|--|#|\n|t|u|load|data|call|drop|truncate|{|5|index|on|where|\u{e4}|\0|\
                 `";
    let words: Vec<&str> = words.split('|').collect();
    prop::collection::vec(prop::sample::select(words), 0..60)
        .prop_map(|words| words.join(" ").into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_words_are_bounded_and_show_no_literal(sql in soup()) {
        let found = of(&sql);
        prop_assert!(found.chars().count() <= SUMMARY_CHARS_MAX);
        // Inside back quotes it is a name.
        prop_assert!(!found.contains("secret") || found.contains('`'), "{}", found);
        prop_assert!(!found.chars().any(char::is_control));
        prop_assert!(!found.starts_with(' ') && !found.ends_with("  "));
    }

    #[test]
    fn any_bytes_are_accepted(sql in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(of(&sql).len() <= SUMMARY_BYTES_MAX);
    }
}
