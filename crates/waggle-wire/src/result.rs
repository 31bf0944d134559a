//! Everything a server answers to a query or an execution, to its end.
//!
//! The connection calls it after sending. Invariant: on success and on [`Error::Server`] the
//! whole answer has been consumed, so that the next command starts in step. Without rows to
//! keep, nothing is allocated.

use crate::packet::{Channel, Transport};
use crate::reply::{self, Done, Reply};
use crate::rows::{self, Column, Encoding, Row};
use crate::{Error, Summary};

/// What the rows that are kept may take in all: a guard against a statement that was not meant
/// to be kept whole, and against a hostile server.
const KEPT_BYTES_MAX: usize = 1 << 30;
/// What a kept value takes beside its bytes, about.
const VALUE_BYTES_EXTRA: usize = 40;

/// Reads the answer and counts its rows.
pub(crate) fn drain<T: Transport>(
    channel: &mut Channel<T>,
    deprecates_eof: bool,
) -> Result<Summary, Error> {
    Answer {
        channel,
        deprecates_eof,
        kept: None,
    }
    .read()
}

/// Reads the answer and keeps the rows of its first result set.
pub(crate) fn collect<T: Transport>(
    channel: &mut Channel<T>,
    deprecates_eof: bool,
    encoding: Encoding,
) -> Result<Vec<Row>, Error> {
    let kept = Kept {
        encoding,
        rows: Vec::new(),
        is_complete: false,
        bytes_left: KEPT_BYTES_MAX,
    };
    let mut answer = Answer {
        channel,
        deprecates_eof,
        kept: Some(kept),
    };
    answer.read()?;
    Ok(answer.kept.map(|kept| kept.rows).unwrap_or_default())
}

struct Kept {
    encoding: Encoding,
    rows: Vec<Row>,
    is_complete: bool,
    bytes_left: usize,
}

struct Answer<'a, T> {
    channel: &'a mut Channel<T>,
    deprecates_eof: bool,
    kept: Option<Kept>,
}

impl<T: Transport> Answer<'_, T> {
    fn read(&mut self) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        let mut asked_for_file = false;
        loop {
            let done = match reply::parse(self.channel.packet()?)? {
                Reply::Done(done) => {
                    summary.affected = summary.affected.saturating_add(done.affected);
                    if done.last_insert_id != 0 {
                        summary.last_insert_id = done.last_insert_id;
                    }
                    done
                }
                Reply::LocalFile => {
                    // An empty packet is an empty file; the server then answers as usual.
                    asked_for_file = true;
                    self.channel.answer();
                    self.channel.send()?;
                    continue;
                }
                Reply::Columns(columns) => {
                    summary.result_sets = summary.result_sets.saturating_add(1);
                    let (rows, done) = self.result_set(columns)?;
                    summary.rows += rows;
                    done
                }
            };
            summary.warnings = summary.warnings.saturating_add(done.warnings);
            if !done.more_results() {
                break;
            }
        }
        if asked_for_file {
            return Err(Error::Unsupported(
                "LOAD DATA LOCAL: the server asked for a file of this machine and got none"
                    .to_owned(),
            ));
        }
        Ok(summary)
    }

    fn result_set(&mut self, columns: u16) -> Result<(u64, Done), Error> {
        let mut kept = self.kept.take_if(|kept| !kept.is_complete);
        let done = match &mut kept {
            Some(kept) => self.keep_rows(columns, kept),
            None => {
                skip_definitions(self.channel, columns, self.deprecates_eof)?;
                self.skip_rows()
            }
        };
        if let Some(mut kept) = kept {
            kept.is_complete = true;
            self.kept = Some(kept);
        }
        done
    }

    fn skip_rows(&mut self) -> Result<(u64, Done), Error> {
        let mut rows = 0;
        loop {
            let (length, first) = self.channel.peek()?;
            if reply::ends_rows(length, first, self.deprecates_eof) {
                let end = self.channel.packet()?;
                return Ok((rows, reply::end_of_rows(end, self.deprecates_eof)?));
            }
            self.channel.skip()?;
            rows += 1;
        }
    }

    fn keep_rows(&mut self, columns: u16, kept: &mut Kept) -> Result<(u64, Done), Error> {
        let mut definitions = Vec::new();
        match kept.encoding {
            Encoding::Text => skip_definitions(self.channel, columns, self.deprecates_eof)?,
            Encoding::Binary => {
                for _ in 0..columns {
                    let packet = self.channel.packet()?;
                    if packet.first() == Some(&reply::ERROR) {
                        return Err(reply::server_error(packet)?);
                    }
                    definitions.push(Column::parse(packet)?);
                }
                end_definitions(self.channel, self.deprecates_eof)?;
            }
        }
        loop {
            let (length, first) = self.channel.peek()?;
            let packet = self.channel.packet()?;
            if reply::ends_rows(length, first, self.deprecates_eof) {
                let done = reply::end_of_rows(packet, self.deprecates_eof)?;
                return Ok((kept.rows.len() as u64, done));
            }
            let bytes = packet.len() + usize::from(columns) * VALUE_BYTES_EXTRA;
            kept.bytes_left = kept.bytes_left.checked_sub(bytes).ok_or_else(|| {
                Error::protocol(format!(
                    "a result to be kept is larger than {KEPT_BYTES_MAX} bytes"
                ))
            })?;
            kept.rows.push(match kept.encoding {
                Encoding::Text => rows::text_row(packet, columns.into())?,
                Encoding::Binary => rows::binary_row(packet, &definitions)?,
            });
        }
    }
}

/// Skips column (or parameter) definitions and what ends them.
pub(crate) fn skip_definitions<T: Transport>(
    channel: &mut Channel<T>,
    count: u16,
    deprecates_eof: bool,
) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    for _ in 0..count {
        if channel.peek()?.1 == reply::ERROR {
            return Err(reply::server_error(channel.packet()?)?);
        }
        channel.skip()?;
    }
    end_definitions(channel, deprecates_eof)
}

fn end_definitions<T: Transport>(
    channel: &mut Channel<T>,
    deprecates_eof: bool,
) -> Result<(), Error> {
    if !deprecates_eof {
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
