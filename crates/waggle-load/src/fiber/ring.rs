//! The kernel's side: operations go in, completions come out.
//!
//! Invariant: whoever pushes an operation keeps its memory untouched until it is completed; the
//! ring knows only numbers and pointers.

use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use super::Exchange;

/// One wait of one fiber: a completion that belongs to an earlier one is told from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) fiber: u32,
    /// Counts the fiber's waits, in 24 bits.
    pub(super) turn: u32,
}

/// Whose completion it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The answer of a fiber's exchange, or the poll it waits in.
    Answer(Ticket),
    /// A send that failed or was taken in part; one that went right completes silently.
    Send(Ticket),
    Mail,
    Tick,
    Ignored,
}

/// `IORING_RECVSEND_POLL_FIRST` of linux/io_uring.h (kernel 5.19).
const POLL_FIRST: u16 = 1;

const TURN_SHIFT: u32 = 32;
const KIND_SHIFT: u32 = 56;

impl Ticket {
    /// The fiber's next wait.
    pub(super) fn next(self) -> Ticket {
        let turn = (self.turn + 1) & ((1 << (KIND_SHIFT - TURN_SHIFT)) - 1);
        Ticket { turn, ..self }
    }

    fn encoded(self) -> u64 {
        (u64::from(self.turn) << TURN_SHIFT) | u64::from(self.fiber)
    }

    fn decoded(user_data: u64) -> Ticket {
        Ticket {
            fiber: user_data as u32,
            turn: ((user_data << (64 - KIND_SHIFT)) >> (64 - KIND_SHIFT + TURN_SHIFT)) as u32,
        }
    }
}

impl Token {
    fn encoded(self) -> u64 {
        let (kind, ticket) = match self {
            Token::Answer(ticket) => (0, ticket.encoded()),
            Token::Send(ticket) => (1, ticket.encoded()),
            Token::Mail => (2, 0),
            Token::Tick => (3, 0),
            Token::Ignored => (4, 0),
        };
        (kind << KIND_SHIFT) | ticket
    }

    fn decoded(user_data: u64) -> Token {
        let ticket = Ticket::decoded(user_data);
        match user_data >> KIND_SHIFT {
            0 => Token::Answer(ticket),
            1 => Token::Send(ticket),
            2 => Token::Mail,
            3 => Token::Tick,
            _ => Token::Ignored,
        }
    }
}

pub(super) struct Ring(IoUring);

/// Whether this kernel lets this process use such a ring; found once.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| Ring::new(2).is_ok())
}

impl Ring {
    /// Room for the operations of `fibers` fibers at once.
    pub(super) fn new(fibers: usize) -> io::Result<Ring> {
        // Two operations a fiber, and mail, tick and cancellations.
        let entries = (2 * fibers + 8).next_power_of_two().min(32_768) as u32;
        // Completions are worked off when this thread asks for them (kernel 6.1), not by
        // interrupting it.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)?;
        Ok(Ring(ring))
    }

    /// All or none.
    fn push(&mut self, entries: &[Entry]) -> io::Result<()> {
        loop {
            // SAFETY: the memory an entry points to is that of a suspended fiber or of the loop,
            // and stays as it is until the completion (see the module's invariant).
            if unsafe { self.0.submission().push_multiple(entries) }.is_ok() {
                return Ok(());
            }
            self.0.submit()?;
        }
    }

    /// A send, if there are bytes, and a receive. The send is over when the kernel has been
    /// entered: what the socket does not take at once is not sent. So it needs no link to the
    /// receive, which would cost a round through the kernel's list of tasks.
    pub(super) fn exchange(&mut self, ticket: Ticket, exchange: &Exchange) -> io::Result<()> {
        let fd = Fd(exchange.fd);
        let receive = opcode::Recv::new(fd, exchange.into, exchange.into_len);
        let answer = Token::Answer(ticket).encoded();
        if exchange.out_len == 0 {
            return self.push(&[receive.build().user_data(answer)]);
        }
        let send = opcode::Send::new(fd, exchange.out, exchange.out_len)
            .flags(libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(Token::Send(ticket).encoded());
        // No answer is there yet, so the receive begins with its wait.
        let receive = receive.ioprio(POLL_FIRST).build().user_data(answer);
        self.push(&[send, receive])
    }

    pub(super) fn poll_writable(&mut self, ticket: Ticket, fd: RawFd) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(fd), libc::POLLOUT as u32)
            .build()
            .user_data(Token::Answer(ticket).encoded());
        self.push(&[poll])
    }

    /// Ends an operation, if it is under way; its completion says so.
    pub(super) fn cancel(&mut self, token: Token) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(token.encoded())
            .build()
            .user_data(Token::Ignored.encoded());
        self.push(&[cancel])
    }

    /// Reads the eight bytes of an event descriptor into `into`, which outlives the ring's use.
    pub(super) fn read_mail(&mut self, fd: RawFd, into: *mut u64) -> io::Result<()> {
        let read = opcode::Read::new(Fd(fd), into.cast(), 8)
            .build()
            .user_data(Token::Mail.encoded());
        self.push(&[read])
    }

    /// One tick after `time`, which outlives the ring's use.
    pub(super) fn tick(&mut self, time: *const Timespec) -> io::Result<()> {
        let timeout = opcode::Timeout::new(time)
            .build()
            .user_data(Token::Tick.encoded());
        self.push(&[timeout])
    }

    /// Hands over what was pushed and waits for a completion, at most for `limit`.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let waited = match limit {
            None => self.0.submit_and_wait(1),
            Some(limit) => {
                let time = Timespec::from(limit);
                let arguments = SubmitArgs::new().timespec(&time);
                self.0.submitter().submit_with_args(1, &arguments)
            }
        };
        match waited {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The last two: memory is short, or completions are to be read first.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The next completion: whose, and the kernel's answer.
    pub(super) fn completion(&mut self) -> Option<(Token, i32)> {
        let entry = self.0.completion().next()?;
        Some((Token::decoded(entry.user_data()), entry.result()))
    }
}
