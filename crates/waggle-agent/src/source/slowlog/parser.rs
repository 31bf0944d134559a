//! From bytes to entries.
//!
//! An entry is header lines (`# ...`), lines that set its circumstances (`use db;`,
//! `SET timestamp=...;`), then the statement, which may have any bytes and lines, and ends with
//! `;` at the end of a line before the next header. Neighbours: `entry` holds what a line says;
//! `tail` feeds. Invariant: at most one line and one text, both cut at a limit, are held.

use super::entry::Entry;

/// Longest line that is looked at as a whole; only statements have longer ones.
const LINE_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before the first header, or in something that is no entry.
    #[default]
    Outside,
    /// In the lines before the statement.
    Header,
    /// In the statement.
    Statement,
}

/// Makes entries of bytes.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// The line began in an earlier piece.
    is_continued: bool,
    state: State,
    entry: Entry,
    broken: u64,
}

impl Parser {
    /// Takes bytes as they come; yields entries as the next one begins.
    pub(super) fn feed(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(&Entry)) {
        while !bytes.is_empty() {
            let room = LINE_BYTES_MAX - self.line.len();
            let window = &bytes[..bytes.len().min(room)];
            let end = window.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(window.len(), |end| end + 1);
            self.line.extend_from_slice(&window[..taken]);
            bytes = &bytes[taken..];
            if end.is_some() || self.line.len() == LINE_BYTES_MAX {
                let line = std::mem::take(&mut self.line);
                self.take(&line, each);
                self.is_continued = end.is_none();
                self.line = line;
                self.line.clear();
            }
        }
    }

    /// Yields the entry at the end, if it is whole. True if there was one.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(&Entry)) -> bool {
        let is_whole = self.state == State::Statement && self.entry.is_whole();
        if !is_whole || !self.line.is_empty() {
            return false;
        }
        self.yield_entry(each);
        self.state = State::Outside;
        true
    }

    /// An entry was begun and not yielded.
    pub(super) fn is_within_entry(&self) -> bool {
        self.state != State::Outside
    }

    /// Entries whose end never came, since the last call.
    pub(super) fn take_broken(&mut self) -> u64 {
        std::mem::take(&mut self.broken)
    }

    fn yield_entry(&mut self, each: &mut dyn FnMut(&Entry)) {
        each(&self.entry);
        self.entry.begin();
    }

    /// Takes a line with its end, or a piece of a line that is too long.
    fn take(&mut self, line: &[u8], each: &mut dyn FnMut(&Entry)) {
        if self.is_continued {
            if self.state == State::Statement {
                self.entry.push_text(line);
            }
            return;
        }
        let begins_entry = line.starts_with(b"# Time: ") || line.starts_with(b"# User@Host: ");
        match self.state {
            State::Outside if begins_entry => {
                self.entry.begin();
                self.state = State::Header;
                self.entry.take_header(line);
            }
            State::Outside => self.note_start(line),
            State::Header if begins_entry && self.entry.is_behind(line) => {
                // The entry before was cut off within its header.
                self.broken += 1;
                self.entry.begin();
                self.entry.take_header(line);
            }
            State::Header => self.take_before_statement(line),
            State::Statement if self.entry.is_whole() && begins_entry => {
                self.yield_entry(each);
                self.state = State::Header;
                self.entry.take_header(line);
            }
            State::Statement if self.entry.is_whole() && is_start_of_server(line) => {
                self.yield_entry(each);
                self.state = State::Outside;
                self.note_start(line);
            }
            State::Statement => self.entry.push_text(line),
        }
    }

    /// A server that starts, or opens its log anew, says the default database again.
    fn note_start(&mut self, line: &[u8]) {
        if is_start_of_server(line) {
            self.entry.forget_database();
        }
    }

    fn take_before_statement(&mut self, line: &[u8]) {
        if line.starts_with(b"# administrator command: ") {
            self.state = State::Statement;
            self.entry.push_text(line);
        } else if line.starts_with(b"#") && !self.entry.has_timestamp() {
            self.entry.take_header(line);
        } else if !self.entry.take_circumstance(line) {
            self.state = State::Statement;
            self.entry.push_text(line);
        }
    }
}

/// The first of the three lines that a server writes when it opens the log.
fn is_start_of_server(line: &[u8]) -> bool {
    line.ends_with(b"started with:\n") && memmem(line, b", Version: ")
}

fn memmem(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[cfg(test)]
mod tests;
