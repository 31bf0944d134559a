//! Prints `statement <tab> fingerprint <tab> id` for each line of standard input.
//!
//! Tabs, newlines, carriage returns and backslashes of statements are written `\t`, `\n`, `\r`
//! and `\\`, in the input and in the output. With `tests/reference/main.go`, which does the same
//! with the reference, this is a differential test: pipe the same lines through both and `diff`.

use std::io::{self, BufRead, BufWriter, Write};
use waggle_digest::{Fingerprinter, digest_id};

fn main() -> io::Result<()> {
    let mut fingerprinter = Fingerprinter::new();
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        let fingerprint = fingerprinter.fingerprint(&unescape(&line));
        out.write_all(&line)?;
        out.write_all(b"\t")?;
        out.write_all(&escape(fingerprint))?;
        writeln!(out, "\t{}", digest_id(fingerprint))?;
    }
    out.flush()
}

fn unescape(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    let mut bytes = line.iter();
    while let Some(&byte) = bytes.next() {
        let byte = match (byte, byte == b'\\') {
            (_, true) => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(&other) => other,
                None => b'\\',
            },
            (byte, false) => byte,
        };
        text.push(byte);
    }
    text
}

fn escape(text: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\\' => line.extend_from_slice(b"\\\\"),
            other => line.push(other),
        }
    }
    line
}
