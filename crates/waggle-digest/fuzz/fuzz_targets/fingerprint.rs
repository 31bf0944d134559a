//! `cargo +nightly fuzz run fingerprint` in the crate's folder: no bytes make any entry panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waggle_digest::{
    CUT_MARK, Cut, Fingerprinter, SUMMARY_CHARS_MAX, carries_secret, comments, digest_id, hash64,
    summary,
};

fuzz_target!(|sql: &[u8]| {
    let mut fingerprinter = Fingerprinter::new();
    let truncated = fingerprinter.fingerprint_truncated(sql);
    assert_eq!(
        truncated.cut == Cut::Elsewhere,
        truncated.text.ends_with(CUT_MARK)
    );
    let text = fingerprinter.fingerprint(sql);
    assert!(text.len() <= sql.len() * 2 + 4);
    let mut words = String::new();
    summary(sql, &mut words);
    assert!(words.chars().count() <= SUMMARY_CHARS_MAX);
    std::hint::black_box(comments(sql));
    std::hint::black_box((hash64(text), digest_id(text), carries_secret(sql)));
});
