//! Records: what a segment file holds, one after the other.
//!
//! `length (4) · CRC-32 (4) · kind (1) · data`, numbers lowest byte first; the checksum is over
//! kind and data. Neighbours: `write` appends them, `read` and `segment` go through them.
//! Invariant: bytes that are no whole, unchanged record are never taken for one.

use waggle_wire::binlog::gtid::{Gtid, MariaDbGtid, Source};

use crate::Position;

/// Bytes before a record's kind.
pub(super) const HEAD_BYTES: usize = 8;
/// The servers' limit on an event, and room for what stands around it.
const RECORD_BYTES_MAX: usize = (1 << 30) + 4096;

const SEGMENT: u8 = 1;
const BEGIN: u8 = 2;
const TABLE: u8 = 3;
const ROWS: u8 = 4;
const STATEMENT: u8 = 5;
const COMMIT: u8 = 6;
const PREPARED: u8 = 7;
const XA_COMMIT: u8 = 8;
const XA_ROLLBACK: u8 = 9;
const SKIPPED: u8 = 10;
const XA_START: u8 = 11;

/// One transaction's identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Of MySQL.
    MySql(Gtid),
    /// Of MariaDB.
    MariaDb(MariaDbGtid),
}

impl Mark {
    /// Moves `position` past this transaction. A position of another flavour stays where it is.
    pub fn advance(&self, position: &mut Position) {
        match (self, position) {
            (Mark::MySql(gtid), Position::MySql(set)) => set.add(gtid),
            (Mark::MariaDb(gtid), Position::MariaDb(list)) => list.advance(*gtid),
            _ => {}
        }
    }

