//! Events: what each packet of a dump or each stretch of a log file holds.
//!
//! An event is a header of 19 bytes, a body, and in most logs a CRC-32 over both. Which logs have
//! it, the log itself says in its first event. Neighbours: the stream gives the bytes, the other
//! modules read the bodies. Invariant: an event whose length or checksum is not right is an error
//! before anybody reads its body.

pub mod kind;

use crate::Error;
use crate::cursor::Cursor;

/// Bytes before an event's body.
pub const HEADER_BYTES: usize = 19;
const CHECKSUM_BYTES: usize = 4;
/// Set in the first event of a log that is still written to; no part of its checksum.
const FLAG_IN_USE: u16 = 0x1;
/// The event was made for the reader and is in no log.
const FLAG_ARTIFICIAL: u16 = 0x20;
/// Readers that do not know the kind may go on without it.
const FLAG_IGNORABLE: u16 = 0x80;
const ALGORITHM_CRC32: u8 = 1;

/// The first 19 bytes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Seconds since 1970, of the statement's start.
    pub timestamp: u32,
    /// One of [`kind`].
    pub kind: u8,
    /// The server that the change was first made on.
    pub server_id: u32,
    /// Bytes of the event, header and checksum included.
    pub length: u32,
    /// Where the next event begins in the log; 0 in artificial events, in those inside of others
    /// and in some of MariaDB's.
    pub next_position: u32,
    /// As the servers number them.
    pub flags: u16,
}

impl Header {
    /// Whether it was made for the reader and is in no log.
    pub fn is_artificial(&self) -> bool {
        self.flags & FLAG_ARTIFICIAL != 0
    }

    /// Whether a reader that does not know the kind may go on without it.
    pub fn is_ignorable(&self) -> bool {
        self.flags & FLAG_IGNORABLE != 0
    }
}

/// One event: its header, and what lies between that and the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The header.
    pub header: Header,
    /// The rest, without the checksum.
    pub body: &'a [u8],
}

/// How the events of a log are framed: with a checksum or without.
///
/// Events must pass through [`Framing::read`] in the order of the log, because the first one of
/// each file says how the others are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    has_checksum: bool,
}

impl Framing {
    /// `has_checksum` holds until the log says something else.
    pub fn new(has_checksum: bool) -> Framing {
        Framing { has_checksum }
    }

    /// Whether events end in a checksum now.
    pub fn has_checksum(self) -> bool {
        self.has_checksum
    }

    /// Reads one event that fills `bytes`.
    ///
    /// # Errors
    /// [`Error::Protocol`] when its length is another than that of `bytes` or its checksum does
    /// not fit it.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Event<'a>, Error> {
        let mut cursor = Cursor::new(bytes, "binary log event");
        let header = header(&mut cursor)?;
        if header.length as usize != bytes.len() {
            let length = header.length;
            let what = format!("it says that it has {length} bytes and has {}", bytes.len());
            return Err(cursor.error(&what));
        }
        let mut body = cursor.clone().rest();
        if header.kind == kind::FORMAT_DESCRIPTION {
            let algorithm = checksum_algorithm(body, &cursor)?;
            self.has_checksum = algorithm == ALGORITHM_CRC32;
            // It has room for a checksum even where the others have none.
            if !self.has_checksum {
                body = &body[..body.len() - CHECKSUM_BYTES];
            }
        }
        if self.has_checksum {
            let Some((rest, sum)) = body.split_last_chunk::<CHECKSUM_BYTES>() else {
                return Err(cursor.error("it has no room for its checksum"));
            };
            check(&header, bytes, u32::from_le_bytes(*sum))?;
            body = rest;
        }
        Ok(Event { header, body })
    }
}

fn header(cursor: &mut Cursor<'_>) -> Result<Header, Error> {
    Ok(Header {
        timestamp: cursor.u32()?,
        kind: cursor.u8()?,
        server_id: cursor.u32()?,
        length: cursor.u32()?,
        next_position: cursor.u32()?,
        flags: cursor.u16()?,
    })
}

