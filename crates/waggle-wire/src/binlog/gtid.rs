//! Positions as sets of transactions: MySQL's sets and MariaDB's lists.
//!
//! A MySQL position is every transaction seen so far, by source, tag and number; a MariaDB
//! position is the last one of each domain. Neighbours: the stream starts from one, and events
//! add to it. Invariant: what is printed parses to an equal set, and intervals are kept sorted,
//! disjoint and apart.

mod mariadb;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::binlog::event::kind;
use crate::cursor::Cursor;

pub use mariadb::{MariaDbFlags, MariaDbGtid, MariaDbPosition};

/// The tag's greatest length.
const TAG_BYTES_MAX: usize = 32;
/// Of the encoding of events with fields.
const ENCODING_VERSION: u64 = 1;
/// In the first and last byte of a set's count: entries have tags.
const FORMAT_TAGGED: u8 = 1;

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

/// Numbers from the first (included) to the second (excluded).
type Interval = (u64, u64);

/// Transactions of MySQL servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidSet {
    sources: BTreeMap<Source, Vec<Interval>>,
}

impl GtidSet {
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// How many transactions it holds; no more than `u64::MAX` of a set that somebody made up.
    pub fn count(&self) -> u64 {
        let intervals = self.sources.values().flatten();
        intervals.fold(0, |count: u64, (start, end)| {
            count.saturating_add(end - start)
        })
    }

    /// Adds one.
    pub fn add(&mut self, gtid: &Gtid) {
        self.add_interval(&gtid.source, (gtid.number, gtid.number + 1));
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &GtidSet) {
        for (source, intervals) in &other.sources {
            for interval in intervals {
                self.add_interval(source, *interval);
            }
        }
    }

    /// Takes away what is in `other`.
    pub fn subtract(&mut self, other: &GtidSet) {
        for (source, taken) in &other.sources {
            let Some(intervals) = self.sources.get_mut(source) else {
                continue;
            };
            let mut left = Vec::with_capacity(intervals.len());
            let mut taken = taken.iter().copied().peekable();
            for (mut start, end) in intervals.iter().copied() {
                while let Some(&(from, to)) = taken.peek().filter(|taken| taken.0 < end) {
                    if start < from {
                        left.push((start, from));
                    }
                    start = start.max(to);
                    if to > end {
                        break;
                    }
                    taken.next();
                }
                if start < end {
                    left.push((start, end));
                }
            }
            *intervals = left;
            if intervals.is_empty() {
                self.sources.remove(source);
            }
        }
    }

