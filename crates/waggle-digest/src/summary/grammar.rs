//! What does a word mean where it stands: which statement begins, where do its tables come?
//!
//! A word is judged by the statement that it stands in and by what the words before it await.
//! Neighbours: the parent finds the words, `targets` writes operations and names.

use super::keywords::{Word, word};
use super::{Awaits, Verb, Walk};
use crate::bytes::is_identifier;
use crate::scan;

impl Walk<'_> {
    #[inline(always)]
    pub(super) fn word(&mut self) {
        let (begin, end) = (self.at, self.word_end(self.at));
        let found = word(&self.sql[begin..end]);
        // x'1F', b'1' and _utf8'...' go with the literal behind them.
        self.at = end;
        if found == Word::Name && self.awaits == Awaits::Nothing && self.verb != Verb::Start {
            match self.verb {
                Verb::Show(_) | Verb::Pair => self.follow_operation(found, begin),
                Verb::Explain => self.explained(found, begin),
                _ => {}
            }
            return;
        }
        match self.verb {
            Verb::Rest => self.rest(found, begin),
            Verb::Start => self.first(found, begin),
            Verb::With if found.is_main() && self.depth == 0 => self.first(found, begin),
            Verb::Explain => self.explained(found, begin),
            Verb::Define(several) => self.define(found, begin, several),
            Verb::Show(_) | Verb::Pair => self.follow_operation(found, begin),
            _ => self.inside(found, begin),
        }
    }

    /// The first word of a statement.
    fn first(&mut self, found: Word, begin: usize) {
        let behind = self.at;
        self.awaits = Awaits::Nothing;
        self.verb = match found {
            Word::With => Verb::With,
            Word::Select => {
                self.verb = Verb::Query;
                return self.select(begin);
            }
            Word::Insert | Word::Replace => Verb::Insert,
            Word::Update => Verb::Update,
            Word::Delete => Verb::Delete,
            Word::Load => Verb::Load,
            Word::Create | Word::Alter => Verb::Define(false),
            Word::Drop | Word::Define | Word::Analyze | Word::Truncate => Verb::Define(true),
            Word::Explain => Verb::Explain,
            Word::Show => Verb::Show(0),
            Word::Call | Word::Use | Word::Handler | Word::Table => Verb::Rest,
            Word::Pair => Verb::Pair,
            Word::Single | Word::Values | Word::Set => Verb::Rest,
            _ => Verb::End,
        };
        if !matches!(self.verb, Verb::With | Verb::End) {
            self.operation(begin, behind);
        }
        self.awaits = match found {
            Word::Insert | Word::Replace | Word::Update => Awaits::Target,
            Word::Call | Word::Use | Word::Handler | Word::Table | Word::Truncate => {
                Awaits::LastTarget
            }
            _ => Awaits::Nothing,
        };
        if found == Word::Update {
            self.tables |= self.bit();
        } else if found == Word::Delete {
            self.queries |= self.bit();
        }
    }

    fn select(&mut self, begin: usize) {
        let bit = self.bit();
        self.queries |= bit;
        self.tables &= !bit;
        self.awaits = Awaits::Nothing;
        self.operation(begin, self.at);
    }

    /// Behind `SET`, `CALL name` and so on: only queries count.
    fn rest(&mut self, found: Word, begin: usize) {
        match found {
            // SHOW FULL TABLES FROM shop
            Word::From | Word::In if self.awaits != Awaits::Nothing => {}
            Word::Clause => self.awaits = Awaits::Nothing,
            _ if self.awaits != Awaits::Nothing => {
                self.at = begin;
                self.target();
            }
            Word::Select => self.select(begin),
            _ => _ = self.table_clause(found),
        }
    }

    fn inside(&mut self, found: Word, begin: usize) {
        match found {
            Word::Select => self.select(begin),
            Word::Modifier | Word::Into
                if self.awaits != Awaits::Nothing && self.verb != Verb::Query => {}
            Word::If => self.skip_if_exists(),
            Word::Values
                if self.verb == Verb::Insert
                    && self.depth == 0
                    && self.awaits == Awaits::Nothing =>
            {
                self.skip_rows();
            }
            Word::Set if self.verb == Verb::Update => self.tables &= !self.bit(),
            Word::On if self.verb == Verb::Index => self.awaits = Awaits::LastTarget,
            Word::Second if self.verb == Verb::Load => self.operation(begin, self.at),
            Word::Table if self.verb == Verb::Load => self.awaits = Awaits::LastTarget,
            Word::Using if self.verb == Verb::Delete && self.awaits == Awaits::Nothing => {
                // Not JOIN ... USING (column), which a parenthesis follows.
                let next = self.sql.get(scan::blank_end(self.sql, self.at).at);
                if next != Some(&b'(') {
                    self.tables |= self.bit();
                    self.awaits = Awaits::Target;
                }
            }
            _ if self.table_clause(found) => {}
            _ if self.awaits != Awaits::Nothing => {
                self.at = begin;
                self.target();
            }
            _ => {}
        }
    }

    /// `FROM`, `JOIN` and what ends a list of tables; false if the word is none of them.
    fn table_clause(&mut self, found: Word) -> bool {
        let bit = self.bit();
        match found {
            Word::From if self.queries & bit != 0 => {
                self.tables |= bit;
                self.awaits = Awaits::Target;
            }
            Word::From => {}
            Word::Join if self.tables & bit != 0 => self.awaits = Awaits::Target,
            Word::Join => {}
            Word::Clause => {
                self.tables &= !bit;
                self.awaits = Awaits::Nothing;
            }
            Word::Lateral if self.awaits == Awaits::Target => {}
            Word::Dual if self.awaits == Awaits::Target => self.awaits = Awaits::Nothing,
            _ => return false,
        }
        true
    }

    /// Behind `EXPLAIN` and its kin.
    fn explained(&mut self, found: Word, begin: usize) {
        match found {
            _ if found.is_main() || found == Word::With => self.first(found, begin),
            Word::Analyze | Word::Modifier => {}
            Word::Format => {
                let mut at = scan::blank_end(self.sql, self.at).at;
                if self.sql.get(at) == Some(&b'=') {
                    at = scan::blank_end(self.sql, at + 1).at;
                }
                self.at = self.word_end(at);
            }
            Word::For => self.verb = Verb::Rest,
            _ => {
                self.at = begin;
                self.awaits = Awaits::LastTarget;
                self.target();
            }
        }
    }

    /// Between `CREATE` and the kind of object.
    fn define(&mut self, found: Word, begin: usize, several: bool) {
        let list = if several { self.bit() } else { 0 };
        match found {
            Word::Table | Word::View => {
                self.operation(begin, self.at);
                // A query may follow CREATE TABLE.
                self.verb = Verb::Query;
                self.tables |= list;
                self.awaits = Awaits::Target;
                self.skip_if_exists_next();
            }
            Word::Index => {
                self.operation(begin, self.at);
                self.verb = Verb::Index;
            }
            Word::Routine => {
                self.operation(begin, self.at);
                self.skip_if_exists_next();
                self.verb = Verb::End;
                self.awaits = Awaits::LastTarget;
                self.at = scan::blank_end(self.sql, self.at).at;
                let next = self.sql.get(self.at);
                if next.is_some_and(|&byte| is_identifier(byte) || byte == b'`') {
                    self.target();
                }
                self.verb = Verb::End;
            }
            Word::Account => {
                self.operation(begin, self.at);
                self.verb = Verb::Rest;
            }
            // MariaDB's ANALYZE SELECT; not CREATE OR REPLACE.
            _ if found.is_main() && found != Word::Replace => self.first(found, begin),
            // TRUNCATE without TABLE.
            _ if self.awaits != Awaits::Nothing => {
                self.at = begin;
                self.target();
            }
            _ => {}
        }
    }

    /// `SHOW` has up to four words, the others of the kind two.
    fn follow_operation(&mut self, found: Word, begin: usize) {
        let Verb::Show(count) = self.verb else {
            self.verb = Verb::Rest;
            if found != Word::Name && found != Word::Clause {
                self.operation(begin, self.at);
                if found == Word::Table {
                    self.verb = Verb::Query;
                    self.tables |= self.bit();
                    self.awaits = Awaits::Target;
                }
            }
            return;
        };
        match found {
            Word::From | Word::In => {
                self.verb = Verb::Rest;
                self.awaits = Awaits::LastTarget;
            }
            Word::Clause | Word::On | Word::For | Word::Using => self.verb = Verb::Rest,
            Word::Account => {
                self.operation(begin, self.at);
                self.verb = Verb::Rest;
            }
            Word::Table | Word::View | Word::Routine if count > 0 => {
                self.operation(begin, self.at);
                self.verb = Verb::Rest;
                self.awaits = Awaits::LastTarget;
            }
            _ if count < 3 && self.sql[begin..self.at].is_ascii() => {
                self.operation(begin, self.at);
                self.verb = Verb::Show(count + 1);
            }
            _ => self.verb = Verb::Rest,
        }
    }

    /// Behind `IF` where `NOT EXISTS` or `EXISTS` may come.
    fn skip_if_exists(&mut self) {
        for _ in 0..2 {
            let begin = scan::blank_end(self.sql, self.at).at;
            let end = self.word_end(begin);
            match word(&self.sql[begin..end]) {
                Word::Not => self.at = end,
                Word::Exists => {
                    self.at = end;
                    return;
                }
                _ => return,
            }
        }
    }

    fn skip_if_exists_next(&mut self) {
        let begin = scan::blank_end(self.sql, self.at).at;
        let end = self.word_end(begin);
        if word(&self.sql[begin..end]) == Word::If {
            self.at = end;
            self.skip_if_exists();
        }
    }

    /// Behind `VALUES` of an `INSERT`: its rows are values, however many.
    fn skip_rows(&mut self) {
        self.awaits = Awaits::Nothing;
        loop {
            self.at = scan::blank_end(self.sql, self.at).at;
            match self.sql.get(self.at) {
                Some(b'(') => self.at = scan::parenthesis_end(self.sql, self.at).at,
                Some(b',') => self.at += 1,
                _ => return,
            }
        }
    }
}
