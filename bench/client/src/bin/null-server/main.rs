//! null-server: a MySQL server that answers from memory, so that the client is what limits.
//!
//! It lets anybody in, prepares whatever it is given, and answers by the shape of the statement:
//! one row of c for a point select, 100 for a range, OK for the rest. Neighbours: `answers` makes
//! the packets once, `conversation` reads commands, `login` greets. Invariant: it stores nothing,
//! and an answer costs a copy of bytes that were made at the start.

mod answers;
mod conversation;
mod login;

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;

use answers::Answers;
use conversation::Conversation;

/// Answers MySQL clients from memory until it is killed or standard input ends.
#[derive(Debug, Parser)]
struct Args {
    /// Where the Unix socket is made.
    #[arg(long)]
    socket: PathBuf,
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Threads that answer; each serves its share of the connections.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Rows of a range select.
    #[arg(long, default_value_t = 100)]
    range_size: usize,
}

/// A client whose login takes longer is dropped; others wait meanwhile.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How many ready connections one wait gives.
const EVENTS: usize = 256;

/// A thread that answers.
struct Loop {
    epoll: RawFd,
    /// Connections that were handed over and not yet met.
    arrived: Mutex<HashMap<RawFd, Conversation>>,
}

/// What all threads share.
struct Server {
    answers: Answers,
    loops: Vec<Loop>,
    /// Statements executed, as a server's Questions.
    questions: AtomicU64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(args.threads > 0, "--threads 0 answers nobody");
    // What an earlier one left behind.
    let _ = std::fs::remove_file(&args.socket);
    let unix = UnixListener::bind(&args.socket)
        .with_context(|| format!("listening at {}", args.socket.display()))?;
    let tcp = TcpListener::bind(("127.0.0.1", args.port)).context("listening on 127.0.0.1")?;
    let server = Arc::new(Server {
        answers: Answers::new(args.range_size),
        loops: (0..args.threads)
            .map(|_| Loop::new())
            .collect::<Result<_, _>>()?,
        questions: AtomicU64::new(0),
    });
    for number in 0..args.threads {
        let server = server.clone();
        std::thread::spawn(move || serve(&server, number));
    }
    println!(
        "{}",
        serde_json::json!({
            "socket": args.socket,
            "port": tcp.local_addr()?.port(),
            "pid": std::process::id(),
        })
    );
    std::io::stdout().flush()?;
    let next = Arc::new(AtomicU64::new(0));
    let (for_tcp, next_tcp) = (server.clone(), next.clone());
    std::thread::spawn(move || {
        for socket in tcp.incoming().flatten() {
            // Without it an answer in two segments would wait for an acknowledgement.
            let _ = socket.set_nodelay(true);
            let _ = socket.set_read_timeout(Some(LOGIN_TIMEOUT));
            admit(&for_tcp, &next_tcp, socket);
        }
    });
    std::thread::spawn(move || {
        for socket in unix.incoming().flatten() {
            let _ = socket.set_read_timeout(Some(LOGIN_TIMEOUT));
            admit(&server, &next, socket);
        }
    });
    // It ends with whoever holds the other end, also after a kill.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let _ = std::fs::remove_file(&args.socket);
    Ok(())
}

/// Logs a client in and hands it to a thread; one that does not log in is dropped.
fn admit<S>(server: &Server, next: &AtomicU64, mut socket: S)
where
    S: std::io::Read + Write + Into<OwnedFd>,
{
    let id = next.fetch_add(1, Ordering::Relaxed);
    let Ok(capabilities) = login::greet(&mut socket, id as u32 + 1) else {
        return;
    };
    let conversation = Conversation::new(socket.into(), capabilities);
    let fd = conversation.fd();
    let chosen = &server.loops[id as usize % server.loops.len()];
    chosen
        .arrived
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(fd, conversation);
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: fd as u64,
    };
    // SAFETY: the event is read during the call alone.
    if unsafe { libc::epoll_ctl(chosen.epoll, libc::EPOLL_CTL_ADD, fd, &mut event) } != 0 {
        eprintln!("epoll_ctl: {}", std::io::Error::last_os_error());
    }
}

impl Loop {
    fn new() -> anyhow::Result<Loop> {
        // SAFETY: takes no pointers; the descriptor lives as long as the process.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        ensure!(
            epoll >= 0,
            "epoll_create1: {}",
            std::io::Error::last_os_error()
        );
        Ok(Loop {
            epoll,
            arrived: Mutex::default(),
        })
    }
}

/// The body of a thread that answers.
fn serve(server: &Server, number: usize) {
    let own = &server.loops[number];
    let mut conversations: HashMap<RawFd, Conversation> = HashMap::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    loop {
        // SAFETY: room for EVENTS events is given.
        let count = unsafe { libc::epoll_wait(own.epoll, events.as_mut_ptr(), EVENTS as i32, -1) };
        for event in &events[..count.max(0) as usize] {
            let fd = event.u64 as RawFd;
            let conversation = conversations.entry(fd).or_insert_with(|| {
                own.arrived
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&fd)
                    .expect("a watched socket was handed over")
            });
            if !conversation.answer(&server.answers, &server.questions) {
                // Closing takes it out of the epoll set, too.
                conversations.remove(&fd);
            }
        }
    }
}

impl Conversation {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
