//! The loop of a thread: resumes fibers whose wait is over, and waits for the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};
use std::{process, ptr};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use io_uring::types::Timespec;

use super::ring::{Ring, Ticket, Token};
use super::{Answer, CURRENT, Mailbox, PERMITS, PERMITS_LEFT, Suspender, Wait};

/// The body of a fiber. It must not unwind: that ends the process.
pub(crate) type Task = Box<dyn FnOnce()>;

/// How often it is looked at whether a wait takes too long: limits are counted in ticks, so that no
/// statement has to read the clock for them.
const TICK: Duration = Duration::from_millis(250);

struct Fiber {
    /// Never freed while it is suspended: the kernel may hold pointers to its stack.
    coroutine: ManuallyDrop<Coroutine<Answer, Wait, ()>>,
    yielder: *const Suspender,
    state: State,
    /// Of the last wait in the ring.
    ticket: Ticket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready(Answer),
    /// In the ring, at most until this tick.
    InRing(u64),
    /// In the ring, its receive cancelled: what the fiber is told unless bytes have come.
    Cancelled(Answer),
    Asleep(Instant),
    WaitsForMail,
    WaitsForPermit,
    Ended,
}

/// Runs all fibers to their end on this thread.
///
/// # Errors
/// The ring's. Fibers that have not ended then are left as they are, their memory with them.
pub(crate) fn run(tasks: Vec<Task>, stack_bytes: usize, mailbox: &Mailbox) -> io::Result<()> {
    let mut scheduler = Scheduler {
        ring: Ring::new(tasks.len())?,
        ready: (0..tasks.len() as u32).collect(),
        running: tasks.len(),
        fibers: Vec::with_capacity(tasks.len()),
        sleepers: BinaryHeap::new(),
        queue: VecDeque::new(),
        ticks: 0,
    };
    PERMITS_LEFT.set(PERMITS);
    for (number, task) in (0u32..).zip(tasks) {
        let stack = DefaultStack::new(stack_bytes)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Suspender, _| {
            CURRENT.set(yielder);
            // Unwinding into the loop would free what the kernel still writes to.
            if panic::catch_unwind(AssertUnwindSafe(task)).is_err() {
                process::abort();
            }
        });
        scheduler.fibers.push(Fiber {
            coroutine: ManuallyDrop::new(coroutine),
            yielder: ptr::null(),
            state: State::Ready(Answer::NOTHING),
            ticket: Ticket {
                fiber: number,
                turn: 0,
            },
        });
    }
    // Both are written and read by the kernel while the loop runs; boxes do not move.
    let mut mail = Box::new(0u64);
    let tick = Box::new(Timespec::from(TICK));
    let ended = scheduler.run(mailbox, &mut mail, &tick);
    let ended = ended.and_then(|()| scheduler.take_back());
    if ended.is_err() {
        // The kernel may still write there.
        Box::leak(mail);
        Box::leak(tick);
        std::mem::forget(scheduler);
    }
    ended
}

struct Scheduler {
    ring: Ring,
    fibers: Vec<Fiber>,
    ready: VecDeque<u32>,
    running: usize,
    /// By moment; entries whose fiber was woken meanwhile are stale and skipped.
    sleepers: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Those that wait for a permit to connect.
    queue: VecDeque<u32>,
    /// Ticks so far.
    ticks: u64,
}

impl Scheduler {
    fn run(&mut self, mailbox: &Mailbox, mail: &mut u64, tick: &Timespec) -> io::Result<()> {
        let mail: *mut u64 = mail;
        self.ring.read_mail(mailbox.fd(), mail)?;
        self.ring.tick(tick)?;
        loop {
            // Those that become ready meanwhile come after a look at the ring: fibers that never
            // wait there must not keep answers, mail and requests from those that do.
            for _ in 0..self.ready.len() {
                if let Some(fiber) = self.ready.pop_front() {
                    self.resume(fiber)?;
                }
            }
            if self.running == 0 {
                return Ok(());
            }
            self.ring.wait(self.patience())?;
            while let Some((token, answer)) = self.ring.completion() {
                match token {
                    Token::Answer(ticket) => self.answered(ticket, answer),
                    Token::Send(ticket) => self.not_sent(ticket, answer)?,
                    Token::Mail => {
                        self.wake_waiting();
                        self.ring.read_mail(mailbox.fd(), mail)?;
                    }
                    Token::Tick => {
                        self.ticks += 1;
                        self.cancel_late()?;
                        self.ring.tick(tick)?;
                    }
                    Token::Ignored => {}
                }
            }
            self.wake_sleepers();
        }
    }

    /// Takes back the two operations of the loop itself: the memory they point to is freed next.
    fn take_back(&mut self) -> io::Result<()> {
        self.ring.cancel(Token::Mail)?;
        self.ring.cancel(Token::Tick)?;
        let mut open = 2;
        while open > 0 {
            self.ring.wait(None)?;
            while let Some((token, _)) = self.ring.completion() {
                open -= u32::from(matches!(token, Token::Mail | Token::Tick));
            }
        }
        Ok(())
    }

