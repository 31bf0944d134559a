//! The bearer token of those who may scrape.
//!
//! Invariant: how long a comparison takes tells nothing of the token but its length, and nothing
//! prints it.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use subtle::ConstantTimeEq;

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 16;
const BYTES_MAX: usize = 4096;
const SCHEME: &[u8] = b"bearer ";

/// What a scraper has to know.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Token {
    /// The first line of a file, which nobody may read but its owner and group.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or there is no token in it.
    pub fn read(path: &Path) -> io::Result<Token> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::other("it is no ordinary file"));
        }
        if facts.permissions().mode() & 0o007 != 0 {
            return Err(io::Error::other(
                "everybody may read or write it: chmod 600",
            ));
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Token::of(&bytes).ok_or_else(|| {
            io::Error::other(format!(
                "a token is one line of {BYTES_MIN} to {BYTES_MAX} printable characters without \
                 spaces, such as `openssl rand -hex 32` gives"
            ))
        })
    }

    fn of(bytes: &[u8]) -> Option<Token> {
        let token = bytes.trim_ascii_end();
        let fits = (BYTES_MIN..=BYTES_MAX).contains(&token.len())
            && token.iter().all(u8::is_ascii_graphic);
        fits.then(|| Token(token.to_vec()))
    }

    /// Whether an `Authorization` header has it.
    pub(super) fn is_brought_by(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked(SCHEME.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(SCHEME) && bool::from(given.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::of(format!("{TEXT}\n").as_bytes()).unwrap();
        assert!(token.is_brought_by(format!("Bearer {TEXT}").as_bytes()));
        assert!(token.is_brought_by(format!("bearer {TEXT}").as_bytes()));
        for wrong in [
            "",
            "Bearer ",
            "Bearer 0",
            &format!("Bearer {}", &TEXT[1..]),
            &format!("Bearer {TEXT}0"),
            &format!("Bearer  {TEXT}"),
            &format!("Basic  {TEXT}"),
            TEXT,
        ] {
            assert!(!token.is_brought_by(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "***");
    }

    #[test]
    fn a_file_has_a_token_that_only_its_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        assert!(Token::read(&path).is_err());
        assert!(write(TEXT, 0o600).is_ok());
        assert!(write(TEXT, 0o640).is_ok());
        let error = write(TEXT, 0o644).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        for text in [
            "",
            "\n",
            "short",
            "two words that are long enough",
            "\u{7f}0123456789abcdef",
        ] {
            let error = write(text, 0o600).unwrap_err();
            assert!(error.to_string().contains("openssl"), "{error}");
        }
        assert!(Token::read(directory.path()).is_err());
    }
}
