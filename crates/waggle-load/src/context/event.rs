//! The frame of an event: when it begins and ends, when it is tried again, what it counts as.
//!
//! Invariant: no transaction of a failed attempt is open when the next attempt begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::{self, Woken, now_ns};
use crate::fiber;
use crate::gate::Permit;
use crate::pace::Claim;
use crate::recorder::{Recorder, Sum};
use crate::tally::OperationRecorders;

use super::{Context, Status};

/// The event at hand.
#[derive(Debug, Default)]
pub(super) struct Event {
    begun_ns: u64,
    /// Open loop: when it should have begun.
    intended_ns: u64,
    /// Open loop: the thread slept until the event was due.
    stood_ready: bool,
    restarts: u32,
    is_under_way: bool,
    operation: Option<u32>,
}

impl Context {
    /// True when the worker may begin another event; in an open loop when that event is due.
    pub(crate) fn may_run(&mut self) -> bool {
        let shared = self.shared.clone();
        loop {
            if shared.gate.may_run() == Permit::Stop || !shared.budget.take() {
                return false;
            }
            let Some(pace) = &shared.pace else {
                return true;
            };
            let now = now_ns();
            let intended = match pace.claim(now) {
                Claim::At(intended) => intended,
                Claim::Ended => return false,
                Claim::Overflow(too_many) => {
                    shared.overflowed(too_many);
                    return false;
                }
            };
            self.event.intended_ns = intended;
            self.event.stood_ready = intended > now;
            if !self.event.stood_ready || shared.gate.sleep_until(intended) == Woken::Due {
                return true;
            }
            // Told to pause or stop: the event was not due yet, another one will be.
            shared.budget.give_back();
        }
    }

    pub(crate) fn event_begin(&mut self) {
        let now = now_ns();
        let event = &mut self.event;
        event.begun_ns = now;
        event.restarts = 0;
        event.is_under_way = true;
        event.operation = None;
        let Some(open) = &self.tally.recorders.open else {
            event.intended_ns = now;
            return;
        };
        let wait = now.saturating_sub(event.intended_ns);
        open.wait.record(wait);
        if event.stood_ready {
            open.lag.record(wait);
        }
        self.tally.event_begun();
    }

    pub(crate) fn event_end(&mut self) {
        let now = now_ns();
        self.event.is_under_way = false;
        let event = &self.event;
        let response = now.saturating_sub(event.intended_ns);
        let service = now.saturating_sub(event.begun_ns);
        self.tally.transaction_done();
        self.tally.responded(response);
        if let Some(open) = &self.tally.recorders.open {
            open.service.record(service);
        }
        if let Some(operation) = event.operation {
            let recorders = self.operation_recorders(operation);
            recorders.response.record(response);
            if let Some(recorder) = &recorders.service {
                recorder.record(service);
            }
        }
    }

    fn operation_recorders(&mut self, operation: u32) -> &OperationRecorders {
        let tally = &self.tally;
        let make = || OperationRecorders {
            response: Recorder::new(),
            service: tally.recorders.open.is_some().then(Recorder::new),
        };
        own(&mut self.operations, operation, || {
            tally.recorders.operations.of(operation, make)
        })
    }

    /// After an ignorable error: leaves no transaction open, then waits at the gate. The retry
    /// ends with the run, unlike an error that would last for ever.
    pub(crate) fn may_retry(&mut self) -> Status {
        if let Some((connection, errno)) = self.fatal.take() {
            self.restart_from(connection, errno);
        }
        for connection in 0..self.slots.len() as u32 {
            match self.made_clean(connection) {
                Status::Done => {}
                Status::Stopped => return Status::Stopped,
                _ => return Status::Fatal,
            }
        }
        self.event.restarts += 1;
        if self.event.restarts > self.shared.restart_limit {
            let (restarts, cause) = (self.event.restarts - 1, &self.last_error.message);
            self.last_error.message =
                format!("one event was restarted {restarts} times in a row; last: {cause}");
            return Status::Fatal;
        }
        match self.shared.gate.may_run() {
            Permit::Run { held } => {
                self.exclude(held);
                Status::Done
            }
            Permit::Stop => Status::Stopped,
        }
    }