    /// Whether `position` is past this transaction.
    pub fn is_in(&self, position: &Position) -> bool {
        match (self, position) {
            (Mark::MySql(gtid), Position::MySql(set)) => set.contains(gtid),
            (Mark::MariaDb(gtid), Position::MariaDb(list)) => list.contains(*gtid),
            _ => false,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Mark::MySql(gtid) => {
                out.push(0);
                out.extend_from_slice(&gtid.source.uuid);
                out.extend_from_slice(&gtid.number.to_le_bytes());
                out.extend_from_slice(gtid.source.tag.as_bytes());
            }
            Mark::MariaDb(gtid) => {
                out.push(1);
                out.extend_from_slice(&gtid.domain.to_le_bytes());
                out.extend_from_slice(&gtid.server.to_le_bytes());
                out.extend_from_slice(&gtid.sequence.to_le_bytes());
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Mark> {
        let (flavour, rest) = bytes.split_first()?;
        if *flavour == 0 {
            let (uuid, rest) = rest.split_first_chunk::<16>()?;
            let (number, tag) = rest.split_first_chunk::<8>()?;
            let source = Source {
                uuid: *uuid,
                tag: String::from_utf8(tag.to_vec()).ok()?,
            };
            let number = u64::from_le_bytes(*number);
            return Some(Mark::MySql(Gtid { source, number }));
        }
        let (domain, rest) = rest.split_first_chunk::<4>()?;
        let (server, rest) = rest.split_first_chunk::<4>()?;
        let sequence = rest.first_chunk::<8>()?;
        Some(Mark::MariaDb(MariaDbGtid {
            domain: u32::from_le_bytes(*domain),
            server: u32::from_le_bytes(*server),
            sequence: u64::from_le_bytes(*sequence),
        }))
    }
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// The first of a segment: the position before its first transaction, as text.
    Segment(&'a str),
    /// A transaction begins that has something for the copied tables.
    Begin {
        /// Which one.
        mark: Mark,
        /// When it was committed at the source, microseconds since 1970.
        committed_us: u64,
    },
    /// The body of a table map.
    Table(&'a [u8]),
    /// The kind and body of a rows event, as they came.
    Rows(u8, &'a [u8]),
    /// A statement that changes a copied table in a way that rows do not say.
    Statement(&'a [u8]),
    /// What follows may be prepared under this name instead of committed.
    XaStart(&'a [u8]),
    /// The transaction is committed.
    Commit,
    /// It is prepared under this name: another transaction ends it.
    Prepared(&'a [u8]),
    /// What was prepared under this name is committed.
    XaCommit(&'a [u8]),
    /// What was prepared under this name is rolled back.
    XaRollback(&'a [u8]),
    /// A transaction that has nothing for the copied tables.
    Skipped {
        /// Which one.
        mark: Mark,
        /// When it was committed at the source, microseconds since 1970.
        committed_us: u64,
    },
}

impl Record<'_> {
    /// Whether the transaction is whole after it.
    pub fn ends_transaction(&self) -> bool {
        matches!(
            self,
            Record::Commit | Record::Prepared(_) | Record::Skipped { .. }
        )
    }

    /// Appends it, framed.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        match self {
            Record::Segment(position) => {
                out.push(SEGMENT);
                out.extend_from_slice(position.as_bytes());
            }
            Record::Begin { mark, committed_us } => marked(out, BEGIN, mark, *committed_us),
            Record::Skipped { mark, committed_us } => marked(out, SKIPPED, mark, *committed_us),
            Record::Table(body) => plain(out, TABLE, body),
            Record::Rows(kind, body) => {
                out.extend_from_slice(&[ROWS, *kind]);
                out.extend_from_slice(body);
            }
            Record::Statement(sql) => plain(out, STATEMENT, sql),
            Record::XaStart(xid) => plain(out, XA_START, xid),
            Record::Commit => out.push(COMMIT),
            Record::Prepared(xid) => plain(out, PREPARED, xid),
            Record::XaCommit(xid) => plain(out, XA_COMMIT, xid),
            Record::XaRollback(xid) => plain(out, XA_ROLLBACK, xid),
        }
        let length = (out.len() - start - HEAD_BYTES) as u32;
        let sum = crc32fast::hash(&out[start + HEAD_BYTES..]);
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..start + HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
}

fn plain(out: &mut Vec<u8>, kind: u8, data: &[u8]) {
    out.push(kind);
    out.extend_from_slice(data);
}

fn marked(out: &mut Vec<u8>, kind: u8, mark: &Mark, committed_us: u64) {
    out.push(kind);
    out.extend_from_slice(&committed_us.to_le_bytes());
    mark.put(out);
}

/// A record's length after its head, and its checksum; `None` when no record is so long.
pub(super) fn head(bytes: [u8; HEAD_BYTES]) -> Option<(usize, u32)> {
    let [a, b, c, d, e, f, g, h] = bytes;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let sum = u32::from_le_bytes([e, f, g, h]);
    (1..=RECORD_BYTES_MAX)
        .contains(&length)
        .then_some((length, sum))
}

/// Reads what follows a head; `None` when it is not what was written.
pub(super) fn parse(bytes: &[u8], sum: u32) -> Option<Record<'_>> {
    if crc32fast::hash(bytes) != sum {
        return None;
    }
    let (kind, data) = bytes.split_first()?;
    let with_mark = || {
        let (committed_us, rest) = data.split_first_chunk::<8>()?;
        Some((Mark::parse(rest)?, u64::from_le_bytes(*committed_us)))
    };
    Some(match *kind {
        SEGMENT => Record::Segment(std::str::from_utf8(data).ok()?),
        BEGIN => {
            let (mark, committed_us) = with_mark()?;
            Record::Begin { mark, committed_us }
        }
        SKIPPED => {
            let (mark, committed_us) = with_mark()?;
            Record::Skipped { mark, committed_us }
        }
        TABLE => Record::Table(data),
        ROWS => {
            let (kind, body) = data.split_first()?;
            Record::Rows(*kind, body)
        }
        STATEMENT => Record::Statement(data),
        XA_START => Record::XaStart(data),
        COMMIT => Record::Commit,
        PREPARED => Record::Prepared(data),
        XA_COMMIT => Record::XaCommit(data),
        XA_ROLLBACK => Record::XaRollback(data),
        _ => return None,
    })
}

/// The records in `bytes`, one after the other; `None` where one is damaged, after which nothing
/// comes.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = rest
            .split_first_chunk::<HEAD_BYTES>()
            .and_then(|(first, after)| {
                let (length, sum) = head(*first)?;
                let (record, after) = after.split_at_checked(length)?;
                Some((parse(record, sum)?, after))
            });
        rest = found.as_ref().map_or(&[], |(_, after)| *after);
        Some(found.map(|(record, _)| record))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(tag: &str) -> Mark {
        let source = Source {
            uuid: [7; 16],
            tag: tag.to_owned(),
        };
        Mark::MySql(Gtid { source, number: 9 })
    }

    fn examples() -> Vec<Record<'static>> {
        let other = Mark::MariaDb(MariaDbGtid {
            domain: 1,
            server: 2,
            sequence: 1 << 40,
        });
        vec![
            Record::Segment("mysql:"),
            Record::Begin {
                mark: mark("blue"),
                committed_us: u64::MAX,
            },
            Record::Table(b"map"),
            Record::Rows(30, b"rows"),
            Record::Statement(b"DROP TABLE t"),
            Record::XaStart(b"x"),
            Record::Commit,
            Record::Prepared(b"x"),
            Record::XaCommit(b"x"),
            Record::XaRollback(b""),
            Record::Skipped {
                mark: other,
                committed_us: 0,
            },
        ]
    }

    fn read(bytes: &[u8]) -> Option<Record<'_>> {
        let (first, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (length, sum) = head(*first)?;
        parse(rest.get(..length)?, sum)
    }

    #[test]
    fn what_is_written_is_read_and_every_cut_and_bit_is_seen() {
        for record in examples() {
            let mut bytes = Vec::new();
            record.put(&mut bytes);
            assert_eq!(read(&bytes).as_ref(), Some(&record));
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), None);
            }
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(read(&bytes).as_ref(), Some(&record), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_mark_moves_a_position_past_itself() {
        let mut position: Position = "mysql:".parse().unwrap();
        assert!(!mark("").is_in(&position));
        mark("").advance(&mut position);
        assert!(mark("").is_in(&position));
        assert!(!mark("blue").is_in(&position));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200),
                                  kind in 0u8..13) {
            let mut data = vec![kind];
            data.extend_from_slice(&bytes);
            // With the right checksum, as a faulty program would write it.
            let _ = parse(&data, crc32fast::hash(&data));
            prop_assert!(read(&bytes).is_none());
        }
    }
}
