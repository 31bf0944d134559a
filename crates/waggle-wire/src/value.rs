//! Parameters of prepared statements.
//!
//! [`Execution`](crate::execution::Execution) puts them into the packet of a statement.

use crate::cursor::put_integer;

/// One parameter of [`Connection::execute`](crate::Connection::execute).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// A signed integer, sent as BIGINT.
    Int(i64),
    /// An unsigned integer, sent as BIGINT UNSIGNED.
    UInt(u64),
    /// A floating point number, sent as DOUBLE.
    Double(f64),
    /// Text or binary data, sent as VARCHAR in the connection's character set (utf8mb4).
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Type code and flags (0x8000: unsigned), as the servers number them.
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Value::Null => 0x06,
            Value::Int(_) => 0x08,
            Value::UInt(_) => 0x8008,
            Value::Double(_) => 0x05,
            Value::Bytes(_) => 0xfd,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => {}
            Value::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
            Value::UInt(number) => out.extend_from_slice(&number.to_le_bytes()),
            Value::Double(number) => out.extend_from_slice(&number.to_le_bytes()),
            Value::Bytes(bytes) => {
                put_integer(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
    }
}
