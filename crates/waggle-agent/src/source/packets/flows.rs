//! Which connections are there, and whose is this segment?
//!
//! The ring gives it segments; each goes through its direction's stream to its session. Invariants:
//! at most [`CONNECTIONS_MAX`] connections are known, the longest idle are forgotten first; a
//! segment seen twice (on two interfaces, or sent again) counts once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::frame::{ACK, End, FIN, RST, SYN, Segment, ip};
use super::hidden::{self, Dropped};
use super::losses::Cause;
use super::session::{Session, Shared};
use super::stream::{Piece, Stream};
use crate::source::Observation;

/// Connections known at a time.
pub(super) const CONNECTIONS_MAX: usize = 16_384;
/// A connection that said nothing for longer before packets were dropped had no part in them, ns.
const ACTIVE_NS: u64 = 2_000_000_000;
/// What may wait behind holes on all connections together, bytes.
const HELD_BYTES_MAX: usize = 8 << 20;
/// What is forgotten at a time when there are too many: one in so many.
const EVICTED_PART: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: End,
    server: End,
}

/// Folds words by multiplication; seeded, so that nobody outside can make keys collide.
#[derive(Debug, Clone, Copy)]
struct Seeded(u64);

struct Folded(u64);

impl BuildHasher for Seeded {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

impl Folded {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.fold(byte.into());
        }
    }

    fn write_u16(&mut self, word: u16) {
        self.fold(word.into());
    }

    fn write_u128(&mut self, word: u128) {
        self.fold(word as u64);
        self.fold((word >> 64) as u64);
    }
}

struct Flow {
    session: Session,
    client: Stream,
    server: Stream,
    /// Which sides have said their last word.
    ended: [bool; 2],
    last_ns: u64,
    /// Most bytes that a segment of the client's had.
    segment_bytes: usize,
}

/// Every connection of one server.
pub(super) struct Flows {
    flows: HashMap<Key, Box<Flow>, Seeded>,
    pub(super) shared: Shared,
    /// What waits behind holes on all connections.
    held_bytes: usize,
}

