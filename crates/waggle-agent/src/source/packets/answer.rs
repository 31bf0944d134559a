//! A server's answer to a command, packet by packet.
//!
//! The session calls it for the command that waits longest; `outcome` takes each result's end. An
//! answer is one result or several; a result is done, an error, a request for a file, or
//! definitions and rows. Invariants: rows are counted, never looked into; an answer whose packets
//! are not numbered in turn is not understood.

use waggle_wire::onlooker::{self, Done, Reply};

use super::command::{Code, Command, Sql};
use super::framer::{Framer, Packet};
use super::outcome::Part;
use super::session::{Confused, Session, Shared};
use crate::source::Observation;

/// In the status flags: a cursor was opened, and no rows follow.
const CURSOR_EXISTS: u16 = 0x0040;
/// The number of what is no error but MariaDB's progress report.
const PROGRESS: u16 = 0xffff;
const OK: u8 = 0;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// What is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// The first packet of a result.
    #[default]
    First,
    /// So many definitions, and then the other ones (of a preparation), or rows.
    Definitions {
        left: u32,
        then: Then,
    },
    /// What ends definitions, where it is not known whether anything does.
    DefinitionsEnd(Then),
    Rows,
    /// The client sends a file.
    File,
    /// The client proves who it is.
    Proof,
    /// Definitions up to an end (COM_FIELD_LIST).
    Fields,
}

/// What follows definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Rows,
    /// The columns of a preparation, so many.
    Columns(u32),
    Done,
}

/// What is known of the answer so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) state: State,
    /// The number that the next packet must have.
    pub(super) expected: Option<u8>,
    pub(super) rows: u64,
    pub(super) affected: u64,
    pub(super) warnings: u32,
    pub(super) bytes: u64,
    /// Where results so far ended; the next statement of the text begins there.
    pub(super) part: Option<Part>,
    /// A preparation ended where definitions may or may not be ended by a packet.
    pub(super) may_end_again: Option<u8>,
}

/// How a result ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    Done(Done),
    Error(u16),
    /// Without figures.
    Plain,
}

impl Answer {
    pub(super) fn begin(&mut self, command: &Command) {
        let may_end_again = self.may_end_again.take();
        *self = Answer {
            expected: Some(command.due),
            may_end_again,
            state: match command.code {
                Code::FETCH => State::Rows,
                _ => State::First,
            },
            ..Answer::default()
        };
    }
}

impl Session {
    /// Steps over rows that lie whole in `input`.
    pub(super) fn skip_rows(&mut self, framer: &mut Framer, input: &mut &[u8]) {
        let answer = &mut self.answer;
        if answer.state != State::Rows || self.pending.is_empty() {
            return;
        }
        let Some(deprecates_eof) = self.deprecates_eof else {
            return;
        };
        let mut unchecked = None;
        let sequence = match self.client.unpacker.is_some() {
            true => &mut unchecked,
            false => &mut answer.expected,
        };
        let ends = |length, first| onlooker::ends_rows(length, first, deprecates_eof);
        let (rows, bytes) = framer.skip(input, sequence, ends);
        answer.rows += rows;
        answer.bytes += bytes;
    }

    /// A packet of the server came while commands are carried out.
    pub(super) fn answer_packet(
        &mut self,
        packet: &Packet<'_>,
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) -> Result<(), Confused> {
        let first = packet.first();
        if let Some(due) = self.answer.may_end_again.take() {
            let is_end = first == END && packet.length == 5 && packet.sequences.0 == due;
            self.deprecates_eof = Some(!is_end);
            if is_end {
                return Ok(());
            }
        }
        let Some(command) = self.pending.front() else {
            // A server that ends a session (shutdown, idle, killed) says so unasked.
            return if first == ERROR {
                Ok(())
            } else {
                Err(Confused)
            };
        };
        let code = command.code;
        if !self.is_compressed()
            && self
                .answer
                .expected
                .is_some_and(|due| due != packet.sequences.0)
            && first != ERROR
        {
            return Err(Confused);
        }
        self.answer.expected = Some(packet.sequences.1.wrapping_add(1));
        self.answer.bytes += packet.wire_bytes();
        if first == ERROR && self.answer.state != State::Rows && is_progress(packet) {
            return Ok(());
        }
        let ended = if first == ERROR {
            let errno = packet.head.get(1..3).ok_or(Confused)?;
            Some(Ending::Error(u16::from_le_bytes([errno[0], errno[1]])))
        } else {
            self.step(code, packet, shared)?
        };
        match ended {
            Some(ending) => self.end_result(ending, packet, time_ns, shared, each),
            None => Ok(()),
        }
    }

    fn may_omit(&self) -> bool {
        self.agreed(onlooker::CACHE_METADATA) || self.agreed(onlooker::OPTIONAL_METADATA)
    }

    /// One packet that is no error; gives the end of the result if it is that.
    fn step(
        &mut self,
        code: Code,
        packet: &Packet<'_>,
        shared: &mut Shared,
    ) -> Result<Option<Ending>, Confused> {
        let first = packet.first();
        match self.answer.state {
            State::First => self.first(code, packet, shared),
            State::Definitions { left, then } => {
                self.answer.state = match left {
                    0 | 1 => self.after_definitions(then),
                    _ => State::Definitions {
                        left: left - 1,
                        then,
                    },
                };
                Ok(self.end_of_preparation())
            }
            State::DefinitionsEnd(then) => self.definitions_end(code, then, packet, shared),
            State::Rows => {
                // A cursor's fetch where the login was not seen.
                let deprecates = self.deprecates_eof.unwrap_or(packet.length != 5);
                if onlooker::ends_rows(packet.length, first, deprecates) {
                    return ending(packet, deprecates).map(Some);
                }
                self.answer.rows += 1;
                Ok(None)
            }
            State::Fields if first == END && packet.length < 9 => Ok(Some(Ending::Plain)),
            State::Fields => Ok(None),
            State::Proof => match first {
                OK => Ok(Some(Ending::Plain)),
                _ => Ok(None),
            },
            State::File => Err(Confused),
        }
    }

