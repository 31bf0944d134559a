//! Whole conversations in segments, and any bytes in their place.
//!
//! The fuzzer and the tests run it. Invariant: whatever the input, [`traffic`] ends in time linear
//! in it, holds little, and panics only for a fault of this crate.

use super::flows::Flows;
use super::frame::{ACK, End, FIN, RST, SYN, Segment, mapped};
use crate::source::Observation;

/// Longest text kept in these conversations.
const TEXT_BYTES_MAX: usize = 1 << 10;
const CONNECTIONS: u8 = 4;

/// What came of a conversation.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Statements seen whole.
    pub statements: u64,
    /// Statements told as lost.
    pub lost: u64,
}

/// Numbers of the next bytes, by connection and direction.
#[derive(Default)]
struct Numbers([[u32; 2]; CONNECTIONS as usize]);

/// Takes `input` for segments. It is records of four bytes and a payload: connection (low bits)
/// and direction (top bit), a kind, and the payload's length of two bytes. Kinds: `s` opens, `f`
/// ends, `r` resets, `g` leaves a gap of that length, `o` comes again from that far back, `a`
/// acknowledges so many bytes more than were sent; others are data in order.
pub fn traffic(input: &[u8]) -> Outcome {
    let mut flows = Flows::new(TEXT_BYTES_MAX);
    let mut outcome = Outcome::default();
    let mut numbers = Numbers::default();
    let mut rest = input;
    let mut time_ns = 0;
    while let [head, kind, low, high, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let connection = usize::from(head % CONNECTIONS);
        let side = usize::from(*head >= 0x80);
        let number = &mut numbers.0[connection];
        let mut sequence = number[side];
        let mut acknowledged = number[1 - side];
        let (mut flags, mut taken) = (ACK, length.min(tail.len()));
        match kind {
            b's' => (flags, taken) = (if side == 0 { SYN } else { SYN | ACK }, 0),
            b'f' => flags |= FIN,
            b'r' => (flags, taken) = (RST, 0),
            b'g' => {
                number[side] = sequence.wrapping_add(length as u32);
                rest = tail;
                continue;
            }
            b'o' => sequence = sequence.wrapping_sub(length as u32),
            b'a' => {
                acknowledged = acknowledged.wrapping_add(length as u32);
                taken = 0;
            }
            _ => {}
        }
        let (payload, later) = tail.split_at(taken);
        rest = later;
        let advance = taken as u32 + u32::from(flags & (SYN | FIN) != 0);
        number[side] = sequence.wrapping_add(advance);
        time_ns += 1000;
        let segment = segment(
            connection,
            side == 0,
            sequence,
            acknowledged,
            flags,
            payload,
        );
        flows.segment(&Segment { time_ns, ..segment }, side == 0, &mut |seen| {
            count(&seen, &mut outcome);
        });
    }
    flows
        .shared
        .losses
        .tell(&mut |seen| count(&seen, &mut outcome));
    assert!(flows.count() <= usize::from(CONNECTIONS));
    outcome
}

fn count(observation: &Observation<'_>, outcome: &mut Outcome) {
    match observation {
        Observation::Statement(_) => outcome.statements += 1,
        Observation::Lost { count, .. } => outcome.lost += count,
        _ => {}
    }
}

fn segment(
    connection: usize,
    to_server: bool,
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    payload: &[u8],
) -> Segment<'_> {
    let client = End {
        address: mapped([127, 0, 0, 1]),
        port: 40_000 + connection as u16,
    };
    let server = End {
        address: mapped([127, 0, 0, 1]),
        port: 3306,
    };
    let (from, to) = match to_server {
        true => (client, server),
        false => (server, client),
    };
    Segment {
        from,
        to,
        sequence,
        acknowledged,
        flags,
        payload,
        time_ns: 0,
    }
}

#[cfg(test)]
mod tests;
