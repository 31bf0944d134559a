//! The tracks in Perfetto's own format: a sequence of `TracePacket`s with track events.
//!
//! Written by hand, since few fields of it are needed: the numbers are those of
//! `protos/perfetto/trace`. Invariant: begin and end of a track's slices alternate, in the order of
//! time.

use std::io::{self, Write};

use super::export::{Track, calls, span_name};
use crate::stack::{Stacks, names::Names};

/// Of `Trace`.
const PACKET: u32 = 1;
/// Of `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const TRACK_DESCRIPTOR: u32 = 60;
/// Of `TrackDescriptor`.
const UUID: u32 = 1;
const PROCESS: u32 = 3;
const THREAD: u32 = 4;
const PARENT: u32 = 5;
/// Of `TrackEvent`.
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const TRACK: u32 = 11;
const NAME: u32 = 23;
const FLOW: u32 = 47;
const FLOW_END: u32 = 48;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
/// Of `DebugAnnotation`.
const ANNOTATION_TEXT: u32 = 6;
const ANNOTATION_NAME: u32 = 10;

/// A message that is being written.
#[derive(Debug, Default, Clone)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn fixed(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn put(out: &mut impl Write, packet: Message) -> io::Result<()> {
    let packet = packet.number(SEQUENCE, 1);
    out.write_all(&Message::default().message(PACKET, &packet).0)
}

/// Writes the tracks of process `pid`.
///
/// # Errors
/// The output cannot be written.
pub fn write(
    tracks: &[Track],
    (pid, program): (u32, &str),
    stacks: &Stacks,
    names: &mut Names,
    mut out: impl Write,
) -> io::Result<()> {
    const WHOLE: u64 = 1;
    let process = Message::default()
        .number(1, u64::from(pid))
        .bytes(6, program.as_bytes());
    let descriptor = Message::default()
        .number(UUID, WHOLE)
        .message(PROCESS, &process);
    let packet = Message::default().message(TRACK_DESCRIPTOR, &descriptor);
    put(&mut out, packet)?;
    let uuid = |index: usize| index as u64 + WHOLE + 1;
    for (index, track) in tracks.iter().enumerate() {
        let thread = Message::default()
            .number(1, u64::from(pid))
            .number(2, u64::from(track.thread.tid))
            .bytes(5, track.label.as_bytes());
        let descriptor = Message::default()
            .number(UUID, uuid(index))
            .number(PARENT, WHOLE)
            .message(THREAD, &thread);
        put(
            &mut out,
            Message::default().message(TRACK_DESCRIPTOR, &descriptor),
        )?;
    }
    let mut flow = 0;
    for (index, track) in tracks.iter().enumerate() {
        for span in &track.spans {
            let mut begin = Message::default()
                .number(TYPE, SLICE_BEGIN)
                .number(TRACK, uuid(index))
                .bytes(NAME, span_name(span.state).as_bytes());
            if let Some(calls) = calls(stacks, names, span.stack) {
                let annotation = Message::default()
                    .bytes(ANNOTATION_NAME, b"stack")
                    .bytes(ANNOTATION_TEXT, calls.as_bytes());
                begin = begin.message(ANNOTATION, &annotation);
            }
            let mut end = Message::default()
                .number(TYPE, SLICE_END)
                .number(TRACK, uuid(index));
            let waker = span.waker.filter(|w| !w.interrupt);
            let waker = waker.and_then(|w| tracks.iter().position(|t| t.thread == w.thread));
            put(&mut out, event(span.from_ns, &begin))?;
            if let Some(waker) = waker {
                flow += 1;
                let wakes = Message::default()
                    .number(TYPE, INSTANT)
                    .number(TRACK, uuid(waker))
                    .bytes(NAME, b"wakes")
                    .fixed(FLOW, flow);
                put(&mut out, event(span.to_ns, &wakes))?;
                end = end.fixed(FLOW_END, flow);
            }
            put(&mut out, event(span.to_ns, &end))?;
        }
    }
    out.flush()
}

fn event(ns: u64, event: &Message) -> Message {
    Message::default()
        .number(TIMESTAMP, ns)
        .message(TRACK_EVENT, event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_as_protocol_buffers_say() {
        // The examples of the encoding's own documentation.
        assert_eq!(Message::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        let text = Message::default().bytes(2, b"testing");
        assert_eq!(text.0, b"\x12\x07testing");
        let outer = Message::default().message(3, &Message::default().number(1, 150));
        assert_eq!(outer.0, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let fixed = Message::default().fixed(47, 1);
        assert_eq!(fixed.0, [0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
