//! The first two packets of a connection: the server's greeting and our answer to it.
//!
//! The login drives them, [`auth`](crate::auth) computes the proof of the password. Invariant:
//! the capabilities in the answer are ones the server offered.

use std::path::Path;

use waggle_foreign::Printable;

use crate::compress::ZSTD_LEVEL;
use crate::cursor::{Cursor, put_integer};
use crate::{Compression, Dsn, Error, reply};

pub(crate) const LONG_PASSWORD: u32 = 1;
pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
pub(crate) const COMPRESS: u32 = 1 << 5;
pub(crate) const LOCAL_FILES: u32 = 1 << 7;
pub(crate) const PROTOCOL_41: u32 = 1 << 9;
pub(crate) const SSL: u32 = 1 << 11;
pub(crate) const TRANSACTIONS: u32 = 1 << 13;
pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
pub(crate) const MULTI_STATEMENTS: u32 = 1 << 16;
pub(crate) const MULTI_RESULTS: u32 = 1 << 17;
pub(crate) const PS_MULTI_RESULTS: u32 = 1 << 18;
pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
pub(crate) const CONNECT_ATTRS: u32 = 1 << 20;
pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;
pub(crate) const ZSTD_COMPRESSION: u32 = 1 << 26;

/// Without these the rest of this crate does not work; servers have had them since 4.1 or 5.5.
const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION | MULTI_STATEMENTS | MULTI_RESULTS;
/// Used where the server has them. LONG_PASSWORD tells MariaDB that this is a MySQL client,
/// which does not speak of its extended capabilities. LOCAL_FILES promises no file: see
/// [`Connection::load_local`](crate::Connection::load_local).
const WANTED: u32 = NEEDED
    | LONG_PASSWORD
    | LOCAL_FILES
    | TRANSACTIONS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH
    | CONNECT_ATTRS
    | DEPRECATE_EOF;
/// MariaDB's, in the second half of its capabilities: columns of prepared statements are described
/// once, not with every execution.
const MARIADB_CACHE_METADATA: u32 = 1 << 4;
/// One packet for many executions of a prepared statement; older than the one above.
const MARIADB_BULK_OPERATIONS: u32 = 1 << 2;
/// Both or none are used: every server since 10.6 has both.
const MARIADB_EXTENDED: u32 = MARIADB_CACHE_METADATA | MARIADB_BULK_OPERATIONS;
/// Longest command that the server may expect, as MySQL's own client announces it.
const PACKET_BYTES_MAX: u32 = 1 << 30;
/// utf8mb4_general_ci: the one utf8mb4 collation that every MySQL and MariaDB knows.
const UTF8MB4_GENERAL_CI: u8 = 45;
/// Length of the random challenge.
const CHALLENGE_BYTES: usize = 20;
/// A longer name of a program is cut: servers keep 512 bytes of attributes in all by default.
const PROGRAM_NAME_CHARS_MAX: usize = 64;

/// The server's challenge for the proof of the password.
pub(crate) type Challenge = [u8; CHALLENGE_BYTES];

/// What the server says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// As the server gives it, without the "5.5.5-" that MariaDB 10 puts before it.
    pub(crate) version: String,
    pub(crate) connection_id: u32,
    pub(crate) capabilities: u32,
    /// MariaDB's second half of them; 0 for others.
    pub(crate) extended: u32,
    pub(crate) challenge: Challenge,
    pub(crate) plugin: String,
    pub(crate) is_mariadb: bool,
}

impl Greeting {
    /// Reads the greeting; a server that refuses at once sends an error packet instead.
    pub(crate) fn parse(packet: &[u8]) -> Result<Greeting, Error> {
        if packet.first() == Some(&reply::ERROR) {
            return Err(reply::server_error(packet)?);
        }
        let mut cursor = Cursor::new(packet, "greeting");
        let protocol = cursor.u8()?;
        if protocol != 10 {
            return Err(Error::Unsupported(format!(
                "a server that speaks protocol version {protocol} (MySQL and MariaDB speak 10)"
            )));
        }
        let version = Printable::of_bytes(cursor.until_zero()?).into_string();
        let connection_id = cursor.u32()?;
        let mut challenge = [0; CHALLENGE_BYTES];
        challenge[..8].copy_from_slice(cursor.bytes(8)?);
        cursor.u8()?;
        let capabilities_low = cursor.u16()?;
        cursor.bytes(3)?; // character set, status
        let capabilities = u32::from(capabilities_low) | u32::from(cursor.u16()?) << 16;
        cursor.bytes(7)?; // length of the challenge, reserved
        let extended = match capabilities & LONG_PASSWORD {
            0 => cursor.u32()?,
            _ => cursor.bytes(4).map(|_| 0)?,
        };
        if let Some(lacking) = lacking(capabilities) {
            return Err(Error::Unsupported(format!(
                "server {version} without {lacking}"
            )));
        }
        challenge[8..].copy_from_slice(cursor.bytes(12)?);
        let plugin = if capabilities & PLUGIN_AUTH != 0 {
            // The challenge's closing zero; some old servers send no other.
            cursor.u8()?;
            let name = cursor.clone().until_zero().unwrap_or(cursor.rest());
            String::from_utf8_lossy(name).into_owned()
        } else {
            crate::auth::NATIVE.to_owned()
        };
        let is_mariadb = version.contains("MariaDB") || capabilities & LONG_PASSWORD == 0;
        let version = match version.strip_prefix("5.5.5-") {
            Some(version) if is_mariadb => version.to_owned(),
            _ => version,
        };
        Ok(Greeting {
            version,
            connection_id,
            capabilities,
            extended,
            challenge,
            plugin,
            is_mariadb,
        })
    }

