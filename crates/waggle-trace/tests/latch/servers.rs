//! Waits for latches of real servers under a load that they share their latches for: have they
//! names, places and holders?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use waggle_server::Flavour;
use waggle_server::sandbox::{Sandbox, SandboxSpec};
use waggle_trace::latch::{Kind, Options, Source, Wait};
use waggle_wire::Connection;

use crate::DEADLINE;
use crate::server::server;

/// So many waits tell enough; on a slow host fewer have to do, in the time there is.
const ENOUGH: usize = 300;
const AT_LEAST: usize = 50;

fn of_server(server: &Sandbox, flavour: Flavour) -> Source {
    Source::attach(&Options {
        pid: server.pid(),
        flavour: Some(flavour),
        ring_bytes: 16 << 20,
        usdt: None,
        futexes: true,
        rw_locks: false,
    })
    .unwrap()
}

/// Sessions that insert and commit, which share the log and the table, until `is_enough`.
fn under_load(
    server: &Sandbox,
    source: &mut Source,
    mut is_enough: impl FnMut(&[Wait]) -> bool,
) -> Vec<Wait> {
    let mut first = Connection::connect(&server.dsn_socket()).unwrap();
    first.query(b"CREATE DATABASE d").unwrap();
    let table = b"CREATE TABLE d.t (a BIGINT AUTO_INCREMENT PRIMARY KEY, b INT, KEY (b))";
    first.query(table).unwrap();
    let over = AtomicBool::new(false);
    let mut waits: Vec<Wait> = Vec::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut connection = Connection::connect(&server.dsn_socket()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    connection
                        .query(b"INSERT INTO d.t (b) VALUES (1), (2)")
                        .unwrap();
                }
            });
        }
        while !is_enough(&waits) && began.elapsed() < DEADLINE {
            source.poll(|wait| waits.push(wait.clone()));
            // sleep: between two looks at the ring
            std::thread::sleep(Duration::from_millis(5));
        }
        over.store(true, Ordering::Relaxed);
    });
    source.finish(|wait| waits.push(wait.clone()));
    waits
}

/// Prints what a user would see, so that a failure can be understood.
fn show(source: &mut Source) {
    let counters = source.counters();
    println!("{counters:?} {:?}", source.probe_counters());
    for (name, runs, ns) in source.run_times() {
        println!("  {name}: {runs} runs, {} ns each", ns / runs.max(1));
    }
    for row in source.table.rows().iter().take(8) {
        let share = |ns: u64| 100.0 * ns as f64 / row.total_ns.max(1) as f64;
        println!(
            "{} {}: {} latches, {:?}, held {:.1}%, handing over {:.1}%, unobserved {:.1}%, \
             word {}/{}",
            source.naming.text(row.name),
            row.kind.as_str(),
            row.latches.len(),
            row.spread(),
            share(row.held_ns),
            share(row.handing_over_ns),
            share(row.unobserved_ns),
            row.word_agrees,
            row.word_agrees + row.word_differs,
        );
        let mut requests: Vec<_> = row.requests.iter().collect();
        requests.sort_by_key(|(_, request)| std::cmp::Reverse(request.wait_ns));
        for ((at, mode, stack), request) in requests.into_iter().take(2) {
            let at = at.map(|at| source.naming.request(at));
            let calls = stack.map(|stack| source.naming.stack(&source.stacks, stack));
            println!("   asked {at:?} {mode:?} {request:?} {:.8?}", calls);
        }
        let mut holders: Vec<_> = row.holders.iter().collect();
        holders.sort_by_key(|(_, holder)| std::cmp::Reverse(holder.blocked_ns));
        for (key, holder) in holders.into_iter().take(2) {
            let calls = key
                .stack
                .map(|stack| source.naming.stack(&source.stacks, stack));
            println!(
                "   held {:.1}% {} {:?} {calls:?}",
                share(holder.blocked_ns),
                source.naming.text(key.role),
                holder.hold(),
            );
        }
    }
}

#[test]
fn innodb_latches_of_mysql_have_names_places_and_holders() {
    let Some(server) = server(&SandboxSpec::new(Flavour::MySql)) else {
        return;
    };
    let mut source = of_server(&server, Flavour::MySql);
    assert_eq!(source.found().missing, []);
    let refused = source.found().placed.iter().filter(|p| p.refused.is_some());
    assert_eq!(refused.count(), 0, "{:?}", source.found().placed);
    let is_mutex = |wait: &&Wait| wait.kind == Kind::Mutex;
    let waits = under_load(&server, &mut source, |waits| {
        waits.iter().filter(is_mutex).count() >= ENOUGH
    });
    show(&mut source);
    let of_mutexes: Vec<&Wait> = waits.iter().filter(is_mutex).collect();
    assert!(of_mutexes.len() >= AT_LEAST, "{}", of_mutexes.len());
    let sum = |of: fn(&Wait) -> u64| of_mutexes.iter().map(|wait| of(wait)).sum::<u64>();
    let wait_ns = sum(|wait| wait.to_ns - wait.from_ns);
    assert_eq!(wait_ns, sum(|wait| wait.parts.total_ns()));
    // How long each part takes is the scheduler's doing.
    let released = of_mutexes.iter().filter(|wait| wait.parts.releases > 0);
    let known = released.clone().filter(|wait| !wait.parts.held.is_empty());
    let (released, known) = (released.count(), known.count());
    let all = of_mutexes.len();
    println!("of {all} waits {released} with a release, {known} with a holder");
    assert!(
        released * 10 >= all * 9,
        "{released} of {all} with a release"
    );
    assert!(
        known * 100 >= released * 99,
        "{known} of {released} with a holder"
    );
    let agreed = of_mutexes
        .iter()
        .filter(|w| w.word_agrees == Some(true))
        .count();
    let differed = of_mutexes
        .iter()
        .filter(|w| w.word_agrees == Some(false))
        .count();
    // They differ where the holder gave up the word and was taken off its processor before it set
    // the event: for all who begin to wait meanwhile, ten at a time. A wrong word never agrees.
    assert!(
        agreed > 2 * differed,
        "the owner's word: {agreed} agree, {differed} differ"
    );
    for wait in of_mutexes {
        let name = source.naming.text(source.naming.latch(wait.latch));
        assert!(
            name.chars()
                .all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c)),
            "{name}"
        );
        let at = source.naming.request(wait.request.expect("file and line"));
        assert!(
            at.contains(".cc:") || at.contains(".h:") || at.contains(".ic:"),
            "{at}"
        );
    }
}

#[test]
fn innodb_latches_of_mariadb_are_words_with_holders() {
    let Some(server) = server(&SandboxSpec::new(Flavour::MariaDb)) else {
        return;
    };
    let mut source = of_server(&server, Flavour::MariaDb);
    let is_word = |wait: &&Wait| wait.kind == Kind::Futex;
    let waits = under_load(&server, &mut source, |waits| {
        waits.iter().filter(is_word).count() >= ENOUGH
    });
    show(&mut source);
    let of_words: Vec<&Wait> = waits.iter().filter(is_word).collect();
    assert!(of_words.len() >= AT_LEAST, "{}", of_words.len());
    for wait in &of_words {
        assert_eq!(wait.parts.total_ns(), wait.to_ns - wait.from_ns);
    }
    assert!(of_words.iter().any(|wait| !wait.parts.held.is_empty()));
}
