//! Everything a server answers to a query or an execution, to its end.
//!
//! The connection calls it after sending. Invariant: on success and on [`Error::Server`] the
//! whole answer has been consumed, so that the next command starts in step. Without rows to
//! keep, nothing is allocated.

use crate::packet::{Channel, Transport};
use crate::reply::{self, Done, Reply};
use crate::rows::{self, Column, Encoding, Row};
use crate::{Error, Summary, TextResults};

/// What the rows that are kept may take in all: a guard against a statement that was not meant
/// to be kept whole, and against a hostile server.
const KEPT_BYTES_MAX: usize = 1 << 30;
/// Rows for `LOAD DATA LOCAL` leave in packets of this size at most: far below the least
/// `max_allowed_packet` in use, and enough for few system calls.
const UPLOAD_BYTES_MAX: usize = 256 << 10;
/// What a kept value takes beside its bytes, about.
const VALUE_BYTES_EXTRA: usize = 40;

/// What the session agreed on at its login, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Rows end with an OK packet, and definitions with nothing.
    pub(crate) deprecates_eof: bool,
    /// The server says of each result set whether its columns' definitions come with it.
    pub(crate) may_omit_columns: bool,
    /// As the last answer that told.
    pub(crate) in_transaction: bool,
}

/// What becomes of the rows.
pub(crate) enum Rows<'a> {
    Skip,
    /// All, as text rows.
    Text(&'a mut TextResults),
    /// Those of the first result set.
    First(&'a mut Kept),
}

/// The rows of one result set.
pub(crate) struct Kept {
    encoding: Encoding,
    pub(crate) rows: Vec<Row>,
    is_complete: bool,
    bytes_left: usize,
}

impl Kept {
    pub(crate) fn new(encoding: Encoding) -> Kept {
        Kept {
            encoding,
            rows: Vec::new(),
            is_complete: false,
            bytes_left: KEPT_BYTES_MAX,
        }
    }
}

/// Reads the answer to its end. `columns` are those of the prepared statement that was executed;
/// they are brought up to date when the server sends them anew.
pub(crate) fn read<T: Transport>(
    channel: &mut Channel<T>,
    terms: &mut Terms,
    columns: Option<&mut Vec<Column>>,
    rows: Rows<'_>,
) -> Result<Summary, Error> {
    Answer {
        channel,
        terms,
        columns,
        rows,
        upload: None,
        refused: None,
    }
    .read()
}

/// As [`read`], and answers the server's first request for a file with what `fill` gives.
pub(crate) fn load<T: Transport>(
    channel: &mut Channel<T>,
    terms: &mut Terms,
    fill: &mut dyn FnMut(&mut Vec<u8>) -> u64,
) -> Result<Summary, Error> {
    let mut sent = None;
    let mut answer = Answer {
        channel,
        terms,
        columns: None,
        rows: Rows::Skip,
        upload: Some(Upload {
            fill,
            sent: &mut sent,
        }),
        refused: None,
    };
    let summary = answer.read()?;
    let Some(sent) = sent else {
        let what = "rows for a statement that asks for none";
        return Err(Error::Unsupported(what.to_owned()));
    };
    if (summary.affected, summary.warnings) != (sent, 0) {
        return Err(Error::Load {
            sent,
            stored: summary.affected,
            warnings: summary.warnings,
        });
    }
    Ok(summary)
}

/// Rows for `LOAD DATA LOCAL`.
struct Upload<'a> {
    fill: &'a mut dyn FnMut(&mut Vec<u8>) -> u64,
    /// Set once the server has asked.
    sent: &'a mut Option<u64>,
}

impl Upload<'_> {
    /// Sends everything, then the packet that says so. A server that fails meanwhile reads on and
    /// answers after it; one that closes the connection ends this with its reason.
    fn send<T: Transport>(self, channel: &mut Channel<T>) -> Result<(), Error> {
        let sent = self.sent.insert(0);
        loop {
            let packet = channel.answer();
            let before = packet.len();
            *sent += (self.fill)(packet);
            let is_end = packet.len() == before;
            channel.send_pieces(UPLOAD_BYTES_MAX)?;
            if is_end {
                return Ok(());
            }
        }
    }
}

struct Answer<'a, T> {
    channel: &'a mut Channel<T>,
    terms: &'a mut Terms,
    columns: Option<&'a mut Vec<Column>>,
    rows: Rows<'a>,
    /// What the first file that the server asks for is, in place of a file.
    upload: Option<Upload<'a>>,
    /// What cannot be done, said once the answer is at its end.
    refused: Option<&'static str>,
}

