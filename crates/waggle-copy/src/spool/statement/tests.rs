//! What counts, what does not, and texts that somebody made up.

use proptest::prelude::*;

use super::*;

fn tables() -> Vec<TableName> {
    let table = |name: &str| TableName {
        schema: "shop".to_owned(),
        name: name.to_owned(),
    };
    vec![table("orders"), table("größe")]
}

fn meaning(sql: &str) -> Meaning {
    read(b"shop", sql.as_bytes(), &tables())
}

#[test]
fn transactions_begin_and_end() {
    assert_eq!(meaning("BEGIN"), Meaning::Begin);
    assert_eq!(meaning("COMMIT /* x */"), Meaning::Commit);
    assert_eq!(meaning("ROLLBACK"), Meaning::Rollback);
    let savepoint = Meaning::Savepoint(b"a b".to_vec());
    assert_eq!(meaning("SAVEPOINT `a b`"), savepoint);
    let rollback = Meaning::RollbackTo(b"a b".to_vec());
    assert_eq!(meaning("ROLLBACK TO `a b`"), rollback);
    assert_eq!(meaning("ROLLBACK TO SAVEPOINT `a b`"), rollback);
    let name = b"x'61',x'',1".to_vec();
    assert_eq!(
        meaning("XA START X'61',X'',1"),
        Meaning::XaStart(name.clone())
    );
    assert_eq!(
        meaning("XA COMMIT X'61',X'',1"),
        Meaning::XaCommit(name.clone())
    );
    assert_eq!(
        meaning("XA COMMIT X'61', X'', 1 ONE PHASE"),
        Meaning::XaCommit(name)
    );
}

#[test]
fn what_may_change_a_copied_table_counts() {
    for sql in [
        "ALTER TABLE orders ADD c INT",
        "alter table `Orders` add index (a)",
        "DROP TABLE IF EXISTS x, shop . orders",
        "TRUNCATE orders",
        "RENAME TABLE a TO b, b TO orders",
        "CREATE INDEX i ON orders (a)",
        "CREATE UNIQUE INDEX i ON `shop`.`orders` (a)",
        "/* view */ DELETE FROM orders",
        "INSERT INTO größe VALUES ('x')",
        "DROP DATABASE shop",
        "/*!40000 DROP DATABASE IF EXISTS `shop`*/",
        "CREATE OR REPLACE DATABASE shop",
        "SET STATEMENT max_statement_time=1 FOR ALTER TABLE orders ADD c INT",
        "ALTER TABLE .orders ADD c INT",
        "ALTER TABLE \"a\\\" RENAME TO \"orders\"",
        "ALTER TABLE t COMMENT 'c:\\', RENAME TO orders",
        "/*!50000 ALTER TABLE orders ENGINE=InnoDB */",
        "CREATE TABLE orders (a INT)",
        "CREATE OR REPLACE TABLE orders (a INT)",
        "CREATE TABLE IF NOT EXISTS orders (a INT)",
        "ALTER ONLINE IGNORE TABLE IF EXISTS orders ADD c INT",
        "ALTER TABLE t RENAME orders",
        "ALTER TABLE t RENAME TO `shop`.`orders`",
        "ALTER TABLE t RENAME AS orders",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE orders",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE orders",
        "ALTER TABLE t CONVERT TABLE orders TO PARTITION p VALUES LESS THAN (1)",
        "ALTER TABLE /*!50000 orders */ ADD c INT",
        "ALTER /*M! TABLE */ orders ADD c INT",
        "DROP INDEX i ON orders",
        "UPDATE t, orders SET a = 1",
        "ALTER TABLE --\tt\norders ADD c INT",
    ] {
        assert_eq!(meaning(sql), Meaning::Concerns, "{sql}");
    }
}

#[test]
fn what_leaves_it_alone_does_not() {
    for sql in [
        "ALTER TABLE others ADD orders2 INT",
        "ALTER TABLE elsewhere.orders ADD c INT",
        "ANALYZE TABLE orders",
        "GRANT SELECT ON orders TO a",
        "CREATE DEFINER=`a`@`%` TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET @a = 1",
        "CREATE ALGORITHM=UNDEFINED DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW v AS SELECT 1 \
         FROM orders",
        "DROP DATABASE shop2",
        "CREATE TABLE t (c INT COMMENT 'orders')",
        "-- orders\nDROP TABLE t",
        "ALTER TABLE customers ADD orders INT",
        "ALTER TABLE customers ADD KEY (a, orders), RENAME COLUMN a TO orders",
        "ALTER TABLE customers ADD FOREIGN KEY (a) REFERENCES orders (a)",
        "CREATE TABLE customers (orders INT, KEY orders (orders))",
        "CREATE UNIQUE INDEX orders ON customers (orders)",
        "DROP INDEX orders ON customers",
    ] {
        assert_eq!(meaning(sql), Meaning::Nothing, "{sql}");
    }
    let elsewhere = read(b"other", b"DROP TABLE orders", &tables());
    assert_eq!(elsewhere, Meaning::Nothing);
    // As a session without a database writes it.
    let of_another = b"ALTER TABLE `other`.`t` ADD UNIQUE KEY `u` (`orders`)";
    assert_eq!(read(b"", of_another, &tables()), Meaning::Nothing);
    let latin1 = read(b"shop", b"ALTER TABLE gr\xf6\xdfe ADD c INT", &tables());
    assert_eq!(latin1, Meaning::Concerns, "in doubt");
    let bare = read(b"", b"ALTER TABLE orders ADD c INT", &tables());
    assert_eq!(bare, Meaning::Concerns, "in doubt");
}

proptest! {
    #[test]
    fn any_text_is_answered(sql in proptest::collection::vec(any::<u8>(), 0..200),
                            damaged in any::<usize>()) {
        let _ = read(b"", &sql, &tables());
        let mut sql = b"CREATE OR REPLACE VIEW `a``b` /* c */ AS 'x\\'y' -- z\n".to_vec();
        let length = sql.len();
        sql[damaged % length] ^= 0x20;
        let _ = read(b"", &sql[..damaged % length], &tables());
    }
}
