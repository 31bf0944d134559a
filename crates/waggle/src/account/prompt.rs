//! A password asked for on the terminal of this process, and not shown there.
//!
//! Invariant: the terminal is as it was when this returns, also after Ctrl-C.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Longest password that is read.
const BYTES_MAX: usize = 1024;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

/// Asks on the terminal, whatever standard input is.
pub(super) fn ask(question: &str) -> io::Result<String> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let _quiet = Quiet::new(&terminal)?;
    (&terminal).write_all(question.as_bytes())?;
    let answer = answer(&terminal);
    // The end of the line was not shown either.
    (&terminal).write_all(b"\n")?;
    answer
}

fn answer(mut from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte)? {
            0 => break,
            _ => match byte[0] {
                b'\n' | b'\r' => break,
                CTRL_C | CTRL_D => {
                    return Err(io::Error::new(io::ErrorKind::Interrupted, "no answer"));
                }
                byte if bytes.len() < BYTES_MAX => bytes.push(byte),
                _ => return Err(io::Error::other("the answer is too long")),
            },
        }
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("the answer is not UTF-8"))
}

/// A terminal that shows nothing of what is typed; Ctrl-C is read, so that nothing ends this
/// process before the terminal is as it was.
struct Quiet<'a> {
    terminal: &'a std::fs::File,
    before: Termios,
}

impl<'a> Quiet<'a> {
    fn new(terminal: &'a std::fs::File) -> io::Result<Quiet<'a>> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG;
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // The terminal is gone, at worst.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_line_or_none() {
        assert_eq!(answer(&b"pass word\nrest"[..]).unwrap(), "pass word");
        assert_eq!(answer(&b"\r"[..]).unwrap(), "");
        assert_eq!(answer(&b"whole"[..]).unwrap(), "whole");
        assert!(answer(&b"pa\x03"[..]).is_err());
        assert!(answer(&[b'x'; 2000][..]).is_err());
    }
}
