//! MySQL's compressed transactions: one event that holds all others of a transaction.
//!
//! The events come out one by one, in a buffer as large as the largest of them, however large the
//! transaction is. Neighbour: [`event`](crate::binlog::event) frames both. Invariant: a
//! transaction that does not unpack whole is an error; what it says of its size allocates
//! nothing.

use std::io::{BufReader, Read};

use crate::Error;
use crate::binlog::event::{Event, HEADER_BYTES, read_inner};
use crate::cursor::Cursor;

const FIELD_END: u64 = 0;
const FIELD_PACKED_BYTES: u64 = 1;
const FIELD_COMPRESSION: u64 = 2;
const FIELD_BYTES: u64 = 3;
const COMPRESSION_ZSTD: u64 = 0;
const COMPRESSION_NONE: u64 = 255;
/// Unpacked at a time.
const PIECE_BYTES: usize = 64 << 10;
/// The servers' limit on an event.
const EVENT_BYTES_MAX: usize = 1 << 30;

/// The events inside of one.
pub struct Payload<'a> {
    source: Source<'a>,
    buffer: Vec<u8>,
    /// The event given out last, and where unpacked bytes end.
    start: usize,
    end: usize,
    /// Bytes that are still to come out of `source`.
    left: u64,
}

enum Source<'a> {
    Plain(&'a [u8]),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<&'a [u8]>>>),
}

fn error(what: impl std::fmt::Display) -> Error {
    Error::protocol(format!("binary log: compressed transaction: {what}"))
}

impl<'a> Payload<'a> {
    /// Reads the beginning of the body of a transaction payload.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one, [`Error::Unsupported`] when it is compressed in
    /// another way than zstd.
    pub fn parse(body: &'a [u8]) -> Result<Payload<'a>, Error> {
        let mut cursor = Cursor::new(body, "transaction payload event");
        let (mut packed, mut bytes, mut compression) = (None, None, COMPRESSION_NONE);
        loop {
            let field = cursor.integer()?;
            if field == FIELD_END {
                break;
            }
            let mut value = Cursor::new(cursor.text()?, "transaction payload event");
            match field {
                FIELD_PACKED_BYTES => packed = Some(value.integer()?),
                FIELD_COMPRESSION => compression = value.integer()?,
                FIELD_BYTES => bytes = Some(value.integer()?),
                // Servers pass over fields of later versions, too.
                _ => {}
            }
        }
        let data = cursor.rest();
        if packed != Some(data.len() as u64) {
            return Err(error("its length is not what it says"));
        }
        let source = match compression {
            COMPRESSION_NONE => Source::Plain(data),
            COMPRESSION_ZSTD => {
                let decoder = zstd::stream::read::Decoder::with_buffer(BufReader::new(data))?;
                Source::Zstd(Box::new(decoder))
            }
            other => {
                return Err(Error::Unsupported(format!(
                    "a transaction in the binary log with compression {other}"
                )));
            }
        };
        let left = match (compression, bytes) {
            (_, Some(bytes)) => bytes,
            (COMPRESSION_NONE, None) => data.len() as u64,
            _ => return Err(error("it does not say how long it is")),
        };
        Ok(Payload {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            left,
        })
    }

    /// The next event; `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the transaction is damaged. What was given out before is not to
    /// be committed then.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, Error> {
        if self.start == self.end && self.left == 0 {
            // All is out; there must be no more.
            return match self.read(1)? {
                0 => Ok(None),
                _ => Err(error("it is longer than it says")),
            };
        }
        self.fill(HEADER_BYTES)?;
        let Some(length) = self.buffer[self.start + 9..].first_chunk() else {
            return Err(error("it ends early"));
        };
        let length = u32::from_le_bytes(*length) as usize;
        if !(HEADER_BYTES..=EVENT_BYTES_MAX).contains(&length) {
            return Err(error(format!("an event of {length} bytes")));
        }
        self.fill(length)?;
        let bytes = &self.buffer[self.start..self.start + length];
        self.start += length;
        read_inner(bytes).map(|(event, _)| Some(event))
    }