    /// The capabilities that both sides use; whether TLS is one of them is decided before. Without
    /// LONG_PASSWORD in them, MariaDB may leave out the columns of prepared statements and takes
    /// bulk executions.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the server lacks what the user asked for.
    pub(crate) fn agreed(&self, dsn: &Dsn, is_tls: bool) -> Result<u32, Error> {
        let mut asked = 0;
        if dsn.database.is_some() {
            asked |= self.offered(CONNECT_WITH_DB, "databases at connect")?;
        }
        match dsn.compression {
            Compression::Off => {}
            Compression::Zlib => asked |= self.offered(COMPRESS, "compression zlib")?,
            Compression::Zstd => asked |= self.offered(ZSTD_COMPRESSION, "compression zstd")?,
        }
        if is_tls {
            asked |= SSL;
        }
        let agreed = WANTED & self.capabilities | asked;
        if agreed & DEPRECATE_EOF != 0 && self.extended & MARIADB_EXTENDED == MARIADB_EXTENDED {
            return Ok(agreed & !LONG_PASSWORD);
        }
        // Set whatever the server says: MariaDB leaves it out by design.
        Ok(agreed | LONG_PASSWORD)
    }

    fn offered(&self, flag: u32, what: &str) -> Result<u32, Error> {
        if self.capabilities & flag != 0 {
            return Ok(flag);
        }
        Err(Error::Unsupported(format!(
            "server {} without {what}",
            self.version
        )))
    }

    /// Whether the server can go on over TLS.
    pub(crate) fn offers_tls(&self) -> bool {
        self.capabilities & SSL != 0
    }
}

fn lacking(capabilities: u32) -> Option<&'static str> {
    [
        (PROTOCOL_41, "the 4.1 protocol"),
        (SECURE_CONNECTION, "4.1 authentication"),
        (MULTI_STATEMENTS, "multiple statements"),
        (MULTI_RESULTS, "multiple results"),
    ]
    .into_iter()
    .find(|(flag, _)| capabilities & flag == 0)
    .map(|(_, name)| name)
}

/// Appends what both the request for TLS, which is no more than this, and the answer begin with.
pub(crate) fn put_beginning(out: &mut Vec<u8>, agreed: u32) {
    out.extend_from_slice(&agreed.to_le_bytes());
    out.extend_from_slice(&PACKET_BYTES_MAX.to_le_bytes());
    out.push(UTF8MB4_GENERAL_CI);
    out.extend_from_slice(&[0; 19]);
    let extended = match agreed & LONG_PASSWORD {
        0 => MARIADB_EXTENDED,
        _ => 0,
    };
    out.extend_from_slice(&extended.to_le_bytes());
}

/// Appends the answer to the greeting.
pub(crate) fn put_answer(out: &mut Vec<u8>, agreed: u32, dsn: &Dsn, plugin: &str, proof: &[u8]) {
    put_beginning(out, agreed);
    out.extend_from_slice(dsn.user.as_bytes());
    out.push(0);
    // Proofs have at most 32 bytes, so that this equals the one length byte of old servers.
    put_integer(out, proof.len() as u64);
    out.extend_from_slice(proof);
    if agreed & CONNECT_WITH_DB != 0 {
        out.extend_from_slice(dsn.database.as_deref().unwrap_or_default().as_bytes());
        out.push(0);
    }
    if agreed & PLUGIN_AUTH != 0 {
        out.extend_from_slice(plugin.as_bytes());
        out.push(0);
    }
    if agreed & CONNECT_ATTRS != 0 {
        put_attributes(out, &program_name());
    }
    if agreed & ZSTD_COMPRESSION != 0 {
        out.push(ZSTD_LEVEL);
    }
}

/// Appends who connects, as `performance_schema.session_connect_attrs` shows it.
fn put_attributes(out: &mut Vec<u8>, program_name: &str) {
    let process_id = std::process::id().to_string();
    let mut pairs = Vec::new();
    for text in [
        "_client_name",
        "waggle",
        "_client_version",
        env!("CARGO_PKG_VERSION"),
        "_pid",
        &process_id,
        "program_name",
        program_name,
    ] {
        put_integer(&mut pairs, text.len() as u64);
        pairs.extend_from_slice(text.as_bytes());
    }
    put_integer(out, pairs.len() as u64);
    out.extend_from_slice(&pairs);
}

