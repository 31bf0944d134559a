//! bare-loop: what the client's side of a statement costs at least, one way of waiting at a time.
//!
//! No script, no clock an event, no histogram: a packet out, the end of the answer found. It is the
//! floor that the pairing reports, and the bed on which ways of waiting are compared before waggle
//! takes one over. Invariant: what it prints is measured from outside the loop (its own rusage).

mod epoll;
mod threads;
mod uring;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use waggle_bench_client::login::{self, Place};
use waggle_bench_client::session::{Done, Session};
use waggle_bench_client::statements::{Statements, Workload};

/// Loads a server with the bare minimum of a client and prints what that cost, as JSON.
#[derive(Debug, Parser)]
struct Args {
    /// The server's Unix socket.
    #[arg(long, conflicts_with = "port", required_unless_present = "port")]
    socket: Option<PathBuf>,
    /// The server's port on 127.0.0.1.
    #[arg(long)]
    port: Option<u16>,
    /// Connections.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Seconds to run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// What to send.
    #[arg(long, value_enum, default_value_t = Workload::PointSelect)]
    workload: Workload,
    /// Tables sbtest1 to sbtestN; each connection has one.
    #[arg(long, default_value_t = 1)]
    tables: u32,
    /// Rows of each table.
    #[arg(long, default_value_t = 10_000)]
    table_size: u32,
    /// How to wait for an answer.
    #[arg(long, value_enum, default_value_t = Wait::TryPoll)]
    wait: Wait,
    /// Attempts before waiting (`spin`, `yield`).
    #[arg(long, default_value_t = 50)]
    attempts: u32,
    /// Threads (`epoll`, `uring`); 0: one a connection.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Ways to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Receive without waiting; nothing there: poll, then receive.
    TryPoll,
    /// Poll first, then receive.
    Poll,
    /// A receive that blocks.
    Block,
    /// Receive without waiting several times, then poll.
    Spin,
    /// The same, yielding the processor between two attempts.
    Yield,
    /// Receive without waiting; nothing there: an epoll descriptor of its own, then receive.
    TryEpoll,
    /// Several connections a thread, level-triggered epoll.
    Epoll,
    /// io_uring: a send and a receive linked, one system call for both.
    Uring,
    /// io_uring: send by itself, then a receive through the ring.
    UringRecv,
}

/// When to begin and when to end, for all threads.
struct Run {
    barrier: Barrier,
    over: AtomicBool,
}

impl Run {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// System calls a thread made.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
struct Calls {
    sends: u64,
    receives: u64,
    receives_empty: u64,
    waits: u64,
}

/// A logged-in connection and its session.
struct Client {
    socket: std::os::fd::OwnedFd,
    session: Session,
}

impl Client {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let place = match (&args.socket, args.port) {
        (Some(path), _) => Place::Socket(path.clone()),
        (None, Some(port)) => Place::Port(port),
        (None, None) => anyhow::bail!("--socket or --port"),
    };
    ensure!(
        args.connections > 0 && args.tables > 0,
        "at least one connection and one table"
    );
    let mut clients = Vec::new();
    for number in 0..args.connections {
        clients.push(client(&args, &place, number).context("opening a connection")?);
    }
    let ran = run_all(&args, clients)?;
    let us = |seconds: f64| seconds * 1e6 / ran.done.queries.max(1) as f64;
    println!(
        "{}",
        serde_json::json!({
            "queries": ran.done.queries,
            "events": ran.done.events,
            "errors": ran.done.errors,
            "duration_s": ran.wall.as_secs_f64(),
            "qps": ran.done.queries as f64 / ran.wall.as_secs_f64(),
            "user_us_per_query": us(ran.spent.user_s),
            "system_us_per_query": us(ran.spent.system_s),
            "switches_voluntary": ran.spent.voluntary,
            "switches_involuntary": ran.spent.involuntary,
            "calls": ran.calls,
        })
    );
    Ok(())
}

/// What a run did and used.
struct Ran {
    done: Done,
    calls: Calls,
    wall: Duration,
    spent: Usage,
}

/// Shares the connections out among threads and lets these run together.
fn run_all(args: &Args, clients: Vec<Client>) -> anyhow::Result<Ran> {
    let threads = match args.wait {
        Wait::Epoll | Wait::Uring if args.threads > 0 => args.threads.min(args.connections),
        _ => args.connections,
    };
    let run = Run {
        barrier: Barrier::new(threads + 1),
        over: AtomicBool::new(false),
    };
    let mut shares: Vec<Vec<Client>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, client) in clients.into_iter().enumerate() {
        shares[number % threads].push(client);
    }
    let (mut done, mut calls) = (Done::default(), Calls::default());
    let (mut wall, mut before) = (Duration::ZERO, usage());
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let handles: Vec<_> = (0..)
            .zip(shares)
            .map(|(number, share)| {
                let run = &run;
                std::thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, move || body(args, run, number, share))
            })
            .collect::<Result<_, _>>()?;
        run.barrier.wait();
        before = usage();
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(args.seconds));
        run.over.store(true, Ordering::Relaxed);
        for handle in handles {
            let (d, c) = handle
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            done.queries += d.queries;
            done.events += d.events;
            done.errors += d.errors;
            calls.sends += c.sends;
            calls.receives += c.receives;
            calls.receives_empty += c.receives_empty;
            calls.waits += c.waits;
        }
        wall = began.elapsed();
        Ok(())
    })?;
    Ok(Ran {
        done,
        calls,
        wall,
        spent: usage().since(&before),
    })
}

