//! Reading one packet's fields, each read checked against the end of the packet.
//!
//! Handshake, replies and rows are parsed with it. Invariant: no input makes it panic or read
//! past the packet; a short packet is [`Error::Protocol`] naming the packet.

use crate::Error;

/// A position in the bytes of one packet.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    packet: &'static str,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte. `packet` is the packet's name for errors.
    pub(crate) fn new(bytes: &'a [u8], packet: &'static str) -> Cursor<'a> {
        Cursor {
            rest: bytes,
            packet,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// An error about this packet.
    pub(crate) fn error(&self, what: &str) -> Error {
        Error::Protocol(format!("{} packet: {what}", self.packet))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.error("it ends early"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error("it ends early"));
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// The bytes up to a zero byte, which is consumed too.
    pub(crate) fn until_zero(&mut self) -> Result<&'a [u8], Error> {
        let Some(length) = self.rest.iter().position(|b| *b == 0) else {
            return Err(self.error("a text in it does not end"));
        };
        let text = self.bytes(length)?;
        self.bytes(1)?;
        Ok(text)
    }

    /// A length-encoded integer.
    pub(crate) fn integer(&mut self) -> Result<u64, Error> {
        let first = self.u8()?;
        self.integer_after(first)
    }

    fn integer_after(&mut self, first: u8) -> Result<u64, Error> {
        match first {
            0xfb | 0xff => Err(self.error("a length in it is no number")),
            0xfc => Ok(self.u16()?.into()),
            0xfd => {
                let [a, b, c] = self.array()?;
                Ok(u32::from_le_bytes([a, b, c, 0]).into())
            }
            0xfe => self.u64(),
            small => Ok(small.into()),
        }
    }

    /// A length-encoded text, or `None` for the NULL marker of text rows.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Error> {
        let first = self.u8()?;
        if first == 0xfb {
            return Ok(None);
        }
        let length = self.integer_after(first)?;
        match usize::try_from(length) {
            Ok(length) => self.bytes(length).map(Some),
            Err(_) => Err(self.error("it ends early")),
        }
    }

    /// A length-encoded text.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Error> {
        self.value()?
            .ok_or_else(|| self.error("a text in it is NULL"))
    }
}

/// Appends a length-encoded integer.
pub(crate) fn put_integer(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0xfa => out.push(value as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&(value as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_read_back(value in prop_oneof![0u64..300, 0u64..0x2_0000, any::<u64>()]) {
            let mut bytes = Vec::new();
            put_integer(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes, "test");
            prop_assert_eq!(cursor.integer().unwrap(), value);
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let start = Cursor::new(&bytes, "test");
            let _ = start.clone().integer();
            let _ = start.clone().value();
            let _ = start.clone().until_zero();
            let _ = start.clone().u64();
        }
    }

    #[test]
    fn a_length_past_the_end_is_an_error() {
        for bytes in [
            &[5u8, 1, 2][..],
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xfc\x01",
            b"",
        ] {
            let error = Cursor::new(bytes, "test").text().unwrap_err();
            assert!(matches!(error, Error::Protocol(_)), "{error}");
        }
    }
}
