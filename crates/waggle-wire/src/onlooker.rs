//! The protocol for somebody who is neither side: what the packets that both send each other say.
//!
//! The agent's packet source reads connections of others with it; the client of this crate shares
//! the parsers. Invariants: total over all bytes, nothing is allocated for what a packet only
//! announces, and proofs of passwords are stepped over, never given out.

use crate::Error;
use crate::cursor::Cursor;
use crate::handshake::{
    self, CONNECT_ATTRS, CONNECT_WITH_DB, Greeting, LONG_PASSWORD, PLUGIN_AUTH, PROTOCOL_41,
    SECURE_CONNECTION,
};
use crate::reply;

pub use crate::compress::{Engines, Unpacker};
pub use crate::reply::{Done, Reply};

/// Capability: packets travel in frames that zlib compressed.
pub const COMPRESS: u64 = handshake::COMPRESS as u64;
/// Capability: the client goes on over TLS.
pub const SSL: u64 = handshake::SSL as u64;
/// Capability: several statements in one command.
pub const MULTI_STATEMENTS: u64 = handshake::MULTI_STATEMENTS as u64;
/// Capability: an OK packet tells what changed in the session.
pub const SESSION_TRACK: u64 = 1 << 23;
/// Capability: rows end with an OK packet, definitions with nothing.
pub const DEPRECATE_EOF: u64 = handshake::DEPRECATE_EOF as u64;
/// Capability: the server says of a result whether definitions follow (MySQL).
pub const OPTIONAL_METADATA: u64 = 1 << 25;
/// Capability: packets travel in frames that zstd compressed.
pub const ZSTD_COMPRESSION: u64 = handshake::ZSTD_COMPRESSION as u64;
/// Capability: queries carry attributes before their text.
pub const QUERY_ATTRIBUTES: u64 = 1 << 27;
/// Capability of MariaDB: the server says of a result whether definitions follow.
pub const CACHE_METADATA: u64 = 1 << 36;

const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
/// In the status flags: the session's state changed, and the OK packet says how.
const STATUS_SESSION_CHANGED: u16 = 0x4000;
/// In a session's changes: the default database.
const CHANGED_SCHEMA: u8 = 1;
/// More attributes than any client sends.
const ATTRIBUTES_MAX: u64 = 65_535;

/// What a server says first, as far as an onlooker needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Connection id, as in the process list.
    pub connection_id: u32,
    /// Capabilities, MariaDB's own in the upper half.
    pub capabilities: u64,
    /// Version, without the "5.5.5-" of MariaDB 10.
    pub version: String,
}

/// Reads a server's first packet.
///
/// # Errors
/// It is an error packet, or none that a server sends first.
pub fn opening(packet: &[u8]) -> Result<Opening, Error> {
    let greeting = Greeting::parse(packet)?;
    let extended = u64::from(greeting.extended) << 32;
    Ok(Opening {
        connection_id: greeting.connection_id,
        capabilities: u64::from(greeting.capabilities) | extended,
        version: greeting.version,
    })
}

/// What a client answers to the greeting, without the proof of its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login<'a> {
    /// Capabilities the client uses, MariaDB's own in the upper half.
    pub capabilities: u64,
    /// Collation of the connection, its low byte.
    pub charset: u8,
    /// It is only the request for TLS; the login follows, unseen.
    pub is_tls_request: bool,
    /// User name.
    pub user: &'a [u8],
    /// Default database; empty for none.
    pub database: &'a [u8],
    /// Connection attributes, as [`attributes`] reads them.
    pub attributes: &'a [u8],
}

/// Reads a client's answer to the greeting.
///
/// # Errors
/// It is none, or one of a client older than MySQL 4.1.
pub fn login(packet: &[u8]) -> Result<Login<'_>, Error> {
    let mut cursor = Cursor::new(packet, "login");
    let low = cursor.u32()?;
    if low & PROTOCOL_41 == 0 {
        return Err(cursor.error("its client is older than the 4.1 protocol"));
    }
    cursor.u32()?;
    let charset = cursor.u8()?;
    cursor.bytes(19)?;
    let extended = cursor.u32()?;
    let extended = if low & LONG_PASSWORD == 0 {
        extended
    } else {
        0
    };
    let mut login = Login {
        capabilities: u64::from(low) | u64::from(extended) << 32,
        charset,
        is_tls_request: cursor.is_empty() && low & handshake::SSL != 0,
        user: b"",
        database: b"",
        attributes: b"",
    };
    if login.is_tls_request {
        return Ok(login);
    }
    login.user = cursor.until_zero()?;
    skip_proof(&mut cursor, low)?;
    if low & CONNECT_WITH_DB != 0 {
        login.database = last_text(&mut cursor);
    }
    if low & PLUGIN_AUTH != 0 {
        last_text(&mut cursor);
    }
    if low & CONNECT_ATTRS != 0 && !cursor.is_empty() {
        login.attributes = cursor.text()?;
    }
    Ok(login)
}

fn skip_proof(cursor: &mut Cursor<'_>, capabilities: u32) -> Result<(), Error> {
    if capabilities & PLUGIN_AUTH_LENENC != 0 {
        cursor.text()?;
    } else if capabilities & SECURE_CONNECTION != 0 {
        let length = cursor.u8()?;
        cursor.bytes(length.into())?;
    } else {
        cursor.until_zero()?;
    }
    Ok(())
}

