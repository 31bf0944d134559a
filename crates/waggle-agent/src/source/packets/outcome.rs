//! The statement that an answer makes of its command.
//!
//! `answer` calls it at the end of each result. A command of several statements is one statement
//! a result; what a statement changed in the session is taken note of here. Invariant: a statement
//! is yielded once, with what its own results say.

use std::ops::Range;

use waggle_wire::onlooker::{self, Done};

use super::answer::{Answer, Ending, State};
use super::command::{Code, Command, Sql};
use super::framer::Packet;
use super::parts;
use super::session::{Confused, Session, Shared};
use crate::source::Observation;
use crate::statement::{Origin, Statement, Text, Work};

/// In the status flags: no good key, or none, was used.
const NO_KEY: u16 = 0x0010 | 0x0020;
const ER_PARSE_ERROR: u16 = 1064;
const OK: u8 = 0;

/// Which statement of the command's text is answered.
#[derive(Debug)]
pub(super) struct Part {
    /// Where each is in the text; none if there is but one, or no telling them apart.
    ranges: Vec<Range<usize>>,
    index: usize,
    begin_ns: u64,
}

impl Part {
    fn first(text: &[u8], truncated: bool, begin_ns: u64) -> Part {
        let mut ranges = parts::split(text).unwrap_or_default();
        if ranges.is_empty() && truncated && !parts::begins_with(text, b"call") {
            ranges.push(0..text.len());
        }
        Part {
            ranges,
            index: 0,
            begin_ns,
        }
    }

    /// Where it is; an empty range if it lies beyond what was kept of the text.
    fn range(&self, text: &[u8], truncated: bool) -> Option<Range<usize>> {
        let beyond = truncated && !self.ranges.is_empty();
        let range = self.ranges.get(self.index).cloned();
        range.or(beyond.then_some(text.len()..text.len()))
    }
}

impl Session {
    /// A result ended, and maybe the answer.
    pub(super) fn end_result(
        &mut self,
        ending: Ending,
        packet: &Packet<'_>,
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) -> Result<(), Confused> {
        let is_set = self.answer.state != State::First && self.answer.state != State::File;
        if let Ending::Done(done) = ending {
            if done.more_results() {
                self.more_results(done, is_set, time_ns, shared, each);
                return Ok(());
            }
            self.answer.affected = self.answer.affected.saturating_add(done.affected);
            self.answer.warnings = done.warnings.into();
        }
        let Some(mut command) = self.pending.pop_front() else {
            return Err(Confused);
        };
        if matches!(command.sql, Sql::LastPrepared) {
            let text = self.last_prepared.and_then(|id| self.prepared.get(&id));
            command.sql = text.map_or(Sql::Unknown, |text| Sql::Prepared(text.clone()));
        }
        let range = self.last_range(&command, ending);
        self.emit(&command, range, ending, time_ns, shared, each);
        self.take_note(&command, ending, packet);
        self.is_confirmed = true;
        if !self.is_compressed() {
            self.sizes.answered(self.answer.bytes);
        }
        self.last_end_ns = time_ns;
        self.recycle(command.sql);
        match self.pending.front() {
            Some(next) => self.answer.begin(next),
            None => {
                let may_end_again = self.answer.may_end_again;
                self.answer = Answer {
                    may_end_again,
                    ..Answer::default()
                };
            }
        }
        Ok(())
    }

    /// Another result follows: of the same statement, or of the next one in the text.
    fn more_results(
        &mut self,
        done: Done,
        is_set: bool,
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) {
        self.answer.affected = self.answer.affected.saturating_add(done.affected);
        self.answer.warnings = done.warnings.into();
        self.answer.state = State::First;
        let Some(command) = self.pending.front() else {
            return;
        };
        let (text, truncated) = match &command.sql {
            Sql::Own { text, truncated } if command.code == Code::QUERY => (text, *truncated),
            _ => return,
        };
        let part = self
            .answer
            .part
            .get_or_insert_with(|| Part::first(text, truncated, command.begin_ns));
        let Some(range) = part.range(text, truncated) else {
            return;
        };
        // A procedure's results are its statement's, up to one without rows.
        if is_set && parts::begins_with(&text[range.clone()], b"call") {
            return;
        }
        if !truncated && part.index + 1 >= part.ranges.len() {
            return;
        }
        let Some(command) = self.pending.pop_front() else {
            return;
        };
        self.emit(
            &command,
            Some(range),
            Ending::Done(done),
            time_ns,
            shared,
            each,
        );
        self.pending.push_front(command);
        let answer = &mut self.answer;
        if let Some(part) = &mut answer.part {
            part.index += 1;
            part.begin_ns = time_ns;
        }
        (answer.rows, answer.affected, answer.warnings, answer.bytes) = (0, 0, 0, 0);
    }

