//! From a fresh socket to a session: greeting, answer, and the plugins' back and forth.
//!
//! [`Connection::connect`](crate::Connection::connect) calls it once. Invariant: the number of
//! rounds is bounded, and the password goes out as it is only over a local socket or TLS.

use crate::auth::{self, Plugin};
use crate::cursor::Cursor;
use crate::handshake::{self, Challenge, Greeting};
use crate::packet::Channel;
use crate::stream::Upgrade;
use crate::{Compression, Dsn, Error, reply};

/// More packets than any login takes (MariaDB may try several plugins for one account).
const ROUNDS_MAX: usize = 16;
/// The server takes connections over TLS or a local socket only.
const ER_SECURE_TRANSPORT_REQUIRED: u16 = 3159;

const MORE_DATA: u8 = 1;
const SWITCH_PLUGIN: u8 = 0xfe;
const SHA2_REQUEST_KEY: u8 = 2;
const SHA2_FAST_DONE: u8 = 3;
const SHA2_FULL: u8 = 4;

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
    let password = dsn
        .password
        .as_ref()
        .map_or("", |password| password.expose());
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
                [_, SHA2_FULL] => full_proof(channel, password, &challenge, is_local || is_tls)?,
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
    password: &str,
    challenge: &Challenge,
    is_private: bool,
) -> Result<(), Error> {
    if is_private {
        let out = channel.answer();
        out.extend_from_slice(password.as_bytes());
        out.push(0);
        return channel.send();
    }
    channel.answer().push(SHA2_REQUEST_KEY);
    channel.send()?;
    let packet = channel.packet()?;
    let encrypted = match packet.split_first() {
        Some((&MORE_DATA, pem)) => auth::encrypted(password, challenge, pem)?,
        Some((&reply::ERROR, _)) => return Err(reply::server_error(packet)?),
        _ => return Err(Error::protocol("no RSA public key where one was due")),
    };
    channel.answer().extend_from_slice(&encrypted);
    channel.send()
}

#[cfg(test)]
mod tests;
