//! Parameters of prepared statements, and the packet body that carries them.
//!
//! [`Connection::execute`](crate::Connection::execute) uses it. Invariant: types are sent with
//! every execution, so that the server never reads a value by the type of an earlier one.

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
    /// Type code and flags (0x8000: unsigned).
    fn kind(&self) -> u16 {
        match self {
            Value::Null => 0x06,
            Value::Int(_) => 0x08,
            Value::UInt(_) => 0x8008,
            Value::Double(_) => 0x05,
            Value::Bytes(_) => 0xfd,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
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

/// Appends the body of an execute command for statement `id`.
pub(crate) fn put_execute(out: &mut Vec<u8>, id: u32, params: &[Value<'_>]) {
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&[0, 1, 0, 0, 0]); // no cursor, one execution
    if params.is_empty() {
        return;
    }
    let nulls = out.len();
    out.resize(nulls + params.len().div_ceil(8), 0);
    for (i, _) in params
        .iter()
        .enumerate()
        .filter(|(_, param)| matches!(param, Value::Null))
    {
        out[nulls + i / 8] |= 1 << (i % 8);
    }
    out.push(1); // types follow
    for param in params {
        out.extend_from_slice(&param.kind().to_le_bytes());
    }
    for param in params {
        param.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_has_the_protocols_form() {
        let mut out = Vec::new();
        put_execute(&mut out, 7, &[]);
        assert_eq!(out, b"\x07\0\0\0\0\x01\0\0\0");

        out.clear();
        let values = [
            Value::Null,
            Value::Int(-2),
            Value::UInt(3),
            Value::Double(1.0),
            Value::Bytes(b"ab"),
        ];
        put_execute(&mut out, 7, &values);
        let expected = [
            &b"\x07\0\0\0\0\x01\0\0\0\x01\x01"[..],
            b"\x06\0\x08\0\x08\x80\x05\0\xfd\0",
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f\x02ab",
        ];
        assert_eq!(out, expected.concat());

        out.clear();
        let mut values = [Value::Null; 9];
        values[1] = Value::Int(0);
        put_execute(&mut out, 1, &values);
        assert_eq!(out[9..11], [0b1111_1101, 1]);
    }
}