fn client(args: &Args, place: &Place, number: usize) -> anyhow::Result<Client> {
    let logged_in = login::connect(place)?;
    let mut stream = File::from(logged_in.socket);
    let statements = Statements::prepare(
        &mut stream,
        args.workload,
        number as u32 % args.tables + 1,
        args.table_size,
        (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        logged_in.deprecates_eof,
    )?;
    Ok(Client {
        socket: stream.into(),
        session: Session::new(statements, logged_in.deprecates_eof),
    })
}

/// Keeps the thread of a ring to a processor of its own, if each has one, as the load does.
fn pin(number: usize, threads: usize) {
    let allowed = sched_getaffinity(None);
    let is_allowed = |cpu: &usize| allowed.as_ref().is_ok_and(|set| set.is_set(*cpu));
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(is_allowed).collect();
    if processors.len() == threads {
        let mut only = CpuSet::new();
        only.set(processors[number]);
        let _ = sched_setaffinity(None, &only);
    }
}

fn body(
    args: &Args,
    run: &Run,
    number: usize,
    mut share: Vec<Client>,
) -> anyhow::Result<(Done, Calls)> {
    if args.wait == Wait::Uring {
        pin(number, args.threads);
    }
    let ran = match args.wait {
        Wait::Epoll => epoll::run(&mut share, run),
        Wait::Uring => uring::run(&mut share, run),
        Wait::UringRecv => uring::run_receiving(&mut share[0], run),
        wait => threads::run(&mut share[0], wait, args.attempts, run),
    };
    let mut done = Done::default();
    for client in &mut share {
        done.queries += client.session.done.queries;
        done.events += client.session.done.events;
        done.errors += client.session.done.errors;
        // The server closes the session when it has read this.
        let mut stream = File::from(client.socket.try_clone()?);
        let _ = stream.write_all(&[1, 0, 0, 0, 1]);
        let _ = stream.flush();
    }
    Ok((done, ran?))
}

/// CPU time and context switches of this process.
#[derive(Debug, Clone, Copy)]
struct Usage {
    user_s: f64,
    system_s: f64,
    voluntary: i64,
    involuntary: i64,
}

impl Usage {
    fn since(&self, before: &Usage) -> Usage {
        Usage {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
        }
    }
}

fn usage() -> Usage {
    // SAFETY: an all-zero rusage is a valid value, and getrusage only fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        voluntary: usage.ru_nvcsw,
        involuntary: usage.ru_nivcsw,
    }
}
