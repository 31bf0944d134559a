//! A value as `SELECT` gives it.
//!
//! Neighbours: the parent's other two texts are made of this one; the modules for decimals, times
//! and JSON know their forms. Invariant: what a type cannot hold is an error, never another value.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{ColumnValue, Data};
use crate::Error;
use crate::binlog::number::{float, integer, signed, unsigned};
use crate::binlog::table_map::{Kind, Meaning};
use crate::binlog::{json, mariadb, temporal};

/// No BINARY has more zeros left out.
const MISSING_MAX: usize = 1024;

impl ColumnValue<'_> {
    /// Appends it as `SELECT` gives it, but for FLOAT and DOUBLE, which have as many digits as it
    /// takes to tell them from others. NULL appends nothing.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the log holds no value of its type, [`Error::Unsupported`] when
    /// it holds changes in place of a JSON value; `out` may then have a part of it.
    pub fn text(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.data {
            Data::Null => {}
            Data::Int(number) => integer(out, number.unsigned_abs(), number < 0),
            Data::UInt(number) => integer(out, number, false),
            Data::Float(number) => float(out, number.into())?,
            Data::Double(number) => float(out, number)?,
            Data::Packed(bytes) => self.packed(bytes, out)?,
            Data::Bytes(bytes, missing) => {
                out.extend_from_slice(bytes);
                let missing = missing.min(MISSING_MAX);
                out.resize(out.len() + missing, 0);
            }
            Data::Compressed(bytes) => mariadb::unpack_value(bytes, out)?,
            Data::Named(bytes) => named(self.column.meaning, bytes, out)?,
            Data::Json(bytes) => json::put(bytes, out)?,
            Data::JsonChanges(_) => {
                return Err(Error::Unsupported(
                    "a JSON value that the log holds only the changes of".to_owned(),
                ));
            }
            Data::Enum(index) => self.name(index, out)?,
            Data::Set(members) => self.names(members, out)?,
        }
        Ok(())
    }

    fn packed(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match self.column.kind {
            Kind::Decimal(form) => form.put(bytes, out)?,
            Kind::Year => temporal::put_year(unsigned(bytes) as u8, out),
            Kind::Date => temporal::put_date(unsigned(bytes) as u32, out),
            Kind::Time { decimals } => temporal::put_time(bytes, decimals, out)?,
            Kind::DateTime { decimals } => temporal::put_datetime(bytes, decimals, out)?,
            Kind::Timestamp { decimals } => temporal::put_timestamp(bytes, decimals, out)?,
            Kind::OldTime => temporal::put_old_time(signed(bytes) as i32, out),
            Kind::OldDateTime => temporal::put_old_datetime(unsigned(bytes), out),
            Kind::OldTimestamp => {
                let seconds = (unsigned(bytes) as u32).to_be_bytes();
                temporal::put_timestamp(&seconds, 0, out)?;
            }
            _ => return Err(Error::protocol("binary log: a value of another type")),
        }
        Ok(())
    }

    /// An ENUM's member; 0 is what a bad value became, and empty.
    fn name(&self, index: u16, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(names) = &self.column.members else {
            integer(out, index.into(), false);
            return Ok(());
        };
        if let Some(at) = usize::from(index).checked_sub(1) {
            let name = names.get(at).ok_or_else(|| {
                Error::protocol(format!("binary log: an ENUM has no member {index}"))
            })?;
            out.extend_from_slice(name);
        }
        Ok(())
    }

    fn names(&self, members: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(names) = &self.column.members else {
            integer(out, members, false);
            return Ok(());
        };
        let mut left = members;
        let mut is_first = true;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let name = names
                .get(at as usize)
                .ok_or_else(|| Error::protocol(format!("binary log: a SET has no member {at}")))?;
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            out.extend_from_slice(name);
        }
        Ok(())
    }
}

/// Appends a UUID or an address.
fn named(meaning: Meaning, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let width = if meaning == Meaning::Inet4 { 4 } else { 16 };
    if bytes.len() > width {
        return Err(Error::protocol(format!(
            "binary log: a value of {} bytes is no {meaning:?}",
            bytes.len()
        )));
    }
    let mut whole = [0; 16];
    whole[..bytes.len()].copy_from_slice(bytes);
    // Writing to a Vec cannot fail.
    let _ = match meaning {
        Meaning::Inet4 => {
            let [a, b, c, d, ..] = whole;
            write!(out, "{}", Ipv4Addr::new(a, b, c, d))
        }
        Meaning::Inet6 => write!(out, "{}", Ipv6Addr::from(whole)),
        Meaning::Uuid => whole.iter().enumerate().try_for_each(|(i, byte)| {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(out, "{dash}{byte:02x}")
        }),
        Meaning::Itself => out.write_all(bytes),
    };
    Ok(())
}
