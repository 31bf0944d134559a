//! What does the agent pay for a statement, beyond reading it from the ring buffer? Best rounds of
//! a warm loop over ordinary statements, with one digest and with a thousand.
//!
//! `cargo run --release -p waggle-agent --example aggregate_cost`

use std::hint::black_box;
use std::time::Instant;

use waggle_agent::aggregate::{Aggregate, Clocks, Hearers, Settings};
use waggle_agent::source::Observation;
use waggle_agent::statement::{ServerId, Statement, Text, Times, Work};

const STATEMENTS: usize = 100_000;
const ROUNDS: usize = 15;

fn statement(sql: &str, at: usize) -> Statement<'_> {
    let mut times = Times {
        cpu_ns: 30_000,
        runnable_ns: 2_000,
        ..Times::default()
    };
    times.blocked_ns[at % 12] = 5_000;
    Statement {
        end_ns: 1_000_000_000 + at as u64 * 1000,
        latency_ns: Some(40_000 + (at as u64 * 7919) % 30_000),
        connection_id: Some(at as u64 % 64),
        thread: None,
        user: b"sbtest",
        host: b"10.0.0.7",
        database: b"sbtest",
        text: Text::Whole {
            sql: sql.as_bytes(),
            truncated: false,
        },
        command: Some(3),
        origin: None,
        times: Some(times),
        work: Work {
            rows_sent: Some(1),
            rows_examined: Some(1),
            error: Some(0),
            switches: Some((1, 0)),
            storage_bytes: Some((0, 0)),
            ..Work::default()
        },
    }
}

/// Least time of a round for one statement, ns.
fn least_ns(texts: &[String]) -> f64 {
    let mut aggregate = Aggregate::new((ServerId(0), 1), &Settings::default(), 1, &["ring_full"]);
    let clocks = Clocks::now();
    let mut round = || {
        let start = Instant::now();
        for at in 0..STATEMENTS {
            let seen = statement(&texts[at % texts.len()], at);
            aggregate.observe(
                Observation::Statement(black_box(seen)),
                clocks,
                &mut Hearers::default(),
            );
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / STATEMENTS as f64;
        black_box(aggregate.take_samples());
        ns
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let point = vec!["SELECT c FROM sbtest1 WHERE id=50123".to_owned()];
    let tables: Vec<String> = (0..1000)
        .map(|n| format!("SELECT c FROM sbtest{n} WHERE id={}", n * 37))
        .collect();
    let range = vec![
        "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id \
         WHERE o.created BETWEEN '2026-01-01' AND '2026-02-01' ORDER BY o.total DESC LIMIT 20"
            .to_owned(),
    ];
    for (name, texts) in [
        ("point select, one digest", point),
        ("point select, 1000 digests", tables),
        ("join of 160 bytes", range),
    ] {
        println!("{name}: {:.0} ns a statement", least_ns(&texts));
    }
}