/// Reads an event inside of another one, which has no checksum of its own, off the front of
/// `bytes`; gives it and what follows.
///
/// # Errors
/// [`Error::Protocol`] when it is longer than `bytes`.
pub fn read_inner(bytes: &[u8]) -> Result<(Event<'_>, &[u8]), Error> {
    let mut cursor = Cursor::new(bytes, "binary log event");
    let header = header(&mut cursor)?;
    let Some(length) = (header.length as usize).checked_sub(HEADER_BYTES) else {
        return Err(cursor.error("its length is less than that of its header"));
    };
    let body = cursor.bytes(length)?;
    Ok((Event { header, body }, cursor.rest()))
}

/// The last bytes of a format description: an algorithm and a checksum or room for one.
fn checksum_algorithm(body: &[u8], cursor: &Cursor<'_>) -> Result<u8, Error> {
    // Version, server version, time, header length, and lengths for all kinds up to this one.
    const BYTES_MIN: usize = 2 + 50 + 4 + 1 + 15;
    match body.split_last_chunk::<{ CHECKSUM_BYTES + 1 }>() {
        Some((rest, [algorithm, ..])) if rest.len() >= BYTES_MIN => match (rest, algorithm) {
            ([4, 0, ..], 0 | 1) => Ok(*algorithm),
            ([4, 0, ..], other) => {
                Err(cursor.error(&format!("checksums of kind {other} are not known")))
            }
            _ => Err(cursor.error("the log is not of version 4")),
        },
        _ => Err(cursor.error("the log's format description ends early")),
    }
}

fn check(header: &Header, bytes: &[u8], expected: u32) -> Result<(), Error> {
    const FLAGS_AT: usize = HEADER_BYTES - 2;
    let mut sum = crc32fast::Hasher::new();
    if header.kind == kind::FORMAT_DESCRIPTION && header.flags & FLAG_IN_USE != 0 {
        sum.update(&bytes[..FLAGS_AT]);
        sum.update(&(header.flags & !FLAG_IN_USE).to_le_bytes());
        sum.update(&bytes[HEADER_BYTES..bytes.len() - CHECKSUM_BYTES]);
    } else {
        sum.update(&bytes[..bytes.len() - CHECKSUM_BYTES]);
    }
    if sum.finalize() == expected {
        return Ok(());
    }
    Err(Error::protocol(format!(
        "binary log event of kind {} before position {}: its checksum does not fit its {} bytes",
        header.kind, header.next_position, header.length
    )))
}

/// Where a log goes on: the body of a [`kind::ROTATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Of the first event in the next file.
    pub position: u64,
    /// The next file's name.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it ends early.
    pub fn parse(body: &'a [u8]) -> Result<Rotate<'a>, Error> {
        let mut cursor = Cursor::new(body, "rotate event");
        let position = cursor.u64()?;
        Ok(Rotate {
            position,
            file: cursor.rest(),
        })
    }
}

