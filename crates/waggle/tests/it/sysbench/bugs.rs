//! What sysbench gets wrong and is not inherited: each fault, on a real server where one matters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use waggle_server::Flavour;

use super::bed::{Bed, Counts, Tool, both};
use super::running::Running;
use super::{ours, scripts};

const COMMON: &str = include_str!("../../scripts/order_suite_common.lua");
const SUITE: &str = include_str!("../../scripts/order_suite.lua");

/// What a script without a server printed, as `(thread, number)`.
fn drawn(script: &str, line: &str) -> Vec<(u32, i64)> {
    let directory = scripts();
    std::fs::write(directory.path().join("draw.lua"), script).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let said = ours(&words, directory.path());
    assert_eq!(said.code, Some(0), "{said:?}");
    let drawn = said.stdout.lines().filter_map(|line| {
        let (thread, number) = line.strip_prefix("drawn ")?.split_once(' ')?;
        Some((thread.parse().ok()?, number.parse().ok()?))
    });
    drawn.collect()
}

const DEFAULT: &str = "function event() print(string.format('drawn %d %d', sysbench.tid, \
                       sysbench.rand.default(1, 1000000))) end";
const UNIQUE: &str = "function event() print(string.format('drawn %d %d', sysbench.tid, \
                      sysbench.rand.unique())) end";

#[test]
fn gaussian_is_a_bell() {
    for dialect in ["1.0", "1.1"] {
        let line = format!(
            "draw.lua run --dialect={dialect} --rand-type=gaussian --rand-seed=3 --events=20000 \
             --time=0"
        );
        let drawn: Vec<f64> = drawn(DEFAULT, &line).iter().map(|d| d.1 as f64).collect();
        assert_eq!(drawn.len(), 20_000);
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let square = |value: &f64| (value - mean).powi(2);
        let deviation = (drawn.iter().map(square).sum::<f64>() / 20_000.0).sqrt();
        // The mean of 12 uniform draws from a range of one million.
        let expected = 1_000_000.0 / 12.0;
        assert!((mean - 500_000.0).abs() < expected / 20.0, "mean {mean}");
        assert!(
            (deviation / expected - 1.0).abs() < 0.05,
            "deviation {deviation}"
        );
        let near = drawn.iter().filter(|d| (*d - mean).abs() < deviation);
        let share = near.count() as f64 / 20_000.0;
        assert!((share - 0.683).abs() < 0.02, "{share} within one deviation");
    }
}

#[test]
fn unique_numbers_do_not_come_again_in_the_next_run() {
    let line = |more: &str| format!("draw.lua run --threads=3 --events=600 --time=0 {more}");
    let numbers = |more: &str| {
        let drawn = drawn(UNIQUE, &line(more));
        let numbers: BTreeSet<i64> = drawn.iter().map(|d| d.1).collect();
        assert_eq!(numbers.len(), 600, "one came twice");
        numbers
    };
    // Of 2^32 or so: a few may meet by chance, not a run's worth.
    let again = numbers("").intersection(&numbers("")).count();
    assert!(again < 10, "{again} of 600 came again");
    assert_eq!(numbers("--rand-seed=9"), numbers("--rand-seed=9"));
    assert_ne!(numbers("--rand-seed=9"), numbers("--rand-seed=10"));
}

#[test]
fn a_seed_reproduces_with_several_threads() {
    let run = |seed: u32| {
        let line = format!("draw.lua run --threads=3 --events=3000 --time=0 --rand-seed={seed}");
        let mut threads: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for (thread, number) in drawn(DEFAULT, &line) {
            threads.entry(thread).or_default().push(number);
        }
        threads
    };
    let (one, same, other) = (run(5), run(5), run(6));
    // Which thread gets how many of the events is chance; what it draws for them is not.
    let mut compared = 0;
    for (thread, numbers) in &one {
        let Some(again) = same.get(thread) else {
            continue;
        };
        let shared = numbers.len().min(again.len());
        assert_eq!(numbers[..shared], again[..shared], "thread {thread}");
        compared += shared;
        if let Some(other) = other.get(thread) {
            assert_ne!(numbers.first(), other.first(), "the seed changes nothing");
        }
    }
    assert!(compared > 0, "no thread ran in both");
    let first = |threads: &BTreeMap<u32, Vec<i64>>| -> BTreeSet<i64> {
        threads
            .values()
            .filter_map(|t| t.first().copied())
            .collect()
    };
    assert_eq!(first(&one).len(), one.len(), "threads draw the same");
}

