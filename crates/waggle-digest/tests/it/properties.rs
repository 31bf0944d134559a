//! Properties over generated statements and over arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use waggle_digest::{CUT_MARK, Cut, Fingerprinter, carries_secret, hash64};

fn fingerprint(sql: &[u8]) -> Vec<u8> {
    Fingerprinter::new().fingerprint(sql).to_vec()
}

/// Pieces of SQL in any order, so that most of the lexer's edges meet each other.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "select ",
        "in",
        " in (",
        "values",
        " values (",
        "(",
        ")",
        ",",
        ", ",
        "'",
        "''",
        "\"",
        "`",
        "\\",
        "/*",
        "*/",
        "/*!40101 ",
        "/",
        "-- ",
        "--",
        "-",
        "+",
        "#",
        "\n",
        " ",
        "1",
        "0x1F",
        "1e",
        ".5",
        ".",
        "x",
        "b'1'",
        "null",
        "null,",
        "order by ",
        "asc",
        "asc,",
        "key update ",
        "call ",
        "use ",
        "administrator command: x",
        "is ",
        "=",
        "*",
        "?",
        "(?+)",
        "ä",
        "\u{130}",
        ";",
        "insert into t ",
        "a",
        "5min",
        "select/**/",
        "in (select ",
        "\u{0}",
    ]);
    vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u32>().prop_map(|number| format!("0x{number:X}")),
        (any::<i16>(), any::<u8>()).prop_map(|(whole, part)| format!("{whole}.{part}e-3")),
        "[a-z '\"(),#/*;é-]{0,20}".prop_map(|text| format!("'{}'", text.replace('\'', "\\'"))),
        "[a-z '\"()\\\\]{0,20}".prop_map(|text| {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
        }),
    ]
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        " ",
        "  ",
        "\n",
        "\t ",
        " /* ' */ ",
        " -- \"\n",
        " # (\n",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_bytes_never_panic(sql in vec(any::<u8>(), 0..200)) {
        let once = fingerprint(&sql);
        prop_assert!(once.len() <= sql.len() * 2 + 4);
        let _ = carries_secret(&sql);
        let _ = hash64(&sql);
        Fingerprinter::new().fingerprint_truncated(&sql);
    }

    #[test]
    fn soup_never_panics_at_any_cut(sql in soup()) {
        let mut fingerprinter = Fingerprinter::new();
        for cut in 0..=sql.len() {
            fingerprinter.fingerprint(&sql[..cut]);
            let _ = carries_secret(&sql[..cut]);
            let truncated = fingerprinter.fingerprint_truncated(&sql[..cut]);
            prop_assert_eq!(truncated.cut == Cut::Elsewhere, truncated.text.ends_with(CUT_MARK));
        }
    }

    #[test]
    fn values_do_not_matter_and_white_space_does_not(
        first in vec(value(), 5), second in vec(value(), 5), blank in blank(),
    ) {
        let sql = |values: &[String], blank: &str| {
            let [a, b, c, d, e] = values else { unreachable!("five values") };
            format!(
                "SELECT{blank}x, f({a},{b}){blank}FROM t1 WHERE y={c} AND{blank}z IN{blank}({d}, \
                 {a}){blank}ORDER{blank}BY x ASC{blank}LIMIT {e}"
            )
        };
        let one = fingerprint(sql(&first, " ").as_bytes());
        prop_assert_eq!(&one, &fingerprint(sql(&second, blank).as_bytes()));
        prop_assert_eq!(&one, &fingerprint(&one));
        prop_assert_eq!(
            String::from_utf8_lossy(&one),
            "select x, f(?,?) from t1 where y=? and z in(?+) order by x limit ?"
        );
    }

    #[test]
    fn a_cut_in_the_rows_gives_the_whole(rows in vec(vec(value(), 1..4), 1..6), at in 0.0..1.0) {
        let rows: Vec<String> = rows.iter().map(|row| format!("({})", row.join(", "))).collect();
        let head = "INSERT INTO t (a) VALUES (";
        let sql = format!("{head}{}", &rows.join(",")[1..]).into_bytes();
        let cut = head.len() + ((sql.len() - head.len()) as f64 * at) as usize;
        let mut fingerprinter = Fingerprinter::new();
        let truncated = fingerprinter.fingerprint_truncated(&sql[..cut]);
        prop_assert_eq!(truncated.text, b"insert into t (a) values(?+)".as_slice());
        prop_assert_eq!(truncated.cut, Cut::InRows);
    }
}