    /// How long the ring may be waited for.
    fn patience(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let Reverse((moment, _)) = self.sleepers.peek()?;
        Some(moment.saturating_duration_since(Instant::now()))
    }

    fn resume(&mut self, number: u32) -> io::Result<()> {
        let fiber = &mut self.fibers[number as usize];
        let State::Ready(answer) = fiber.state else {
            return Ok(());
        };
        CURRENT.set(fiber.yielder);
        let result = fiber.coroutine.resume(answer);
        fiber.yielder = CURRENT.replace(ptr::null());
        match result {
            CoroutineResult::Yield(wait) => self.begin(number, wait)?,
            CoroutineResult::Return(()) => {
                fiber.state = State::Ended;
                self.running -= 1;
                // SAFETY: it has ended, so nothing of its stack is in use, and it is not resumed
                // again.
                unsafe { ManuallyDrop::drop(&mut fiber.coroutine) };
            }
        }
        // It may have given its permit back.
        while PERMITS_LEFT.get() > 0
            && let Some(next) = self.queue.pop_front()
        {
            PERMITS_LEFT.set(PERMITS_LEFT.get() - 1);
            self.wake(next, Answer::NOTHING);
        }
        Ok(())
    }

    fn begin(&mut self, number: u32, wait: Wait) -> io::Result<()> {
        let fiber = &mut self.fibers[number as usize];
        match wait {
            Wait::Exchange(exchange) => {
                fiber.state = State::InRing(last_tick(self.ticks, exchange.limit));
                fiber.ticket = fiber.ticket.next();
                self.ring.exchange(fiber.ticket, &exchange)?;
            }
            Wait::Writable(fd, limit) => {
                fiber.state = State::InRing(last_tick(self.ticks, limit));
                fiber.ticket = fiber.ticket.next();
                self.ring.poll_writable(fiber.ticket, fd)?;
            }
            Wait::Permit => {
                fiber.state = State::WaitsForPermit;
                self.queue.push_back(number);
            }
            Wait::Others => self.wake(number, Answer::NOTHING),
            Wait::Until(moment) => {
                fiber.state = State::Asleep(moment);
                self.sleepers.push(Reverse((moment, number)));
            }
            Wait::Mail => fiber.state = State::WaitsForMail,
        }
        Ok(())
    }

    fn answered(&mut self, ticket: Ticket, result: i32) {
        let fiber = &self.fibers[ticket.fiber as usize];
        if fiber.ticket != ticket {
            return;
        }
        let answer = match fiber.state {
            State::InRing(_) => Answer::whole(result),
            // A server that has closed the session may have said why before; one that has not may
            // answer before it was sent the whole request.
            State::Cancelled(told) if result > 0 => Answer { result, ..told },
            State::Cancelled(told) => told,
            _ => return,
        };
        self.wake(ticket.fiber, answer);
    }

    /// A send failed, or the socket took a part. The receive beside it still has the fiber's
    /// memory, so that is ended first.
    fn not_sent(&mut self, ticket: Ticket, answer: i32) -> io::Result<()> {
        let fiber = &mut self.fibers[ticket.fiber as usize];
        if fiber.ticket != ticket || !matches!(fiber.state, State::InRing(_)) {
            return Ok(());
        }
        fiber.state = State::Cancelled(match answer {
            0.. => Answer::part(answer as u32),
            _ if -answer == libc::EAGAIN => Answer::part(0),
            error => Answer::whole(error),
        });
        self.ring.cancel(Token::Answer(ticket))
    }

    fn wake(&mut self, number: u32, answer: Answer) {
        self.fibers[number as usize].state = State::Ready(answer);
        self.ready.push_back(number);
    }

    /// Mail: whoever waits for it or sleeps looks again.
    fn wake_waiting(&mut self) {
        for number in 0..self.fibers.len() {
            let state = self.fibers[number].state;
            if matches!(state, State::WaitsForMail | State::Asleep(_)) {
                self.wake(number as u32, Answer::NOTHING);
            }
        }
        self.sleepers.clear();
    }

    fn wake_sleepers(&mut self) {
        if self.sleepers.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(Reverse((moment, number))) = self.sleepers.peek().copied() {
            if moment > now {
                return;
            }
            self.sleepers.pop();
            if self.fibers[number as usize].state == State::Asleep(moment) {
                self.wake(number, Answer::NOTHING);
            }
        }
    }

    fn cancel_late(&mut self) -> io::Result<()> {
        for fiber in &mut self.fibers {
            if let State::InRing(last) = fiber.state
                && last <= self.ticks
            {
                fiber.state = State::Cancelled(Answer::whole(-libc::ETIME));
            }
            // Once more each tick, should the kernel have been at it when it was to be ended.
            if let State::Cancelled(_) = fiber.state {
                self.ring.cancel(Token::Answer(fiber.ticket))?;
            }
        }
        Ok(())
    }
}

/// The tick at which a wait that begins now has lasted for its limit.
fn last_tick(now: u64, limit: Option<Duration>) -> u64 {
    let Some(limit) = limit else {
        return u64::MAX;
    };
    let ticks = u64::try_from(limit.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX);
    // The tick under way began before the wait.
    now.saturating_add(ticks).saturating_add(2)
}
