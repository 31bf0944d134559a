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
    check(&statements);
}

#[test]
fn settings_of_keys_are_recognised() {
    check(&[
        "SET GLOBAL keyring_vault_config = '/p'",
        "SET PERSIST keyring_aws_cmk_id='p'",
        "SET @@global.wsrep_sst_auth = 'u:p'",
        "SET @@persist_only.report_password := 'p'",
        "SET GLOBAL authentication_ldap_simple_bind_root_pwd = 'p'",
        "SET GLOBAL hashicorp_key_management_token = 'p'",
        "SET GLOBAL file_key_management_filekey = 'p'",
        "SET GLOBAL aws_key_management_master_key_id = 'p'",
        "SET SESSION debug='', GLOBAL `s3_secret_key` = 'p'",
        "SET GLOBAL/**/ssl_passphrase = 0x70",
        "SET /*!50000 GLOBAL s3_access_key */ = 'p'",
        "SET STATEMENT max_statement_time=1 FOR SELECT AES_DECRYPT(a, 'p') FROM t",
        "SELECT 1; SET GLOBAL my_master_key='p'",
        "ALTER INSTANCE ROTATE INNODB MASTER KEY; SET GLOBAL a_secret='p'",
        "SELECT keyring_key_store('k', 'AES', 'p')",
    ]);
}

#[test]
fn tables_of_accounts_and_functions_of_keys_are_recognised() {
    check(&[
        "UPDATE mysql.user SET plugin = '', x = '*94BD' WHERE User='u'",
        "UPDATE `mysql` . `user` SET x='p'",
        "REPLACE INTO mysql.global_priv VALUES ('%', 'u', '{\"x\": \"p\"}')",
        "INSERT INTO mysql.servers VALUES ('s', 'h', 'd', 'u', 'p', 0, '', 'mysql', '')",
        "UPDATE user SET authentication_string='p'",
        "SELECT AES_ENCRYPT('a', 'p')",
        "SELECT aes_decrypt (a, _utf8mb4'p') FROM t",
        "SELECT HEX(AES_ENCRYPT(a, UNHEX(SHA2('p', 512))))",
        "INSERT INTO t VALUES (MD5('p'))",
        "SELECT SHA1 ( 'p' ), 1",
        "SELECT SHA(/* x */'p')",
        "SELECT sha2\n('p', 256)",
        "SELECT ENCODE('a', 'p'), 1",
        "SELECT a FROM t WHERE DECODE(b, 'p') = 1",
        "SELECT DES_ENCRYPT('a', 'p')",
        "SELECT ENCRYPT('p')",
        "SELECT ASYMMETRIC_DECRYPT('RSA', 'x', 'p')",
        "DO VALIDATE_PASSWORD_STRENGTH('p')",
    ]);
}

#[test]
fn what_is_named_as_a_secret_is_recognised() {
    check(&[
        "SET @db_password = 'p'",
        "SET @pw := 'p', @a = 1",
        "SELECT 'p' INTO @secret",
        "SELECT @pass := 'p'",
        "UPDATE users SET password='p' WHERE id=1",
        "UPDATE users SET `user_pass` = N'p'",
        "INSERT INTO users (id, passwd) VALUES (1, 'p')",
        "INSERT INTO `users` VALUES (1) ON DUPLICATE KEY UPDATE passphrase = x'70'",
        "SELECT * FROM sessions WHERE token = 'p'",
        "DELETE FROM keys WHERE api_key='p' OR apikey='p'",
        "SELECT 1 FROM cards WHERE card_number = 4111 AND cvv=123",
        "UPDATE t SET doc = '{\"client_secret\": \"p\"}'",
        "SELECT a FROM t WHERE private_key LIKE 'p%'",
        "SELECT a, 'p' AS dbpwd FROM t",
        "UPDATE t SET otp=123456",
        "CALL login('u', /* password */ 'p')",
        "SELECT 'Authorization: Bearer p'",
        "PREPARE s FROM 'UPDATE t SET passwd=''p'''",
        "EXECUTE IMMEDIATE \"SET @pw = 'p'\"",
        "CREATE TABLE t AS SELECT * FROM u WHERE password = 'p'",
        "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET NEW.token = 'p'",
        "UPDATE users SET password='cut in the lit",
        "XA START 'password'",
    ]);
}