/// The file name of the running program, without the directories it lies in.
fn program_name() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    name.chars().take(PROGRAM_NAME_CHARS_MAX).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A greeting as a server sends it.
    pub(crate) fn greeting(version: &str, capabilities: u32, plugin: &str) -> Vec<u8> {
        let mut out = vec![10];
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(b"\0\x07\0\0\0abcdefgh\0");
        out.extend_from_slice(&(capabilities as u16).to_le_bytes());
        out.extend_from_slice(&[45, 2, 0]);
        out.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
        out.push(21);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(b"ijklmnopqrst\0");
        out.extend_from_slice(plugin.as_bytes());
        out.push(0);
        out
    }

    #[test]
    fn reads_both_servers() {
        let packet = greeting("9.7.4", WANTED | CONNECT_WITH_DB, "caching_sha2_password");
        let greeting_mysql = Greeting::parse(&packet).unwrap();
        assert_eq!(greeting_mysql.version, "9.7.4");
        assert_eq!(greeting_mysql.connection_id, 7);
        assert_eq!(&greeting_mysql.challenge, b"abcdefghijklmnopqrst");
        assert_eq!(greeting_mysql.plugin, "caching_sha2_password");
        assert!(!greeting_mysql.is_mariadb);

        let capabilities = (WANTED | CONNECT_WITH_DB) & !LONG_PASSWORD;
        let packet = greeting(
            "5.5.5-10.11.14-MariaDB-0",
            capabilities,
            "mysql_native_password",
        );
        let greeting_mariadb = Greeting::parse(&packet).unwrap();
        assert_eq!(greeting_mariadb.version, "10.11.14-MariaDB-0");
        assert!(greeting_mariadb.is_mariadb);
        let dsn: Dsn = "mysql://u@h".parse().unwrap();
        assert_eq!(greeting_mariadb.agreed(&dsn, false).unwrap(), WANTED);
        let dsn: Dsn = "mysql://u@h/db".parse().unwrap();
        assert_eq!(
            greeting_mariadb.agreed(&dsn, false).unwrap(),
            WANTED | CONNECT_WITH_DB
        );
    }

    #[test]
    fn refusals_say_why() {
        for (packet, errno) in [
            (&b"\xff\x69\x04Host is blocked"[..], 1129),
            (b"\xff\x10\x04Too many connections", 1040),
            (b"\xff\x10\x04#08004Too many connections", 1040),
        ] {
            let error = Greeting::parse(packet).unwrap_err();
            assert_eq!(error.errno(), Some(errno), "{error}");
        }
        let error = Greeting::parse(b"\x09").unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        let packet = greeting("4.0", WANTED & !PROTOCOL_41, "");
        let error = Greeting::parse(&packet).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not supported: server 4.0 without the 4.1 protocol"
        );
    }

    #[test]
    fn the_answer_has_the_protocols_form() {
        let dsn: Dsn = "mysql://me:secret@h/db".parse().unwrap();
        let mut out = Vec::new();
        put_answer(
            &mut out,
            PLUGIN_AUTH | CONNECT_WITH_DB,
            &dsn,
            "plug",
            b"\x01\x02",
        );
        assert_eq!(out[..9], [8, 0, 8, 0, 0, 0, 0, 0x40, 45]);
        assert_eq!(out[32..], *b"me\0\x02\x01\x02db\0plug\0");
        put_answer(&mut out, CONNECT_ATTRS | ZSTD_COMPRESSION, &dsn, "", b"");
        assert_eq!(out.last(), Some(&ZSTD_LEVEL));
    }

    #[test]
    fn attributes_are_pairs_of_texts_within_their_length() {
        let mut out = Vec::new();
        put_attributes(&mut out, "waggle");
        let mut cursor = Cursor::new(&out, "attributes");
        let length = cursor.integer().unwrap();
        let mut texts = Vec::new();
        let mut rest = Cursor::new(cursor.bytes(length as usize).unwrap(), "attributes");
        while !rest.is_empty() {
            texts.push(String::from_utf8_lossy(rest.value().unwrap().unwrap()).into_owned());
        }
        assert!(cursor.is_empty());
        assert_eq!(texts[..2], ["_client_name", "waggle"]);
        assert_eq!(texts[6..], ["program_name", "waggle"]);
        assert!(!program_name().contains('/'));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Greeting::parse(&bytes);
            let _ = Greeting::parse(&[&[10][..], &bytes].concat());
        }

        #[test]
        fn damaged_greetings_are_answered(at in 0usize..80, byte in any::<u8>(),
                                          cut in 0usize..80) {
            let mut packet = greeting("9.7.4", WANTED, "caching_sha2_password");
            let length = packet.len();
            packet[at % length] = byte;
            packet.truncate(cut.max(1));
            let _ = Greeting::parse(&packet);
        }
    }
}
