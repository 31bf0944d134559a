//! What the log says of a table before its rows: types, and with full metadata much more.
//!
//! A table map stands before the rows of each statement and is read once for them. Neighbours:
//! [`rows`](crate::binlog::rows) walks by it, [`value`](crate::binlog::value) reads by it.
//! Invariant: every column's type is known, so that values after it are found; what the log may
//! leave out (signs, names, collations) is an `Option` that a caller can fill from the schema.

use crate::Error;
use crate::binlog::decimal;
use crate::cursor::Cursor;

/// The collation of binary data.
const COLLATION_BINARY: u32 = 63;

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
    fn parse(code: u8, metadata: &mut Cursor<'_>) -> Result<Kind, Error> {
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
    fn has_sign(&self) -> bool {
        matches!(
            self,
            Kind::Int { .. } | Kind::Float | Kind::Double | Kind::Decimal(_) | Kind::Year
        )
    }

    fn is_text(&self) -> bool {
        matches!(
            self,
            Kind::Char { .. }
                | Kind::VarChar { .. }
                | Kind::Blob { .. }
                | Kind::PackedVarChar { .. }
                | Kind::PackedBlob { .. }
        )
    }

    fn has_members(&self) -> bool {
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

/// What the bytes of a [`Kind::Char`] stand for. The log never says; the schema does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Meaning {
    /// Themselves.
    #[default]
    Itself,
    /// MariaDB's UUID.
    Uuid,
    /// MariaDB's INET4.
    Inet4,
    /// MariaDB's INET6.
    Inet6,
}

/// One column. What the log leaves out is `None` until somebody fills it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its type.
    pub kind: Kind,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether a number is UNSIGNED. Without it numbers are read as signed.
    pub is_unsigned: Option<bool>,
    /// The number of its collation. Without it, a BINARY is not filled up with zeros.
    pub collation: Option<u32>,
    /// Its name.
    pub name: Option<Vec<u8>>,
    /// The members of an ENUM or SET, in its character set.
    pub members: Option<Vec<Vec<u8>>>,
    /// Whether `SELECT *` shows it.
    pub is_visible: Option<bool>,
    /// What its bytes stand for, as far as the caller knows and sets it.
    pub meaning: Meaning,
}

impl Column {
    fn new(kind: Kind) -> Column {
        Column {
            kind,
            is_nullable: false,
            is_unsigned: None,
            collation: None,
            name: None,
            members: None,
            is_visible: None,
            meaning: Meaning::Itself,
        }
    }

    /// Whether it is known to hold binary data.
    pub fn is_binary(&self) -> bool {
        self.collation == Some(COLLATION_BINARY)
    }
}

/// A table as rows in the log need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// The number that rows name it by, until the transaction's end.
    pub id: u64,
    /// Its database.
    pub schema: Vec<u8>,
    /// Its name.
    pub name: Vec<u8>,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The columns of its primary key with their prefixes (0: whole), where the log names them.
    pub primary_key: Option<Vec<(u32, u32)>>,
}

impl TableMap {
    /// The number of a table map's table: what it takes to pass over those of no interest.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the event ends early.
    pub fn id(body: &[u8]) -> Result<u64, Error> {
        id(&mut Cursor::new(body, "table map event"))
    }

    /// A table map's number, schema and name: what it takes to know whether it is of interest.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the event ends early.
    pub fn name(body: &[u8]) -> Result<(u64, &[u8], &[u8]), Error> {
        let mut cursor = Cursor::new(body, "table map event");
        let id = id(&mut cursor)?;
        cursor.u16()?; // flags
        let mut name = || {
            let length = cursor.u8()?;
            let name = cursor.bytes(length.into())?;
            match cursor.u8()? {
                0 => Ok(name),
                _ => Err(cursor.error("a name in it does not end")),
            }
        };
        Ok((id, name()?, name()?))
    }

    /// Reads the body of a table map.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is not one, [`Error::Unsupported`] when a column's type is
    /// not known.
    pub fn parse(body: &[u8]) -> Result<TableMap, Error> {
        let (id, schema, name) = TableMap::name(body)?;
        let (schema, name) = (schema.to_vec(), name.to_vec());
        let mut cursor = Cursor::new(body, "table map event");
        cursor.bytes(6 + 2 + 1 + schema.len() + 1 + 1 + name.len() + 1)?;
        let count = cursor.integer()?;
        // A length that cannot be is seen here, before anything is allocated.
        let codes = cursor.bytes(usize::try_from(count).unwrap_or(usize::MAX))?;
        let mut metadata = Cursor::new(cursor.text()?, "table map event's metadata");
        let mut columns = Vec::with_capacity(codes.len());
        for code in codes {
            columns.push(Column::new(Kind::parse(*code, &mut metadata)?));
        }
        if !metadata.is_empty() {
            return Err(metadata.error("it is longer than its columns need"));
        }
        let nullable = cursor.bytes(columns.len().div_ceil(8))?;
        for (i, column) in columns.iter_mut().enumerate() {
            column.is_nullable = nullable[i / 8] >> (i % 8) & 1 == 1;
        }
        let mut table = TableMap {
            id,
            schema,
            name,
            columns,
            primary_key: None,
        };
        while !cursor.is_empty() {
            let kind = cursor.u8()?;
            let field = Cursor::new(cursor.text()?, "table map event's optional metadata");
            table.take_optional(kind, field)?;
        }
        Ok(table)
    }