fn check(statements: &[&str]) {
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
        "SELECT user FROM users; SELECT wide FROM window",
        "CREATE TABLE users (id int, connection int)",
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
        "SET foreign_key_checks=0, key_buffer_size=1",
        "SELECT meta_value FROM wp_postmeta WHERE meta_key='color'",
        "UPDATE books SET author='x', passages=2 WHERE shelf='y'",
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
        "passwpass",
        "md5 ",
        "md5/*",
        "mysql.",
        "mysql    ",
        "wpw",
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

/// Statements with a secret where `?` stands, behind the name that tells of it.
const PLACES: [&str; 30] = [
    "create user u identified by ?",
    "alter user u identified with mysql_native_password by ? replace ?",
    "set password for u = ?",
    "grant all on *.* to u identified by ?",
    "change master to master_host='h', master_password=?",
    "change replication source to source_password=?",
    "start replica user='u' password=?",
    "create server s foreign data wrapper mysql options (user 'u', password ?)",
    "clone instance from u@h:3306 identified by ?",
    "create table t (a int) engine=federated connection=?",
    "set global wsrep_sst_auth = ?",
    "set persist keyring_vault_x = ?, global a = 1",
    "set @@global.hashicorp_key_management_token = ?",
    "set @db_password = ?, @x = 1",
    "select @pw := ?",
    "select 1; set @secret = ?",
    "update mysql.user set x = ? where user = 'u'",
    "insert into mysql.global_priv values ('%', 'u', ?)",
    "select aes_encrypt(a, ?) from t",
    "select hex(aes_decrypt(a, sha2(?, 512)))",
    "do md5(?)",
    "update users set name = 'x', password = ? where id = 1",
    "insert into t (id, passwd) values (1, ?), (2, ?) on duplicate key update a = 1",
    "select a from t where token = ? or api_key = concat(?, 'x')",
    "replace into t set `user_pass` = ?",
    "delete from t where cvv = ? limit 1",
    "with a as (select 1) select * from a where secret = ?",
    "call login(@passphrase, ?)",
    "prepare s from 'update t set token = '?",
    "execute immediate 'set password = '?",
];

/// The statement with blanks and comments between its words, in any case, with the secret written
/// in one of the ways that a literal has.
fn planted(place: &str, secret: &str, random: &mut impl FnMut(usize) -> usize) -> String {
    let mut sql = ["", " ", "/* a note */ ", "-- a note\n", "\n\t"][random(5)].to_owned();
    for c in place.chars() {
        match c {
            '?' => {
                let literals = [
                    format!("'{secret}'"),
                    format!("\"{secret}\""),
                    format!("_utf8mb4'{secret}'"),
                    format!("N'{secret}'"),
                    format!("'a''{secret}\\'b'"),
                    format!("'a' '{secret}'"),
                    format!("concat('{secret}', 'b')"),
                    format!("_binary /* a */ '{secret}'"),
                ];
                sql += &literals[random(literals.len())];
            }
            ' ' => sql += [" ", "  ", "\n", "\t", " /* b */ ", "/**/", " # c\n"][random(7)],
            c if random(2) == 0 => sql.extend(c.to_uppercase()),
            c => sql.push(c),
        }
    }
    sql
}

proptest::proptest! {
    #[test]
    fn a_planted_secret_is_neither_shown_nor_in_the_fingerprint(
        place in 0..PLACES.len(), seed in 1..u64::MAX, cut in 0..400_usize,
    ) {
        const SECRET: &str = "hunter2sesame";
        let mut state = seed;
        let mut random = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % limit
        };
        let sql = planted(PLACES[place], SECRET, &mut random);
        proptest::prop_assert!(sql.contains(SECRET), "{}", sql);
        proptest::prop_assert!(carries_secret(sql.as_bytes()), "{}", sql);
        let mut fingerprinter = waggle_digest::Fingerprinter::new();
        let shown = fingerprinter.fingerprint(sql.as_bytes());
        proptest::prop_assert!(memchr::memmem::find(shown, SECRET.as_bytes()).is_none(), "{}", sql);
        // Cut anywhere: as soon as a letter of the secret is there, its name is.
        let cut = &sql.as_bytes()[..cut.min(sql.len())];
        let reaches = memchr::memmem::find(cut, &SECRET.as_bytes()[..4]).is_some();
        proptest::prop_assert!(!reaches || carries_secret(cut), "{:?}", str::from_utf8(cut));
        let shown = fingerprinter.fingerprint_truncated(cut).text;
        let is_there = memchr::memmem::find(shown, b"hunt").is_some();
        proptest::prop_assert!(!is_there, "{:?}", str::from_utf8(cut));
    }
}
