//! One client after its login: commands in, answers out.
//!
//! Invariant: commands are answered in their order, all that arrived at once in one send.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use waggle_bench_client::login::DEPRECATE_EOF;

use crate::answers::{self, Answers, Kind};

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_SEND_LONG_DATA: u8 = 0x18;
const COM_STMT_CLOSE: u8 = 0x19;

/// Room for input; grows with a longer packet.
const INPUT_BYTES: usize = 4 << 10;

/// A logged-in client.
pub(crate) struct Conversation {
    pub(crate) socket: OwnedFd,
    deprecates_eof: bool,
    /// By statement id, from 1 on.
    statements: Vec<Kind>,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
}

impl Conversation {
    pub(crate) fn new(socket: OwnedFd, capabilities: u32) -> Conversation {
        Conversation {
            socket,
            deprecates_eof: capabilities & DEPRECATE_EOF != 0,
            statements: Vec::new(),
            input: vec![0; INPUT_BYTES],
            filled: 0,
            output: Vec::new(),
        }
    }

    /// Answers what has arrived; false when the client is gone.
    pub(crate) fn answer(&mut self, answers: &Answers, questions: &AtomicU64) -> bool {
        if !self.receive() {
            return false;
        }
        self.output.clear();
        let mut at = 0;
        while let Some(length) = packet_length(&self.input[at..self.filled]) {
            let end = at + 4 + length;
            if end > self.filled {
                if self.input.len() < 4 + length {
                    self.input.resize(4 + length, 0);
                }
                break;
            }
            if !self.command(at + 4, end, answers, questions) {
                return false;
            }
            at = end;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.send()
    }

    fn receive(&mut self) -> bool {
        if self.filled == self.input.len() {
            self.input.resize(2 * self.filled, 0);
        }
        let room = &mut self.input[self.filled..];
        let fd = self.socket.as_raw_fd();
        // SAFETY: pointer and length are those of one slice.
        let length =
            unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
        if length < 0 {
            return std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
        }
        self.filled += length as usize;
        length > 0
    }

    /// Sends and waits if it has to: a client that takes no answer holds up its neighbours.
    fn send(&self) -> bool {
        let mut bytes = &self.output[..];
        while !bytes.is_empty() {
            let fd = self.socket.as_raw_fd();
            // SAFETY: pointer and length are those of one slice.
            let sent =
                unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
            match usize::try_from(sent) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(_) => return false,
            }
        }
        true
    }

    /// Appends the answer to the command in `input[start..end]`; false when it ends the session.
    fn command(
        &mut self,
        start: usize,
        end: usize,
        answers: &Answers,
        questions: &AtomicU64,
    ) -> bool {
        let Some((command, body)) = self.input[start..end].split_first() else {
            return false;
        };
        match *command {
            COM_QUIT => return false,
            COM_STMT_EXECUTE => {
                // One writer a connection would do, but SHOW reads the sum of all.
                questions.fetch_add(1, Ordering::Relaxed);
                let id = body
                    .get(..4)
                    .map_or(0, |id| u32::from_le_bytes([id[0], id[1], id[2], id[3]]));
                let kind = self.statements.get((id as usize).wrapping_sub(1));
                let kind = kind.copied().unwrap_or(Kind::Done);
                self.output
                    .extend_from_slice(answers.of(kind, true, self.deprecates_eof));
            }
            COM_QUERY => {
                let seen = questions.fetch_add(1, Ordering::Relaxed) + 1;
                let text = String::from_utf8_lossy(body).into_owned();
                self.query(&text, seen, answers);
            }
            COM_STMT_PREPARE => {
                let text = String::from_utf8_lossy(body).into_owned();
                self.prepare(&text);
            }
            // Neither is answered.
            COM_STMT_CLOSE | COM_STMT_SEND_LONG_DATA => {}
            // A ping, a reset, a schema: as they like.
            _ => self
                .output
                .extend_from_slice(answers.of(Kind::Done, false, self.deprecates_eof)),
        }
        true
    }

    fn query(&mut self, text: &str, questions: u64, answers: &Answers) {
        let upper = text.trim_start().to_ascii_uppercase();
        if upper.starts_with("SHOW") {
            let questions = questions.to_string();
            let rows = [
                ("Questions", questions.as_str()),
                ("version_comment", "answers from memory"),
            ];
            self.output
                .extend(answers::pairs(&rows, self.deprecates_eof));
            return;
        }
        self.output
            .extend_from_slice(answers.of(Kind::of(text), false, self.deprecates_eof));
    }

    fn prepare(&mut self, text: &str) {
        let kind = Kind::of(text);
        self.statements.push(kind);
        let id = self.statements.len() as u32;
        let params = text.matches('?').count() as u16;
        let mut payload = vec![0];
        payload.extend_from_slice(&id.to_le_bytes());
        payload.extend_from_slice(&kind.columns().to_le_bytes());
        payload.extend_from_slice(&params.to_le_bytes());
        payload.extend_from_slice(&[0, 0, 0]);
        let mut sequence = 1;
        answers::put(&mut self.output, sequence, &payload);
        for (count, definition) in [
            (params, answers::parameter()),
            (kind.columns(), kind.definition()),
        ] {
            for _ in 0..count {
                sequence += 1;
                answers::put(&mut self.output, sequence, &definition);
            }
            if count > 0 && !self.deprecates_eof {
                sequence += 1;
                answers::put(&mut self.output, sequence, answers::EOF);
            }
        }
    }
}

fn packet_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [a, b, c, _, ..] => Some(u32::from_le_bytes([*a, *b, *c, 0]) as usize),
        _ => None,
    }
}