    /// Whether it holds this one.
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.sources
            .get(&gtid.source)
            .is_some_and(|intervals| covers(intervals, (gtid.number, gtid.number + 1)))
    }

    /// Whether all of it is in `other`.
    pub fn is_subset(&self, other: &GtidSet) -> bool {
        self.sources.iter().all(|(source, intervals)| {
            let Some(others) = other.sources.get(source) else {
                return false;
            };
            intervals.iter().all(|interval| covers(others, *interval))
        })
    }

    fn add_interval(&mut self, source: &Source, (mut start, mut end): Interval) {
        let intervals = match self.sources.get_mut(source) {
            Some(intervals) => intervals,
            None => self.sources.entry(source.clone()).or_default(),
        };
        // The usual one: the next number.
        if let Some(last) = intervals.last_mut()
            && last.1 == start
        {
            last.1 = end;
            return;
        }
        // Those that touch it become one with it.
        let first = intervals.partition_point(|interval| interval.1 < start);
        let after = intervals.partition_point(|interval| interval.0 <= end);
        if first < after {
            start = start.min(intervals[first].0);
            end = end.max(intervals[after - 1].1);
        }
        intervals.splice(first..after, [(start, end)]);
    }

    /// As `COM_BINLOG_DUMP_GTID` takes it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let is_tagged = self.sources.keys().any(|source| !source.tag.is_empty());
        let mut count = self.sources.len() as u64;
        if is_tagged {
            let format = u64::from(FORMAT_TAGGED);
            count = format << 56 | count << 8 | format;
        }
        let mut out = count.to_le_bytes().to_vec();
        for (source, intervals) in &self.sources {
            out.extend_from_slice(&source.uuid);
            if is_tagged {
                // Below 128, so one byte is enough for it.
                out.push((source.tag.len() as u8) << 1);
                out.extend_from_slice(source.tag.as_bytes());
            }
            out.extend_from_slice(&(intervals.len() as u64).to_le_bytes());
            for (start, end) in intervals {
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&end.to_le_bytes());
            }
        }
        out
    }

    /// Reads the body of the event that says which transactions the logs before this one hold.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one.
    pub fn parse_previous(body: &[u8]) -> Result<GtidSet, Error> {
        let mut cursor = Cursor::new(body, "previous GTIDs event");
        let count = cursor.u64()?;
        let [low, .., format] = count.to_le_bytes();
        let (is_tagged, count) = match format {
            0 => (false, count),
            FORMAT_TAGGED if low == FORMAT_TAGGED => (true, count << 8 >> 16),
            _ => return Err(cursor.error("its format is not known")),
        };
        let mut set = GtidSet::default();
        for _ in 0..count {
            let uuid = cursor.array()?;
            let tag = match is_tagged {
                true => tag(&mut cursor)?,
                false => String::new(),
            };
            let source = Source { uuid, tag };
            for _ in 0..cursor.u64()? {
                let interval = (cursor.u64()?, cursor.u64()?);
                if interval.0 == 0 || interval.0 >= interval.1 || interval.1 > i64::MAX as u64 {
                    return Err(cursor.error("an interval in it is none"));
                }
                set.add_interval(&source, interval);
            }
        }
        Ok(set)
    }
}

fn covers(intervals: &[Interval], (start, end): Interval) -> bool {
    let at = intervals.partition_point(|interval| interval.1 <= start);
    intervals
        .get(at)
        .is_some_and(|interval| interval.0 <= start && end <= interval.1)
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (source, intervals) in &self.sources {
            write!(f, "{before}{source}")?;
            before = ",";
            for (start, end) in intervals {
                write!(f, ":{start}")?;
                if end - start > 1 {
                    write!(f, "-{}", end - 1)?;
                }
            }
        }
        Ok(())
    }
}

/// A text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no {what}")]
pub struct GtidError {
    text: String,
    what: &'static str,
}

impl FromStr for GtidSet {
    type Err = GtidError;

    /// Reads `uuid[:tag]:1-5:7,…`, with spaces and line ends where a server prints them; one UUID
    /// may have several tags, each before its intervals.
    fn from_str(text: &str) -> Result<GtidSet, GtidError> {
        let mut set = GtidSet::default();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let error = || GtidError {
                text: entry.to_owned(),
                what: "set of MySQL GTIDs (uuid[:tag]:1-5)",
            };
            let mut parts = entry.split(':').map(str::trim);
            let uuid = parts.next().and_then(parse_uuid).ok_or_else(error)?;
            let mut source = Source {
                uuid,
                tag: String::new(),
            };
            let mut is_complete = false;
            for part in parts {
                if part.starts_with(|c: char| c.is_ascii_digit()) {
                    let interval = parse_interval(part).ok_or_else(error)?;
                    set.add_interval(&source, interval);
                    is_complete = true;
                } else {
                    source.tag = part.to_ascii_lowercase();
                    is_complete = false;
                    if part.is_empty() || !is_tag(&source.tag) {
                        return Err(error());
                    }
                }
            }
            if !is_complete {
                return Err(error());
            }
        }
        Ok(set)
    }
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

fn parse_interval(text: &str) -> Option<Interval> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first >= 1 && first <= last && last < i64::MAX as u64).then_some((first, last + 1))
}

#[cfg(test)]
mod tests;
