//! One direction of a TCP connection, put back in order.
//!
//! Flows feed it segments; it gives bytes in order, each once, and says where bytes are missing for
//! good. They are once the peer has acknowledged them (it got them, the capture did not), or when
//! more waits behind the hole than is kept. Invariants: memory is at most [`HELD_BYTES_MAX`] and
//! [`HELD_MAX`] segments; whatever is given once is never given again.

/// What waits behind a hole, bytes. A sender's retransmission takes a round trip.
const HELD_BYTES_MAX: usize = 256 << 10;
/// What waits behind a hole, segments.
const HELD_MAX: usize = 256;

/// What a direction gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// So many bytes were never seen.
    Gap(u32),
}

struct Held {
    sequence: u32,
    bytes: Box<[u8]>,
}

/// One direction. No `Debug`: it holds what users send.
#[derive(Default)]
pub(super) struct Stream {
    /// Number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// In the order of their numbers.
    held: Vec<Held>,
    held_bytes: usize,
    /// Bytes seen that had been seen before.
    pub(super) repeated: u64,
}

/// How far `a` lies behind `b` on the circle of sequence numbers; negative if before.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

impl Stream {
    /// Places the direction: `next` is the number of the next byte.
    pub(super) fn start(&mut self, next: u32) {
        *self = Stream {
            next: Some(next),
            ..Stream::default()
        };
    }

    /// Where it begins is known.
    pub(super) fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// Its next byte has this number.
    pub(super) fn is_at(&self, number: u32) -> bool {
        self.next == Some(number)
    }

    /// What waits behind holes, bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The peer has everything before `number`.
    pub(super) fn acknowledged(&mut self, number: u32, each: &mut dyn FnMut(Piece<'_>)) {
        let Some(next) = self.next else {
            self.next = Some(number);
            return;
        };
        // A number far ahead belongs to another connection of the same ends.
        if distance(number, next) > 0 {
            self.skip_to(number, each);
            self.give_held(each);
        }
    }

    /// A segment came. A direction that nothing was seen of begins with it.
    pub(super) fn segment(
        &mut self,
        sequence: u32,
        payload: &[u8],
        each: &mut dyn FnMut(Piece<'_>),
    ) {
        let next = *self.next.get_or_insert(sequence);
        let ahead = distance(sequence, next);
        if ahead > 0 {
            self.hold(sequence, payload);
            while self.held.len() > HELD_MAX || self.held_bytes > HELD_BYTES_MAX {
                self.give_up_hole(each);
            }
            return;
        }
        self.give(ahead, payload, each);
        if !self.held.is_empty() {
            self.give_held(each);
        }
    }

    /// Nothing more will come: what waits behind holes is given.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        while !self.held.is_empty() {
            self.give_up_hole(each);
        }
    }

    /// The number of the next byte is one further without a byte (SYN and FIN have numbers).
    pub(super) fn step(&mut self, behind: u32) {
        if self.next == Some(behind) {
            self.next = Some(behind.wrapping_add(1));
        }
    }

    /// Gives what is new of a segment that begins `-ahead` bytes before the next byte.
    fn give(&mut self, ahead: i32, payload: &[u8], each: &mut dyn FnMut(Piece<'_>)) {
        let known = (ahead.unsigned_abs() as usize).min(payload.len());
        self.repeated += known as u64;
        let new = &payload[known..];
        if !new.is_empty() {
            self.next = self.next.map(|next| next.wrapping_add(new.len() as u32));
            each(Piece::Bytes(new));
        }
    }

    fn hold(&mut self, sequence: u32, payload: &[u8]) {
        if payload.is_empty() {
            return;
        }
        let at = self
            .held
            .partition_point(|held| distance(held.sequence, sequence) < 0);
        // The same segment again: the longer one is kept.
        if let Some(same) = self.held.get_mut(at).filter(|h| h.sequence == sequence) {
            if same.bytes.len() < payload.len() {
                self.held_bytes += payload.len() - same.bytes.len();
                same.bytes = payload.into();
            }
            return;
        }
        self.held_bytes += payload.len();
        let bytes = payload.into();
        self.held.insert(at, Held { sequence, bytes });
    }

    /// Gives held segments up to the next hole.
    fn give_held(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        let Some(next) = self.next else { return };
        let mut end = next;
        let mut count = 0;
        for held in &self.held {
            if distance(held.sequence, end) > 0 {
                break;
            }
            let last = held.sequence.wrapping_add(held.bytes.len() as u32);
            if distance(last, end) > 0 {
                end = last;
            }
            count += 1;
        }
        let ready: Vec<Held> = self.held.drain(..count).collect();
        for held in ready {
            self.held_bytes -= held.bytes.len();
            let ahead = distance(held.sequence, self.next.unwrap_or(held.sequence));
            self.give(ahead.min(0), &held.bytes, each);
        }
    }

    fn give_up_hole(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        if let Some(first) = self.held.first() {
            self.skip_to(first.sequence, each);
            self.give_held(each);
        }
    }

    /// Says that what lies before `number` is missing, except what is held.
    fn skip_to(&mut self, number: u32, each: &mut dyn FnMut(Piece<'_>)) {
        while let Some(next) = self.next {
            let first = self.held.first().map(|held| held.sequence);
            let stop = match first {
                Some(first) if distance(first, number) < 0 => first,
                _ => number,
            };
            let gap = distance(stop, next);
            if gap > 0 {
                self.next = Some(stop);
                each(Piece::Gap(gap.unsigned_abs()));
            }
            if stop == number {
                return;
            }
            self.give_held(each);
            if self.next.is_none_or(|next| distance(number, next) <= 0) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