#[test]
fn a_seed_loads_the_same_rows_with_several_threads() {
    let Some(mut bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    let mut load = |seed: u32| {
        let line =
            format!("oltp_read_write --tables=3 --threads=3 --table-size=400 --rand-seed={seed}");
        bed.well(Tool::Waggle, &format!("{line} prepare"));
        let sums = bed.rows("CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3");
        bed.well(Tool::Waggle, &format!("{line} cleanup"));
        sums
    };
    let sums = load(11);
    assert_eq!(sums, load(11));
    assert_ne!(sums, load(12));
    let different: BTreeSet<&String> = sums.iter().map(|row| &row[1]).collect();
    assert_eq!(
        different.len(),
        3,
        "the tables hold the same rows: {sums:?}"
    );
}

/// Ids beyond 32 bits, drawn, sent as text and bound.
const BIG: &str = "
    local first = 2 ^ 33
    function prepare()
      local con = sysbench.sql.driver():connect()
      con:query('CREATE TABLE big (id BIGINT PRIMARY KEY, v BIGINT)')
      con:bulk_insert_init('INSERT INTO big VALUES')
      for i = first + 1, first + 100 do
        con:bulk_insert_next(string.format('(%d, 0)', i))
      end
      con:bulk_insert_done()
    end
    function thread_init()
      con = sysbench.sql.driver():connect()
      bound = con:prepare('UPDATE big SET v = v + 1 WHERE id = ?')
      id = bound:bind_create(sysbench.sql.type.BIGINT)
      bound:bind_param(id)
    end
    function event()
      id:set(sysbench.rand.uniform(first + 1, first + 100))
      bound:execute()
      con:query(string.format('UPDATE big SET v = v + 1000 WHERE id = %d',
        sysbench.rand.default(first + 1, first + 100)))
    end
";

#[test]
fn keys_have_64_bits() {
    let Some(mut bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("big.lua", BIG);
    bed.well(Tool::Waggle, "big.lua prepare");
    let wanted = "SELECT COUNT(*) FROM sbtest.big WHERE id BETWEEN 8589934593 AND 8589934692";
    assert_eq!(bed.number(wanted), 100);
    for mode in ["auto", "disable"] {
        bed.rows("UPDATE sbtest.big SET v = 0");
        let line = format!("big.lua run --events=50 --time=0 --db-ps-mode={mode}");
        bed.well(Tool::Waggle, &line);
        // Every statement found its row.
        assert_eq!(bed.number("SELECT SUM(v) FROM sbtest.big"), 50 * 1001);
    }
}

#[test]
fn a_parallel_prepare_that_fails_is_a_failure() {
    let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
        return;
    };
    bed.script("order_suite.lua", SUITE);
    bed.script("order_suite_common.lua", COMMON);
    let line = "order_suite.lua prepare --threads=2";
    bed.well(Tool::Waggle, line);
    let again = bed.run(Tool::Waggle, line);
    assert_eq!(again.code, Some(1));
    assert!(again.stdout.contains("FATAL: "), "{again:?}");
    assert!(again.stdout.contains("error 1062"), "{again:?}");
    if both().is_some() {
        assert_eq!(bed.run(Tool::Sysbench, line).code, Some(0));
    }
}

fn kill(pid: u32) {
    // SAFETY: integers in, none of our memory; a server this test has started.
    let sent = unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGKILL) };
    assert_eq!(sent, 0);
}

/// A server that is gone for good ends the run, by the time limit or by that of reconnecting.
#[test]
fn a_dead_server_ends_the_run_with_a_report() {
    for (limit, code) in [("--time=4", None), ("--time=0", Some(1))] {
        let Some(bed) = Bed::open(Flavour::MariaDb, &[]) else {
            return;
        };
        let line = "oltp_point_select --table-size=100 --threads=2 --report-interval=1";
        bed.well(Tool::Waggle, &format!("{line} prepare"));
        let words = bed.words(&format!("{line} {limit} run"));
        let mut run = Running::start(Tool::Waggle, &words, bed.directory.path());
        run.wait_for("s ] thds:");
        kill(bed.server.pid());
        let said = run.ended();
        let counts = Counts::of(&said.stdout);
        assert!(counts.events > 0, "{said:?}");
        if code.is_some() {
            assert_eq!(said.code, code, "{said:?}");
        }
        assert!(said.stdout.contains("Threads fairness:"), "{said:?}");
    }
}

/// Two rows that every event changes by the same.
const PAIR: &str = "
    function thread_init()
      con = sysbench.sql.driver():connect()
      con:query('SET SESSION innodb_lock_wait_timeout = 1')
    end
    function event()
      con:query('BEGIN')
      con:query('UPDATE pair SET v = v + 1 WHERE id = 1')
      con:query('UPDATE pair SET v = v + 1 WHERE id = 2')
      con:query('COMMIT')
    end
";

/// Both rows after a run of 3 events that waited in vain for the second one at first.
fn pair_after_a_timeout(bed: &mut Bed, tool: Tool) -> (i64, i64, Counts) {
    bed.rows("REPLACE INTO sbtest.pair VALUES (1, 0), (2, 0)");
    let timeouts = "SELECT COUNT FROM information_schema.innodb_metrics \
                    WHERE name = 'lock_timeouts'";
    let before = bed.number(timeouts);
    bed.rows("BEGIN");
    bed.rows("SELECT v FROM sbtest.pair WHERE id = 2 FOR UPDATE");
    let words = bed.words("pair.lua run --events=3 --time=0");
    let run = Running::start(tool, &words, bed.directory.path());
    let deadline = Instant::now() + Duration::from_secs(60);
    while bed.number(timeouts) == before {
        assert!(Instant::now() < deadline, "no lock wait timed out");
    }
    bed.rows("ROLLBACK");
    let said = run.ended();
    assert_eq!(said.code, Some(0), "{said:?}");
    let row = |id: u32| format!("SELECT v FROM sbtest.pair WHERE id = {id}");
    let rows = (bed.number(&row(1)), bed.number(&row(2)));
    (rows.0, rows.1, Counts::of(&said.stdout))
}

#[test]
fn no_half_of_a_transaction_is_committed_after_a_lock_wait() {
    for flavour in [Flavour::MySql, Flavour::MariaDb] {
        let Some(mut bed) = Bed::open(flavour, &[]) else {
            continue;
        };
        bed.script("pair.lua", PAIR);
        bed.rows("CREATE TABLE sbtest.pair (id INT PRIMARY KEY, v INT) ENGINE = InnoDB");
        let (first, second, counts) = pair_after_a_timeout(&mut bed, Tool::Waggle);
        assert!(counts.ignored > 0, "{counts:?}");
        assert_eq!((first, second, counts.events), (3, 3, 3));
        if both().is_some() {
            let (first, second, _) = pair_after_a_timeout(&mut bed, Tool::Sysbench);
            assert!(first > second, "sysbench does well: {first} and {second}");
        }
    }
}
