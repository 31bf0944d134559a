//! Many workers on one thread: each on a stack of its own, all waiting in one io_uring.
//!
//! A worker of a load spends its time waiting for a server. As a thread it pays two context
//! switches and four system calls a statement for that; as a fiber it hands its request and the
//! buffer for the answer to the ring and another worker of the thread goes on, so that a thread
//! enters the kernel once for all answers that have come meanwhile. Scripts do not notice: their
//! Lua state runs on the fiber's stack, and compiled code of LuaJIT calls into this module as into
//! any function that takes its time.
//!
//! [`run`] is the loop of a thread; [`exchange`], [`sleep_until`] and [`park`] are what a fiber
//! may wait in; a [`Mailbox`] wakes a loop from outside. [`ring`] holds the kernel's side.
//!
//! Invariants: a fiber never moves to another thread; memory that the kernel may write to belongs
//! to a fiber that is suspended until the kernel is done with it, and a fiber that cannot be
//! brought to its end is never freed.

mod mailbox;
mod ring;
mod scheduler;
mod socket;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

use corosensei::Yielder;

pub(crate) use mailbox::Mailbox;
pub(crate) use ring::is_available;
pub(crate) use scheduler::{Task, run};
pub(crate) use socket::FiberSocket;

/// What a fiber waits for when it gives up its thread.
#[derive(Clone, Copy)]
enum Wait {
    Exchange(Exchange),
    /// Room in a socket's send buffer, or the end of its connecting.
    Writable(RawFd, Option<Duration>),
    /// A moment, or any mail.
    Until(Instant),
    /// Mail.
    Mail,
    /// Nothing: the others of the thread are to have their turn.
    Others,
    /// One of the thread's permits to connect.
    Permit,
}

/// Bytes to send, if any, then an answer to receive.
#[derive(Clone, Copy)]
struct Exchange {
    fd: RawFd,
    out: *const u8,
    out_len: u32,
    into: *mut u8,
    into_len: u32,
    limit: Option<Duration>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    /// What the kernel answered: bytes, or less than 0 an error number.
    result: i32,
    /// The bytes of the request that the socket took, if it did not take all of them.
    part: Option<u32>,
}

impl Answer {
    const NOTHING: Self = Self::whole(0);

    /// There was no request, or all of it was sent.
    const fn whole(result: i32) -> Self {
        Self { result, part: None }
    }

    /// The socket took so many bytes, and none have come.
    const fn part(sent: u32) -> Self {
        Self {
            result: 0,
            part: Some(sent),
        }
    }
}

type Suspender = Yielder<Answer, Wait>;

/// Fibers of a thread that may connect at once: what is more would fill the backlog of a server,
/// which answers that with seconds of silence.
const PERMITS: usize = 16;

thread_local! {
    /// The way back to the loop of the fiber that runs now; null outside of fibers.
    static CURRENT: Cell<*const Suspender> = const { Cell::new(ptr::null()) };
    /// Whether a fiber of this thread has waited since [`let_others`] was last called.
    static HAS_WAITED: Cell<bool> = const { Cell::new(false) };
    /// Permits to connect that nobody holds.
    static PERMITS_LEFT: Cell<usize> = const { Cell::new(PERMITS) };
}

/// Whether the caller runs as a fiber.
pub(crate) fn is_fiber() -> bool {
    !CURRENT.get().is_null()
}

/// Gives up the thread until `wait` is over.
fn suspend(wait: Wait) -> Answer {
    let current = CURRENT.get();
    assert!(!current.is_null(), "only a fiber can wait in a ring");
    // SAFETY: the loop sets it to the yielder of the fiber that it resumes, which lives on that
    // fiber's stack as long as the fiber, and clears it when the fiber gives up the thread.
    unsafe { &*current }.suspend(wait)
}

/// What the kernel answered, as a result.
fn bytes_of(answer: i32) -> io::Result<usize> {
    match answer {
        0.. => Ok(answer as usize),
        error if -error == libc::ETIME => Err(io::ErrorKind::TimedOut.into()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Sends `out`, then receives at least one byte into `into`; the bytes received, and the bytes
/// sent. `out` should be small enough for the socket's buffer: else it goes in parts, each with a
/// wait, and an answer that comes before the last one ends the exchange. If it cannot be sent,
/// bytes that have come all the same are the answer: the last words of a server that closed the
/// session.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::TimedOut`] after `limit` (noticed within half a second). The end
/// of the stream is 0 bytes received.
pub(crate) fn exchange(
    fd: RawFd,
    out: &[u8],
    into: &mut [u8],
    limit: Option<Duration>,
) -> io::Result<(usize, usize)> {
    HAS_WAITED.set(true);
    let mut sent = 0;
    loop {
        let rest = &out[sent..];
        // The pointers stay good: this frame, and with it both borrows, waits on the fiber's stack.
        let answer = suspend(Wait::Exchange(Exchange {
            fd,
            out: rest.as_ptr(),
            out_len: rest.len() as u32,
            into: into.as_mut_ptr(),
            into_len: into.len().min(u32::MAX as usize) as u32,
            limit,
        }));
        let Some(part) = answer.part else {
            return Ok((bytes_of(answer.result)?, out.len()));
        };
        sent += part as usize;
        if answer.result > 0 {
            return Ok((bytes_of(answer.result)?, sent));
        }
        writable(fd, limit)?;
    }
}

/// Waits until a socket takes more bytes, or a connect has ended.
///
/// # Errors
/// As [`exchange`].
pub(crate) fn writable(fd: RawFd, limit: Option<Duration>) -> io::Result<()> {
    bytes_of(suspend(Wait::Writable(fd, limit)).result).map(drop)
}

/// Between two events: lets the other fibers of the thread go on, if the last event waited for no
/// server. Costs nothing outside of fibers.
#[inline]
pub(crate) fn let_others() {
    if is_fiber() && !HAS_WAITED.replace(false) {
        suspend(Wait::Others);
    }
}

/// A turn at connecting, until it is dropped.
pub(crate) struct Permit(());

/// Waits for a turn at connecting. `None` outside of fibers.
pub(crate) fn permit() -> Option<Permit> {
    if !is_fiber() {
        return None;
    }
    match PERMITS_LEFT.get() {
        0 => _ = suspend(Wait::Permit),
        left => PERMITS_LEFT.set(left - 1),
    }
    Some(Permit(()))
}

impl Drop for Permit {
    fn drop(&mut self) {
        PERMITS_LEFT.set(PERMITS_LEFT.get() + 1);
    }
}

/// Waits until `moment`, or less when mail comes: the caller looks at the clock again.
pub(crate) fn sleep_until(moment: Instant) {
    suspend(Wait::Until(moment));
}

/// Waits for mail.
pub(crate) fn park() {
    suspend(Wait::Mail);
}