/// A statement in the log: the body of a [`kind::QUERY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// The session that ran it.
    pub thread_id: u32,
    /// 0, or the error that it ended with.
    pub error: u16,
    /// The settings that it ran with, as the servers encode them.
    pub variables: &'a [u8],
    /// The session's database.
    pub schema: &'a [u8],
    /// Its text.
    pub sql: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it ends early.
    pub fn parse(body: &'a [u8]) -> Result<Query<'a>, Error> {
        let mut cursor = Cursor::new(body, "query event");
        let thread_id = cursor.u32()?;
        cursor.u32()?; // execution time
        let schema_bytes = cursor.u8()?;
        let error = cursor.u16()?;
        let variables_bytes = cursor.u16()?;
        let variables = cursor.bytes(variables_bytes.into())?;
        let schema = cursor.bytes(schema_bytes.into())?;
        if cursor.u8()? != 0 {
            return Err(cursor.error("the schema's name does not end"));
        }
        Ok(Query {
            thread_id,
            error,
            variables,
            schema,
            sql: cursor.rest(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An event as a server frames it.
    pub(crate) fn framed(kind: u8, flags: u16, body: &[u8], has_checksum: bool) -> Vec<u8> {
        let length = HEADER_BYTES + body.len() + if has_checksum { CHECKSUM_BYTES } else { 0 };
        let mut bytes = 7u32.to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        bytes.extend_from_slice(&4711u32.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(body);
        if has_checksum {
            let sum = crc32fast::hash(&bytes);
            bytes.extend_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// The first event of a log.
    fn description(algorithm: u8) -> Vec<u8> {
        let mut body = vec![4, 0];
        body.extend_from_slice(&[b'9'; 50]);
        body.extend_from_slice(&[0; 4]);
        body.push(19);
        body.extend_from_slice(&[8; 42]);
        body.push(algorithm);
        let mut bytes = framed(kind::FORMAT_DESCRIPTION, 0, &body, true);
        if algorithm != ALGORITHM_CRC32 {
            let at = bytes.len() - 4;
            bytes[at..].fill(0);
        }
        bytes
    }

    #[test]
    fn the_log_says_whether_events_have_checksums() {
        let mut framing = Framing::new(false);
        let bytes = framed(kind::ROTATE, 0x20, b"\x04\0\0\0\0\0\0\0bin.1", false);
        let event = framing.read(&bytes).unwrap();
        assert!(event.header.is_artificial());
        let rotate = Rotate::parse(event.body).unwrap();
        assert_eq!((rotate.position, rotate.file), (4, &b"bin.1"[..]));
        framing.read(&description(1)).unwrap();
        assert!(framing.has_checksum());
        let bytes = framed(kind::XID, 0, &[9; 8], true);
        assert_eq!(framing.read(&bytes).unwrap().body, [9; 8]);
        framing.read(&description(0)).unwrap();
        assert!(!framing.has_checksum());
        let bytes = framed(kind::XID, 0, &[9; 8], false);
        let event = framing.read(&bytes).unwrap();
        assert_eq!(event.body, [9; 8]);
        assert_eq!(
            (event.header.timestamp, event.header.next_position),
            (7, 4711)
        );
        assert!(framing.read(&description(2)).is_err());
    }

    #[test]
    fn a_log_in_use_has_the_checksum_of_one_that_is_not() {
        let mut bytes = description(1);
        bytes[17] |= FLAG_IN_USE as u8;
        Framing::new(false).read(&bytes).unwrap();
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_seen() {
        let bytes = framed(kind::XID, 0, b"eight by", true);
        let mut framing = Framing::new(true);
        framing.read(&bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(framing.read(&bytes[..length]).is_err());
        }
        for at in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(Framing::new(true).read(&bytes).is_err(), "bit {at}");
        }
    }

    #[test]
    fn events_inside_of_others_follow_each_other() {
        let mut bytes = framed(kind::XID, 0, b"one", false);
        bytes.extend_from_slice(&framed(kind::XID, 0, b"second", false));
        let (first, rest) = read_inner(&bytes).unwrap();
        let (second, rest) = read_inner(rest).unwrap();
        assert_eq!((first.body, second.body), (&b"one"[..], &b"second"[..]));
        assert!(rest.is_empty());
        assert!(read_inner(&bytes[..20]).is_err());
        bytes[9] = 18;
        assert!(read_inner(&bytes).is_err());
    }

    #[test]
    fn reads_a_statement() {
        let body = b"\x05\0\0\0\0\0\0\0\x02\0\0\x03\0vardb\0BEGIN";
        let query = Query::parse(body).unwrap();
        assert_eq!((query.thread_id, query.error), (5, 0));
        assert_eq!((query.variables, query.schema), (&b"var"[..], &b"db"[..]));
        assert_eq!(query.sql, b"BEGIN");
        for length in 0..body.len() - 5 {
            assert!(Query::parse(&body[..length]).is_err());
        }
    }
}
