use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use waggle_need::need;

use super::*;
use crate::driver::mysql::MySql;
use crate::driver::{Driver, DriverError};
use waggle_wire::Io;

mod sending;

const STACK_BYTES: usize = 128 << 10;

/// True where this kernel has what the tests need; the engine falls back to threads elsewhere.
fn available() -> bool {
    need("io_uring", is_available(), "this kernel refuses it")
}

/// A server that answers every message with the same bytes, doubled.
fn echo(mut socket: UnixStream) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 256];
        while let Ok(length @ 1..) = socket.read(&mut buffer) {
            let doubled = buffer[..length].repeat(2);
            if socket.write_all(&doubled).is_err() {
                return;
            }
        }
    })
}

#[test]
fn fibers_talk_to_their_own_servers_on_one_thread() {
    if !available() {
        return;
    }
    let heard = Rc::new(RefCell::new(Vec::new()));
    let mut servers = Vec::new();
    let tasks = (0..40u8).map(|number| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        servers.push(echo(theirs));
        let heard = heard.clone();
        Box::new(move || {
            assert!(is_fiber());
            for round in 0..50u8 {
                let mut buffer = [0; 16];
                let out = [number, round, 7];
                let mut got = exchange(ours.as_raw_fd(), &out, &mut buffer, None)
                    .unwrap()
                    .0;
                while got < 6 {
                    let rest = &mut buffer[got..];
                    got += exchange(ours.as_raw_fd(), &[], rest, None).unwrap().0;
                }
                assert_eq!(buffer[..6], out.repeat(2));
            }
            heard.borrow_mut().push(number);
        }) as Task
    });
    let tasks: Vec<Task> = tasks.collect();
    run(tasks, STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    assert!(!is_fiber());
    let mut heard = heard.take();
    heard.sort_unstable();
    assert_eq!(heard, (0..40).collect::<Vec<_>>());
    for server in servers {
        server.join().unwrap();
    }
}

