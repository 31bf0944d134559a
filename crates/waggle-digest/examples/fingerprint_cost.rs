//! What do a fingerprint, its hash, its id, the look for secrets, the summary and the look for
//! comments cost?
//!
//! `cargo run --release -p waggle-digest --example fingerprint_cost [PART OF A NAME]`.
//! One line a shape: bytes,
//! nanoseconds a statement (the best of some rounds, so that a neighbour's work does not count) and
//! MB/s of the fingerprint; then the nanoseconds of the hash, the id, the look for
//! secrets, the summary (from the text, then from the fingerprint) and the comments.

use std::hint::black_box;
use std::time::{Duration, Instant};
use waggle_digest::{Fingerprinter, carries_secret, comments, digest_id, hash64, summary};

const ROUNDS: u32 = 150;
const ROUND: Duration = Duration::from_micros(800);

/// Nanoseconds a call, the best round of `ROUNDS`.
fn cost_ns(mut work: impl FnMut()) -> f64 {
    let started = Instant::now();
    let mut warm = 0_u32;
    while started.elapsed() < ROUND {
        work();
        warm += 1;
    }
    let calls = warm.max(1);
    (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..calls {
                work();
            }
            started.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .fold(f64::INFINITY, f64::min)
}

fn shapes() -> Vec<(&'static str, String)> {
    let row = "(50123, 4821, '08566691963-88624912351-16662227201-46648573979', 'it\\'s')";
    let list: Vec<String> = (0..1000).map(|n| (n * 7919).to_string()).collect();
    vec![
        (
            "point select",
            "SELECT c FROM sbtest1 WHERE id=50123".to_owned(),
        ),
        (
            "point select, 60 bytes",
            "SELECT c, pad FROM sbtest1 WHERE id=50123 AND k=4821 LIMIT 10".to_owned(),
        ),
        (
            "range select, 150 bytes",
            "SELECT s.c, a.pad FROM sbtest1 AS s JOIN accounts AS a ON a.id = s.account_id WHERE \
             s.id BETWEEN 50123 AND 50223 AND a.state = 'open' ORDER BY s.c LIMIT 10"
                .to_owned(),
        ),
        (
            "the same with more",
            "SELECT DISTINCT c, pad, SUM(k) FROM sbtest1 AS s WHERE s.id BETWEEN 50123 AND 50223 \
             AND s.k IN (1, 2, 3) AND s.pad LIKE 'abc%' ORDER BY s.c ASC LIMIT 10"
                .to_owned(),
        ),
        (
            "update",
            "UPDATE sbtest1 SET k=k+1 WHERE id=50123".to_owned(),
        ),
        ("begin", "BEGIN".to_owned()),
        (
            "commented select",
            "/* service:shop,trace:00-4bf92f3577b34da6a3ce929d0e0e4736-01 */ SELECT `id` FROM `t` \
             WHERE `a` = 'x'"
                .to_owned(),
        ),
        (
            "sqlcommenter",
            "SELECT id FROM t WHERE a='x' /*action='%2Fcart',framework='rails',traceparent=\
             '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/"
                .to_owned(),
        ),
        (
            "insert, 1 row",
            format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES {row}"),
        ),
        (
            "insert, 1,000 rows",
            format!("INSERT INTO sbtest1 VALUES {}", vec![row; 1000].join(",")),
        ),
        (
            "list of 1,000 numbers",
            format!("SELECT c FROM t WHERE id IN ({})", list.join(", ")),
        ),
        (
            "literal of 64 KiB",
            format!("UPDATE t SET b='{}' WHERE id=1", "x".repeat(65536)),
        ),
        (
            "comment of 64 KiB",
            format!("/* {} */ SELECT 1", "x".repeat(65536)),
        ),
        (
            "1,000 columns",
            format!("SELECT {} FROM t", vec!["a.column_name"; 1000].join(", ")),
        ),
    ]
}

fn main() {
    println!(
        "{:<24} {:>7} {:>10} {:>8} {:>8} {:>7} {:>9} {:>10} {:>8} {:>10}",
        "shape",
        "bytes",
        "ns",
        "MB/s",
        "hash ns",
        "id ns",
        "secret ns",
        "summary ns",
        "of print",
        "comment ns"
    );
    let mut fingerprinter = Fingerprinter::new();
    let part = std::env::args().nth(1).unwrap_or_default();
    for (name, sql) in shapes()
        .into_iter()
        .filter(|(name, _)| name.contains(&part))
    {
        let sql = sql.as_bytes();
        let ns = cost_ns(|| {
            black_box(fingerprinter.fingerprint(black_box(sql)));
        });
        let text = fingerprinter.fingerprint(sql).to_vec();
        let hash_ns = cost_ns(|| {
            black_box(hash64(black_box(&text)));
        });
        let id_ns = cost_ns(|| {
            black_box(digest_id(black_box(&text)));
        });
        let secret_ns = cost_ns(|| {
            black_box(carries_secret(black_box(sql)));
        });
        let mut words = String::new();
        let summary_ns = cost_ns(|| summary(black_box(sql), black_box(&mut words)));
        let print_ns = cost_ns(|| summary(black_box(&text), black_box(&mut words)));
        let comment_ns = cost_ns(|| {
            black_box(comments(black_box(sql)));
        });
        println!(
            "{name:<24} {:>7} {ns:>10.1} {:>8.0} {hash_ns:>8.1} {id_ns:>7.0} {secret_ns:>9.1} \
             {summary_ns:>10.1} {print_ns:>8.1} {comment_ns:>10.1}",
            sql.len(),
            sql.len() as f64 / ns * 1e3
        );
    }
}
