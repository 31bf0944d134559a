//! Under which id do Percona's tools know this fingerprint?
//!
//! The id is the last 8 bytes of the MD5 of the fingerprint text, written as 16 upper-case
//! hexadecimal digits; `pt-query-digest` and Percona Monitoring and Management show it. Kept as a
//! number here, so that it is `Copy` and 8 bytes wide.

use md5::{Digest, Md5};
use std::fmt;
use std::str::FromStr;

/// A query id in Percona's form; displayed as 16 upper-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DigestId(pub u64);

impl fmt::Display for DigestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

/// The text is not 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDigestIdError {
    text: String,
}

impl fmt::Display for ParseDigestIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no query id: expected 16 hexadecimal digits",
            self.text
        )
    }
}

impl std::error::Error for ParseDigestIdError {}

impl FromStr for DigestId {
    type Err = ParseDigestIdError;

    /// Reads 16 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDigestIdError {
            text: text.chars().take(40).collect(),
        };
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(error());
        }
        u64::from_str_radix(text, 16)
            .map(DigestId)
            .map_err(|_| error())
    }
}

/// The id of a fingerprint as Percona's tools compute it.
///
/// Costs an MD5, about 150 ns for a short text: take it once for each new
/// [`hash64`](crate::hash64), not for each statement.
#[must_use]
pub fn digest_id(fingerprint: &[u8]) -> DigestId {
    let sum: [u8; 16] = Md5::digest(fingerprint).into();
    let mut last = [0; 8];
    last.copy_from_slice(&sum[8..]);
    DigestId(u64::from_be_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::{DigestId, digest_id};

    #[test]
    fn ids_are_the_end_of_the_md5() {
        // MD5("") is d41d8cd98f00b204e9800998ecf8427e.
        assert_eq!(digest_id(b"").to_string(), "E9800998ECF8427E");
        assert_eq!(digest_id(b"hello world").to_string(), "93CB22BB8F5ACDC3");
    }

    #[test]
    fn ids_are_read_as_written() {
        let id = DigestId(0x00ab_0000_0000_0001);
        assert_eq!(id.to_string(), "00AB000000000001");
        assert_eq!("00ab000000000001".parse(), Ok(id));
        for wrong in [
            "",
            "00AB",
            "00AB0000000000010",
            "+0AB000000000001",
            "00AB00000000000g",
        ] {
            let error = wrong.parse::<DigestId>().expect_err(wrong);
            assert!(error.to_string().contains("16 hexadecimal digits"));
        }
    }
}
