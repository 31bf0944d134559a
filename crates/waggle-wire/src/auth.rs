//! Proving that this side knows the password.
//!
//! The login asks for a plugin's proof and, for `caching_sha2_password`, goes through its second
//! stage. Invariant: the password itself leaves this machine only over TLS or encrypted with an RSA
//! key that the user named or chose to trust, and no error text or `Debug` holds it or what was
//! computed from it.
//!
//! `sha1`, `sha2` and `rsa` are used rather than `mysql_common`'s functions: without its zlib
//! features that crate does not build, and its RSA functions panic on a malformed key, which a
//! server could send.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use rsa::pkcs8::DecodePublicKey;
use rsa::{Oaep, RsaPublicKey};
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};

use crate::Error;
use crate::handshake::Challenge;

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING_SHA2: &str = "caching_sha2_password";
pub(crate) const ED25519: &str = "client_ed25519";

/// No file with a key is longer.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// An authentication plugin that this client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Native,
    CachingSha2,
    Ed25519,
}

impl Plugin {
    /// The plugin of this name, if it is spoken here.
    pub(crate) fn find(name: &str) -> Option<Plugin> {
        match name {
            NATIVE => Some(Plugin::Native),
            CACHING_SHA2 => Some(Plugin::CachingSha2),
            ED25519 => Some(Plugin::Ed25519),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Plugin::Native => NATIVE,
            Plugin::CachingSha2 => CACHING_SHA2,
            Plugin::Ed25519 => ED25519,
        }
    }

    /// What answers the challenge, of which surplus bytes are ignored. An empty password is
    /// proved by nothing.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the challenge is too short for the plugin.
    pub(crate) fn proof(self, password: &str, challenge: &[u8]) -> Result<Vec<u8>, Error> {
        let password = password.as_bytes();
        Ok(match self {
            Plugin::Native | Plugin::CachingSha2 if password.is_empty() => {
                begin(challenge).map(|_: &Challenge| Vec::new())?
            }
            Plugin::Native => native_proof(password, begin(challenge)?).to_vec(),
            Plugin::CachingSha2 => sha2_proof(password, begin(challenge)?).to_vec(),
            Plugin::Ed25519 => ed25519_proof(password, begin(challenge)?).to_vec(),
        })
    }
}

/// The challenge of the length that a plugin has.
pub(crate) fn begin<const N: usize>(challenge: &[u8]) -> Result<&[u8; N], Error> {
    challenge.first_chunk().ok_or_else(|| {
        Error::protocol(format!(
            "the server sent a challenge of {} bytes where {N} were due",
            challenge.len()
        ))
    })
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
        "the account's authentication plugin {name:?}; give the account {CACHING_SHA2}, {NATIVE} \
         or ed25519"
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

/// The challenge signed with Ed25519. MariaDB's variant takes SHA512(password) where RFC 8032 has
/// SHA512(32 random bytes).
fn ed25519_proof(password: &[u8], challenge: &[u8; 32]) -> [u8; 64] {
    let secret = ExpandedSecretKey::from_bytes(&Sha512::digest(password).into());
    let public = VerifyingKey::from(&secret);
    raw_sign::<Sha512>(&secret, challenge, &public).to_bytes()
}

/// The key of a file that the user named.
pub(crate) fn pinned_key(path: &Path) -> Result<RsaPublicKey, Error> {
    let failed = |why: &dyn std::fmt::Display| {
        Error::Auth(format!("server-public-key-path {}: {why}", path.display()))
    };
    let mut pem = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEY_BYTES_MAX).read_to_end(&mut pem))
        .map_err(|error| failed(&error))?;
    public_key(&pem).map_err(|why| failed(&why))
}

/// The key that a server gave.
pub(crate) fn given_key(pem: &[u8]) -> Result<RsaPublicKey, Error> {
    public_key(pem).map_err(|why| Error::Auth(format!("the server's RSA public key: {why}")))
}

