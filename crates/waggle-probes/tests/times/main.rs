//! Is a statement's time split as it was spent? This process plays the server: its threads carry
//! out "statements" whose computing and waiting is known from the threads' own CPU clocks.

mod bed;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use waggle_probes::clock::now_ns;
use waggle_probes::sched::Doing;
use waggle_probes::wait::WaitClass;

use bed::{Bed, Session, compute, pin, run};

/// Short statements: the thread's accounted run time is brought up to date by the clock's tick
/// only, so that a probe that read it would be wrong for nearly every one of them.
#[test]
fn cpu_of_a_short_statement() {
    let Some(mut bed) = Bed::make() else { return };
    let told = run(400, || compute(50_000));
    let seen = bed.seen();
    assert_eq!(seen.len(), told.len());
    let mut off: Vec<u64> = seen
        .iter()
        .zip(&told)
        .map(|(seen, told)| seen.times.cpu_ns.abs_diff(*told))
        .collect();
    off.sort_unstable();
    println!(
        "off by {} ns in the middle, {} ns at 90%, {} ns at most",
        off[200], off[360], off[399]
    );
    // Read the wrong way, nearly each would be off by all of its 50 us; a trap costs up to 12.
    assert!(off[200] < 20_000, "{off:?}");
}

/// A thread that shares its processor with a busy one: being preempted is no CPU time, but time
/// runnable, and a switch that was forced.
#[test]
fn preempted_is_runnable() {
    let Some(mut bed) = Bed::make() else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let busy = thread::spawn(move || {
        pin();
        while !stopped.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let told = run(6, || {
        pin();
        compute(20_000_000);
    });
    stop.store(true, Ordering::Relaxed);
    busy.join().expect("the busy thread");
    let seen = bed.seen();
    assert_eq!(seen.len(), told.len());
    for (seen, told) in seen.iter().zip(&told) {
        assert!(seen.has_cpu(*told), "{told}: {seen:?}");
    }
    let forced: u32 = seen.iter().map(|s| s.switches.1).sum();
    let runnable: u64 = seen.iter().map(|s| s.times.runnable_ns).sum();
    let wall: u64 = seen.iter().map(|s| s.wall).sum();
    assert!(forced > 0 && runnable > wall / 10, "{seen:?}");
}

#[test]
fn sleeping_is_blocked() {
    let Some(mut bed) = Bed::make() else { return };
    let told = run(5, || {
        compute(100_000);
        // sleep: what is measured
        thread::sleep(Duration::from_millis(20));
        compute(100_000);
    });
    let seen = bed.seen();
    assert_eq!(seen.len(), told.len());
    for (seen, told) in seen.iter().zip(&told) {
        assert!(seen.blocked(WaitClass::Sleep) >= 19_900_000, "{seen:?}");
        assert_eq!(seen.others(WaitClass::Sleep), 0, "{seen:?}");
        assert!(seen.has_cpu(*told), "{told}: {seen:?}");
        assert!(seen.times.cpu_ns < seen.wall / 4, "{told}: {seen:?}");
        assert!(seen.switches.0 >= 1, "{seen:?}");
    }
}

/// A mutex that another thread holds.
#[test]
fn waiting_for_a_mutex_is_a_latch() {
    let Some(mut bed) = Bed::make() else { return };
    let mutex = Arc::new(Mutex::new(()));
    let turn = Arc::new(AtomicU32::new(0));
    let (theirs, their_turn) = (Arc::clone(&mutex), Arc::clone(&turn));
    let holder = thread::spawn(move || {
        for round in 0..5 {
            let held = theirs.lock().expect("not poisoned");
            their_turn.store(2 * round + 1, Ordering::Release);
            // sleep: what the other thread waits for
            thread::sleep(Duration::from_millis(10));
            drop(held);
            while their_turn.load(Ordering::Acquire) != 2 * round + 2 {
                thread::yield_now();
            }
        }
    });
    let waiter = thread::spawn(move || {
        let mut session = Session::new(1);
        for round in 0..5 {
            while turn.load(Ordering::Acquire) != 2 * round + 1 {
                thread::yield_now();
            }
            session.statement(|| drop(mutex.lock().expect("not poisoned")));
            turn.store(2 * round + 2, Ordering::Release);
        }
    });
    waiter.join().expect("the thread");
    holder.join().expect("the holder");
    let seen = bed.seen();
    assert_eq!(seen.len(), 5);
    let waited: u64 = seen.iter().map(|s| s.blocked(WaitClass::Latch)).sum();
    let wall: u64 = seen.iter().map(|s| s.wall).sum();
    assert!(waited > wall / 2, "{seen:?}");
    assert!(
        seen.iter().all(|s| s.others(WaitClass::Latch) == 0),
        "{seen:?}"
    );
}

/// Between two statements the client is waited for, which is nobody's time; within one it is the
/// statement's.
#[test]
fn the_client_between_statements_and_within_one() {
    const PARTS: u32 = 3;
    let Some(mut bed) = Bed::make() else { return };
    let (mut client, mut server) = UnixStream::pair().expect("a pair of sockets");
    let asked = Arc::new(AtomicU32::new(0));
    let asks = Arc::clone(&asked);
    let serving = thread::spawn(move || {
        let mut session = Session::new(1);
        let mut byte = [0];
        for round in 0..6 {
            server.read_exact(&mut byte).expect("a statement");
            session.statement(|| {
                compute(100_000);
                for part in (0..PARTS).take_while(|_| round % 2 == 1) {
                    // Asks for more of a file.
                    asks.store(10 * round + part + 1, Ordering::Release);
                    server.read_exact(&mut byte).expect("a part");
                    compute(50_000);
                }
            });
        }
    });
    for round in 0..6 {
        // sleep: what the server waits for
        thread::sleep(Duration::from_millis(10));
        client.write_all(b"q").expect("sent");
        for part in (0..PARTS).take_while(|_| round % 2 == 1) {
            let until = Instant::now() + Duration::from_secs(20);
            while asked.load(Ordering::Acquire) != 10 * round + part + 1 {
                assert!(Instant::now() < until, "the file is never asked for");
                thread::yield_now();
            }
            // sleep: what the server waits for
            thread::sleep(Duration::from_millis(5));
            client.write_all(b"f").expect("sent");
        }
    }
    serving.join().expect("the thread");
    let seen = bed.seen();
    assert_eq!(seen.len(), 6);
    for (round, seen) in seen.iter().enumerate() {
        assert_eq!(seen.times.remainder_ns, 0, "{round}: {seen:?}");
        assert_eq!(seen.others(WaitClass::NetworkRead), 0, "{round}: {seen:?}");
        let read = seen.blocked(WaitClass::NetworkRead);
        if round % 2 == 1 {
            assert!(read > seen.wall / 2, "{round}: {seen:?}");
        } else {
            assert_eq!(read, 0, "{round}: {seen:?}");
        }
    }
}

/// A thread that was there before it was watched: its life so far is no statement's, and of the
/// statement under way, on a processor or waiting, what was before is not known.
#[test]
fn a_thread_from_before() {
    for waits in [true, false] {
        let go = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let seen_go = Arc::clone(&go);
        let serving = thread::spawn(move || {
            // sleep: each is a switch
            (0..1000).for_each(|_| thread::sleep(Duration::from_micros(1)));
            let mut session = Session::new(1);
            session.statement(|| {
                let start_ns = now_ns();
                compute(5_000_000);
                tell.send(start_ns).expect("somebody waits for it");
                while !seen_go.load(Ordering::Acquire) {
                    if waits {
                        thread::park();
                    }
                }
            });
            session.statement(|| compute(50_000));
        });
        let start_ns = told.recv().expect("a start");
        let unknown = now_ns() - start_ns;
        let bed = Bed::make();
        go.store(true, Ordering::Release);
        serving.thread().unpark();
        serving.join().expect("the thread");
        let Some(mut bed) = bed else { return };
        let seen = bed.seen();
        assert_eq!(seen.len(), 2);
        assert!(seen[0].times.remainder_ns >= unknown, "{unknown}: {seen:?}");
        // The start is kept in whole microseconds.
        assert!(seen[1].times.remainder_ns < 2_000, "{seen:?}");
        for seen in &seen {
            assert!(seen.switches.0 < 100, "{seen:?}");
        }
    }
}

/// What threads do can be read while they do it.
#[test]
fn live_threads() {
    let Some(bed) = Bed::make() else { return };
    let (mut client, mut server) = UnixStream::pair().expect("a pair of sockets");
    let tid = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&tid);
    let idle = thread::spawn(move || {
        // SAFETY: a plain system call.
        told.store(unsafe { libc::gettid() }.unsigned_abs(), Ordering::Release);
        let _ = server.read(&mut [0]);
    });
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut found = None;
        bed.sched.each_thread(|thread| {
            if thread.tid == tid.load(Ordering::Acquire) {
                found = Some(thread);
            }
        });
        if let Some(thread) = found
            && thread.doing == Doing::Idle
        {
            assert_eq!(thread.pid, std::process::id());
            break;
        }
        assert!(Instant::now() < until, "never seen idle: {found:?}");
        thread::yield_now();
    }
    client.write_all(b"x").expect("sent");
    idle.join().expect("the thread");
    assert!(bed.sched.counters().expect("counters").switches > 0);
}