    fn take_optional(&mut self, kind: u8, mut field: Cursor<'_>) -> Result<(), Error> {
        let columns = &mut self.columns;
        match kind {
            1 => {
                let numbers = columns.iter_mut();
                let numbers = numbers.filter(|column| column.kind.has_sign());
                for (column, bit) in numbers.zip(Bits::new(field.rest())) {
                    column.is_unsigned = Some(bit);
                }
                Ok(())
            }
            2 => default_collations(columns, &mut field, Kind::is_text),
            3 => collations(columns, &mut field, Kind::is_text),
            4 => {
                for column in columns {
                    column.name = Some(field.text()?.to_vec());
                }
                Ok(())
            }
            5 => members(columns, &mut field, |kind| matches!(kind, Kind::Set { .. })),
            6 => members(columns, &mut field, |kind| {
                matches!(kind, Kind::Enum { .. })
            }),
            8 | 9 => {
                let mut key = Vec::new();
                while !field.is_empty() {
                    let column = number(&mut field)?;
                    let prefix = if kind == 9 { number(&mut field)? } else { 0 };
                    if column as usize >= columns.len() {
                        return Err(field.error("its primary key has a column that is none"));
                    }
                    key.push((column, prefix));
                }
                self.primary_key = Some(key);
                Ok(())
            }
            10 => default_collations(columns, &mut field, Kind::has_members),
            11 => collations(columns, &mut field, Kind::has_members),
            12 => {
                for (column, bit) in columns.iter_mut().zip(Bits::new(field.rest())) {
                    column.is_visible = Some(bit);
                }
                Ok(())
            }
            // The kinds of geometries and what is yet to come change no value's reading.
            _ => Ok(()),
        }
    }
}

/// A number of six bytes.
pub(crate) fn id(cursor: &mut Cursor<'_>) -> Result<u64, Error> {
    let [a, b, c, d, e, f] = cursor.array()?;
    Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

fn number(field: &mut Cursor<'_>) -> Result<u32, Error> {
    let number = field.integer()?;
    u32::try_from(number).map_err(|_| field.error("a number in it is too large"))
}

/// Bits, the highest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0 }
    }
}

impl Iterator for Bits<'_> {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }
}

/// One for all columns of a type, then pairs for those that have another.
fn default_collations(
    columns: &mut [Column],
    field: &mut Cursor<'_>,
    is_of_type: impl Fn(&Kind) -> bool,
) -> Result<(), Error> {
    let default = number(field)?;
    let mut others = columns.iter_mut().filter(|column| is_of_type(&column.kind));
    let mut next = 0;
    while !field.is_empty() {
        let (at, collation) = (number(field)? as usize, number(field)?);
        // They come in order; those between have the default.
        while next < at {
            match others.next() {
                Some(column) => column.collation = Some(default),
                None => return Err(field.error("a collation in it is for no column")),
            }
            next += 1;
        }
        match others.next() {
            Some(column) if next == at => column.collation = Some(collation),
            _ => return Err(field.error("a collation in it is for no column")),
        }
        next += 1;
    }
    for column in others {
        column.collation = Some(default);
    }
    Ok(())
}

fn collations(
    columns: &mut [Column],
    field: &mut Cursor<'_>,
    is_of_type: impl Fn(&Kind) -> bool,
) -> Result<(), Error> {
    for column in columns.iter_mut().filter(|column| is_of_type(&column.kind)) {
        column.collation = Some(number(field)?);
    }
    Ok(())
}

fn members(
    columns: &mut [Column],
    field: &mut Cursor<'_>,
    is_of_type: impl Fn(&Kind) -> bool,
) -> Result<(), Error> {
    for column in columns.iter_mut().filter(|column| is_of_type(&column.kind)) {
        let mut members = Vec::new();
        for _ in 0..field.integer()? {
            members.push(field.text()?.to_vec());
        }
        column.members = Some(members);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