    /// Which part of the text the last result belongs to; `None` for all of it.
    fn last_range(&self, command: &Command, ending: Ending) -> Option<Range<usize>> {
        let Sql::Own { text, truncated } = &command.sql else {
            return None;
        };
        let errno = match ending {
            Ending::Error(errno) => Some(errno),
            _ => None,
        };
        let stops_early = errno.is_some_and(|errno| errno != ER_PARSE_ERROR);
        match &self.answer.part {
            Some(part) => {
                let range = part.range(text, *truncated)?;
                match stops_early {
                    true => Some(range),
                    false => Some(range.start..text.len()),
                }
            }
            // The first of several failed, and the others were not carried out.
            None if stops_early && command.code == Code::QUERY && text.contains(&b';') => {
                parts::split(text)?.into_iter().next()
            }
            _ => None,
        }
    }

    /// What a command that succeeded changes in the session.
    fn take_note(&mut self, command: &Command, ending: Ending, packet: &Packet<'_>) {
        if matches!(ending, Ending::Error(_)) {
            return;
        }
        match (command.code, &command.sql) {
            (Code::INIT_DB, Sql::Own { text, .. }) => self.database.clone_from(text),
            (Code::CHANGE_USER, _) => self.accept_claim(),
            (Code::RESET_CONNECTION, _) => self.prepared.clear(),
            (Code::QUERY, Sql::Own { text, .. }) => {
                if let Some(database) = used_database(text) {
                    self.database = database;
                }
            }
            _ => {}
        }
        if packet.first() == OK
            && self.agreed(onlooker::SESSION_TRACK)
            && let Some(database) = onlooker::new_database(packet.head)
        {
            self.database = database.to_vec();
        }
    }

    fn emit(
        &mut self,
        command: &Command,
        range: Option<Range<usize>>,
        ending: Ending,
        time_ns: u64,
        shared: &mut Shared,
        each: &mut dyn FnMut(Observation<'_>),
    ) {
        let answer = &self.answer;
        let text = match &command.sql {
            _ if command.code == Code::INIT_DB => whole(b""),
            Sql::None => whole(b""),
            // Beyond what was kept.
            Sql::Own { text, truncated } if *truncated && range == Some(text.len()..text.len()) => {
                Text::Unknown
            }
            Sql::Own { text, truncated } => {
                let range = range.unwrap_or(0..text.len());
                Text::Whole {
                    truncated: *truncated && range.end == text.len(),
                    sql: text.get(range).unwrap_or_default(),
                }
            }
            Sql::Prepared(text) => whole(text),
            Sql::LastPrepared | Sql::Unknown => Text::Unknown,
        };
        let (error, status) = match ending {
            Ending::Done(done) => (0, Some(done.status)),
            Ending::Error(errno) => (errno, None),
            Ending::Plain => (0, None),
        };
        // A server begins with a command when the one before is answered.
        let begin_ns = match &answer.part {
            Some(part) => part.begin_ns,
            None => command.begin_ns,
        };
        let begin_ns = begin_ns.max(self.last_end_ns);
        let is_clock_doubtful = command.is_clock_doubtful || shared.is_clock_doubtful;
        let bytes = match answer.part.as_ref().is_some_and(|part| part.index > 0) {
            true => (0, answer.bytes),
            false => (command.bytes, answer.bytes),
        };
        shared.statements += 1;
        each(Observation::Statement(Statement {
            end_ns: time_ns,
            latency_ns: (!is_clock_doubtful).then(|| time_ns.saturating_sub(begin_ns)),
            connection_id: self.connection_id,
            thread: None,
            user: &self.user,
            host: self.host.as_bytes(),
            database: &self.database,
            text,
            command: Some(command.code.0.into()),
            origin: Some(Origin::Client),
            times: None,
            work: Work {
                rows_sent: Some(answer.rows),
                rows_affected: (error == 0).then_some(answer.affected),
                warnings: status.map(|_| answer.warnings),
                error: Some(error.into()),
                network_bytes: (!self.is_compressed()).then_some(bytes),
                no_index: status.map(|status| status & NO_KEY != 0),
                in_transaction: status.map(|status| status & 1 != 0),
                ..Work::default()
            },
        }));
    }
}

fn whole(sql: &[u8]) -> Text<'_> {
    Text::Whole {
        sql,
        truncated: false,
    }
}

/// The database that a `USE` statement names.
fn used_database(sql: &[u8]) -> Option<Vec<u8>> {
    if !parts::begins_with(sql, b"use") {
        return None;
    }
    let name = sql.trim_ascii_start().get(3..)?.trim_ascii();
    let name = name.strip_suffix(b";").unwrap_or(name).trim_ascii();
    let quoted = name
        .strip_prefix(b"`")
        .and_then(|name| name.strip_suffix(b"`"));
    match quoted {
        Some(quoted) => Some(
            String::from_utf8_lossy(quoted)
                .replace("``", "`")
                .into_bytes(),
        ),
        None if name.iter().any(|byte| b" `;/*#".contains(byte)) => None,
        None => Some(name.to_vec()),
    }
}
