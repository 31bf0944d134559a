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
mod tests;
