//! Which statements are recognised as carrying a secret?

use waggle_digest::carries_secret;

#[test]
fn statements_with_secrets_are_recognised() {
    let statements = [
        "CREATE USER u IDENTIFIED BY 'p'",
        "create/**/user if not exists u identified by 'p'",
        "CREATE OR REPLACE USER u IDENTIFIED BY 'p'",
        "  -- note\n ALTER\n\tUSER u IDENTIFIED WITH caching_sha2_password BY 'p'",
        "/*!50706 CREATE USER u IDENTIFIED BY 'p' */",
        "/*!CREATE*//*x*/USER u",
        "/*M!100400 ALTER USER u IDENTIFIED BY 'p' */",
        "SET PASSWORD = 'p'",
        "set # x\n password for u = PASSWORD('p')",
        "SET GLOBAL a = 1, PASSWORD FOR u = 'p'",
        "SET STATEMENT max_statement_time=1 FOR CREATE USER u",
        "GRANT ALL ON *.* TO u IDENTIFIED /* x */ BY 'p'",
        "GRANT ALL ON *.* TO u IDENTIFIED VIA ed25519 USING PASSWORD('p')",
        "CHANGE MASTER TO MASTER_PASSWORD='p'",
        "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='p'",
        "START GROUP_REPLICATION USER='u', PASSWORD='p'",
        "START REPLICA USER='u' PASSWORD='p'",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (PASSWORD 'p')",
        "ALTER SERVER s OPTIONS (PASSWORD 'p')",
        "CLONE INSTANCE FROM u@h:3306 IDENTIFIED BY 'p'",
        "CREATE TABLE t (a int) ENGINE=FEDERATED CONNECTION = 'mysql://u:p@h/db/t'",
        "CREATE TABLE t (a char(9) default 'x;y') CONNECTION='mysql://u:p@h/db/t'",
        "CREATE TABLE t (a int) PASSWORD='p'",
        "PREPARE s FROM 'CREATE USER u IDENTIFIED BY ''p'''",
        "SET @sql = \"ALTER USER u IDENTIFIED BY 'p'\"",
        "EXECUTE IMMEDIATE 'SET PASSWORD = ''p'''",
        "CREATE PROCEDURE p() BEGIN SELECT 1; CREATE OR REPLACE USER u; END",
        "CREATE PROCEDURE p() CHANGE MASTER TO MASTER_PASSWORD='p'",
        "SELECT 1; CREATE USER u IDENTIFIED BY 'p'",
        "SELECT ';' ;; /* x */ set password='p'",
        "CREATE TABLE t (a int); ALTER USER u IDENTIFIED BY 'p'",
        "SELECT PASSWORD ('p')",
        "UPDATE mysql.user SET Password=PASSWORD('p') WHERE User='u'",
        "INSERT INTO mysql.user VALUES ('h', 'u', old_password('p'))",
        "CREATE USER 'unterminated /* u",
    ];
    for sql in statements {
        assert!(carries_secret(sql.as_bytes()), "{sql}");
        assert!(
            carries_secret(sql.to_lowercase().as_bytes()),
            "{sql} in lower case"
        );
        assert!(
            carries_secret(sql.to_uppercase().as_bytes()),
            "{sql} in upper case"
        );
    }
}

#[test]
fn ordinary_statements_are_not() {
    let statements = [
        "",
        ";",
        "/* CREATE USER */",
        "SELECT c FROM sbtest1 WHERE id=1",
        "(SELECT 1) UNION (SELECT 2)",
        "UPDATE users SET password='x' WHERE id=1",
        "INSERT INTO users (id, password) VALUES (1, 'x')",
        "SELECT user, password FROM users; SELECT wide FROM window",
        "CREATE TABLE users (id int, password varchar(255), connection int)",
        "CREATE TEMPORARY TABLE server (user int)",
        "ALTER TABLE users ADD COLUMN user int",
        "CREATE INDEX user ON t (a)",
        "SET autocommit=1",
        "SET NAMES utf8mb4",
        "GRANT SELECT ON db.* TO u",
        "SHOW CREATE USER u",
        "BEGIN",
        "CREATE /* USER */ DATABASE d",
        "START TRANSACTION",
    ];
    for sql in statements {
        assert!(!carries_secret(sql.as_bytes()), "{sql}");
    }
}

#[test]
fn hostile_texts_take_linear_time() {
    // Quadratic, each of these would take minutes.
    for piece in [
        "/*",
        ";/*",
        "/*;x",
        "#",
        "-- ",
        ";#",
        ";select",
        "create ",
        "w",
        "connection/*",
        "--",
        "5-",
        "(",
    ] {
        let sql = piece.repeat(200_000);
        let _ = carries_secret(sql.as_bytes());
        waggle_digest::Fingerprinter::new().fingerprint(sql.as_bytes());
    }
    for piece in [
        "in (select ",
        "in(",
        "values (1),",
        "in (/*",
        "values(1)/* */",
        "1e+",
        "a/**/",
    ] {
        let sql = piece.repeat(200_000);
        waggle_digest::Fingerprinter::new().fingerprint(sql.as_bytes());
    }
}
