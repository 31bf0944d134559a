//! MySQL's sets: which transactions of which servers, as intervals of their numbers.
//!
//! Neighbours: one transaction and its source, one module up. Invariant: intervals are kept sorted,
//! disjoint and apart, and no source is kept without one.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{Gtid, GtidError, Source, is_tag, parse_uuid, tag};
use crate::Error;
use crate::cursor::Cursor;

/// In the first and last byte of a set's count: entries have tags.
const FORMAT_TAGGED: u8 = 1;

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

fn parse_interval(text: &str) -> Option<Interval> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first >= 1 && first <= last && last < i64::MAX as u64).then_some((first, last + 1))
}