impl<T: Transport> Answer<'_, T> {
    fn read(&mut self) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        loop {
            let reply = reply::parse(self.channel.packet()?, self.terms.may_omit_columns)?;
            let done = match reply {
                Reply::Done(done) => {
                    summary.affected = summary.affected.saturating_add(done.affected);
                    if done.last_insert_id != 0 {
                        summary.last_insert_id = done.last_insert_id;
                    }
                    done
                }
                Reply::LocalFile => {
                    if let Some(upload) = self.upload.take() {
                        upload.send(self.channel)?;
                        continue;
                    }
                    // An empty packet is an empty file; the server then answers as usual.
                    self.refused = Some(
                        "LOAD DATA LOCAL: the server asked for a file of this machine and got none",
                    );
                    self.channel.answer();
                    self.channel.send()?;
                    continue;
                }
                Reply::Columns { count, are_defined } => {
                    summary.result_sets = summary.result_sets.saturating_add(1);
                    let (rows, done) = self.result_set(count, are_defined)?;
                    summary.rows += rows;
                    done
                }
            };
            summary.results = summary.results.saturating_add(1);
            summary.warnings = summary.warnings.saturating_add(done.warnings);
            self.terms.in_transaction = done.in_transaction();
            if !done.more_results() {
                break;
            }
        }
        match self.refused {
            Some(what) => Err(Error::Unsupported(what.to_owned())),
            None => Ok(summary),
        }
    }

    fn result_set(&mut self, count: u16, are_defined: bool) -> Result<(u64, Done), Error> {
        // Only the first result set of an execution is the prepared statement's own.
        let own = self.columns.take();
        let keeps = match &self.rows {
            Rows::First(kept) => !kept.is_complete,
            Rows::Skip | Rows::Text(_) => false,
        };
        let is_binary = match &self.rows {
            Rows::First(kept) => kept.encoding == Encoding::Binary,
            Rows::Skip | Rows::Text(_) => false,
        };
        let updates = self.terms.may_omit_columns && own.is_some();
        let mut read = Vec::new();
        if are_defined {
            if updates || (keeps && is_binary) {
                read = definitions(self.channel, count, *self.terms)?;
            } else {
                skip_definitions(self.channel, count, *self.terms)?;
            }
        }
        let columns: &[Column] = match own {
            Some(own) if updates => {
                if are_defined {
                    *own = read;
                }
                own
            }
            _ => &read,
        };
        match &mut self.rows {
            Rows::Text(results) => {
                results.begin_set(count.into());
                keep_text_rows(self.channel, *self.terms, results)
            }
            Rows::First(kept) if keeps => {
                kept.is_complete = true;
                if is_binary && columns.len() != usize::from(count) {
                    self.refused = Some("rows of a statement whose columns the server left out");
                    return skip_rows(self.channel, *self.terms);
                }
                keep_rows(self.channel, *self.terms, count, columns, kept)
            }
            Rows::First(_) | Rows::Skip => skip_rows(self.channel, *self.terms),
        }
    }
}

fn skip_rows<T: Transport>(channel: &mut Channel<T>, terms: Terms) -> Result<(u64, Done), Error> {
    let rows = channel.skip_until(u64::MAX, |length, first| {
        reply::ends_rows(length, first, terms.deprecates_eof)
    })?;
    let done = reply::end_of_rows(channel.packet()?, terms.deprecates_eof)?;
    Ok((rows, done))
}

fn keep_text_rows<T: Transport>(
    channel: &mut Channel<T>,
    terms: Terms,
    results: &mut TextResults,
) -> Result<(u64, Done), Error> {
    let mut rows = 0;
    loop {
        let (length, first) = channel.peek()?;
        let packet = channel.packet()?;
        if reply::ends_rows(length, first, terms.deprecates_eof) {
            return Ok((rows, reply::end_of_rows(packet, terms.deprecates_eof)?));
        }
        results.push_packet(packet)?;
        if results.size() > KEPT_BYTES_MAX {
            return Err(too_large());
        }
        rows += 1;
    }
}

fn keep_rows<T: Transport>(
    channel: &mut Channel<T>,
    terms: Terms,
    count: u16,
    columns: &[Column],
    kept: &mut Kept,
) -> Result<(u64, Done), Error> {
    loop {
        let (length, first) = channel.peek()?;
        let packet = channel.packet()?;
        if reply::ends_rows(length, first, terms.deprecates_eof) {
            let done = reply::end_of_rows(packet, terms.deprecates_eof)?;
            return Ok((kept.rows.len() as u64, done));
        }
        let bytes = packet.len() + usize::from(count) * VALUE_BYTES_EXTRA;
        kept.bytes_left = kept.bytes_left.checked_sub(bytes).ok_or_else(too_large)?;
        kept.rows.push(match kept.encoding {
            Encoding::Text => rows::text_row(packet, count.into())?,
            Encoding::Binary => rows::binary_row(packet, columns)?,
        });
    }
}

