//! Types of columns, as the log gives them: a code and its metadata.
//!
//! Neighbour: the parent reads a table's. Invariant: a type that is not known is refused, because
//! the length of its values is not known either.

use crate::Error;
use crate::binlog::decimal;
use crate::cursor::Cursor;

/// A column's type, with what it takes to find and read its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer of so many bytes.
    Int {
        /// 1, 2, 3, 4 or 8.
        bytes: u8,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    Decimal(decimal::Form),
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME.
    Time {
        /// Digits of the fraction.
        decimals: u8,
    },
    /// DATETIME.
    DateTime {
        /// Digits of the fraction.
        decimals: u8,
    },
    /// TIMESTAMP.
    Timestamp {
        /// Digits of the fraction.
        decimals: u8,
    },
    /// TIME in the form before MySQL 5.6.4.
    OldTime,
    /// DATETIME in the form before MySQL 5.6.4.
    OldDateTime,
    /// TIMESTAMP in the form before MySQL 5.6.4.
    OldTimestamp,
    /// BIT.
    Bit {
        /// Bytes of a value.
        bytes: u8,
    },
    /// ENUM.
    Enum {
        /// Bytes of an index.
        bytes: u8,
    },
    /// SET.
    Set {
        /// Bytes of the bits.
        bytes: u8,
    },
    /// CHAR or BINARY.
    Char {
        /// The longest value.
        bytes: u16,
    },
    /// VARCHAR or VARBINARY.
    VarChar {
        /// The longest value.
        bytes: u16,
    },
    /// BLOB or TEXT of any size.
    Blob {
        /// Bytes of a value's length.
        length_bytes: u8,
    },
    /// MariaDB's VARCHAR COMPRESSED and VARBINARY COMPRESSED.
    PackedVarChar {
        /// The longest value, packed.
        bytes: u16,
    },
    /// MariaDB's BLOB COMPRESSED and TEXT COMPRESSED.
    PackedBlob {
        /// Bytes of a packed value's length.
        length_bytes: u8,
    },
    /// GEOMETRY and its kin.
    Geometry {
        /// Bytes of a value's length.
        length_bytes: u8,
    },
    /// MySQL's JSON.
    Json {
        /// Bytes of a value's length.
        length_bytes: u8,
    },
    /// MySQL's VECTOR.
    Vector {
        /// Bytes of a value's length.
        length_bytes: u8,
    },
}

impl Kind {
    pub(super) fn parse(code: u8, metadata: &mut Cursor<'_>) -> Result<Kind, Error> {
        Ok(match code {
            1 => Kind::Int { bytes: 1 },
            2 => Kind::Int { bytes: 2 },
            3 => Kind::Int { bytes: 4 },
            8 => Kind::Int { bytes: 8 },
            9 => Kind::Int { bytes: 3 },
            4 => sized(Kind::Float, 4, metadata)?,
            5 => sized(Kind::Double, 8, metadata)?,
            246 => Kind::Decimal(decimal::Form::new(metadata.u8()?, metadata.u8()?)?),
            7 => Kind::OldTimestamp,
            10 | 14 => Kind::Date,
            11 => Kind::OldTime,
            12 => Kind::OldDateTime,
            13 => Kind::Year,
            15 | 253 => Kind::VarChar {
                bytes: metadata.u16()?,
            },
            16 => {
                let [bits, bytes] = metadata.array()?;
                match (bits, bytes) {
                    (0, 1..=8) | (1..=7, 0..=7) => Kind::Bit {
                        bytes: bytes + u8::from(bits > 0),
                    },
                    _ => return Err(metadata.error("a BIT column is too wide")),
                }
            }
            17 => Kind::Timestamp {
                decimals: decimals(metadata)?,
            },
            18 => Kind::DateTime {
                decimals: decimals(metadata)?,
            },
            19 => Kind::Time {
                decimals: decimals(metadata)?,
            },
            140 => Kind::PackedBlob {
                length_bytes: length_bytes(metadata)?,
            },
            141 => Kind::PackedVarChar {
                bytes: metadata.u16()?,
            },
            242 => Kind::Vector {
                length_bytes: length_bytes(metadata)?,
            },
            245 => Kind::Json {
                length_bytes: length_bytes(metadata)?,
            },
            252 => Kind::Blob {
                length_bytes: length_bytes(metadata)?,
            },
            255 => Kind::Geometry {
                length_bytes: length_bytes(metadata)?,
            },
            247 | 248 | 254 => string(metadata)?,
            other => {
                return Err(Error::Unsupported(format!(
                    "binary log: a column of type {other}"
                )));
            }
        })
    }

