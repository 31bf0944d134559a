//! Proving that this side knows the password.
//!
//! The login asks for a plugin's proof and, for `caching_sha2_password`, goes through its second
//! stage. Invariant: the password itself leaves this machine only encrypted with the server's
//! RSA key, and no error text or `Debug` holds it or what was computed from it.
//!
//! `sha1`, `sha2` and `rsa` are used rather than `mysql_common`'s functions: without its zlib
//! features that crate does not build, and its RSA functions panic on a malformed key, which a
//! server could send.

use rsa::pkcs8::DecodePublicKey;
use rsa::{Oaep, RsaPublicKey};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::Error;
use crate::handshake::Challenge;

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING_SHA2: &str = "caching_sha2_password";

/// An authentication plugin that this client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Native,
    CachingSha2,
}

impl Plugin {
    /// The plugin of this name, if it is spoken here.
    pub(crate) fn find(name: &str) -> Option<Plugin> {
        match name {
            NATIVE => Some(Plugin::Native),
            CACHING_SHA2 => Some(Plugin::CachingSha2),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Plugin::Native => NATIVE,
            Plugin::CachingSha2 => CACHING_SHA2,
        }
    }

    /// What answers the challenge. An empty password is proved by nothing.
    pub(crate) fn proof(self, password: &str, challenge: &Challenge) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        match self {
            Plugin::Native => native_proof(password.as_bytes(), challenge).to_vec(),
            Plugin::CachingSha2 => sha2_proof(password.as_bytes(), challenge).to_vec(),
        }
    }
}

/// The error for a plugin that is not spoken here.
pub(crate) fn unsupported(name: &[u8]) -> Error {
    // The name is the server's, so it is kept short and printable.
    let name: String = String::from_utf8_lossy(name)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(64)
        .collect();
    Error::Unsupported(format!(
        "the account's authentication plugin {name:?}; give the account {CACHING_SHA2} or {NATIVE}"
    ))
}

/// SHA1(password) XOR SHA1(challenge, SHA1(SHA1(password)))
fn native_proof(password: &[u8], challenge: &Challenge) -> [u8; 20] {
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new()
        .chain_update(challenge)
        .chain_update(twice)
        .finalize();
    let mut proof: [u8; 20] = once.into();
    proof.iter_mut().zip(mask).for_each(|(p, m)| *p ^= m);
    proof
}

/// SHA256(password) XOR SHA256(SHA256(SHA256(password)), challenge)
fn sha2_proof(password: &[u8], challenge: &Challenge) -> [u8; 32] {
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new()
        .chain_update(twice)
        .chain_update(challenge)
        .finalize();
    let mut proof: [u8; 32] = once.into();
    proof.iter_mut().zip(mask).for_each(|(p, m)| *p ^= m);
    proof
}

/// The password, closed by a zero byte and XORed with the challenge, encrypted with the key that
/// the server sent in PEM form.
pub(crate) fn encrypted(
    password: &str,
    challenge: &Challenge,
    pem: &[u8],
) -> Result<Vec<u8>, Error> {
    let failed = |what: &str| Error::Auth(format!("the server's RSA public key {what}"));
    let pem = std::str::from_utf8(pem).map_err(|_| failed("is not in PEM form"))?;
    let key = RsaPublicKey::from_public_key_pem(pem.trim_end_matches('\0').trim())
        .map_err(|error| failed(&format!("cannot be read: {error}")))?;
    let masked: Vec<u8> = password
        .bytes()
        .chain([0])
        .zip(challenge.iter().cycle())
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    key.encrypt(&mut rsa::rand_core::OsRng, Oaep::new::<Sha1>(), &masked)
        .map_err(|error| failed(&format!("cannot encrypt the password: {error}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use rsa::RsaPrivateKey;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};
    use std::sync::OnceLock;

    pub(crate) const CHALLENGE: &Challenge = b"abcdefghijklmnopqrst";

    /// A key pair as a server makes it, the public half in PEM form.
    pub(crate) fn server_key() -> &'static (RsaPrivateKey, String) {
        static KEY: OnceLock<(RsaPrivateKey, String)> = OnceLock::new();
        KEY.get_or_init(|| {
            let private = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 1024).unwrap();
            let public = private
                .to_public_key()
                .to_public_key_pem(LineEnding::LF)
                .unwrap();
            (private, public)
        })
    }

    /// The password back from what `encrypted` gave, as the server does it.
    pub(crate) fn decrypted(bytes: &[u8]) -> Vec<u8> {
        let masked = server_key().0.decrypt(Oaep::new::<Sha1>(), bytes).unwrap();
        masked
            .iter()
            .zip(CHALLENGE.iter().cycle())
            .map(|(b, m)| b ^ m)
            .collect()
    }

    /// What the server holds for a native password proves the answer: SHA1 of what comes out
    /// of unmasking must be the stored double hash.
    #[test]
    fn proofs_pass_the_servers_check() {
        let stored = Sha1::digest(Sha1::digest(b"pass word"));
        let mask = Sha1::new()
            .chain_update(CHALLENGE)
            .chain_update(stored)
            .finalize();
        let proof = Plugin::Native.proof("pass word", CHALLENGE);
        let once: Vec<u8> = proof.iter().zip(mask).map(|(p, m)| p ^ m).collect();
        assert_eq!(Sha1::digest(once), stored);

        let stored = Sha256::digest(Sha256::digest(b"pass word"));
        let mask = Sha256::new()
            .chain_update(stored)
            .chain_update(CHALLENGE)
            .finalize();
        let proof = Plugin::CachingSha2.proof("pass word", CHALLENGE);
        let once: Vec<u8> = proof.iter().zip(mask).map(|(p, m)| p ^ m).collect();
        assert_eq!(Sha256::digest(once), stored);

        assert_eq!(Plugin::CachingSha2.proof("", CHALLENGE), b"");
    }

    #[test]
    fn encryption_is_what_the_server_decrypts() {
        let long = "a passphrase longer than the challenge is";
        for password in ["x", long] {
            let bytes = encrypted(password, CHALLENGE, server_key().1.as_bytes()).unwrap();
            assert_eq!(decrypted(&bytes), [password.as_bytes(), b"\0"].concat());
        }
    }

    #[test]
    fn a_key_too_small_for_the_password_is_an_error() {
        let password = "p".repeat(200);
        let error = encrypted(&password, CHALLENGE, server_key().1.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Auth(_)));
        assert!(!error.to_string().contains("ppp"), "{error}");
    }

    #[test]
    fn an_unknown_plugin_is_named() {
        let text = unsupported(b"dialog\x1b[31m").to_string();
        assert!(
            text.contains("dialog?[31m") && text.contains(CACHING_SHA2),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn damaged_keys_are_answered(at in any::<prop::sample::Index>(), byte in 32u8..127,
                                     cut in any::<prop::sample::Index>()) {
            let mut pem = server_key().1.clone().into_bytes();
            let at = at.index(pem.len());
            pem[at] = byte;
            let _ = encrypted("password", CHALLENGE, &pem);
            pem.truncate(cut.index(pem.len()));
            let _ = encrypted("password", CHALLENGE, &pem);
        }
    }
}
