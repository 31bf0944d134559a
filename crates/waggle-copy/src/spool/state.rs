//! What the thread that writes a spool and the one that reads it know of each other.
//!
//! Neighbours: `write` moves the end, `read` the beginning. Invariants: a segment that the reader
//! may need is never removed; a writer that waits for room is woken when some is made or when
//! everything is over.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::CopyError;
use crate::position::Position;

/// A segment as both sides see it.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The position before its first transaction.
    pub(super) base: Position,
    /// Where its last whole transaction ends.
    pub(super) end: u64,
}

#[derive(Debug)]
struct State {
    segments: VecDeque<Segment>,
    /// Segments below this one are not needed any more.
    needed: u64,
    /// How much of the first one is applied.
    applied: u64,
    /// Why no more will come.
    failure: Option<CopyError>,
    is_over: bool,
    is_closed: bool,
    /// Whether there is a transaction in any segment, or may be.
    has_kept: bool,
    readers_waiting: u32,
}

/// Shared by both sides.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// There is more to read, or nothing will come any more.
    more: Condvar,
    /// There is room, or nobody reads any more.
    room: Condvar,
    bytes_max: u64,
}

/// What a writer finds when it asks for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// There is some.
    Yes,
    /// All there is was read, and it is still too much: the transaction being written is too
    /// large.
    Never,
    /// Nobody wants more.
    Closed,
}

impl Shared {
    pub(super) fn new(bytes_max: u64) -> Shared {
        Shared {
            state: Mutex::new(State {
                segments: VecDeque::new(),
                needed: 0,
                applied: 0,
                failure: None,
                is_over: false,
                is_closed: false,
                has_kept: false,
                readers_waiting: 0,
            }),
            more: Condvar::new(),
            room: Condvar::new(),
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of the other side is not made worse by reading numbers.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lock().segments.iter().map(|segment| segment.end).sum()
    }

    /// Bytes that are not applied.
    pub(super) fn bytes_ahead(&self) -> u64 {
        let state = self.lock();
        let bytes: u64 = state.segments.iter().map(|segment| segment.end).sum();
        bytes.saturating_sub(state.applied)
    }

    /// Whether anything was kept.
    pub(super) fn has_kept(&self) -> bool {
        self.lock().has_kept
    }

    /// Segments of an earlier process are there.
    pub(super) fn resumes(&self) {
        self.lock().has_kept = true;
    }

    /// No more is wanted.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.is_over = true;
        drop(state);
        self.room.notify_all();
        self.more.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// No more will come.
    pub(super) fn fail(&self, error: CopyError) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        state.is_over = true;
        drop(state);
        self.more.notify_all();
    }

    pub(super) fn check(&self) -> Result<(), CopyError> {
        let mut state = self.lock();
        match state.failure.take() {
            Some(error) => Err(error),
            None if state.is_over && !state.is_closed => Err(CopyError::Progress(
                "the binary log is not followed any more; an earlier error says why".to_owned(),
            )),
            None => Ok(()),
        }
    }

    /// Waits on a change, for so long at most; whether nobody wants more.
    pub(super) fn pause(&self, limit: Duration) -> bool {
        let state = self.lock();
        if state.is_closed {
            return true;
        }
        let (state, _) = self
            .room
            .wait_timeout(state, limit)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        state.is_closed
    }

    pub(super) fn add(&self, segment: Segment) {
        let mut state = self.lock();
        state.needed = match state.segments.front() {
            None => segment.number,
            Some(_) => state.needed,
        };
        state.segments.push_back(segment);
    }

    /// The last segment is whole up to here.
    pub(super) fn extend(&self, end: u64) {
        let mut state = self.lock();
        if let Some(last) = state.segments.back_mut() {
            last.end = end;
        }
        state.has_kept = true;
        let wakes = state.readers_waiting > 0;
        drop(state);
        if wakes {
            self.more.notify_all();
        }
    }

    /// Waits until files that will grow by `coming` are not too large.
    pub(super) fn wait_for_room(&self, coming: u64) -> Room {
        let mut state = self.lock();
        loop {
            let bytes: u64 = state.segments.iter().map(|segment| segment.end).sum();
            if state.is_closed {
                return Room::Closed;
            }
            if bytes + coming <= self.bytes_max {
                return Room::Yes;
            }
            // What is left cannot be freed before the transaction being written ends.
            if state.segments.len() <= 1 {
                return match coming > self.bytes_max {
                    true => Room::Never,
                    false => Room::Yes,
                };
            }
            state = self
                .room
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// The reader has applied all before this place; gives the segments whose files can go.
    pub(super) fn release(&self, number: u64, offset: u64) -> Vec<u64> {
        let mut state = self.lock();
        state.needed = state.needed.max(number);
        state.applied = offset;
        let mut gone = Vec::new();
        while state.segments.len() > 1 && state.segments[0].number < state.needed {
            gone.extend(state.segments.pop_front().map(|segment| segment.number));
        }
        drop(state);
        if !gone.is_empty() {
            self.room.notify_all();
        }
        gone
    }

    /// Segments, from the first one.
    pub(super) fn segments(&self) -> Vec<Segment> {
        self.lock().segments.iter().cloned().collect()
    }

    /// Where a segment ends for now, and the number of the next one, if there is one.
    pub(super) fn extent(&self, number: u64) -> Option<(u64, Option<u64>)> {
        let state = self.lock();
        let at = state
            .segments
            .iter()
            .position(|segment| segment.number == number)?;
        let next = state.segments.get(at + 1).map(|segment| segment.number);
        Some((state.segments[at].end, next))
    }

    /// Waits until a segment is longer than `end` or has a successor, for so long at most.
    ///
    /// # Errors
    /// Why nothing will come any more.
    pub(super) fn wait_for_more(
        &self,
        number: u64,
        end: u64,
        limit: Duration,
    ) -> Result<(), CopyError> {
        let mut state = self.lock();
        let has_more = |state: &State| {
            let last = state.segments.back();
            last.is_some_and(|last| last.number > number || last.end > end)
        };
        if !has_more(&state) && !state.is_over {
            state.readers_waiting += 1;
            state = self
                .more
                .wait_timeout(state, limit)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
            state.readers_waiting -= 1;
        }
        let is_over = state.is_over && !has_more(&state);
        drop(state);
        match is_over {
            true => self.check(),
            false => Ok(()),
        }
    }
}
