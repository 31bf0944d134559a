//! The server's first answer to a command: done, refused, or a result set.
//!
//! Commands read it, the login reads its OK and error forms. Invariant: total over all bytes;
//! what is not one of the known forms is [`Error::Protocol`].

use waggle_foreign::Printable;

use crate::Error;
use crate::cursor::Cursor;
use crate::packet::FRAME_BYTES_MAX;

/// First byte of an error packet.
pub(crate) const ERROR: u8 = 0xff;
/// First byte of the packet that ends rows.
pub(crate) const END: u8 = 0xfe;
/// First byte of a request to send a local file.
const LOCAL_FILE: u8 = 0xfb;
/// In the status flags: a transaction is open.
const STATUS_IN_TRANSACTION: u16 = 0x0001;
/// In the status flags: another result follows this one.
const STATUS_MORE_RESULTS: u16 = 0x0008;
/// More columns than any server sends (4096 in a table; 65535 fit the prepare answer).
const COLUMNS_MAX: u64 = u16::MAX as u64;

/// What an OK packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Rows changed.
    pub affected: u64,
    /// First value that an automatic key got; 0 for none.
    pub last_insert_id: u64,
    /// Status flags of the server.
    pub status: u16,
    /// Warnings raised.
    pub warnings: u16,
}

impl Done {
    /// Another result follows.
    pub fn more_results(&self) -> bool {
        self.status & STATUS_MORE_RESULTS != 0
    }

    /// A transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.status & STATUS_IN_TRANSACTION != 0
    }
}

/// The first packet of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The statement has no rows.
    Done(Done),
    /// A result set with this many columns follows, with or without their definitions.
    Columns {
        /// How many columns.
        count: u16,
        /// Their definitions follow.
        are_defined: bool,
    },
    /// The server wants a file of this machine.
    LocalFile,
}

/// Reads the first packet of a result; `may_omit` when the session agreed that the server may
/// leave out column definitions. An error packet becomes [`Error::Server`].
#[inline]
pub(crate) fn parse(packet: &[u8], may_omit: bool) -> Result<Reply, Error> {
    match packet.first() {
        Some(0) => done(packet).map(Reply::Done),
        Some(&ERROR) => Err(server_error(packet)?),
        Some(&LOCAL_FILE) => Ok(Reply::LocalFile),
        _ => {
            let mut cursor = Cursor::new(packet, "column count");
            let columns = cursor.integer()?;
            let are_defined = match may_omit {
                true => cursor.u8()? != 0,
                false => true,
            };
            if !cursor.is_empty() || columns > COLUMNS_MAX {
                return Err(cursor.error("it is none that may start a result"));
            }
            Ok(Reply::Columns {
                count: columns as u16,
                are_defined,
            })
        }
    }
}

/// Reads an OK packet, of either first byte (0, or 0xfe at the end of rows).
pub(crate) fn done(packet: &[u8]) -> Result<Done, Error> {
    let mut cursor = Cursor::new(packet, "OK");
    match cursor.u8()? {
        0 | END => {}
        ERROR => return Err(server_error(packet)?),
        _ => return Err(cursor.error("it does not start as one")),
    }
    Ok(Done {
        affected: cursor.integer()?,
        last_insert_id: cursor.integer()?,
        status: cursor.u16()?,
        warnings: cursor.u16()?,
    })
}

/// Whether a packet of this length and first byte ends the rows (or the column definitions).
#[inline]
pub(crate) fn ends_rows(length: usize, first: u8, deprecates_eof: bool) -> bool {
    match first {
        ERROR => true,
        // A row whose first value is 16 MiB or more starts with 0xfe too.
        END => length < if deprecates_eof { FRAME_BYTES_MAX } else { 9 },
        _ => false,
    }
}

/// Reads the packet that ends rows: an OK, an EOF of older servers, or an error.
pub(crate) fn end_of_rows(packet: &[u8], deprecates_eof: bool) -> Result<Done, Error> {
    if deprecates_eof || packet.first() == Some(&ERROR) {
        return done(packet);
    }
    let mut cursor = Cursor::new(packet, "EOF");
    if cursor.u8()? != END {
        return Err(cursor.error("it does not start as one"));
    }
    let warnings = cursor.u16()?;
    Ok(Done {
        affected: 0,
        last_insert_id: 0,
        status: cursor.u16()?,
        warnings,
    })
}

/// Reads an error packet; `Err` when it is malformed.
pub(crate) fn server_error(packet: &[u8]) -> Result<Error, Error> {
    let mut cursor = Cursor::new(packet, "error");
    if cursor.u8()? != ERROR {
        return Err(cursor.error("it does not start as one"));
    }
    let errno = cursor.u16()?;
    let mut with_state = cursor.clone();
    // Errors before the login (too many connections) carry no SQLSTATE.
    let mut sqlstate = *b"HY000";
    if with_state.u8().is_ok_and(|marker| marker == b'#') {
        sqlstate = with_state.array()?;
        cursor = with_state;
    }
    // It may be anyone's words, and goes to a terminal.
    let message = Printable::of_bytes(cursor.rest()).into_string();
    Ok(Error::Server {
        errno,
        sqlstate,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_an_ok() {
        // INSERT of one row with id 300 and one warning, autocommit, more results.
        let done = done(b"\0\x01\xfc\x2c\x01\x0a\0\x01\0").unwrap();
        assert_eq!(
            (done.affected, done.last_insert_id, done.warnings),
            (1, 300, 1)
        );
        assert!(done.more_results());
    }

    #[test]
    fn reads_an_error_with_and_without_state() {
        let error = parse(b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist", false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "server error 1146 (42S02): Table 'a.b' doesn't exist"
        );
        let error = server_error(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!(
            error.to_string(),
            "server error 1040 (HY000): Too many connections"
        );
        assert_eq!(error.errno(), Some(1040));
    }

    #[test]
    fn tells_results_apart() {
        assert_eq!(
            parse(b"\x03", false).unwrap(),
            Reply::Columns {
                count: 3,
                are_defined: true
            }
        );
        let undefined = Reply::Columns {
            count: 3,
            are_defined: false,
        };
        assert_eq!(parse(b"\x03\0", true).unwrap(), undefined);
        assert!(parse(b"\x03", true).is_err());
        assert_eq!(parse(b"\xfb/etc/passwd", false).unwrap(), Reply::LocalFile);
        for packet in [
            &b""[..],
            b"\xfe",
            b"\x03\x03",
            b"\xfd\0\0\x01",
            b"\0",
            b"\xff\x01",
        ] {
            assert!(
                matches!(parse(packet, false), Err(Error::Protocol(_))),
                "{packet:?}"
            );
        }
    }

    #[test]
    fn a_row_of_a_huge_value_is_not_the_end() {
        assert!(ends_rows(7, END, true));
        assert!(!ends_rows(FRAME_BYTES_MAX, END, true));
        assert!(ends_rows(5, END, false));
        assert!(!ends_rows(9, END, false));
        assert!(!ends_rows(5, 0xfb, true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..40),
                                  first in prop_oneof![Just(0u8), Just(0xfe), Just(0xff), 0u8..]) {
            let packet = [&[first][..], &bytes].concat();
            let _ = (parse(&packet, false), parse(&packet, true), parse(&bytes, false));
            let _ = (done(&packet), server_error(&packet));
            let _ = (end_of_rows(&packet, false), end_of_rows(&packet, true));
        }
    }
}