fn too_large() -> Error {
    Error::protocol(format!(
        "a result to be kept is larger than {KEPT_BYTES_MAX} bytes"
    ))
}

/// Reads column definitions and what ends them.
pub(crate) fn definitions<T: Transport>(
    channel: &mut Channel<T>,
    count: u16,
    terms: Terms,
) -> Result<Vec<Column>, Error> {
    let mut columns = Vec::new();
    for _ in 0..count {
        let packet = channel.packet()?;
        if packet.first() == Some(&reply::ERROR) {
            return Err(reply::server_error(packet)?);
        }
        columns.push(Column::parse(packet)?);
    }
    end_definitions(channel, count, terms)?;
    Ok(columns)
}

/// Skips column (or parameter) definitions and what ends them.
pub(crate) fn skip_definitions<T: Transport>(
    channel: &mut Channel<T>,
    count: u16,
    terms: Terms,
) -> Result<(), Error> {
    let skipped = channel.skip_until(count.into(), |_, first| first == reply::ERROR)?;
    if skipped < count.into() {
        return Err(reply::server_error(channel.packet()?)?);
    }
    end_definitions(channel, count, terms)
}

fn end_definitions<T: Transport>(
    channel: &mut Channel<T>,
    count: u16,
    terms: Terms,
) -> Result<(), Error> {
    if count > 0 && !terms.deprecates_eof {
        reply::end_of_rows(channel.packet()?, false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::{Script, framed, reading};
    use crate::rows::tests::definition;
    use proptest::prelude::*;

    const END_MORE: &[u8] = b"\xfe\0\0\x08\0\x02\0";
    const END_LAST: &[u8] = b"\xfe\0\0\x02\0\x01\0";

    fn terms(deprecates_eof: bool) -> Terms {
        Terms {
            deprecates_eof,
            may_omit_columns: false,
            in_transaction: false,
        }
    }

    fn drain(channel: &mut Channel<Script>, deprecates_eof: bool) -> Result<Summary, Error> {
        read(channel, &mut terms(deprecates_eof), None, Rows::Skip)
    }

    fn collect(
        channel: &mut Channel<Script>,
        deprecates_eof: bool,
        encoding: Encoding,
    ) -> Result<Vec<Row>, Error> {
        let mut kept = Kept::new(encoding);
        let rows = Rows::First(&mut kept);
        read(channel, &mut terms(deprecates_eof), None, rows).map(|_| kept.rows)
    }

    fn answer(packets: &[&[u8]]) -> Channel<Script> {
        let mut sequence = 0;
        let mut bytes = Vec::new();
        for packet in packets {
            bytes.extend(framed(packet, &mut sequence));
        }
        let mut channel = reading(bytes, 1000);
        channel.logged_in();
        channel
    }

    #[test]
    fn counts_all_results_of_a_multi_statement() {
        let column = definition("a", 3, 0, 0);
        let packets: [&[u8]; 9] = [
            b"\x01",
            &column,
            b"\x011",
            b"\x012",
            END_MORE,
            b"\0\x03\x09\x0a\0\x01\0", // 3 affected, id 9, more, 1 warning
            b"\x01",
            &column,
            END_LAST,
        ];
        let summary = drain(&mut answer(&packets), true).unwrap();
        let expected = Summary {
            results: 3,
            result_sets: 2,
            rows: 2,
            affected: 3,
            last_insert_id: 9,
            warnings: 4,
        };
        assert_eq!(summary, expected);
        let rows = collect(&mut answer(&packets), true, Encoding::Text).unwrap();
        assert_eq!(rows, [[Some(b"1".to_vec())], [Some(b"2".to_vec())]]);
    }

    #[test]
    fn columns_that_were_left_out_are_the_prepared_ones() {
        let terms = Terms {
            may_omit_columns: true,
            ..terms(true)
        };
        let small = Column::parse(&definition("a", 1, 0, 0)).unwrap();
        let wide = definition("a", 2, 0, 0);
        let without: [&[u8]; 3] = [b"\x01\0", b"\0\0\x05", END_LAST];
        let with: [&[u8]; 4] = [b"\x01\x01", &wide, b"\0\0\x05\x01", END_LAST];
        let mut columns = vec![small];
        let mut execute = |packets: &[&[u8]], skips: bool| {
            let mut kept = Kept::new(Encoding::Binary);
            let rows = match skips {
                true => Rows::Skip,
                false => Rows::First(&mut kept),
            };
            let mut terms = terms;
            read(&mut answer(packets), &mut terms, Some(&mut columns), rows)?;
            Ok::<_, Error>(kept.rows)
        };
        assert_eq!(execute(&without, false).unwrap(), [[Some(b"5".to_vec())]]);
        assert_eq!(execute(&with, false).unwrap(), [[Some(b"261".to_vec())]]);
        // Skipping an execution keeps what it says about the columns.
        columns = vec![small];
        let mut execute = |packets: &[&[u8]], rows: Rows<'_>| {
            let mut terms = terms;
            read(&mut answer(packets), &mut terms, Some(&mut columns), rows).map(|_| ())
        };
        execute(&with, Rows::Skip).unwrap();
        let mut kept = Kept::new(Encoding::Binary);
        let later: [&[u8]; 3] = [b"\x01\0", b"\0\0\x05\x01", END_LAST];
        execute(&later, Rows::First(&mut kept)).unwrap();
        assert_eq!(kept.rows, [[Some(b"261".to_vec())]]);
        // Never seen: refused, and the answer is consumed.
        columns.clear();
        let mut channel = answer(&without);
        let mut kept = Kept::new(Encoding::Binary);
        let rows = Rows::First(&mut kept);
        kept_is_refused(read(&mut channel, &mut { terms }, Some(&mut columns), rows));
        assert!(
            matches!(channel.packet(), Err(Error::Io(_))),
            "all was read"
        );
    }

    fn kept_is_refused(outcome: Result<Summary, Error>) {
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
    }

    #[test]
    fn reads_the_older_form_with_eof_packets() {
        let column = definition("a", 3, 0, 0);
        let packets: [&[u8]; 5] = [
            b"\x01",
            &column,
            b"\xfe\0\0\x02\0",
            b"\x0217",
            b"\xfe\x01\0\x02\0",
        ];
        let summary = drain(&mut answer(&packets), false).unwrap();
        assert_eq!((summary.rows, summary.warnings), (1, 1));
    }

    #[test]
    fn keeps_binary_rows() {
        let column = definition("a", 1, 0, 0);
        let packets: [&[u8]; 4] = [b"\x01", &column, b"\0\0\x05", END_LAST];
        let rows = collect(&mut answer(&packets), true, Encoding::Binary).unwrap();
        assert_eq!(rows, [[Some(b"5".to_vec())]]);
    }

    #[test]
    fn an_error_may_come_after_rows() {
        let column = definition("a", 3, 0, 0);
        let error: &[u8] = b"\xff\x25\x05#70100Query execution was interrupted";
        for packets in [
            &[&b"\x01"[..], &column, b"\x011", error][..],
            &[b"\x01", error],
            &[b"\x01", &column, END_MORE, error],
        ] {
            let drained = drain(&mut answer(packets), true).unwrap_err();
            assert_eq!(drained.errno(), Some(1317));
            let collected = collect(&mut answer(packets), true, Encoding::Binary);
            assert!(collected.is_err());
        }
    }

    #[test]
    fn a_request_for_a_file_is_refused() {
        let mut channel = answer(&[b"\xfb/etc/passwd", b"\0\0\0\x02\0\0\0"]);
        // The server's second packet answers ours: sequence 2.
        let second = 4 + b"\xfb/etc/passwd".len();
        channel.transport.incoming[second + 3] = 2;
        let error = drain(&mut channel, true).unwrap_err();
        assert!(error.to_string().contains("LOAD DATA LOCAL"), "{error}");
        assert_eq!(channel.transport.writes, [b"\0\0\0\x01"]);
    }

    /// An answer whose packets after the first follow `ours` packets of this side.
    fn uploading(packets: &[&[u8]], ours: u8) -> Channel<Script> {
        let mut channel = answer(packets);
        let mut at = 4 + packets[0].len();
        for (i, packet) in packets[1..].iter().enumerate() {
            channel.transport.incoming[at + 3] = 2 + i as u8 + ours - 1;
            at += 4 + packet.len();
        }
        channel
    }

    /// What `load` gives for these packets of the server, with two fills of three rows in all.
    fn loaded(channel: &mut Channel<Script>) -> Result<Summary, Error> {
        let mut terms = Terms {
            deprecates_eof: true,
            may_omit_columns: false,
            in_transaction: false,
        };
        let mut fills = [(&b"1\n2\n"[..], 2), (b"3\n", 1)].into_iter();
        load(channel, &mut terms, &mut |buffer| {
            let (bytes, rows) = fills.next().unwrap_or_default();
            buffer.extend_from_slice(bytes);
            rows
        })
    }

    #[test]
    fn rows_are_sent_to_a_server_that_asks_for_them() {
        let mut channel = uploading(&[b"\xfbrows", b"\0\x03\0\x02\0\0\0"], 3);
        assert_eq!(loaded(&mut channel).unwrap().affected, 3);
        let sent: [&[u8]; 3] = [b"\x04\0\0\x011\n2\n", b"\x02\0\0\x023\n", b"\0\0\0\x03"];
        assert_eq!(channel.transport.writes, sent);
    }

    #[test]
    fn rows_that_the_server_left_out_or_cut_are_an_error() {
        for (ok, stored, warnings) in [
            (b"\0\x02\0\x02\0\x01\0", 2, 1),
            (b"\0\x03\0\x02\0\x07\0", 3, 7),
        ] {
            let error = loaded(&mut uploading(&[b"\xfbrows", ok], 3)).unwrap_err();
            let counts =
                format!("3 rows were sent, the server stored {stored} and gave {warnings}");
            assert!(error.to_string().contains(&counts), "{error}");
        }
    }

    #[test]
    fn a_server_that_fails_the_rows_is_heard_after_them() {
        let error = b"\xff\x6a\x04#HY000table full";
        let mut channel = uploading(&[b"\xfbrows", error], 3);
        assert_eq!(loaded(&mut channel).unwrap_err().errno(), Some(1130));
        assert_eq!(
            channel.transport.writes.len(),
            3,
            "the rows came to their end"
        );
        // Refused at once: nothing is sent.
        let mut channel = answer(&[b"\xff\x6c\x0f#42000Loading local data is disabled"]);
        assert_eq!(loaded(&mut channel).unwrap_err().errno(), Some(3948));
        assert!(channel.transport.writes.is_empty());
        let mut channel = answer(&[b"\0\0\0\x02\0\0\0"]);
        assert!(matches!(loaded(&mut channel), Err(Error::Unsupported(_))));
    }

    #[test]
    fn rows_go_to_one_request_only() {
        let more = b"\0\x03\0\x0a\0\0\0";
        let mut channel = uploading(&[b"\xfbrows", more, b"\xfb/etc/passwd"], 3);
        let last = framed(b"\0\0\0\x02\0\0\0", &mut 7);
        channel.transport.incoming.extend(last);
        kept_is_refused(loaded(&mut channel));
        assert_eq!(channel.transport.writes.len(), 4);
        assert_eq!(channel.transport.writes[3][..3], [0, 0, 0]);
    }

    #[test]
    fn a_large_fill_leaves_in_bounded_packets() {
        let mut channel = uploading(&[b"\xfbrows", b"\0\x01\0\x02\0\0\0"], 4);
        let rows = vec![b'x'; 2 * UPLOAD_BYTES_MAX + 5];
        let mut terms = Terms {
            deprecates_eof: true,
            may_omit_columns: false,
            in_transaction: false,
        };
        let mut left = Some(&rows);
        load(&mut channel, &mut terms, &mut |buffer| {
            left.take().map_or(0, |rows| {
                buffer.extend_from_slice(rows);
                1
            })
        })
        .unwrap();
        let lengths: Vec<usize> = channel.transport.writes.iter().map(Vec::len).collect();
        assert_eq!(lengths, [UPLOAD_BYTES_MAX + 4, UPLOAD_BYTES_MAX + 4, 9, 4]);
    }

    proptest! {
        #[test]
        fn any_packets_are_answered(
            packets in proptest::collection::vec(
                (prop_oneof![Just(0u8), Just(1), Just(0xfb), Just(0xfe), Just(0xff), any::<u8>()],
                 proptest::collection::vec(any::<u8>(), 0..20)), 0..12),
            columns in 0u8..4, deprecates_eof in any::<bool>(), is_text in any::<bool>(),
        ) {
            let packets: Vec<Vec<u8>> =
                packets.into_iter().map(|(first, rest)| [&[first], &rest[..]].concat()).collect();
            let first = [columns];
            let mut script = vec![&first[..]];
            script.extend(packets.iter().map(Vec::as_slice));
            let _ = drain(&mut answer(&script), deprecates_eof);
            let encoding = if is_text { Encoding::Text } else { Encoding::Binary };
            let _ = collect(&mut answer(&script), deprecates_eof, encoding);
        }
    }
}