    /// Unpacks until so many bytes lie after `start`.
    fn fill(&mut self, needed: usize) -> Result<(), Error> {
        if self.end - self.start >= needed {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if needed <= PIECE_BYTES && self.buffer.len() > 16 * PIECE_BYTES && self.end < PIECE_BYTES {
            self.buffer.truncate(PIECE_BYTES);
            self.buffer.shrink_to_fit();
        }
        while self.end < needed {
            // With what comes, not with what is announced.
            let read = self.read(PIECE_BYTES)?;
            if read == 0 {
                return Err(error("it ends early"));
            }
            self.left = match self.left.checked_sub(read as u64) {
                Some(left) => left,
                None => return Err(error("it is longer than it says")),
            };
        }
        Ok(())
    }

    /// Unpacks up to so many bytes more.
    fn read(&mut self, at_most: usize) -> Result<usize, Error> {
        if self.buffer.len() < self.end + at_most {
            self.buffer.resize(self.end + at_most, 0);
        }
        let target = &mut self.buffer[self.end..self.end + at_most];
        let read = match &mut self.source {
            Source::Plain(data) => data.read(target),
            Source::Zstd(decoder) => decoder.read(target),
        };
        let read = read.map_err(error)?;
        self.end += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::binlog::event::tests::framed;
    use crate::cursor::put_integer;

    fn events() -> Vec<u8> {
        let mut plain = framed(2, 0, b"BEGIN", false);
        plain.extend_from_slice(&framed(30, 0, &vec![7; 3 * PIECE_BYTES], false));
        for i in 0..50 {
            plain.extend_from_slice(&framed(30, 0, &vec![i; 1000 + usize::from(i)], false));
        }
        plain.extend_from_slice(&framed(16, 0, &[1; 8], false));
        plain
    }

    fn payload(compression: u64, bytes: u64, data: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for (field, number) in [
            (FIELD_COMPRESSION, compression),
            (FIELD_BYTES, bytes),
            (FIELD_PACKED_BYTES, data.len() as u64),
        ] {
            let mut value = Vec::new();
            put_integer(&mut value, number);
            body.push(field as u8);
            body.push(value.len() as u8);
            body.extend_from_slice(&value);
        }
        body.push(0);
        body.extend_from_slice(data);
        body
    }

    fn walk(body: &[u8]) -> Result<Vec<(u8, usize)>, Error> {
        let mut payload = Payload::parse(body)?;
        let mut events = Vec::new();
        while let Some(event) = payload.next()? {
            events.push((event.header.kind, event.body.len()));
            assert!(payload.buffer.len() < 6 * PIECE_BYTES);
        }
        Ok(events)
    }

    #[test]
    fn events_come_out_one_by_one() {
        let plain = events();
        let packed = zstd::bulk::compress(&plain, 3).unwrap();
        assert!(packed.len() < plain.len() / 100);
        let expected = walk(&payload(COMPRESSION_NONE, plain.len() as u64, &plain)).unwrap();
        assert_eq!((expected.len(), expected[1].1), (53, 3 * PIECE_BYTES));
        let body = payload(COMPRESSION_ZSTD, plain.len() as u64, &packed);
        assert_eq!(walk(&body).unwrap(), expected);
    }

    #[test]
    fn what_does_not_unpack_whole_is_an_error() {
        let plain = events();
        let packed = zstd::bulk::compress(&plain, 3).unwrap();
        let bytes = plain.len() as u64;
        for length in 0..packed.len() {
            let body = payload(COMPRESSION_ZSTD, bytes, &packed[..length]);
            assert!(walk(&body).is_err(), "{length} of {}", packed.len());
        }
        for wrong in [bytes - 1, bytes + 1, 0, u64::MAX] {
            assert!(
                walk(&payload(COMPRESSION_ZSTD, wrong, &packed)).is_err(),
                "{wrong}"
            );
        }
        assert!(walk(&payload(7, bytes, &packed)).is_err());
        let body = payload(COMPRESSION_ZSTD, bytes, &packed);
        assert!(walk(&body[..body.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn damaged_payloads_are_answered(at in any::<usize>(), byte in any::<u8>(),
                                         is_plain in any::<bool>()) {
            let plain = events();
            let (compression, data) = match is_plain {
                true => (COMPRESSION_NONE, plain.clone()),
                false => (COMPRESSION_ZSTD, zstd::bulk::compress(&plain, 3).unwrap()),
            };
            let mut body = payload(compression, plain.len() as u64, &data);
            let length = body.len();
            body[at % length] = byte;
            if let Ok(mut payload) = Payload::parse(&body) {
                for _ in 0..100 {
                    if !matches!(payload.next(), Ok(Some(_))) {
                        break;
                    }
                }
                prop_assert!(payload.buffer.len() <= plain.len() + PIECE_BYTES);
            }
        }
    }
}