    /// Takes a value off the front: its bytes, without its length.
    pub(crate) fn take<'a>(&self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], Error> {
        let fraction = |decimals: u8| usize::from(decimals.div_ceil(2));
        let length = match *self {
            Kind::Int { bytes }
            | Kind::Bit { bytes }
            | Kind::Enum { bytes }
            | Kind::Set { bytes } => bytes.into(),
            Kind::Float | Kind::OldTimestamp => 4,
            Kind::Double | Kind::OldDateTime => 8,
            Kind::Decimal(form) => form.bytes(),
            Kind::Year => 1,
            Kind::Date | Kind::OldTime => 3,
            Kind::Time { decimals } => 3 + fraction(decimals),
            Kind::DateTime { decimals } => 5 + fraction(decimals),
            Kind::Timestamp { decimals } => 4 + fraction(decimals),
            Kind::Char { bytes } | Kind::VarChar { bytes } | Kind::PackedVarChar { bytes } => {
                prefixed(cursor, if bytes > 255 { 2 } else { 1 })?
            }
            Kind::Blob { length_bytes }
            | Kind::PackedBlob { length_bytes }
            | Kind::Geometry { length_bytes }
            | Kind::Json { length_bytes }
            | Kind::Vector { length_bytes } => prefixed(cursor, length_bytes)?,
        };
        cursor.bytes(length)
    }

    /// Whether the metadata has a sign for it. YEAR, too, is a number.
    pub(super) fn has_sign(&self) -> bool {
        matches!(
            self,
            Kind::Int { .. } | Kind::Float | Kind::Double | Kind::Decimal(_) | Kind::Year
        )
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(
            self,
            Kind::Char { .. }
                | Kind::VarChar { .. }
                | Kind::Blob { .. }
                | Kind::PackedVarChar { .. }
                | Kind::PackedBlob { .. }
        )
    }

    pub(super) fn has_members(&self) -> bool {
        matches!(self, Kind::Enum { .. } | Kind::Set { .. })
    }
}

/// A length of so many bytes before a value.
fn prefixed(cursor: &mut Cursor<'_>, bytes: u8) -> Result<usize, Error> {
    let length = cursor.bytes(bytes.into())?.iter().rev();
    Ok(length.fold(0, |length, byte| length << 8 | usize::from(*byte)))
}

fn sized(kind: Kind, expected: u8, metadata: &mut Cursor<'_>) -> Result<Kind, Error> {
    match metadata.u8()? {
        size if size == expected => Ok(kind),
        _ => Err(metadata.error("a floating point column has another size")),
    }
}

fn decimals(metadata: &mut Cursor<'_>) -> Result<u8, Error> {
    match metadata.u8()? {
        decimals @ 0..=6 => Ok(decimals),
        _ => Err(metadata.error("a time has more than six digits of a second")),
    }
}

fn length_bytes(metadata: &mut Cursor<'_>) -> Result<u8, Error> {
    match metadata.u8()? {
        bytes @ 1..=4 => Ok(bytes),
        _ => Err(metadata.error("a length has neither of one to four bytes")),
    }
}

/// CHAR, ENUM and SET, which share a type. Of a length above 255 two bits are put, turned, into
/// the type's byte.
fn string(metadata: &mut Cursor<'_>) -> Result<Kind, Error> {
    let [code, length] = metadata.array()?;
    if code & 0x30 != 0x30 {
        return Ok(Kind::Char {
            bytes: u16::from(length) | u16::from((code & 0x30) ^ 0x30) << 4,
        });
    }
    match (code, length) {
        (247, 1 | 2) => Ok(Kind::Enum { bytes: length }),
        (248, 1 | 2 | 3 | 4 | 8) => Ok(Kind::Set { bytes: length }),
        (254, bytes) => Ok(Kind::Char {
            bytes: bytes.into(),
        }),
        _ => Err(metadata.error("a text column is of no known type")),
    }
}