/// An RSA public key in PEM form.
fn public_key(pem: &[u8]) -> Result<RsaPublicKey, String> {
    let pem = std::str::from_utf8(pem).map_err(|_| "it is not in PEM form".to_owned())?;
    RsaPublicKey::from_public_key_pem(pem.trim_end_matches('\0').trim())
        .map_err(|error| format!("no RSA public key in PEM form can be read in it: {error}"))
}

/// The password, closed by a zero byte and XORed with the challenge, encrypted with this key.
pub(crate) fn encrypted(
    password: &str,
    challenge: &Challenge,
    key: &RsaPublicKey,
) -> Result<Vec<u8>, Error> {
    let masked: Vec<u8> = password
        .bytes()
        .chain([0])
        .zip(challenge.iter().cycle())
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    key.encrypt(&mut rsa::rand_core::OsRng, Oaep::new::<Sha1>(), &masked)
        .map_err(|error| Error::Auth(format!("the RSA key cannot hide the password: {error}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ed25519_dalek::Signature;
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
        let proof = Plugin::Native.proof("pass word", CHALLENGE).unwrap();
        let once: Vec<u8> = proof.iter().zip(mask).map(|(p, m)| p ^ m).collect();
        assert_eq!(Sha1::digest(once), stored);

        let stored = Sha256::digest(Sha256::digest(b"pass word"));
        let mask = Sha256::new()
            .chain_update(stored)
            .chain_update(CHALLENGE)
            .finalize();
        let proof = Plugin::CachingSha2.proof("pass word", CHALLENGE).unwrap();
        let once: Vec<u8> = proof.iter().zip(mask).map(|(p, m)| p ^ m).collect();
        assert_eq!(Sha256::digest(once), stored);

        assert_eq!(Plugin::CachingSha2.proof("", CHALLENGE).unwrap(), b"");
        assert!(Plugin::Native.proof("", &CHALLENGE[1..]).is_err());
    }

    #[test]
    fn encryption_is_what_the_server_decrypts() {
        let long = "a passphrase longer than the challenge is";
        for password in ["x", long] {
            let key = given_key(server_key().1.as_bytes()).unwrap();
            let bytes = encrypted(password, CHALLENGE, &key).unwrap();
            assert_eq!(decrypted(&bytes), [password.as_bytes(), b"\0"].concat());
        }
    }

    #[test]
    fn a_key_too_small_for_the_password_is_an_error() {
        let password = "p".repeat(200);
        let key = given_key(server_key().1.as_bytes()).unwrap();
        let error = encrypted(&password, CHALLENGE, &key).unwrap_err();
        assert!(matches!(error, Error::Auth(_)));
        assert!(!error.to_string().contains("ppp"), "{error}");
    }

    /// What MariaDB stores for `PASSWORD('secret')` of an ed25519 account, by its documentation:
    /// `ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY`.
    const STORED: [u8; 32] = [
        0x64, 0x88, 0x14, 0x44, 0x45, 0x20, 0xe4, 0xf5, 0x60, 0x43, 0xa2, 0xec, 0x92, 0x15, 0xe6,
        0x3b, 0xe7, 0x99, 0x2d, 0x2d, 0x27, 0x0b, 0xc6, 0xde, 0xe8, 0x73, 0xe3, 0x61, 0x64, 0x78,
        0x60, 0x96,
    ];

    #[test]
    fn ed25519_answers_pass_the_servers_check() {
        let challenge = *b"a nonce of thirty-two bytes, no ";
        let proof = Plugin::Ed25519.proof("secret", &challenge).unwrap();
        let signature = Signature::from_slice(&proof).unwrap();
        let stored = VerifyingKey::from_bytes(&STORED).unwrap();
        stored.verify_strict(&challenge, &signature).unwrap();
        assert!(stored.verify_strict(b"another nonce", &signature).is_err());
        assert!(Plugin::Ed25519.proof("secret", &challenge[1..]).is_err());
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
            let used = |pem: &[u8]| {
                given_key(pem).and_then(|key| encrypted("password", CHALLENGE, &key))
            };
            let _ = used(&pem);
            pem.truncate(cut.index(pem.len()));
            let _ = used(&pem);
        }
    }
}