    /// A connection that works and has no transaction open.
    fn made_clean(&mut self, connection: u32) -> Status {
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Status::Done;
        };
        // Left so by an error that a hook, not the list, made a restart of.
        let restored = match slot.session.is_usable() {
            true => Status::Ignorable,
            false => self.restored(connection),
        };
        if restored != Status::Ignorable {
            return restored;
        }
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Status::Done;
        };
        if !std::mem::take(&mut slot.needs_rollback) {
            return Status::Done;
        }
        let result = slot.session.rollback();
        match self.settled(result, connection, || "ROLLBACK".to_owned()) {
            Ok(_) => Status::Done,
            // The connection was lost and is back: there is nothing to roll back.
            Err(Status::Ignorable) if !self.needs_rollback(connection) => Status::Done,
            Err(status) => status,
        }
    }

    fn needs_rollback(&self, connection: u32) -> bool {
        let slot = self.slots.get(connection as usize);
        matches!(slot, Some(Some(slot)) if slot.needs_rollback)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.event.is_under_way
    }

    /// Time spent paused between two attempts is not the server's.
    pub(super) fn exclude(&mut self, held: Duration) {
        self.event.begun_ns += clock::ns(held);
        self.event.intended_ns += clock::ns(held);
    }

    pub(super) fn restart_from(&mut self, connection: u32, errno: u16) {
        self.tally.error_ignored();
        self.shared.count_error(errno, &self.last_error.message);
        // A lock wait time-out leaves the transaction open with half of its changes; the BEGIN
        // of the next attempt would commit them.
        if let Some(Some(slot)) = self.slots.get_mut(connection as usize) {
            slot.needs_rollback |= !slot.session.rolls_back_on(errno);
        }
    }

    /// The number of a kind of event, for [`label`](Context::label).
    pub(crate) fn operation(&mut self, name: &str) -> u32 {
        self.shared.operations.number_of(name)
    }

    /// The event at hand is of this kind.
    pub(crate) fn label(&mut self, operation: u32) {
        self.event.operation = Some(operation);
    }

    /// The number of a counter of the script's own, for [`add`](Context::add).
    pub(crate) fn counter(&mut self, name: &str) -> u32 {
        self.shared.user_counters.number_of(name)
    }

    /// Adds to a counter of the script's own.
    pub(crate) fn add(&mut self, counter: u32, amount: f64) {
        let tally = &self.tally;
        let make = || tally.sums.of(counter, Sum::default);
        own(&mut self.user_counters, counter, make).add_by_owner(amount);
    }

    /// Sleeps; false when the run ended meanwhile. A pause holds a sleeper as it holds a worker
    /// between two events, and its length is added to the sleep.
    pub(crate) fn sleep(&mut self, seconds: f64) -> bool {
        // A year is for ever; also what is not a number must not panic.
        let length = Duration::try_from_secs_f64(seconds.clamp(0.0, 3e7)).unwrap_or_default();
        let mut until = now_ns() + clock::ns(length);
        if !self.event.is_under_way {
            return self.sleep_outside_events(until);
        }
        let shared = self.shared.clone();
        while shared.gate.sleep_until(until) == Woken::Told {
            match shared.gate.may_run() {
                Permit::Run { held } => {
                    until += clock::ns(held);
                    self.exclude(held);
                }
                Permit::Stop => return false,
            }
        }
        true
    }

    /// Waits for the other threads of the command; `Fatal` where there is no command.
    pub(crate) fn barrier(&self) -> Status {
        match &self.shared.barrier {
            None => Status::Fatal,
            Some(barrier) => match barrier.wait(|| self.shared.is_over()) {
                true => Status::Done,
                false => Status::Stopped,
            },
        }
    }

    /// In commands and around the run the gate is closed and means nothing.
    fn sleep_outside_events(&self, until_ns: u64) -> bool {
        const SLICE: Duration = Duration::from_millis(20);
        loop {
            if self.shared.is_over() || self.shared.gate.is_stopped() {
                return false;
            }
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            if left.is_zero() {
                return true;
            }
            match fiber::is_fiber() {
                true => fiber::sleep_until(Instant::now() + left),
                false => std::thread::sleep(left.min(SLICE)),
            }
        }
    }

    /// Restarts the clock of the event at hand; false where that is an error (open loop).
    pub(crate) fn begin_event(&mut self) -> bool {
        if self.tally.recorders.open.is_some() {
            return false;
        }
        self.event.begun_ns = now_ns();
        self.event.intended_ns = self.event.begun_ns;
        true
    }
}

/// This thread's own of a thing that readers reach through its tally.
fn own<T>(all: &mut Vec<Option<Arc<T>>>, number: u32, make: impl FnOnce() -> Arc<T>) -> &T {
    let index = number as usize;
    if all.len() <= index {
        all.resize_with(index + 1, || None);
    }
    all[index].get_or_insert_with(make)
}