    fn first(
        &mut self,
        code: Code,
        packet: &Packet<'_>,
        shared: &mut Shared,
    ) -> Result<Option<Ending>, Confused> {
        let first = packet.first();
        match code {
            Code::STATISTICS => return Ok(Some(Ending::Plain)),
            Code::FIELD_LIST => {
                self.answer.state = State::Fields;
                return self.step(code, packet, shared);
            }
            Code::CHANGE_USER => {
                self.answer.state = State::Proof;
                return self.step(code, packet, shared);
            }
            Code::PREPARE => return self.prepared(packet, shared),
            _ => {}
        }
        if first == END && packet.length < 9 {
            return ending(packet, false).map(Some);
        }
        match self.reply(packet)? {
            Reply::Done(done) => Ok(Some(Ending::Done(done))),
            Reply::LocalFile => {
                self.answer.state = State::File;
                Ok(None)
            }
            Reply::Columns { count: 0, .. } => Err(Confused),
            Reply::Columns { count, are_defined } => {
                self.answer.state = match are_defined {
                    true => State::Definitions {
                        left: count.into(),
                        then: Then::Rows,
                    },
                    false => self.after_definitions(Then::Rows),
                };
                Ok(None)
            }
        }
    }

    fn reply(&self, packet: &Packet<'_>) -> Result<Reply, Confused> {
        let may_omit = self.may_omit();
        let reply = onlooker::first_of_result(packet.head, may_omit);
        if self.is_agreed {
            return reply.map_err(|_| Confused);
        }
        // Where the login was not seen, the packet's length tells.
        reply
            .or_else(|_| onlooker::first_of_result(packet.head, true))
            .map_err(|_| Confused)
    }

    fn prepared(
        &mut self,
        packet: &Packet<'_>,
        shared: &mut Shared,
    ) -> Result<Option<Ending>, Confused> {
        let may_omit = self.agreed(onlooker::OPTIONAL_METADATA);
        let answer = onlooker::prepare_answer(packet.head, may_omit).map_err(|_| Confused)?;
        let sql = self.pending.front_mut().map(|c| std::mem::take(&mut c.sql));
        if let Some(Sql::Own {
            text,
            truncated: false,
        }) = &sql
        {
            self.remember(answer.statement, text, shared);
        }
        if let (Some(sql), Some(command)) = (sql, self.pending.front_mut()) {
            command.sql = sql;
        }
        self.answer.warnings = answer.warnings.into();
        let (params, columns) = match answer.are_defined {
            true => (u32::from(answer.params), u32::from(answer.columns)),
            false => (0, 0),
        };
        self.answer.state = match (params, columns) {
            (0, 0) => return Ok(Some(Ending::Plain)),
            (0, left) => State::Definitions {
                left,
                then: Then::Done,
            },
            (left, columns) => State::Definitions {
                left,
                then: if columns > 0 {
                    Then::Columns(columns)
                } else {
                    Then::Done
                },
            },
        };
        Ok(None)
    }

    /// The state behind the last definition.
    fn after_definitions(&self, then: Then) -> State {
        match (self.deprecates_eof, then) {
            (Some(true), Then::Rows) => State::Rows,
            (Some(true), Then::Columns(left)) => State::Definitions {
                left,
                then: Then::Done,
            },
            _ => State::DefinitionsEnd(then),
        }
    }

    /// A preparation ends with its last definition where nothing ends these, or might not.
    fn end_of_preparation(&mut self) -> Option<Ending> {
        if self.answer.state != State::DefinitionsEnd(Then::Done) {
            return None;
        }
        match self.deprecates_eof {
            Some(false) => return None,
            Some(true) => {}
            None => self.answer.may_end_again = self.answer.expected,
        }
        Some(Ending::Plain)
    }

    fn definitions_end(
        &mut self,
        code: Code,
        then: Then,
        packet: &Packet<'_>,
        shared: &mut Shared,
    ) -> Result<Option<Ending>, Confused> {
        let is_end = packet.first() == END && packet.length == 5;
        if self.deprecates_eof == Some(false) && !is_end {
            return Err(Confused);
        }
        self.deprecates_eof = Some(!is_end);
        self.answer.state = match then {
            Then::Rows => State::Rows,
            Then::Columns(left) => State::Definitions {
                left,
                then: Then::Done,
            },
            Then::Done => return Ok(Some(Ending::Plain)),
        };
        if !is_end {
            return self.step(code, packet, shared);
        }
        // The rows of a cursor are fetched by other commands.
        match ending(packet, false)? {
            Ending::Done(done) if done.status & CURSOR_EXISTS != 0 => Ok(Some(Ending::Done(done))),
            _ => Ok(None),
        }
    }
}

fn is_progress(packet: &Packet<'_>) -> bool {
    packet.head.get(1..3) == Some(&PROGRESS.to_le_bytes())
}

fn ending(packet: &Packet<'_>, deprecates_eof: bool) -> Result<Ending, Confused> {
    let done = onlooker::end_of_rows(packet.head, deprecates_eof);
    done.map(Ending::Done).map_err(|_| Confused)
}