impl Flows {
    pub(super) fn new(text_bytes_max: usize) -> Flows {
        let seed = RandomState::new().hash_one(0) | 1;
        Flows {
            flows: HashMap::with_hasher(Seeded(seed)),
            shared: Shared {
                text_bytes_max,
                ..Shared::default()
            },
            held_bytes: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.flows.len()
    }

    /// A segment; `to_server` tells its direction.
    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        to_server: bool,
        each: &mut dyn FnMut(Observation<'_>),
    ) {
        let key = match to_server {
            true => Key {
                client: segment.from,
                server: segment.to,
            },
            false => Key {
                client: segment.to,
                server: segment.from,
            },
        };
        let first = segment.sequence.wrapping_add(1);
        if segment.flags & SYN != 0 {
            return self.opens(key, first, to_server, segment.time_ns);
        }
        if !self.flows.contains_key(&key) {
            if segment.payload.is_empty() {
                return;
            }
            self.make_room();
            self.insert(key, false, segment.time_ns);
        }
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        flow.last_ns = segment.time_ns;
        let before = flow.held_bytes();
        let is_over = flow.segment(segment, to_server, &mut self.shared, each);
        if self.held_bytes + flow.held_bytes() > HELD_BYTES_MAX + before {
            flow.give_up_holes(segment.time_ns, &mut self.shared, each);
        }
        self.held_bytes = self.held_bytes + flow.held_bytes() - before;
        if is_over {
            self.forget(&key, Cause::NoAnswer);
        }
    }

    fn forget(&mut self, key: &Key, cause: Cause) {
        if let Some(mut flow) = self.flows.remove(key) {
            self.held_bytes -= flow.held_bytes();
            flow.session.close(cause, &mut self.shared);
        }
    }

    fn insert(&mut self, key: Key, begins: bool, time_ns: u64) -> &mut Flow {
        let flow = Flow {
            session: Session::new(ip(key.client.address).to_string(), begins),
            client: Stream::default(),
            server: Stream::default(),
            ended: [false; 2],
            last_ns: time_ns,
            segment_bytes: 1,
        };
        self.flows
            .entry(key)
            .insert_entry(Box::new(flow))
            .into_mut()
    }

    /// The watch ends, `packets` in. Connections that said nothing after packets were `dropped`
    /// may have been theirs; what these were is estimated, since no number tells.
    pub(super) fn end_with(&mut self, dropped: Dropped, packets: u64) {
        // A ring that is read late was full long before.
        let active_ns = dropped.before_ns.saturating_sub(ACTIVE_NS);
        let since_ns = dropped.after_ns.min(active_ns);
        let (mut active, mut unheard, mut rest) = (0, 0, 0);
        let commands = self.shared.statements;
        for flow in self.flows.values_mut() {
            active += u64::from(flow.last_ns >= since_ns);
            if (since_ns..dropped.before_ns).contains(&flow.last_ns) {
                unheard += 1;
                let left = flow.session.end_unheard(&mut self.shared);
                rest += left.div_ceil(flow.segment_bytes) as u64;
            }
        }
        if unheard > 0 {
            let theirs = dropped.packets * unheard / active;
            let hidden = hidden::in_packets(theirs, rest, commands, packets);
            self.shared.losses.add(Cause::Dropped, hidden);
        }
    }

    /// A connection is being opened.
    fn opens(&mut self, key: Key, first: u32, to_server: bool, time_ns: u64) {
        if let Some(flow) = self.flows.get_mut(&key) {
            if !to_server {
                if !flow.server.has_begun() {
                    flow.server.start(first);
                }
                return;
            }
            if flow.client.is_at(first) {
                return;
            }
            // The same ends again, in another connection.
            self.forget(&key, Cause::NoAnswer);
        }
        self.make_room();
        let flow = self.insert(key, true, time_ns);
        match to_server {
            true => flow.client.start(first),
            false => flow.server.start(first),
        }
    }

    fn make_room(&mut self) {
        if self.flows.len() < CONNECTIONS_MAX {
            return;
        }
        let mut idle: Vec<u64> = self.flows.values().map(|flow| flow.last_ns).collect();
        let (_, &mut limit, _) = idle.select_nth_unstable(CONNECTIONS_MAX / EVICTED_PART);
        let (shared, held_bytes) = (&mut self.shared, &mut self.held_bytes);
        self.flows.retain(|_, flow| {
            let stays = flow.last_ns > limit;
            if !stays {
                *held_bytes -= flow.held_bytes();
                flow.session.close(Cause::Evicted, shared);
            }
            stays
        });
    }
}

impl Flow {
    /// Gives whether the connection is over.
    fn segment(
        &mut self,
        segment: &Segment<'_>,
        to_server: bool,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) -> bool {
        let is_reset = segment.flags & RST != 0;
        let acknowledged = (segment.flags & ACK != 0 && !is_reset).then_some(segment.acknowledged);
        let (sequence, payload) = (segment.sequence, segment.payload);
        if to_server {
            self.segment_bytes = self.segment_bytes.max(payload.len());
        }
        let Flow {
            session,
            client,
            server,
            ended,
            ..
        } = self;
        let time_ns = segment.time_ns;
        let behind = sequence.wrapping_add(payload.len() as u32);
        let is_last = segment.flags & FIN != 0;
        match (to_server, acknowledged) {
            (true, Some(number)) => session.server_is_at(number),
            (false, _) if !is_reset => session.server_is_at(sequence),
            _ => {}
        }
        // What the other side is known to have got comes before what this one answers to it.
        let mut from_server =
            |piece: Piece<'_>, session: &mut Session, shared: &mut Shared| match piece {
                Piece::Bytes(bytes) => session.server_bytes(bytes, time_ns, shared, each),
                Piece::Gap(bytes) => session.server_gap(bytes, shared),
            };
        let from_client = |piece: Piece<'_>, session: &mut Session, shared: &mut Shared| match piece
        {
            Piece::Bytes(bytes) => session.client_bytes(bytes, time_ns, shared),
            Piece::Gap(bytes) => session.client_gap(bytes, shared),
        };
        if to_server {
            if let Some(number) = acknowledged {
                server.acknowledged(number, &mut |piece| from_server(piece, session, shared));
            }
            client.segment(sequence, payload, &mut |piece| {
                from_client(piece, session, shared)
            });
        } else {
            if let Some(number) = acknowledged {
                client.acknowledged(number, &mut |piece| from_client(piece, session, shared));
            }
            server.segment(sequence, payload, &mut |piece| {
                from_server(piece, session, shared)
            });
        }
        if is_last {
            let (side, stream) = match to_server {
                true => (0, client),
                false => (1, server),
            };
            stream.step(behind);
            ended[side] = true;
        }
        if !is_reset && *ended != [true; 2] {
            return false;
        }
        self.give_up_holes(time_ns, shared, each);
        true
    }

    /// What waits behind holes, bytes.
    fn held_bytes(&self) -> usize {
        self.client.held_bytes() + self.server.held_bytes()
    }

    /// Nothing is waited for any longer: what is missing is a gap.
    fn give_up_holes(
        &mut self,
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) {
        let session = &mut self.session;
        self.client.finish(&mut |piece| match piece {
            Piece::Bytes(bytes) => session.client_bytes(bytes, time_ns, shared),
            Piece::Gap(bytes) => session.client_gap(bytes, shared),
        });
        self.server.finish(&mut |piece| match piece {
            Piece::Bytes(bytes) => session.server_bytes(bytes, time_ns, shared, each),
            Piece::Gap(bytes) => session.server_gap(bytes, shared),
        });
    }
}

#[cfg(test)]
pub(super) mod talk;
#[cfg(test)]
mod tests;
