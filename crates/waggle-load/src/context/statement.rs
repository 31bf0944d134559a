//! Prepared statements under numbers of our own, and how long statements take.
//!
//! Scripts keep the number; what it means on the server may change when a connection is opened
//! anew (`recovery`). Invariant: a number is never used for a second statement of a connection.

use std::sync::Arc;

use crate::clock::now_ns;
use crate::driver::{DriverError, Outcome, Value};
use crate::recorder::Recorder;

use super::session::{closed, stopped, text_of};
use super::{Context, Status};

/// Statements with a name of their own in a report; the others share one.
const NAMED_STATEMENTS: usize = 500;

/// One prepared statement of a connection.
pub(super) struct Kept {
    /// What the session calls it.
    pub(super) handle: u32,
    pub(super) sql: Vec<u8>,
    /// If latencies of statements are wanted.
    recorder: Option<Arc<Recorder>>,
}

/// Latencies of text statements, by first word.
#[derive(Default)]
pub(super) struct Words(Vec<(Vec<u8>, Arc<Recorder>)>);

impl Context {
    pub(crate) fn prepare(&mut self, connection: u32, sql: &[u8]) -> Result<u32, Status> {
        let prepared = match self.on_session(connection, |session| session.prepare(sql)) {
            Ok(prepared) => prepared,
            Err(error @ DriverError::Lost { .. }) => {
                return Err(self.blamed(&error, connection, text_of(sql)));
            }
            // Not one of the statements that a restart repeats, so never ignorable.
            Err(error) => {
                return Err(match self.failed(&error, text_of(sql)) {
                    Status::Ignorable => Status::Fatal,
                    status => status,
                });
            }
        };
        self.tally.prepared();
        let timed = self.shared.times_statements;
        let recorder = timed.then(|| self.statement_recorder(&shape_of(sql)));
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Err(Status::Fatal);
        };
        slot.statements.push(Some(Kept {
            handle: prepared.handle,
            sql: sql.to_vec(),
            recorder,
        }));
        Ok(slot.statements.len() as u32 - 1)
    }

    pub(crate) fn execute(
        &mut self,
        connection: u32,
        statement: u32,
        params: &[Value<'_>],
    ) -> Result<Outcome, Status> {
        let result = self.executed(connection, statement, params);
        match result {
            Ok(outcome) => {
                self.tally.statement_done(&outcome);
                Ok(outcome)
            }
            Err(error) => {
                let text = self.statement_text(connection, statement);
                Err(self.blamed(&error, connection, text))
            }
        }
    }

    fn executed(
        &mut self,
        connection: u32,
        statement: u32,
        params: &[Value<'_>],
    ) -> Result<Outcome, DriverError> {
        if self.shared.is_over() {
            return Err(stopped());
        }
        let Some(Some(slot)) = self.slots.get_mut(connection as usize) else {
            return Err(closed());
        };
        let Some(Some(kept)) = slot.statements.get(statement as usize) else {
            return Err(closed_statement());
        };
        let Some(recorder) = &kept.recorder else {
            return slot.session.execute(kept.handle, params);
        };
        let begun = now_ns();
        let outcome = slot.session.execute(kept.handle, params)?;
        recorder.record(now_ns().saturating_sub(begun));
        Ok(outcome)
    }

    pub(crate) fn close_statement(&mut self, connection: u32, statement: u32) -> Status {
        let text = self.statement_text(connection, statement);
        let kept = match self.slots.get_mut(connection as usize) {
            Some(Some(slot)) => slot.statements.get_mut(statement as usize),
            _ => None,
        };
        let result = match kept.and_then(Option::take) {
            Some(kept) => {
                self.on_session(connection, |session| session.close_statement(kept.handle))
            }
            None => Err(closed_statement()),
        };
        match result {
            Ok(()) => Status::Done,
            Err(error) => self.failed(&error, text),
        }
    }

    fn statement_text(&self, connection: u32, statement: u32) -> String {
        let Some(Some(slot)) = self.slots.get(connection as usize) else {
            return String::new();
        };
        let kept = slot.statements.get(statement as usize);
        let kept = kept.and_then(Option::as_ref);
        kept.map(|kept| text_of(&kept.sql)).unwrap_or_default()
    }

    fn statement_recorder(&mut self, name: &str) -> Arc<Recorder> {
        let names = &self.shared.statements;
        let number = names.number_of_few(name, NAMED_STATEMENTS);
        self.tally.recorders.statements.of(number, Recorder::new)
    }

    /// When a text statement begins, if that is wanted.
    pub(super) fn text_begun(&self) -> Option<u64> {
        self.shared.times_statements.then(now_ns)
    }

    /// Records a text statement that ended well.
    pub(super) fn text_done(&mut self, begun: Option<u64>, sql: &[u8]) {
        let Some(begun) = begun else { return };
        let took = now_ns().saturating_sub(begun);
        let word = first_word(sql);
        let known = self.words.0.iter();
        let mut known = known.filter(|(known, _)| known.eq_ignore_ascii_case(word));
        if let Some((_, recorder)) = known.next() {
            recorder.record(took);
            return;
        }
        let recorder = self.statement_recorder(&text_of(word).to_ascii_uppercase());
        recorder.record(took);
        self.words.0.push((word.to_vec(), recorder));
    }
}

fn closed_statement() -> DriverError {
    DriverError::Refused("the prepared statement was closed".to_owned())
}

/// The word that says what a statement does.
fn first_word(sql: &[u8]) -> &[u8] {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic();
    let start = sql.iter().position(is_letter).unwrap_or(sql.len());
    let length = sql[start..]
        .iter()
        .take_while(|byte| is_letter(byte))
        .count();
    &sql[start..start + length]
}

/// The text with `N` for the digits at the ends of names, so that the tables of a family share
/// one shape; literals stay what they are.
fn shape_of(sql: &[u8]) -> String {
    let mut shape = String::new();
    let (mut in_name, mut in_number) = (false, false);
    for character in text_of(sql).chars() {
        let is_digit = character.is_ascii_digit();
        if in_name && is_digit {
            if !in_number {
                shape.push('N');
            }
        } else {
            in_name = character.is_alphabetic() || character == '_';
            shape.push(character);
        }
        in_number = in_name && is_digit;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_share_a_shape_and_literals_keep_theirs() {
        let shape = shape_of(b"SELECT c1 FROM sbtest12 WHERE id=12 AND k_3=?");
        assert_eq!(shape, "SELECT cN FROM sbtestN WHERE id=12 AND k_N=?");
        assert_eq!(shape_of(b"IN1 2"), "INN 2");
    }

    #[test]
    fn the_first_word_says_what_a_statement_does() {
        assert_eq!(first_word(b" (select 1)"), b"select");
        assert_eq!(first_word(b"BEGIN"), b"BEGIN");
        assert_eq!(first_word(b"1"), b"");
    }
}
