//! Positions as sets of transactions: MySQL's sets and MariaDB's lists.
//!
//! A MySQL position is every transaction seen so far, by source, tag and number; a MariaDB
//! position is the last one of each domain. Neighbours: the stream starts from one, and events
//! add to it. Invariant: what is printed parses to an equal position.

mod mariadb;
mod set;

use std::fmt;

use crate::Error;
use crate::binlog::event::kind;
use crate::cursor::Cursor;

pub use mariadb::{MariaDbFlags, MariaDbGtid, MariaDbPosition};
pub use set::GtidSet;

/// The tag's greatest length.
const TAG_BYTES_MAX: usize = 32;
/// Of the encoding of events with fields.
const ENCODING_VERSION: u64 = 1;

/// Who a MySQL transaction's number is from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The server's UUID.
    pub uuid: [u8; 16],
    /// Empty, or a tag of up to 32 characters.
    pub tag: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.uuid.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        match self.tag.is_empty() {
            true => Ok(()),
            false => write!(f, ":{}", self.tag),
        }
    }
}

/// One MySQL transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gtid {
    /// Who numbered it.
    pub source: Source,
    /// Its number, from 1.
    pub number: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.number)
    }
}

impl Gtid {
    /// Reads the body of a GTID event.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one.
    pub fn parse(body: &[u8]) -> Result<Gtid, Error> {
        let mut cursor = Cursor::new(body, "GTID event");
        cursor.u8()?; // flags
        let uuid = cursor.array()?;
        let number = cursor.u64()?;
        let tag = String::new();
        Gtid::checked(Source { uuid, tag }, number, &cursor)
    }

    /// Reads the body of a GTID event with a tag.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one.
    pub fn parse_tagged(body: &[u8]) -> Result<Gtid, Error> {
        let mut cursor = Cursor::new(body, "tagged GTID event");
        // Version of the encoding, size, last field that may not be left out.
        let version = varying(&mut cursor)?;
        if version != ENCODING_VERSION {
            return Err(cursor.error(&format!("its encoding is of version {version}")));
        }
        varying(&mut cursor)?;
        varying(&mut cursor)?;
        let field = |cursor: &mut Cursor<'_>, expected: u64| match varying(cursor)? {
            field if field == expected => Ok(()),
            _ => Err(cursor.error("a field of it is missing")),
        };
        field(&mut cursor, 0)?;
        varying(&mut cursor)?; // flags
        field(&mut cursor, 1)?;
        let mut uuid = [0; 16];
        for byte in &mut uuid {
            let value = varying(&mut cursor)?;
            *byte = u8::try_from(value).map_err(|_| cursor.error("its UUID has no bytes"))?;
        }
        field(&mut cursor, 2)?;
        // Signed: the lowest bit is the sign.
        let number = varying(&mut cursor)? >> 1;
        field(&mut cursor, 3)?;
        let tag = tag(&mut cursor)?;
        Gtid::checked(Source { uuid, tag }, number, &cursor)
    }

    /// When it was committed where it was read from, in microseconds since 1970, from the kind and
    /// body of a GTID event; `None` where the event does not say.
    pub fn committed_us(event: u8, body: &[u8]) -> Option<u64> {
        // Flags, UUID, number, kind of logical time stamps, two of them.
        const AT: usize = 1 + 16 + 8 + 1 + 8 + 8;
        /// Another one follows, of the server that it was first committed on.
        const FLAG: u64 = 1 << 55;
        if event != kind::GTID {
            return None;
        }
        let [a, b, c, d, e, f, g] = *body.get(AT..)?.first_chunk::<7>()?;
        let number = u64::from_le_bytes([a, b, c, d, e, f, g, 0]) & !FLAG;
        (number > 0).then_some(number)
    }

    fn checked(source: Source, number: u64, cursor: &Cursor<'_>) -> Result<Gtid, Error> {
        match number {
            1..=0x7fff_ffff_ffff_fffe => Ok(Gtid { source, number }),
            _ => Err(cursor.error("its number is out of range")),
        }
    }
}

/// An integer whose first byte's trailing ones say how many bytes follow.
fn varying(cursor: &mut Cursor<'_>) -> Result<u64, Error> {
    let first = cursor.u8()?;
    let more = first.trailing_ones();
    if more == 8 {
        return cursor.u64();
    }
    let mut bytes = [0; 8];
    bytes[0] = first;
    bytes[1..=more as usize].copy_from_slice(cursor.bytes(more as usize)?);
    Ok(u64::from_le_bytes(bytes) >> (more + 1))
}

fn tag(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    let length = varying(cursor)?;
    if length > TAG_BYTES_MAX as u64 {
        return Err(cursor.error("a tag in it is too long"));
    }
    let bytes = cursor.bytes(length as usize)?;
    match std::str::from_utf8(bytes) {
        Ok(text) if is_tag(text) => Ok(text.to_owned()),
        _ => Err(cursor.error("a tag in it is none")),
    }
}

/// The empty tag is one.
fn is_tag(text: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    text.len() <= TAG_BYTES_MAX
        && text.bytes().next().is_none_or(is_first)
        && text.bytes().all(|b| is_first(b) || b.is_ascii_digit())
}

/// A text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no {what}")]
pub struct GtidError {
    text: String,
    what: &'static str,
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    for byte in &mut uuid {
        let mut digit = || char::from(digits.next()?).to_digit(16);
        *byte = (digit()? << 4 | digit()?) as u8;
    }
    digits.next().is_none().then_some(uuid)
}

#[cfg(test)]
mod tests;