#[test]
fn a_socket_that_ends_or_is_shut_down_answers() {
    if !available() {
        return;
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (broken, _other_end) = UnixStream::pair().unwrap();
    broken.shutdown(std::net::Shutdown::Both).unwrap();
    drop(theirs);
    let task = move || {
        let mut buffer = [0; 8];
        assert_eq!(
            exchange(ours.as_raw_fd(), &[], &mut buffer, None).unwrap(),
            (0, 0)
        );
        let sent = exchange(ours.as_raw_fd(), b"x", &mut buffer, None);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let sent = exchange(broken.as_raw_fd(), b"x", &mut buffer, None);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
}

#[test]
fn a_deadline_ends_a_wait_that_nobody_answers() {
    if !available() {
        return;
    }
    let (ours, _silent) = UnixStream::pair().unwrap();
    let task = move || {
        let mut buffer = [0; 8];
        let begun = Instant::now();
        let limit = Duration::from_millis(10);
        let answer = exchange(ours.as_raw_fd(), b"x", &mut buffer, Some(limit));
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= limit);
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
}

#[test]
fn mail_wakes_those_that_park_and_those_that_sleep() {
    if !available() {
        return;
    }
    let mailbox = Arc::new(Mailbox::new().unwrap());
    let woken = Rc::new(RefCell::new(Vec::new()));
    let far = Instant::now() + Duration::from_secs(3600);
    let (parked, asleep, poster) = (woken.clone(), woken.clone(), mailbox.clone());
    let tasks: Vec<Task> = vec![
        Box::new(move || {
            park();
            parked.borrow_mut().push("parked");
        }),
        Box::new(move || {
            sleep_until(far);
            asleep.borrow_mut().push("asleep");
        }),
        // Runs when the others wait already.
        Box::new(move || _ = thread::spawn(move || poster.post())),
    ];
    run(tasks, STACK_BYTES, &mailbox).unwrap();
    assert_eq!(*woken.borrow(), ["parked", "asleep"]);
}

#[test]
fn sleepers_wake_in_the_order_of_their_moments() {
    if !available() {
        return;
    }
    let woken = Rc::new(RefCell::new(Vec::new()));
    let start = Instant::now();
    let tasks = [30u64, 10, 20].map(|after_ms| {
        let woken = woken.clone();
        Box::new(move || {
            let moment = start + Duration::from_millis(after_ms);
            sleep_until(moment);
            assert!(Instant::now() >= moment);
            woken.borrow_mut().push(after_ms);
        }) as Task
    });
    run(tasks.into(), STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    assert_eq!(*woken.borrow(), [10, 20, 30]);
}

#[test]
fn more_bytes_than_a_socket_takes_are_sent_in_turns() {
    if !available() {
        return;
    }
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    const BYTES: usize = 4 << 20;
    let reader = thread::spawn(move || {
        let mut all = vec![0; BYTES];
        theirs.read_exact(&mut all).unwrap();
        all.iter().all(|byte| *byte == 5)
    });
    let task = move || {
        let (all, mut sent) = (vec![5; BYTES], 0);
        while sent < BYTES {
            match (&ours).write(&all[sent..]) {
                Ok(length) => sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    writable(ours.as_raw_fd(), None).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    assert!(reader.join().unwrap());
}

/// A fiber that talks once to a server and then says so.
fn talks(done: &Rc<Cell<bool>>) -> (Task, thread::JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let done = done.clone();
    let task = move || {
        let mut buffer = [0; 2];
        assert_eq!(
            exchange(ours.as_raw_fd(), b"x", &mut buffer, None).unwrap(),
            (2, 1)
        );
        done.set(true);
    };
    (Box::new(task), echo(theirs))
}

#[test]
fn fibers_that_never_wait_for_a_server_leave_the_thread_to_those_that_do() {
    if !available() {
        return;
    }
    let done = Rc::new(Cell::new(false));
    let (talker, server) = talks(&done);
    let (computes, naps) = (done.clone(), done.clone());
    let tasks: Vec<Task> = vec![
        Box::new(move || {
            while !computes.get() {
                let_others();
            }
        }),
        // Due again whenever the loop looks.
        Box::new(move || {
            while !naps.get() {
                sleep_until(Instant::now());
            }
        }),
        talker,
    ];
    run(tasks, STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    server.join().unwrap();
}

#[test]
fn permits_are_few_and_go_round() {
    if !available() {
        return;
    }
    let (now, most, all) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let counts = Rc::new((now, most, all));
    let tasks = (0..5 * PERMITS).map(|_| {
        let counts = counts.clone();
        Box::new(move || {
            let permit = permit();
            let (now, most, all) = &*counts;
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            all.set(all.get() + 1);
            suspend(Wait::Others);
            now.set(now.get() - 1);
            drop(permit);
        }) as Task
    });
    run(tasks.collect(), STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    assert_eq!(
        (counts.0.get(), counts.1.get(), counts.2.get()),
        (0, PERMITS, 5 * PERMITS)
    );
    assert!(permit().is_none(), "threads need none");
}

#[test]
fn a_flush_sends_all_in_order_and_without_a_wait_says_so() {
    if !available() {
        return;
    }
    const BYTES: usize = 1 << 20;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let full = ours.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut all = vec![0; BYTES + 3];
        theirs.read_exact(&mut all).unwrap();
        (all, theirs)
    });
    let task = move || {
        let mut socket = FiberSocket::new(Arc::new(ours.into()));
        socket.send(b"abc", None).unwrap();
        socket.send(&vec![7; BYTES], None).unwrap();
        socket.flush(None).unwrap();
    };
    run(vec![Box::new(task)], STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    let (all, _open) = reader.join().unwrap();
    assert_eq!((&all[..3], all[3..] == vec![7; BYTES]), (&b"abc"[..], true));
    let mut socket = FiberSocket::new(Arc::new(full.into()));
    let error = socket.send(&vec![7; 8 * BYTES], Some(Duration::ZERO));
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

/// A server that takes connections and says nothing: connecting must not hold the thread up, and
/// what breaks it off must reach every attempt.
#[test]
fn connecting_leaves_the_thread_to_others_and_can_be_broken_off() {
    if !available() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let dsn = format!("mysql://root@localhost/?socket={}", path.display());
    let driver = Rc::new(MySql::new(vec![dsn.parse().unwrap()], None));
    let interrupters = Rc::new(RefCell::new(Vec::new()));
    let is_over = Rc::new(Cell::new(false));
    let workers = PERMITS + 4;
    let mut tasks: Vec<Task> = Vec::new();
    for _ in 0..workers {
        let (driver, interrupters) = (driver.clone(), interrupters.clone());
        let is_over = is_over.clone();
        tasks.push(Box::new(move || {
            let opened = driver.connect_breakably(&mut |interrupter| {
                interrupters.borrow_mut().push(interrupter);
                !is_over.get()
            });
            let Err(DriverError::Lost { message, .. }) = opened else {
                panic!("nobody answered");
            };
            assert!(!message.contains("no progress"), "{message}");
        }));
    }
    let seen = interrupters.clone();
    tasks.push(Box::new(move || {
        while seen.borrow().len() < PERMITS {
            suspend(Wait::Others);
        }
        is_over.set(true);
        for interrupt in seen.borrow().iter() {
            interrupt();
        }
    }));
    run(tasks, STACK_BYTES, &Mailbox::new().unwrap()).unwrap();
    assert_eq!(interrupters.borrow().len(), workers);
}