/// A text that ends with a zero, or with the packet as some clients have it.
fn last_text<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    match cursor.until_zero() {
        Ok(text) => text,
        Err(_) => std::mem::replace(cursor, Cursor::new(b"", "login")).rest(),
    }
}

/// Names and values of connection attributes; what is damaged ends them.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut cursor = Cursor::new(bytes, "attributes");
    std::iter::from_fn(move || Some((cursor.text().ok()?, cursor.text().ok()?)))
}

/// Reads COM_CHANGE_USER without its first byte: user and database.
///
/// # Errors
/// It is malformed.
pub fn change_user(body: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut cursor = Cursor::new(body, "change of user");
    let user = cursor.until_zero()?;
    let length = cursor.u8()?;
    cursor.bytes(length.into())?;
    Ok((user, last_text(&mut cursor)))
}

/// Where the text of a query begins in a command whose session agreed on query attributes; `body`
/// is the command without its first byte.
///
/// # Errors
/// What is there are no attributes, or they go beyond `body`.
pub fn query_text_at(body: &[u8]) -> Result<usize, Error> {
    let mut cursor = Cursor::new(body, "query attributes");
    let count = cursor.integer()?;
    cursor.integer()?;
    if count == 0 {
        return Ok(body.len() - cursor.rest().len());
    }
    if count > ATTRIBUTES_MAX {
        return Err(cursor.error("there are more than any client sends"));
    }
    let nulls = cursor.bytes(count.div_ceil(8) as usize)?;
    if cursor.u8()? != 1 {
        return Err(cursor.error("their types are missing"));
    }
    let mut types = Vec::new();
    for _ in 0..count {
        types.push(cursor.u16()?);
        cursor.text()?;
    }
    for (index, kind) in types.iter().enumerate() {
        if nulls[index / 8] >> (index % 8) & 1 == 0 {
            skip_value(&mut cursor, *kind)?;
        }
    }
    Ok(body.len() - cursor.rest().len())
}

/// Steps over a value of the binary protocol by the low byte of its type.
fn skip_value(cursor: &mut Cursor<'_>, kind: u16) -> Result<(), Error> {
    let length = match kind & 0xff {
        1 => 1,                                  // TINY
        2 | 13 => 2,                             // SHORT, YEAR
        3 | 4 | 9 => 4,                          // LONG, FLOAT, INT24
        5 | 8 => 8,                              // DOUBLE, LONGLONG
        6 => 0,                                  // NULL
        7 | 10 | 11 | 12 => cursor.u8()?.into(), // TIMESTAMP, DATE, TIME, DATETIME
        _ => return cursor.text().map(|_| ()),
    };
    cursor.bytes(length).map(|_| ())
}

/// Reads the first packet of a result; `may_omit` when the session agreed that definitions may be
/// left out.
///
/// # Errors
/// [`Error::Server`] for an error packet, [`Error::Protocol`] for what is no first packet.
pub fn first_of_result(packet: &[u8], may_omit: bool) -> Result<Reply, Error> {
    reply::parse(packet, may_omit)
}

/// Reads the packet that ends rows.
///
/// # Errors
/// As [`first_of_result`].
pub fn end_of_rows(packet: &[u8], deprecates_eof: bool) -> Result<Done, Error> {
    reply::end_of_rows(packet, deprecates_eof)
}

/// Whether a packet of this length and first byte ends the rows.
#[inline]
pub fn ends_rows(length: usize, first: u8, deprecates_eof: bool) -> bool {
    reply::ends_rows(length, first, deprecates_eof)
}

/// The default database that an OK packet says the session changed to; only where
/// [`SESSION_TRACK`] was agreed on.
pub fn new_database(packet: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(packet, "OK");
    cursor.u8().ok()?;
    cursor.integer().ok()?;
    cursor.integer().ok()?;
    if cursor.u16().ok()? & STATUS_SESSION_CHANGED == 0 {
        return None;
    }
    cursor.u16().ok()?;
    cursor.text().ok()?;
    let mut changes = Cursor::new(cursor.text().ok()?, "session state");
    loop {
        let kind = changes.u8().ok()?;
        let data = changes.text().ok()?;
        if kind == CHANGED_SCHEMA {
            return Cursor::new(data, "session state").text().ok();
        }
    }
}

/// What a server answers to a preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareAnswer {
    /// Id by which the client executes it.
    pub statement: u32,
    /// Columns of its result.
    pub columns: u16,
    /// Parameters.
    pub params: u16,
    /// Warnings raised.
    pub warnings: u16,
    /// Definitions follow.
    pub are_defined: bool,
}

/// Reads the first packet of the answer to a preparation.
///
/// # Errors
/// It is malformed.
pub fn prepare_answer(packet: &[u8], may_omit: bool) -> Result<PrepareAnswer, Error> {
    let mut cursor = Cursor::new(packet, "prepare answer");
    if cursor.u8()? != 0 {
        return Err(cursor.error("it does not start as one"));
    }
    let (statement, columns, params) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
    let warnings = match cursor.is_empty() {
        true => 0,
        false => {
            cursor.u8()?;
            cursor.u16()?
        }
    };
    let are_defined = !may_omit || cursor.is_empty() || cursor.u8()? != 0;
    Ok(PrepareAnswer {
        statement,
        columns,
        params,
        warnings,
        are_defined,
    })
}

#[cfg(test)]
mod tests;
