//! Does a cut text give the fingerprint of the whole where it can, and a mark where it cannot?

use waggle_digest::{Cut, Fingerprinter};

fn truncated(sql: &str) -> (String, Cut) {
    let mut fingerprinter = Fingerprinter::new();
    let truncated = fingerprinter.fingerprint_truncated(sql.as_bytes());
    (
        String::from_utf8_lossy(truncated.text).into_owned(),
        truncated.cut,
    )
}

fn whole(sql: &str) -> String {
    String::from_utf8_lossy(Fingerprinter::new().fingerprint(sql.as_bytes())).into_owned()
}

#[test]
fn a_cut_anywhere_in_the_rows_gives_the_whole() {
    let head = "INSERT INTO `t` (a, b) VALUES ";
    let sql = format!(
        "{head}(1, 'it''s'), (2, \"(\") ,\n(NOW(), 'x\\'y'), /* ( */ (4, NULL) -- x\n,(5, 6)"
    );
    for cut in head.len() + 1..=sql.len() {
        assert_eq!(
            truncated(&sql[..cut]),
            (whole(&sql), Cut::InRows),
            "{}",
            &sql[..cut]
        );
    }
}

#[test]
fn a_cut_anywhere_in_a_last_list_gives_the_whole() {
    let head = "SELECT c FROM t WHERE (a=1 AND id IN (";
    let sql = format!("{head}1, 2, 'x)', 4))");
    for cut in head.len()..sql.len() {
        assert_eq!(
            truncated(&sql[..cut]),
            (whole(&sql), Cut::InList),
            "{}",
            &sql[..cut]
        );
    }
}

#[test]
fn a_cut_elsewhere_is_marked_and_has_whole_tokens_only() {
    let cases = [
        ("SELECT a, b FROM long_na", "select a, b from ..."),
        (
            "SELECT a FROM t WHERE b = 12",
            "select a from t where b = ? ...",
        ),
        (
            "SELECT a FROM t WHERE b = 'x",
            "select a from t where b = ? ...",
        ),
        ("SELECT a /* comm", "select a ..."),
        (
            "SELECT a FROM t WHERE b IN (SELECT c FROM d",
            "select a from t where b in(select c from ...",
        ),
        (
            "INSERT INTO t VALUES (1) ON DUPL",
            "insert into t values(?+) on ...",
        ),
        ("", " ..."),
    ];
    for (sql, expected) in cases {
        assert_eq!(
            truncated(sql),
            (expected.to_owned(), Cut::Elsewhere),
            "of {sql:?}"
        );
    }
}

#[test]
fn what_is_decided_early_is_not_marked() {
    assert_eq!(
        truncated("CALL p(1, 2, "),
        ("call p".to_owned(), Cut::Immaterial)
    );
    assert_eq!(truncated("use sho"), ("use ?".to_owned(), Cut::Immaterial));
}
