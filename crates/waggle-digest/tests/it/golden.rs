//! Does every statement of the corpus keep its fingerprint and its id?
//!
//! `golden.tsv` has one `statement <tab> fingerprint <tab> id` a line, escaped as in
//! `examples/fingerprint_lines.rs`, which also rewrites it. A change there is a change of the ids
//! that users have stored: look at every line of the diff.

use waggle_digest::{DigestId, Fingerprinter, digest_id};

fn unescape(line: &str) -> Vec<u8> {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => match letters.next().expect("a letter behind the backslash") {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    text.into_bytes()
}

fn corpus() -> impl Iterator<Item = (Vec<u8>, String, DigestId)> {
    include_str!("../golden.tsv").lines().map(|line| {
        let mut fields = line.split('\t');
        let mut field = || {
            fields
                .next()
                .unwrap_or_else(|| panic!("three fields in {line:?}"))
        };
        let (sql, fingerprint, id) = (field(), field(), field());
        let fingerprint = String::from_utf8(unescape(fingerprint)).expect("UTF-8");
        (unescape(sql), fingerprint, id.parse().expect("an id"))
    })
}

#[test]
fn the_corpus_keeps_its_fingerprints_and_ids() {
    let mut fingerprinter = Fingerprinter::new();
    for (sql, fingerprint, id) in corpus() {
        let got = fingerprinter.fingerprint(&sql);
        let sql = String::from_utf8_lossy(&sql);
        assert_eq!(String::from_utf8_lossy(got), fingerprint, "of {sql}");
        assert_eq!(digest_id(got), id, "of {sql}");
    }
    assert!(corpus().count() > 700);
}

#[test]
fn a_fingerprint_is_its_own_fingerprint() {
    let mut fingerprinter = Fingerprinter::new();
    for (sql, fingerprint, _) in corpus() {
        if sql.starts_with(b"Call") || sql.starts_with(b"CALL") {
            continue; // the name keeps its case once, as in the reference
        }
        let again = fingerprinter.fingerprint(fingerprint.as_bytes());
        assert_eq!(String::from_utf8_lossy(again), fingerprint);
    }
}

#[test]
fn no_literal_of_the_corpus_is_in_a_fingerprint() {
    let planted = [
        "50123",
        "deadBEEF",
        "18446744073709551615",
        "2014-09-10",
        "ünï",
        "abc'",
    ];
    for (_, fingerprint, _) in corpus() {
        for literal in planted {
            assert!(!fingerprint.contains(literal), "{literal} in {fingerprint}");
        }
    }
}
