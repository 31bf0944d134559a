//! From a fresh socket to a session: greeting, answer, and the plugins' back and forth.
//!
//! [`Connection::connect`](crate::Connection::connect) calls it once. Invariants: the number of
//! rounds is bounded; the password goes out as it is only over a local socket or TLS, and encrypted
//! only with a key that the user named or chose to trust; what is no packet of a login, such as a
//! request for a file, ends it.

use rsa::RsaPublicKey;

use crate::auth::{self, Plugin};
use crate::cursor::Cursor;
use crate::handshake::{self, Challenge, Greeting};
use crate::packet::Channel;
use crate::stream::Upgrade;
use crate::{Compression, Dsn, Error, ServerKey, reply};

/// More packets than any login takes (MariaDB may try several plugins for one account).
const ROUNDS_MAX: usize = 16;
/// The server takes connections over TLS or a local socket only.
const ER_SECURE_TRANSPORT_REQUIRED: u16 = 3159;

const MORE_DATA: u8 = 1;
const SWITCH_PLUGIN: u8 = 0xfe;
const SHA2_REQUEST_KEY: u8 = 2;
const SHA2_FAST_DONE: u8 = 3;
const SHA2_FULL: u8 = 4;
/// Whoever poses as the server can ask for the password, so that asking is not enough.
const NOT_HIDDEN: &str = "the server asks for the password itself (caching_sha2_password, full \
    authentication), and the connection is neither over TLS nor a Unix socket. Use \
    ssl-mode=required (or verify-ca, which also checks whose server it is), the server's socket, \
    or server-public-key-path=FILE with its public_key.pem; get-server-public-key=true trusts \
    whoever answers";

/// Logs in over a new channel. Gives the greeting and the agreed capabilities.
pub(crate) fn login<T: Upgrade>(
    channel: &mut Channel<T>,
    dsn: &Dsn,
    is_local: bool,
) -> Result<(Greeting, u32), Error> {
    match log_in(channel, dsn, is_local) {
        Err(Error::Server {
            errno: ER_SECURE_TRANSPORT_REQUIRED,
            message,
            ..
        }) => Err(Error::Unsupported(format!(
            "a server that requires TLS ({message}) without it; set ssl-mode=required or use its \
             Unix socket"
        ))),
        other => other,
    }
}

fn log_in<T: Upgrade>(
    channel: &mut Channel<T>,
    dsn: &Dsn,
    is_local: bool,
) -> Result<(Greeting, u32), Error> {
    let greeting = Greeting::parse(channel.packet()?)?;
    let is_tls = dsn.tls.is_to_start(greeting.offers_tls(), is_local)?;
    let agreed = greeting.agreed(dsn, is_tls)?;
    if is_tls {
        start_tls(channel, dsn, agreed)?;
    }
    let password = password(dsn);
    // A plugin that is not spoken here may be the server's default only, not the account's: the
    // server then asks to switch. The greeting's challenge is too short for ed25519.
    let mut plugin = match Plugin::find(&greeting.plugin) {
        Some(Plugin::CachingSha2) => Plugin::CachingSha2,
        _ => Plugin::Native,
    };
    let mut challenge = greeting.challenge;
    let proof = plugin.proof(password, &challenge)?;
    handshake::put_answer(channel.answer(), agreed, dsn, plugin.name(), &proof);
    channel.send()?;
    for _ in 0..ROUNDS_MAX {
        let packet = channel.packet()?;
        match packet.first() {
            Some(&SWITCH_PLUGIN) => {
                let request;
                (plugin, request) = switch(packet)?;
                let proof = plugin.proof(password, request)?;
                if plugin == Plugin::CachingSha2 {
                    challenge = *auth::begin(request)?;
                }
                channel.answer().extend_from_slice(&proof);
                channel.send()?;
            }
            Some(&MORE_DATA) if plugin == Plugin::CachingSha2 => match packet {
                [_, SHA2_FAST_DONE] => {}
                [_, SHA2_FULL] => full_proof(channel, dsn, &challenge, is_local || is_tls)?,
                _ => return Err(Error::protocol("unknown data in the login")),
            },
            Some(0 | &reply::ERROR) => {
                reply::done(packet)?;
                if dsn.compression != Compression::Off && !channel.is_drained() {
                    return Err(Error::protocol("the server sent more than the login takes"));
                }
                channel.transport.start_compression(dsn.compression)?;
                return Ok((greeting, agreed));
            }
            _ => return Err(Error::protocol("an unknown packet in the login")),
        }
    }
    Err(Error::Auth(format!(
        "the server did not come to an end in {ROUNDS_MAX} rounds"
    )))
}

/// Asks for TLS and goes on over it.
fn start_tls<T: Upgrade>(channel: &mut Channel<T>, dsn: &Dsn, agreed: u32) -> Result<(), Error> {
    // What came before TLS could be anybody's, and would be read as if it had come over TLS.
    if !channel.is_drained() {
        return Err(Error::protocol(
            "the server sent more than its greeting before TLS",
        ));
    }
    handshake::put_beginning(channel.answer(), agreed);
    channel.send()?;
    channel.transport.start_tls(&dsn.tls, &dsn.endpoint)
}

/// Reads a request to use another plugin: which, and its challenge.
fn switch(packet: &[u8]) -> Result<(Plugin, &[u8]), Error> {
    let mut cursor = Cursor::new(packet, "authentication switch");
    cursor.u8()?;
    if cursor.is_empty() {
        return Err(auth::unsupported(b"mysql_old_password"));
    }
    let name = cursor.until_zero()?;
    let plugin = std::str::from_utf8(name).ok().and_then(Plugin::find);
    Ok((
        plugin.ok_or_else(|| auth::unsupported(name))?,
        cursor.rest(),
    ))
}

/// The second stage of `caching_sha2_password`, when the server has no cached proof: the
/// password itself, over TLS or a socket that nobody else reads, or else encrypted.
fn full_proof<T: Upgrade>(
    channel: &mut Channel<T>,
    dsn: &Dsn,
    challenge: &Challenge,
    is_private: bool,
) -> Result<(), Error> {
    let password = password(dsn);
    if is_private {
        let out = channel.answer();
        out.extend_from_slice(password.as_bytes());
        out.push(0);
        return channel.send();
    }
    let key = match &dsn.server_key {
        ServerKey::Refused => return Err(Error::Auth(NOT_HIDDEN.to_owned())),
        ServerKey::Pinned(path) => auth::pinned_key(path)?,
        ServerKey::Asked => asked_key(channel)?,
    };
    let encrypted = auth::encrypted(password, challenge, &key)?;
    channel.answer().extend_from_slice(&encrypted);
    channel.send()
}

/// The key that the other side has, whoever that is.
fn asked_key<T: Upgrade>(channel: &mut Channel<T>) -> Result<RsaPublicKey, Error> {
    channel.answer().push(SHA2_REQUEST_KEY);
    channel.send()?;
    let packet = channel.packet()?;
    match packet.split_first() {
        Some((&MORE_DATA, pem)) => auth::given_key(pem),
        Some((&reply::ERROR, _)) => Err(reply::server_error(packet)?),
        _ => Err(Error::protocol("no RSA public key where one was due")),
    }
}

fn password(dsn: &Dsn) -> &str {
    let password = dsn.password.as_ref();
    password.map_or("", |password| password.expose())
}

#[cfg(test)]
mod tests;
