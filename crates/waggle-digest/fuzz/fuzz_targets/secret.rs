//! `cargo +nightly fuzz run secret` in the crate's folder:
//! no text around it hides the name of a secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waggle_digest::{Fingerprinter, carries_secret};

const PLANTED: [&str; 8] = [
    " password='hunter2sesame' ",
    " identified by 'hunter2sesame' ",
    " @token := 'hunter2sesame' ",
    " `user_pass` = _utf8mb4'hunter2sesame' ",
    " aes_encrypt(a, 'hunter2sesame') ",
    " md5('hunter2sesame') ",
    " SET GLOBAL wsrep_sst_auth='hunter2sesame' ",
    " UPDATE mysql.user SET x='hunter2sesame' ",
];

fuzz_target!(|input: &[u8]| {
    let Some((&choice, noise)) = input.split_first() else {
        return;
    };
    let planted = PLANTED[usize::from(choice) % PLANTED.len()].as_bytes();
    let (before, behind) = noise.split_at(noise.len() / 2);
    let sql = [before, planted, behind].concat();
    assert!(carries_secret(&sql), "{}", String::from_utf8_lossy(&sql));
    // By itself it is read as the server reads it, and its fingerprint has no literal.
    let text = [b"select 1, ", planted, behind].concat();
    let mut fingerprinter = Fingerprinter::new();
    let shown = fingerprinter.fingerprint(&text);
    let secret = b"hunter2sesame";
    let is_there = shown.windows(secret.len()).any(|part| part == secret);
    assert!(!is_there || behind.windows(secret.len()).any(|part| part == secret));
});
